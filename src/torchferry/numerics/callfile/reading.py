"""Read a directory with the call of an operator, and trust nothing in it.

The text of this module is in front of the pytest file that each such directory has: it keeps to Python 3.8, torch
and the standard library, and says what it refuses in one way everywhere.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say, say_plural

FORMAT = 1
"""Version of the directory; another one is refused."""

CALL, TENSORS = "call.json", "tensors.safetensors"

LARGEST_TEXT = 64 * 2**20
"""Bytes of `call.json`, and of the header of the tensors, from which on they are refused."""

LARGEST = 16 * 2**30
"""Bytes that one tensor may have when it is built, if the file does not hold as many: a view may repeat few."""

DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
        *("uint16", "uint32", "uint64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
    if hasattr(torch, name)
}
"""By the name under which `call.json` has them; what this torch lacks is refused."""

LAYOUTS = {
    name: getattr(torch, name)
    for name in ("strided", "sparse_coo", "sparse_csr", "jagged", "_mkldnn")
    if hasattr(torch, name)
}

FORMATS = {
    name: getattr(torch, name) for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}

_WORD = re.compile(r"[A-Za-z_]\w*")

_OTHER_RANKS = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "rpc"})
"""Namespaces of operators that wait for other processes."""


class Refused(Exception):  # noqa: N818 - it says what happened
    """A directory that is not replayed, with the reason."""

    def __init__(self, message: Any) -> None:
        super().__init__(str(message))
        self.message = message


@dataclass
class Call:
    """A call as it was written.

    Attributes:
        document: What `call.json` says.
        storages: The bytes of each storage, on the CPU.
    """

    document: dict[str, Any]
    storages: dict[str, Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The operator, `aten::addmm`."""
        return str(self.document["operator"])

    @property
    def overload(self) -> str:
        """Its overload, `out`; empty for the default one."""
        return str(self.document["overload"])

    @property
    def device(self) -> str:
        """Type of the device that it ran on."""
        return str(self.document["device"]).partition(":")[0]

    @property
    def described(self) -> list[str]:
        """Why values are missing, so that it cannot be run; empty when it can."""
        return list(self.document["described"])


def read_call(folder: Path) -> Call:
    """Read a directory.

    Raises:
        Refused: it is not what `write` leaves, or was cut or changed; says where.
    """
    document = _json(_bytes(folder / CALL, LARGEST_TEXT), CALL)
    if document.get("format") != FORMAT:
        raise Refused(
            say(
                "{file} has format {found}, but this reader supports {known}",
                file=CALL,
                found=repr(document.get("format")),
                known=FORMAT,
            )
        )
    _check_texts(document)
    for key, kind in _KINDS.items():
        if not isinstance(document.get(key), kind):
            raise Refused(say("{file} has no valid `{key}`", file=CALL, key=key))
    if not all(isinstance(text, str) for text in document["described"]):
        raise Refused(say("{file} has no valid `{key}`", file=CALL, key="described"))
    for row in document["written"]:
        if not (
            isinstance(row, list) and len(row) == 2 and type(row[0]) is int and row[0] >= 0 and type(row[1]) is str
        ):
            raise Refused(say("{file} has no valid `{key}`", file=CALL, key="written"))
    call = Call(document)
    call.storages = _storages(folder / TENSORS, document["storages"])
    for place, tensor in enumerate(document["tensors"]):
        check_tensor(f"tensors[{place}]", tensor, document["storages"])
    return call


_KINDS = {
    "operator": str,
    "overload": str,
    "device": str,
    "kind": str,
    "draws": bool,
    "written": list,
    "args": list,
    "kwargs": dict,
    "tensors": list,
    "storages": dict,
    "described": list,
    "random": dict,
    "grad": bool,
}


_DEEPEST = 40
"""How deep `call.json` may be nested."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would take for orders."""

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can write as an escape and no text file or terminal can hold."""


def _check_texts(document: Any) -> None:
    """Refuse a document that would do something to who walks over it, or prints it."""
    waiting = [(document, 0, "")]
    while waiting:
        value, depth, place = waiting.pop()
        if depth > _DEEPEST:
            raise Refused(say("{file} is nested more than {most} deep", file=CALL, most=_DEEPEST))
        if isinstance(value, dict):
            waiting += [(key, depth, place) for key in value]
            waiting += [(part, depth + 1, f"{place}.{key}" if place else key) for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(part, depth + 1, f"{place}[{number}]") for number, part in enumerate(value)]
        elif isinstance(value, str) and _CONTROL.search(value):
            raise Refused(say("{file} contains control characters", file=CALL))
        elif isinstance(value, str) and _SURROGATE.search(value):
            where = place if not _SURROGATE.search(place) else "..."
            raise Refused(say("{file} contains half a character (a lone surrogate) in `{key}`", file=CALL, key=where))


def _bytes(path: Path, most: int) -> bytes:
    """Return what a file of the directory holds: a file itself, not a link, a pipe or a device."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(say("{file} is not a plain file", file=path.name))
        if status.st_size > most:
            raise Refused(
                say_plural(
                    "{file} has {count} byte; the limit is {most}",
                    "{file} has {count} bytes; the limit is {most}",
                    file=path.name,
                    count=status.st_size,
                    most=most,
                )
            )
        return path.read_bytes()
    except OSError as error:
        raise Refused(say("{file} cannot be read: {error}", file=path, error=error.strerror or error)) from None


def _no_constant(text: str) -> Any:
    raise ValueError(text + " is no JSON")


