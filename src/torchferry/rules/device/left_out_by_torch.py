"""Pinned memory, DLPack and fused optimizers on a device that torch leaves out of them.

torch has lists of the devices for which it pins memory (`x.pin_memory()`, `torch.empty(..., pin_memory=True)`), whose
tensors it packs for other libraries (`torch.utils.dlpack.to_dlpack(x)`, `x.__dlpack__()`) and on which an optimizer
takes `fused=True`, also from a dictionary of arguments. Where the target's device is in none of them, such a call
raises; so does a fused optimizer for which the plugin's own operator refuses every call. Leave out what only affects
speed, and move a tensor to the CPU before another library gets it.
`DataLoader(pin_memory=True)` stays: without such memory it warns, and goes on.

Why: torch raises at the call.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator

from torchferry.backends.cards import default_card
from torchferry.backends.kernel_limits import kernel_limits
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
_FUSED_OPERATORS = {
    "Adam": "_fused_adam_",
    "AdamW": "_fused_adamw_",
    "SGD": "_fused_sgd_",
    "Adagrad": "_fused_adagrad_",
}
"""The operator of each fused optimizer of torch (torch/optim, functions that end in `_fused` or begin with it)."""


class LeftOutByTorch(Rule):
    """Finds calls for which torch knows some devices, and not the target's."""

    CODE = "DEV116"
    EFFECT = Effect.RAISES
    BINDS = True
    UNDER_REDIRECT = UnderRedirect.ALL
    WORDS = (_PIN, _PACK, _FUSED)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a device that torch serves, with a plugin that refuses no fused optimizer."""
        left_out = target.backend.LEFT_OUT_BY_TORCH
        return (*left_out, *({_FUSED} - {*left_out} if _refused_optimizers(target) else ()))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call, and for each dictionary of arguments."""
        left_out = context.target.backend.LEFT_OUT_BY_TORCH
        calls = [each for each in _calls(context) if each[0] in left_out]
        for _, node, message in (*calls, *_arguments(context, _FUSED in left_out)):
            if exemption_reason(context, node) is None:
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL)


def _refused_optimizers(target: Target) -> frozenset[str]:
    """Return the optimizers of torch for which the plugin's fused operator refuses every call."""
    limits = kernel_limits(target.backend)
    if limits is None:
        return frozenset()
    card = default_card(target.backend).name
    refusing = {name: limits.refusing(operator, "float32", card) for name, operator in _FUSED_OPERATORS.items()}
    return frozenset(name for name, limit in refusing.items() if limit is not None and limit.dtypes == frozenset())


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


def _arguments(context: PythonContext, is_left_out: bool) -> Iterator[tuple[str, ast.expr, Message]]:
    """Yield the calls and dictionaries that give `fused` to an optimizer of torch, and items that are set to it.

    Args:
        context: The file.
        is_left_out: Whether torch leaves the device out of all fused optimizers; else only those of the file count
            that the plugin refuses.
    """
    refused = None if is_left_out else _refused_optimizers(context.target)
    optimizers: set[ast.AST] = {
        reference.node for reference in context.names.references("torch") if _is_optimizer(reference.name, refused)
    }
    if not optimizers:
        return
    title = context.target.title
    message = say("torch has no fused optimizers for {target}: omit `fused`, it only affects speed", target=title)
    if refused is not None:
        names = ", ".join(f"`{name}`" for name in sorted(refused))
        message = say(
            "the plugin of {target} refuses `fused` for {names}: omit it, it only affects speed",
            target=title,
            names=names,
        )
    for keyword in context.file.keywords.get(_FUSED, ()):
        call = context.file.parents.get(keyword)
        if isinstance(call, ast.Call) and _may_be_on(call, _FUSED) and _is_for(context, call, optimizers, refused):
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


def _is_optimizer(name: str, which: Container[str] | None) -> bool:
    """Whether a name is one of torch's optimizers, of some of them if they are given, or of their module."""
    if name == _OPTIMIZERS.rstrip("."):
        return True
    return name.startswith(_OPTIMIZERS) and (which is None or name.rpartition(".")[2] in which)


def _is_for(context: PythonContext, call: ast.Call, optimizers: set[ast.AST], which: Container[str] | None) -> bool:
    """Whether a call makes an optimizer of torch, or holds arguments for one: `partial(AdamW, ...)`, `dict(...)`."""
    name = context.names.qualified(call.func) or ""
    if name.startswith(_OPTIMIZERS):
        return _is_optimizer(name, which)
    if last_name(call.func) in ("dict", "OrderedDict"):
        return True
    inner = call.func if isinstance(call.func, ast.Call) else call  # getattr(torch.optim, "AdamW")(fused=True)
    is_passed = isinstance(call.func, ast.Call) or last_name(call.func) == "partial"
    return is_passed and any(part in optimizers for argument in inner.args[:1] for part in nodes_in(argument))


def _may_be_on(call: ast.Call, name: str) -> bool:
    keyword = keyword_of(call, name)
    return keyword is not None and not _is_off(keyword.value)


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
