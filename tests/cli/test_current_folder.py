"""No command that does not start the user's program runs a module or a program of the folder that it is started in.

The folder is a clone in which every module of the standard library, of ours and of what we use has a namesake that
leaves a mark, and so has every program that we start. The command is started as hostilely as can be: with the current
folder on the path of its own process, as `python -m` puts it there, and with variables whose entries mean that folder.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.profiling.traces import two_steps
from torchferry.cli import cli

MODULES = (
    *(set(sys.stdlib_module_names) - set(sys.builtin_module_names)),
    *("torch", "torch_npu", "torchgen", "numpy", "yaml", "PIL", "safetensors", "pyarrow", "click", "rich", "packaging"),
    *("tomli", "pip", "mcp", "anyio", "pygls", "lsprotocol", "pydantic", "ansible_runner", "hatchling", "setuptools"),
    *("sitecustomize", "usercustomize", "IPython", "trap_plugin"),
)
PROGRAMS = (
    *(
        "git",
        "python",
        "python3",
        "sh",
        "bash",
        "env",
        "uname",
        "file",
        "ldd",
        "ldconfig",
        "readelf",
        "nm",
        "cmake",
        "ssh",
    ),
    *("g++", "c++", "clang++", "cc", "gcc", "ld", "as", "nvcc", "c++filt", "llvm-cxxfilt", "docker", "podman", "lsmod"),
    *("npu-smi", "nvidia-smi", "mthreads-gmi", "chronyc", "timedatectl", "ansible-playbook", "ansible-inventory"),
)

START = """
import os, sys
sys.path[:0] = [os.getcwd(), ""]
os.environ.update(
    PYTHONPATH="." + os.pathsep, PYTHONINSPECT="1", PYTHONSTARTUP="json.py",
    PYTHONPYCACHEPREFIX="cache", PYTHONUSERBASE=".",
    PATH=os.pathsep.join(["", ".", os.environ["PATH"]]), LD_LIBRARY_PATH=":", CPATH=":.", LIBRARY_PATH=":",
)
from torchferry.__main__ import main
for number, line in enumerate(sys.argv[1:]):
    child = os.fork()
    if not child:
        for stream in (1, 2):
            os.dup2(os.open(f"../said{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        sys.argv[:] = ["torchferry", *line.split("\\t")]
        main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, flush=True)
    try:
        os.rename("../marks", f"../marks{number}")
    except OSError:
        pass
"""  # fmt: skip

TRAIN = """\
import torch
import torch.nn as nn


def build(device):
    return nn.Linear(4, 2).to(device), torch.ones(3, 4, device=device)


if __name__ == "__main__":
    model = nn.Linear(4, 2).cuda()
    print(model(torch.ones(3, 4).cuda()).sum())
"""
KERNEL = "#include <cuda_runtime.h>\n__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n"
IMAGE = "--set image=quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11"
COMMANDS = {
    "scan . -t npu": 1,
    "show DEV103 . -t npu": 0,
    "decide DEV103 accept . -t npu": 2,
    "scan . -t npu --python {python}": 1,
    "scan . -t npu -f sarif -j 2": 1,
    "scan . -t npu --since HEAD": 2,
    "migrate . -t npu --diff": 1,
    "migrate . -t npu --kit --out {out}/migrated": 1,
    "port . -t musa --gate compile --out {out}/ported": 0,
    "environment list": 0,
    "environment remove torch-2.0-nowhere": 2,
    "accept -t npu --show": 0,
    "accept -t npu --only environment --only migration --only syntax -o {out}/evidence": 1,
    "accept init --file {out}/torchferry.accept.toml": 0,
    "accept metric log.txt -m loss --at-most 1": 0,
    "compare diff . .": 2,
    "compare curves log.txt log.txt": 0,
    "profile show trace.json": 0,
    "profile compare trace.json trace.json": 0,
    "handover prepare . --for generic --model Net -o {out}/handover": 0,
    "handover check {out}/handover": 1,
    "triton check . -t npu": 1,
    "explain log.txt": 0,
    "advise . -t npu": 0,
    "ops predict {elsewhere}/model.py:build": 0,
    "ops report -t npu": 0,
    "ops new tril -t musa --out {out}": 0,
    "ops codegen functions.yaml --namespace at::trap --dry-run": 0,
    "ops request -t npu": 2,
    "ops dump -t npu": 2,
    "replay .": 2,
    "setup-test . -t npu -o {out}/setup_test.py": 0,
    "doctor -t npu": 1,
    "doctor --python {python} -t npu": 1,
    "doctor -t npu snapshot": 0,
    "doctor diff snapshot.json snapshot.json": 2,
    "doctor symbol 'mine.so: undefined symbol: _ZN3c104warnERKNS_7WarningE'": 1,
    "deploy bundle -t npu -o {out}/bundle": 0,
    f"deploy check -t npu -i hosts.ini {IMAGE}": 2,
    f"deploy plan -t npu {IMAGE}": 0,
    f"deploy run -t npu -i hosts.ini {IMAGE}": 2,
    f"deploy verify -t npu -i hosts.ini {IMAGE}": 2,
    "deploy report -t npu -i hosts.ini": 2,
    f"deploy rollback -t npu -i hosts.ini {IMAGE}": 2,
    f"deploy commit -t npu -i hosts.ini {IMAGE}": 2,
    f"deploy dockerfile -t npu {IMAGE}": 0,
    f"deploy kubernetes -t npu {IMAGE} -- python train.py": 0,
    "device show": 1,
    "device vendor {out}": 0,
    "undo .": 2,
    "api torch.cuda.Stream -t npu": 0,
    "backend list": 0,
    "backend show npu": 0,
    "rule DEV101": 0,
    "sync HEAD . -t npu --from HEAD": 2,
    "help scan": 0,
    "completion bash": 0,
    "skill install {out}": 0,
    "skill show": 0,
    "mcp --root .": 0,
    "lsp": 0,
}
"""Each command that does not start the user's program, and its exit code: 2 where something is not there."""

STARTS_THE_USERS_PROGRAM = {
    *("rehearse", "run", "nan", "compare cpu", "compare record", "compare ranks", "profile record", "ops trace"),
}


def leaves(command: click.Command, name: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    if name and command.invoke_without_command:
        yield name
    for each in command.list_commands(context):
        below = command.get_command(context, each)
        assert below is not None
        yield from leaves(below, f"{name} {each}".strip())


def test_every_command_is_looked_at() -> None:
    known = set(leaves(cli))
    bare = [line.replace(" -t npu", "") for line in COMMANDS]
    tried = {max((name for name in known if line.startswith(name)), key=len) for line in bare}
    assert tried | STARTS_THE_USERS_PROGRAM == known


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    marks = tmp_path / "marks"
    for name in MODULES:
        code = (
            f"import posix\nposix.write(posix.open({os.fspath(marks)!r}, {os.O_WRONLY | os.O_CREAT | os.O_APPEND}),"
            f" b'module {name}\\n')\nraise ImportError('the clone has run')\n"
        )
        if name in ("encodings", "torch", "numpy", "json"):
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(code)
        else:
            (folder / f"{name}.py").write_text(code)
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho program {name} >> '{marks}'\nexit 3\n")
        (folder / name).chmod(0o755)
    metadata = folder / "trap.egg-info"
    metadata.mkdir()
    (metadata / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1\n")
    points = "[torchferry.backends]\ntrap = trap_plugin:Trap\n[torch.backends]\ntrap = trap_plugin:start\n"
    (metadata / "entry_points.txt").write_text(points)
    (folder / "train_clone.py").write_text(TRAIN)
    (folder / "kernel.cu").write_text(KERNEL)
    (folder / "torchferry.accept.toml").write_text("schema = 1\n")
    (folder / "log.txt").write_text("".join(f"step {step} loss {1 / step}\n" for step in range(1, 30)))
    (folder / "trace.json").write_text(json.dumps({"traceEvents": two_steps()}))
    (folder / "functions.yaml").write_text(
        "- func: tril\n- func: tril_\n- func: tril.out\n  dispatch:\n    PrivateUse1: TrilOut\n"
    )
    (folder / "hosts.ini").write_text("[all]\nlocalhost ansible_connection=local\n")
    return folder


def test_nothing_of_the_folder_runs(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "model.py").write_text(TRAIN)
    (tmp_path / "out").mkdir()
    values = {"python": sys.executable, "out": tmp_path / "out", "elsewhere": tmp_path / "elsewhere"}
    environment = {
        **{name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME")},
        "LC_ALL": "C.UTF-8",
        "HOME": str(tmp_path / "home"),
        "TORCHFERRY_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-I", "-c", START, *("\t".join(shlex.split(line.format(**values))) for line in COMMANDS)],
        cwd=clone, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    ran, ended, said = {}, {}, {}
    for number, (line, code) in enumerate(zip(COMMANDS, done.stdout.split(), strict=True)):
        ended[line] = int(code)
        said[line] = (tmp_path / f"said{number}").read_text()
        if (tmp_path / f"marks{number}").exists():
            ran[line] = (tmp_path / f"marks{number}").read_text()
    for line in COMMANDS:
        print("#", line, ended[line], said[line][-300:])
    assert ran == {}
    assert ended == COMMANDS
    assert [line for line, text in said.items() if "Traceback" in text or "the clone has run" in text] == []
