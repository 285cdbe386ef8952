"""Reading TOML on every supported Python: `tomllib`, or `tomli` on 3.10, and a faster way for our own tables."""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say

_HEADER = lazy_regex(r"\[(?P<list>\[)?(?P<name>[A-Za-z0-9_-]+)](?(list)])")
_NAME = lazy_regex(r"[A-Za-z0-9_-]+")
_LITERAL = lazy_regex(r'["0-9tf]|-[0-9]|\[ *["0-9tf\]-]')
"""How a value begins that JSON may write as TOML does: a string, a number, a truth, a list of these."""

_QUOTED_LIST = lazy_regex(r"\[ *(?:'[^']*', *)*'[^']*',? *]")
"""A list of literal strings, which mean the text between their quotes."""

_SAME_ESCAPE = lazy_regex(r'\\["\\nt]')
"""Escapes that JSON and TOML both have; each has others that the other lacks."""

_KEY = lazy_regex(r"""\s*(?:([A-Za-z0-9_-]+)|"([^"\\]*)") = """)

_LONG_NUMBER = lazy_regex(r"[0-9a-fA-F_]{16}|[0-7_]{21}|[01_]{63}")
"""What every integer has that does not fit into 64 bits: at least so many digits in its base."""

_CONTROL = bytes([*range(10), *range(11, 32), 127])

_PLAIN_ITEMS = frozenset({str, int, bool})

_decode = json.JSONDecoder().raw_decode


def load(path: Path) -> dict[str, Any]:
    """Parse a TOML file of the user's.

    Raises:
        TOMLDecodeError: the file is not TOML.
        OSError: the file cannot be read.
    """
    return loads(read_text(path, LARGEST_SETTINGS))


def load_own(path: Path) -> dict[str, Any]:
    """Parse a table of ours; raises what `load` raises.

    What was read is kept beside the table, in `__pycache__`, as Python keeps its own modules: for the same interpreter,
    as long as size and time of the table are the same, and where the folder may be written. It takes a sixth of the
    time, which every command pays and every program whose `torch.cuda` is redirected.
    """
    status = os.stat(path)
    table_of = f"{__version__} {status.st_size} {status.st_mtime_ns}\n".encode()
    cached = path.parent / "__pycache__" / f"{path.name}.{sys.implementation.cache_tag}"
    try:
        data = cached.read_bytes()
    except OSError:
        data = b""
    if data.startswith(table_of):
        with contextlib.suppress(EOFError, ValueError, TypeError):  # it was cut off
            table: dict[str, Any] = marshal.loads(data[len(table_of) :])  # noqa: S302 - ours, as the modules here are
            return table
    document = _parsed(path)
    if not sys.dont_write_bytecode and sys.pycache_prefix is None:
        _keep(cached, table_of, document)
    return document


def _keep(file: Path, table_of: bytes, document: dict[str, Any]) -> None:
    """Write what was read of a table, whole or not at all."""
    new = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(exist_ok=True)
        with open(new, "xb") as written:
            written.write(table_of + marshal.dumps(document))
        new.replace(file)
    except (OSError, ValueError):  # a folder of somebody else's, a full disk; or a date, which marshal cannot write
        with contextlib.suppress(OSError):
            new.unlink()


def _parsed(path: Path) -> dict[str, Any]:
    """Parse a table, in the faster way where it is plainly written."""
    text = path.read_text(encoding="utf-8")
    try:
        return _plain(text)
    except _NotPlainError:
        return loads(text)


