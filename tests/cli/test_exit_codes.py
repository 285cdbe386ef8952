"""Exit codes: the same cause has the same code in every command, and the table of the documentation says which.

`tools/exit_codes.toml` is the table. Commands run in forks of a process that has imported torch, and so do the programs
that they start.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

pytest.importorskip("torch")

from tests.cli.test_since import git
from tests.processes import HANGS
from tests.profiling.traces import kineto, two_steps
from tests.warm import run
from tests.warm_python import python
from torchferry.cli import ProgramCommand, cli
from torchferry.cli.deploy_options import status_of_hosts
from torchferry.core import env, toml
from torchferry.deploy.playing import HostOutcome, StepOutcome

ROOT = Path(__file__).parents[2]
TABLE: dict[str, Any] = toml.loads((ROOT / "tools" / "exit_codes.toml").read_text(encoding="utf-8"))
CODES = {cause["name"]: cause["code"] for cause in TABLE["cause"]}
LISTED = [(cause["name"], entry) for cause in TABLE["cause"] for entry in cause.get("in", ())]

COMMAND = """
import os, sys
os.chdir(sys.argv.pop(1))
from torchferry.__main__ import main
main()
"""
TRAIN = """
import sys
import torch

if "fails" in sys.argv:
    sys.exit(7)
torch.manual_seed(len(sys.argv))
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
"""
NAN = """
import torch

class Log(torch.nn.Module):
    def forward(self, x):
        return torch.log(x - 2)

