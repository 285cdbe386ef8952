"""Read the inputs of an operator that a vendor's comparison tool pickled, without running the pickle.

Such a tool leaves `<operator>_inputs.pkl` where a call failed: `pickle.dump({"args": (...), "kwargs": {...}})` of host
tensors. The standard library's parser of pickles, which builds nothing, takes the file apart, and only the values that
the argument of an operator can have are made. Whatever else the file names is refused and named: no function of it is
called.
"""

from __future__ import annotations

import io
import os
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from torchferry.core.files import open_regular
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.numerics.callfile.capture import capture
from torchferry.numerics.callfile.reading import DTYPES, FORMATS, LARGEST, LAYOUTS, Call, Refused, check_tensor, find

SUFFIX = ".pkl"

_NAMED = re.compile(r"torch\.ops\.(\w+)\.(\w+?)(?:\.(\w+))?_inputs(?:_rank\d+)?\.pkl")
"""How the tool names the file of an operator; the default overload has no name of its own."""

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""How torch's format before zip files begins (torch/serialization.py), which is inside of a pickled tensor."""

_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
"""The dtype of each class of torch that holds a tensor's memory."""


class _Name(NamedTuple):
    """A function, class or constant that the file names; it is looked up in the tables below and nowhere else."""

    module: str
    name: str


class _Storage(NamedTuple):
    """The memory of a tensor."""

    values: Tensor


class _StackMark:
    """Where a sequence begins on the stack."""


def operator_of(path: Path) -> tuple[str, str]:
    """Return the operator and the overload that the name of a dump says; empty where it says none."""
    named = _NAMED.fullmatch(path.name)
    return ("", "") if named is None else (f"{named[1]}::{named[2]}", named[3] or "")


def read_dump(path: Path, overload: Any, device: str) -> Call:
    """Return the call whose inputs are in a file.

    Args:
        path: `torch.ops.aten.addmm_inputs.pkl`.
        overload: The operator, `torch.ops.aten.addmm.default`; None for the one that the file's name says.
        device: The device that it is to run on: the file does not say on which it ran.

    Raises:
        Refused: the file is not such a dump, or holds something else than the arguments of an operator.
    """
    if overload is None:
        name, variant = operator_of(path)
        if not name:
            raise Refused(say("its name does not say the operator, as in torch.ops.aten.addmm_inputs.pkl"))
        overload = find(name, variant)
    try:
        size = os.path.getsize(path)
        if size > LARGEST:
            raise Refused(
                say_plural(
                    "{file} has {count} byte; the limit is {most}",
                    "{file} has {count} bytes; the limit is {most}",
                    file=path.name,
                    count=size,
                    most=LARGEST,
                )
            )
        with open_regular(path) as file:
            inputs = _value(file)
        args, kwargs = inputs["args"], inputs["kwargs"]
        named = isinstance(kwargs, dict) and all(isinstance(key, str) for key in kwargs)
        if not isinstance(args, (tuple, list)) or not named:
            raise Refused(_no_dump(path))
        call = capture(overload, list(args), kwargs, device=device, grad=False)
    except OSError as error:
        raise Refused(say("{file} cannot be read: {error}", file=path, error=error.strerror or error)) from None
    except (KeyError, TypeError, IndexError, AttributeError):
        raise Refused(_no_dump(path)) from None
    except (ValueError, OverflowError, RuntimeError, RecursionError, MemoryError) as error:
        why = str(error).partition("\n")[0]
        raise Refused(say("{file} is damaged or cut off: {error}", file=path.name, error=why)) from None
    for number, tensor in enumerate(call.document["tensors"]):
        check_tensor(f"tensors[{number}]", tensor, call.document["storages"])
    return call


def _no_dump(path: Path) -> Message:
    return say("{file} does not hold the inputs of an operator (`args` and `kwargs`)", file=path.name)


