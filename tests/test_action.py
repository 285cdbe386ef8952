"""The GitHub Action and the pre-commit hook on a pull request that wants to run, write and say more than it may."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
RECORDER = """#!/bin/sh
printf '%s\\n' "$PWD|$*" >> "$RECORD"
case "$*" in *venv*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python";; esac
"""


class Runner:
    """A runner of GitHub's: a workspace with the pull request, a folder for temporary files, and how it runs a step."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.temporary, self.record = folder / "workspace", folder / "temporary", folder / "record"
        self.marks = folder / "marks"
        self.workspace.mkdir()
        self.temporary.mkdir()
        for name in {*sys.stdlib_module_names, "pip", "torchferry", "click", "sitecustomize"} - set(
            sys.builtin_module_names
        ):
            code = f"import posix\nposix.close(posix.open({os.fspath(self.marks)!r}, {os.O_WRONLY | os.O_CREAT}))\n"
            self.write(f"{name}.py", code)
        self.write("pip.conf", "[global]\nindex-url = http://127.0.0.1:9/evil\n")
        self.write("setup.cfg", "[install]\nprefix = /nonexistent\n")
        text = "import torch\nx = torch.ones(2).cuda()\ny = '::error::from the code'; z = torch.ones(2).cuda()\n"
        self.write("train.py", text)
        self.write("a\n::warning::from a name\n%0A::notice::b.py", "import torch\ntorch.ones(2).cuda()\n")

    def write(self, name: str, text: str) -> None:
        (self.workspace / name).write_text(text, encoding="utf-8")

    def run(self, name: str, *, programs: str = "", **inputs: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        values = {key: str(value.get("default", "")) for key, value in ACTION["inputs"].items()} | inputs
        contexts = {"runner.temp": str(self.temporary), "github.action_path": str(ROOT)}
        contexts |= {f"inputs.{key}": value for key, value in values.items()}

        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda match: contexts[match[1]], text)

        assert "${{" not in step["run"], "an expression in a script is code of whoever decides its value"
        script = self.temporary / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        environment = {
            "PATH": programs + os.environ["PATH"],
            "HOME": str(self.temporary),
            "LC_ALL": "C.UTF-8",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
            "PYTHONPATH": ".",  # as a workflow may set it for its own steps
            "RECORD": str(self.record),
            **{key: filled(value) for key, value in step["env"].items()},
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=filled(step.get("working-directory", str(self.workspace))),
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def install(self) -> None:
        """Put this environment's torchferry where the first step installs it."""
        scripts = self.temporary / "torchferry" / "bin"
        scripts.mkdir(parents=True)
        (scripts / "torchferry").write_text("from torchferry.__main__ import main\nmain()\n", encoding="utf-8")
        (scripts / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        (scripts / "python").chmod(0o755)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def heard(text: str) -> list[str]:
    """Return the lines that GitHub takes for commands: all but what stands between a stop and its token."""
    commands, token = [], ""
    for line in text.splitlines():
        if token:
            token = "" if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
        elif line.lstrip().startswith(("::", "##[")):
            commands.append(line)
    assert token == "", "commands are on again at the end"
    return commands


def test_installing_asks_the_pull_request_nothing(runner: Runner, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "python3").write_text(RECORDER, encoding="utf-8")
    (bin_folder / "python3").chmod(0o755)
    done = runner.run("Install", programs=f"{bin_folder}{os.pathsep}")
    assert done.returncode == 0, done.stderr
    calls = [line.split("|") for line in runner.record.read_text(encoding="utf-8").splitlines()]
    assert {place for place, _ in calls} == {str(runner.temporary)}
    words = [call for _, call in calls]
    assert [call.split()[:3] for call in words] == [["-I", "-m", "venv"], ["-I", "-m", "pip"], ["-I", "-m", "pip"]]
    assert "--require-hashes" in words[1]
    assert f"-r {ROOT}/requirements/action.txt" in words[1]
    assert "--no-index --no-build-isolation" in words[2]
    assert not runner.marks.exists()


def test_annotations_say_what_was_found_and_nothing_else(runner: Runner) -> None:
    runner.install()
    done = runner.run("Scan", target="npu")
    assert done.returncode == 1, done.stdout + done.stderr
    assert not runner.marks.exists()
    commands = heard(done.stdout + done.stderr)
    assert len(commands) >= 4
    assert all(
        re.fullmatch(r"::(error|warning|notice) file=[^:,]+,title=\w+(,\w+=\d+)*::.+", line) for line in commands
    ), commands
    assert {re.sub(r".*file=([^,]*),.*", r"\1", line) for line in commands} >= {"train.py"}


@pytest.mark.parametrize("settings", ["true", "false"])
@pytest.mark.parametrize(
    "text",
    [
        '[tool]\n"x\\n::error::injected" = 1\n',
        'ignore = ["\\n::error::injected"]\n',
        "::error::injected\n",
        'exclude = ["*"]\n',
    ],
)
def test_settings_of_the_pull_request(runner: Runner, text: str, settings: str) -> None:
    runner.install()
    runner.write("torchferry.toml", text)
    done = runner.run("Scan", target="npu", settings=settings)
    assert [line for line in heard(done.stdout + done.stderr) if "injected" in line] == []
    if settings == "false":
        assert done.returncode == 1
        assert any("train.py" in line for line in heard(done.stdout))
    else:
        assert done.returncode == (1 if "exclude" in text else 2), done.stdout


@pytest.mark.parametrize("form", ["text", "json", "sarif", "csv", "html", "no such\n::error::injected"])
def test_no_form_and_no_input_gives_a_command(runner: Runner, form: str) -> None:
    runner.install()
    done = runner.run("Scan", target="npu", format=form)
    assert heard(done.stdout + done.stderr) == []
    assert done.returncode == (1 if " " not in form else 2)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"path": "--output-file=stolen"}, 2),
        ({"path": "-o"}, 2),
        ({"path": "$(touch ran)`touch ran`; touch ran"}, 2),
        ({"target": "npu --output-file stolen"}, 2),
        ({"target": "$(touch ran)"}, 2),
        ({"target": "npu\n::error::injected"}, 2),
        ({"output": "../outside"}, 2),
        ({"output": "/etc/torchferry-outside"}, 2),
        ({"output": ".git/config"}, 2),
        ({"output": "link"}, 2),
        ({"output": "folder/report"}, 2),
        ({"output": "--help"}, 1),
        ({"output": "$(touch ran)"}, 1),
        ({"output": "report.txt", "fail": "false"}, 0),
        ({"fail": "$(touch ran)"}, 0),
    ],
)
def test_inputs_are_values(runner: Runner, tmp_path: Path, inputs: dict[str, str], code: int) -> None:
    runner.install()
    (runner.workspace / ".git").mkdir()
    (runner.workspace / ".git" / "config").write_text("precious")
    (tmp_path / "precious").write_text("precious")
    (runner.workspace / "link").symlink_to(tmp_path / "precious")
    (runner.workspace / "folder").symlink_to(tmp_path)
    before = {path for path in tmp_path.rglob("*") if runner.temporary not in path.parents}
    done = runner.run("Scan", **{"target": "npu", **inputs})
    assert done.returncode == code, done.stdout + done.stderr
    assert not any("injected" in line for line in heard(done.stdout + done.stderr))
    written = {path for path in tmp_path.rglob("*") if runner.temporary not in path.parents} - before
    assert written == ({runner.workspace / inputs["output"]} if "output" in inputs and code < 2 else set())
    assert {(tmp_path / "precious").read_text(), (runner.workspace / ".git" / "config").read_text()} == {"precious"}


def test_the_hook_says_what_it_lacks(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2).cuda()\n")
    words = [sys.executable, "-I", "-c", "from torchferry.__main__ import main; main()", *hook["entry"].split()[1:]]

    def ran(*more: str) -> subprocess.CompletedProcess[str]:
        command = [*words, *hook.get("args", []), *more]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    without = ran()
    assert without.returncode == 2
    assert "no target is named" in without.stderr
    assert "--target" in without.stderr
    assert "torchferry.toml" in without.stderr
    assert ran("--target", "npu").returncode == 1
    (tmp_path / "torchferry.toml").write_text('target = "npu"\n')
    assert ran().returncode == 1
    assert hook["pass_filenames"] is False
    assert hook["require_serial"] is True
