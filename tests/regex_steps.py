"""Counts the steps that Python's regular expressions take on a text, as their backtracking matcher takes them.

`re` says nothing of its work, and time is no measure for a test. This matcher walks the tree that `re` itself parses
and tries the same things in the same order, so that its count grows as the time of `re` does.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

__all__ = ["StepCounter", "constants", "parse"]

Tree = Sequence[tuple[Any, Any]]
State = tuple[int, dict[int, tuple[int, int]]]
Next = Callable[[int, "dict[int, tuple[int, int]]"], "int | None"]

_ENOUGH = 100_000
"""Steps at which a count ends: no text of the tests takes as many unless it takes them for each character."""

_FEW = 6
"""What stands for a bound of repetitions that is larger: such a bound is a constant, and texts of tests are short."""


class _EnoughError(Exception):
    """The count has ended."""


def parse(pattern: str | bytes, flags: int) -> Any:
    """Return the tree of a pattern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse(pattern, flags)  # type: ignore[arg-type]


class StepCounter:
    """Counts the steps of one pattern."""

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        tree = parse(pattern, flags)
        self._flags = int(tree.state.flags)
        self._text = ""
        self._steps = 0
        self._match = self._sequence(list(tree), lambda at, groups: at)

    def search(self, text: str) -> int:
        """Return the steps that finding all matches in a text takes."""
        self._text, self._steps = text, 0
        at = 0
        try:
            while at <= len(text):
                end = self._match(at, {})
                at = at + 1 if end is None or end == at else end
        except _EnoughError:
            pass
        return self._steps

    def match(self, text: str) -> int:
        """Return the steps that a match at the beginning of a text takes."""
        self._text, self._steps = text, 0
        with suppress(_EnoughError):
            self._match(0, {})
        return self._steps

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _ENOUGH:
            raise _EnoughError

    def _sequence(self, tree: Tree, then: Next) -> Next:
        for operator, argument in reversed(tree):
            then = self._one(operator, argument, then)
        return then

    def _one(self, operator: Any, argument: Any, then: Next) -> Next:
        name = str(operator)
        holds = self._character(name, argument)
        if holds is not None:
            return self._consume(holds, then)
        if name == "AT":
            return self._at(str(argument), then)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = argument
            most = most if most is constants.MAXREPEAT or most <= _FEW else _FEW
            return self._repeat(name, min(least, _FEW), most, list(body), then)
        if name == "SUBPATTERN":
            number, _, _, body = argument
            return self._group(number, list(body), then)
        if name == "BRANCH":
            arms = [self._sequence(list(arm), then) for arm in argument[1]]
            return lambda at, groups: next((end for arm in arms if (end := arm(at, groups)) is not None), None)
        if name in ("ASSERT", "ASSERT_NOT"):
            return self._assertion(name == "ASSERT", argument[0], list(argument[1]), then)
        if name == "ATOMIC_GROUP":
            return self._atomic(list(argument), then)
        if name == "GROUPREF_EXISTS":
            number, present, absent = argument
            first = self._sequence(list(present), then)
            second = self._sequence(list(absent or ()), then)
            return lambda at, groups: (first if number in groups else second)(at, groups)
        if name == "GROUPREF":
            return self._reference(argument, then)
        raise NotImplementedError(name)

    def _character(self, name: str, argument: Any) -> Callable[[str], bool] | None:
        """Return what one character has to be; None for what is not about one."""
        fold = str.lower if self._flags & re.IGNORECASE else str
        if name == "LITERAL":
            return lambda char: fold(char) == fold(chr(argument))
        if name == "NOT_LITERAL":
            return lambda char: fold(char) != fold(chr(argument))
        if name == "ANY":
            return lambda char: bool(self._flags & re.DOTALL) or char != "\n"
        if name == "IN":
            return self._set(argument, fold)
        return None

    def _set(self, items: Iterable[tuple[Any, Any]], fold: Callable[[str], str]) -> Callable[[str], bool]:
        negated = False
        tests: list[Callable[[str], bool]] = []
        for operator, argument in items:
            if operator is constants.NEGATE:
                negated = True
            elif operator is constants.LITERAL:
                tests.append(partial(lambda wanted, char: fold(char) == wanted, fold(chr(argument))))
            elif operator is constants.RANGE:
                low, high = argument
                tests.append(
                    lambda char, low=low, high=high: (
                        any(  # type: ignore[misc]
                            low <= ord(each) <= high for each in {char, char.lower(), char.upper()} if len(each) == 1
                        )
                        if self._flags & re.IGNORECASE
                        else low <= ord(char) <= high
                    )
                )
            else:
                tests.append(_CATEGORIES[str(argument)])
        known: dict[str, bool] = {}

        def holds(char: str) -> bool:
            if char not in known:
                known[char] = any(test(char) for test in tests) != negated
            return known[char]

        return holds

    def _consume(self, holds: Callable[[str], bool], then: Next) -> Next:
        def run(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            self._step()
            if at < len(self._text) and holds(self._text[at]):
                return then(at + 1, groups)
            return None

        return run

    def _at(self, where: str, then: Next) -> Next:
        def word(at: int) -> bool:
            return 0 <= at < len(self._text) and (self._text[at].isalnum() or self._text[at] == "_")

        def holds(at: int) -> bool:
            text = self._text
            if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
                lines = where == "AT_BEGINNING" and self._flags & re.MULTILINE
                return at == 0 or bool(lines and text[at - 1] == "\n")
            if where == "AT_END_STRING":
                return at == len(text)
            if where == "AT_END":
                return at == len(text) or text[at:] == "\n" or bool(self._flags & re.MULTILINE and text[at] == "\n")
            return (word(at - 1) != word(at)) == (where == "AT_BOUNDARY")

        return lambda at, groups: then(at, groups) if holds(at) else None

    def _repeat(self, name: str, least: int, most: int, body: Tree, then: Next) -> Next:
        if name == "POSSESSIVE_REPEAT":
            return self._atomic([(constants.MAX_REPEAT, (least, most, body))], then)
        single = self._character(str(body[0][0]), body[0][1]) if len(body) == 1 else None
        if single is not None:
            return self._repeat_character(name == "MAX_REPEAT", least, most, single, then)

        begun: list[tuple[int, int]] = []  # where the repetitions that are being tried begin, and how many came before

        def behind(end: int, groups: dict[int, tuple[int, int]]) -> int | None:
            at, count = begun[-1]
            return None if end == at and count >= least else attempt(end, groups, count + 1)

        inside = self._sequence(body, behind)

        def once_more(at: int, groups: dict[int, tuple[int, int]], count: int) -> int | None:
            if count >= most:
                return None
            begun.append((at, count))
            try:
                return inside(at, groups)
            finally:
                begun.pop()

        def attempt(at: int, groups: dict[int, tuple[int, int]], count: int) -> int | None:
            self._step()
            if count < least:
                return once_more(at, groups, count)
            if name == "MIN_REPEAT":
                end = then(at, groups)
                return once_more(at, groups, count) if end is None else end
            end = once_more(at, groups, count)
            return then(at, groups) if end is None else end

        return lambda at, groups: attempt(at, groups, 0)

    def _repeat_character(self, greedy: bool, least: int, most: int, holds: Callable[[str], bool], then: Next) -> Next:
        def run(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            text = self._text
            furthest = at
            limit = len(text) if most is constants.MAXREPEAT else min(len(text), at + most)
            if greedy:
                while furthest < limit and holds(text[furthest]):
                    self._step()
                    furthest += 1
                for end in range(furthest, at + least - 1, -1):
                    self._step()
                    found = then(end, groups)
                    if found is not None:
                        return found
                return None
            while True:
                self._step()
                if furthest >= at + least and (found := then(furthest, groups)) is not None:
                    return found
                if furthest >= limit or not holds(text[furthest]):
                    return None
                furthest += 1

        return run

    def _group(self, number: int | None, body: Tree, then: Next) -> Next:
        if number is None:
            return self._sequence(body, then)

        def close(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            return then(at, {**groups, number: (groups[-number - 1][0], at)})

        inside = self._sequence(body, close)
        return lambda at, groups: inside(at, {**groups, -number - 1: (at, at)})

    def _assertion(self, wanted: bool, direction: int, body: Tree, then: Next) -> Next:
        reached: list[dict[int, tuple[int, int]]] = []

        def end(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            reached.append(groups)
            return at

        inside = self._sequence(body, end)
        width = parser.SubPattern(parser.State(), list(body)).getwidth()[0] if direction < 0 else 0

        def run(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            self._step()
            found = inside(at - width, groups) if at >= width else None
            if (found is not None) != wanted:
                return None
            return then(at, reached[-1] if wanted else groups)

        return run

    def _atomic(self, body: Tree, then: Next) -> Next:
        inside = self._sequence(body, lambda at, groups: at)

        def run(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            end = inside(at, groups)
            return None if end is None else then(end, groups)

        return run

    def _reference(self, number: int, then: Next) -> Next:
        def run(at: int, groups: dict[int, tuple[int, int]]) -> int | None:
            self._step()
            if number not in groups:
                return None
            start, end = groups[number]
            piece = self._text[start:end]
            return then(at + len(piece), groups) if self._text.startswith(piece, at) else None

        return run


_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_WORD": lambda char: char.isalnum() or char == "_",
    "CATEGORY_NOT_WORD": lambda char: not (char.isalnum() or char == "_"),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda char: not char.isspace(),
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_NOT_DIGIT": lambda char: not char.isdigit(),
}
