"""The vendors' management tools: which command shows the cards, and how its output is read.

The formats are rows of `[tool]` of the vendor's `doctor.toml`. A format is either a regular expression for a card's
lines (`card`), or a block for each card (`start`) with a regular expression for each field. `start` counts the cards
that the output has; where fewer could be read, the rest is reported as unread, never left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.backends.machine import pattern

FIELDS = ("index", "chip", "name", "health", "temperature", "used", "total", "utilisation", "ecc", "uncorrected")
"""Groups of a card's expression; `used2` represents `used` where the former did not take part."""


@dataclass(frozen=True)
class SmiCard:
    """One card as the tool shows it; what it does not show, or shows as N/A, is None.

    Attributes:
        index: Its number, with the chip's number behind it where a card has several: `0`, `0.1`.
        name: As the tool calls it.
        health: The tool's word for it.
        temperature: Degrees Celsius.
        used: MiB of its memory in use.
        total: MiB of its memory.
        utilisation: As printed.
        ecc: Whether memory errors are corrected, as printed.
        uncorrected: Memory errors that were not corrected.
    """

    index: str
    name: str = ""
    health: str | None = None
    temperature: float | None = None
    used: int | None = None
    total: int | None = None
    utilisation: str | None = None
    ecc: str | None = None
    uncorrected: int | None = None


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a card. `memory` is in MiB."""

    card: str
    pid: int
    name: str
    memory: int | None


@dataclass(frozen=True)
class SmiOutput:
    """What one output says; `format` is empty when none of the known formats fits."""

    format: str = ""
    version: str = ""
    driver: str = ""
    cards: tuple[SmiCard, ...] = ()
    holders: tuple[Holder, ...] = ()
    unread: int = 0
    runtime: str = ""


@dataclass(frozen=True)
class Format:
    """One format of an output."""

    name: str
    start: re.Pattern[str]
    card: re.Pattern[str] | None
    fields: tuple[tuple[str, re.Pattern[str]], ...]
    source: str


@dataclass(frozen=True)
class Tool:
    """A management tool.

    Attributes:
        commands: Commands that show all cards; the next is tried where the former has no known format.
        places: Where the tool lies when it is not on PATH.
        version: Its own version; the first group.
        driver: The driver's version; the first group.
        runtime: The version of the runtime that the tool shows beside the driver's; the first group.
        process: A process that holds a card: groups `card`, `pid`, `name`, `memory`.
        formats: Known formats of the output.
        healthy: Words that mean a healthy card; empty when the tool has no such word, or none is known.
        lost: A card whose utilisation reads so has fallen off the bus.
        memory_error: Command and expression for memory errors of one card, `{index}` being its number.
        source: Where the facts come from.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    places: tuple[str, ...] = ()
    version: re.Pattern[str] | None = None
    driver: re.Pattern[str] | None = None
    process: re.Pattern[str] | None = None
    formats: tuple[Format, ...] = ()
    healthy: tuple[str, ...] = ()
    lost: str = ""
    memory_error: tuple[tuple[str, ...], re.Pattern[str]] | None = None
    source: str = ""
    runtime: re.Pattern[str] | None = None


def tool(backend: type[DataOwner]) -> Tool:
    """Return the target's tool; without `[tool]`, one of which nothing is known.

    Raises:
        ValueError: the table has a key it should not have, a value of the wrong kind, or cites no source.
    """
    path = data_file(backend, "doctor.toml")
    return Tool() if path is None else _read(path)


def read(management_tool: Tool, text: str) -> SmiOutput:
    """Return what the output says."""
    for form in management_tool.formats:
        cards = tuple(_cards(form, text))
        if cards:
            return SmiOutput(
                form.name,
                _first(management_tool.version, text),
                _first(management_tool.driver, text),
                cards,
                tuple(_holders(management_tool.process, text)),
                max(0, len(form.start.findall(text)) - len(cards)),
                _first(management_tool.runtime, text),
            )
    return SmiOutput(
        version=_first(management_tool.version, text),
        driver=_first(management_tool.driver, text),
        runtime=_first(management_tool.runtime, text),
    )


