"""A call that lets a library choose between CUDA and the CPU: `whisper.load_model("base")`, `clip.load(...)`.

The library calls `torch.cuda.is_available()` and uses the CPU on the target. Pass the device. A table lists such
calls. Libraries that support the target are not reported, nor are models that the program moves itself.

Why: The model silently runs on the CPU, many times slower.

References:
- table libraries
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.cuda import DeviceChoice
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.pins import is_older, pinned

_MOVES = frozenset({"to", "cuda"})


class ChosenDevice(Rule):
    """Finds calls that leave the choice between CUDA and the CPU to a library."""

    CODE = "LIB112"
    EFFECT = Effect.WRONG
    ANSWERS = (say("name the device"),)
    UNDER_REDIRECT = UnderRedirect.NOTHING

    def modules(self, target: Target) -> tuple[str, ...]:
        """The libraries of the table that do not know the target."""
        libraries = dict.fromkeys(choice.library for choice in cuda.device_choices())
        return tuple(library for library in libraries if target.library(library).status != "knows")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that leaves the device to the library."""
        for choice in cuda.device_choices():
            if context.target.library(choice.library).status == "knows":
                continue
            for name, call in _calls(context, choice):
                given = _given(call, choice)
                if given is None and not _is_left(context, call, choice):
                    continue
                if given is not None and not (isinstance(given, ast.Constant) and given.value in choice.values):
                    continue
                if exemption_reason(context, call) is not None or _is_moved(context, call):
                    continue
                yield self._report(context, choice, name, call, given)

    def _report(
        self, context: PythonContext, choice: DeviceChoice, name: str, call: ast.Call, given: ast.expr | None
    ) -> Finding:
        row = context.target.row("frameworks", choice.row) if choice.row else None
        device = row.use if row is not None and row.status in REWRITTEN else context.target.backend.DEVICE_TYPE
        written = f'"{device}"' if choice.argument and (row is None or row.status in REWRITTEN) and device else ""
        message = say(
            "`{name}` uses CUDA if available, otherwise the CPU: on {target} it silently computes on the CPU",
            name=name,
            target=context.target.title,
        )
        if written:
            message = say("{message}; pass `{argument}={use}`", message=message, argument=choice.argument, use=written)
        for remark in (choice.note, row.remark if row is not None else None):
            message = noted(message, remark)
        span = context.file.span(call.func)
        edit = None
        if written and given is not None:
            edit = Edit(*context.file.span(given), written)
        elif written and not any(isinstance(argument, ast.Starred) for argument in call.args):
            edit = _argument_added(context, call, f"{choice.argument}={written}")
        grade = Grade.UNSAFE if edit is not None else Grade.MANUAL
        if choice.since and given is None and not _pinned(context, choice):
            grade, edit = Grade.MANUAL, None  # older versions take the CPU everywhere, unless they are told
        return self.finding(context, span, message, grade, [edit] if edit is not None else [])


def _calls(context: PythonContext, choice: DeviceChoice) -> Iterator[tuple[str, ast.Call]]:
    references = context.names.references(choice.library)
    for reference in references:
        call = context.file.parents.get(reference.node)
        if reference.name in choice.names and isinstance(call, ast.Call) and call.func is reference.node:
            yield reference.name, call
    for name in choice.names if references else ():
        maker, _, method = name.partition("().")
        for node in context.file.attributes.get(method, ()) if method else ():
            call = context.file.parents.get(node)
            if isinstance(call, ast.Call) and call.func is node and _is_made_by(context, node.value, maker):
                yield name, call


def _is_made_by(context: PythonContext, value: ast.expr, maker: str) -> bool:
    """Whether an object is made by a class: `YOLO("x.pt")`, or a variable that holds one."""
    from torchferry.source.names import assigned_value

    values: list[ast.expr | None] = [value]
    if isinstance(value, ast.Name):
        values = [assigned_value(context.file, binding) for binding in context.names.reaching_bindings(value)]
    return bool(values) and all(
        isinstance(each, ast.Call) and context.names.qualified(each.func) == maker for each in values
    )


def _given(call: ast.Call, choice: DeviceChoice) -> ast.expr | None:
    """Return the argument that names the device, or None."""
    keyword = keyword_of(call, choice.argument) if choice.argument else None
    if keyword is not None:
        return keyword.value
    return call.args[choice.position] if 0 <= choice.position < len(call.args) else None


def _is_left(context: PythonContext, call: ast.Call, choice: DeviceChoice) -> bool:
    """Whether a call without the argument leaves the device to the library."""
    if not choice.absent or any(keyword.arg is None or keyword.arg in choice.excludes for keyword in call.keywords):
        return False
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    version = _pinned(context, choice)
    return not (choice.since and version and is_older(version, choice.since))


def _pinned(context: PythonContext, choice: DeviceChoice) -> str:
    return pinned(context.project.root, choice.package) if context.project is not None else ""


def _is_moved(context: PythonContext, call: ast.Call) -> bool:
    """Whether the program moves what the call gives, at once or by the variable that holds it."""
    outer = context.file.parents.get(call)
    if isinstance(outer, ast.Attribute):
        return outer.attr in _MOVES
    if not isinstance(outer, ast.Assign):
        return False
    targets = [
        item
        for target in outer.targets
        for item in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])
    ]
    texts = {context.file.text(target) for target in targets}
    return any(
        context.file.text(node.value) in texts for move in _MOVES for node in context.file.attributes.get(move, ())
    )


def _argument_added(context: PythonContext, call: ast.Call, argument: str) -> Edit | None:
    """Return the edit that gives a call one more argument; None where a comment stands behind the last one."""
    _, end = context.file.span(call)
    spans = [context.file.span(given) for given in (*call.args, *call.keywords)]
    last = max((stop for _, stop in spans), default=end - 1)
    if context.text[last : end - 1].strip() not in ("", ","):
        return None
    return Edit(last, last, f", {argument}" if spans else argument)
