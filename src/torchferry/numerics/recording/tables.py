"""The rows of a step as a table, for tools that read parquet."""

from __future__ import annotations

import importlib
import io
import math
from typing import Any

import torch
from torch import Tensor

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.numerics.recording.rows import Rows
from torchferry.numerics.runlog.layout import WIDTH, Key


def require() -> Any:
    """Return pyarrow.

    Raises:
        UsageError: it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise UsageError(
            say("tables are written with pyarrow: {error}", error=error), say("`pip install pyarrow`")
        ) from None


def table(rows: Rows, step: int, sketch: Tensor, sums: Tensor) -> bytes:
    """Return a parquet file with a line for each row.

    Its columns say what the row is, its shape, its norm as the sketch estimates it (that of fewer than 64 elements is
    exact), and the sum of its first 65,536 elements.

    Args:
        rows: What was recorded.
        step: Number of the step.
        sketch: float32 [rows, 64].
        sums: float32 [rows].
    """
    arrow = require()
    layout = rows.layout()
    keys = [Key(*layout.keys[place]) for place in layout.key]
    shapes = [list(shape) for shape in rows.shape_names.values()]
    columns: dict[str, list[Any]] = {name: [getattr(key, name) for key in keys] for name in Key._fields}
    columns["step"] = [step] * len(keys)
    columns["shape"] = [shapes[place] for place in rows.shapes]
    columns["norm"] = sketch.norm(dim=1).tolist()
    kept = [_numbers(shape, key) < WIDTH for shape, key in zip(columns["shape"], keys, strict=True)]
    columns["sum"] = torch.where(torch.tensor(kept), sketch.sum(dim=1), sums).tolist()
    out = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(arrow.table(columns), out)
    return out.getvalue()


def _numbers(shape: list[int], key: Key) -> int:
    """Return how many numbers were sketched: a complex element is two."""
    return math.prod(shape) * (1 + key.dtype.startswith("complex"))