def _cards(form: Format, text: str) -> list[SmiCard]:
    if form.card is not None:
        return [_card(match.groupdict()) for match in form.card.finditer(text)]
    cards = []
    starts = list(form.start.finditer(text))
    for number, match in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        values: dict[str, str | None] = dict(match.groupdict())
        for name, expression in form.fields:
            value = expression.search(text, match.end(), end)
            values[name] = value[1] if value else None
        if values.get("total") is not None:
            cards.append(_card(values))
    return cards


def _card(groups: dict[str, str | None]) -> SmiCard:
    values: dict[str, str] = {}
    for name, value in groups.items():
        if value is not None:
            values.setdefault(name.rstrip("0123456789"), value.strip())
    index = values["index"]
    if int(values.get("chip") or 0):
        index = f"{index}.{values['chip']}"
    scale = 1024 if values.get("unit") in ("G", "GB", "GiB") else 1
    return SmiCard(
        index,
        values.get("name", ""),
        values.get("health"),
        _number(values.get("temperature"), float),
        _mebibytes(values.get("used"), scale),
        _mebibytes(values.get("total"), scale),
        values.get("utilisation"),
        values.get("ecc"),
        _number(values.get("uncorrected"), int),
    )


def _mebibytes(text: str | None, scale: int) -> int | None:
    value = _number(text, int)
    return None if value is None else value * scale


def _number(text: str | None, kind: Callable[[str], Any]) -> Any:
    try:
        return None if text is None else kind(text)
    except ValueError:
        return None


def _holders(expression: re.Pattern[str] | None, text: str) -> list[Holder]:
    if expression is None:
        return []
    return [
        Holder(match["card"], int(match["pid"]), match["name"].strip(), _number(match["memory"], int))
        for match in expression.finditer(text)
    ]


def _first(expression: re.Pattern[str] | None, text: str) -> str:
    match = expression.search(text) if expression else None
    return match[1] if match else ""


_KEYS = frozenset(
    {
        "commands",
        "places",
        "version",
        "driver",
        "runtime",
        "process",
        "format",
        "healthy",
        "lost",
        "memory_error",
        "source",
    }
)


@lru_cache(maxsize=16)
def _read(path: Path) -> Tool:
    file, where = DataFile(path), "[tool]"
    table = file.table("tool")
    if not table:
        return Tool()
    file.check_keys(table, _KEYS, where)
    commands = table.get("commands", [])
    if not isinstance(commands, list) or not all(isinstance(command, list) and command for command in commands):
        raise file.wrong(f"{where}: `commands` is a list of commands, each a list of words")

    def expression(key: str) -> re.Pattern[str] | None:
        text = file.text(table, key, where)
        return pattern(file, text, where) if text else None

    return Tool(
        tuple(tuple(map(str, command)) for command in commands),
        file.texts(table, "places", where),
        expression("version"),
        expression("driver"),
        expression("process"),
        tuple(_format(file, entry) for entry in table.get("format", [])),
        file.texts(table, "healthy", where),
        file.text(table, "lost", where),
        _memory_error(file, table.get("memory_error")),
        file.cited(table, where),
        expression("runtime"),
    )


def _memory_error(file: DataFile, entry: Any) -> tuple[tuple[str, ...], re.Pattern[str]] | None:
    if entry is None:
        return None
    where = "[tool.memory_error]"
    file.check_keys(entry, frozenset({"command", "pattern", "source"}), where)
    file.cited(entry, where)
    return file.texts(entry, "command", where), pattern(file, file.text(entry, "pattern", where), where)


def _format(file: DataFile, entry: dict[str, Any]) -> Format:
    where = f"[[tool.format]] {entry.get('name', '')}"
    file.check_keys(entry, frozenset({"name", "start", "card", "fields", "source"}), where)
    fields = entry.get("fields", {})
    card = file.text(entry, "card", where)
    file.check_keys(fields, frozenset(FIELDS), where)
    form = Format(
        file.text(entry, "name", where),
        pattern(file, file.text(entry, "start", where), where),
        pattern(file, card, where) if card else None,
        tuple((name, pattern(file, str(text), where)) for name, text in fields.items()),
        file.cited(entry, where),
    )
    named = set((form.card or form.start).groupindex)
    unknown = {name.rstrip("0123456789") for name in named} - {*FIELDS, "unit"}
    if not entry.get("name") or "index" not in named or unknown:
        raise file.wrong(
            f"{where}: needs a name and the group `index`, and knows no group {', '.join(sorted(unknown))}"
        )
    return form
