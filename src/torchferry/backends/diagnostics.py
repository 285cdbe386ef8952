"""Variables that make a vendor's software say more (`diagnostics.toml`), and what each is at a level.

A file has one table for each variable::

    [[variable]]
    name = "ASCEND_GLOBAL_LOG_LEVEL"
    values = { error = "3", warning = "2", info = "1", debug = "0" }
    note = "what CANN logs"
    note_zh = "CANN 的日志级别"
    source = "CANN"

A level without a value leaves the variable alone: nothing is written that no source names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DATA, DataFile, data_file
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

LEVELS = ("error", "warning", "info", "debug")
"""How much is said, from little to much."""

_KEYS = frozenset({"name", "values", "note", "note_zh", "source"})


class DiagnosticVariable(NamedTuple):
    """A variable of a vendor's software, or of torch.

    Attributes:
        name: The variable.
        values: Its value at each of `LEVELS`; a level that is not there leaves it alone.
        note: What it does.
        source: Where that is stated.
    """

    name: str
    values: Mapping[str, str]
    note: Bilingual
    source: str


def diagnostics(backend: type[Backend] | None, *, alone: bool = False) -> tuple[DiagnosticVariable, ...]:
    """Return the variables of torch, unless the vendor's `alone` are asked for, and those of a vendor's software.

    Raises:
        ValueError: a table is wrong, which is a mistake of torchferry's or of the distribution that it belongs to.
    """
    own = None if backend is None else data_file(backend, "diagnostics.toml")
    of_vendor = () if own is None else _read(own)
    return of_vendor if alone else (*_read(DATA / "common" / "diagnostics.toml"), *of_vendor)


@lru_cache(maxsize=8)
def _read(path: Path) -> tuple[DiagnosticVariable, ...]:
    file = DataFile(path)
    variables = []
    for table in file.tables("variable"):
        name = file.text(table, "name", "[[variable]]")
        where = f"[[variable]] {name}"
        file.check_keys(table, _KEYS, where)
        values = table.get("values")
        if not name or not isinstance(values, dict) or not values or not set(values) <= set(LEVELS):
            raise file.wrong(f"{where}: a variable has a name, and `values` at some of {', '.join(LEVELS)}")
        variables.append(
            DiagnosticVariable(
                name,
                {level: file.text(values, level, where) for level in LEVELS if level in values},
                Bilingual(file.text(table, "note", where), file.text(table, "note_zh", where)),
                file.cited(table, where),
            )
        )
    return tuple(variables)
