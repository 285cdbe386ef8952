"""Make the arguments of a written call again, on a device, and call the operator.

Like `reading.py`, it is in the pytest file of each directory too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say, say_plural
from torchferry.numerics.callfile.reading import CALL, DTYPES, FORMATS, LARGEST, LAYOUTS, Call, Refused, find

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
"""What the truth is computed in."""


class Builder:
    """Makes the values of one call.

    Args:
        call: What was read.
        device: Where the tensors go that were on the call's device; those that were on the CPU beside it stay there.
        wider: Make floating point wider, as the truth needs it.
        nudge: Move each floating-point input by up to half a unit in its last place, at random, with this seed; 0 for
            not at all. What then becomes of the results is what rounding alone may do to them.
    """

    def __init__(self, call: Call, device: torch.device, wider: bool = False, nudge: int = 0) -> None:
        self.call = call
        self.device = device
        self.wider = wider
        self.nudge = nudge
        self._own = call.document["device"] != "cpu"
        self._storages: dict[str, Tensor] = {}
        self._tensors: dict[int, Tensor] = {}

    def value(self, node: Any) -> Any:
        """Return the value that a node of the tree represents.

        Raises:
            Refused: it represents none.
        """
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, list):
            return [self.value(part) for part in node]
        if isinstance(node, dict) and len(node) == 1:
            ((tag, content),) = node.items()
            maker = _MAKERS.get(tag)
            if maker is not None:
                try:
                    return maker(self, content)
                except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
                    raise _invalid(node, error) from None
        raise _invalid(node, "unknown")

    def place(self, recorded: str) -> torch.device:
        """Return where something goes that was on the recorded device."""
        if self._own and recorded == "cpu":
            return torch.device("cpu")
        return self.device

    def tensor(self, index: int) -> Tensor:
        """Return a tensor; one that was passed twice is one object again."""
        if type(index) is not int or not 0 <= index < len(self.call.document["tensors"]):
            raise IndexError(index)
        if index not in self._tensors:
            row = self.call.document["tensors"][index]
            base = self._storage(row["storage"])
            dtype = self.dtype(row["dtype"])
            view = (base if base.dtype == dtype else base.view(dtype)).as_strided(
                row["shape"], row["stride"], row["offset"]
            )
            if row.get("conj"):
                view = torch.conj(view)
            if row.get("neg"):
                view = torch._neg_view(view)
            self._tensors[index] = view
        return self._tensors[index]

    def dtype(self, name: str) -> torch.dtype:
        """Return a dtype, or the wider one for the truth."""
        dtype: torch.dtype = DTYPES[name]
        return _WIDER.get(dtype, dtype) if self.wider else dtype

    def _storage(self, name: str) -> Tensor:
        """Return a storage as one line of its first tensor's dtype, on its device."""
        if name not in self._storages:
            row = self.call.document["storages"][name]
            dtype = DTYPES[row["dtype"]]
            if "made" in row:
                line = _made(row["made"], dtype, row["bytes"])
            else:
                line = self.call.storages[name].clone().view(dtype)
            if self.wider and dtype in _WIDER:
                used = {tensor["dtype"] for tensor in self.call.document["tensors"] if tensor["storage"] == name}
                if used != {row["dtype"]}:
                    raise Refused(say("storage `{name}` is used with several dtypes", name=name))
                line = _nudged(line, self.nudge) if self.nudge else line.to(_WIDER[dtype])
            self._storages[name] = line.to(self.place(row["device"]))
        return self._storages[name]

    def generator(self, row: Any) -> torch.Generator:
        """Return a generator: in the state that it had, or on another kind of device with its seed."""
        if not isinstance(row, dict):
            raise TypeError(row)
        generator_made = torch.Generator(device=self.place(str(row["device"])))
        generator_made.manual_seed(int(row["seed"]))
        if generator_made.device.type == str(row["device"]).partition(":")[0] and "state" in row:
            generator_made.set_state(self.tensor(row["state"]).cpu())
        return generator_made


_MAKERS: dict[str, Callable[[Builder, Any], Any]] = {
    "tensor": Builder.tensor,
    "float": lambda builder, text: float(text),
    "complex": lambda builder, parts: complex(float(parts[0]), float(parts[1])),
    "dtype": Builder.dtype,
    "device": lambda builder, text: builder.place(str(text)),
    "layout": lambda builder, name: LAYOUTS[name],
    "memory_format": lambda builder, name: FORMATS[name],
    "generator": Builder.generator,
}


def _invalid(node: Any, error: object) -> Refused:
    return Refused(say("{file} has an invalid value {node}: {error}", file=CALL, node=repr(node)[:100], error=error))


