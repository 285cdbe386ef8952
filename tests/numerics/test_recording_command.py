"""`torchferry compare record` around commands: programs as people write them, several ranks, killed ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.processes import HANGS
from tests.warm_python import ferry, instead
from torchferry.core import exitcodes
from torchferry.numerics.rundiff.comparison import RunComparison, compare
from torchferry.numerics.runlog.record import read_record

pytestmark = pytest.mark.rehearsal

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

TRAIN = """
import os, sys, time, random, torch
import torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
told = dict(pair.split("=") for pair in sys.argv[1:])
device = told.get("device", "cpu")
if ranks > 1:
    dist.init_process_group("gloo")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 10)
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
torch.manual_seed(0)
net = Net().to(device)
model = nn.parallel.DistributedDataParallel(net) if ranks > 1 else net
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
loss_of = nn.CrossEntropyLoss(reduction=told.get("reduction", "mean"))
random.seed(0)
x = torch.randn(64, 32, generator=torch.Generator().manual_seed(7))
y = torch.randint(0, 10, (64,), generator=torch.Generator().manual_seed(8))
for step in range(int(told.get("steps", "4"))):
    part = slice(step % 4 * 16, step % 4 * 16 + 16)
    loss = loss_of(model(x[part][rank::ranks].to(device)), y[part][rank::ranks].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}", flush=True)
    time.sleep(float(told.get("sleep", "0")))
if ranks > 1:
    dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def record_command(folder: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "torchferry", "compare", "record", "-o", str(folder), *map(str, arguments)]


def record_warm(folder: Path, *arguments: object, code: int = 0) -> str:
    """Record a program whose Python has torch imported already."""
    return record(folder, *instead(arguments), code=code)


def record(folder: Path, *arguments: object, code: int = 0) -> str:
    command = [ferry(), *record_command(folder, *arguments)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS, env=ENVIRONMENT)
    assert done.returncode == code, done.stderr
    return done.stderr


def compared(a: Path, b: Path) -> RunComparison:
    return compare(read_record(a), read_record(b))


def with_ranks(folder: Path, program: Path, *told: str) -> Path:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port, program]
    record_warm(folder, "--", sys.executable, *launch, *told)
    return folder


def test_a_command_is_recorded_and_repeats_itself(tmp_path: Path, program: Path) -> None:
    shown = record(tmp_path / "a", "--", sys.executable, program)
    assert "rank 0: 4 steps" in shown
    record_warm(tmp_path / "b", "--", sys.executable, program)
    result = compared(tmp_path / "a", tmp_path / "b")
    assert result.same
    assert result.earliest == ""
    assert [step.ended_by for step in result.a.ranks[0].steps] == ["optimizer"] * 4
    assert [batch.name for batch in result.a.ranks[0].steps[0].batch] == ["Net(0)", "CrossEntropyLoss(1)"]


def test_runs_with_one_rank_and_with_two_are_the_same(tmp_path: Path, program: Path) -> None:
    record_warm(tmp_path / "one", "--", sys.executable, program)
    two = with_ranks(tmp_path / "two", program)
    result = compared(tmp_path / "one", two)
    assert result.same
    assert {cause.cause for cause in result.causes} >= {"world size", "order of samples in a step"}
    assert {row.phase for row in result.table.rows()} == {"parameter", "gradient", "update"}
    assert result.losses[0][0] == pytest.approx(result.losses[0][1], rel=1e-6)
    assert result.left_out


def test_a_sum_in_the_place_of_a_mean_is_named(tmp_path: Path, program: Path) -> None:
    record_warm(tmp_path / "one", "--", sys.executable, program, "reduction=sum")
    two = with_ranks(tmp_path / "two", program, "reduction=sum")
    [cause] = [cause for cause in compared(tmp_path / "one", two).causes if cause.cause == "gradient scale"]
    assert (cause.a, cause.b) == ("1", "0.5")


