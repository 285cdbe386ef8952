"""What the HTML page's script reads: the findings and the differences, as compact as 20 000 findings need."""

from __future__ import annotations

from typing import Any

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say, say_plural
from torchferry.core.terminal import visible
from torchferry.report.full_format import GRADE_TITLES
from torchferry.report.html_words import FOR_SCRIPT
from torchferry.report.model import FileDiff, Report
from torchferry.report.side_by_side import DiffRow, LinePart, lines_of
from torchferry.rules.registry import family_title

LONGEST = 1_000
"""Characters of a line that are shown; minified files have lines of a megabyte."""

_AROUND = 200
"""Characters shown before and after each change in a line that is too long."""

FOLDED = 3_000_000
"""Characters of unchanged lines that a page carries for unfolding, all files together."""


def data(report: Report, compared: list[tuple[FileDiff, list[DiffRow]]], lang: str) -> dict[str, Any]:
    """Return the object that the page's script reads; `script.js` says what it makes of each field."""
    strings = _Strings()
    findings = [_finding(finding, strings, lang) for finding in report.findings]
    room = FOLDED
    diffs = []
    for diff, rows in compared:
        folds = _folds(diff, rows)
        size = sum(len(line) for lines in folds for line in lines)
        room -= size
        diffs.append([visible(diff.path), _rows(rows, folds if room >= 0 else None)])
    return {
        "words": {
            **{name: word.render(lang) for name, word in FOR_SCRIPT.items()},
            "folded": _FOLDED._replace(values=(("count", "{count}"),)).render(lang),
            "foldedOne": _FOLDED.render(lang),
        },
        "grades": {grade.value: say(GRADE_TITLES[grade]).render(lang) for grade in Grade},
        "families": {name: family_title(name).render(lang) for name in report.by_family},
        "strings": strings.all,
        "findings": findings,
        "diffs": diffs,
    }


_FOLDED = say_plural("{count} line as it is", "{count} lines as they are", count=1)


class _Strings:
    """Texts, each held once: paths, codes and messages come again and again."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the place of a text in the list."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(visible(text))
        return number


def _finding(finding: Finding, strings: _Strings, lang: str) -> list[int | str]:
    place = finding.location
    return [
        strings.number(place.path),
        place.line,
        place.column,
        place.cell,
        strings.number(finding.code),
        finding.grade.value,
        int(finding.blocker),
        strings.number(finding.message.render(lang)),
        strings.number(finding.snippet),
    ]


def _folds(diff: FileDiff, rows: list[DiffRow]) -> list[list[str]]:
    """Return the lines of each folded stretch, in order."""
    new = lines_of(diff.after)
    folds: list[list[str]] = []
    at = 0
    for row in rows:
        if row.folded:
            folds.append(new[at : at + row.folded])
            at += row.folded
        elif row.right:
            at = row.right
    return folds


def _rows(rows: list[DiffRow], folds: list[list[str]] | None) -> list[list[Any]]:
    """Return rows as the script takes them: `=` left right text, `~` left right before after, `.` left right count."""
    done: list[list[Any]] = []
    left = right = 0
    stretches = iter(folds or ())
    for row in rows:
        if row.folded:
            lines = next(stretches, None)
            held = [_clipped(line) for line in lines] if lines is not None else None
            done.append([".", left + 1, right + 1, row.folded, held])
            left, right = left + row.folded, right + row.folded
            continue
        left, right = row.left or left, row.right or right
        if row.changed:
            done.append(["~", row.left, row.right, _parts(row.before), _parts(row.after)])
        else:
            done.append(["=", row.left, row.right, _clipped("".join(part.text for part in row.before))])
    return done


def _parts(parts: tuple[LinePart, ...]) -> list[str]:
    """Return the pieces of a line, by turns unchanged and changed, beginning with an unchanged one."""
    done = [""]
    for part in parts:
        if part.changed != (len(done) % 2 == 0):
            done.append("")
        done[-1] += part.text
    if sum(map(len, done)) > LONGEST:
        done = [_shortened(piece, bool(index), index < len(done) - 1) for index, piece in enumerate(done)]
    return [visible(piece) for piece in done]


def _shortened(piece: str, head: bool, tail: bool) -> str:
    """Keep of a long piece what stands next to its neighbours: its start if `head`, its end if `tail`."""
    if len(piece) <= 2 * _AROUND:
        return piece
    return (piece[:_AROUND] if head or not tail else "") + " … " + (piece[-_AROUND:] if tail else "")


def _clipped(line: str) -> str:
    return visible(line if len(line) <= LONGEST else line[:LONGEST] + " …")
