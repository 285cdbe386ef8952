"""Licence lines of files: what others have written there is read and never changed; lines are only added."""

from __future__ import annotations

import re

from torchferry.source.text import SourceText, UndecodableError, decode_python, decode_text

PYTHON, C = "python", "c"

_LANGUAGES = {
    ".py": PYTHON,
    ".sh": PYTHON,
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hh", ".cu", ".cuh"), C),
}
_SIGNS = {PYTHON: "#", C: "//"}

_NOTICE = re.compile(
    r"copyright|licen[cs]ed under|spdx-license-identifier|all rights reserved"
    r"|\b(?:[al]?gpl|mit|bsd|apache|mpl)\b[^\n]{0,30}\blicen[cs]e\b",
    re.IGNORECASE,
)
_FIRST_LINES = re.compile(r"(?:#![^\n]*\n)?(?:[ \t\f]*#(?=[^\n]*\n)[^\n]*coding[:=][ \t]*[-\w.][^\n]*\n)?")
_COMMENTS = {
    PYTHON: re.compile(r"(?:[ \t]*#[^\n]*\n)+"),
    C: re.compile(r"\s*(?:(?://[^\n]*\n)+|/\*.*?\*/[^\n]*\n)", re.DOTALL),
}
"""The comments that a file begins with."""

_HEAD = 60
"""Lines at the top of a file in which its licence stands."""


def language_of_comments(path: str) -> str:
    """Return `python` or `c`, by the comments that a file has; empty for a file that gets no licence lines."""
    return next((language for suffix, language in _LANGUAGES.items() if path.endswith(suffix)), "")


def decoded(data: bytes, path: str) -> SourceText | None:
    """Return the text of a file; None where it cannot be decoded, so that it stays as it is."""
    try:
        return decode_python(data) if path.endswith(".py") else decode_text(data)
    except UndecodableError:
        return None


def has_notice(text: str) -> bool:
    """Whether the comments at the top of a file claim a copyright or name a licence."""
    head = text.split("\n")[:_HEAD]
    signs = ("#", "//", "/*", "*", '"""', "'''")
    comments = [line for line in head if line.lstrip().startswith(signs)]
    return _NOTICE.search("\n".join([*comments, *_leading_string(head)])) is not None


def _leading_string(head: list[str]) -> list[str]:
    """Return the lines of a text in quotes that a file begins with."""
    first = next((line for line in head if line.strip() and not line.lstrip().startswith("#")), "")
    quotes = first.lstrip()[:3]
    if quotes not in ('"""', "'''"):
        return []
    start = head.index(first)
    end = next((number for number in range(start + 1, len(head)) if quotes in head[number]), start)
    return head[start : end + 1]


def commented(header: str, language: str) -> str:
    """Return a header as comments."""
    sign = _SIGNS[language]
    return "\n".join(f"{sign} {line}".rstrip() for line in header.split("\n"))


def has_header(text: str, header: str, language: str) -> bool:
    """Whether a file has a header, of any year."""
    pattern = re.escape(commented(header, language)).replace(r"\{year\}", "[0-9]{4}")
    return re.search(rf"^[ \t]*{pattern}[ \t.。]*$", text.replace("\r\n", "\n"), re.MULTILINE) is not None


def with_header(source: SourceText, header: str, language: str, year: int) -> str:
    """Return a text with a header as comments, behind `#!` and the line that names its encoding."""
    text = source.text
    if has_header(text, header, language):
        return text
    match = _FIRST_LINES.match(text)
    at = match.end() if match is not None else 0
    gap = "" if text[at : at + 2] in ("", "\r\n") or text[at] == "\n" else "\n"
    return _inserted(source, at, f"{commented(header, language)}\n{gap}".replace("{year}", str(year)))


def with_line(source: SourceText, line: str, language: str, year: int) -> str:
    """Return a text with one line behind the comments at its top that name a licence; these stay as they are."""
    text = source.text
    if has_header(text, line, language):
        return text
    match = _COMMENTS[language].match(text)
    if match is None or not _NOTICE.search(match.group()):
        return with_header(source, line, language, year)
    return _inserted(source, match.end(), f"\n{commented(line, language)}\n".replace("{year}", str(year)))


def _inserted(source: SourceText, at: int, lines: str) -> str:
    return source.text[:at] + lines.replace("\n", source.newline) + source.text[at:]
