"""Commands in an environment without torch: each says which Python lacks it, and how it is had."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.processes import HANGS
from torchferry.core import supported_torch

PROGRAM = "import torch\nprint(torch.ones(2).sum())\n"

REHEARSED = "NOTHING WAS REHEARSED: torch is not installed in {python}"
REDIRECTED = "NOTHING WAS REDIRECTED: torch is not installed in {python}"
EXAMINED = "NOTHING WAS EXAMINED: torch is not installed in {python}"
NEEDED = "`{command}` needs torch, which is not installed in {python}"

COMMANDS = {
    "rehearse -t npu -- python train.py": REHEARSED,
    "rehearse -t npu -- sh -c 'python train.py; true'": REHEARSED,
    "rehearse -t npu -- torchrun train.py": "command `torchrun` not found; it is installed with torch",
    "run -t npu -- python train.py": REDIRECTED,
    "run -t npu -- sh -c 'python train.py; true'": REDIRECTED,
    "compare -- python train.py": EXAMINED,
    "compare record -o record -- python train.py": EXAMINED,
    "compare ranks -- python train.py": EXAMINED,
    "nan -- python train.py": EXAMINED,
    "profile -- python train.py": EXAMINED,
    "ops trace -- python train.py": EXAMINED,
    "ops trace -t npu -- python train.py": EXAMINED,
    "ops report -t npu --model train.py:build": NEEDED.replace("{command}", "torchferry ops"),
    "ops predict train.py:build": NEEDED.replace("{command}", "torchferry ops"),
    "ops request -t npu --model train.py:build": NEEDED.replace("{command}", "torchferry ops"),
    "ops dump -t npu": NEEDED.replace("{command}", "torchferry ops"),
    "ops new tril -t musa": NEEDED.replace("{command}", "torchferry ops new"),
    "ops codegen functions.yaml --namespace at::x --dry-run": NEEDED.replace("{command}", "torchferry ops codegen"),
    "replay .": NEEDED.replace("{command}", "torchferry replay"),
    "device show": NEEDED.replace("{command}", "torchferry device show"),
    "scan . -t npu --rehearse 'python train.py'": "torch is not installed in {python}",
    "migrate . -t npu --out migrated --rehearse 'python train.py'": "NOTHING WAS REHEARSED: torch is not installed",
    "accept --rehearse -t npu --only loads": "torch is not installed in {python}",
    "rehearse -t npu -- torchferry nan -- python train.py": REHEARSED,
    "rehearse -t npu -- torchferry doctor -t npu": NEEDED.replace("{command}", "torchferry rehearse"),
    "python -m torchferry.run train.py": NEEDED.replace("{command}", "python -m torchferry.run"),
    "python -m pytest --rehearse npu": NEEDED.replace("{command}", "pytest --rehearse"),
}
CODES = {"accept": 1, "python -m pytest": 4}
"""Exit codes of commands of which it is no error: a gate is not met, or pytest says so in its own way; of others 2."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with all packages of this one but torch's; return its folder of programs."""
    environment = tmp_path_factory.mktemp("without") / "torch"
    venv.create(environment, symlinks=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    standard = sysconfig.get_path("stdlib")
    others = []
    for folder in map(Path, filter(os.path.isdir, sys.path)):
        if not (folder / "torch").exists():
            others += [str(folder)] if "-packages" in str(folder) or not str(folder).startswith(standard) else []
            continue
        for entry in folder.iterdir():
            of_torch = entry.name == "torch" or entry.name.startswith(("torch-", "torchgen", "functorch"))
            if not of_torch and entry.suffix != ".pth" and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    script = environment / "bin" / "torchferry"
    script.write_text(f"#!{environment}/bin/python\nfrom torchferry.__main__ import main\n\nmain()\n")
    script.chmod(0o755)
    return environment / "bin"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_how_torch_is_installed(scripts: Path, command: str, tmp_path: Path) -> None:
    said = COMMANDS[command]
    code = next((code for name, code in CODES.items() if command.startswith(name)), 2)
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "functions.yaml").write_text("- func: tril.out\n")
    (tmp_path / "torchferry.accept.toml").write_text('schema = 1\n[runs.rehearsal]\ncommand = ["python", "train.py"]\n')
    words = shlex.split(command)
    done = subprocess.run(
        [str(scripts / "python"), *words[1:]] if words[0] == "python" else [str(scripts / "torchferry"), *words],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    printed = done.stdout + done.stderr
    assert said.format(python=scripts / "python") in printed
    assert done.returncode == code, printed
    assert f"{scripts}/python" in printed
    assert f"-m pip install torch=={supported_torch.USUAL} --index-url {supported_torch.CPU_INDEX}`" in printed
    assert [line for line in printed.splitlines() if line.startswith('  File "') and "train.py" not in line] == []


TOO_OLD = {
    "rehearse -t npu": "NOTHING WAS REHEARSED: it could not begin, for the reason above",
    "nan": "NOTHING WAS EXAMINED: the tool could not begin, for the reason above",
    "run -t npu": "a process of the command was not redirected, for the reason above",
}


@pytest.mark.parametrize("command", TOO_OLD)
def test_what_refused_to_begin_is_not_said_to_have_been_absent(scripts: Path, command: str, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text('__version__ = "2.0.1"\n')
    (tmp_path / "train.py").write_text("import torch\n")
    words = [str(scripts / "torchferry"), *command.split(), "--", "python", "train.py"]
    # a rehearsal that another test began in this process would refuse the old torch first
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHFERRY_", "PYTHON"))}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=HANGS)
    assert done.returncode == 2
    assert "torch 2.0.1 in " in done.stderr
    assert TOO_OLD[command] in done.stderr, done.stderr
    assert "never loaded" not in done.stderr
    assert "no process" not in done.stderr


def test_the_version_that_is_named_is_the_one_of_the_suite() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'"torch=={supported_torch.USUAL}"' in project.read_text(encoding="utf-8")
