"""Read safetensors files into numpy, from bytes that may be hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.numerics.differences.folder import damaged, read

try:
    import numpy as np
    from safetensors import SafetensorError, deserialize
except ImportError as _error:  # the extra is not installed
    raise TorchferryError(
        say("records are read with numpy and safetensors: {error}", error=_error),
        say("`pip install 'torchferry[numerics]'`"),
    ) from None

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 1 << 32
"""Bytes of a file with whole tensors; one with rows has far fewer."""

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
    "BOOL": "|b1",
}  # fmt: skip


def load(path: Path, limit: int = LARGEST) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a file's tensors and its metadata; bfloat16 is widened to float32.

    Raises:
        TorchferryError: it cannot be read, is too large, or is no safetensors file.
    """
    data = read(path, limit)
    try:
        parts = deserialize(data)
    except SafetensorError as error:
        raise damaged(path, error) from None
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__", {})
    found = {}
    for name, part in parts:
        kind = part["dtype"]
        if kind == "BF16":
            wide = np.frombuffer(part["data"], "<u2").astype("<u4") << 16
            array = wide.view("<f4")
        elif kind in _DTYPES:
            array = np.frombuffer(part["data"], _DTYPES[kind])
        else:
            raise damaged(path, say("its tensor {name} is of dtype {dtype}", name=name, dtype=kind))
        found[name] = array.reshape(part["shape"])
    return found, metadata
