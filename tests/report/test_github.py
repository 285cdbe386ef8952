"""Annotations: one command a line, whatever the texts hold, the worst first."""

from __future__ import annotations

import re

import pytest

from tests.report.reports import hostile, real
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.report import github_format
from torchferry.report.model import Report

COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^,:]*)(?:,\w+=[^,:]*)*)::(.*)")


def commands(report: Report) -> list[tuple[str, dict[str, str], str]]:
    """Return the commands as GitHub reads them: level, properties, message."""
    done = []
    lines = github_format.render(report, "en").removesuffix("\n").split("\n")
    for line in lines:
        match = COMMAND.fullmatch(line)
        assert match, line
        level, properties, message = match.groups()
        listed = dict(item.split("=", 1) for item in properties.split(","))
        done.append((level, {name: _read(value) for name, value in listed.items()}, _read(message)))
    return done


def _read(text: str) -> str:
    for escaped, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escaped, char)
    return text


def test_every_finding_is_a_command_in_its_place() -> None:
    found = commands(real())
    assert sorted((p["file"], p["line"], p["title"]) for _, p, _ in found if "line" in p) == sorted(
        (f.location.path, str(f.location.line), f.code) for f in real().findings if not f.location.cell
    )
    assert len(found) == len(real().findings)


def test_the_worst_comes_first() -> None:
    place = Location("a.py", 1, 1, 1, 2)
    findings = [Finding("DEV101", place, say(grade.value), grade) for grade in (Grade.NOTE, Grade.SAFE, Grade.MANUAL)]
    findings.append(Finding("DEV101", place, say("blocker"), Grade.MANUAL, blocker=True))
    found = commands(Report("npu", real().target_title, "x", 1, tuple(findings)))
    assert [(level, message) for level, _, message in found] == [
        ("error", "blocker"),
        ("error", "manual"),
        ("warning", "safe"),
        ("notice", "note"),
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a,b", "a,b"),
        ("a::error file=b,line=1::c", "a::error file=b,line=1::c"),
        ("100%", "100%"),
        ("%0A::error::x", "%0A::error::x"),
        ("a\r\n::error::x", "a\\r\\n::error::x"),
        ("\x1b[31m\udce9", "\\x1b[31m\\udce9"),
        ("中文", "中文"),
    ],
)
def test_no_text_breaks_out_of_its_command(text: str, read: str) -> None:
    finding = Finding("DEV101", Location(text, 1, 1, 1, 2), say("{x}", x=text), Grade.SAFE)
    ((level, properties, message),) = commands(Report("npu", real().target_title, "x", 1, (finding,)))
    assert (level, properties["file"], message) == ("warning", read, read)


def test_columns_only_within_a_line_and_lines_only_outside_notebooks() -> None:
    def properties(place: Location) -> tuple[set[str], str]:
        report = Report("npu", real().target_title, "x", 1, (Finding("DEV101", place, say("x"), Grade.SAFE),))
        ((_, listed, message),) = commands(report)
        return set(listed) - {"file", "title"}, message

    assert properties(Location("a.py", 3, 1, 3, 5)) == ({"line", "endLine", "col", "endColumn"}, "x")
    assert properties(Location("a.py", 3, 1, 4, 5)) == ({"line", "endLine"}, "x")
    assert properties(Location("a.ipynb", 3, 1, 3, 5, 2)) == (set(), "cell 2:3:1 x")


def test_hostile_texts_stay_on_their_lines() -> None:
    assert len(commands(hostile())) == len(hostile().failures) + len(hostile().findings)
    github_format.render(hostile(), "en").encode("utf-8")
