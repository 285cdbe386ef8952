"""What lines are tried for is what a search would have found, in the same order."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.exports import _ALIAS_LINE, _IMPORT_LINE
from torchferry.source.lines import line_matches
from torchferry.source.outline import _IMPORT

PARTS = ["from ", "a.b", " import ", "import ", "x, y", "(", ")", "\n", "\r\n", "  ", "#", ";", "torch.", "=", "\\\n"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)


@given(TEXTS)
def test_matches_are_those_of_a_search(text: str) -> None:
    data = text.encode()
    cases: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [
        ([m.span() for m in line_matches(_IMPORT, b"import", data)], [m.span() for m in _IMPORT.finditer(data)])
    ]
    for pattern, word in ((_IMPORT_LINE, "import"), (_ALIAS_LINE, "=")):
        tried = [match.span() for match in line_matches(pattern, word, text)]
        cases.append((tried, [match.span() for match in pattern.finditer(text)]))
    assert all(tried == searched for tried, searched in cases)


def test_a_match_over_lines_is_not_tried_again() -> None:
    pattern = re.compile(r"^a[^)]*\)", re.MULTILINE)
    assert [match.group() for match in line_matches(pattern, "a", "a(\na\n)\na()")] == ["a(\na\n)", "a()"]
