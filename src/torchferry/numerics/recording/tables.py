"""The rows of a step as a table, for tools that read parquet."""

from __future__ import annotations

import importlib
import io
from typing import Any

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.numerics.differences.layout import Key
from torchferry.numerics.recording.rows import Rows


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


def table(rows: Rows, step: int, norms: list[float], sums: list[float]) -> bytes:
    """Return a parquet file with a line for each row: what it is, its norm as the sketch estimates it, and its sum."""
    arrow = require()
    layout = rows.layout()
    keys = [Key(*layout.keys[place]) for place in layout.key]
    shapes = [list(shape) for shape in rows.shape_names.values()]
    columns: dict[str, list[Any]] = {name: [getattr(key, name) for key in keys] for name in Key._fields}
    columns["step"] = [step] * len(keys)
    columns["shape"] = [shapes[place] for place in rows.shapes]
    columns["norm"], columns["sum"] = norms, sums
    out = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(arrow.table(columns), out)
    return out.getvalue()
