"""`migrate --kit`: what is written, that it is taken back, and that nobody's file is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.kit.projects import PROJECT, REQUIREMENTS, contents, written

KIT = {"README_NPU.md", "NPU_MIGRATION_GUIDE.md", "test_npu_setup.py", "device_utils.py", "requirements_npu.txt"}


@pytest.mark.parametrize(
    ("options", "lang"),
    [([], "en"), (["--suffix", "_npu"], "zh"), (["--style", "portable", "--dtype", "auto"], "en")],
    ids=str,
)
def test_written_once_and_taken_back(options: list[str], lang: str, tmp_path: Path) -> None:
    written(tmp_path, {**PROJECT, "parts/__init__.py": "", "parts/device.py": 'DEVICE = "cpu"\n'})
    before = contents(tmp_path)
    command = ["migrate", "-t", "npu", "--kit", "--lang", lang, *options, tmp_path]
    first = torchferry(*command)
    after = contents(tmp_path)
    beside = {"train_npu.py", "run_npu.sh"} if "--suffix" in options else set()
    assert after.keys() - before.keys() == KIT | beside, first.stderr
    for name in KIT - {"device_utils.py"}:
        assert ("华为昇腾" in after[name].decode()) == (lang == "zh"), name
    torchferry(*command)
    assert contents(tmp_path) == after
    assert torchferry("undo", tmp_path).returncode == 0
    assert contents(tmp_path) == before


def test_what_the_documents_say(tmp_path: Path) -> None:
    written(tmp_path, PROJECT)
    torchferry("migrate", "-t", "npu", "--suffix", "_npu", "--kit", tmp_path)
    guide = (tmp_path / "NPU_MIGRATION_GUIDE.md").read_text(encoding="utf-8")
    assert '| train.py:22 | `model.to("cuda", torch.bfloat16)` | `model.to("npu", torch.bfloat16)` |' in guide
    assert "| `requirements.txt:2` | `torch==2.4.1+cu121` | `torch==2.4.0` |" in guide
    assert "- `flash-attn==2.5.8` is not installed: `flash-attn` on Huawei Ascend" in guide
    assert "Agree to this or choose another" in guide
    assert "the code was examined for version" in guide
    readme = (tmp_path / "README_NPU.md").read_text(encoding="utf-8")
    assert "python train_npu.py" in readme
    assert "PYTHONPATH" not in readme
    assert "- `acme/tiny-model` (train.py:19)" in readme
    assert "checkpoints/last" not in readme
    script = (tmp_path / "run_npu.sh").read_text(encoding="utf-8")
    assert script == "#!/bin/sh\npip install -r requirements_npu.txt\npython train_npu.py --tokenizer a/b\n"


@pytest.mark.parametrize("target", ["musa", "ptex"])
def test_other_targets_have_one(target: str, tmp_path: Path) -> None:
    program = "import torch\nimport data.text\nif __name__ == '__main__':\n    torch.zeros(1).cuda()\n"
    written(tmp_path, {**PROJECT, "tools/make.py": program, "data/text.py": ""})
    torchferry("migrate", "-t", target, "--kit", "--suffix", f"_{target}", tmp_path)
    readme = (tmp_path / f"README_{target.upper()}.md").read_text(encoding="utf-8")
    assert (
        f"pip install -r requirements_{target}.txt -c installed_torch.txt\n" in readme
    )  # pip keeps the vendor's torch
    assert 'export PYTHONPATH="$PWD"\n' in readme
    assert f"python tools/make_{target}.py\n" in readme
    new = contents(tmp_path).keys()
    name = target.upper()
    assert {
        f"README_{name}.md",
        f"{name}_MIGRATION_GUIDE.md",
        f"test_{target}_setup.py",
        f"requirements_{target}.txt",
    } <= new


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("README_NPU.md", ["--suffix", "_npu"]),
        ("device_utils.py", []),
        ("requirements_npu.txt", ["--suffix", "_npu"]),
    ],
)
def test_a_file_of_somebody_else_stops_the_whole(name: str, suffix: list[str], tmp_path: Path) -> None:
    written(tmp_path, {**PROJECT, name: "mine\n"})
    before = contents(tmp_path)
    refused = torchferry("migrate", "-t", "npu", "--kit", *suffix, tmp_path)
    assert refused.returncode == 2
    assert name in refused.stderr
    assert contents(tmp_path) == before


def test_a_link_is_no_way_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs\n", encoding="utf-8")
    project = written(tmp_path / "project", PROJECT)
    (project / "requirements_npu.txt").symlink_to(outside)
    assert torchferry("migrate", "-t", "npu", "--kit", project).returncode == 2
    assert outside.read_text(encoding="utf-8") == "theirs\n"


def test_an_edited_file_is_kept_and_an_untouched_one_follows_the_project(tmp_path: Path) -> None:
    def migrated() -> str:
        assert torchferry("migrate", "-t", "musa", "--kit", tmp_path).returncode in (0, 1)
        return guide.read_text(encoding="utf-8")

    guide, code, lists = (tmp_path / name for name in ("MUSA_MIGRATION_GUIDE.md", "more.py", "requirements.txt"))
    written(tmp_path, PROJECT)
    first = migrated()
    assert "`train.py:20` DTY102" in first  # below the line that imports the plugin
    assert migrated() == first
    lists.write_text(f"{REQUIREMENTS}apex\nscipy==1.14.0\n", encoding="utf-8")
    assert "`requirements.txt:7`" in migrated()
    assert "scipy==1.14.0" in (tmp_path / "requirements_musa.txt").read_text(encoding="utf-8")
    assert "scipy==1.14.0" in (tmp_path / "test_musa_setup.py").read_text(encoding="utf-8")
    code.write_text('import torch\ntorch.ones(1).to("cuda")\n', encoding="utf-8")
    both = migrated()
    assert [place for place in ("| train.py:22 |", "| more.py:2 |", "\npython train.py\n") if place not in both] == []
    first_status = torchferry("migrate", "-t", "musa", "--kit", tmp_path).returncode
    guide.write_text("my notes\n", encoding="utf-8")
    for program, needs in (("torch.ones(2)", "1.15.0"), ("torch.ones(2)", "1.16.0"), ('torch.ones(2).to("cuda")', "1")):
        code.write_text(f"import torch\n{program}\n", encoding="utf-8")
        lists.write_text(f"{REQUIREMENTS}apex\nscipy=={needs}\n", encoding="utf-8")
        again = torchferry("migrate", "-t", "musa", "--kit", tmp_path)
        assert again.returncode == first_status, again.stderr  # what is left in the code, and no refusal
        assert guide.name in again.stderr
        assert guide.read_text(encoding="utf-8") == "my notes\n"
        for other in ("requirements_musa.txt", "test_musa_setup.py"):
            assert f"scipy=={needs}" in (tmp_path / other).read_text(encoding="utf-8")
    undone = torchferry("undo", tmp_path)
    assert guide.read_text(encoding="utf-8") == "my notes\n", undone.stdout


@pytest.mark.parametrize(("options", "says"), [(["--out", "copy"], "Remove this folder"), (["--diff"], "git apply -R")])
def test_a_copy_and_a_patch_say_how_they_are_taken_back(options: list[str], says: str, tmp_path: Path) -> None:
    project = written(tmp_path / "project", PROJECT)
    before = contents(project)
    run = torchferry("migrate", "-t", "npu", "--kit", *options, project, cwd=tmp_path)
    guide = tmp_path / "copy" / "NPU_MIGRATION_GUIDE.md"
    assert says in (run.stdout if "--diff" in options else guide.read_text(encoding="utf-8"))
    assert contents(project) == before
