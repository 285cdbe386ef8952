"""A device without kernels, memory and values: torch takes its tensors for those of an accelerator.

It is built on what torch calls a Python backend for the key PrivateUse1, and on fake tensors. One process has one.
"""

from __future__ import annotations

import contextlib
import importlib
import weakref
from collections.abc import Collection, Iterator
from typing import Any

import torch
import torch.utils.backend_registration
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.ops import fake_autocast
from torchferry.ops.composition import IMPLICIT, composition

_SETUP = "_setup_privateuseone_for_python_backend"

_PLAIN_NAME = "card"


def set_up(device: str, registered: Collection[str]) -> str:
    """Make a device of that type, and return the type that its tensors have.

    Where torch would compose an operator of others, gradient and all, although the plugin registers it, the device
    registers it too: what the plugin is asked for depends on it.

    Args:
        device: Name of the type; one that torch has itself, such as `xla`, cannot be made, and another one is.
        registered: Operators that the plugin registers and leaves the gradient of to torch, without `aten::`.

    Raises:
        TorchferryError: this torch has no such device.
    """
    setup = getattr(torch.utils.backend_registration, _SETUP, None)
    if setup is None:
        raise TorchferryError(
            say(
                "torch {version} cannot make the device without memory on which a model is predicted",
                version=torch.__version__,
            ),
            say("predict with torch 2.13, or run the program: `torchferry ops trace -t NAME -- COMMAND`"),
        )
    try:
        torch.device(device)
        named = _PLAIN_NAME
    except RuntimeError:  # torch does not know it yet
        named = device
    setup(named)
    _register(registered)
    fake_autocast.start(named)
    # nothing is there to be initialised: torch would call an operator for it that nobody has
    FakeTensorMode.avoid_device_init = property(lambda mode: True)  # type: ignore[assignment,method-assign]
    for module in ("torch.utils._foreach_utils", "torch.optim.optimizer"):
        kinds: list[Any] = importlib.import_module(module)._foreach_supported_types
        if FakeTensor not in kinds:
            kinds.append(FakeTensor)
    return named


_library: Any = None


def _register(registered: Collection[str]) -> None:
    global _library  # noqa: PLW0603 - it takes its registrations back when it goes
    _library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for name in sorted(registered):
        if composition(f"aten::{name}") == IMPLICIT:
            with contextlib.suppress(RuntimeError):  # of another torch
                _library.impl(name, _refuse)


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("a fake device has no kernels")


@contextlib.contextmanager
def fake_tensors(device: str) -> Iterator[None]:
    """Within the context, what is made without naming a device is made on the fake one."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
    plain = torch.utils.swap_tensors

    def swap_tensors(one: torch.Tensor, other: torch.Tensor) -> None:
        """Swap tensors that the mode remembers, too: `model.to(device)` swaps parameters, and refuses such ones."""
        for tensor in (one, other):
            _forget(mode, tensor)
        plain(one, other)

    torch.utils.swap_tensors = swap_tensors
    functions: Any = torch._VF
    functions._pad_packed_sequence = _pad_packed_sequence
    try:
        with mode, torch.device(device):
            yield
    finally:
        del functions._pad_packed_sequence
        torch.utils.swap_tensors = plain


def _pad_packed_sequence(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what torch's function does, which writes the lengths into memory that a fake tensor has none of.

    Source: `ATen/native/PackedSequence.cpp`: a full tensor, into which each run of steps of one size is copied.
    """
    sizes = [int(each) for each in batch_sizes]
    steps = max(total_length, len(sizes))
    out = data.new_full((steps, sizes[0], *data.shape[1:]), padding_value)
    at = offset = 0
    while at < len(sizes):
        size = sizes[at]
        run = sum(1 for each in sizes[at:] if each == size)
        part = data.narrow(0, offset, run * size).view(run, size, *data.shape[1:])
        out.narrow(0, at, run).narrow(1, 0, size).copy_(part)
        at, offset = at + run, offset + run * size
    with _disable_current_modes():
        lengths = torch.tensor([sum(each > row for each in sizes) for row in range(sizes[0])], device="cpu")
    return (out.transpose(0, 1) if batch_first else out), lengths


def _forget(mode: FakeTensorMode, tensor: torch.Tensor) -> None:
    """Make a mode forget of what it made a tensor, which it keeps by weak references."""
    memo = mode.fake_tensor_converter.meta_converter.tensor_memo
    keys = [ref.key for ref in weakref.getweakrefs(tensor) if isinstance(ref, weakref.KeyedRef)]
    for key in keys:
        memo.pop(key, None)