weight, model = torch.nn.Parameter(torch.ones(3)), Log()
optimizer = torch.optim.SGD([weight], 0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(weight).sum().backward()
    optimizer.step()
"""
MODEL = """
import torch

def build(device):
    return torch.nn.Linear(3, 3).to(device), (torch.ones(2, 3, device=device),)

def lacking(device):
    return lambda: torch.linalg.matrix_exp(torch.ones(2, 2, device=device))
"""
ADVISABLE = "import torch\nimport flash_attn\nprint(flash_attn, torch.zeros(1))\n"
KERNEL = "#include <cuda_runtime.h>\n__global__ void k(float *p) { p[0] = 1; }\nvoid f(float *p) { k<<<1, 1>>>(p); }\n"
FILES: dict[str, str | bytes] = {
    "safe/train.py": "import torch\nx = torch.zeros(1).cuda()\n",
    "done/train.py": "import torch\nprint(torch.zeros(1))\n",
    "failing/train.py": "import sys\nimport torch\nprint(torch.zeros(1))\nsys.exit(3)\n",
    "hand/train.py": ADVISABLE + "x = torch.zeros(1).cuda()\n",
    "bad/train.py": b'x = "\xff\xfe"\ntorch.cuda.is_available()\n',
    "kernel/a.cu": KERNEL,
    "kernel/k.py": "import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n",
    "wide/a.cu": KERNEL.encode("utf-16"),
    "empty/picture.png": b"\x89PNG",
    "train.py": TRAIN,
    "nan.py": NAN,
    "plain.py": "print(1)\n",
    "model.py": MODEL,
    "functions.yaml": "- func: lerp.Tensor\n- func: lerp_.Tensor\n- func: lerp.Tensor_out\n",
    "faulty.yaml": "- func: trill\n",
    "reference.log": "loss: 1.0\nloss: 0.5\nloss: 0.4\n",
    "other.log": "loss: 1.0\nloss: 0.9\nloss: 0.9\n",
    "silent.log": "nothing\n",
    "logs/rank_0.log": "nothing\n",
    "logs/rank_1.log.gz": b"\x1f\x8b\x08",
    "failed.log": "EJ0003: [PID: 1] Failed to bind the IP port.\n",
    "trace.json": json.dumps(kineto(two_steps())),
    "cut.json": json.dumps(kineto(two_steps()))[:-400],
    "rehearsed.json": json.dumps(kineto(two_steps(), torchferry={"rehearsal": "npu@2.13.0"})),
    "installer.run": "#!/bin/sh\n",
    "hosts.ini": "[all]\nnode1 ansible_host=127.0.0.1 ansible_port=1\n",
    "torchferry.accept.toml": 'schema = 1\n[runs.rehearsal]\ncommand = ["python", "train.py"]\n',
}
HOSTS = "-t ptex -i hosts.ini -b bundle"
PYTHON = "PYTHON"  # in its place the Python that has torch imported

CASES = {
    ("clean", "scan"): "scan done -t npu",
    ("clean", "scan --exit-zero"): "scan safe -t npu --exit-zero",
    ("clean", "migrate"): "migrate safe -t npu",
    ("clean", "migrate --patch"): "migrate safe -t npu --patch x.patch",
    ("clean", "migrate --diff"): "migrate done -t npu --diff",
    ("clean", "migrate --check"): "migrate done -t npu --check",
    ("clean", "port"): "port kernel -t musa",
    ("clean", "advise"): "advise hand -t npu",
    ("clean", "show"): "show flash-attn hand -t npu",
    ("clean", "compare curves"): "compare curves reference.log reference.log",
    ("clean", "compare diff --allow-cpu"): "compare diff there there --allow-cpu",
    ("clean", "accept metric"): "accept metric reference.log -m loss --at-most 1",
    ("clean", "accept --show"): "accept --show -t npu",
    ("clean", "profile show"): "profile show trace.json",
    ("clean", "profile compare"): "profile compare trace.json trace.json",
    ("clean", "ops codegen"): "ops codegen functions.yaml --namespace at::acme --dry-run",
    ("clean", "ops report"): "ops report -t npu --model model.py:build",
    ("clean", "ops new"): "ops new tril -t npu --out new",
    ("clean", "replay"): "replay call",
    ("clean", "handover prepare"): "handover done --for generic --model Net -o again",
    ("clean", "setup-test"): "setup-test done -t npu",
    ("clean", "doctor"): "doctor --list",
    ("clean", "doctor diff"): "doctor diff machine.json machine.json",
    ("clean", "deploy bundle --check"): "deploy bundle -t ptex -o bundle --check",
    ("clean", "deploy plan"): "deploy plan -t ptex -b bundle",
    ("clean", "device show"): "device show --device cpu",
    ("clean", "device vendor"): "device vendor done",
    ("clean", "explain"): "explain silent.log",
    ("clean", "api"): "api cv2 -t npu",
    ("clean", "backend list"): "backend list",
    ("clean", "backend show"): "backend show npu@2.13",
    ("clean", "rule"): "rule DEV",
    ("clean", "nan"): f"nan -- {PYTHON} train.py",
    ("clean", "compare cpu --allow-cpu"): f"compare --allow-cpu -- {PYTHON} train.py",
    ("clean", "compare record"): f"compare record -o new -- {PYTHON} train.py",
    ("clean", "profile record"): f"profile --out new -- {PYTHON} train.py",
    ("clean", "rehearse"): f"rehearse -t npu -- {PYTHON} train.py",
    ("clean", "run"): f"run -t npu -- {PYTHON} plain.py",
    ("work", "scan"): "scan safe -t npu",
    ("work", "migrate"): "migrate hand -t npu",
    ("work", "sync"): "sync v2 fork -t npu",
    ("work", "port"): "port kernel -t npu",
    ("work", "ops codegen --leave-out"): "ops codegen faulty.yaml --namespace at::acme --dry-run --leave-out",
    ("change", "migrate --check"): "migrate safe -t npu --check",
    ("change", "migrate --diff"): "migrate safe -t npu --diff",
    ("change", "sync --diff"): "sync v2 fork -t npu --diff",
    ("change", "port --check"): "port kernel -t musa --check",
    ("change", "port --diff"): "port kernel -t musa --diff",
    ("change", "advise --check"): "advise hand -t npu --check",
    ("incomplete", "profile show"): "profile show cut.json",
    ("unknown", "scan"): "scan empty -t npu",
    ("unknown", "scan: unread"): "scan bad -t npu",
    ("unknown", "migrate"): "migrate empty -t npu",
    ("unknown", "migrate: unread"): "migrate bad -t npu",
    ("unknown", "migrate --diff"): "migrate empty -t npu --diff",
    ("unknown", "migrate --diff: unread"): "migrate bad -t npu --diff",
    ("unknown", "port"): "port empty -t musa",
    ("unknown", "port: unread"): "port wide -t musa",
    ("unknown", "port --diff"): "port empty -t musa --diff",
    ("unknown", "advise"): "advise empty -t npu",
    ("unknown", "advise --check: unread"): "advise bad -t npu --check",
    ("unknown", "explain"): "explain logs",
    ("difference", "compare diff"): "compare diff there here",
    ("difference", "compare curves"): "compare curves reference.log other.log",
    ("difference", "doctor diff"): "doctor diff machine.json another.json",
    ("difference", "replay"): "replay call --nan",
    ("gate", "accept"): "accept -t npu --only environment",
    ("gate", "accept metric"): "accept metric reference.log -m loss --at-most 0.1",
    ("gate", "accept metric: absent"): "accept metric reference.log -m mIoU --at-least 80",
    ("gate", "rehearse --strict"): f"rehearse -t npu --strict -- {PYTHON} train.py",
    ("gate", "scan --rehearse"): f"scan failing -t npu --rehearse '{PYTHON} train.py'",
    ("gate", "migrate --rehearse"): f"migrate done -t npu --rehearse '{PYTHON} plain.py'",
    ("gate", "nan"): f"nan -- {PYTHON} nan.py",
    ("gate", "ops report"): "ops report -t npu --model model.py:lacking",
    ("gate", "handover check"): "handover check handover",
    ("gate", "triton check"): "triton check kernel/k.py -t npu",
    ("gate", "doctor"): "doctor -t npu",
    ("gate", "doctor symbol"): "doctor symbol 'mine.so: undefined symbol: abc'",
    ("gate", "device show"): "device show",
    ("gate", "deploy bundle --check"): "deploy bundle -t ptex -o damaged --check",
    ("failure", "explain"): "explain failed.log",
    ("name", "api"): "api torch.cuda.is_avaliable -t npu",
    ("name", "api: no name of torch"): "api flash-atn",
    ("absent", "undo"): "undo done",
    ("absent", "show"): "show DEV101 safe -t npu",
    ("absent", "decide"): "decide DEV101 accept safe -t npu",
    ("absent", "rule"): "rule DEV999",
    ("absent", "accept"): "accept -t npu --file done/torchferry.accept.toml",
    ("absent", "compare diff"): "compare diff there empty",
    ("absent", "replay"): "replay empty",
    ("absent", "handover check"): "handover check empty",
    ("absent", "handover prepare"): "handover empty --for generic -o new",
    ("absent", "deploy plan"): "deploy plan -t ptex -b empty",
    ("absent", "deploy report"): "deploy report -t ptex -i hosts.ini",
    ("plugin", "run"): f"run -t npu -- {PYTHON} train.py",
    ("plugin", "run: it fails"): f"run -t npu -- {PYTHON} train.py fails",
    ("plugin", "replay"): "replay call --device npu",
    ("plugin", "ops dump"): "ops dump -t npu",
    ("plugin", "device show --device"): "device show --device npu",
    ("plugin", "deploy check"): f"deploy check {HOSTS}",
    ("plugin", "deploy run"): f"deploy run {HOSTS}",
    ("plugin", "deploy verify"): f"deploy verify {HOSTS}",
    ("plugin", "deploy rollback"): f"deploy rollback {HOSTS}",
    ("plugin", "deploy commit"): f"deploy commit {HOSTS}",
    ("nothing", "nan"): f"nan -- {PYTHON} plain.py",
    ("nothing", "compare cpu"): f"compare cpu -- {PYTHON} plain.py",
    ("nothing", "compare ranks"): f"compare ranks -- {PYTHON} train.py",
    ("nothing", "compare record"): f"compare record -o new -- {PYTHON} plain.py",
    ("nothing", "profile record"): f"profile record --out new -- {PYTHON} plain.py",
    ("nothing", "ops trace"): f"ops trace -- {PYTHON} train.py",
    ("nothing", "ops report"): f"ops report -t npu -- {PYTHON} train.py",
    ("nothing", "ops report: it fails"): f"ops report -t npu -- {PYTHON} train.py fails",
    ("incomparable", "compare curves"): "compare curves reference.log silent.log",
    ("incomparable", "profile compare"): "profile compare trace.json rehearsed.json",
    ("card", "compare cpu"): f"compare -- {PYTHON} train.py",
    ("card", "compare diff"): "compare diff there there",
    ("program", "rehearse"): f"rehearse -t npu --strict -- {PYTHON} train.py fails",
    ("program", "run"): f"run -t cuda -- {PYTHON} train.py fails",
    ("program", "nan"): f"nan -- {PYTHON} train.py fails",
    ("program", "compare cpu"): f"compare -- {PYTHON} train.py fails",
    ("program", "compare ranks"): f"compare ranks -- {PYTHON} train.py fails",
    ("program", "compare record"): f"compare record -o new -- {PYTHON} train.py fails",
    ("program", "profile record"): f"profile --out new -- {PYTHON} train.py fails",
    ("program", "ops trace"): f"ops trace -- {PYTHON} train.py fails",
}
"""A command line for each cause and entry of the table; what stands behind a colon tells further ones apart."""

ELSEWHERE = {
    "torch": "tests/cli/test_without_torch.py",
    "change, migrate --overlay": "tests/cli/test_overlay.py",
    "difference, compare cpu": "tests/numerics/test_compare_command.py",
    "difference, compare ranks": "tests/numerics/test_ranks.py",
    "card, accept": "tests/acceptance/test_stages.py",
    "gate, compare record": "tests/numerics/test_recording_command.py",
    "incomparable, advise": "tests/advice/test_trace.py",
    "incomparable, ops request": "tests/ops/test_request.py",
    "plugin, mcp": "test_an_extra_that_is_missing_is_named",
    "plugin, lsp": "test_an_extra_that_is_missing_is_named",
    "gate, deploy": "tests/deploy",
    "host, deploy": "test_a_host_that_could_not_be_asked_is_no_finding",
    "fault beside a program": "test_an_internal_error_and_an_interruption_of_every_command",
}
"""What needs an environment of its own runs where that is made, or below."""


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME", "TORCHFERRY_NO_CACHE")}
    ours = {"TORCHFERRY_CACHE": str(env.cache_folder()), "OMP_NUM_THREADS": "1"}
    return {**kept, **ours, "LC_ALL": "C.UTF-8", "HOME": str(folder)}


def outcome(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the Python that has torch imported in the place of PYTHON."""
    words = shlex.split(command.replace(PYTHON, python()))
    (done,) = run(COMMAND, environments=[environment(folder)], arguments=[str(folder), *words], timeout=HANGS)
    return done


def make_fork(folder: Path) -> None:
    """Make a migrated project of which upstream has removed a file since."""
    fork = folder / "fork"
    fork.mkdir()
    (fork / "train.py").write_text("import torch\nx = torch.zeros(1).cuda()\n")
    (fork / "gone.py").write_text("x = 1\n")
    git(fork, "init", "-q", "-b", "upstream")
    for tag in ("v1", "v2"):
        git(fork, "add", "-A")
        git(fork, "commit", "-q", "-m", tag)
        git(fork, "tag", tag)
        (fork / "gone.py").unlink(missing_ok=True)
    git(fork, "checkout", "-q", "-b", "port", "v1")
    assert outcome("migrate fork -t npu", folder).returncode == 0
    git(fork, "commit", "-q", "-a", "-m", "port")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the commands are about."""
    folder = tmp_path_factory.mktemp("exits")
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (
        "deploy bundle -t ptex -o bundle --file installer=installer.run",
        "handover done --for generic --model Net -o handover",
        f"compare record -o there -- {PYTHON} train.py",
        f"compare record -o here -- {PYTHON} train.py again",
    ):
        done = outcome(command, folder)
        assert done.returncode == 0, done.stderr
    make_fork(folder)
    outcome(f"nan --dump calls -- {PYTHON} nan.py", folder)
    (folder / "calls" / "aten.log-001").rename(folder / "call")
    shutil.copytree(folder / "bundle", folder / "damaged")
    (folder / "damaged" / "files" / "installer").write_text("#!/bin/bad")
    machine = outcome("doctor -t npu snapshot", folder)
    (folder / "machine.json").write_text(machine.stdout)
    (folder / "another.json").write_text(machine.stdout.replace(platform.machine(), "pdp11"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.mark.parametrize(("cause", "entry"), CASES, ids=lambda part: part)
def test_each_cause_has_its_code(folder: Path, cause: str, entry: str) -> None:
    done = outcome(CASES[cause, entry], folder)
    assert done.returncode == (7 if cause == "program" else int(CODES[cause])), done.stdout + done.stderr
    assert "internal error" not in done.stderr


def test_every_row_of_the_table_runs() -> None:
    run_here = {(cause, entry.partition(":")[0]) for cause, entry in CASES}
    unproved = {(cause, entry) for cause, entry in LISTED} - run_here
    unproved = {(cause, entry) for cause, entry in unproved if not f"{cause}, {entry}".startswith(tuple(ELSEWHERE))}
    assert unproved == set()
    listed = {(cause, entry) for cause, entry in run_here if cause != "clean"}
    assert {(cause, entry) for cause, entry in listed if not _is_listed(cause, entry)} == set()
    for place in ELSEWHERE.values():
        assert place in globals() or (ROOT / place).exists()


def _is_listed(cause: str, entry: str) -> bool:
    return any(cause == other and f"{entry} ".startswith(f"{listed} ") for other, listed in LISTED)


# --- every command ---


def commands(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command that does something, with its name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    if name and command.invoke_without_command:
        yield name, command
    context = click.Context(command)
    for verb in command.list_commands(context):
        below = command.get_command(context, verb)
        assert below is not None
        yield from commands(below, f"{name} {verb}".strip())


EVERY = dict(commands())


def test_every_command_is_in_the_table() -> None:
    named = {name for name in EVERY for _, entry in LISTED if f"{entry} ".startswith(f"{name} ")}
    ends_otherwise = {
        name for name in EVERY for cause, entry in LISTED if f"{entry} ".startswith(f"{name} ") and CODES[cause] != "2"
    }
    assert named | set(TABLE["plain"]) == EVERY.keys()
    assert ends_otherwise.isdisjoint(TABLE["plain"])
    running = {name for name, command in EVERY.items() if isinstance(command, ProgramCommand)}
    assert running == {entry for cause, entry in LISTED if cause == "program"}
    assert running == {entry for cause, entry in LISTED if cause == "fault beside a program"}


EACH = """
import json, os, sys, traceback
from torchferry import cli
from torchferry.__main__ import main

def imported(command, words):
    for word in words:
        command = command.get_command(None, word)
    return command

asked = json.loads(sys.stdin.read())
commands = {name: imported(cli.cli, name.split()) for name in asked}
for name, arguments in asked.items():
    process = os.fork()
    if not process:
        os.dup2(os.open(name.replace(" ", "-"), os.O_WRONLY | os.O_CREAT, 0o600), 2)
        sys.argv = ["torchferry", *name.split(), *arguments]
        BEGIN
        try:
            main()
        except SystemExit as end:
            os._exit(end.code)
        finally:
            traceback.print_exc()
            os._exit(99)
    print(json.dumps([name, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])]), flush=True)
