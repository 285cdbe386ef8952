"""Why a program ended that calculates with what the card does not say of itself.

A field of the device's properties that no other maker has, such as the compute capability, raises and says so. A
program that asks with `getattr(properties, "major", None)`, or a library that sees the plugin's own properties, gets
None, and ends in a TypeError that names neither the field nor the card.
"""

from __future__ import annotations

import ast

from torchferry.backends.cards import default_card
from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.shim.device_properties import FIELDS
from torchferry.shim.program_source import Frame, Program, frames_of_program, path_of, path_of_call, read, shown

_CAPABILITY = "get_device_capability"
_PROPERTIES = "get_device_properties"

_STEPS = 3
"""How many assignments are followed from a name that is None to what it was given."""


def explain(error: BaseException, target: Target) -> Message | None:
    """Return where None was calculated with in place of a fact of the device; None for another error."""
    if not isinstance(error, TypeError) or "NoneType" not in str(error):
        return None
    frames = frames_of_program(error)
    program = read(frames[0].file) if frames else None
    if program is None:
        return None
    unsaid, frame = _unsaid(target), frames[0]
    for node in _nodes_at(program.statement_at(frame.line), frame.line):
        asked = _asked(program, frame, node, unsaid, _STEPS)
        if asked:
            return say(
                "{file}:{line} calculates with `{asked}`, which {target} does not say of its device, so that it is "
                "None; decide by what the program needs, such as `torch.cuda.is_bf16_supported()`",
                file=shown(frame.file),
                line=frame.line,
                asked=asked,
                target=target.title,
            )
    return None


def _unsaid(target: Target) -> frozenset[str]:
    """Return the fields and functions that say None, or nothing, of the target's cards."""
    card = default_card(target.backend)
    fields = FIELDS.difference(card.property_names) if card.property_names else frozenset()
    function = {_CAPABILITY} if card.capability is None else set()
    return frozenset({*card.none_properties, *fields, *function})


def _nodes_at(statement: ast.stmt | None, line: int) -> list[ast.expr]:
    """Return the expressions of a statement that stand at a line of it."""
    nodes = (node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.expr))
    return [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]


def _asked(program: Program, frame: Frame, node: ast.AST, unsaid: frozenset[str], steps: int) -> str:
    """Return the fact that an expression asks for, or that its name was given; empty for another expression."""
    if isinstance(node, ast.Attribute) and node.attr in unsaid and _asks_for_properties(program):
        return node.attr
    if isinstance(node, ast.Call):
        called = path_of_call(node).rpartition(".")[2]
        if called == _CAPABILITY and called in unsaid:
            return called
        if called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = str(node.args[1].value)
            return name if name in unsaid and _asks_for_properties(program) else ""
    if isinstance(node, (ast.Name, ast.Attribute)) and steps and _is_none(frame, node):
        for given in _given(program.tree, path_of(node)):
            for part in ast.walk(given):
                asked = _asked(program, frame, part, unsaid, steps - 1)
                if asked:
                    return asked
    return ""


def _asks_for_properties(program: Program) -> bool:
    return any(
        isinstance(node, (ast.Attribute, ast.Name)) and path_of(node).endswith(_PROPERTIES)
        for node in ast.walk(program.tree)
    )


def _is_none(frame: Frame, node: ast.Name | ast.Attribute) -> bool:
    """Whether a name of the frame is None, or an attribute of one of its names; nothing of the program is called."""
    variables = {**frame.frame.f_globals, **frame.frame.f_locals}
    if isinstance(node, ast.Name):
        return variables.get(node.id, frame) is None
    owner = variables.get(node.value.id) if isinstance(node.value, ast.Name) else None
    return getattr(owner, "__dict__", {}).get(node.attr, frame) is None


def _given(tree: ast.Module, path: str) -> list[ast.expr]:
    """Return what is assigned to a name or an attribute anywhere in the file."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(path_of(target) == path for target in node.targets)
    ]
