"""`torchferry run`: unchanged CUDA programs, their children and their launchers, on a simulated card."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.warm_python import ferry, instead, python
from torchferry.core import env

pytest.importorskip("torch")

CACHE = {"TORCHFERRY_CACHE": str(env.cache_folder()), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

TRAIN = """
import sys, torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    loss = model(torch.ones(2, 4).cuda()).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(device, next(model.parameters()).is_cuda, sys.argv[1:])
"""

CHILDREN = """
import torch, torch.multiprocessing as mp
def work(index, queue):
    queue.put((index, torch.cuda.is_available(), str(torch.ones(1).cuda().device)))
if __name__ == "__main__":
    for way in ("fork", "spawn"):
        context = mp.get_context(way)
        queue = context.Queue()
        workers = [context.Process(target=work, args=(i, queue)) for i in range(2)]
        [w.start() for w in workers]
        print(way, sorted(queue.get(timeout=300) for _ in workers))
        [w.join() for w in workers]
"""

RANKS = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
assert dist.is_nccl_available()
dist.init_process_group(BACKEND)
x = torch.full((2,), float(rank + 1), device="cuda")
dist.all_reduce(x)
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[rank], output_device=rank)
model(torch.ones(1, 2, device=f"cuda:{rank}")).sum().backward()
objects = [None, None]
dist.all_gather_object(objects, rank)
if rank == 0:
    print(dist.get_backend(), x.tolist(), objects, model.module.weight.grad.device)
dist.barrier()
dist.destroy_process_group()
"""


