"""`torchferry scan --rehearse` with real programs: what was seen replaces the verdict, and the tree stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import torchferry
from tests.cli.process import torchferry as run_torchferry
from tests.processes import HANGS
from tests.warm_python import ferry
from torchferry.cli import settling
from torchferry.rehearsal.ending import End

TRAIN = """import sys
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(4, 2).to(device)
loss = net(torch.ones(8, 4, device=device)).sum()
loss.backward()
if "--spmm" in sys.argv:
    torch.eye(4).to_sparse().to(device) @ torch.ones(4, 4, device=device)
if "--absent" in sys.argv:
    open("absent.bin")
if "--long" in sys.argv:
    import time
    time.sleep(600)
open("checkpoint.bin", "w").write("x")
"""
APEX = "import torch\nimport apex\nx = torch.ones(2).cuda()\n"


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(TRAIN)
    return root


def scan(root: Path, *options: object) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = subprocess.run(
        [ferry(), "-m", "torchferry", "scan", str(root), "-t", "npu", "--isolated", "-f", "json",
         *map(str, options)],
        cwd=root.parent, env={**os.environ, "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}, capture_output=True,
        text=True, check=False, timeout=HANGS,
    )  # fmt: skip
    return (json.loads(done.stdout) if done.stdout else {}), done


@pytest.mark.rehearsal
def test_what_was_seen_replaces_the_verdict(project: Path) -> None:
    before = contents(project)
    report, done = scan(project, "--rehearse", "python train.py")
    (program,) = report["programs"]
    assert program["settled"] is not None, done.stderr
    assert program["settled"]["decides"]
    assert program["settled"]["ending"] == "ended well"
    assert program["settled"]["fault"] is None
    assert program["settled"]["on_card"]
    assert (program["verdict"], program["summary"]) == ("fixes", "ready after 3 fixes, settled by a rehearsal")
    assert program["starts"][0]["command"] == "python train.py"
    assert contents(project) == before
    assert any("nothing about speed or accuracy" in remark for remark in report["remarks"])
    schema = Path(torchferry.__file__).parent / "report" / "schema.json"
    jsonschema.validate(report, json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.rehearsal
def test_a_verdict_that_the_run_contradicts_is_our_fault(project: Path) -> None:
    archive = project.parent / "shown.zip"
    secret = "hf_" + "a" * 20
    command = f"python train.py --spmm --token {secret} --log {Path.home()}/runs"
    report, done = scan(project, "--rehearse", command, "--reproduction", archive)
    (program,) = report["programs"]
    settled = program["settled"]
    assert (settled["kind"], settled["what"], settled["place"]) == (
        "missing-operator", "aten::addmm (sparse)", "train.py:8",
    ), done.stderr  # fmt: skip
    assert settled["fault"]
    assert settled["static"]["verdict"] == "fixes"
    assert program["verdict"] == "blocked"
    assert done.returncode == 1
    with zipfile.ZipFile(archive) as opened:
        assert opened.read("files/train.py").decode() == TRAIN
        text = opened.read("reproduction.json").decode()
    (run,) = json.loads(text)["runs"]
    assert run["static"]["verdict"] == "fixes"
    assert run["rehearsal"]["would_fail"] == 1
    for hidden in (secret, str(Path.home()) + "/", str(project)):
        assert hidden not in text


@pytest.mark.rehearsal
def test_no_file_with_a_secret_is_in_a_reproduction(project: Path) -> None:
    archive = project.parent / "shown.zip"
    token = "ghp_" + "k7" * 18
    (project / "own.py").write_text(f"import torch\n\nTOKEN = '{token}'\nprint('Authorization: Bearer', TOKEN)\n")
    (project / "train.py").write_text("import own\n" + TRAIN)
    _, done = scan(project, "--rehearse", "python train.py --spmm", "--reproduction", archive)
    with zipfile.ZipFile(archive) as opened:
        assert "files/own.py" not in opened.namelist(), done.stderr
        assert "files/train.py" in opened.namelist()
        texts = [opened.read(name).decode() for name in opened.namelist()]
        document = json.loads(opened.read("reproduction.json"))
    assert document["left_out"] == ["own.py"]
    assert document["reasons"] == {"own.py": "line 3: a token of GitHub"}
    assert not [text for text in texts if token in text]


@pytest.mark.rehearsal
def test_what_is_not_the_cards_settles_nothing(project: Path) -> None:
    (project / "apexed.py").write_text(APEX)
    report, done = scan(
        project, "--rehearse", "python train.py --absent", "--rehearse", "python apexed.py", "--rehearse-seconds", 60
    )
    programs = {program["path"]: program for program in report["programs"]}
    own, other = programs["train.py"], programs["apexed.py"]
    assert (own["verdict"], own["settled"]["decides"], own["settled"]["exit_code"]) == ("fixes", False, 1), done.stderr
    assert "FileNotFoundError" in own["settled"]["message"]
    assert own["settled"]["place"] == "train.py:10"
    assert other["settled"]["kind"] == "package"
    assert other["settled"]["what"] == "apex"


@pytest.mark.rehearsal
def test_a_run_without_end_is_ended(project: Path) -> None:
    report, done = scan(project, "--rehearse", "python train.py --long", "--rehearse-seconds", 12)
    (program,) = report["programs"]
    assert (program["settled"]["exit_code"], program["settled"]["decides"]) == (None, False), done.stderr
    assert program["verdict"] == "fixes"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rehearse", "python absent.py"], "does not start a program"),
        (["--rehearse", "python 'train.py"], "is not a command"),
        (["--rehearse", ""], "name the file from the project's folder"),
        (["--rehearse", "python train.py", "--select", "DEV"], "needs the whole project"),
        (["--reproduction", "a.zip"], "add --rehearse COMMAND"),
    ],
)
def test_wrong_use(project: Path, options: list[str], said: str) -> None:
    done = run_torchferry("scan", project, "-t", "npu", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_failure_without_a_line_is_at_an_unknown_place() -> None:
    end = End("card", "missing-operator", "aten::erf")
    assert settling._failure(end, "").render("en") == (
        "it stopped at an unknown place: the plugin lacks the operator aten::erf"
    )


def test_links_of_a_copy(tmp_path: Path) -> None:
    root, copy = tmp_path / "tree", tmp_path / "copy"
    (root / "inner").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (root / "file").write_text("tree")
    links: dict[str, str | Path] = {
        "own": "file",
        "absolute": root / "file",
        "out": "../data",
        "inner/out": "../../data",
        "away": "/nowhere",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    shutil.copytree(root, copy, symlinks=True)
    settling.mend_links(root, copy)
    found = {name: os.path.realpath(copy / name) for name in links}
    assert found == {
        "own": str(copy / "file"),
        "absolute": str(copy / "file"),
        "out": str(tmp_path / "data"),
        "inner/out": str(tmp_path / "data"),
        "away": "/nowhere",
    }
