"""What a vendor's kernels take: dtypes and ranks by operator and card, where the vendor publishes it.

The table is long and few commands need it, so it has its own file, `kernel_limits.toml`, which
`tools/kernel_limits.py` writes::

    library = "CANN"                    # whose functions these are

    [sources]
    NN = "github.com/vendor/kernels@0123456789ab"

    [cards]                             # a word of the table, and the cards that it represents
    x1 = ["Acme X1", "Acme X1 Pro"]

    [functions.acmeIndex]
    page = "NN docs/acmeIndex.md"       # key of the source, and the place in it
    varies = "x1"                       # where it does not compute the same each time, by default
    self = ["x1 x2: fhl/8", "x3: *"]    # for each parameter: cards, dtypes (see CODES, `*` for all), highest rank
    other = ["x1: fh+*", "x2: fh+d"]    # after a `+`: what may be taken too, and nobody says so
    slow = ["x1: sd"]                   # dtypes that the card computes on its own host processor

    [operators]                         # without `aten::`
    "index.Tensor" = ["self acmeIndex.self"]
    "mul.Tensor" = ["self acmeMul.self | acmeMuls.self"]    # one or the other: what either takes may pass
    "norm.x" = ["self acmeAbs.self & acmeSum.self"]         # one after the other: both must take it
    "eq.Tensor" = ["self acmeEq.self - x2"]                 # on those cards nobody knows
    "sum" = ["self ? acmeSum.self"]                         # it may be converted first: nothing is refused

What is not in the table is not known, and never taken to pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

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
        named: What the vendor says is taken; None where it says it of no dtype, as of a result that is as an argument.
        rank: The most dimensions that some kernel takes; 0 where nothing is said.
        slow: Dtypes that the card computes on its own host processor.
        function: The functions of the library that it is handed to, the first one first.
        source: Where the limits are published.
    """

    operator: str
    argument: str
    dtypes: frozenset[str] | None
    named: frozenset[str] | None
    rank: int
    slow: frozenset[str]
    function: str
    source: str


@dataclass(frozen=True)
class _Parameter:
    dtypes: frozenset[str] | None
    named: frozenset[str] | None
    rank: int


_Way = list[tuple[str, str]]
"""The functions that an argument is handed to one after the other, each with the parameter that it is there."""


