"""Pinned memory, DLPack and fused optimizers on a device that torch leaves out of them.

torch has lists of the devices for which it pins memory (`x.pin_memory()`, `torch.empty(..., pin_memory=True)`), whose
tensors it packs for other libraries (`torch.utils.dlpack.to_dlpack(x)`) and on which an optimizer takes `fused=True`.
Where the target's device is in none of them, such a call raises. Leave out what only affects speed, and move a tensor
to the CPU before another library gets it. `DataLoader(pin_memory=True)` stays: without such memory it warns, and goes
on.

Why: torch raises at the call.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_of, calls_to, keyword_of
from torchferry.rules.distributed.tensors import HOST, place_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect

_PIN, _PACK, _FUSED = "pin_memory", "dlpack", "fused"
"""What torch may leave a device out of: the words of the fact."""

_PACKERS = frozenset({"torch.to_dlpack", "torch.utils.dlpack.to_dlpack"})
_OPTIMIZERS = "torch.optim."


class LeftOutByTorch(Rule):
    """Finds calls for which torch knows some devices, and not the target's."""

    CODE = "DEV116"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.ALL
    WORDS = (_PIN, _PACK, _FUSED)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a device that torch serves."""
        return target.backend.LEFT_OUT_BY_TORCH

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        left_out = context.target.backend.LEFT_OUT_BY_TORCH
        for word, call, message in _calls(context):
            if word in left_out and exemption_reason(context, call) is None:
                yield self.finding(context, context.file.span(call), message, Grade.MANUAL)


def _calls(context: PythonContext) -> Iterator[tuple[str, ast.Call, Message]]:
    """Yield the calls, each with its word and what is said of it."""
    title = context.target.title
    pinned = say("torch pins no memory for {target}: omit it, it only affects speed", target=title)
    for call in calls_of(context, _PIN):
        yield _PIN, call, pinned
    for name, call in calls_to(context):
        if name in _PACKERS and call.args and place_of(context, call.args[0]) != HOST:
            message = say("torch packs no tensors of {target}: move the tensor to the CPU before", target=title)
            yield _PACK, call, message
        elif name.count(".") == 1 and _is_true(call, _PIN):
            yield _PIN, call, pinned
        elif name.startswith(_OPTIMIZERS) and _is_true(call, _FUSED):
            message = say(
                "torch has no fused optimizers for {target}: omit `fused`, it only affects speed", target=title
            )
            yield _FUSED, call, message


def _is_true(call: ast.Call, name: str) -> bool:
    keyword = keyword_of(call, name)
    return keyword is not None and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