def test_parameters_that_are_cut_up_are_recorded_in_their_parts(tmp_path: Path) -> None:
    path = tmp_path / "sharded.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.distributed.fsdp import fully_shard
            torch.manual_seed(0)
            dist.init_process_group("gloo")
            model = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3)])
            for layer in model:
                fully_shard(layer)
            fully_shard(model)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
            for _ in range(3):
                model(torch.ones(4, 16)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            dist.destroy_process_group()
            """
        )
    )
    result = compared(with_ranks(tmp_path / "a", path), with_ranks(tmp_path / "b", path))
    assert result.same
    assert result.earliest == ""
    assert result.a.ranks[0].steps[0].sharded


def test_ranks_are_chosen(tmp_path: Path, program: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port, program]
    record_warm(tmp_path / "r", "--rank", "1", "--", sys.executable, *launch)
    assert [rank.number for rank in read_record(tmp_path / "r").ranks] == [1]


REHEARSE = (sys.executable, "-m", "torchferry", "rehearse", "-t", "npu")


def rehearsed(folder: Path, program: Path, *settings: object) -> Path:
    record_warm(folder, "--", *REHEARSE, *settings, "--", sys.executable, program, "device=npu")
    return folder


def test_another_device_is_the_same_and_a_fault_of_it_is_found(tmp_path: Path, program: Path) -> None:
    record_warm(tmp_path / "cpu", "--", sys.executable, program)
    healthy = compared(tmp_path / "cpu", rehearsed(tmp_path / "npu", program))
    assert healthy.same
    assert healthy.aligned == 116
    fault = ["--fault", "op=aten.addmm,kind=noise,scale=1e-2,after=3"]
    first = compared(tmp_path / "cpu", rehearsed(tmp_path / "fault", program, *fault)).first
    assert first is not None
    assert (first.step, first.module, first.operator) == (1, "Net.b", "aten.addmm")
    backward = ["--fault", "op=aten.threshold_backward,kind=noise,scale=1e-2"]
    first = compared(tmp_path / "cpu", rehearsed(tmp_path / "backward", program, *backward)).first
    assert first is not None
    assert (first.step, first.module, first.phase) == (0, "Net", "backward")


def test_products_of_lower_precision_are_named(tmp_path: Path, program: Path) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text('matmul_rounding = "tf32"\n')
    record_warm(tmp_path / "cpu", "--", sys.executable, program)
    result = compared(tmp_path / "cpu", rehearsed(tmp_path / "tf32", program, "--profile", profile))
    assert result.causes[0].cause == "matmul precision"
    assert result.first is not None
    assert (result.first.module, result.first.operator) == ("Net.a", "aten.addmm")


def test_a_killed_recording_is_read_up_to_its_last_step(tmp_path: Path, program: Path) -> None:
    process = subprocess.Popen(
        record_command(tmp_path / "r", "--", sys.executable, program, "steps=1000", "sleep=0.05"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 5"):
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, shown = process.communicate(timeout=HANGS)
    assert process.returncode == 128 + signal.SIGKILL
    assert "was killed" in shown
    assert len(read_record(tmp_path / "r").ranks[0].steps) >= 5


def test_a_gradient_scaler_that_skips_still_ends_a_step(tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn
            model, scaler = nn.Linear(4, 4), torch.amp.GradScaler("cpu", init_scale=2.0**127)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                scaler.scale(model(torch.ones(2, 4)).square().sum() * 100).backward()
                scaler.step(optimizer)
                scaler.update()
            with torch.no_grad():
                for _ in range(2):
                    model(torch.ones(2, 4))
            """
        )
    )
    record_warm(tmp_path / "r", "--", sys.executable, path)
    steps = read_record(tmp_path / "r").ranks[0].steps
    ended = [step.ended_by for step in steps]
    assert len(ended) == 5
    assert ended[0] == "skipped"
    assert ended[-2:] == ["evaluation", "rest"]


def test_forks_record_nothing_and_break_nothing(tmp_path: Path) -> None:
    path = tmp_path / "workers.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, index): return torch.ones(4).mul(index).sin()
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x in DataLoader(Data(), batch_size=2, num_workers=2):
                model(x).sum().backward()
                optimizer.step()
            """
        )
    )
    record_warm(tmp_path / "r", "--", sys.executable, path)
    assert len(read_record(tmp_path / "r").ranks[0].steps) == 4


FULL = """
import resource, signal, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == 4:  # no file may grow any more, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (SPACE, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
print("went on")
"""


@pytest.mark.parametrize("limit", [100, 2000])
def test_a_full_disk_leaves_a_record_that_is_never_called_the_same(tmp_path: Path, limit: int) -> None:
    for name, space in (("whole", 1 << 30), ("full", limit)):
        (tmp_path / f"{name}.py").write_text(FULL.replace("SPACE", str(space)))
    record_warm(tmp_path / "a", "--", sys.executable, tmp_path / "whole.py")
    said = record_warm(tmp_path / "b", "--", sys.executable, tmp_path / "full.py", code=1)
    assert "the recording ends here; the program continues: cannot write" in said
    assert ("NOT COMPLETE: " in said and " of 12 steps " in said) is (limit > 1000)  # else it cannot even tell us
    for pair in ("ab", "ba", "bb"):
        found = compared(*(tmp_path / name for name in pair))
        assert (found.differs, found.coverage.complete, found.same) == (False, False, False), pair
        assert found.coverage.made == (5 if (pair, limit) == ("bb", 100) else 12)
        assert found.coverage.steps <= 6
    assert compared(tmp_path / "a", tmp_path / "a").same


def test_an_empty_run_is_no_record(tmp_path: Path) -> None:
    shown = record_warm(tmp_path / "r", "--", sys.executable, "-c", "import torch", code=2)
    assert "NOTHING WAS RECORDED" in shown


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine").write_text("mine")
    shown = record(tmp_path / "r", "--", sys.executable, "-c", "import torch", code=2)
    assert "already exists" in shown
    assert [one.name for one in (tmp_path / "r").iterdir()] == ["mine"]


def test_a_recording_that_cannot_begin_is_no_success(tmp_path: Path, program: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['torchferry.numerics.recording.recorder'] = None"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    command = record_command(tmp_path / "r", "--", sys.executable, program)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANGS, env={**ENVIRONMENT, "PYTHONPATH": path}
    )
    assert done.stdout.count("step") == 4  # the program ran, as it would without us
    assert done.returncode == exitcodes.FINDINGS
    assert "the recording failed: ModuleNotFoundError" in done.stderr
    assert "was killed" not in done.stderr


def test_a_process_that_vanishes_before_its_first_step_recorded_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vanishes.py"
    path.write_text("import os, torch\nos._exit(0)")
    shown = record_warm(tmp_path / "r", "--", sys.executable, path, code=exitcodes.ERROR)
    assert "NOTHING WAS RECORDED" in shown