class KernelLimits:
    """The limits that a vendor publishes for the kernels of its plugin; a row is read when it is requested.

    Args:
        file: The table.

    Raises:
        ValueError: it lacks a field, or has one that it should not have.
    """

    def __init__(self, file: DataFile) -> None:
        file.check_keys(file.document, frozenset({"library", "sources", "cards", "functions", "operators"}), "top")
        self._file = file
        self._words = file.table("cards")
        self._cards = {card: word for word in self._words for card in file.texts(self._words, word, "[cards]")}
        self._functions = file.table("functions")
        self._operators = file.table("operators")
        self.library = file.text(file.document, "library", "top")
        """Whose kernels they are, such as `CANN`."""
        if not self.library:
            raise file.wrong("`library` says whose kernels these are")

    @property
    def cards(self) -> list[str]:
        """The cards that the table speaks of."""
        return list(self._cards)

    @property
    def operators(self) -> list[str]:
        """The operators that the table has, for one card or another."""
        return list(self._operators)

    @cached_property
    def bases(self) -> Mapping[str, list[str]]:
        """The operators that the table has, by their names without overload."""
        forms: dict[str, list[str]] = {}
        for operator in self._operators:
            forms.setdefault(operator.partition(".")[0], []).append(operator)
        return forms

    def knows(self, card: str) -> bool:
        """Whether the table speaks of a card."""
        return card in self._cards

    def on(self, card: str) -> dict[str, list[KernelLimit]]:
        """Return the limits on a card, by operator; empty for a card that the table does not know.

        Raises:
            ValueError: a row is not as it should be.
        """
        word = self._cards.get(card, "")
        return {name: limits for name in self._operators if (limits := self._of(name, word))} if word else {}

    def of(self, operator: str, card: str) -> list[KernelLimit]:
        """Return the limits of one operator on a card; raises what `on` raises."""
        return self._of(operator, self._cards.get(card, ""))

    def slow(self, base: str, card: str) -> dict[str, str]:
        """Return the dtypes that a card computes on its own host processor, each with the function.

        Args:
            base: Name of an operator without its overload, as a trace has it. A dtype counts that is slow in each
                overload for tensors: Python's numbers are made tensors.
            card: The card.
        """
        common: dict[str, str] | None = None
        for operator in self.bases.get(base, ()):
            limits = self.of(operator, card) if "Scalar" not in operator.partition(".")[2] else []
            if limits:
                slow = {dtype: limit.function for limit in limits for dtype in limit.slow}
                common = slow if common is None else {dtype: common[dtype] for dtype in common.keys() & slow.keys()}
        return common or {}

    def refusing(self, base: str, dtype: str, card: str) -> KernelLimit | None:
        """Return a limit by which each form of an operator refuses a dtype in its first argument; None for none.

        Args:
            base: Name of the operator without its overload.
            dtype: The dtype.
            card: The card.
        """
        limits = [limit for operator in self.bases.get(base, ()) for limit in self.of(operator, card)]
        first = [limit for limit in limits if limit.argument in ("self", "input")]
        refused = [limit for limit in first if limit.dtypes is not None and dtype not in limit.dtypes]
        return refused[0] if refused and len(refused) == len(first) else None

    def varying_on_any(self, operator: str) -> str:
        """Return the function behind an operator that varies on some card, as `varying` says; empty for none."""
        functions = (self.varying(operator, card) for card in self._cards)
        return next((function for function in functions if function), "")

    def varying(self, operator: str, card: str) -> str:
        """Return the function behind an operator that does not compute the same each time on a card; empty for none."""
        word = self._cards.get(card, "")
        for row in self._operators.get(operator, ()):
            for way in self._ways(operator, row.partition(" - ")[0])[1]:
                for function, _ in way:
                    if word and word in self._functions[function].get("varies", "").split():
                        return function
        return ""

    def check(self) -> None:
        """Read every row.

        Raises:
            ValueError: one is not as it should be.
        """
        for name, table in self._functions.items():
            where = f"[functions.{name}]"
            self._source(name)
            for key in table.keys() - {"page", "varies"}:
                for row in self._file.texts(table, key, where):
                    cards, text = self._split(row, where)
                    if not set(cards) <= self._words.keys():
                        raise self._file.wrong(f"{where}: `{row}` does not begin with words of [cards]")
                    self._read(text, where)
            if not set(self._file.text(table, "varies", where).split()) <= self._words.keys():
                raise self._file.wrong(f"{where}: `varies` has no words of [cards]")
        for name in self._operators:
            for word in self._words:
                self._of(name, word)

    def _of(self, operator: str, word: str) -> list[KernelLimit]:
        limits = []
        for row in self._operators.get(operator, ()):
            row, _, but = row.partition(" - ")
            if word in but.split():
                continue
            argument, ways = self._ways(operator, row)
            limit = self._limit(operator, argument, ways, word)
            if limit is not None and row.startswith(f"{argument} ? "):
                limit = replace(limit, dtypes=None, rank=0, slow=frozenset()) if limit.named is not None else None
            if limit is not None:
                limits.append(limit)
        return limits

    def _ways(self, operator: str, row: str) -> tuple[str, list[_Way]]:
        argument, _, ways = row.replace(" ? ", " ", 1).partition(" ")
        return argument, [[self._handed(operator, part) for part in way.split(" & ")] for way in ways.split(" | ")]

    def _handed(self, operator: str, text: str) -> tuple[str, str]:
        function, _, parameter = text.rpartition(".")
        if parameter not in self._functions.get(function, ()):
            raise self._file.wrong(f"[operators] {operator}: `{text}` is no parameter of a function of the table")
        return function, parameter

    def _limit(self, operator: str, argument: str, ways: list[_Way], word: str) -> KernelLimit | None:
        """Return what may be handed on: what every function of a way takes, for one way or another."""
        of_ways: list[_Parameter] = []
        slow: set[str] = set()
        for way in ways:
            parts = [part for name, parameter in way if (part := self._parameter(name, parameter, word)) is not None]
            if not parts:  # the way is not there on this card, or nothing is said of it
                return None
            rank = min((part.rank for part in parts if part.rank), default=0)
            dtypes, named = _common(part.dtypes for part in parts), _common(part.named for part in parts)
            of_ways.append(_Parameter(dtypes, named, rank))
            for name, _ in way:
                part = self._parameter(name, "slow", word)
                slow |= part.dtypes or frozenset() if part is not None else frozenset()
        every = [way.dtypes for way in of_ways if way.dtypes is not None]
        taken = frozenset[str]().union(*every) if len(every) == len(of_ways) else None
        ranks = [way.rank for way in of_ways]
        named = None if any(way.named is None for way in of_ways) else _common(way.named for way in of_ways)
        function = ways[0][0][0]
        return KernelLimit(operator, argument, taken, named, 0 if 0 in ranks else max(ranks), frozenset(slow), function,
                           self._source(function))  # fmt: skip

    def _source(self, function: str) -> str:
        key, _, place = self._functions[function].get("page", "").partition(" ")
        if key not in self._file.sources:
            raise self._file.wrong(f"[functions.{function}]: `{key}` is not in [sources]")
        return f"{self._file.sources[key]} {place}"

    def _parameter(self, function: str, parameter: str, word: str) -> _Parameter | None:
        for row in self._functions[function].get(parameter, ()):
            cards, text = self._split(row, f"[functions.{function}]")
            if word in cards:
                return self._read(text, f"[functions.{function}]")
        return None

    def _split(self, row: str, where: str) -> tuple[list[str], str]:
        cards, colon, text = row.partition(": ")
        if not colon:
            raise self._file.wrong(f"{where}: `{row}` is not `card ...: dtypes`")
        return cards.split(" "), text

    def _read(self, text: str, where: str) -> _Parameter:
        parameter = _read_parameters.get(text)
        if parameter is None:
            letters, _, rank = text.partition("/")
            sure, plus, more = ("", "+", "*") if letters == "*" else letters.partition("+")
            letters_are_known = set(sure) | set("" if more == "*" else more) <= _NAMES.keys()
            if (rank and not rank.isdigit()) or not letters_are_known or (plus and not more):
                raise self._file.wrong(f"{where}: `{text}` is not letters of dtypes and a highest rank")
            named = frozenset(_NAMES[letter] for letter in sure)
            dtypes = None if more == "*" else named | {_NAMES[letter] for letter in more}
            parameter = _read_parameters[text] = _Parameter(dtypes, None if letters == "*" else named, int(rank or 0))
        return parameter


def _common(lists: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """Return what all lists have that are there; None where there is none."""
    there = [each for each in lists if each is not None]
    return frozenset.intersection(*there) if there else None


_read_parameters: dict[str, _Parameter] = {}


def kernel_limits(backend: type[Backend]) -> KernelLimits | None:
    """Return the limits that are published for a backend's kernels; None where there is no such table.

    Raises:
        ValueError: the file lacks a field, has one it should not have, or cites a source it does not name.
    """
    path = data_file(backend, "kernel_limits.toml")
    return None if path is None else _load(path)


@lru_cache(maxsize=4)
def _load(path: Path) -> KernelLimits:
    return KernelLimits(DataFile(path))