def _json(data: bytes, file: str) -> dict[str, Any]:
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(say("{file} is not JSON, or is incomplete: {error}", file=file, error=error)) from None
    if not isinstance(document, dict):
        raise Refused(say("{file} is not JSON, or is incomplete: {error}", file=file, error="no object"))
    return document


def _storages(path: Path, expected: dict[str, Any]) -> dict[str, Tensor]:
    """Read the entries of a safetensors file, as bytes: the dtypes of its header are for other readers."""
    wanted: dict[str, int] = {}
    for name, row in expected.items():
        size = row.get("bytes") if isinstance(row, dict) else None
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= LARGEST:
            raise Refused(say("{file} has no valid `{key}`", file=CALL, key="storages." + name))
        if not isinstance(row.get("dtype"), str) or not isinstance(row.get("device"), str):
            raise Refused(say("{file} has no valid `{key}`", file=CALL, key="storages." + name))
        if "made" not in row:
            wanted[name] = size
    data = _bytes(path, sum(wanted.values()) + LARGEST_TEXT)
    begin = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or begin > len(data):
        raise Refused(say("{file} is incomplete", file=path.name))
    header = _json(data[8:begin], path.name)
    storages = {}
    for name, size in wanted.items():
        row = header.get(name)
        ends = row.get("data_offsets") if isinstance(row, dict) else None
        if not isinstance(ends, list) or len(ends) != 2 or not all(type(end) is int for end in ends):
            raise Refused(say("{file} has no entry `{name}`", file=path.name, name=name))
        first, last = ends
        if not 0 <= first <= last or begin + last > len(data) or last - first != size:
            raise Refused(
                say_plural(
                    "{file}: entry `{name}` does not contain the expected {count} byte",
                    "{file}: entry `{name}` does not contain the expected {count} bytes",
                    file=path.name,
                    name=name,
                    count=size,
                )
            )
        piece = bytearray(data[begin + first : begin + last])
        storages[name] = torch.frombuffer(piece, dtype=torch.uint8) if piece else torch.empty(0, dtype=torch.uint8)
    return storages


def check_tensor(place: str, row: Any, storages: dict[str, Any]) -> None:
    """Refuse a tensor that does not lie inside of its storage."""

    def refuse(key: str) -> None:
        raise Refused(say("{file} has no valid `{key}`", file=CALL, key=place + "." + key))

    if not isinstance(row, dict):
        refuse("")
    for key in ("storage", "dtype", "device"):
        if not isinstance(row.get(key), str):
            refuse(key)
    shape, stride, offset = row.get("shape"), row.get("stride"), row.get("offset")
    for key, sizes in (("shape", shape), ("stride", stride)):
        if not isinstance(sizes, list) or len(sizes) > 64 or not all(type(n) is int and 0 <= n < 2**62 for n in sizes):
            refuse(key)
    if len(shape) != len(stride):
        refuse("stride")
    if type(offset) is not int or not 0 <= offset < 2**62:
        refuse("offset")
    if row["storage"] not in storages:
        refuse("storage")
    if row["dtype"] not in DTYPES:
        raise Refused(say("torch {version} has no dtype `{dtype}`", version=torch.__version__, dtype=row["dtype"]))
    size = torch.empty(0, dtype=DTYPES[row["dtype"]]).element_size()
    numel = 1
    for n in shape:
        numel *= n
    last = offset + sum((shape[dim] - 1) * stride[dim] for dim in range(len(shape))) if numel else offset - 1
    have = storages[row["storage"]]["bytes"]
    if (last + 1) * size > have:
        raise Refused(
            say(
                "{place} reaches byte {end} of storage `{name}`, which has {have}",
                place=place,
                end=(last + 1) * size,
                name=row["storage"],
                have=have,
            )
        )
    if numel * size > max(LARGEST, have):
        raise Refused(
            say_plural(
                "{place} would need {count} byte; the limit is {most}",
                "{place} would need {count} bytes; the limit is {most}",
                place=place,
                count=numel * size,
                most=LARGEST,
            )
        )


def find(name: str, overload: str, libraries: Any = ()) -> Any:
    """Return an operator of this torch by the exact name of its schema, and nothing else that torch.ops may hold.

    Args:
        name: The operator, `aten::addmm`.
        overload: Its overload; empty for the default one.
        libraries: What brought it where it was written, to be named and never imported.

    Raises:
        Refused: there is no such operator, or it is none that works on its arguments alone.
    """
    space, _, base = name.partition("::")
    if not all(_WORD.fullmatch(word) for word in (space, base)) or (overload and not _WORD.fullmatch(overload)):
        raise Refused(say("`{name}` is not the name of an operator", name=repr(name + "." + overload)))
    if space in _OTHER_RANKS:
        raise Refused(say("{name} communicates with other processes: one process cannot replay it", name=name))
    full = name + "." + overload if overload else name
    try:
        torch._C._dispatch_find_schema_or_throw(name, overload)
    except RuntimeError:
        raise Refused(
            say(
                "torch {version} has no operator {name}: import its library (--import {it}; for pytest IMPORT={it})",
                version=torch.__version__,
                name=full,
                it=",".join(map(str, libraries)) or "NAME",
            )
        ) from None
    overload_found = getattr(getattr(getattr(torch.ops, space), base), overload or "default")
    if not isinstance(overload_found, torch._ops.OpOverload) or overload_found._schema.name != name:
        raise Refused(say("`{name}` is not the name of an operator", name=full))
    if any(argument.name in {"filename", "path"} for argument in overload_found._schema.arguments):
        raise Refused(say("{name} opens files: torchferry does not replay it", name=full))
    return overload_found
