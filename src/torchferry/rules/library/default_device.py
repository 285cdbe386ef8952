"""A call into another library that uses CUDA when no device is named: `timm.data.Mixup(...)`, `create_loader(...)`.

Nothing in the project speaks of CUDA there, and yet the call raises on the target. What each does, until which version
of its library, is in a table. Name the device, or take a newer version. Where the project pins no version, it is
a note.

Why: The call raises on the target, although the project does not mention CUDA there.

References:
- table libraries
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.cuda import DefaultDevice
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.pins import is_older, pinned


class DefaultDeviceRule(Rule):
    """Finds calls into other libraries that use CUDA when no device is named."""

    CODE = "LIB108"
    EFFECT = Effect.RAISES
    ANSWERS = (say("name the device"),)

    def modules(self, target: Target) -> tuple[str, ...]:
        """The libraries of the table."""
        return tuple(dict.fromkeys(entry.library for entry in cuda.default_devices()))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call without a device."""
        for entry in cuda.default_devices():
            for name, call in _calls(context, entry):
                if _names_device(call, entry) or exemption_reason(context, call) is not None:
                    continue
                version = pinned(context.project.root, entry.package) if context.project is not None else ""
                if entry.until and version and not is_older(version, entry.until):
                    continue
                message = say("`{name}` uses CUDA if no device is given: {note}", name=name, note=entry.note)
                grade, effect = Grade.MANUAL, self.EFFECT
                if entry.until and not version:
                    grade, effect = Grade.NOTE, Effect.UNKNOWN
                yield self.finding(context, context.file.span(call.func), message, grade, effect=effect)


def _calls(context: PythonContext, entry: DefaultDevice) -> Iterator[tuple[str, ast.Call]]:
    yield from ((name, call) for name, call in calls_to(context, entry.library) if name in entry.names)
    for name in entry.names if context.names.references(entry.library) else ():
        for node in context.file.attributes.get(name[1:], ()) if name.startswith(".") else ():
            call = context.file.parents.get(node)
            if isinstance(call, ast.Call) and call.func is node:
                yield name[1:], call


def _names_device(call: ast.Call, entry: DefaultDevice) -> bool:
    """Whether a call names the device, may do so by `**`, or switches its use off."""
    if any(keyword.arg in (None, entry.argument) for keyword in call.keywords):
        return True
    if any(isinstance(argument, ast.Starred) for argument in call.args) or 0 <= entry.position < len(call.args):
        return True
    off = keyword_of(call, entry.unless) if entry.unless else None
    return off is not None and isinstance(off.value, ast.Constant) and off.value.value is False
