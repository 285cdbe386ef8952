"""From the redirect to the source: what a run saw, laid beside the rules, and the one import of `--style shim`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.migration.trees import snapshot
from tests.warm_python import ferry, python
from torchferry.backends import registry
from torchferry.core import env

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"
CACHE = {"TORCHFERRY_CACHE": str(env.cache_folder()), "OMP_NUM_THREADS": "1"}
IMPORT = "import torchferry.shim.auto\n"

PROGRAM = """import json
import torch

def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = json.load(open("settings.json"))
    x = torch.ones(2).to(device)
    y = torch.ones(2, device=x.device)
    z = torch.ones(
        2,
        device=settings["where"],
    )
    print(x.is_cuda, y.is_cuda, z.is_cuda, device)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    shutil.copytree(EXAMPLE, root)
    return root


@pytest.fixture
def small(tmp_path: Path) -> Path:
    root = tmp_path / "small"
    root.mkdir()
    (root / "program.py").write_text(PROGRAM, encoding="utf-8")
    (root / "settings.json").write_text('{"where": "cuda:0"}', encoding="utf-8")
    return root


def test_what_only_the_run_saw_is_a_finding(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen = tmp_path / "seen.json"
    run = [ferry(), "-m", "torchferry", "run", "-t", "npu", "--report", seen, "--", python(), "program.py"]
    ran = torchferry("rehearse", "-t", "npu", "--", *run, cwd=small, env=CACHE)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(torchferry("scan", small, "-t", "npu", "--seen", seen, "-f", "json").stdout)
    places = [(f["code"], f["grade"], f["line"]) for f in report["findings"] if f["code"] == "RUN101"]
    assert places == [("RUN101", "manual", 9)]
    done = torchferry("migrate", small, "-t", "npu", "--seen", seen)
    assert done.returncode == 1
    assert '`settings["where"]` was a CUDA device here' in done.stdout
    assert "program.py:10:5" in done.stdout, "told by the line in the file that was written"
    again = torchferry("migrate", small, "-t", "npu", "--seen", seen)
    assert "program.py changed since the run" in again.stdout
    assert "RUN101" not in again.stdout


@pytest.mark.parametrize("command", ["scan", "migrate"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "seen.json"),
        ("[", "it is not JSON"),
        ('{"schema": "9.0"}', "its schema is 9.0"),
        ('{"schema": "1.0", "root": "/", "files": {"../x": ""}, "sites": []}', "`../x` is not a path below"),
    ],
)
def test_what_is_no_report_is_refused(command: str, content: str | None, said: str, small: Path) -> None:
    before = snapshot(small)
    if content is not None:
        (small.parent / "seen.json").write_text(content, encoding="utf-8")
    done = torchferry(command, small, "-t", "npu", "--seen", small.parent / "seen.json")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(small) == before


def test_the_run_and_the_redirect_are_not_asked_for_together(small: Path) -> None:
    done = torchferry("migrate", small, "-t", "npu", "--style", "shim", "--seen", small / "settings.json")
    assert done.returncode == 2
    assert "use --seen without --style shim" in done.stderr


@pytest.mark.parametrize("target", registry.built_in())
def test_one_import_and_no_other_edit_of_python(target: str, project: Path) -> None:
    before = snapshot(project)
    check = torchferry("migrate", project, "-t", target, "--style", "shim", "--check")
    assert check.returncode == 1
    assert snapshot(project) == before
    assert torchferry("migrate", project, "-t", target, "--style", "shim").returncode in {0, 1}
    after = snapshot(project)
    changed = {path for path in before if after[path][0] != before[path][0]}
    assert {path for path in changed if path.endswith(".py")} == {"train.py"}
    new = after["train.py"][0].decode()
    assert new.count(IMPORT) == 1
    assert new.replace(IMPORT, "") == before["train.py"][0].decode()
    again = torchferry("migrate", project, "-t", target, "--style", "shim")
    assert "nothing to rewrite" in again.stdout, again.stderr
    assert snapshot(project) == after
    shutil.rmtree(project / ".torchferry")  # a fresh clone of the migrated project
    assert "nothing to rewrite" in torchferry("migrate", project, "-t", target, "--style", "shim").stdout


def test_undo_takes_the_import_back(project: Path) -> None:
    before = snapshot(project)
    torchferry("migrate", project, "-t", "npu", "--style", "shim")
    assert torchferry("undo", project).returncode == 0
    assert snapshot(project) == before


def test_patch_and_copy_agree(project: Path, tmp_path: Path) -> None:
    before = snapshot(project)
    diff = torchferry("migrate", project, "-t", "npu", "--style", "shim", "--diff").stdout
    added = [line for line in diff.splitlines() if line.startswith("+import")]
    assert added == ["+" + IMPORT.strip()]
    out = tmp_path / "copy"
    torchferry("migrate", project, "-t", "npu", "--style", "shim", "--out", out)
    assert snapshot(project) == before
    torchferry("migrate", project, "-t", "npu", "--style", "shim")
    assert {p: e[:2] for p, e in snapshot(out).items()} == {p: e[:2] for p, e in snapshot(project).items()}


def test_the_migrated_program_runs_on_the_card(small: Path) -> None:
    pytest.importorskip("torch")
    assert "1 fix applied in 1 file" in torchferry("migrate", small, "-t", "npu", "--style", "shim").stdout
    ran = torchferry("rehearse", "-t", "npu", "--", "python", "program.py", cwd=small, env=CACHE)
    assert ran.stdout.splitlines()[:1] == ["True True True cuda"], ran.stderr