def _value(file: BinaryIO, persistent: Callable[[Any], Any] | None = None) -> Any:
    """Return what one pickle describes; the file follows it then.

    Raises:
        Refused: it describes something else than values of arguments.
        ValueError, KeyError, IndexError, TypeError: it is no pickle.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(file):
        name = opcode.name
        if name == "STOP":
            return stack.pop()
        if name in _PLAIN:
            stack.append(argument)
        elif name in _FIXED:
            stack.append(_FIXED[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_StackMark())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(_repeated(memo[int(str(argument))]))
        elif name in _TAKES:
            count = _TAKES[name]
            stack[-count:] = [_collected(name, stack[-count:])]
        elif name in ("TUPLE", "LIST", "DICT", "APPENDS", "SETITEMS"):
            at = next((place for place in range(len(stack) - 1, -1, -1) if isinstance(stack[place], _StackMark)), -1)
            if at < 0:
                raise ValueError(f"{name} without MARK")
            parts = stack[at + 1 :]
            del stack[at:]
            if name in ("APPENDS", "SETITEMS"):
                _extend(stack[-1], name, parts)
            else:
                stack.append(_collected(name, parts))
        elif name in ("APPEND", "SETITEM"):
            count = 1 if name == "APPEND" else 2
            parts = stack[-count:]
            del stack[-count:]
            _extend(stack[-1], f"{name}S", parts)
        elif name == "GLOBAL":
            stack.append(_known(*str(argument).split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_known(*stack[-2:])]
        elif name == "REDUCE":
            function, given = stack[-2:]
            stack[-2:] = [_made(function, given)]
        elif name == "BINPERSID" and persistent is not None:
            stack.append(persistent(stack.pop()))
        elif name not in ("PROTO", "FRAME"):
            raise Refused(say("it holds what no argument of an operator is: {name}", name=name))
    raise ValueError("no STOP")


_PLAIN = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
    | {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
)
_FIXED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_TAKES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _collected(name: str, parts: list[Any]) -> Any:
    if name == "LIST":
        return parts
    return dict(zip(parts[::2], parts[1::2], strict=True)) if name == "DICT" else tuple(parts)


def _extend(container: Any, name: str, parts: list[Any]) -> None:
    if name == "APPENDS" and type(container) is list:
        container.extend(parts)
    elif name == "SETITEMS" and type(container) is dict:
        container.update(zip(parts[::2], parts[1::2], strict=True))
    else:
        raise TypeError(name)


def _repeated(value: Any) -> Any:
    """Return what is at a second place too: a container there again and again would be endless, or holds itself."""
    if type(value) in (list, dict, tuple) and not all(isinstance(part, int) for part in value):
        raise Refused(say("one list or dictionary stands at several places of it"))
    return value


def _known(module: Any, name: Any) -> Any:
    """Return a constant of torch, or the name of a function or class.

    Raises:
        Refused: it is none that a call is made of.
    """
    if module == "torch" and name in DTYPES:
        return DTYPES[name]
    if str(name).startswith("torch.") and str(name)[6:] in FORMATS:  # of any module in which pickle came upon it
        return FORMATS[str(name)[6:]]
    known = _Name(module, name)
    if known not in _MADE and not (module == "torch" and name in _STORAGES):
        raise Refused(
            say("it names {name}, which is no argument of an operator: nothing of it is run", name=f"{module}.{name}")
        )
    return known


def _made(function: Any, given: Any) -> Any:
    if function not in _MADE or type(given) is not tuple:
        raise TypeError(function)
    return _MADE[function](*given)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    """Return a view of a storage; torch refuses one that does not lie in it."""
    if not isinstance(storage, _Storage):
        raise TypeError(storage)
    return storage.values.as_strided(size, stride, offset)


def _layout(name: str) -> Any:
    return LAYOUTS[name.removeprefix("torch.")]


def _storage(data: bytes) -> _Storage:
    """Return the memory that torch wrote in its format before zip files."""
    stream = io.BytesIO(data)
    if _value(stream) != _MAGIC or _value(stream) != _PROTOCOL or _value(stream)["little_endian"] is not True:
        raise ValueError("not a storage that torch wrote on this kind of machine")
    row = _value(stream, persistent=lambda value: value)
    kind, storage, key, _, count = row[:5]
    if kind != "storage" or _value(stream) != [key] or any(row[5:]):
        raise ValueError("not one storage")
    dtype = DTYPES[_STORAGES[storage.name]]
    if int.from_bytes(stream.read(8), "little") != count or not 0 <= count <= len(data):
        raise ValueError("not one storage")
    width = torch.empty(0, dtype=dtype).element_size()
    piece = bytearray(stream.read(count * width))
    if len(piece) != count * width:
        raise ValueError("a storage is cut off")
    return _Storage(torch.frombuffer(piece, dtype=dtype) if piece else torch.empty(0, dtype=dtype))


_MADE: dict[_Name, Callable[..., Any]] = {
    _Name("torch._utils", "_rebuild_tensor_v2"): _tensor,
    _Name("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    _Name("torch.storage", "_load_from_bytes"): _storage,
    _Name("torch.serialization", "_get_layout"): _layout,
    _Name("torch", "device"): torch.device,
    _Name("torch", "Size"): tuple,
    _Name("builtins", "complex"): complex,
    _Name("collections", "OrderedDict"): dict,
}
"""What such a file may name beside constants, and what is made of it here."""
