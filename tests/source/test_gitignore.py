"""Patterns that are asked at once say what each would say by itself, in the order of their lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.gitignore import _glob, is_ignored, parse_gitignore

BODIES = st.sampled_from(["a", "*.py", "*", "**", "a/b", "/a", "a*", "*a*", "?.py", "[ab]", "\\a", "b/", "*.py/", "a/"])
LINES = st.lists(st.tuples(st.booleans(), BODIES), max_size=8)
PATHS = st.lists(st.sampled_from(["a", "b", "a.py", "ba", ".py", "*.py"]), min_size=1, max_size=3).map("/".join)


@given(LINES, PATHS, st.booleans(), st.sampled_from(["", "b"]))
def test_the_last_line_that_matches_decides(
    lines: list[tuple[bool, str]], path: str, is_folder: bool, base: str
) -> None:
    wanted = False
    for negated, body in lines:
        pattern = _glob(body.rstrip("/"))
        inside = path.removeprefix(f"{base}/") if base else path
        below = not base or path.startswith(f"{base}/")
        if below and (is_folder or not body.endswith("/")) and pattern is not None and pattern.matches(inside):
            wanted = not negated
    text = "\n".join("!" * negated + body for negated, body in lines)
    assert is_ignored(path, is_folder, parse_gitignore(text, base)) == wanted


@pytest.mark.parametrize(
    ("body", "path", "matches"),
    [
        ("*a" * 30 + "b", "a" * 200, False),
        ("*a" * 30 + "*", "a" * 200, True),
        ("*?" * 30 + "b", "a" * 200, False),
        ("**/" * 30 + "b", "a/" * 100 + "a", False),
        ("**/a/" * 30 + "b", "a/" * 100 + "b", True),
        ("**/a/" * 30 + "c", "a/" * 100 + "b", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("**/a", "a", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/c/d/b", True),
        ("a[!b]c", "a/c", False),  # a slash is matched by a slash alone
        ("a/*/c", "a/b/b/c", False),
        ("?" * 5000, "a", False),
        ("a\\ ", "a ", True),
    ],
)
def test_matching_ends(body: str, path: str, matches: bool) -> None:
    """With backtracking some of these would not end in the time of a person's life."""
    assert is_ignored(path, False, parse_gitignore(body, "")) is matches
