"""Fixes: printed with what takes them back, applied once, never where they were not asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.doctor.fixing import apply, plan
from torchferry.doctor.host import Host
from torchferry.doctor.result import Remedy, Result, failed

LINE = "source /opt/tecoai/setvars.sh"


def results(*remedies: Remedy) -> list[Result]:
    return [failed(say("a"), say("b"), "c", remedy=remedy) for remedy in remedies]


def test_a_line_is_added_once_and_the_undo_takes_it_back(tmp_path: Path) -> None:
    file = tmp_path / "my rc"
    file.write_text("alias a=b\n", encoding="utf-8")
    file.chmod(0o600)
    (step,), waiting = plan(results(Remedy("line", LINE), Remedy("line", LINE)), Host(), file)
    assert waiting == []
    apply(step)
    assert file.read_text() == f"alias a=b\n{LINE}  # torchferry doctor\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert plan(results(Remedy("line", LINE)), Host(), file) == ([], [])
    subprocess.run(["sh", "-c", step.undo], check=True)
    assert file.read_text() == "alias a=b\n"
    assert os.listdir(tmp_path) == ["my rc"]


BEFORE = {
    "lines": b"alias a=b\n",
    "no end": b"alias a=b",
    "no end, several lines": b"#!/bin/sh\nalias a=b\n\nalias c=d",
    "other line ends": b"alias a=b\r\nalias c=d",
    "not UTF-8": b"# caf\xe9\nalias a=b",
    "empty": b"",
    "not there": None,
}


@pytest.mark.parametrize("typed", [False, True], ids=["applied", "typed"])
@pytest.mark.parametrize("name", BEFORE)
def test_the_undo_leaves_every_byte_as_it_was(name: str, typed: bool, tmp_path: Path) -> None:
    file, before = tmp_path / "rc", BEFORE[name]
    if before is not None:
        file.write_bytes(before)
    remedies = Remedy("line", LINE), Remedy("line", "export A=$B")
    steps, _ = plan(results(*remedies), Host(), file)
    for step in steps:
        if typed:
            subprocess.run(["sh", "-c", step.do], check=True)
        else:
            apply(step)
    added = file.read_bytes()[len(before or b"") :].split(b"\n")
    assert [line.split(b"  #")[0].decode() for line in added if line] == [LINE, "export A=$B"]
    assert plan(results(*remedies), Host(), file) == ([], [])
    subprocess.run(["sh", "-c", steps[0].undo], check=True)
    assert (file.read_bytes() if file.exists() else None) == before
    if before is not None:
        subprocess.run(["sh", "-c", steps[0].undo], check=True)
        assert file.read_bytes() == before


def test_what_was_added_by_hand_since_stays(tmp_path: Path) -> None:
    file = tmp_path / "rc"
    file.write_text("alias a=b")
    (step,), _ = plan(results(Remedy("line", LINE)), Host(), file)
    apply(step)
    with file.open("a") as stream:
        stream.write("alias c=d\n")
    subprocess.run(["sh", "-c", step.undo], check=True)
    assert file.read_text() == "alias a=b\nalias c=d\n"


def test_what_is_typed_does_the_same(tmp_path: Path) -> None:
    file = tmp_path / "rc"
    (step,), _ = plan(results(Remedy("line", "export A=$B")), Host(), file)
    subprocess.run(["sh", "-c", step.do], check=True)
    assert file.read_text() == "export A=$B  # torchferry doctor\n"
    assert plan(results(Remedy("line", "export A=$B")), Host(), file)[0] == []


def test_without_a_file_the_line_waits(tmp_path: Path) -> None:
    assert plan(results(Remedy("line", LINE)), Host(), None) == ([], [Remedy("line", LINE)])


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x\n")
    (tmp_path / "rc").symlink_to("real")
    (step,), _ = plan(results(Remedy("line", LINE)), Host(), tmp_path / "rc")
    apply(step)
    assert (tmp_path / "rc").is_symlink()
    assert LINE in (tmp_path / "real").read_text()
    subprocess.run(["sh", "-c", step.undo], check=True)
    assert (tmp_path / "rc").is_symlink()
    assert (tmp_path / "real").read_text() == "x\n"


def test_a_folder_is_made_and_the_undo_removes_it(tmp_path: Path) -> None:
    (step,), _ = plan(results(Remedy("folder", str(tmp_path / "a" / "b"))), Host(), None)
    apply(step)
    assert (tmp_path / "a" / "b").is_dir()
    subprocess.run(["sh", "-c", step.undo], check=True)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_done_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        plan(results(Remedy("line", LINE)), Host(), tmp_path)
    (tmp_path / "file").write_text("")
    (step,), _ = plan(results(Remedy("folder", str(tmp_path / "file" / "b"))), Host(), None)
    with pytest.raises(TorchferryError) as error:
        apply(step)
    assert "by hand" in error.value.advice.render("en")  # type: ignore[union-attr]
