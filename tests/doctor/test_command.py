"""`torchferry doctor` as its users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from tests.backends.test_imaginary_vendor import vendor  # noqa: F401 - a fixture
from tests.cli.process import torchferry
from tests.warm_python import python
from torchferry.backends import registry
from torchferry.backends.datafile import VENDORS
from torchferry.cli import cli
from torchferry.core import subprocesses
from torchferry.core.env import cache_folder
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor import host

WITH_CACHE = {"TORCHFERRY_CACHE": str(cache_folder()), "GLOO_SOCKET_IFNAME": "lo"}


@pytest.mark.parametrize("target", registry.built_in())
def test_a_machine_without_a_card_is_told_what_it_lacks(target: str) -> None:
    done = torchferry("doctor", "--target", target)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"torchferry rehearse --target {target}" in done.stdout
    assert "cause: " in done.stdout
    assert "  $ " in done.stdout


def test_without_a_target_it_says_what_was_looked_for(tmp_path: Path) -> None:
    done = torchferry("doctor", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "/dev/davinci[0-9]*" in done.stdout
    assert "torchferry rehearse --target NAME" in done.stdout
    chosen = json.loads(torchferry("doctor", "--target", "auto", "-f", "json", cwd=tmp_path).stdout)
    assert (chosen["ok"], sorted(chosen["sought"])) == (False, registry.built_in())


def test_an_issue_without_a_target_is_a_block_too(tmp_path: Path) -> None:
    done = torchferry("doctor", "-f", "issue", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("<details><summary>torchferry doctor: no target was found")
    assert done.stdout.rstrip().endswith("</details>")
    assert done.stdout.count("```") == 2
    assert "| torchferry | " in done.stdout
    assert "/dev/davinci[0-9]*" in done.stdout


def test_it_starts_each_program_once_and_python_for_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes is what it starts: a second of each is never needed, and a Python with torch takes seconds."""
    started: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], *others: Any) -> ProcessResult:
        started.append(command)
        return subprocesses.run(command, *others)

    monkeypatch.setattr(host, "subprocesses", SimpleNamespace(run=run))
    assert CliRunner().invoke(cli, ["doctor", "--target", "npu"]).exit_code == 1
    assert len(started) == len(set(started)) < 20
    assert sum(command[0] == sys.executable for command in started) <= 2


def test_json_has_every_result() -> None:
    done = torchferry("doctor", "--target", "musa", "-f", "json")
    found = json.loads(done.stdout)
    assert (found["schema"], found["target"], found["ok"]) == (2, "musa", False)
    assert sum(found["counts"].values()) == len(found["results"])
    for item in (item for item in found["results"] if item["status"] == "failure"):
        group = {} if item["group"] is None else found["groups"][item["group"]]
        assert item["cause"]
        assert item["commands"] or group["commands"]


