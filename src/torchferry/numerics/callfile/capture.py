"""Copy the arguments of a call to the host before it runs, once a storage, and describe them as a tree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.numerics.callfile.reading import DTYPES, FORMATS, LAYOUTS, Call
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import operator

# Values that are too many to be written: their statistics, from which others like them are made.

_PIECE = 2**24
"""Elements that are looked at at a time."""


def statistics(tensor: Tensor, seed: int) -> dict[str, Any]:
    """Describe a tensor by what is needed to make another one like it; the seed says which."""
    count = total = square = 0.0
    nan = infinite = 0
    low, high = math.inf, -math.inf
    for piece in _pieces(tensor.detach()):
        values = piece.cpu().resolve_conj().resolve_neg()
        if values.is_complex():
            values = torch.view_as_real(values.to(torch.complex128))
        values = values.to(torch.float64).flatten()
        finite = values[torch.isfinite(values)]
        nan += int(torch.isnan(values).sum())
        infinite += int(torch.isinf(values).sum())
        if finite.numel():
            count += finite.numel()
            total += float(finite.sum())
            square += float(finite.square().sum())
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    mean = total / count if count else 0.0
    deviation = math.sqrt(max(square / count - mean * mean, 0.0)) if count and math.isfinite(square) else 0.0
    return {
        "seed": seed,
        "mean": mean,
        "std": deviation,
        "min": low if count else 0.0,
        "max": high if count else 0.0,
        "nan": nan,
        "inf": infinite,
    }


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Cut a tensor along its longest side until each piece is small."""
    if tensor.numel() <= _PIECE:
        yield tensor
        return
    side = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
    half = tensor.shape[side] // 2
    yield from _pieces(tensor.narrow(side, 0, half))
    yield from _pieces(tensor.narrow(side, half, tensor.shape[side] - half))


_PAGE = 512
"""Bytes to which devices align a storage: cut at a multiple, a view is aligned as it was."""


class _Copier:
    """Describes values, and gathers the tensors in them."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.described: list[str] = []
        self._known: dict[int, int] = {}
        self.devices: list[torch.device] = []

    def node(self, value: Any) -> Any:
        """Return what represents a value in `call.json`."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.node(part) for part in value]
        if isinstance(value, (int, torch.SymInt, torch.SymBool)):
            return self._described(value, "it is symbolic") if not isinstance(value, int) else int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, complex):
            return {"complex": [repr(value.real), repr(value.imag)]}
        if isinstance(value, torch.dtype):
            return self._named("dtype", value, DTYPES)
        if isinstance(value, torch.layout):
            return self._named("layout", value, LAYOUTS)
        if isinstance(value, torch.memory_format):
            return self._named("memory_format", value, FORMATS)
        if isinstance(value, torch.device):
            self.devices.append(value)
            return {"device": str(value)}
        if isinstance(value, torch.Generator):
            return self._generator(value)
        return self._described(value, "it is no value of a call that can be written")

    def _named(self, tag: str, value: Any, table: dict[str, Any]) -> Any:
        name = next((name for name, constant in table.items() if constant is value), None)
        return {tag: name} if name is not None else self._described(value, "unknown")

    def _generator(self, value: torch.Generator) -> Any:
        seed = value.initial_seed() & (2**63 - 1)
        return {"generator": {"device": str(value.device), "seed": seed, "state": self.add(value.get_state())}}

    def _described(self, value: Any, why: str) -> Any:
        text = f"{type(value).__name__}: {why}"
        self.described.append(text)
        return {"described": text}

    def _tensor(self, value: Tensor) -> Any:
        reason = unwritable(value)
        if reason:
            self.described.append(reason)
            return {"described": reason}
        self.devices.append(value.device)
        return {"tensor": self.add(value)}

    def add(self, value: Tensor) -> int:
        """Note a tensor, and return its place; the same object has the same one."""
        if id(value) not in self._known:
            self._known[id(value)] = len(self.tensors)
            self.tensors.append(value)
        return self._known[id(value)]


def unwritable(value: Tensor) -> str:
    """Say why a tensor's content cannot be written; empty when it can."""
    if value.is_nested:
        return "a nested tensor: not written"
    shape = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if type(value) not in torch_versions.OWN_CLASSES:
        return f"{type(value).__name__} {shape}: a subclass of Tensor; write the calls on what it is made of"
    if value.is_quantized:
        return f"quantized {shape} ({value.qscheme()}): not written"
    if value.layout is not torch.strided:
        return f"{shape} in layout {value.layout}: not written"
    if value.device.type == "meta":
        return f"{shape} on meta: it has no values"
    if value._is_zerotensor():
        return f"{shape}: a tensor of zeros without memory"
    if not any(dtype is value.dtype for dtype in DTYPES.values()):
        return f"{shape}: this dtype is not written"
    return ""


