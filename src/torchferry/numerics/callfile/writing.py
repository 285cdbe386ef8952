"""Write the call of an operator as a directory from which it can be run again, anywhere."""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.abandoned import locked_folder, remove_abandoned, remove_locked
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.numerics.callfile import capture, environment, reproduction
from torchferry.numerics.callfile.reading import CALL, FORMAT, TENSORS, Call
from torchferry.numerics.framework.operators import tensors

_PART = ".part"
"""How the name of a folder ends in which a call is written."""

# Make a failing call smaller while it goes on failing, by halving sizes that its tensors share.

_MOST_TRIES = 1000
_MOST_SIDES = 6
"""Sides of one size of which every choice is tried."""

Fails = Callable[[list[Any], dict[str, Any]], bool]
"""Runs a call on the device, on copies of what it is given, and says whether it still fails."""


def size(args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return the bytes that the tensors of a call see, each tensor once."""
    by_identity = {id(tensor): tensor for value in (*args, *kwargs.values()) for tensor in tensors(value)}
    return sum(storage.numel() * storage.element_size() for storage in by_identity.values())


def shrunk(args: Sequence[Any], kwargs: dict[str, Any], fails: Fails, limit: int) -> tuple[list[Any], dict[str, Any]]:
    """Return a call of at most `limit` bytes that fails as well, or the smallest that was found.

    Tensors that share memory are left whole: cut apart they would be another call.
    """
    now: tuple[list[Any], dict[str, Any]] = (list(args), dict(kwargs))
    if _share(now):
        return now
    tries = 0
    while size(*now) > limit:
        for change in _changes(now):
            tries += 1
            smaller = _cut(now, change)
            if _still(fails, smaller):
                now = smaller
                break
            if tries >= _MOST_TRIES:
                return now
        else:
            return now
    return now


def _still(fails: Fails, call: tuple[list[Any], dict[str, Any]]) -> bool:
    try:
        return fails(*call)
    except Exception:  # the sizes no longer fit each other: another error than the one that is looked for
        return False


def _members(call: tuple[list[Any], dict[str, Any]]) -> list[Tensor]:
    args, kwargs = call
    return list({id(tensor): tensor for value in (*args, *kwargs.values()) for tensor in tensors(value)}.values())


def _share(call: tuple[list[Any], dict[str, Any]]) -> bool:
    members = [member for member in _members(call) if type(member) in {Tensor, torch.nn.Parameter}]
    return len({member.untyped_storage()._cdata for member in members}) < len(members)


Side = tuple[int, int]
"""The identity of a tensor, and one of its sides."""

Change = tuple[frozenset[Side], bool]
"""The sides that are halved, and whether the first half stays."""


def _changes(call: tuple[list[Any], dict[str, Any]]) -> Iterator[Change]:
    """Yield what can be halved: the sides of one size, all of them first, then fewer; the largest size first."""
    members = sorted(_members(call), key=lambda member: -member.numel() * member.element_size())
    for n in sorted({n for member in members for n in member.shape if n > 1}, reverse=True):
        sides = [(id(member), side) for member in members for side, length in enumerate(member.shape) if length == n]
        counts = range(len(sides), 0, -1) if len(sides) <= _MOST_SIDES else (len(sides), 1)
        for count in counts:
            for chosen in combinations(sides, count):
                yield frozenset(chosen), True
                yield frozenset(chosen), False


def _cut(call: tuple[list[Any], dict[str, Any]], change: Change) -> tuple[list[Any], dict[str, Any]]:
    sides, first = change
    cuts: dict[int, Tensor] = {}

    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in cuts:
                part = value.detach()
                for side in range(part.dim()):
                    if (id(value), side) in sides:
                        half = part.shape[side] // 2
                        part = part.narrow(side, *((0, half) if first else (half, part.shape[side] - half)))
                cuts[id(value)] = value if part.shape == value.shape else _packed(part)
            return cuts[id(value)]
        if isinstance(value, (list, tuple)):
            return [cut(part) for part in value]
        return value

    args, kwargs = call
    return [cut(value) for value in args], {key: cut(value) for key, value in kwargs.items()}


def _packed(tensor: Tensor) -> Tensor:
    """Copy a part so that it has no gaps, its sides in memory in the order that they had."""
    steps = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: (-steps[dim], dim))
    stride = [0] * tensor.dim()
    step = 1
    for dim in reversed(order):
        if steps[dim] == 0:
            continue
        stride[dim] = step
        step *= tensor.shape[dim]
    if 0 in stride:
        return tensor  # repeated: it takes no memory
    packed = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device)
    return packed.copy_(tensor)


LIMIT = 256 * 2**20
"""Bytes of inputs from which on a call is made smaller before it is written."""

_ENTRIES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""How the safetensors format calls dtypes that every version of its library reads; others are written as bytes."""


def write(
    folder: Path,
    overload: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    where: Any,
    note: dict[str, Any],
    *,
    step: int | None = None,
    device: str = "",
    random: dict[str, Tensor] | None = None,
    fails: Fails | None = None,
    limit: int = LIMIT,
    libraries: Sequence[str] = (),
) -> Path:
    """Write a call, and return the directory that it has in `folder`.

    Args:
        folder: Made where it does not exist; nothing in it is overwritten.
        overload: `torch.ops.aten.addmm.default`.
        args: The arguments as they were before the call.
        kwargs: The keyword arguments as they were before the call.
        where: Phase, module and source of the call: a `Where`, or None.
        note: What was found, for who reads it: status, figures, statistics; anything that can be written as text.
        step: The training step.
        device: Device that the call ran on, where the arguments are copies on the CPU.
        random: Random states before the call by type of device; without it, those of now, or none with `device`.
        fails: Runs the call on copies and says whether it still fails: above the limit, the call is made smaller as
            long as it does. Without it, what is too large is written as statistics, and made anew from a seed.
        limit: Bytes of inputs, at most.
        libraries: Modules to be imported for a custom operator, where torch does not know them.

    Raises:
        TorchferryError: the folder cannot be written; nothing half is left in it.
    """
    before = size(args, kwargs)
    if before > limit and fails is not None:
        args, kwargs = shrunk(args, kwargs, fails, limit)
        note = {**note, "shrunk": {"from": before, "to": size(args, kwargs)}}
    call = capture.capture(overload, args, kwargs, device=device, random=random, limit=limit)
    return save(folder, call, where, note, step=step, libraries=libraries)


def save(
    folder: Path,
    call: Call,
    where: Any,
    note: dict[str, Any],
    *,
    step: int | None = None,
    libraries: Sequence[str] = (),
) -> Path:
    """Write a call that `capture` copied, and return its directory; see `write`."""
    phase, module, source = (where.phase, where.module, where.source) if where is not None else ("", "", "")
    document = {
        "format": FORMAT,
        **call.document,
        "where": {"phase": phase, "module": module, "source": source, "step": step},
        "libraries": list(libraries) or environment.libraries(call.name),
        "environment": environment.environment(call.device),
        "observed": plain(note),
    }
    name = re.sub(r"[^A-Za-z0-9_.]+", ".", f"{call.name}.{call.overload}".replace("::", ".").rstrip("."))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f".*{_PART}"):
            remove_abandoned(left)
        holder, lock = locked_folder(folder, f".{name}-", _PART)
    except OSError as error:
        raise _unwritten(folder, error) from None
    part = holder / "new"
    try:
        part.mkdir()
        part.chmod(0o755)
        _write_tensors(part / TENSORS, call)
        (part / CALL).write_text(_json(document), encoding="utf-8")
        test = re.sub(r"\W+", "_", name)
        (part / f"test_{test}.py").write_text(reproduction.text(document, test), encoding="utf-8")
        return _named(part, folder, name)
    except BaseException as error:
        if isinstance(error, OSError):
            raise _unwritten(folder, error) from None
        raise
    finally:
        remove_locked(holder)
        os.close(lock)


