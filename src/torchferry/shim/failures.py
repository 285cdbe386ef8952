"""Why a program ended under the redirect, told behind its own traceback.

A program whose own guard asked for CUDA, heard True, and then used an extension built for CUDA ends in an ImportError
or a NameError that says nothing of either. The traceback leads to the line; its source, which is parsed and never run,
leads to the guard and to where the extension is imported or loaded.

A field of the device's properties that no other maker has, such as the compute capability, raises and says so. A
program that asks with `getattr(properties, "major", None)`, or a library that sees the plugin's own properties, gets
None, and ends in a TypeError that names neither the field nor the card.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from torchferry.backends.cards import default_card
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.shim import no_device
from torchferry.shim.patches import Patches
from torchferry.shim.program_source import Frame, Program, frames_of_program, path_of, path_of_call, read, shown

_SUFFIX = "-failed-"

_SPAWN = "torch.multiprocessing.spawn"

_NVCC = "nvcc"
_EXTENSION = "CUDAExtension"
"""The compiler and the builder of CUDA's extensions, of which the tables say what a target has instead."""

_MOST = 20
"""Explanations of one command that are shown."""

_OF_CUDA = re.compile(r"lib(?:cuda|cudart|cublas|cudnn|cufft|cusparse|nvrtc|nccl|c10_cuda|torch_cuda)\w*\.so")
"""Libraries that an extension built for CUDA is linked to."""

