"""A call of an operator as a run described it, as a Python program: on the device, against the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.ops.needs import OperatorNeed

_TENSOR = re.compile(
    r"(?P<cpu>cpu )?(?<![a-z0-9_])(?P<dtype>[a-z0-9_]+)\[(?P<size>[\d,]*)\](?:\{(?P<stride>[\d,]*)\})?"
)
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.+)", re.DOTALL)
_PLAIN = re.compile(
    r"None|True|False|-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)|torch\.[a-z0-9_]+|'[^'\\]*'|\[[-+\d., eTrualsFnif]*\]"
)
"""Values that a description has beside tensors: anything else is not written into a program."""

_NO_VALUES = ("empty", "new_empty", "rand", "normal", "bernoulli", "native_dropout", "uniform", "multinomial",
              "exponential", "geometric", "cauchy", "log_normal", "poisson", "_efficientzerotensor")  # fmt: skip
"""Beginnings of operators whose results have no values, or random ones."""


class SeenTensor(NamedTuple):
    """A tensor of a call: dtype, sizes, strides where they are not those of a contiguous one, and whether it is the
    CPU's."""

    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    on_cpu: bool


def split(text: str, separator: str = ", ") -> list[str]:
    """Return the parts of a description, which brackets and quotes keep together."""
    parts, depth, begin, quoted = [], 0, 0, False
    for index, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, index):
            parts.append(text[begin:index])
            begin = index + len(separator)
    return [part for part in [*parts, text[begin:]] if part]


def seen_tensors(description: str) -> list[SeenTensor]:
    """Return the tensors of a call."""
    return [tensor for match in _TENSOR.finditer(description) if (tensor := _tensor(match[0])) is not None]


def _tensor(text: str) -> SeenTensor | None:
    match = _TENSOR.fullmatch(text)
    if match is None:
        return None
    stride = match["stride"]
    return SeenTensor(
        match["dtype"],
        tuple(int(part) for part in match["size"].split(",") if part),
        None if stride is None else tuple(int(part) for part in stride.split(",") if part),
        match["cpu"] is not None,
    )


def call_code(need: OperatorNeed, plugin: str, device: str) -> str:
    """Return a program that makes the most frequent call on the device and compares it with the CPU.

    Args:
        need: What a run needs of the operator.
        plugin: Python package that makes the device known.
        device: Type of the device.

    Returns:
        The program; empty where what was described cannot be made again, such as nested tensors.
    """
    description = next(iter(need.shapes), None)
    space, _, name = need.name.partition("::")
    base, _, overload = name.partition(".")
    if description is None or not all(part.isidentifier() for part in (space, base, overload or "default")):
        return ""
    written = [_argument(part) for part in split(description)]
    if not all(written):
        return ""
    if "Device? device" in need.schema and not seen_tensors(description):
        written.append("device=device")
    compared = "torch.testing.assert_close(one.cpu(), other, equal_nan=True)"
    if base.startswith(_NO_VALUES):
        compared = "assert (one.shape, one.dtype) == (other.shape, other.dtype)"
    lines = [
        "import torch",
        *([f"import {plugin}  # noqa: F401"] if plugin else []),
        "",
        f'DEVICE = "{device}"',
        "",
        "",
        "def call(device):",
        "    torch.manual_seed(0)",
        f"    return torch.ops.{space}.{base}.{overload or 'default'}(",
        *(f"        {argument}," for argument in written),
        "    )",
        "",
        "",
        'expected = call("cpu")',
        "actual = call(DEVICE)",
        "leaves = torch.utils._pytree.tree_leaves",
        "for one, other in zip(leaves(actual), leaves(expected)):",
        "    if isinstance(other, torch.Tensor):",
        f"        {compared}",
    ]
    return "\n".join(lines) + "\n"


def _argument(part: str) -> str:
    """Return an argument as Python; empty where it is none that is known here."""
    named = _NAMED.fullmatch(part)
    if named is not None:
        value = _value(named["value"])
        return value and f"{named['name']}={value}"
    return _value(part)


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return re.sub(r"\b(inf|nan)\b", r'float("\1")', text)
    if text.startswith("(") and text.endswith(")"):
        parts = [each for each in split(text[1:-1], "; ") if not each.startswith("...")]
        made = [_value(each) for each in parts]
        return f"[{', '.join(made)}]" if made and all(made) else ""
    tensor = _tensor(text)
    return "" if tensor is None else "".join(_made(tensor))


def _made(tensor: SeenTensor) -> Iterator[str]:
    """Yield the parts of an expression that makes such a tensor; integers are zero, which is an index of anything."""
    size, dtype = list(tensor.size), f"torch.{tensor.dtype}"
    spread = tensor.stride is not None and any(
        stride == 0 and length > 1 for stride, length in zip(tensor.stride, tensor.size, strict=True)
    )
    if spread and tensor.stride is not None:
        size = [1 if stride == 0 else length for stride, length in zip(tensor.stride, size, strict=True)]
    if tensor.dtype == "bool":
        made = f"torch.rand({size}) > 0.5"
        made = f"({made})"
    elif tensor.dtype.startswith(("int", "uint")):
        made = f"torch.zeros({size}, dtype={dtype})"
    else:
        made = f"torch.rand({size})" + ("" if tensor.dtype == "float32" else f".to({dtype})")
    there = "" if tensor.on_cpu else ".to(device)"
    if tensor.stride is None:
        yield f"{made}{there}"
    elif spread:
        yield f"{made}{there}.expand({list(tensor.size)})"
    else:
        where = "" if tensor.on_cpu else ", device=device"
        yield f"torch.empty_strided({size}, {list(tensor.stride)}, dtype={dtype}{where}).copy_({made})"
