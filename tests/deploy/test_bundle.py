"""Bundles, refused where they are not what the manifest says; scripts of steps, run on this machine."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from torchferry.backends.deployment import DeployStep
from torchferry.core.errors import UsageError
from torchferry.core.messages import Bilingual
from torchferry.deploy.bundle import damaged, read_bundle, write_bundle
from torchferry.deploy.script import ScriptSettings, step_script, survey_script


def small_bundle(folder: Path) -> Path:
    (folder / "model" / "part").mkdir(parents=True)
    (folder / "model" / "part" / "weights").write_bytes(b"w" * 1000)
    (folder / "installer.run").write_text("#!/bin/sh\n", encoding="utf-8")
    sources = {"installer": folder / "installer.run", "model": folder / "model"}
    write_bundle(folder / "bundle", "ptex", sources, {"disk_mb": "5"})
    return folder / "bundle"


def test_the_same_folder_has_the_same_hash(tmp_path: Path) -> None:
    first = read_bundle(small_bundle(tmp_path / "a"))
    os.utime(tmp_path / "a" / "model" / "part" / "weights", (1, 1))
    again = write_bundle(tmp_path / "b", "ptex", {"model": tmp_path / "a" / "model"}, {})
    assert again.files["model"].sha256 == first.files["model"].sha256, "no times are in it"
    assert damaged(first) == []
    first.files["installer"].path.write_text("#!/bin/bad", encoding="utf-8")
    assert damaged(first) == ["installer"]


@pytest.mark.parametrize("leads", ["/etc/passwd", "../installer.run", "gone", "part"])
def test_a_link_of_a_folder_is_refused_unless_it_stays_inside(leads: str, tmp_path: Path) -> None:
    small_bundle(tmp_path)
    os.symlink("part/weights", tmp_path / "model" / "inside")
    packed = write_bundle(tmp_path / "b", "ptex", {"model": tmp_path / "model"}, {}).files["model"]
    with tarfile.open(packed.path) as archive:
        assert {member.name: member.size for member in archive} == {"inside": 1000, "part": 0, "part/weights": 1000}
    os.symlink(leads, tmp_path / "model" / "link")
    with pytest.raises(UsageError, match="is a link that leads out of"):
        write_bundle(tmp_path / "b", "ptex", {"model": tmp_path / "model"}, {})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": 2}, "schema"),
        ({"controller": {"../../x.whl": "0" * 64}}, "controller"),
        ({"controller": ["x.whl"]}, "controller"),
        ({"files": {"installer": {"path": "../../etc/passwd"}}}, "file installer"),
        ({"files": []}, "are needed"),
        ({"values": {"image": 3}}, "are needed"),
    ],
)
def test_a_manifest_is_not_trusted(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    folder = small_bundle(tmp_path)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}), encoding="utf-8")
    with pytest.raises(UsageError, match=problem):
        read_bundle(folder)


def test_a_path_out_of_the_bundle_is_refused(tmp_path: Path) -> None:
    folder = small_bundle(tmp_path)
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text())
    for path in ("files/../../x", "/etc/passwd", "files/a/b"):
        document["files"]["installer"]["path"] = path
        manifest.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(UsageError, match="not a valid manifest"):
            read_bundle(folder)


def test_a_link_in_a_bundle_is_not_followed(tmp_path: Path) -> None:
    folder = small_bundle(tmp_path)
    (folder / "files").rename(tmp_path / "elsewhere")
    (folder / "files").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is missing in the bundle"):
        read_bundle(folder)
    (folder / "files").unlink()
    (folder / "files").mkdir()
    for path in (tmp_path / "elsewhere").iterdir():
        (folder / "files" / path.name).symlink_to(path)
    with pytest.raises(UsageError, match="is missing in the bundle"):
        read_bundle(folder)


def test_a_file_that_was_cut_off_is_seen_at_once(tmp_path: Path) -> None:
    folder = small_bundle(tmp_path)
    os.truncate(folder / "files" / "installer", 3)
    with pytest.raises(UsageError, match="has the size 3, but the manifest says 10"):
        read_bundle(folder)


class OneStep:
    """A step whose script runs on this machine, in a folder of its own."""

    def __init__(self, folder: Path, busy: str = "", **fields: object) -> None:
        self.folder = folder
        values = {"STATE": str(folder / "state"), "LOGS": str(folder / "logs"), "PLACE": f"{folder}/a place's"}
        self.settings = ScriptSettings(values, {"WORDS": ("one two", "$(three)")})
        given: dict[str, object] = {
            "id": "step",
            "stage": "driver",
            "where": "host",
            "title": Bilingual("t"),
            "check": 'test -e "$PLACE"',
            "run": 'echo "${WORDS[1]}"; touch "$PLACE"',
            "undo": 'rm "$PLACE"',
            "timeout": 20,
            "refuse_busy": True,
            **fields,
        }
        self.step = DeployStep(**given)  # type: ignore[arg-type]
        self.script = step_script(self.step, self.settings, busy, self.step.timeout)

    def __call__(self, mode: str) -> tuple[int, list[str]]:
        done = subprocess.run(["bash", "-s", mode], input=self.script, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).splitlines()


def test_a_step_checks_runs_once_and_is_taken_back(tmp_path: Path) -> None:
    step = OneStep(tmp_path)
    assert step("check")[0] == 1
    assert not (tmp_path / "state").exists(), "to look changes nothing"
    assert step("undo") == (0, ["TORCHFERRY unchanged"])
    assert step("run") == (0, ["$(three)", "TORCHFERRY changed"])
    assert step("check")[0] == 0
    assert step("run") == (0, ["TORCHFERRY unchanged"])
    assert step("undo") == (0, ["TORCHFERRY changed"])
    assert not Path(f"{tmp_path}/a place's").exists()
    assert (tmp_path / "state" / "changed").read_text() == ""


@pytest.mark.parametrize(
    ("fields", "busy", "last"),
    [
        ({"run": "exit 3"}, "", "TORCHFERRY failed: ended with 3"),
        ({"run": "true"}, "", "TORCHFERRY failed: ended with 0, but the check is still not met"),
        ({"run": "sleep 20", "timeout": 1}, "", "TORCHFERRY failed: time limit of 1 seconds"),
        ({"run": ""}, "", "TORCHFERRY failed: the check is not met"),
        ({}, "true", "TORCHFERRY failed: a process uses a card"),
        # what asks on the terminal gets an end of input
        ({"run": 'read -r -p "Press Any Key" key || exit 9'}, "", "TORCHFERRY failed: ended with 9"),
    ],
)
def test_a_step_says_how_it_failed(tmp_path: Path, fields: dict[str, object], busy: str, last: str) -> None:
    status, lines = OneStep(tmp_path, busy, **fields)("run")
    assert (status, lines[-1]) == (1, last)


def test_other_exit_codes_can_mean_success(tmp_path: Path) -> None:
    assert OneStep(tmp_path, ok_rc=(0, 2), run='touch "$PLACE"; exit 2')("run")[1] == ["TORCHFERRY changed"]


def test_of_an_output_without_end_the_last_part_is_shown(tmp_path: Path) -> None:
    """A progress bar is one line of any length, and a line that was not ended must not swallow what we say next."""
    flood = "head -c 30000000 /dev/zero | tr '\\0' '='; printf '\\xff\\r100%%'"
    step = OneStep(tmp_path, run=f'{flood}; touch "$PLACE"', check=f'{flood}; test -e "$PLACE"')
    done = subprocess.run(["bash", "-s", "run"], input=step.script.encode(), capture_output=True, check=False)
    *said, last = done.stdout.decode("utf-8", "replace").splitlines()
    assert (done.returncode, last, said[-1]) == (0, "TORCHFERRY changed", "100%")
    assert len(done.stdout) < 25_000
    script = survey_script([(0, step.step)], step.settings, "", "false", "none").encode()
    done = subprocess.run(["bash", "-s"], input=script, capture_output=True, check=False)
    assert done.stdout.startswith(b"0 step 0 ")
    assert len(done.stdout) < 3_000
    assert done.stderr == b""


def test_what_began_and_did_not_end_is_done_again(tmp_path: Path) -> None:
    killed = "kill -9 $(awk '/PPid/ {print $2}' /proc/$PPID/status)"
    step = OneStep(tmp_path, run=f'touch "$PLACE"; {killed}')
    assert step("run")[0] == -9
    assert Path(f"{tmp_path}/a place's").exists(), "its check would pass"
    assert (tmp_path / "state" / "begun.step").exists()
    healed = OneStep(tmp_path)
    assert healed("check")[0] == 1
    assert healed("run")[1][-1] == "TORCHFERRY changed"
    assert healed("check")[0] == 0


def test_a_survey_looks_at_all_steps_at_once(tmp_path: Path) -> None:
    good, bad = OneStep(tmp_path, check="echo fine"), OneStep(tmp_path, check="echo 'not \"yet\"'; exit 7").step
    inside = OneStep(tmp_path, where="container")
    steps = [(0, good.step), (1, bad._replace(id="bad", refuse_busy=False)), (2, inside.step._replace(id="inside"))]
    steps.append((3, bad._replace(id="busy")))
    script = survey_script(steps, good.settings, "true", "false", "none")
    done = subprocess.run(["bash", "-s"], input=script, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    fine, yet = b"fine\n", b'not "yet"\n'
    said = [
        base64.b64encode(text).decode() for text in (fine, yet, yet + b"TORCHFERRY failed: a process uses a card\n")
    ]
    lines = [f"0 step 0 {said[0]}", f"1 bad 7 {said[1]}", f"3 busy 1 {said[2]}", "2 inside 255 "]
    assert done.stdout.splitlines() == lines, "a driver of a card in use is in the way where it is not what it is to be"
    assert list(tmp_path.iterdir()) == []