_OPERATOR = re.compile(r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'")
"""What torch says of an operator that no library has registered."""

_OF_NONE = "'NoneType' object"
"""What Python says of a name that was given None because the extension could not be loaded."""

_BUILT = re.compile(r"cuda|kernel|(?:^|[._])(?:_?c|_?ext|_?ops)(?:$|[._])|_ext|_ops", re.IGNORECASE)


class _MissedExtension(NamedTuple):
    """An extension, where it was needed, and the guard that led there."""

    extension: str
    file: str
    line: int
    guard: int


def patch(patches: Patches, target: Target) -> None:
    """Add the explanation behind the traceback of what nobody catches."""
    before = sys.excepthook

    def report(error: BaseException) -> None:
        try:
            text = explain(error, target)
        except Exception:  # the error itself is shown in any case; nothing may stand in its way
            return
        if text is not None:
            _tell(text)

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        before(kind, error, at)
        report(error)

    def undo() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before

    sys.excepthook = hook
    patches.at_end(undo)
    patches.when_imported(_SPAWN, lambda module: patches.set(module, "_wrap", _reporting(module._wrap, report)))


def _reporting(original: Callable[..., Any], report: Callable[[BaseException], None]) -> Callable[..., Any]:
    """Return what runs the function of a child of `torch.multiprocessing.spawn`, which hands on an error as text."""

    @functools.wraps(original)
    def wrap(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def reported(*given: Any) -> Any:
            try:
                return fn(*given)
            except Exception as error:
                report(error)
                raise

        return original(reported, *args, **kwargs)

    return wrap


def explain(error: BaseException, target: Target) -> str | None:
    """Return why an error ended a program that asked for CUDA; None where nothing is known of it."""
    calculated = _none_of_device(error, target)
    return str(calculated) if calculated is not None else _explain_missed_extension(error, target)


def _explain_missed_extension(error: BaseException, target: Target) -> str | None:
    """Return the extension that an error leads to, and the guard; None where it leads to none."""
    if not isinstance(error, (ImportError, NameError, AttributeError, TypeError, OSError)):
        return None
    missed = _find_missed_extension(error)
    if missed is None:
        return None
    file = shown(missed.file)
    text = say(
        "{file}:{line} needs the extension `{extension}`, which this environment does not have",
        file=file,
        line=missed.line,
        extension=missed.extension,
    )
    lines: list[Message] = [text]
    if missed.guard:
        source = " ".join(linecache.getline(missed.file, missed.guard).split())
        lines.append(
            say(
                "the check at {file}:{guard} led there: `{source}`; under the redirect the program sees a CUDA device",
                file=file,
                guard=missed.guard,
                source=source,
            )
        )
    lines.append(
        porting(
            target,
            say(
                "an extension built for CUDA does not run on {target}: port it, or check for the extension instead",
                target=target.title,
            ),
        )
    )
    return "\n  ".join(map(str, lines))


def porting(target: Target, text: Message) -> Message:
    """Return `text` and what a CUDA extension needs on the target, from its tables."""
    for name, row in (
        (_NVCC, target.row("tools", _NVCC)),
        (_EXTENSION, target.api(f"torch.utils.cpp_extension.{_EXTENSION}")),
    ):
        if row.use:
            text = say("{text}; instead of `{name}` the card has `{use}`", text=text, name=name, use=row.use)
        text = noted(text, row.remark)
    return text


def explanations_left(mark: str) -> list[str]:
    """Return the explanations that the processes of a command left, each once."""
    texts: list[str] = []
    path = Path(mark)
    for left in sorted(path.parent.glob(f"{path.name}{_SUFFIX}*")):
        text = left.read_text(encoding="utf-8", errors="replace")
        if text not in texts:
            texts.append(text)
    return texts[:_MOST]


def _tell(text: str) -> None:
    """Leave the explanation for the end of the command, or print it where no command waits for it."""
    mark = os.environ.get(no_device.MARK, "")
    if mark:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]  # eight ranks have one reason
        try:
            Path(f"{mark}{_SUFFIX}{name}").write_text(text, encoding="utf-8")
            return
        except OSError:
            pass
    print(f"torchferry: {text}", file=sys.stderr, flush=True)


def _find_missed_extension(error: BaseException) -> _MissedExtension | None:
    frames = frames_of_program(error)
    if not frames:
        return None
    file, line = frames[0].file, frames[0].line
    program = read(file)
    if program is None:
        return None
    if isinstance(error, (ImportError, OSError)):
        extension = _missing(error, program, line)
        guard = program.guard_of(line, _looks_built(extension))
        if extension and not guard:
            guarded = _import_guard(frames) if isinstance(error, ImportError) else None
            if guarded is not None:
                return _MissedExtension(extension, *guarded)
        if extension and (guard or _OF_CUDA.search(str(error))):
            return _MissedExtension(extension, file, line, guard)
        return None
    operator = _OPERATOR.search(str(error))
    if operator is not None:
        guard = program.guard_of(line, leaving=True)
        return _MissedExtension(f"torch.ops.{operator[1]}.{operator[2]}", file, line, guard) if guard else None
    for name in _names_in_question(error, program, frames[0]):
        bound = program.extension_of(name)
        if bound is not None:
            extension, at = bound
            leaving = _looks_built(extension) or _looks_built(name)
            guard = program.guard_of(line, leaving) or program.guard_of(at, leaving)
            if guard:
                return _MissedExtension(extension, file, line, guard)
    return None


def _missing(error: BaseException, program: Program, line: int) -> str:
    """Return the extension that could not be imported or loaded at a line; empty where it is none."""
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    if isinstance(error, ImportError):
        return program.imported_at(line) or error.name or ""
    return program.loaded_at(line)


def _import_guard(frames: list[Frame]) -> tuple[str, int, int] | None:
    """Return file, line and guard of the import that led to the modules which were being imported."""
    for inner, outer in itertools.pairwise(frames):
        if inner.frame.f_code.co_name != "<module>":
            return None
        program = read(outer.file)
        guard = 0 if program is None else program.guard_of(outer.line)
        if guard:
            return outer.file, outer.line, guard
    return None


def _names_in_question(error: BaseException, program: Program, frame: Frame) -> Iterator[str]:
    if isinstance(error, NameError):
        yield error.name or ""
    elif _OF_NONE in str(error):
        variables = {**frame.frame.f_globals, **frame.frame.f_locals}
        yield from (name for name in program.used_at(frame.line) if variables.get(name, error) is None)


def _looks_built(name: str) -> bool:
    """Whether a name is one that people give to what they compile."""
    return _BUILT.search(name) is not None


_CAPABILITY = "get_device_capability"
_PROPERTIES = "get_device_properties"

_STEPS = 3
"""How many assignments are followed from a name that is None to what it was given."""


def _none_of_device(error: BaseException, target: Target) -> Message | None:
    """Return where None was calculated with in place of a fact of the device; None for another error."""
    if not isinstance(error, TypeError) or "NoneType" not in str(error):
        return None
    frames = frames_of_program(error)
    program = read(frames[0].file) if frames else None
    if program is None:
        return None
    unset_facts, frame = _unset_facts(target), frames[0]
    for node in _nodes_at(program.statement_at(frame.line), frame.line):
        fact = _unset_fact_behind(program, frame, node, unset_facts, _STEPS)
        if fact:
            return say(
                "{file}:{line} calculates with `{asked}`, which is None because {target} does not "
                "provide it; check for the feature that the program needs, such as "
                "`torch.cuda.is_bf16_supported()`",
                file=shown(frame.file),
                line=frame.line,
                asked=fact,
                target=target.title,
            )
    return None


def _unset_facts(target: Target) -> frozenset[str]:
    """Return the fields and functions that say None, or nothing, of the target's cards."""
    card = default_card(target.backend)
    from torchferry.shim.patch_cuda_namespace import FIELDS  # imported late: the command has no torch

    fields = FIELDS.difference(card.property_names) if card.property_names else frozenset()
    function = {_CAPABILITY} if card.capability is None else set()
    return frozenset({*card.none_properties, *fields, *function})


def _nodes_at(statement: ast.stmt | None, line: int) -> list[ast.expr]:
    """Return the expressions of a statement that stand at a line of it."""
    nodes = (node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.expr))
    return [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]


def _unset_fact_behind(program: Program, frame: Frame, node: ast.AST, unset_facts: frozenset[str], steps: int) -> str:
    """Return the fact that an expression asks for, or that its name was given; empty for another expression."""
    if isinstance(node, ast.Attribute) and node.attr in unset_facts and _asks_for_properties(program):
        return node.attr
    if isinstance(node, ast.Call):
        called = path_of_call(node).rpartition(".")[2]
        if called == _CAPABILITY and called in unset_facts:
            return called
        if called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = str(node.args[1].value)
            return name if name in unset_facts and _asks_for_properties(program) else ""
    if isinstance(node, (ast.Name, ast.Attribute)) and steps and _is_none(frame, node):
        for given in _assigned_values(program.tree, path_of(node)):
            for part in ast.walk(given):
                fact = _unset_fact_behind(program, frame, part, unset_facts, steps - 1)
                if fact:
                    return fact
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


def _assigned_values(tree: ast.Module, path: str) -> list[ast.expr]:
    """Return what is assigned to a name or an attribute anywhere in the file."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(path_of(target) == path for target in node.targets)
    ]
