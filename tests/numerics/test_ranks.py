"""What should be equal on all ranks is, or the first tensor, the rank and the step are named: two real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.ranks import run_ranks
from tests.warm_python import ferry, instead

pytest.importorskip("torch")

import torch
from torch import nn

from torchferry.numerics import check_equal_across_ranks
from torchferry.numerics.ranks import sketches

_DDP = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torchferry.numerics import check_equal_across_ranks
from torchferry.numerics.ranks import RankWatch
torch.manual_seed(0)
def made(**options):
    return DDP(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to(device), **options)
def trained(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for step in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(10 * step + rank)
        model(torch.randn(16, 4).to(device)).square().mean().backward()
        optimizer.step()
def told(agreement):
    for line in agreement.lines():
        print(line.render("en"))
"""

BUFFERS = "buffers may differ between ranks; only check_equal_across_ranks(buffers=True) compares them"

TENSORS = {
    "float32": torch.randn(1000),
    "float16": torch.randn(1000).half(),
    "bfloat16": torch.randn(1000).bfloat16(),
    "float64": torch.randn(7, 5).double(),
    "float8": torch.randn(64).to(torch.float8_e5m2),
    "int64": torch.arange(50),
    "bool": torch.arange(50) % 3 == 0,
    "complex64": torch.randn(40, dtype=torch.complex64),
    "more than a block": torch.randn(2**20 + 3),
}


@pytest.mark.parametrize("name", TENSORS)
def test_one_bit_changes_the_number(name: str) -> None:
    tensor = TENSORS[name]
    first = sketches([tensor])
    assert torch.equal(first, sketches([tensor.clone()]))
    flat = tensor.contiguous().flatten().clone()
    raw = flat.view(torch.uint8)
    raw[-1] ^= 1
    swapped = tensor.contiguous().flatten().clone()
    swapped[[0, -1]] = swapped[[-1, 0]]
    others = sketches([flat.view(tensor.shape), swapped.view(tensor.shape)])
    assert first[0, 0] != others[0, 0]
    assert first[0, 0] != others[1, 0] or torch.equal(swapped, tensor.flatten())


def test_layout_does_not_matter_and_absence_does() -> None:
    tensor = torch.randn(4, 6)
    rows = sketches([tensor, tensor.t().contiguous().t(), None, torch.zeros(4, 6)])
    assert rows[0, 0] == rows[1, 0]
    assert len(set(rows[:, 0].tolist())) == 3


def test_one_process_is_said_and_not_called_equal() -> None:
    agreement = check_equal_across_ranks(nn.Linear(2, 2))
    assert not agreement.equal
    assert "one process" in agreement.lines()[0].render("en")


def test_ranks_that_agree() -> None:
    out = run_ranks(_DDP + "model = made()\ntrained(model)\ntold(check_equal_across_ranks(model))")
    assert out[0].splitlines() == [
        "12 tensors are equal on 2 ranks",
        f"3 tensors were not compared: {BUFFERS}",
    ]
    assert out[1] == out[0]


def test_the_first_tensor_and_the_rank_that_differ_are_named() -> None:
    out = run_ranks(
        _DDP
        + """
        model = made()
        trained(model)
        if rank == 1:
            with torch.no_grad():
                model.module[3].weight[1, 1] += 1e-7
                model.module[3].bias.grad[0] = 7.0
        agreement = check_equal_across_ranks(model, step=5)
        told(agreement)
        print([(one.kind, one.name, one.ranks) for one in agreement.differences], agreement.equal)
        """.replace("\n        ", "\n")
    )
    lines = out[0].splitlines()
    assert lines[0].startswith("parameter 3.weight differs on rank 1; norms by rank: ")
    assert lines[1] == "2 of 12 tensors differ"
    assert lines[-1] == "[('parameter', '3.weight', (1,)), ('gradient', '3.bias', (1,))] False"


def test_what_differs_on_purpose_is_left_out_or_asked_for() -> None:
    out = run_ranks(
        _DDP
        + """
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(device)
        DDP._set_params_and_buffers_to_ignore_for_model(net, ["0.bias"])
        model = DDP(net)
        with torch.no_grad():
            net[0].bias += rank
        told(check_equal_across_ranks(model))
        net[1].running_mean += rank
        told(check_equal_across_ranks(model, buffers=True))
        """.replace("\n        ", "\n")
    )
    assert out[0].splitlines() == [
        "6 tensors are equal on 2 ranks",
        "1 tensor was not compared: DistributedDataParallel is configured to ignore them",
        f"3 tensors were not compared: {BUFFERS}",
        "buffer 1.running_mean differs on rank 1; norms by rank: 0, 2.82843",
        "1 tensor was not compared: DistributedDataParallel is configured to ignore them",
    ]


_PLAIN = """
import os, sys, time, torch, torch.distributed as dist
from torch import nn
from torchferry.numerics import check_equal_across_ranks
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
def told(agreement):
    for line in agreement.lines():
        print(line.render("en"))
"""