def loads(text: str) -> dict[str, Any]:
    """Parse TOML text.

    Raises:
        TOMLDecodeError: it is not TOML, is nested too deeply, or has an integer beyond the 64 bits that TOML has.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # imported late: our own tables do not need it
    else:
        import tomli as tomllib
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise TOMLDecodeError("it is nested too deeply") from None
    except ValueError as error:  # also of Python's int, which tomllib lets through
        number = _conflict(text)
        if number:
            raise TOMLDecodeError(say("git left a conflict in line {line}; resolve it", line=number)) from None
        raise TOMLDecodeError(str(error)) from None
    if _LONG_NUMBER.search(text):
        _refuse_long_numbers(document)
    return document


def _conflict(text: str) -> int:
    """Return the line, from 1, where git has marked a conflict; 0 for none."""
    lines = text.split("\n")
    return next((number for number, line in enumerate(lines, 1) if line.startswith("<<<<<<< ")), 0)


def _refuse_long_numbers(document: dict[str, Any]) -> None:
    waiting: list[tuple[object, str]] = [(document, "")]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TOMLDecodeError(f"`{place}` is a number that does not fit into 64 bits")
        if isinstance(value, dict):
            waiting += [(part, f"{place}.{key}" if place else key) for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(part, f"{place}[{number}]") for number, part in enumerate(value)]


class TOMLDecodeError(ValueError):
    """The text is not TOML; the message says where and why."""


class _NotPlainError(Exception):
    """The text is written in a way that `_plain` does not know, or is no TOML."""


def _plain(text: str) -> dict[str, Any]:
    """Parse text as our own tables are written: one entry a line, lists of strings, or of tables, over lines.

    Most values are JSON as well, whose parser is C: it takes a quarter of the time.

    Raises:
        _NotPlainError: anything that is not understood for sure.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _CONTROL)) != len(data):
        raise _NotPlainError
    document: dict[str, Any] = {}
    begun: dict[str, list[dict[str, Any]]] = {}
    table = document
    plain_keys: set[str] = set()  # keys that are written as they should be: a table has few, each in every row
    lines = iter(text.split("\n"))
    for line in lines:
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            rows = begun.get(line)
            if rows is None:
                table = _begin(line, document, begun)
            else:
                table = {}
                rows.append(table)
            continue
        key, _, value = line.partition(" = ")
        if key not in plain_keys:
            if _NAME.fullmatch(key) is None:
                raise _NotPlainError
            plain_keys.add(key)
        if key in table or not value:
            raise _NotPlainError
        if value[0] == '"' == value[-1] and "\\" not in value and value.count('"') == 2:  # most are such a text
            table[key] = value[1:-1]
        else:
            table[key] = _items(lines) if value == "[" else _value(value)
    return document


def _begin(line: str, document: dict[str, Any], begun: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the table that a header begins; `begun` takes the list that it begins, by the header."""
    table: dict[str, Any] = {}
    name = line[1:-1]
    if line[-1] == "]" and name.isidentifier() and name.isascii() and name not in document:  # most are such a header
        document[name] = table
        return table
    header = _HEADER.fullmatch(line)
    if header is None:
        raise _NotPlainError
    name = header["name"]
    if name in document:
        raise _NotPlainError
    if header["list"]:
        begun[line] = document[name] = [table]
    else:
        document[name] = table
    return table


def _items(lines: Iterator[str]) -> list[Any]:
    """Return the list that goes on over lines until one that has its end alone: of strings, or of a table a line."""
    parts = []
    for part in lines:
        if part == "]":
            break
        parts.append(part)
    else:
        raise _NotPlainError
    if parts and parts[0].lstrip().startswith("{"):
        if not all(part.endswith(",") for part in parts[:-1]):
            raise _NotPlainError
        return [_inline(part.strip().removesuffix(",")) for part in parts]
    joined = " ".join(parts).rstrip()
    if "'" in joined and _QUOTED_LIST.fullmatch(f"[{joined}]"):
        return joined.split("'")[1::2]
    text = f"[{joined.removesuffix(',')}]"
    items, end = _literal(text)
    if end != len(text) or not {str}.issuperset(map(type, items)):
        raise _NotPlainError
    return list(items)


def _inline(text: str) -> dict[str, Any]:
    """Return an inline table that has a line to itself, of plain values."""
    table: dict[str, Any] = {}
    at = 1
    while True:
        key = _KEY.match(text, at)
        if text[:1] != "{" or key is None or not _LITERAL.match(text, key.end()):
            raise _NotPlainError
        name = key[1] or key[2]
        if not name or name in table:
            raise _NotPlainError
        table[name], at = _literal(text, key.end())
        rest = text[at : at + 2]
        if rest == " }" and at + 2 == len(text):
            return table
        if rest[:1] != ",":
            raise _NotPlainError
        at += 1


def _literal(text: str, at: int = 0) -> tuple[Any, int]:
    """Return the value that stands somewhere, and where it ends."""
    if "\\" in text and "\\" in _SAME_ESCAPE.sub("", text):
        raise _NotPlainError
    try:
        value, end = _decode(text, at)
    except ValueError:
        raise _NotPlainError from None
    if isinstance(value, list) and not _PLAIN_ITEMS.issuperset(map(type, value)):
        raise _NotPlainError
    return value, end


def _value(text: str) -> Any:
    if text[0] == "'" == text[-1] and text.count("'") == 2:
        return text[1:-1]
    if text[-1] == "]" and "'" in text and _QUOTED_LIST.fullmatch(text):
        return text.split("'")[1::2]
    try:
        if text[0] == "{":
            return _inline(text)
        if not _LITERAL.match(text):
            return _by_itself(text)
        value, end = _literal(text)
    except _NotPlainError:
        return _by_itself(text)
    rest = text[end:].lstrip()
    return value if not rest or rest[0] == "#" else _by_itself(text)


def _by_itself(text: str) -> Any:
    """Parse one value as TOML, such as an inline table."""
    try:
        return loads(f"value = {text}")["value"]
    except TOMLDecodeError:
        raise _NotPlainError from None