def test_checks_can_be_chosen_and_the_exit_code_follows() -> None:
    done = torchferry("doctor", "--target", "npu", "--select", "python.interpreter", "-f", "json")
    assert done.returncode == 0, done.stderr
    assert [item["check"] for item in json.loads(done.stdout)["results"]] == ["python.interpreter"]
    assert torchferry("doctor", "--target", "npu", "--select", "nope").returncode == 2
    listed = torchferry("doctor", "--list")
    assert listed.returncode == 0
    assert "driver.module" in listed.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "nup"), "did you mean `npu`?"),
        (("--dry-run",), "work only with --fix"),
        (("--select", "nope"), "there is no check or family `nope`"),
        (("--select", "python.version"), "did you mean python.versions"),
        (("diff", "gone.json", "gone.json"), "not a snapshot"),
        (("--probe-timeout", "0"), "0"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], said: str) -> None:
    done = torchferry("doctor", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_another_python_is_looked_into(tmp_path: Path) -> None:
    done = torchferry("doctor", "-t", "npu", "--python", tmp_path / "python", "--select", "python")
    assert "cannot be examined" in done.stdout
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    done = torchferry("doctor", "-t", "npu", "--python", bare, "--select", "python")
    assert "torch is not installed in" in done.stdout


def test_snapshots_are_taken_and_compared(tmp_path: Path) -> None:
    secret = {"https_proxy": "http://mia:hidden@proxy:3128"}
    for name, env in (("a", secret), ("b", {"MUSA_VISIBLE_DEVICES": "1"})):
        done = torchferry("doctor", "--target", "musa", "snapshot", env=env)
        assert done.returncode == 0, done.stderr
        assert "hidden" not in done.stdout
        (tmp_path / f"{name}.json").write_text(done.stdout)
    done = torchferry("doctor", "diff", tmp_path / "a.json", tmp_path / "b.json")
    assert done.returncode == 1, done.stderr
    assert "environment.MUSA_VISIBLE_DEVICES\n  < \n  > 1\n" in done.stdout
    assert "cannot be used to compare the clocks" in done.stdout
    assert torchferry("doctor", "diff", tmp_path / "a.json", tmp_path / "a.json").returncode == 0


def test_without_a_problem_nothing_needs_a_fix() -> None:
    done = torchferry("doctor", "-t", "npu", "--select", "python.interpreter", "--fix", "--dry-run")
    assert done.returncode == 0
    assert "nothing needs a fix" in done.stderr


def test_fixes_are_printed_and_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    arguments = ("doctor", "-t", "npu", "--select", "system.disk", "--fix")
    done = torchferry(*arguments, "--dry-run", env={"TMPDIR": str(gone)})
    assert f"fix: mkdir -p {gone}" in done.stderr
    assert "undo: rmdir" in done.stderr
    assert not gone.exists()
    torchferry(*arguments, env={"TMPDIR": str(gone)})
    assert gone.is_dir()


@pytest.mark.rehearsal
@pytest.mark.parametrize("target", [name for name in registry.built_in() if (VENDORS / name / "plugin").is_dir()])
def test_the_live_probe_on_a_rehearsal(target: str) -> None:
    done = torchferry(
        "rehearse", "-t", target, "--devices", "2", "--",
        python(), "-m", "torchferry", "doctor", "--probe", "-t", target, "-f", "json", "--probe-timeout", "300",
        env=WITH_CACHE,
    )  # fmt: skip
    found = json.loads(done.stdout)
    statuses = {item["check"]: item["status"] for item in found["results"] if item["check"].startswith("probe.")}
    said = "\n".join(item["what"] for item in found["results"])
    assert found["rehearsal"] is True
    for name in ("start", "allocate", "matmul", "operators", "masks", "collective"):
        assert statuses[f"probe.{name}"] == "ok", said
    assert statuses["probe.bandwidth"] == "skipped"
    assert "GB/s" not in said


def test_of_an_imaginary_vendor_nothing_is_taken_for_well(
    vendor: Path,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    done = torchferry("doctor", "-t", "acme", "-f", "json", cwd=tmp_path, env={"PYTHONPATH": str(vendor)})
    assert done.returncode == 1, done.stderr
    results = json.loads(done.stdout)["results"]
    cards = [
        item for item in results if item["check"].partition(".")[0] in ("driver", "node", "tool", "sdk", "library")
    ]
    assert {item["status"] for item in cards} <= {"unknown", "skipped"}
    assert "this check could not be made" not in done.stdout


@pytest.mark.rehearsal
def test_a_probe_that_takes_too_long_is_stopped() -> None:
    done = torchferry(
        "rehearse", "-t", "npu", "--",
        "torchferry", "doctor", "--probe", "--probe-timeout", "1", "-t", "npu", "--select", "probe", "-f", "json",
        env=WITH_CACHE,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert "time limit of 1 s" in found["results"][0]["what"] + found["results"][-1]["what"]


@pytest.mark.rehearsal
def test_another_target_than_the_rehearsed_one_is_refused() -> None:
    done = torchferry("rehearse", "-t", "npu", "--", "torchferry", "doctor", "-t", "musa", env=WITH_CACHE)
    assert done.returncode == 2
    assert "the requested target is musa, but npu is being rehearsed" in done.stderr


@pytest.mark.rehearsal
def test_a_probe_of_a_device_that_is_wrong_or_out_of_memory_says_so() -> None:
    done = torchferry(
        "rehearse", "-t", "npu", "--fault", "op=mm,kind=nan", "--",
        python(), "-m", "torchferry", "doctor", "--probe", "-t", "npu", "--select", "probe", "-f", "json",
        env=WITH_CACHE,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert any(item["check"] == "probe.matmul" and item["status"] == "failure" for item in found["results"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_run_it() -> None:
    def nobody(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd="/", user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        )  # fmt: skip

    try:
        nobody(sys.executable, "-c", "import torchferry").check_returncode()
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("this Python lies where only root may read")
    done = nobody(sys.executable, "-m", "torchferry", "doctor", "-t", "npu", "--select", "host", "-f", "json")
    assert json.loads(done.stdout)["results"], done.stderr