def gloo(body: str, tmp_path: Path, wait: float = 120) -> list[str]:
    """Run a program in two processes that talk by gloo, without a rehearsal, and return what each printed."""
    common = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo", "TORCHFERRY_LANG": "en"}
    processes = warm.run(
        _PLAIN + body,
        environments=[{**common, "RANK": str(rank)} for rank in range(2)],
        arguments=[str(tmp_path / "store")],
        timeout=wait,
    )
    for process in processes:
        assert process.returncode == 0, process.stdout + process.stderr
    return [process.stdout for process in processes]


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface is called lo on Linux")
def test_parts_are_not_compared(tmp_path: Path) -> None:
    out = gloo(
        """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
mesh = init_device_mesh("cpu", (2,))
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
fully_shard(model[0], mesh=mesh)
torch.manual_seed(0)
nn.init.ones_(model[1].weight); nn.init.zeros_(model[1].bias)
told(check_equal_across_ranks(model))
first = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"), use_orig_params=True)
told(check_equal_across_ranks(first))
""",
        tmp_path,
    )
    for printed in out:
        assert printed.splitlines() == [
            "4 tensors are equal on 2 ranks",
            "2 tensors were not compared: each rank has a part of them (DTensor)",
            "the ranks were not compared: no tensor of the model has to be equal",
            "2 tensors were not compared: each rank has a part of them (FSDP)",
        ]


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface is called lo on Linux")
def test_a_rank_that_does_not_come_is_named_and_nothing_hangs(tmp_path: Path) -> None:
    out = gloo(
        """
DONE = sys.argv[1] + "-done"
model = nn.Linear(2, 2)
check_equal_across_ranks(model, timeout=300)
if rank == 1:
    while not os.path.exists(DONE):  # it never comes, and the other must not wait for it
        time.sleep(0.05)
else:
    agreement = check_equal_across_ranks(model, timeout=3)
    told(agreement)
    print(agreement.equal, flush=True)
    open(DONE, "w").close()
os._exit(0)
""",
        tmp_path,
    )
    assert out[0].splitlines()[0].startswith("the ranks were not compared: not all ranks arrived within 3 s: ")
    assert out[0].splitlines()[1] == "False"


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface is called lo on Linux")
def test_other_models_and_other_steps_are_said(tmp_path: Path) -> None:
    out = gloo(
        """
told(check_equal_across_ranks(nn.Linear(2 + rank, 2)))
told(check_equal_across_ranks(nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + rank)])))
told(check_equal_across_ranks(nn.Linear(2, 2), step=rank))
""",
        tmp_path,
    )
    lines = out[0].splitlines()
    assert [line.partition("others (")[2] for line in lines] == [
        f"{n} tensors by rank)" for n in ("4, 4", "4, 8", "4, 4")
    ]


WATCHED = """
watch = RankWatch(every=2)
watch.start()
trained(made(), steps=7)
watch.stop()
import json
print(json.dumps(watch.document()))
"""

FAULTS = {
    "": (None, 4),
    "op=aten._foreach_addcdiv_,kind=noise,scale=1e-3,rank=1": ("0.weight", 2),
    "op=aten._foreach_addcdiv_,kind=noise,scale=1e-3,rank=1,after=4": ("0.weight", 6),
    "op=aten.addmm,kind=noise,scale=1e-3,rank=1": (None, 4),  # reduced gradients hide it: all ranks are wrong alike
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_rank_is_found_at_the_next_check(fault: str) -> None:
    name, step = FAULTS[fault]
    out = run_ranks(_DDP + WATCHED, enable=f"devices=2, faults={(fault,) if fault else ()!r}")
    for printed in out:
        found = json.loads(printed.splitlines()[-1])
        if name is None:
            assert found["equal"] is True
            assert found["checks"] == step
            continue
        assert found["equal"] is False
        assert found["step"] == step
        assert found["differences"][0] == {
            **found["differences"][0],
            "kind": "parameter",
            "name": name,
            "ranks": [1],
        }


PROGRAM = """
import os, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    if step == 3 and dist.get_rank() == 1 and os.environ.get("SPOIL"):
        with torch.no_grad():
            model.module.bias[2] += 1e-6
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface is called lo on Linux")
@pytest.mark.parametrize("spoil", ["", "1"])
def test_the_command(spoil: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torchferry",
            "compare",
            "ranks",
            "-f",
            "json",
            "--",
            *(instead(launch) if spoil else launch),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        env={**ENVIRONMENT, "SPOIL": spoil, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == (1 if spoil else 0), done.stdout + done.stderr
    found = json.loads(done.stdout)
    if spoil:
        assert (found["step"], found["differences"][0]["name"], found["differences"][0]["ranks"]) == (3, "bias", [1])
    else:
        assert (found["equal"], found["checks"]) == (True, 6)


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface is called lo on Linux")
@pytest.mark.parametrize("tool", [["nan"], ["compare", "cpu"], ["compare", "record", "-o", "record"]])
def test_the_other_commands_ask_the_ranks_too(tool: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(tmp_path / "train.py")]
    done = subprocess.run(
        [ferry(), "-m", "torchferry", *tool, "--check-ranks", "1", "--", *instead([sys.executable, *launch])],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        cwd=tmp_path,
        env={**ENVIRONMENT, "SPOIL": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "TORCHFERRY_LANG": "en"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "step 3: parameter bias differs on rank 1" in done.stderr
