"""Whether a text parses is told as `ast.parse` tells it, and nothing of it is run."""

from __future__ import annotations

import ast
import re
import sys
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.source.parsing import parse_fault
from torchferry.source.python import UnparsableError, parse

PIECES = (
    *("x = 1\n", "if x:\n", "    y = 2\n", "print 'x'\n", "(", ")", "'", "\n", "\t", "def f():\n", "    return\n"),
    *("return\n", "\\", "'\\d'\n", "#c\n", "\x0c", "é = 1\n", "x = 0777\n", "<<<<<<< a\n"),
    "from __future__ import division\n",
)


def parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_as_ast_parse_tells_it(text: str) -> None:
    assert (parse_fault(text) is None) is parses(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [("print 'x'\n", 1), ("x = 1\n\nif x\n    pass\n", 3), ("x = '\0'\n", 1), ("x = " + "(" * 5000 + ")" * 5000, 1)],
    ids=["print", "if", "zero", "deep"],
)
def test_the_line_is_that_of_the_text(text: str, line: int) -> None:
    fault = parse_fault(text)
    assert fault is not None
    assert fault[0] == line
    assert fault[1]


def test_nothing_is_run() -> None:
    assert parse_fault("raise SystemExit(3)\n") is None


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("try:\n    pass\nexcept* ValueError:\n    pass\n", (3, 11)),
        ("def first[T](values: list[T]) -> T:\n    return values[0]\n", (3, 12)),
        ("async def first[T](values):\n    return values[0]\n", (3, 12)),
        ("class Box[T]:\n    pass\n", (3, 12)),
        ("type Pair = tuple[int, int]\n", (3, 12)),
        ("type Pair[T] = tuple[T, T]\n", (3, 12)),
        ("print(f'{a['b']}')\n", (3, 12)),
        ("x = t'{name}'\n", (3, 14)),
        ("def first(values:\n", None),
        ("type = print = \n", None),
    ],
)
def test_syntax_of_a_newer_python_is_named(text: str, needed: tuple[int, int] | None) -> None:
    if needed is not None and needed <= sys.version_info[:2]:
        parse(text)
        return
    with pytest.raises(UnparsableError) as caught:
        parse(text)
    said = re.search(r"syntax of Python (3\.\d+)", str(caught.value))
    assert (said and said[1]) == (needed and "{}.{}".format(*needed))
