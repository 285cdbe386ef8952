"""Pinned memory, DLPack and fused optimizers on a device that torch leaves out of them.

torch has lists of the devices for which it pins memory (`x.pin_memory()`, `torch.empty(..., pin_memory=True)`), whose
tensors it packs for other libraries (`torch.utils.dlpack.to_dlpack(x)`, `x.__dlpack__()`) and on which an optimizer
takes `fused=True`, also from a dictionary of arguments. Where the target's device is in none of them, such a call
raises. Leave out what only affects speed, and move a tensor to the CPU before another library gets it.
`DataLoader(pin_memory=True)` stays: without such memory it warns, and goes on.

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
from torchferry.rules.distributed.tensors import CARD, HOST, place_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in

_PIN, _PACK, _FUSED = "pin_memory", "dlpack", "fused"
"""What torch may leave a device out of: the words of the fact."""

_PACKERS = frozenset({"torch.to_dlpack", "torch.utils.dlpack.to_dlpack"})
_TAKERS = frozenset({"torch.from_dlpack", "torch.utils.dlpack.from_dlpack"})
"""Functions that ask what they are given to pack itself, where it is no capsule yet."""
_OPTIMIZERS = "torch.optim."


class LeftOutByTorch(Rule):
    """Finds calls for which torch knows some devices, and not the target's."""

    CODE = "DEV116"
    EFFECT = Effect.RAISES
    BINDS = True
    UNDER_REDIRECT = UnderRedirect.ALL
    WORDS = (_PIN, _PACK, _FUSED)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a device that torch serves."""
        return target.backend.LEFT_OUT_BY_TORCH

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call, and for each dictionary of arguments."""
        left_out = context.target.backend.LEFT_OUT_BY_TORCH
        for word, node, message in (*_calls(context), *_arguments(context)):
            if word in left_out and exemption_reason(context, node) is None:
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL)


def _calls(context: PythonContext) -> Iterator[tuple[str, ast.Call, Message]]:
    """Yield the calls, each with its word and what is said of it."""
    title = context.target.title
    pinned = say("torch pins no memory for {target}: omit it, it only affects speed", target=title)
    packed = say("torch packs no tensors of {target}: move the tensor to the CPU first", target=title)
    for call in calls_of(context, _PIN):
        yield _PIN, call, pinned
    for call in calls_of(context, "__dlpack__"):
        if isinstance(call.func, ast.Attribute) and place_of(context, call.func.value) != HOST:
            yield _PACK, call, packed
    for name, call in calls_to(context):
        if (name in _PACKERS and call.args and place_of(context, call.args[0]) != HOST) or (
            name in _TAKERS and call.args and place_of(context, call.args[0]) == CARD
        ):
            yield _PACK, call, packed
        elif name.count(".") == 1 and _may_be_on(call, _PIN):
            yield _PIN, call, pinned


def _arguments(context: PythonContext) -> Iterator[tuple[str, ast.expr, Message]]:
    """Yield the calls and dictionaries that give `fused` to an optimizer of torch, and items that are set to it."""
    optimizers: set[ast.AST] = {
        reference.node for reference in context.names.references("torch") if _is_optimizer(reference.name)
    }
    if not optimizers:
        return
    message = say(
        "torch has no fused optimizers for {target}: omit `fused`, it only affects speed", target=context.target.title
    )
    for keyword in context.file.keywords.get(_FUSED, ()):
        call = context.file.parents.get(keyword)
        if isinstance(call, ast.Call) and _may_be_on(call, _FUSED) and _is_for(context, call, optimizers):
            yield _FUSED, call, message
    for node in context.file.strings:
        if node.value != _FUSED:
            continue
        parent = context.file.parents.get(node)
        if isinstance(parent, ast.Dict) and node in parent.keys:
            if not _is_off(parent.values[parent.keys.index(node)]):
                yield _FUSED, parent, message
        elif isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
            statement = context.file.parents.get(parent)
            if isinstance(statement, ast.Assign) and not _is_off(statement.value):
                yield _FUSED, parent, message


def _is_optimizer(name: str) -> bool:
    return name.startswith(_OPTIMIZERS) or name == _OPTIMIZERS.rstrip(".")


def _is_for(context: PythonContext, call: ast.Call, optimizers: set[ast.AST]) -> bool:
    """Whether a call makes an optimizer of torch, or holds arguments for one: `partial(AdamW, ...)`, `dict(...)`."""
    if _is_optimizer(context.names.qualified(call.func) or "") or last_name(call.func) in ("dict", "OrderedDict"):
        return True
    inner = call.func if isinstance(call.func, ast.Call) else call  # getattr(torch.optim, "AdamW")(fused=True)
    is_passed = isinstance(call.func, ast.Call) or last_name(call.func) == "partial"
    return is_passed and any(part in optimizers for argument in inner.args[:1] for part in nodes_in(argument))


def _may_be_on(call: ast.Call, name: str) -> bool:
    keyword = keyword_of(call, name)
    return keyword is not None and not _is_off(keyword.value)


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