"""
"""Runs commands, each in a fork of a process that has imported them all; prints how each ended."""


def ends_of(arguments: dict[str, list[str]], folder: Path, begin: str = "") -> dict[str, tuple[int, str]]:
    """Return with which code each command ended, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", EACH.replace("BEGIN", begin or "pass")],
        cwd=folder, env=environment(folder), input=json.dumps(arguments), capture_output=True, text=True, check=True,
        timeout=HANGS,
    )  # fmt: skip
    ends = dict(map(json.loads, done.stdout.splitlines()))
    assert ends.keys() == arguments.keys()
    return {name: (code, (folder / name.replace(" ", "-")).read_text()) for name, code in ends.items()}


RAISING = """
        def raising(*given, **named):
            raise EXCEPTION
        commands[name].callback, commands[name].parse_args = raising, lambda context, arguments: []
"""


@pytest.mark.parametrize("exception", ["RuntimeError", "KeyboardInterrupt"])
def test_an_internal_error_and_an_interruption_of_every_command(exception: str, tmp_path: Path) -> None:
    raising = RAISING.replace("EXCEPTION", exception)
    for name, (code, said) in ends_of({name: [] for name in EVERY}, tmp_path, raising).items():
        fault = "fault beside a program" if isinstance(EVERY[name], ProgramCommand) else "fault"
        cause = "interrupted" if exception == "KeyboardInterrupt" else fault
        assert code == int(CODES[cause]), (name, said)
        assert ("internal error: RuntimeError" in said) is (cause == fault), said


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        ("target", "nppu", "unknown target `nppu`"),
        ("target", "npu@9", "version 9 of torch_npu is in no table"),
        ("output_file", "/dev/null/x", "cannot write /dev/null/x"),
        ("out", "/dev/null/x", "cannot write /dev/null/x"),
    ],
)
def test_wrong_values_are_refused_by_every_command(parameter: str, value: str, said: str, tmp_path: Path) -> None:
    options = {
        name: next((each.opts[0] for each in command.params if each.name in (parameter, f"{parameter}s")), "")
        for name, command in EVERY.items()
    }
    given = {name: [option, value] for name, option in options.items() if option.startswith("-")}
    if parameter == "target":
        given |= {"api": ["-t", value, "torch.cuda"], "backend show": [value]}
    for name, (code, told) in ends_of(given, tmp_path).items():
        assert code == int(CODES["use"]) == int(CODES["output"]), (name, told)
        assert said in told, name


