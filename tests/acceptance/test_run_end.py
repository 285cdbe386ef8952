"""Why a run did not end well: what its log says is explained by the tables of errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.acceptance.run_end import end_of
from torchferry.acceptance.runs import AcceptanceRun

STARTED = "2026-11-26T10:00:00Z"
LOGS = {
    "RuntimeError: EJ0003: Failed to bind it.\ndone\n": ("the last line of its log: done; cause: EJ0003: ", "ss -"),
    "[rank3]: RuntimeError: EJ0003: Failed to bind it.\ndone\n": (
        "the last line of its log: done; cause, rank 3: EJ0003: ",
        "ss -",
    ),
    "RuntimeError: the numbers do not fit\n": ("the last line of its log: RuntimeError: the numbers do not fit", ""),
    "[rank0]: EI0002: a collective waits\n": ("the last line of its log: [rank0]: EI0002: a collective waits", ""),
    "": ("the last line of its log: ", ""),
}
"""What a run printed, how the reason begins, and a part of it; a message that only follows is no cause."""


@pytest.mark.parametrize(("printed", "wanted"), LOGS.items())
def test_the_cause_stands_behind_the_last_line(printed: str, wanted: tuple[str, str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(printed, encoding="utf-8")
    run = AcceptanceRun("target", ("true",), ".", tmp_path, STARTED, 1.0, 1, log)
    text = end_of(run).render("en")
    begin, part = wanted
    assert text.startswith(begin)
    assert part in text
    assert ("; cause" in text) is bool(part)


def test_a_run_without_a_log_is_not_explained(tmp_path: Path) -> None:
    run = AcceptanceRun("target", ("true",), ".", tmp_path, STARTED, 1.0, None, tmp_path / "gone")
    assert end_of(run).render("en").startswith("it was stopped at its time limit")
