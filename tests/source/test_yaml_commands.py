"""Command lines in YAML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.kinds import Kind
from torchferry.source.shell import Command
from torchferry.source.yaml_commands import yaml_parts

TEXTS = [
    ("a:\n  command: b c && d\n", [["b", "c"], ["d"]]),
    ("command: [a, --b, c]\n", [["a", "--b", "c"]]),
    ("command:\n  - a\n  - --b\n", [["a", "--b"]]),
    ("script:\n  - a b\n  - c d\n", [["a", "b"], ["c", "d"]]),
    ("run: |\n  a b\n\n  c\nother: d e\n", [["a", "b"], ["c"]]),
    ("run: |  # why\r\n  a b\r\nname: c\r\n", [["a", "b"]]),
    ("args:\n  - |\n    a b\n  - c\n", [["c"], ["a", "b"]]),
    ("- run: >-\n    a\n- name: x y\n", [["a"]]),
    ("name: a b\ndescription: |\n  c d\n", []),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_commands(text: str, expected: list[list[str]]) -> None:
    found = [[word.text for word in part.words] for part in yaml_parts(Kind.YAML, text) if isinstance(part, Command)]
    assert found == expected


@given(st.text(alphabet="run: |>-ab\n\r\t#[]{},'\"&*"))
def test_any_text_is_survived(text: str) -> None:
    for part in yaml_parts(Kind.YAML, text):
        if isinstance(part, Command):
            for word in (*part.assignments, *part.words):
                assert text[word.start : word.end] == word.text
