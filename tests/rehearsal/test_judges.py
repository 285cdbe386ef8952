"""Each kind of event is reported by both judges, or a table has the reason why one of them does not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.planted_programs import FILE, Planted, composed, programs
from tests.rehearsal.test_refusals import JUDGES
from tests.rehearsal.test_shipped_plugin import wheel
from tests.rehearsal.triton_wheel import with_triton
from tests.warm_python import ferry, python
from torchferry.core import toml
from torchferry.rehearsal.event_kinds import KINDS

PROGRAMS = programs()
TOGETHER = [each for each in PROGRAMS if not each.alone]
ALONE = [each for each in PROGRAMS if each.alone]


def test_each_kind_has_a_program_and_each_difference_a_reason() -> None:
    assert sorted(each.kind for each in PROGRAMS) == sorted(KINDS)
    for row in toml.loads(FILE.read_text(encoding="utf-8"))["program"]:
        found_by_both = bool(row["simulated"]) and bool(row["plugin"])
        assert found_by_both != ("reason" in row), row["kind"]
        assert ("reason" in row) == ("reason_zh" in row)
        assert {row["simulated"], row["plugin"]} <= {*KINDS, ""}


def seen(judge: str, planted: list[Planted], folder: Path) -> list[dict[str, Any]]:
    """Return the events of one rehearsal."""
    text, places = composed(planted)
    first = planted[0]
    (folder / "program.py").write_text(text, encoding="utf-8")
    (folder / "card.toml").write_text(f'extends = "910B"\n{first.card}', encoding="utf-8")
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    ranks = ["-m", "torch.distributed.run", "--nproc_per_node", str(first.ranks)] if first.ranks > 1 else []
    subprocess.run(
        [
            *(ferry(), "-m", "torchferry", "rehearse", "-t", "npu", "--devices", "1"),
            *("--plugin", str(wheel()) if judge == "plugin" else judge, "--profile", "card.toml"),
            *(["--races"] if first.races else []),
            *("--fault", "op=mm,kind=nan", "--summary-file", "summary.json", "--", python(), *ranks),
            "program.py",
        ],
        capture_output=True,
        timeout=HANGS,
        cwd=folder,
        env=with_triton(environment) if first.needs else environment,
        check=False,
    )
    events: list[dict[str, Any]] = json.loads((folder / "summary.json").read_text())["events"]
    for event in events:
        event["planted"] = next((kind for kind, lines in places.items() if event["line"] in lines), "")
    return events


@pytest.mark.parametrize("judge", JUDGES)
def test_each_judge_says_what_the_table_says(judge: str, tmp_path: Path) -> None:
    events = seen(judge, TOGETHER, tmp_path)
    for each in TOGETHER:
        found = {event["kind"] for event in events if event["planted"] == each.kind}
        said = each.said_by(judge)
        assert said in found if said else each.kind not in found, (each.kind, found)


@pytest.mark.parametrize("planted", ALONE, ids=lambda planted: planted.kind)
@pytest.mark.parametrize("judge", JUDGES)
def test_each_judge_says_it_of_a_program_of_its_own(judge: str, planted: Planted, tmp_path: Path) -> None:
    found = {event["kind"] for event in seen(judge, [planted], tmp_path)}
    said = planted.said_by(judge)
    assert said in found if said else planted.kind not in found, found
