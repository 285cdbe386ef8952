"""The places of a port as comments above their lines in the ported files, for those who read there.

    /* PRT116 warp-size: `threadIdx.x % 32` represents a warp of 32 threads; threads of a warp: mp_31: 32 */
    int lane = threadIdx.x % 32;

A comment is above the whole statement of the preprocessor, or string, that its line is a part of, so that nothing
that is compiled changes. It is ASCII and English, whatever the encoding of the file, and is not written twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torchferry.core.terminal import visible
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.review import ReviewItem, kinds
from torchferry.kernels.tokens import SourceTokens, decode, encode

_OPENS = "/* PRT"
_LONGEST = 400
"""Characters of a comment."""


def with_comments(ported: PortedTree) -> tuple[PortedTree, list[str]]:
    """Return a port with comments in its C++, and the files that have places and cannot take any."""
    by_file: dict[str, list[ReviewItem]] = {}
    for item in ported.items:
        by_file.setdefault(item.path, []).append(item)
    files, left = [], []
    for file in ported.files:
        items = by_file.get(file.path, [])
        if file.is_source and not file.builds and items:
            is_text = b"\0" not in file.before[:4096] and file.before.count(b"\n") == file.after.count(b"\n")
            if is_text:
                file = file._replace(after=_commented(file.after, items))
            else:
                left.append(file.path)
        files.append(file)
    return replace(ported, files=tuple(files)), left


def _commented(data: bytes, items: Iterable[ReviewItem]) -> bytes:
    """Return a file with a comment for each item; its lines are those of the file that the items are about."""
    text = decode(data)
    source = SourceTokens(text)
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    explained = kinds()
    above: dict[int, dict[str, None]] = {}  # by the index of the line
    for item in items:
        index = min(item.line, len(lines)) - 1
        while index and _goes_on(source, lines, starts, index):
            index -= 1
        comment = _comment(f"{explained[item.kind].number} {item.kind}: {item.message.render('en')}")
        above.setdefault(index, {})[comment] = None
    written: list[str] = []
    for index, line in enumerate(lines):
        comments = above.get(index)
        if comments is not None:
            blanks = line[: len(line) - len(line.lstrip(" \t"))]
            end = "\r" if line.endswith("\r") else ""
            there = _comments_above(lines, index)
            written += [f"{blanks}{comment}{end}" for comment in comments if comment not in there]
        written.append(line)
    return encode("\n".join(written))


def _goes_on(source: SourceTokens, lines: list[str], starts: list[int], index: int) -> bool:
    """Whether a line is a part of what began above it: a line that a backslash continues, a comment, a raw string."""
    before = lines[index - 1].rstrip("\r \t")  # compilers take blanks behind the backslash, too
    return before.endswith(("\\", "??/")) or source.opaque_at(starts[index] - 1) is not None


def _comments_above(lines: list[str], index: int) -> set[str]:
    there = set()
    while index and lines[index - 1].lstrip(" \t").startswith(_OPENS):
        index -= 1
        there.add(lines[index].strip())
    return there


def _comment(text: str) -> str:
    """Return a text as one comment: ASCII, on one line, without the marks of a comment inside."""
    plain = visible(" ".join(text.split())).encode("ascii", "replace").decode("ascii")
    plain = plain.replace("??", "? ?")  # the start of a trigraph
    for mark in ("/*", "*/"):
        while mark in plain:
            plain = plain.replace(mark, f"{mark[0]} {mark[1]}")
    if len(plain) > _LONGEST:
        plain = plain[: _LONGEST - 3] + "..."
    return f"/* {plain.rstrip(chr(92) + '*')} */"
