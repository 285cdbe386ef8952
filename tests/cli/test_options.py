"""Options of the commands that look at files: several paths, standard input, settings, how much is printed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.warm_python import ferry

EXAMPLE = Path(__file__).parents[2] / "examples" / "cuda-training"
CUDA = "import torch\nx = torch.ones(2).cuda()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    shutil.copytree(EXAMPLE, root)
    for name in ("a.py", "b.py", "tools/c.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(CUDA)
    return root


def found(*arguments: object, cwd: Path) -> set[str]:
    """Return the files that a scan has findings in."""
    done = torchferry("scan", *arguments, "-t", "npu", "-f", "json", cwd=cwd)
    assert done.returncode in (0, 1), done.stderr
    return {finding["path"] for finding in json.loads(done.stdout)["findings"]}


def with_standard_input(text: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ferry(), "-m", "torchferry", *arguments],
        input=text,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_several_paths_are_one_run(project: Path) -> None:
    assert found("a.py", "tools", cwd=project) == {"a.py", "tools/c.py"}
    assert found("../a.py", "c.py", cwd=project / "tools") == {"a.py", "tools/c.py"}
    assert found("a.py", ".", cwd=project) == found(cwd=project) > {"a.py", "b.py"}
    done = torchferry("migrate", "a.py", "tools", "-t", "npu", cwd=project)
    assert done.returncode == 0, done.stderr
    assert [".npu()" in (project / name).read_text() for name in ("a.py", "b.py", "tools/c.py")] == [True, False, True]
    assert torchferry("undo", ".", cwd=project).returncode == 0
    assert (project / "a.py").read_text() == CUDA


def test_paths_of_two_projects_are_refused(project: Path) -> None:
    other = shutil.copytree(project, project.parent / "other")
    for root in (project, other):
        subprocess.run(["git", "init", "-q", root], check=True)
    done = torchferry("scan", project, other, "-t", "npu")
    assert done.returncode == 2
    assert "belong to different projects" in done.stderr


def test_standard_input_is_one_file(project: Path) -> None:
    name = ("--stdin-filename", "a.py", "-t", "npu")
    done = with_standard_input(CUDA, "migrate", "-", *name, cwd=project)
    assert (done.returncode, done.stdout) == (0, CUDA.replace(".cuda()", ".npu()"))
    done = with_standard_input(CUDA, "migrate", "-", *name, "--diff", cwd=project)
    assert "+++ b/a.py" in done.stdout
    done = with_standard_input("x = 1\n", "migrate", "-", *name, cwd=project)
    assert (done.returncode, done.stdout) == (0, "x = 1\n")
    done = with_standard_input(CUDA, "scan", "-", *name, "-f", "json", cwd=project)
    document = json.loads(done.stdout)
    assert (document["root"], {finding["path"] for finding in document["findings"]}) == ("project", {"a.py"})
    done = with_standard_input("export CUDA_VISIBLE_DEVICES=1\n", "migrate", "-", "--stdin-filename", "new/run.sh",
                               "-t", "npu", cwd=project)  # fmt: skip
    assert done.stdout == "export ASCEND_RT_VISIBLE_DEVICES=1\n"
    assert not (project / "new").exists()
    assert not (project / ".torchferry").exists()


def test_a_text_that_needs_another_file_says_so(project: Path) -> None:
    arguments = ("migrate", "-", "--stdin-filename", "a.py", "-t", "npu", "--style", "portable")
    done = with_standard_input(CUDA, *arguments, cwd=project)
    assert "import device_utils" in done.stdout
    assert "the result needs `device_utils.py`" in done.stderr
    (project / "device_utils.py").write_text(CUDA)
    assert "needs" not in with_standard_input(CUDA, *arguments, cwd=project).stderr


def test_the_settings_of_the_project_hold_for_standard_input(project: Path) -> None:
    (project / "torchferry.toml").write_text("target = 'musa'\n[per-file-ignores]\n'tools/*' = ['DEV']\n")
    done = with_standard_input(CUDA, "migrate", "-", "--stdin-filename", "a.py", cwd=project)
    assert done.stdout == CUDA.replace(".cuda()", ".musa()")
    done = with_standard_input(CUDA, "migrate", "-", "--stdin-filename", "tools/c.py", cwd=project)
    assert done.stdout == CUDA


def test_a_settings_file_is_chosen_or_left_out(project: Path, tmp_path: Path) -> None:
    (project / "torchferry.toml").write_text("target = 'musa'\nexclude = ['b.py']\n")
    (tmp_path / "other.toml").write_text("target = 'gcu'\nignore = ['DEV']\npaths = {'/data/' = '/mnt/'}\n")
    shown = torchferry("scan", "--show-settings", "--select", "AMP", cwd=project).stdout
    assert 'target = "musa"' in shown
    assert 'select = ["AMP"]' in shown
    assert 'exclude = ["b.py"]' in shown
    assert "torchferry.toml" in shown
    shown = torchferry("migrate", "--config", tmp_path / "other.toml", "--show-settings", cwd=project).stdout
    assert 'target = "gcu"' in shown
    assert '[paths]\n"/data/" = "/mnt/"' in shown
    assert "exclude = []" in torchferry("scan", "--isolated", "--show-settings", cwd=project).stdout
    shown = torchferry("scan", "--isolated", "--paths", "kaggle", "--show-settings", cwd=project).stdout
    assert '"/kaggle/working/*.pth" = "/workspace/checkpoints/"' in shown
    (tmp_path / "again.toml").write_text(shown)  # what is printed is a settings file
    assert (
        torchferry("scan", "--config", tmp_path / "again.toml", "--show-settings", cwd=project).stdout.split("\n")[1:]
        == shown.split("\n")[1:]
    )


def test_how_much_is_printed(project: Path) -> None:
    usual = torchferry("scan", "-t", "npu", cwd=project).stdout
    quiet = torchferry("scan", "-t", "npu", "-q", cwd=project).stdout
    assert quiet == usual.split("\n")[0] + "\n"
    loud = torchferry("scan", "-t", "npu", "-v", cwd=project).stdout
    assert 'target = "npu"' in loud
    assert usual.split("\n")[0] in loud
    assert "[" + "comment" in loud or "[" in loud.split("\n")[-2]  # words that stay, each with its reason
    quiet = torchferry("migrate", "-t", "npu", "--check", "-q", cwd=project).stdout
    assert quiet.count("\n") == 1
    loud = torchferry("migrate", "-t", "npu", "--check", "-v", "--select", "DEV", cwd=project).stdout
    assert "a.py\n  2:19 DEV" in loud
    assert loud.count("\na.py\n  2:19 DEV") == 1


GUARDED = """\
import torch
z = torch.zeros(1).cuda()
if torch.cuda.is_available():
    import flash_attn
    x = flash_attn.flash_attn_func(y, y, y).cuda()
