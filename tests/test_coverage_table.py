"""The table of capabilities: it is whole, each proof names something that runs, and the pages are as it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from torchferry.backends import registry
from torchferry.backends.deployment import deployment
from torchferry.cli import cli
from torchferry.doctor.registry import all_checks
from torchferry.rules.registry import rules

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import coverage_table
from coverage_table import Outcome, TableError, read, read_results, report, stale

RESULTS = coverage_table.RESULTS.read_text(encoding="utf-8")
TEXT = coverage_table.TABLE.read_text(encoding="utf-8")


def test_the_table_is_whole_and_every_proof_can_be_run() -> None:
    titles, rows = read(TEXT)
    assert len(rows) == 212
    problems = {proof: coverage_table.problem_of(proof) for proof in coverage_table.proofs_of(rows)}
    assert {proof: problem for proof, problem in problems.items() if problem} == {}
    assert [row.number for row in rows if row.status == "missing"] == []
    tried = [row for row in rows if any(proof.startswith(coverage_table.TRIALS) for proof in row.proof)]
    untried = [row.number for row in rows if row not in tried]
    assert untried == [212], (
        "each is tried as its document prints it, or in part; this one is the vendor's own download"
    )
    assert stale(titles, rows, write=False) == []
    results = read_results(RESULTS, titles)
    assert {each.document for each in results} == titles.keys()
    assert {each.proof for each in results if each.proof} <= set(coverage_table.proofs_of(rows)), (
        "which make coverage runs"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("number = 7\n", "number = 8\n", 1), "not 1 to 212"),
        (lambda text: text.replace('status = "works"', 'status = "missing"', 1), "a reason belongs"),
        (lambda text: text.replace('status = "works"', 'status = "done"', 1), "is no status"),
        (lambda text: text.replace("section = ", "chapter = ", 1), "unknown chapter"),
        (lambda text: text.replace('\nstatus = "rehearsed"', "", 1), "row 1: lacks status"),
        (lambda text: re.sub(r"proof = \[.*?\]\n", "", text, count=1, flags=re.DOTALL), "without a proof"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(change: Callable[[str], str], said: str) -> None:
    with pytest.raises(TableError, match=said):
        read(change(TEXT))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('document = "t20"', 'document = "t30"', 1), "no such document"),
        (lambda text: re.sub(r"^proof = .*$", "", text, count=1, flags=re.MULTILINE), "either a proof"),
        (lambda text: text.replace("ours = ", "mine = ", 1), "unknown mine"),
    ],
)
def test_a_result_without_a_source_is_refused(change: Callable[[str], str], said: str) -> None:
    with pytest.raises(TableError, match=said):
        read_results(change(RESULTS), read(TEXT)[0])


@pytest.mark.parametrize(
    ("proof", "problem"),
    [
        ("tests/test_coverage_table.py::test_the_table_is_whole_and_every_proof_can_be_run", ""),
        ("tests/test_coverage_table.py::test_of_yesterday", "no such test"),
        ("tests/test_of_yesterday.py", "no such file"),
        ("torchferry convert .", "no such command"),
        ("story of-yesterday", "no such story"),
        ("rm -r .", "neither a test"),
    ],
)
def test_what_a_proof_may_be(proof: str, problem: str) -> None:
    assert problem in coverage_table.problem_of(proof) if problem else not coverage_table.problem_of(proof)


STEPS = {
    name
    for target in registry.built_in()
    if (facts := deployment(registry.load(target))) is not None
    for step in facts.steps
    for name in (step.id, step.stage)
}


def unknown_of(use: str) -> list[str]:
    """Return what a row says to use and torchferry does not have: commands, options, steps, rules, checks, files."""
    unknown = [name for name in re.findall(r"(?:steps? `|--only )([\w-]+)", use) if name not in STEPS]
    known = {*(rule.CODE for rule in rules()), *(check.code for check in all_checks())}
    families = {check.code.partition(".")[0] for check in all_checks()}
    for span in re.findall(r"`([^`]+)`", use):
        words = span.partition(" -- ")[0].split()
        command: click.Command = cli
        commands = [command]
        while (
            words
            and isinstance(command, click.Group)
            and (below := command.get_command(click.Context(command), words[0]))
        ):
            command, commands = below, [below]
            del words[0]
        if isinstance(command, click.Group):
            commands += [
                one
                for name in command.list_commands(click.Context(command))
                if (one := command.get_command(click.Context(command), name))
            ]
        if command is not cli:
            options = {option for one in commands for parameter in one.params for option in parameter.opts}
            unknown += [word for word in words if word.startswith("-") and word not in options]
        elif re.fullmatch(r"[A-Z]{3}\d{3}", span) or ("." in span and span.partition(".")[0] in families):
            unknown += [span] if span not in known and not span.endswith(".*") else []
        elif span.startswith("examples/"):
            unknown += [span] if not (coverage_table.ROOT / span).exists() else []
    return unknown


def test_what_a_row_says_to_use_is_there() -> None:
    assert {row.number: unknown for row in read(TEXT)[1] if (unknown := unknown_of(row.use))} == {}


@pytest.mark.parametrize(
    ("use", "unknown"),
    [
        ("`deploy run --only build-torch`, step `driver`", []),
        ("`deploy run --only build --no-such`, step `drive`", ["build", "drive", "--no-such"]),
        ("`compare --start-step`; `DEV101`; `container.*`", []),
        (
            "`compare --begin`; `DEV199`; `driver.modul`; `examples/none`",
            ["--begin", "DEV199", "driver.modul", "examples/none"],
        ),
    ],
)
def test_what_is_not_there_is_seen(use: str, unknown: list[str]) -> None:
    assert unknown_of(use) == unknown


@pytest.mark.parametrize(("text", "numbers"), [("1-3", [1, 2, 3]), ("212-212", [212])])
def test_a_part_of_the_table(text: str, numbers: list[int]) -> None:
    assert list(coverage_table.span(text)) == numbers


@pytest.mark.parametrize("text", ["", "3", "3-1", "0-2", "200-213", "a-b"])
def test_what_is_no_part_of_the_table(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of int, or with the text
        coverage_table.span(text)


def test_a_proof_that_fails_makes_its_rows_red_and_a_skipped_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = read(TEXT)[1][:3]
    well = {proof: Outcome() for row in rows for proof in row.proof}
    assert report(rows, well) == 0
    skipped = rows[0].proof[-1]
    assert report(rows, well | {skipped: Outcome(skipped=("needs root",))}) == 0
    assert "part row 1: not run here: needs root" in capsys.readouterr().out
    assert report(rows, well | {rows[1].proof[0]: Outcome("1 of 2 failed: test_x")}) == 1
    assert "RED  row 2 (" in capsys.readouterr().out


def test_the_pages_say_what_ran_and_a_failure_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles, rows = read(TEXT)
    monkeypatch.setattr(coverage_table, "RUNS", tmp_path / "runs.json")
    assert "| not run |" in coverage_table.page(titles, rows, "en")
    first = rows[0]
    second = next(row for row in rows if row.proof and not set(row.proof) & set(first.proof))
    outcomes = {proof: Outcome() for row in (first, second) for proof in row.proof}
    coverage_table.keep(outcomes | {second.proof[0]: Outcome("1 of 1 failed: test_x")}, rows, "2026-01-31")
    page = coverage_table.page(titles, rows, "en")
    lines = {match[1]: match[0] for match in re.finditer(r"^\| (\d+) \|.*$", page, re.MULTILINE)}
    assert lines["1"].endswith("| 2026-01-31 |")
    assert "FAILS" not in lines["1"]
    assert "**FAILS**" in lines[str(second.number)]
    again = {proof: Outcome() for proof in first.proof}
    coverage_table.keep(again, rows, "2026-02-01")
    assert coverage_table.runs()[first.proof[0]]["date"] == "2026-01-31", "what did not run again keeps its date"


def test_another_name_has_to_be_said() -> None:
    with pytest.raises(TableError, match="has another name"):
        read(TEXT.replace('status = "works"', 'status = "named"', 1))
