"""A device given to a function of a library that takes a fixed list of devices: `load_file(path, device="cuda")`.

safetensors parses the name of the device by itself and raises for one that it does not know. Load on the CPU and move
the tensors.

Why: The library refuses the device name and raises.

References:
- table libraries
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.library.portable_weights import is_loaded_weight


class RefusedDevice(Rule):
    """Finds devices given to functions that refuse the target's."""

    CODE = "LIB109"
    EFFECT = Effect.RAISES
    ANSWERS = (say("run it on the CPU"), say("use another package"))

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(sorted({name.rpartition(".")[2] for name in target.refusing_functions}))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that names a device."""
        for name, argument in refused_arguments(context):
            if exemption_reason(context, argument) is not None or is_loaded_weight(context, argument):  # LIB121
                continue
            package = context.target.package_of_module(name)
            row = package[1] if package is not None else context.target.row("packages", name.partition(".")[0])
            message = noted(
                say("`{found}` refuses the device of {target}", found=name, target=context.target.title), row.remark
            )
            yield self.finding(context, context.file.span(argument), message, Grade.MANUAL)


def refused_arguments(context: PythonContext) -> Iterator[tuple[str, ast.expr]]:
    """Yield the devices of calls that refuse the target's, each with the function's name."""
    functions = context.target.refusing_functions
    for package in sorted({name.partition(".")[0] for name in functions}):
        for name, call in calls_to(context, package):
            position = functions.get(name)
            if position is None:
                continue
            keyword = keyword_of(call, "device")
            argument = keyword.value if keyword is not None else call.args[position : position + 1]
            for given in argument if isinstance(argument, list) else [argument]:
                if not (isinstance(given, ast.Constant) and given.value in (None, "cpu")):
                    yield name, given


def is_refused(context: PythonContext, node: ast.AST) -> bool:
    """Whether a place is part of a device that a function refuses."""
    arguments = {argument for _, argument in refused_arguments(context)}
    current: ast.AST | None = node if arguments else None
    while current is not None and not isinstance(current, ast.stmt):
        if current in arguments:
            return True
        current = context.file.parents.get(current)
    return False
