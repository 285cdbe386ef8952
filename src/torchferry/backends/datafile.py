"""A backend's data files that are one record and no table of rows: where they lie and how their sources are cited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torchferry.core import toml
from torchferry.core.messages import Bilingual

DATA = Path(__file__).with_name("data")
"""The tables that belong to no vendor: `cuda`, the side that programs come from, and `common`."""

VENDORS = Path(__file__).parent.parent / "vendors"
"""The vendors' folders, each called by the name of its target."""


Record = TypeVar("Record", bound=tuple[Any, ...])
"""A named tuple, whose fields are the keys of a table."""


class DataOwner:
    """What has a folder of data files: a `Backend`, from which they say more."""

    NAME: ClassVar[str]
    DATA_DIRECTORY: ClassVar[Path | None]


def data_directory(backend: type[DataOwner]) -> Path:
    """Return the folder with the tables of a backend, which need not exist."""
    return backend.DATA_DIRECTORY or VENDORS / backend.NAME


def data_file(backend: type[DataOwner], name: str) -> Path | None:
    """Return the file `name` of a backend, or the nearest one that it inherits; None where there is none."""
    for base in backend.__mro__:
        if not (issubclass(base, DataOwner) and hasattr(base, "NAME")):
            continue
        path = data_directory(base) / name
        if path.is_file():
            return path
    return None


class DataFile:
    """One parsed data file; every reading method raises ValueError with the file's name when the file is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.document = toml.load_own(path)
        except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not TOML: {error}") from error
        sources = self.document.get("sources", {})
        if not isinstance(sources, dict) or not all(isinstance(text, str) and text for text in sources.values()):
            raise self.wrong("[sources] maps a key to a text")
        self.sources: dict[str, str] = sources

    def wrong(self, problem: str) -> ValueError:
        """Build the error for this file."""
        return ValueError(f"{self.path}: {problem}")

    def check_keys(self, table: dict[str, Any], keys: frozenset[str], where: str) -> None:
        """Check that `table` has no key but `keys`."""
        for key in table:
            if key not in keys:
                raise self.wrong(f"{where}: `{key}` is none of {', '.join(sorted(keys))}")

    def cited(self, table: dict[str, Any], where: str) -> str:
        """Return the sources that `table` cites, in full."""
        keys = self.text(table, "source", where).split()
        if not keys or any(key not in self.sources for key in keys):
            raise self.wrong(f"{where}: source `{' '.join(keys)}` is not in [sources]")
        return "; ".join(self.sources[key] for key in keys)

    def text(self, table: dict[str, Any], key: str, where: str, default: str = "") -> str:
        """Return a text of `table`."""
        value = table.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(f"{where}: `{key}` is {value!r}, not a text")
        return value

    def texts(self, table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
        """Return a list of texts of `table`; empty when it is absent."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.wrong(f"{where}: `{key}` is not a list of texts")
        return tuple(value)

    def tables(self, key: str) -> list[dict[str, Any]]:
        """Return the tables `[[key]]` of the file."""
        value = self.document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(f"`{key}` is not a list of tables; write [[{key}]]")
        return value

    def table(self, key: str) -> dict[str, Any]:
        """Return the table `[key]` of the file; empty when it is absent."""
        value = self.document.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(f"`{key}` is not a table; write [{key}]")
        return value

    def truth(self, table: dict[str, Any], key: str, where: str, default: bool = False) -> bool:
        """Return a truth value of `table`."""
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(f"{where}: `{key}` is true or false")
        return value

    def number(self, table: dict[str, Any], key: str, where: str, default: int = 0) -> int:
        """Return a whole number of `table`, which is not negative."""
        value = table.get(key, default)
        if type(value) is not int or value < 0:
            raise self.wrong(f"{where}: `{key}` is a whole number, 0 or more")
        return value

    def numbers(self, table: dict[str, Any], key: str, where: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return a list of whole numbers of `table`, none of them negative."""
        value = table.get(key, list(default))
        if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
            raise self.wrong(f"{where}: `{key}` is a list of whole numbers")
        return tuple(value)

    def bilingual(self, table: dict[str, Any], key: str, where: str) -> Bilingual:
        """Return a text of `table` with its Chinese, which is in the key that ends in `_zh`."""
        return Bilingual(self.text(table, key, where), self.text(table, f"{key}_zh", where))

    def record(self, kind: type[Record], table: dict[str, Any], where: str, **given: Any) -> Record:
        """Return a table as a record: each key of the table is a field of it, read as the field's annotation says.

        Args:
            kind: The record's class; a field `source` holds what the table cites, in full.
            table: The table.
            where: How the table is called in an error.
            given: Fields that were read otherwise; their keys may be in the table too.
        """
        fields: dict[str, str] = kind.__annotations__
        defaults: dict[str, Any] = getattr(kind, "_field_defaults")  # noqa: B009 - every named tuple has it
        self.check_keys(
            table,
            frozenset([*fields, *(f"{name}_zh" for name, typed in fields.items() if typed == "Bilingual")]),
            where,
        )
        values = dict(given)
        for name, typed in fields.items():
            if name in given:
                continue
            if name == "source":
                values[name] = self.cited(table, where)
            elif name not in table and name in defaults:
                values[name] = defaults[name]
            else:
                values[name] = _READERS[typed](self, table, name, where)
        return kind(**values)


_READERS: dict[str, Callable[[DataFile, dict[str, Any], str, str], Any]] = {
    "str": DataFile.text,
    "bool": DataFile.truth,
    "int": DataFile.number,
    "tuple[str, ...]": DataFile.texts,
    "tuple[int, ...]": DataFile.numbers,
    "Bilingual": DataFile.bilingual,
}
"""How a field of a record is read, by its annotation."""
