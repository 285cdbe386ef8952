"""A vendor's description, `vendor.toml` in its folder: what its target is and what holds for all its cards.

Each table is one attribute of `Backend`, in small letters, with its value and where that is known from::

    title = "Acme Cards"
    title_zh = "某厂商加速卡"
    aliases = ["ac"]
    complete = ["api", "doctor"]            # tables that say all that is asked of them, which tests hold

    [sources]
    WHEEL = "torch-acme 1.2.0 wheel (PyPI)"

    [device_type]
    value = "acme"
    source = "{WHEEL}: torch_acme/__init__.py:20"

    [tf32_switch]
    none = true                             # it is known that there is none; what is not known is left out
    source = "{WHEEL}: none"

    [install]
    value = "install the driver, then torch-acme"
    value_zh = "先安装驱动，再安装 torch-acme"
    source = "{WHEEL}: README.md"

    [[dtype]]
    name = "float64"
    rule = "limited"
    note = "several operators return float32"
    note_zh = "部分算子返回 float32"
    source = "{WHEEL}: README.md"

`{WHEEL}` represents the source of this name. The name of the folder is the target's. What one of the vendor's tables
says (`TableFact`) has no table here.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend, TableFact
from torchferry.backends.datafile import DataFile
from torchferry.backends.dtype_rules import DTYPE_RULES
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Bilingual

DESCRIPTION = "vendor.toml"
"""File that makes a folder a vendor's."""

_MODULE = "torchferry.backends.described_classes"
"""The module in which a pickle looks for a class that is made here."""

_TOP = frozenset({"title", "title_zh", "aliases", "complete", "sources", "dtype"})
_NOT_HERE = frozenset(
    {"NAME", "TITLE", "TITLE_ZH", "ALIASES", "SOURCES", "DTYPES", "DTYPE_NOTES", "DATA_DIRECTORY", "FACADE_DIRECTORY"}
)
_DTYPE = frozenset({"name", "rule", "note", "note_zh", "source"})
_FACT = frozenset({"value", "value_zh", "none", "source"})
_NAMED = lazy_regex(r"\{(\w+)\}")


@lru_cache(maxsize=64)
def describe(folder: Path, name: str) -> type[Backend]:
    """Return the backend called `name`, which a folder describes.

    Raises:
        ValueError: a fact that is none, is of the wrong type, or has no source.
    """
    file = DataFile(folder / DESCRIPTION)
    sources: dict[str, str] = {}
    facts: dict[str, Any] = {"__module__": _MODULE, "NAME": name, "SOURCES": sources, "DATA_DIRECTORY": folder}
    facts["TITLE"] = file.text(file.document, "title", "top")
    facts["TITLE_ZH"] = file.text(file.document, "title_zh", "top")
    facts["ALIASES"] = file.texts(file.document, "aliases", "top")
    for key, table in file.document.items():
        if key in _TOP:
            continue
        attribute = key.upper()
        if attribute in _NOT_HERE or key != key.lower() or not _is_stated(attribute):
            raise file.wrong(f"`{key}` is no fact of `Backend`")
        if not isinstance(table, dict):
            raise file.wrong(f"`{key}` is not a table; write [{key}]")
        facts[attribute] = _value(file, key, table, Backend.__annotations__[attribute])
        sources[attribute] = _source(file, table, f"[{key}]")
    facts |= _dtypes(file, sources)
    return type(name, (Backend,), facts)


def _is_stated(attribute: str) -> bool:
    """Whether an attribute is a fact that a description states: no table has it."""
    return attribute in Backend.__annotations__ and not isinstance(vars(Backend).get(attribute), TableFact)


def _value(file: DataFile, key: str, table: dict[str, Any], declared: str) -> object:
    """Return the value of a fact whose type is declared so."""
    where = f"[{key}]"
    file.check_keys(table, _FACT, where)
    if ("value" in table) == ("none" in table) or table.get("none", True) is not True:
        raise file.wrong(f"{where}: has a `value`, or `none = true` where it is known that there is none")
    if "none" in table:
        if "None" not in declared:
            raise file.wrong(f"{where}: `none` is no answer: leave out what is not known")
        return None
    value = table["value"]
    if "Bilingual" in declared:
        return Bilingual(file.text(table, "value", where), file.text(table, "value_zh", where))
    if "tuple[" in declared:
        return file.texts(table, "value", where)
    if "dict[" in declared:
        pairs = [pair.partition(": ") for pair in file.texts(table, "value", where)]
        if not all(text for _, _, text in pairs):
            raise file.wrong(f'{where}: `value` is a list of "name: text"')
        return {name: text for name, _, text in pairs}
    if type(value) is not (bool if "bool" in declared else str):
        raise file.wrong(f"{where}: `value` is {value!r}, not {'true or false' if 'bool' in declared else 'a text'}")
    return value


def _dtypes(file: DataFile, sources: dict[str, str]) -> dict[str, Any]:
    """Return the facts that `[[dtype]]` states."""
    rules: dict[str, str] = {}
    notes: dict[str, Bilingual] = {}
    cited: dict[str, None] = {}
    for entry in file.tables("dtype"):
        where = f"[[dtype]] {entry.get('name', '')}"
        file.check_keys(entry, _DTYPE, where)
        name, rule = file.text(entry, "name", where), file.text(entry, "rule", where)
        if not name or name in rules or rule not in DTYPE_RULES:
            raise file.wrong(f"{where}: needs a `name` of its own, and a `rule` of {', '.join(DTYPE_RULES)}")
        rules[name] = rule
        notes[name] = Bilingual(file.text(entry, "note", where), file.text(entry, "note_zh", where))
        cited[_source(file, entry, where)] = None
    if not rules:
        return {}
    sources["DTYPES"] = sources["DTYPE_NOTES"] = "; ".join(cited)
    return {"DTYPES": rules, "DTYPE_NOTES": notes}


def _source(file: DataFile, table: dict[str, Any], where: str) -> str:
    """Return where a fact is known from, in full."""
    text = file.text(table, "source", where)
    if text and "{" not in text:
        return text
    unknown = [name for name in _NAMED.findall(text) if name not in file.sources]
    if not text or unknown:
        raise file.wrong(f"{where}: source `{text}` is empty, or names what is not in [sources]")
    return _NAMED.sub(lambda match: file.sources[match[1]], text)
