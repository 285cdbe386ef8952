"""Weights that are read onto the device, in code for every device: `load_file(path, device="cuda")`.

safetensors knows the devices of some vendors and raises for the others. `migrate --style portable` writes
`device_utils.load_safetensors(path)`, which reads each tensor on the CPU and moves it, so that it serves every device.
A numbered card, and a device that a variable names, are left to `DEV101` and `LIB109`.

Why: On some devices `load_file` raises, and code for every device cannot name one that it knows.

References:
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.random.portable_generator import writes_manager

_FUNCTION = "safetensors.torch.load_file"

_ENDING = lazy_regex(r"\s*,\s*(?:device\s*=\s*)?(['\"])cuda\1\s*(?:,\s*)?\)")
"""What stands behind the path: no comment, and no parenthesis that was opened before it."""


class PortableWeights(Rule):
    """Finds weights that are read onto the device."""

    CODE = "LIB121"
    EFFECT = Effect.RAISES
    WORDS = ("load_file",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where one vendor's names are written."""
        return self.WORDS if writes_manager(target) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for device, call in loaded_weights(context):
            use = f"{context.target.module}.load_safetensors"
            path = next((given for given in call.args if given is not device), None)
            keywords = [keyword for keyword in call.keywords if keyword.value is not device]
            given = path if path is not None else keywords[0].value
            edits = [
                Edit(*context.file.span(call.func), use),
                Edit(context.file.span(given)[1], context.file.span(call)[1] - 1, ""),
            ]
            if path is None:
                named = context.file.span(keywords[0])[0]
                edits.insert(1, Edit(named, context.file.span(given)[0], ""))
            message = say("`{found}` is `{use}` on every device", found="load_file(..., device=...)", use=use)
            yield self.finding(
                context, context.file.span(device), message, Grade.SAFE, edits, imports=portable_imports(context)
            )


def loaded_weights(context: PythonContext) -> Iterator[tuple[ast.Constant, ast.Call]]:
    """Yield the device string and the call of each `load_file(path, device="cuda")`, with nothing behind the device."""
    if not writes_manager(context.target):
        return
    for name, call in calls_to(context, "safetensors"):
        if name != _FUNCTION:
            continue
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        names = [keyword.arg for keyword in call.keywords]
        if len(given) != 2 or any(isinstance(item, ast.Starred) for item in given):
            continue
        device = given[1]
        if (
            isinstance(device, ast.Constant)
            and device.value == "cuda"
            and names in ([], ["device"], ["filename", "device"])
            and _ENDING.fullmatch(context.text[context.file.span(given[0])[1] : context.file.span(call)[1]]) is not None
            and exemption_reason(context, device) is None
        ):
            yield device, call


def is_loaded_weight(context: PythonContext, node: ast.AST) -> bool:
    """Whether a device string goes with the function that it is given to."""
    return any(device is node for device, _ in loaded_weights(context))
