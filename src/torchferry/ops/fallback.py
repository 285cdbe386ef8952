"""Runs single operators of an accelerator on the CPU, and counts what that costs.

    from torchferry.ops import cpu_fallback

    cpu_fallback(["aten::tril.out"])

Each such operator gets a kernel for the device's dispatch key that copies its tensors to the CPU, calls the operator
there, and copies back what it returned or wrote. Nothing is silent: calls and bytes are printed when the process ends.
"""

from __future__ import annotations

import atexit
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import say, say_plural
from torchferry.core.terminal import print_notice


@dataclass
class FallbackCount:
    """What running one operator on the CPU cost.

    Attributes:
        calls: Calls.
        bytes: Bytes that were copied, there and back.
    """

    calls: int = 0
    bytes: int = 0


_counts: dict[str, FallbackCount] = {}
_libraries: list[torch.library.Library] = []
"""Registrations end with the objects that made them."""


def cpu_fallback(names: Iterable[str], key: str = "", *, quiet: bool = False) -> dict[str, FallbackCount]:
    """Run operators on the CPU from now on, where they are called on the accelerator.

    Args:
        names: Operators with namespace and overload: `aten::tril.out`; `aten.tril.out` and `tril.out` mean the same.
        key: The dispatch key of the device; empty for that of the plugin, `PrivateUse1`.
        quiet: Print nothing when the process ends.

    Returns:
        The counts, by operator; they grow with each call.

    Raises:
        UsageError: torch has no such operator, or no CPU kernel for it, or it is composed of others.
    """
    wanted = [full_name(name) for name in names]
    for name in wanted:
        _check(name)
    if not _counts and not quiet:
        atexit.register(_tell)
    for name in wanted:
        if name not in _counts:
            _counts[name] = FallbackCount()
            _install(name, key or "PrivateUse1", _counts[name])
    return {name: _counts[name] for name in wanted}


def full_name(text: str) -> str:
    """Return an operator's name as the dispatcher has it: `aten::tril.out`."""
    name = text.strip()
    if "::" not in name:
        name = f"aten::{name.removeprefix('aten.')}"
    return name.removesuffix(".default")


def _check(name: str) -> None:
    base, _, overload = name.partition(".")
    try:
        torch._C._get_schema(base, overload)
    except RuntimeError:
        known = [each for each in torch._C._dispatch_get_all_op_names() if each.partition(".")[0] == base]
        near = known or [each for each in torch._C._dispatch_get_all_op_names() if each.startswith("aten::")]
        raise unknown_name("operator", name, near) from None
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        raise UsageError(say("`{name}` has no kernel on the CPU, so it cannot run there", name=name))
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
        raise UsageError(
            say(
                "`{name}` and its gradient are composed of other operators: there is nothing to run on the CPU in "
                "its place",
                name=name,
            ),
            say("name the missing ones of these operators: `torchferry ops report` lists them"),
        )


def _install(name: str, key: str, count: FallbackCount) -> None:
    space, _, plain = name.partition("::")
    base, _, overload = plain.partition(".")
    operator: Any = getattr(getattr(getattr(torch.ops, space), base), overload or "default")
    arguments = operator._schema.arguments
    written = [
        (index, argument.name)
        for index, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        device = _device((args, kwargs))
        count.calls += 1
        on_cpu = torch.utils._pytree.tree_map(lambda value: _moved(value, count), (args, kwargs))
        result = operator(*on_cpu[0], **on_cpu[1])
        aliases: dict[int, Any] = {}
        for index, argument in written:
            old = args[index] if index < len(args) else kwargs.get(argument)
            new = on_cpu[0][index] if index < len(args) else on_cpu[1].get(argument)
            _write_back(old, new, count, aliases)
        return torch.utils._pytree.tree_map(lambda value: _returned(value, device, count, aliases), result)

    library = torch.library.Library(space, "IMPL")
    if "allow_override" in inspect.signature(library.impl).parameters:
        library.impl(plain, kernel, key, allow_override=True)
    else:
        library.impl(plain, kernel, key)
    _libraries.append(library)


def _device(values: Any) -> torch.device | None:
    """Return the device of a call: its tensors', or the one that it names."""
    leaves = torch.utils._pytree.tree_leaves(values)
    devices = [leaf.device for leaf in leaves if isinstance(leaf, Tensor) and leaf.device.type != "cpu"]
    named = [leaf for leaf in leaves if isinstance(leaf, torch.device) and leaf.type != "cpu"]
    return next(iter([*devices, *named]), None)


def _moved(value: Any, count: FallbackCount) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if not isinstance(value, Tensor) or value.device.type == "cpu":
        return value
    count.bytes += value.numel() * value.element_size()
    return value.detach().cpu()


def _write_back(old: Any, new: Any, count: FallbackCount, aliases: dict[int, Any]) -> None:
    """Copy what the CPU wrote into the device's tensor, or into those of a list."""
    if isinstance(old, (list, tuple)):
        for one, other in zip(old, new, strict=True):
            _write_back(one, other, count, aliases)
    elif isinstance(old, Tensor) and old is not new:
        with torch.no_grad():
            if old.shape != new.shape:
                old.resize_(new.shape)
            old.copy_(new)
        count.bytes += new.numel() * new.element_size()
        aliases[id(new)] = old


def _returned(value: Any, device: torch.device | None, count: FallbackCount, aliases: dict[int, Any]) -> Any:
    if not isinstance(value, Tensor):
        return value
    if id(value) in aliases:
        return aliases[id(value)]
    if device is None:
        return value
    count.bytes += value.numel() * value.element_size()
    return value.to(device)


def summary() -> list[str]:
    """Return what was run on the CPU, one line for each operator."""
    lines = []
    for name, count in sorted(_counts.items(), key=lambda item: -item[1].calls):
        calls = say_plural("{count} call", "{count} calls", count=count.calls)
        lines.append(
            say("{operator} on the CPU: {calls}, copied: {bytes} B", operator=name, calls=calls, bytes=count.bytes)
            .render()
        )  # fmt: skip
    return lines


def _tell() -> None:
    for line in summary():
        print_notice(f"torchferry: {line}")
