"""A tree made from that of the text before is the tree of the text; what cannot be made so is left to a whole parse."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.core.finding import Edit
from torchferry.source.reparse import reparsed
from torchferry.source.text import SourceText, apply_edits

SOURCES = sorted((Path(__file__).parents[2] / "src" / "torchferry").rglob("*.py"))
WORD = re.compile(r"\w+|[^\w\s]")
MATCH = "match x:\n    case 1:\n        y = a\n    case 2:\n        y = a\nz = a\n"


def dumped(tree: ast.AST) -> str:
    return ast.dump(tree, include_attributes=True)


def made(text: str, edits: list[Edit]) -> tuple[ast.Module | None, str]:
    tree = ast.parse(text)
    before = dumped(tree)
    after = apply_edits(text, edits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = reparsed(tree, SourceText(text), SourceText(after), edits)
    assert dumped(tree) == before
    return found, after


def replacing(text: str, old: str, new: str) -> list[Edit]:
    return [Edit(m.start(), m.end(), new) for m in re.finditer(rf"(?<!\w){re.escape(old)}(?!\w)", text)]


@pytest.mark.parametrize(
    "text",
    [
        "x = a\ny = 1\n",
        "def f():\n    '''é'''\n    x = 'é', a\n    return x\n",
        "class A:\n    @a\n    def f(self):\n        return 1\n",
        "try:\n    x = 1\nexcept E:\n    a\nfinally:\n    y\n",
        "try:\n    x = 1\nexcept E:\n    y\nelse:\n    a\n",
        "if x:\n    pass\nelif y:\n    a\nelse:\n    a\n",
        "with a:\n    x = a\n\nfor i in a:\n    while x:\n        a",
        "x = f'{a} {a!r:>{a}}'\n",
        "x = (1,\n     a)  # a\ny = 2\n",
        "if x:\n\ty = a\n",
        MATCH,
        "x = 1; y = 2\nz = a\n",
    ],
)
@pytest.mark.parametrize("new", ["b", "b.c.d", "f(1)", "é"])
def test_the_tree_is_that_of_the_text(text: str, new: str) -> None:
    found, after = made(text, replacing(text, "a", new))
    assert found is not None
    assert dumped(found) == dumped(ast.parse(after))


def test_statements_that_no_edit_touches_are_kept() -> None:
    text = "x = 1\ndef f():\n    y = 2\n    z = a\n    return y\n"
    tree = ast.parse(text)
    edits = replacing(text, "a", "b")
    found = reparsed(tree, SourceText(text), SourceText(apply_edits(text, edits)), edits)
    assert found is not None
    old, new = tree.body[1], found.body[1]
    assert isinstance(old, ast.FunctionDef)
    assert isinstance(new, ast.FunctionDef)
    assert found.body[0] is tree.body[0]
    assert [new is old for new, old in zip(new.body, old.body, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("x = a; y = a\n", "a", "b"),  # two statements of one line
        ("x = a\r\n", "a", "b"),
        ("x = a\n", "a", "b\n"),
        ("x = a\n", "a", "("),  # no longer Python
        ("x = a\n", "a", "1; y = 2"),  # more statements than one
        ("if x:\n    a\n", "    a", "  a\n"),
        ("def f():\n    y\n    return a\n", "return", ""),  # what is left stands further in than its block
        ("# a\nx = 1\n", "a", "coding: latin-1"),
        ("if x:\n    a\nelse:\n    y\n", "a", "\\"),
    ],
)
def test_what_is_left_to_a_whole_parse(text: str, old: str, new: str) -> None:
    assert made(text, replacing(text, old, new))[0] is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_edit_of_any_file(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SOURCES)).read_text(encoding="utf-8")
    words = list(WORD.finditer(text))
    chosen = data.draw(st.sets(st.integers(0, len(words) - 1), min_size=1, max_size=4))
    new = st.sampled_from(["b", "b.c", "'é'", "(", "pass", "#", "\\", "lambda: 0", ":", ""])
    edits = [Edit(*words[index].span(), data.draw(new)) for index in sorted(chosen)]
    found, after = made(text, edits)
    if found is not None:
        assert dumped(found) == dumped(ast.parse(after))