def capture(
    overload: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    device: str = "",
    random: dict[str, Tensor] | None = None,
    limit: int = 0,
    grad: bool | None = None,
) -> Call:
    """Copy a call to the host, before it runs: what it works on in place is kept as it was.

    Args:
        overload: `torch.ops.aten.addmm.default`.
        args: Its arguments.
        kwargs: Its keyword arguments.
        device: Device that the call runs on, where the arguments are host copies already.
        random: Random states before the call, by type of device; without it, those of now,
            or none where `device` says that the arguments are copies.
        grad: Whether gradients were recorded, which some operators ask; without it, as now.
        limit: Bytes; the largest storages beyond are described by statistics, not copied. 0 for no limit.
    """
    op = operator(overload)
    copier = _Copier()
    with _disable_current_modes(), torch.no_grad():
        tree = [copier.node(value) for value in args]
        named = {key: copier.node(value) for key, value in kwargs.items()}
        own = device or next((str(device) for device in copier.devices if device.type != "cpu"), "cpu")
        draws = op.draws(args, kwargs)
        states = (random_states(own) if draws and not device else {}) if random is None else random
        streams = {kind: copier.add(state) for kind, state in states.items()}
        rows, storages, table = _storages(copier.tensors, limit)
    if device and all(row["device"] == "cpu" for row in rows):
        for row in (*rows, *table.values()):
            row["device"] = device
    return Call(
        {
            "operator": overload._schema.name,
            "overload": overload._schema.overload_name,
            "schema": str(overload._schema),
            "kind": op.kind.value if op.kind is OpKind.ALLOCATE else "",
            "draws": draws,
            "written": [[index, name] for index, name in op.written],
            "device": own,
            "args": tree,
            "kwargs": named,
            "tensors": rows,
            "storages": table,
            "random": streams,
            "grad": torch.is_grad_enabled() if grad is None else grad,
            "autocast": _autocast(own.partition(":")[0]),
            "described": list(dict.fromkeys(copier.described)),
        },
        storages,
    )


def _autocast(kind: str) -> bool | None:
    """Whether autocast is on for a type of device, for who reads it; None where this torch does not know the type."""
    try:
        state = torch_versions.autocast_state(kind)
    except (RuntimeError, TypeError):
        return None
    return None if state is None else state[0]


def random_states(device: str) -> dict[str, Tensor]:
    """Return the states of the random streams that a call on a device may draw from."""
    kind = device.partition(":")[0]
    states = {"cpu": torch.get_rng_state()}
    module: Any = None if kind == "cpu" else getattr(torch, kind, None)
    if hasattr(module, "get_rng_state"):
        states[kind] = module.get_rng_state(torch.device(device)).cpu()
    return states


def _storages(
    tensors: list[Tensor], limit: int
) -> tuple[list[dict[str, Any]], dict[str, Tensor], dict[str, dict[str, Any]]]:
    """Copy what the tensors see of their storages, each once; or describe it, the largest first, beyond a limit."""
    groups: dict[tuple[str, int], list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault((str(tensor.device), tensor.untyped_storage()._cdata), []).append(index)
    rows: list[dict[str, Any]] = [{} for _ in tensors]
    storages: dict[str, Tensor] = {}
    table: dict[str, dict[str, Any]] = {}
    places = [_Place(f"s{number}", members, tensors) for number, members in enumerate(groups.values())]
    total = sum(place.size for place in places)
    described = set()
    for place in sorted(places, key=lambda place: -place.size):
        if not limit or total <= limit:
            break
        described.add(place.name)
        total -= place.size
    for seed, place in enumerate(places):
        first = tensors[place.members[0]]
        table[place.name] = {"bytes": place.size, "dtype": _name(first.dtype), "device": str(first.device)}
        for index in place.members:
            rows[index] = _row(tensors[index], place.name, place.start)
        if place.name in described:
            table[place.name]["made"] = statistics(first, seed + 1)
            continue
        line = storages[place.name] = torch.zeros(place.size, dtype=torch.uint8)
        for index in place.members:
            _fill(line, tensors[index], rows[index])
    return rows, storages, table


class _Place:
    """The part of a storage that is seen: from a page's begin to the last element."""

    def __init__(self, name: str, members: list[int], tensors: list[Tensor]) -> None:
        self.name = name
        self.members = members
        spans = [_span(tensors[index]) for index in members]
        self.start = min(first for first, _ in spans) // _PAGE * _PAGE
        width = max(tensors[index].element_size() for index in members)
        self.size = -(-(max(last for _, last in spans) - self.start) // width) * width


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return the first byte of its storage that a tensor sees, and the one after the last."""
    size = tensor.element_size()
    first = int(tensor.storage_offset()) * size
    if not tensor.numel():
        return first, first
    last = sum((int(n) - 1) * int(step) for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * size


def _row(tensor: Tensor, storage: str, start: int) -> dict[str, Any]:
    size = tensor.element_size()
    row = {
        "storage": storage,
        "dtype": _name(tensor.dtype),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset() - start // size,
        "device": str(tensor.device),
    }
    if tensor.is_conj():
        row["conj"] = True
    if tensor.is_neg():
        row["neg"] = True
    return row


def _fill(line: Tensor, tensor: Tensor, row: dict[str, Any]) -> None:
    """Put a tensor's values where they lay: by its own copy to the host, since a device may store them otherwise."""
    if not tensor.numel():
        return
    tensor = tensor.detach()
    if tensor.is_conj():
        tensor = torch._conj(tensor)  # the bit off: what is stored
    if tensor.is_neg():
        tensor = torch._neg_view(tensor)
    shape, stride = list(row["shape"]), list(row["stride"])
    for dim, step in enumerate(stride):
        if step == 0 and shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
            shape[dim] = 1
    typed = line[: line.numel() // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    if _overlaps(shape, stride):
        count = sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) + 1
        first = row["offset"]
        typed[first : first + count].copy_(tensor.as_strided((count,), (1,)))
    else:
        typed.as_strided(shape, stride, row["offset"]).copy_(tensor)


def _overlaps(shape: list[int], stride: list[int]) -> bool:
    """Whether two elements may be one in memory, as in what `unfold` returns."""
    reach = 0
    for n, step in sorted(
        ((n, step) for n, step in zip(shape, stride, strict=True) if n > 1), key=lambda size_and_step: size_and_step[1]
    ):
        if step <= reach:
            return True
        reach += (n - 1) * step
    return False
