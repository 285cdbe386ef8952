"""`torchferry rehearse` with real programs in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import interruptible
from tests.processes import HANGS
from tests.warm_python import ferry, instead, python
from torchferry.backends.target import Target

pytestmark = pytest.mark.rehearsal

TRAIN = """
import torch
model = torch.nn.Linear(4, 2).to("npu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(8, 4, device="npu")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""


def rehearse(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Rehearse a command in a Python that has torch imported already; a file's name alone is run by Python itself."""
    return subprocess.run(
        [ferry(), "-m", "torchferry", "rehearse", *instead(arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )


def program(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def summary(folder: Path, *arguments: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    done = rehearse(folder, "--summary-file", "s.json", *arguments)
    assert (folder / "s.json").is_file(), done.stderr
    return json.loads((folder / "s.json").read_text()), done


def test_a_right_program(tmp_path: Path) -> None:
    program(tmp_path, TRAIN)
    found, done = summary(tmp_path, "-t", "npu", "--strict", "--", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss") == 3
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith("torchferry: REHEARSAL on the CPU: 1 x Ascend 910B (64.00 GiB each), torch_npu")
    assert "not speed or accuracy" in first
    assert second == "torchferry: nothing was seen that would fail on the card"
    assert found["events"] != []
    item = next(event for event in found["events"] if event["subject"] == "aten::_local_scalar_dense")
    assert (Path(item["file"]).name, item["line"], item["times"]) == ("train.py", 10, 3)
    assert found["peak_memory"][0] > 0
    assert found["operators"]["aten::addmm"] == 3


WRONG = {
    "cuda": ('torch.ones(2).to("cuda")', "cuda-remnant", "cuda"),
    "torch.cuda": ("torch.cuda.current_device()", "cuda-remnant", "torch.cuda.current_device"),
    "autocast": ('with torch.autocast("cuda", torch.float16): pass', "cuda-remnant", "autocast('cuda')"),
    "api": ("torch.npu.nvtx", "missing-api", "torch.npu.nvtx"),
    "devices": ('torch.ones(2, device="npu") + torch.ones(2)', "mixed-devices", "aten::add.Tensor"),
    "memory": ('torch.empty(2**36, device="npu")', "out-of-memory", "npu:0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_named(tmp_path: Path, name: str) -> None:
    code, kind, subject = WRONG[name]
    program(
        tmp_path, f"import torch\n\ntry:\n    {code}\nexcept Exception as error:\n    print(type(error).__name__)\n"
    )
    found, done = summary(tmp_path, "-t", "npu", "--strict", "--", "python", "train.py")
    assert done.returncode == 1, done.stderr
    event = next(event for event in found["events"] if (event["kind"], event["subject"]) == (kind, subject))
    assert (Path(event["file"]).name, event["line"]) == ("train.py", 4)
    is_remnant = kind == "cuda-remnant"  # some of these raise nothing
    assert (event["fails"], event["caught"]) == ((True, "") if is_remnant else (False, "reported"))
    assert ("WOULD FAIL" if is_remnant else "GOES ON WITHOUT") in done.stderr
    assert "train.py:4" in done.stderr


def test_autocast_of_a_library_is_a_remnant_where_it_is_entered(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "models.py"
    library.parent.mkdir()
    decorated = '@torch.autocast(device_type="cuda", dtype=torch.float32)\ndef {name}(x): return x\n'
    library.write_text("import torch\n" + decorated.format(name="used") + decorated.format(name="unused"))
    program(tmp_path, "import sys\nsys.path.append('site-packages')\nimport models\nmodels.used(1)\nmodels.used(2)\n")
    found, _ = summary(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert [(event["subject"], event["line"]) for event in found["events"] if event["fails"]] == [
        ("autocast('cuda')", 4),
        ("autocast('cuda')", 5),
    ]


@pytest.mark.parametrize(("target", "remnants"), [("npu", ["torch.cuda.empty_cache"]), ("ptex", [])])
def test_freeing_cudas_cache_is_a_remnant_where_the_card_has_one(
    target: str, remnants: list[str], tmp_path: Path
) -> None:
    plugin = Target.named(target).backend.PLUGIN
    program(tmp_path, f"import torch\nimport {plugin}\ntorch.cuda.empty_cache()\n")
    found, done = summary(tmp_path, "-t", target, "--", "python", "train.py")
    assert [event["subject"] for event in found["events"] if event["fails"]] == remnants, done.stderr


def test_a_missing_operator_and_dtype_of_the_users_own_profile(tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text('missing = ["erf"]\n[dtypes]\nbfloat16 = "missing"\n')
    program(
        tmp_path,
        "import torch\n"
        "x = torch.ones(2, device='npu')\n"
        "for step in (lambda: x.erf(), lambda: x.bfloat16()):\n"
        "    try: step()\n"
        "    except (NotImplementedError, TypeError) as error: print(type(error).__name__)\n",
    )
    found, done = summary(tmp_path, "-t", "npu", "--profile", "card.toml", "--", "python", "train.py")
    assert done.stdout.split() == ["NotImplementedError", "TypeError"]
    assert {event["kind"] for event in found["events"] if event["caught"]} == {"missing-operator", "missing-dtype"}


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    done = rehearse(tmp_path, "-t", "npu", "--", "python", "-c", "import torch, sys; torch.ones(1).npu(); sys.exit(7)")
    assert done.returncode == 7
    assert "THE COMMAND FAILED with exit code 7" in done.stderr


def test_what_a_tool_found_is_no_failure_of_the_command(tmp_path: Path) -> None:
    program(tmp_path, TRAIN.replace("pow(2).mean()", "pow(2).mean() / 0"))
    found, done = summary(tmp_path, "-t", "npu", "--", "torchferry", "nan", "--", "python", "train.py")
    assert (done.returncode, found["found_by"]) == (1, ["torchferry nan"]), done.stderr
    assert found["verdict"] == "nothing was seen that would fail on the card"
    assert "exit code 1: torchferry nan found something" in done.stderr


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (("ls",), "NOTHING WAS REHEARSED"),
        (("python", "-c", "print(1)"), "NOTHING WAS REHEARSED"),
    ],
)
def test_what_is_no_rehearsal_says_so(tmp_path: Path, command: tuple[str, ...], wanted: str) -> None:
    done = rehearse(tmp_path, "-t", "npu", "--", *command)
    assert done.returncode == 0
    assert wanted in done.stderr
    assert rehearse(tmp_path, "-t", "npu", "--strict", "--", *command).returncode == 1


def test_a_program_that_stays_on_the_cpu_says_so(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import torch\n"
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "print(torch.nn.Linear(2, 2).to(device)(torch.ones(2, device=device)).device)\n",
    )
    done = rehearse(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert (done.returncode, done.stdout) == (0, "cpu\n")
    assert "NOTHING RAN ON THE DEVICE: every tensor stayed on the CPU" in done.stderr
    assert "train.py:2  torch.cuda.is_available" in done.stderr
    assert rehearse(tmp_path, "-t", "npu", "--strict", "--", "python", "train.py").returncode == 1


ASKS = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    rows = torch.arange(2, device="npu")
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return self.rows[index].item()

rows = torch.ones(2, device="npu")
device = rows.device
for _ in range(2):
    fast = rows.is_cuda
    fast = device.type in ("cuda", "xpu")
    fast = torch.ones(2).is_cuda or torch.device("cpu").type == "cuda"
    fast = device.type == "npu"
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cuda.enable_flash_sdp(True)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    rows.add(1)
try:
    list(DataLoader(Rows(), num_workers=1))
except RuntimeError as error:
    print("Cannot re-initialize NPU in forked subprocess" in str(error))
"""


def test_what_depends_on_cuda_without_a_call_of_it_is_noted(tmp_path: Path) -> None:
    program(tmp_path, ASKS)
    found, done = summary(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert done.stdout == "True\n", done.stderr
    kinds = ("cuda-branch", "cuda-setting", "cuda-remnant", "fork")
    seen = [(e["kind"], e["subject"], e["line"], e["times"]) for e in found["events"] if e["kind"] in kinds]
    assert sorted(seen) == [
        ("cuda-branch", "device.type in ('cuda', 'xpu')", 19, 2),
        ("cuda-branch", "is_cuda", 18, 2),
        ("cuda-remnant", "ProfilerActivity.CUDA", 25, 1),
        ("cuda-setting", "CUDA_VISIBLE_DEVICES", 3, 1),
        ("cuda-setting", "CUDA_VISIBLE_DEVICES", 22, 1),
        ("cuda-setting", "torch.backends.cuda.matmul.allow_tf32", 23, 1),
        ("fork", "fork", 13, 1),
    ]


LATE = """
import os, torch, torch_npu
torch.npu.device_count()
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1x"  # what follows the digits ends the list behind them
print(torch.npu.device_count(), torch.ones(1, device="npu").device)
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1x"  # what follows the digits ends the list behind them
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "1"
print(torch.npu.device_count())
"""


def test_cards_asked_for_and_got_and_a_list_that_is_set_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, LATE)
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1,0")
    monkeypatch.setenv("NPU_VISIBLE_DEVICES", "0")
    found, done = summary(tmp_path, "-t", "npu", "--devices", "2", "--", "python", "train.py")
    assert done.stdout == "2 npu:0\n2\n", done.stderr
    late = [(e["subject"], e["line"]) for e in found["events"] if e["kind"] == "late-setting"]
    assert late == [("ASCEND_RT_VISIBLE_DEVICES=1", 7)]
    assert (
        "`ASCEND_RT_VISIBLE_DEVICES=1,0` asks for 2 cards, and a program gets 0: the numbers must rise" in done.stderr
    )
    assert "nothing reads `NPU_VISIBLE_DEVICES`" in done.stderr


def test_a_forgotten_import_is_noted_where_nobody_knows_whether_torch_loads_the_plugin(tmp_path: Path) -> None:
    program(tmp_path, "import torch\ntorch.ones(2, device='sdaa')\n", "without.py")
    program(tmp_path, "import torch\nimport torch_sdaa\ntorch.ones(2, device='sdaa')\n", "after.py")
    program(tmp_path, "import torch_sdaa, torch\ntorch.ones(2, device='sdaa')\n", "before.py")
    program(tmp_path, "import torch\ntorch.ones(2)\n", "unused.py")
    script = f"for name in without after before unused; do {python()} $name.py; done"
    found, done = summary(tmp_path, "-t", "sdaa", "--", "bash", "-c", script)
    noted = [(event["subject"], event["times"]) for event in found["events"] if event["kind"] == "autoload"]
    assert noted == [("import torch_sdaa", 1)], done.stderr


LEFT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, rows):
        return self.layer(rows)

model, seen = Net(), torch.zeros(1, device="npu")
for _ in range(3):
    loss = model(torch.ones(8, 4)).pow(2).mean()
    loss.backward()
    seen += loss.item()
print(seen.item())
"""


def test_a_model_that_was_left_on_the_cpu_is_named(tmp_path: Path) -> None:
    program(tmp_path, LEFT)
    found, done = summary(tmp_path, "-t", "npu", "--strict", "--", "python", "train.py")
    assert done.returncode == 1
    assert found["verdict"].startswith("THE LARGER PART RAN ON THE CPU")
    assert "train.py:13  model `Net`  x3, 384 FLOP" in done.stderr
    assert found["work"]["cpu"] > found["work"]["device"] == 0


def test_a_rehearsed_program_may_ask_for_the_same_rehearsal(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import torchferry.rehearsal\ntorchferry.rehearsal.enable('npu')\n"
        "import torch\ntorch.ones(2, device='npu').sum().item()\n",
    )
    found, done = summary(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert done.returncode == 0, done.stderr
    assert [event["line"] for event in found["events"] if event["kind"] == "synchronisation"] == [4]


def test_a_plugin_that_torch_does_not_load_by_itself_must_be_imported(tmp_path: Path) -> None:
    without = rehearse(tmp_path, "-t", "ptex", "--", "python", "-c", "import torch; torch.ones(1)")
    assert "NOTHING RAN ON THE DEVICE" in without.stderr
    assert "the program must import ptex" in without.stderr
    code = "import torch, ptex; print(torch.ones(1).to(ptex.device('xla')).device.type)"
    done = rehearse(tmp_path, "-t", "ptex", "--", "python", "-c", code)
    assert done.stdout == "xla\n", done.stderr


def test_another_plugin_in_the_process_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "import torch\ntorch.utils.rename_privateuse1_backend('other')\nimport torch_musa\n")
    done = rehearse(tmp_path, "-t", "musa", "--", "python", "train.py", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 2
    assert "this process already has a plugin for the device `other`" in done.stderr


def test_a_warning_is_listed_with_its_line(tmp_path: Path) -> None:
    program(tmp_path, "import torch, warnings\ntorch.ones(1, device='npu')\nwarnings.warn('slow path')\n")
    found, done = summary(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert "slow path" in done.stderr
    item = next(event for event in found["events"] if event["kind"] == "warning")
    assert (item["subject"], item["detail"], item["line"]) == ("UserWarning", "slow path", 3)


REFUSED = {
    ("-t", "nup", "--", "python", "x.py"): "did you mean `npu`?",
    ("-t", "npu", "--card", "910Z", "--", "python", "x.py"): "unknown card `910Z`",
    ("-t", "npu", "--profile", "bad.toml", "--", "python", "x.py"): "did you mean `memory`?",
    ("-t", "npu", "--fault", "op=mm,kind=noize", "--", "python", "x.py"): "did you mean `noise`?",
    ("-t", "npu", "--devices", "17", "--", "python", "x.py"): "17",
    ("-t", "npu", "--", "no-such-command"): "command `no-such-command` not found",
    ("--", "python", "x.py"): "no target is named",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "bad.toml").write_text('memroy = "1GiB"\n')
    done = rehearse(tmp_path, *arguments)
    assert done.returncode == 2
    assert REFUSED[arguments] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shell_script_carries_it_to_its_children(tmp_path: Path) -> None:
    program(tmp_path, TRAIN)
    program(tmp_path, f"cd /\nfor i in 1 2; do {python()} {tmp_path / 'train.py'}; done\n", "run.sh")
    found, done = summary(tmp_path, "-t", "npu", "--", "sh", "run.sh")
    assert done.stdout.count("loss") == 6
    assert found["processes_on_device"] == 2
    assert found["operators"]["aten::addmm"] == 6


def test_the_plugins_metadata_is_there_for_libraries_that_ask(tmp_path: Path) -> None:
    code = (
        "import importlib.metadata as m, importlib.util as u\n"
        "print(m.version('torch_npu'), u.find_spec('torch_npu') is not None)\n"
        "import torch_npu; print(torch_npu.__version__)\n"
    )
    done = rehearse(tmp_path, "-t", "npu@2.9.0", "--", "python", "-c", code)
    assert done.stdout.split() == ["2.9.0", "True", "2.9.0"], done.stderr


def test_more_ranks_than_devices(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import torch.distributed as dist\n"
        "store = dist.TCPStore('127.0.0.1', 0, 2, True, wait_for_workers=False)\n"
        "try: dist.init_process_group('hccl', rank=0, world_size=2, store=store)\n"
        "except RuntimeError as error: print(error)\n",
    )
    found, done = summary(tmp_path, "-t", "npu", "--devices", "1", "--", "python", "train.py")
    assert "2 ranks on this machine, which has 1 npu devices" in done.stdout
    assert [event["kind"] for event in found["events"] if event["fails"]] == ["rank"]


def test_a_crash_loses_no_finding(tmp_path: Path) -> None:
    program(tmp_path, "import os, torch\ntorch.ones(2, device='npu').sum().item()\nos.kill(os.getpid(), 11)\n")
    found, done = summary(tmp_path, "-t", "npu", "--", "python", "train.py")
    assert done.returncode == 128 + 11
    assert found["processes_without_counts"] == 1
    assert [event["line"] for event in found["events"] if event["kind"] == "synchronisation"] == [2]


def test_an_interrupted_command_leaves_no_process(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import subprocess, sys, time, torch\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "time.sleep(600)\n",
    )
    process = subprocess.Popen(
        interruptible([sys.executable, "-m", "torchferry", "rehearse", "-t", "npu", "--", "python", "train.py"]),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + HANGS
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=HANGS)
    assert process.returncode == 130, told
    assert "torchferry: " in told.splitlines()[-1] or "processes" in told
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_faults_are_there_for_the_users_own_handling(tmp_path: Path) -> None:
    program(
        tmp_path,
        "import torch\nx = torch.ones(2, 2, device='npu')\n"
        "try: torch.empty(8, device='npu')\nexcept torch.OutOfMemoryError: print('caught')\n"
        "print((x @ x).isnan().any().item())\n",
    )
    done = rehearse(
        tmp_path, "-t", "npu", "--fault", "kind=oom,after=1", "--fault", "op=mm,kind=nan", "--", "python", "train.py"
    )
    assert done.stdout.split() == ["caught", "True"], done.stderr
    assert "injected faults: 2" in done.stderr