"""


@pytest.mark.parametrize("command", ["scan", "migrate --check", "migrate"])
def test_how_a_grade_came_about_is_printed(command: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GUARDED)
    usual = torchferry(*command.split(), "-t", "npu", cwd=tmp_path).stdout
    assert "->" not in usual
    loud = torchferry(*command.split(), "-t", "npu", "-v", cwd=tmp_path).stdout.splitlines()
    place = next(number for number, line in enumerate(loud) if "5:" in line and "DEV103" in line)
    told = next(number for number, line in enumerate(loud) if number > place and "->" in line)
    assert loud[told] == "      safe fix -> note: findings that change together"
    assert all(line.startswith("      ") for line in loud[place + 1 : told])


MISTAKES = [
    (("scan", "-", "-t", "npu"), "--stdin-filename"),
    (("scan", "-", "a.py", "-t", "npu", "--stdin-filename", "a.py"), "cannot be combined"),
    (("scan", ".", "-t", "npu", "--stdin-filename", "a.py"), "belongs to `-`"),
    (("migrate", "-", "-t", "npu", "--stdin-filename", "a.py", "--out", "x"), "standard output"),
    (("migrate", "-", "-t", "npu", "--stdin-filename", "a.bin"), "a.bin"),
    (("migrate", "-", "-t", "npu", "--stdin-filename", "/"), "/ is a folder"),
    (("scan", "-", "-t", "npu", "--stdin-filename", ""), "is a folder"),
    (("scan", "-", "-t", "npu", "--stdin-filename", "a" * 300 + ".py"), "File name too long"),
    (("scan", ".", "-t", "npu", "--config", "long.toml"), "more than 4096 characters"),
    (("scan", ".", "-t", "npu", "--config", "/dev/zero"), "/dev/zero cannot be read: is not a regular file"),
    (("scan", ".", "-t", "npu", "--config", "nowhere.toml"), "nowhere.toml"),
    (("scan", ".", "-t", "npu", "--config", "a.py"), "not TOML"),
    (("scan", ".", "-t", "npu", "--config", "x.toml", "--isolated"), "--isolated"),
    (("rule", "DEV1O1"), "did you mean `DEV101`"),
    (("scan", ".", "-t", "npu", "--select", "DEVV"), "did you mean `DEV`"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES)
def test_mistakes(project: Path, arguments: tuple[str, ...], said: str) -> None:
    (project / "long.toml").write_text(f"[paths]\n'/a' = '{'/a' * 3000}'\n")
    done = with_standard_input("", *arguments, cwd=project)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "variable", ["TORCHFERRY_LANG=fr", "TORCHFERRY_JOBS=x", "TORCHFERRY_JOBS=0", "TORCHFERRY_JOBS=²"]
)
def test_a_variable_that_says_nothing_is_an_error(variable: str, project: Path) -> None:
    name, _, value = variable.partition("=")
    done = torchferry("scan", "-t", "npu", cwd=project, env={name: value})
    assert done.returncode == 2
    assert variable in done.stderr
    assert "Traceback" not in done.stderr


def test_languages_of_locales_are_known(project: Path) -> None:
    assert "昇腾" in torchferry("scan", "-t", "npu", cwd=project, env={"TORCHFERRY_LANG": "zh_CN.UTF-8"}).stdout


def test_rules_are_explained_as_json_and_by_family() -> None:
    one = json.loads(torchferry("rule", "dev101", "-f", "json").stdout)
    assert (one["code"], one["family"]) == ("DEV101", "DEV")
    assert one["explanation"]
    family = json.loads(torchferry("rule", "DST", "-f", "json").stdout)
    assert {rule["family"] for rule in family} == {"DST"}
    assert [line[:6] for line in torchferry("rule", "DST").stdout.splitlines()] == [rule["code"] for rule in family]


@pytest.mark.parametrize(
    ("line", "expected"),
    [("torchferry scan -t m", "musa"), ("torchferry rule DEV10", "DEV101"), ("torchferry rehearse -t np", "npu")],
)
def test_shells_complete_targets_and_rules(line: str, expected: str) -> None:
    words = line.split()
    done = torchferry(
        env={"_TORCHFERRY_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    )
    assert f"plain,{expected}" in done.stdout.splitlines()


def test_a_dtype_needs_the_device_manager(project: Path) -> None:
    for style in (("--style", "native"), ("--style", "portable", "--device-module", "torch")):
        done = torchferry("migrate", ".", "-t", "npu", "--dtype", "auto", *style, cwd=project)
        assert done.returncode == 2
        assert (
            "--dtype needs the device manager: use `--style portable`, without `--device-module torch`" in done.stderr
        )