def _made(row: Any, dtype: torch.dtype, size: int) -> Tensor:
    """Return values with the statistics of those that were too many to be written, from a seed."""
    if size > LARGEST:
        raise Refused(
            say_plural(
                "{place} would need {count} byte; the limit is {most}",
                "{place} would need {count} bytes; the limit is {most}",
                place="storages.made",
                count=size,
                most=LARGEST,
            )
        )
    count = size // torch.empty(0, dtype=dtype).element_size()
    source = torch.Generator().manual_seed(int(row["seed"]))
    low, high = float(row["min"]), float(row["max"])
    if dtype == torch.bool:
        return torch.rand(count, generator=source) < float(row["mean"])
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(int(row["min"]), int(row["max"]) + 1, (count,), generator=source).to(dtype)
    parts = [
        torch.randn(count, generator=source).mul_(float(row["std"])).add_(float(row["mean"])).clamp_(low, high)
        for _ in range(2 if dtype.is_complex else 1)
    ]
    return (torch.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)


def _nudged(line: Tensor, seed: int) -> Tensor:
    wide = line.to(_WIDER[line.dtype])
    source = torch.Generator().manual_seed(seed)
    unit = torch.finfo(line.dtype).eps / 2
    return wide * (1 + unit * (2 * torch.rand(wide.shape, generator=source, dtype=torch.float64) - 1))


@dataclass
class Done:
    """A call that was run.

    Attributes:
        args: The arguments, as the operator left them.
        kwargs: The keyword arguments, as the operator left them.
        out: What it returned.
        made: The tensors that it made: arguments that it wrote to, then results of their own.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    out: Any
    made: list[Tensor]


def called(call: Call, device: torch.device, wider: bool = False, nudge: int = 0) -> Done:
    """Make a call's arguments on a device and run it; the program's random streams are as before afterwards.

    Raises:
        Refused: the call cannot be made from what is written.
        Exception: whatever the operator raises.
    """
    if call.described:
        raise Refused(say("this call cannot be run: {why}", why="; ".join(call.described)))
    overload = find(call.name, call.overload, call.document.get("libraries") or ())
    with torch.set_grad_enabled(call.document["grad"]), kept_random_state(device):
        builder = Builder(call, device, wider, nudge)
        args = [builder.value(node) for node in call.document["args"]]
        kwargs = {str(key): builder.value(node) for key, node in call.document["kwargs"].items()}
        if device.type == "cpu":
            _fit_the_cpu(overload, args, kwargs)
        _set_random_state(call, builder, device)
        out = overload(*args, **kwargs)
    return Done(args, kwargs, out, made_by(call, overload, args, kwargs, out))


def made_by(call: Call, overload: Any, args: list[Any], kwargs: dict[str, Any], out: Any) -> list[Tensor]:
    """Return the tensors that a call made: arguments that it wrote to, then results of their own."""
    results: list[Tensor] = []
    for index, name in call.document["written"]:
        results += _tensors(args[index] if index < len(args) else kwargs.get(name))
    if not all(item.alias_info is not None for item in overload._schema.returns):
        results += _tensors(out)
    elif not results:
        results += _tensors(out)  # views
    return results


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _fit_the_cpu(overload: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Say the same to the CPU, which pins no memory and has no softmax that widens while it reads."""
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    for index, argument in enumerate(overload._schema.arguments):
        if argument.name == "half_to_float" and index < len(args) and args[index]:
            args[index] = False
            args[0] = args[0] if args[0].dtype == torch.float64 else args[0].float()


def _device_module(device: torch.device) -> Any:
    return None if device.type in {"cpu", "meta"} else getattr(torch, device.type, None)


@contextmanager
def kept_random_state(device: torch.device) -> Iterator[None]:
    """Leave the random streams of the CPU and of a device as they were."""
    before = torch.get_rng_state()
    module = _device_module(device)
    own = module.get_rng_state(device) if hasattr(module, "get_rng_state") else None
    try:
        yield
    finally:
        torch.set_rng_state(before)
        if own is not None:
            module.set_rng_state(own, device)


def _set_random_state(call: Call, builder: Builder, device: torch.device) -> None:
    """Put the streams where they were before the call; on another kind of device, to a seed."""
    if not call.document["draws"]:
        return
    torch.default_generator.manual_seed(0)
    module = _device_module(device)
    if hasattr(module, "manual_seed"):
        module.manual_seed(0)
    for kind, index in call.document["random"].items():
        state = builder.value({"tensor": index}).cpu()
        try:
            if kind == "cpu":
                torch.set_rng_state(state)
            elif kind == device.type:
                module.set_rng_state(state, device)
        except (RuntimeError, TypeError) as error:
            raise Refused(say("the random state of {kind} cannot be set: {error}", kind=kind, error=error)) from None