def _unwritten(folder: Path, error: OSError) -> TorchferryError:
    advice = say("choose a folder that you may write to")
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        advice = say("free some space, or write calls elsewhere; no partial directory remains")
    return TorchferryError(say("cannot write {path}: {error}", path=folder, error=error.strerror or error), advice)


def _named(part: Path, folder: Path, name: str) -> Path:
    """Give a finished directory its name: the first number that is free."""
    number = 1
    while True:
        path = folder / f"{name}-{number:03d}"
        try:
            if not path.exists():
                part.rename(path)
                return path
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        number += 1


def _write_tensors(path: Path, call: Call) -> None:
    """Write the storages in the safetensors format: a header that says where each lies, then their bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, line in call.storages.items():
        kind = call.document["storages"][name]["dtype"]
        size = line.numel()
        width = torch.empty(0, dtype=getattr(torch, kind)).element_size()
        entry = _ENTRIES.get(kind)
        header[name] = {
            "dtype": entry or "U8",
            "shape": [size // width if entry else size],
            "data_offsets": [begin, begin + size],
        }
        begin += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for line in call.storages.values():
            if line.numel():
                file.write((ctypes.c_char * line.numel()).from_address(line.data_ptr()))


def _json(document: dict[str, Any]) -> str:
    """Return JSON for reading: indented, lists of numbers in one line."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    return re.sub(
        r"\[[\s\d.,e+-]+]", lambda match: " ".join(match[0].split()).replace("[ ", "[").replace(" ]", "]"), text
    )


def plain(value: Any) -> Any:
    """Return what a note says, in values that JSON has: tensors by their shapes, numbers that are none as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in value)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(part) for key, part in value.items()}
    if isinstance(value, Tensor):
        return f"{value.dtype}{list(value.shape)}"
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    return plain(str(value))