def test_an_option_that_does_not_exist_is_refused_by_every_command(tmp_path: Path) -> None:
    for name, (code, told) in ends_of({name: ["--no-such-option"] for name in EVERY}, tmp_path).items():
        assert code == int(CODES["use"]), (name, told)


def test_an_extra_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = 'sys.modules.update(dict.fromkeys(("mcp", "pygls")))'
    for name, (code, told) in ends_of({"mcp": [], "lsp": []}, tmp_path, missing).items():
        assert code == int(CODES["plugin"]), told
        assert f"pip install 'torchferry[{name}]'" in told


@pytest.mark.parametrize(
    ("statuses", "has_failed", "cause"),
    [
        (["ok", "changed"], False, "clean"),
        (["ok", "todo"], True, "gate"),
        (["ok", "failed"], True, "gate"),
        (["failed", "unreachable"], True, "host"),
    ],
)
def test_a_host_that_could_not_be_asked_is_no_finding(statuses: list[str], has_failed: bool, cause: str) -> None:
    hosts = [HostOutcome(name, {"driver": StepOutcome(name, "driver", name)}) for name in statuses]
    assert status_of_hosts(hosts, has_failed) == int(CODES[cause])


def test_the_help_has_the_codes_of_the_table() -> None:
    shown = cli.get_help(click.Context(cli, info_name="torchferry")).partition("Exit codes:")[2]
    assert re.findall(r"^  (\w+)  ", shown, re.MULTILINE) == list(dict.fromkeys(CODES.values()))