def rehearsed(
    target: str,
    *command: str,
    cwd: Path,
    options: tuple[str, ...] = (),
    more: dict[str, str] | None = None,
    warm: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command under the redirect on a simulated card; `more` is added to its environment.

    With `warm`, Python has torch imported already, and begins with what comes last of that: the redirect.
    """
    command = tuple(instead(command)) if warm else command
    again = [ferry(), "-m", "torchferry", "run", "-t", target, *options, "--"]
    settings = {**CACHE, **(more or {})}
    return torchferry("rehearse", "-t", target, "--devices", 2, "--", *again, *command, cwd=cwd, env=settings)


def program(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("target", "title"),
    [
        ("npu", "Huawei Ascend (`npu`)"),
        ("musa", "Moore Threads (`musa`)"),
        ("sdaa", "Tecorigin (`sdaa`)"),
        ("gcu", "Enflame S60 (`gcu`)"),
        ("ptex", "Enflame T20 (`xla`)"),
    ],
)
def test_an_unchanged_program_runs_on_the_card(target: str, title: str, tmp_path: Path) -> None:
    done = rehearsed(target, "python", program(tmp_path, TRAIN), "--epochs", "1", cwd=tmp_path, warm=target != "npu")
    assert done.stdout.strip() == "cuda True ['--epochs', '1']", done.stderr
    assert f"torch.cuda of this program runs on {title}" in done.stderr
    assert "nothing was seen that would fail on the card" in done.stderr


def test_forked_and_spawned_children_are_redirected(tmp_path: Path) -> None:
    done = rehearsed("musa", "python", program(tmp_path, CHILDREN), cwd=tmp_path, warm=False)
    expected = "[(0, True, 'cuda:0'), (1, True, 'cuda:0')]"
    assert done.stdout.splitlines() == [f"fork {expected}", f"spawn {expected}"], done.stderr
    assert done.stderr.count("torch.cuda of this program runs on") == 1


GUARDED = """
import sys, torch, torch.multiprocessing as mp
def work(rank):
    if torch.cuda.is_available():
        import my_ext_cuda
if __name__ == "__main__":
    try:
        mp.spawn(work, nprocs=1)
    except mp.ProcessRaisedException as error:
        print("my_ext_cuda" in str(error))
    if "--children" not in sys.argv:
        work(0)
    sys.exit(1)
"""


@pytest.mark.parametrize("arguments", [[], ["--children"]])
def test_an_extension_behind_a_guard_of_the_program_is_explained_once(arguments: list[str], tmp_path: Path) -> None:
    done = rehearsed("musa", "python", program(tmp_path, GUARDED), *arguments, cwd=tmp_path)
    assert done.stdout.split() == ["True"]
    assert done.returncode == 1
    error, _, said = done.stderr.partition("torchferry: program.py:5 needs the extension `my_ext_cuda`")
    assert ("No module named 'my_ext_cuda'" in error) == (not arguments)
    assert "the check at program.py:4 led there: `if torch.cuda.is_available():`" in said
    assert "port it" in said
    assert "torchferry: program.py:5" not in said


VISIBLE = """
import os, subprocess, sys, torch
if "--child" not in sys.argv:
    if "--set" in sys.argv:
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    child = [sys.executable, __file__, "--child"]
    for wanted in (None, "0,1"):
        settings = os.environ if wanted is None else {**os.environ, "CUDA_VISIBLE_DEVICES": wanted}
        subprocess.run(child, env=settings, check=True)
x = torch.ones(1).cuda()
print(torch.cuda.device_count())
"""


@pytest.mark.parametrize(
    ("target", "settings", "arguments", "counts", "said"),
    [
        ("npu", {}, [], ["2", "2", "2"], ""),
        ("npu", {"CUDA_VISIBLE_DEVICES": "1"}, [], ["1", "2", "1"], ""),
        ("npu", {}, ["--set"], ["1", "2", "1"], ""),
        ("sdaa", {}, ["--set"], ["1", "2", "1"], ""),
        (
            "musa",
            {"CUDA_VISIBLE_DEVICES": "0,1", "MUSA_VISIBLE_DEVICES": "1"},
            [],
            ["1", "1", "1"],
            "`CUDA_VISIBLE_DEVICES=0,1` is not used, since `MUSA_VISIBLE_DEVICES=1` is set as well",
        ),
    ],
)
def test_a_program_sees_the_cards_that_it_is_meant_to(
    target: str, settings: dict[str, str], arguments: list[str], counts: list[str], said: str, tmp_path: Path
) -> None:
    done = rehearsed(target, "python", program(tmp_path, VISIBLE), *arguments, cwd=tmp_path, more=settings)
    assert done.stdout.split() == counts, done.stderr
    assert said in done.stderr
    assert ("is not used" in done.stderr) == bool(said)


def test_cards_that_cannot_be_named_so_end_the_program(tmp_path: Path) -> None:
    settings = {"CUDA_VISIBLE_DEVICES": "1,0"}
    done = rehearsed("npu", "python", program(tmp_path, VISIBLE), "--child", cwd=tmp_path, more=settings)
    assert (done.returncode == 0, done.stdout) == (False, "")
    assert "`ASCEND_RT_VISIBLE_DEVICES` accepts only ascending numbers on Huawei Ascend" in done.stderr


@pytest.mark.parametrize(
    ("target", "backend", "told"),
    [
        ("npu", "nccl", "nccl"),
        ("musa", "nccl", "nccl"),
        ("sdaa", "nccl", "nccl"),
        ("gcu", "nccl", "nccl"),
        ("npu", "cpu:gloo,cuda:nccl", "custom"),
    ],
)
def test_ranks_meet_over_the_cards_library(target: str, backend: str, told: str, tmp_path: Path) -> None:
    path = program(tmp_path, RANKS.replace("BACKEND", repr(backend)))
    launch = ("torchrun", "--standalone", "--nproc_per_node", "2", path)
    done = rehearsed(target, *launch, cwd=tmp_path)
    assert f"{told} [3.0, 3.0] [0, 1] cuda:0" in done.stdout or told == "custom", done.stderr
    assert "[3.0, 3.0] [0, 1] cuda:0" in done.stdout, done.stderr


def test_launchers_can_start_it_as_a_module(tmp_path: Path) -> None:
    path = program(tmp_path, RANKS.replace("BACKEND", repr("nccl")))
    launch = instead(("torchrun", "--standalone", "--nproc_per_node", "2", "-m", "torchferry.run", path))
    done = torchferry("rehearse", "-t", "npu", "--devices", 2, "--", *launch, cwd=tmp_path, env=CACHE)
    assert "nccl [3.0, 3.0] [0, 1] cuda:0" in done.stdout, done.stderr


@pytest.mark.parametrize("way", [["program.py"], ["-m", "program"], ["--target", "npu", "program.py"]])
def test_python_runs_it_as_it_would_without_us(way: list[str], tmp_path: Path) -> None:
    program(tmp_path, "print(__name__, __import__('sys').argv[1:])\n" + TRAIN)
    interpreter = "python" if way == ["program.py"] else python()
    done = torchferry(
        "rehearse", "-t", "npu", "--", interpreter, "-m", "torchferry.run", *way, "-x", "1", cwd=tmp_path, env=CACHE
    )
    assert done.stdout.splitlines() == ["__main__ ['-x', '1']", "cuda True ['-x', '1']"], done.stderr


def test_without_a_card_the_program_does_not_run_on_the_cpu(tmp_path: Path) -> None:
    done = torchferry("run", "--", python(), program(tmp_path, TRAIN), cwd=tmp_path)
    assert done.returncode == 2
    assert "no accelerator's plugin is installed, and there is no CUDA device" in done.stderr
    assert "RuntimeError: torchferry: no accelerator's plugin is installed" in done.stderr
    assert done.stdout == ""


def test_a_plugin_that_does_not_import_is_shown_whole(tmp_path: Path) -> None:
    (tmp_path / "torch_npu.py").write_text("raise OSError('libascendcl.so: cannot open shared object file')")
    done = torchferry("run", "--", python(), program(tmp_path, TRAIN), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert "the plugin `torch_npu` of Huawei Ascend fails to import: OSError: libascendcl.so" in done.stderr
    assert "torchferry doctor --target npu" in done.stderr
    assert done.stdout == ""


SWALLOWS = """
import torch
try:
    device = "cuda" if torch.cuda.is_available() else "cpu"
except Exception:
    device = "cpu"
print(device)
"""
NO_CARD = """
import sys, types, torch
sys.modules["torch.npu"] = npu = types.ModuleType("torch.npu")
npu.is_available, npu.device_count = lambda: False, lambda: 0
torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", npu)
"""


@pytest.mark.parametrize(
    ("plugin", "settings", "code", "said"),
    [
        ("raise SystemExit('driver')", {}, 2, "fails to import: SystemExit: driver"),
        (NO_CARD, {}, 2, "the plugin `torch_npu` of Huawei Ascend finds no card: torch.npu.is_available() is False"),
        (NO_CARD, {"CUDA_VISIBLE_DEVICES": "-1"}, 0, "`ASCEND_RT_VISIBLE_DEVICES=-1` hides every card"),
    ],
    ids=["the plugin ends the process", "no card", "cards hidden on purpose"],
)
def test_a_program_that_catches_everything_does_not_end_well_without_a_card(
    plugin: str, settings: dict[str, str], code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "torch_npu.py").write_text(plugin, encoding="utf-8")
    settings = {"PYTHONPATH": str(tmp_path), **settings}
    done = torchferry("run", "--", python(), program(tmp_path, SWALLOWS), cwd=tmp_path, env=settings)
    assert (done.returncode, done.stdout.strip()) == (code, "cpu"), done.stderr
    assert done.stderr.count(said) == 1
    assert ("but the command ended normally" in done.stderr) == (code != 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "there is no file `missing.py`"),
        (["program.py"], "no accelerator's plugin is installed, and there is no CUDA device"),
    ],
)
def test_started_as_a_module_it_ends_with_the_reason_alone(arguments: list[str], message: str, tmp_path: Path) -> None:
    program(tmp_path, "print(1)")
    done = subprocess.run(
        [sys.executable, "-m", "torchferry.run", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"torchferry: {message}")
    assert done.stderr.count("torchferry: ") == 1
    assert "Traceback" not in done.stderr


def test_a_command_that_loads_no_torch_is_said(tmp_path: Path) -> None:
    done = torchferry("run", "-t", "npu", "--", "python", "-c", "print(1)", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "1")
    assert "NOTHING WAS REDIRECTED: no process of the command loaded torch" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["-t", "nppu", "--", "python", "x.py"], {}, "unknown target `nppu`"),
        (["--", "nothing-of-this-name"], {}, "command `nothing-of-this-name` not found"),
        (["--report", "none/seen.json", "--", "python"], {}, "cannot write none/seen.json: No such file or directory"),
        (["--", "python"], {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, "keeps torch from loading the redirect"),
    ],
)
def test_wrong_use(arguments: list[str], settings: dict[str, str], message: str, tmp_path: Path) -> None:
    done = torchferry("run", *arguments, cwd=tmp_path, env=settings)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_report_has_the_lines_that_went_through(tmp_path: Path) -> None:
    path = program(tmp_path, TRAIN)
    done = rehearsed("npu", "python", path, cwd=tmp_path, options=("--report", "seen.json"))
    report = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert [(site["path"], site["line"], site["name"]) for site in report["sites"]] == [
        ("program.py", 3, "torch.cuda.is_available"),
        ("program.py", 5, "cuda"),
        ("program.py", 8, "torch.Tensor.cuda"),
        ("program.py", 10, "torch.Tensor.is_cuda"),
    ], done.stderr
    assert [site["times"] for site in report["sites"]] == [1, 2, 3, 1]
    assert list(report["files"]) == ["program.py"]


KILLED = """
import os, torch
for _ in range(2):
    torch.ones(1).cuda()
os.kill(os.getpid(), 9)
"""


def test_the_report_has_the_lines_of_a_process_that_was_killed(tmp_path: Path) -> None:
    path = program(tmp_path, KILLED)
    done = rehearsed("npu", "python", path, cwd=tmp_path, options=("--report", "seen.json"))
    report = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert [(site["line"], site["name"], site["times"]) for site in report["sites"]] == [(4, "torch.Tensor.cuda", 1)]
    assert "processes that ended before they could report: 1; their lines are in seen.json" in done.stderr


def test_the_vendors_log_is_switched_on_and_what_the_user_set_stays(tmp_path: Path) -> None:
    names = ("MUDNN_LOG_LEVEL", "MUSA_LAUNCH_BLOCKING", "TORCH_SHOW_CPP_STACKTRACES", "TORCH_CPP_LOG_LEVEL")
    program = f"import os; print({{name: os.environ.get(name) for name in {names!r}}})"
    mine = {"TORCH_CPP_LOG_LEVEL": "FATAL"}
    done = torchferry(
        *("run", "-t", "musa", "--vendor-log", "info", "--", sys.executable, "-c", program), cwd=tmp_path, env=mine
    )
    assert done.stdout.strip() == str(dict(zip(names, ("INFO", "1", "1", "FATAL"), strict=True)))
    assert "--vendor-log info for Moore Threads:" in done.stderr
    assert "  MUDNN_LOG_LEVEL=INFO  a line for each call of muDNN" in done.stderr
    assert "you have set TORCH_CPP_LOG_LEVEL=FATAL, and it stays; info would set INFO" in done.stderr
    done = torchferry("run", "-t", "ptex", "--vendor-log", "error", "--", "true", cwd=tmp_path)
    assert "no variable is known for the software of Enflame T20 itself" in done.stderr
    assert torchferry("run", "--vendor-log", "loud", "--", "true", cwd=tmp_path).returncode == 2
