"""torch's own automatic mixed precision, on a target with its own implementation.

`torch.autocast(...)`, `torch.amp.GradScaler(...)` and the functions that query their state support the devices that
torch knows. A plugin for an old torch has its own `autocast` and `GradScaler`, with other arguments.

Why: torch's classes do not know the device of such a plugin, so mixed precision is off or the call raises.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.portable import MIXED_PRECISION
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import ReferenceRule
from torchferry.source.names import Reference

_OWN = {"autocast": "torch.cuda.amp.autocast", "GradScaler": "torch.cuda.amp.GradScaler"}
_MODULES = ("torch.", "torch.amp.", "torch.amp.autocast_mode.", "torch.amp.grad_scaler.")
_STATE = frozenset({"is_autocast_enabled", "get_autocast_dtype", "get_autocast_gpu_dtype", "set_autocast_gpu_dtype"})


class TorchAmpAbsent(ReferenceRule):
    """Finds torch's own mixed precision where the plugin's takes its place."""

    CODE = "AMP104"
    EFFECT = Effect.WRONG
    ANSWERS = (say("upgrade torch"),)
    BINDS = False
    GROUPS = ()
    WORDS = ("autocast", "GradScaler")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target that torch's own serves, unless what is written is to run on the others too."""
        return self.WORDS if target.backend.AUTOCAST is False or target.module else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        for reference in context.names.references("torch"):
            if context.target.module:
                if reference.name in MIXED_PRECISION and not reference.is_import:
                    yield from self.check_reference(context, reference)
                continue
            module, _, name = reference.name.rpartition(".")
            if f"{module}." not in _MODULES or (name not in _OWN and name not in _STATE):
                continue
            if (
                name in _STATE
                and context.target.api(reference.name).status == "same"
                and not _names_device(context, reference)
            ):
                continue  # the plugin's own sets this very state
            if reference.is_import or exemption_reason(context, reference.node) is not None:
                continue
            use = context.target.api(_OWN[name]).use if name in _OWN else ""
            message = say("`{found}` does not support {target}", found=reference.name, target=context.target.title)
            if use:
                message = say(
                    "`{found}` does not support {target}; use `{use}`, whose arguments differ",
                    found=reference.name,
                    target=context.target.title,
                    use=use,
                )
            yield self.finding(context, context.file.span(reference.node), message, Grade.MANUAL)


def _names_device(context: PythonContext, reference: Reference) -> bool:
    """Whether a use is the call of a function of torch 2.4 and later, which asks for a device type."""
    call = context.file.parents.get(reference.node)
    return isinstance(call, ast.Call) and call.func is reference.node and bool(call.args or call.keywords)
