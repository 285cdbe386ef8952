"""Dockerfiles: instructions with continuation lines and here-documents, and the commands in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.dockerfile import docker_parts, instructions
from torchferry.source.shell import Command, Heredoc

INSTRUCTIONS = [
    ("# FROM x\nfrom y AS z\n", [("FROM", "y AS z")]),
    ("RUN a \\\n  # why\n  && b\nENV C=d", [("RUN", "a \\\n  # why\n  && b"), ("ENV", "C=d")]),
    ("RUN a \\\r\n  b\r\nENV C=d\r\n", [("RUN", "a \\\r\n  b\r"), ("ENV", "C=d\r")]),
    ("RUN <<EOF\nfrom a\nEOF\nUSER b", [("RUN", "<<EOF\nfrom a\nEOF"), ("USER", "b")]),
    ("COPY <<-'A' <<B /x\nfrom a\n\tA\nfrom b\nB\nUSER c", [("COPY", None), ("USER", "c")]),
    ("RUN a <<EOF\nUSER b", [("RUN", "a <<EOF"), ("USER", "b")]),
    ("RUN echo $((1 << 2))\nUSER b", [("RUN", "echo $((1 << 2))"), ("USER", "b")]),
]


@pytest.mark.parametrize(("text", "expected"), INSTRUCTIONS)
def test_instructions(text: str, expected: list[tuple[str, str | None]]) -> None:
    found = [(one.keyword, text[one.start : one.end]) for one in instructions(text)]
    assert [keyword for keyword, _ in found] == [keyword for keyword, _ in expected]
    for (_, arguments), (_, wanted) in zip(found, expected, strict=True):
        assert wanted is None or arguments == wanted


def test_commands_of_both_forms() -> None:
    text = 'RUN --mount=type=cache a 1 && b\nCMD ["c", "--x"]\nCOPY d e\nRUN <<EOF\nf g\nEOF\n'
    found = list(docker_parts(text))
    words = [[word.text for word in part.words] for part in found if isinstance(part, Command)]
    assert words == [["a", "1"], ["b"], ["c", "--x"]]
    assert [text[part.start : part.end] for part in found if isinstance(part, Heredoc)] == ["f g\n"]


@given(st.text(alphabet="FROMRUNCMD \\\n\r\t#[]\"',<=-$a{}"))
def test_any_text_is_survived(text: str) -> None:
    last = 0
    for one in instructions(text):
        assert last <= one.start <= one.end <= len(text)
        last = one.end
    for part in docker_parts(text):
        if isinstance(part, Command):
            for word in (*part.assignments, *part.words):
                assert text[word.start : word.end] == word.text
