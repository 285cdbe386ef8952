"""What a vendor's kernels take: dtypes and ranks by operator and card, where the vendor publishes it.

The table is long and few commands need it, so it has a file of its own, `kernel_limits.toml`, which
`tools/kernel_limits.py` writes::

    library = "CANN"                    # whose functions these are

    [sources]
    NN = "github.com/vendor/kernels@0123456789ab"

    [cards]                             # a word of the table, and the cards that it stands for
    x1 = ["Acme X1", "Acme X1 Pro"]

    [functions.acmeIndex]
    page = "NN docs/acmeIndex.md"       # key of the source, and the place in it
    varies = "x1"                       # where it does not compute the same each time, by default
    self = ["x1 x2: fhl/8", "x3: *"]    # for each parameter: cards, dtypes (see CODES, `*` for all), highest rank
    slow = ["x1: sd"]                   # dtypes that the card computes on its own host processor

    [operators]                         # without `aten::`
    "index.Tensor" = ["self acmeIndex.self"]
    "mul.Tensor" = ["self acmeMul.self | acmeMuls.self"]    # one or the other: what either takes may pass
    "norm.x" = ["self acmeAbs.self & acmeSum.self"]         # one after the other: both must take it

What is not in the table is not known, and never taken to pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file

CODES = {
    "bool": "?",
    "uint8": "B",
    "int8": "c",
    "int16": "s",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float16": "h",
    "bfloat16": "b",
    "float32": "f",
    "float64": "d",
    "complex32": "E",
    "complex64": "F",
    "complex128": "D",
    "float8_e4m3fn": "4",
    "float8_e5m2": "5",
    "float8_e8m0fnu": "8",
    "qint8": "q",
    "quint8": "Q",
    "qint32": "r",
}
"""The letter of each dtype in the table."""

_NAMES = {code: name for name, code in CODES.items()}


@dataclass(frozen=True)
class KernelLimit:
    """What one argument of an operator may be on one card.

    Attributes:
        operator: Dispatcher name without `aten::`.
        argument: Name of the argument in torch's declaration.
        dtypes: What some kernel takes; None for every dtype.
        rank: The most dimensions that some kernel takes; 0 where nothing is said.
        slow: Dtypes that the card computes on its own host processor.
        function: The functions of the library that it is handed to, the first one first.
        source: Where the limits are published.
    """

    operator: str
    argument: str
    dtypes: frozenset[str] | None
    rank: int
    slow: frozenset[str]
    function: str
    source: str


@dataclass(frozen=True)
class _Parameter:
    dtypes: frozenset[str] | None
    rank: int


@dataclass(frozen=True)
class _Function:
    source: str
    varies: frozenset[str]
    takes: Mapping[str, Mapping[str, _Parameter]]  # by parameter, by word of a card
    slow: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class KernelLimits:
    """The limits that a vendor publishes for the kernels of its plugin.

    Attributes:
        library: Whose kernels they are, such as `CANN`.
        cards: Words of the table, by the card that they stand for.
    """

    library: str
    cards: Mapping[str, str]
    functions: Mapping[str, _Function]
    operators: Mapping[str, Mapping[str, tuple[tuple[tuple[str, str], ...], ...]]]

    def on(self, card: str) -> dict[str, list[KernelLimit]]:
        """Return the limits on a card, by operator; empty for a card that the table does not know."""
        word = self.cards.get(card, "")
        found: dict[str, list[KernelLimit]] = {}
        for operator, arguments in self.operators.items() if word else ():
            limits = [self._limit(operator, argument, ways, word) for argument, ways in arguments.items()]
            known = [limit for limit in limits if limit is not None]
            if known:
                found[operator] = known
        return found

    def varying(self, operator: str, card: str) -> str:
        """Return the function behind an operator that does not compute the same each time on a card; empty for none."""
        word = self.cards.get(card, "")
        for ways in self.operators.get(operator, {}).values():
            for way in ways:
                for function, _ in way:
                    if word in self.functions[function].varies:
                        return function
        return ""

    def _limit(
        self, operator: str, argument: str, ways: tuple[tuple[tuple[str, str], ...], ...], word: str
    ) -> KernelLimit | None:
        """Return what may be handed on: what every function of a way takes, for one way or another."""
        of_ways: list[_Parameter] = []
        slow: set[str] = set()
        for way in ways:
            parts = [self.functions[name].takes[parameter].get(word) for name, parameter in way]
            known = [part for part in parts if part is not None]
            if not known:  # the way is not there on this card, or nothing is said of it
                return None
            lists = [part.dtypes for part in known if part.dtypes is not None]
            dtypes = frozenset.intersection(*lists) if lists else None
            of_ways.append(_Parameter(dtypes, min((part.rank for part in known if part.rank), default=0)))
            for name, _ in way:
                slow |= self.functions[name].slow.get(word, frozenset())
        every = [way.dtypes for way in of_ways if way.dtypes is not None]
        dtypes = frozenset().union(*every) if len(every) == len(of_ways) else None
        ranks = [way.rank for way in of_ways]
        function, _ = ways[0][0]
        return KernelLimit(
            operator, argument, dtypes, 0 if 0 in ranks else max(ranks), frozenset(slow), function,
            self.functions[function].source,
        )  # fmt: skip


def kernel_limits(backend: type[Backend]) -> KernelLimits | None:
    """Return the limits that are published for a backend's kernels; None where there is no such table.

    Raises:
        ValueError: the file lacks a field, has one it should not have, or cites a source it does not name.
    """
    path = data_file(backend, "kernel_limits.toml")
    return None if path is None else _load(path)


@lru_cache(maxsize=4)
def _load(path: Path) -> KernelLimits:
    file = DataFile(path)
    document = file.document
    file.check_keys(document, frozenset({"library", "sources", "cards", "functions", "operators"}), "top")
    words = file.table("cards")
    cards = {card: word for word in words for card in file.texts(words, word, "[cards]")}
    functions = {name: _function(file, name, table, words) for name, table in file.table("functions").items()}
    operators = {}
    for name, rows in file.table("operators").items():
        arguments = {}
        for row in rows:
            argument, _, ways = row.partition(" ")
            arguments[argument] = tuple(tuple(_handed(file, name, part, functions) for part in way.split(" & "))
                                        for way in ways.split(" | "))  # fmt: skip
        operators[name] = arguments
    library = file.text(document, "library", "top")
    if not library:
        raise file.wrong("`library` says whose kernels these are")
    return KernelLimits(library, cards, functions, operators)


def _handed(file: DataFile, operator: str, text: str, functions: Mapping[str, _Function]) -> tuple[str, str]:
    function, _, parameter = text.rpartition(".")
    if function not in functions or parameter not in functions[function].takes:
        raise file.wrong(f"[operators] {operator}: `{text}` is no parameter of a function of the table")
    return function, parameter


def _function(file: DataFile, name: str, table: dict[str, Any], words: Mapping[str, Any]) -> _Function:
    where = f"[functions.{name}]"
    key, _, place = file.text(table, "page", where).partition(" ")
    if key not in file.sources:
        raise file.wrong(f"{where}: `{key}` is not in [sources]")
    takes = {}
    for parameter in table.keys() - {"page", "varies", "slow"}:
        takes[parameter] = {
            word: _parameter(file, text, where)
            for word, text in _by_card(file, file.texts(table, parameter, where), words, where)
        }
    slow = {
        word: _dtypes(file, text, where)
        for word, text in _by_card(file, file.texts(table, "slow", where), words, where)
    }
    varies = frozenset(file.text(table, "varies", where).split())
    return _Function(f"{file.sources[key]} {place}", varies, takes, slow)


def _by_card(
    file: DataFile, rows: tuple[str, ...], words: Mapping[str, Any], where: str
) -> list[tuple[str, str]]:
    found = []
    for row in rows:
        cards, colon, text = row.partition(": ")
        if not colon or not set(cards.split()) <= words.keys():
            raise file.wrong(f"{where}: `{row}` does not begin with words of [cards]")
        found += [(word, text) for word in cards.split()]
    return found


def _parameter(file: DataFile, text: str, where: str) -> _Parameter:
    dtypes, _, rank = text.partition("/")
    if rank and not rank.isdigit():
        raise file.wrong(f"{where}: `{text}` has no rank behind the stroke")
    return _Parameter(None if dtypes == "*" else _dtypes(file, dtypes, where), int(rank or 0))


def _dtypes(file: DataFile, letters: str, where: str) -> frozenset[str]:
    if not set(letters) <= _NAMES.keys():
        raise file.wrong(f"{where}: `{letters}` has a letter that stands for no dtype")
    return frozenset(_NAMES[letter] for letter in letters)
