"""The torch_musa developer manual, tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.documents.trial import Trial, dear
from torchferry.backends import registry
from torchferry.backends.errors import errors_of_all
from torchferry.diagnosis.inputs import LogReader
from torchferry.diagnosis.judging import diagnose
from torchferry.diagnosis.scanning import Scan

pytestmark = pytest.mark.rehearsal

MODEL = """
import torch, torch_musa
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 2)).musa()
x = torch.ones(4, 3).musa()
"""


CHAPTER_5 = """
import torch
import torch_musa
from torch import nn

# 5.2
print("5.2", torch.musa.is_available(), torch.musa.device_count())
a = torch.tensor([1.2, 2.3], dtype=torch.float32, device="musa")
b = torch.tensor([1.8, 1.2], dtype=torch.float32, device="cpu").to("musa")
c = torch.tensor([1.8, 1.3], dtype=torch.float32).musa()
d = a + b + c
torch.musa.synchronize()
with torch.musa.device(0):
    assert torch.musa.current_device() == 0
if torch.musa.device_count() > 1:
    torch.musa.set_device(1)
    assert torch.musa.current_device() == 1
    torch.musa.synchronize("musa:1")
    torch.musa.set_device(0)
print("5.2 sum", [round(x, 1) for x in d.tolist()])
# 5.3, 5.4
device = torch.device("musa")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.pool, self.fc1 = nn.Conv2d(3, 6, 5), nn.MaxPool2d(2, 2), nn.Linear(6 * 14 * 14, 10)
    def forward(self, x):
        return self.fc1(torch.flatten(self.pool(torch.relu(self.conv1(x))), 1))
torch.manual_seed(0)
net = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
images, labels = torch.randn(8, 3, 32, 32), torch.arange(8) % 10
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=4, shuffle=True)
for epoch in range(2):
    running_loss = 0.0
    for i, data in enumerate(loader, 0):
        inputs, labels = data
        optimizer.zero_grad()
        loss = criterion(net(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
print("Finished Training")
torch.save(net.state_dict(), "./cifar_net.pth")
net.load_state_dict(torch.load("./cifar_net.pth"))
correct = total = 0
with torch.no_grad():
    for images, labels in loader:
        _, predicted = torch.max(net(images.to(device)).data, 1)
        total += labels.size(0)
        correct += (predicted == labels.to(device)).sum().item()
print(f"Accuracy of the network: {100 * correct // total} %")
# 5.5
model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)).to("musa")
criterion, optimizer = nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.musa.amp.GradScaler()
inputs, targets = torch.randn(6, 5).to("musa"), torch.randn(6, 3).to("musa")
for step in range(20):
    optimizer.zero_grad()
    with torch.musa.amp.autocast(dtype=torch.float16):
        outputs = model(inputs)
        assert outputs.dtype == torch.float16
        loss = criterion(outputs, targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("5.5", bool(loss.isfinite()), scaler.get_scale())
# 5.7, 8.2
before = torch.backends.mudnn.allow_tf32
with torch.backends.mudnn.flags(allow_tf32=True):
    assert torch.backends.mudnn.allow_tf32
    result = torch.randn(32, 32, dtype=torch.float, device="musa") @ torch.randn(32, 32, device="musa")
print("5.7", before, torch.backends.mudnn.allow_tf32)
torch.backends.mudnn.allow_tf32 = True
assert torch_musa._MUSAC._get_allow_tf32()
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
model = nn.Conv2d(3, 4, 3).to("musa").to(memory_format=torch.channels_last)
out = model(torch.randn(1, 3, 8, 8, device="musa").to(memory_format=torch.channels_last))
print("8.2", out.is_contiguous(memory_format=torch.channels_last))
# 6.1
x = torch.randn(3, 3, device="musa")
y = torch.randn(3, 3, device="musa")
torch.tril(x, out=y)
print("6.1", torch.isnan(x).dtype, torch.equal(torch.tril(x).cpu(), y.cpu()), torch.equal(x.tril_().cpu(), y.cpu()))
"""
"""Chapters 5, 6.1 and 8.2: their programs on smaller tensors, one after the other."""


def test_5_6_1_and_8_2_the_programs_run_on_two_devices(trial: Trial) -> None:
    trial.write("manual.py", CHAPTER_5)
    said = trial.rehearsed("musa", "manual.py", options=("--devices", "2"))
    for line in (
        "5.2 True 2",
        "5.2 sum [4.8, 4.8]",
        "Finished Training",
        "5.5 True 65536.0",
        "5.7 False False",
        "8.2 True",
        "6.1 torch.bool True True",
    ):
        assert f"{line}\n" in said, line
    assert re.search(r"Accuracy of the network: \d+ %\n", said)
    assert "CUDA settings of the program that the card does not read: 2" in said, (
        "8.2: matmul and cudnn, which CUDA has"
    )


DISTRIBUTED = """
import os
import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_musa

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
    def forward(self, x):
        return self.linear(x)

def start(rank, world_size):
    if os.getenv("MASTER_ADDR") is None:
        os.environ["MASTER_ADDR"] = "127.0.0.1"
    if os.getenv("MASTER_PORT") is None:
        os.environ["MASTER_PORT"] = "29512"
    dist.init_process_group("mccl", rank=rank, world_size=world_size)

def runner(rank, world_size):
    torch_musa.set_device(rank)
    start(rank, world_size)
    model = Model().to('musa')
    ddp_model = DDP(model, device_ids=[rank])
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    for _ in range(5):
        input_tensor = torch.randn(5, dtype=torch.float, requires_grad=True).to('musa')
        target_tensor = torch.zeros(5, dtype=torch.float).to('musa')
        loss = nn.MSELoss()(ddp_model(input_tensor), target_tensor)
        loss.backward()
        optimizer.step()
    with open(f"rank{rank}.txt", "w") as file:  # what several processes print runs together
        print(next(model.parameters()).device, end="", file=file)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(runner, args=(2,), nprocs=2, join=True)
"""


@dear
def test_5_6_and_10_the_programs_of_many_processes(trial: Trial) -> None:
    trial.write("ddp.py", DISTRIBUTED)
    trial.rehearsed("musa", "ddp.py", options=("--devices", "2"))
    assert [trial.read(f"rank{rank}.txt") for rank in range(2)] == ["musa:0", "musa:1"]
    trial.write("train.py", YOLO)
    trial.says("migrate", "-r", ".", "-l", "train.py", "-t", "musa@2.0.0", code=1)
    launched = ("-m", "torch.distributed.run", "--nproc_per_node", "8", "train.py", "--device", "0,1,2,3,4,5,6,7")
    trial.rehearsed("musa@2.0.0", *launched, options=("--devices", "8"))
    trained = [trial.read(f"trained{rank}.txt") for rank in range(8)]
    assert trained == [f"musa:{rank}" for rank in range(8)]


OPERATORS = """
- func: lerp.Scalar_out
- func: lerp.Scalar
- func: lerp_.Scalar
- func: lerp_.Tensor_out
- func: lerp.Tensor
- func: lerp_.Tensor
- func: tril
- func: tril_
- func: tril.out
  structured_inherits: MyMetaBase
  precomputed:
  - diagonal -> int var
  dispatch:
    PrivateUse1: MusaTril
- func: triu
- func: triu_
- func: triu.out
  dispatch:
    PrivateUse1: MusaTriu
- func: nonzero
  dispatch:
    PrivateUse1: Nonzero
- func: add.Tensor
  dispatch:
    PrivateUse1: AddTensor
- func: add_.Tensor
  dispatch:
    PrivateUse1: AddTensor_
- func: add.out
  structured: false
  dispatch:
    PrivateUse1: AddTensorOut
- func: view_as_real
  dispatch:
    PrivateUse1: view_as_real
"""
"""The declarations of chapter 6, with its own mistake: torch has no lerp_.Tensor_out."""


def test_6_declarations_become_registrations_and_a_mistake_is_named(trial: Trial) -> None:
    trial.write("musa_functions.yaml", OPERATORS)
    command = ("ops", "codegen", "musa_functions.yaml", "--namespace", "at::musa", "--out", "made")
    said = trial.says(*command, code=2)
    assert "musa_functions.yaml:5: lerp_.Tensor_out: " in said
    assert "did you mean `lerp.Tensor_out`?" in said
    assert "the operator's group is incomplete; missing: `lerp.Tensor_out`" in said  # 6.1
    trial.write("musa_functions.yaml", OPERATORS.replace("lerp_.Tensor_out", "lerp.Tensor_out"))
    kinds = {words[0]: words[2:4] for line in trial.says(*command).splitlines() if len(words := line.split()) == 5}
    assert kinds["lerp.Tensor_out"] == ["Legacy", "at::native::lerp_Tensor"]  # 6.3.1
    assert kinds["tril"] == kinds["tril.out"] == ["Customized", "at::musa::MusaTril"]  # 6.3.3
    assert kinds["triu.out"] == ["LegacyMeta", "at::musa::MusaTriu"]  # 6.3.2
    assert kinds["nonzero"] == ["unstructured", "at::musa::Nonzero"]  # 6.4
    assert kinds["add_.Tensor"] == ["override", "at::musa::AddTensor_"]
    assert kinds["view_as_real"] == ["shared", "at::native::view_as_real"]  # 6.4.1
    header = trial.read("made/MusaNativeFunctions.h")
    for line in (
        "struct structured_tril : public MyMetaBase",
        "struct structured_MusaTril : public at::musa::",
        "set_var(",
    ):
        assert line in header, line


def test_7_2_2_the_vendors_porting_class_with_its_arguments(trial: Trial) -> None:
    trial.write("csrc/cuda/k.cu", "#ifdef __NVCC__\nbool f(at::Tensor x) { return x.is_cuda(); }\n#endif\n")
    trial.write("csrc/mlu/k.cpp", "int mlu;\n")
    trial.write(
        "setup.py",
        """
        from torch_musa.utils.simple_porting import SimplePorting
        from torch_musa.utils.musa_extension import MUSAExtension, BuildExtension
        from torch_musa.testing import get_musa_arch
        SimplePorting(cuda_dir_path="./csrc", ignore_dir_paths=["./csrc/mlu"],
                      mapping_rule={"__NVCC__": "__MUSACC__", ".is_cuda()": ".is_privateuseone()"}).run()
        print("arch", get_musa_arch())
        """,
    )
    assert "arch 22\n" in trial.rehearsed("musa", "setup.py")
    ported = trial.read("csrc_musa/cuda/k.mu")
    assert "#ifdef __MUSACC__" in ported
    assert "x.is_privateuseone()" in ported
    assert not (trial.folder / "csrc_musa/mlu").exists()


def test_7_2_2_rules_without_the_default_mapping(trial: Trial) -> None:
    trial.write("k/a.cu", "#ifdef __NVCC__\nbool f(at::Tensor x) { return x.is_cuda(); }\n#endif\n")
    trial.write("r.json", json.dumps({"__NVCC__": "__MUSACC__", ".is_cuda()": ".is_privateuseone()"}))
    trial.says("port", "k", "-t", "musa", "--map", "r.json", "--drop-default-map")
    ported = trial.read("k_musa/a.mu")
    assert ("__MUSACC__" in ported, ".is_privateuseone()" in ported) == (True, True)


PROFILE = """
import torch, torch_musa
from torch.profiler import profile, schedule
model = torch.nn.Linear(3, 2).musa()
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=1), record_shapes=True, with_stack=True,
             experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)) as p:
    for _ in range(5):
        model(torch.ones(2, 3).musa()).sum().backward()
        p.step()
print(p.key_averages(group_by_input_shape=True).table(sort_by="self_musa_time_total", row_limit=2))
p.export_stacks("stacks.txt", "self_musa_time_total")
print("TABLES")
"""


def test_8_1_the_sort_keys_of_the_manuals_version(trial: Trial) -> None:
    trial.write("sample.py", PROFILE)
    assert "TABLES\n" in trial.rehearsed("musa@2.0.0", "sample.py")
    assert "nothing has to change" in trial.says("scan", ".", "-t", "musa@2.0.0")
    assert (trial.folder / "stacks.txt").exists()


def test_8_1_a_newer_version_names_them_otherwise_and_scan_says_so(trial: Trial) -> None:
    trial.write("sample.py", PROFILE)
    assert "no attribute 'self_musa_time_total'" in trial.rehearsed("musa", "sample.py", code=1)
    fixed = trial.migrated("musa", "sample.py")
    assert 'sort_by="self_device_time_total"' in fixed
    assert "TABLES\n" in trial.rehearsed("musa", "sample.py")


def test_8_1_the_schedule_of_many_ranks_is_read_from_a_whole_cycle(trial: Trial) -> None:
    trial.write(
        "sample.py",
        """
        import torch, torch_musa
        from torch.profiler import ProfilerActivity as A
        model = torch.nn.Linear(3, 2).musa()
        writer = torch.profiler.tensorboard_trace_handler("result", worker_name="worker0")
        with torch.profiler.profile(activities=[A.CPU, A.MUSA], on_trace_ready=writer,
                                    schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as p:
            for _ in range(10):
                model(torch.ones(2, 3).musa()).sum().backward()
                p.step()
        """,
    )
    trial.rehearsed("musa", "sample.py")
    said = trial.says("profile", "show", "result")
    assert "2 steps" in said
    assert "aten::addmm" in said


COMPARE = f"""
from torch_musa.utils.compare_tool import CompareWithCPU, NanInfTracker, open_module_tracker
{MODEL}
open_module_tracker(model)
with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True, white_list=["torch.ops.aten.zero_"]):
    model(x)
with NanInfTracker():
    model(x)
with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True, should_log_to_file=True, output_dir="path_to_save",
                    enable_ranks=[0]):
    model(x)
with CompareWithCPU(enabled=False) as off, NanInfTracker(enabled=False):
    print("OFF")
    model(x)
print("END")
"""


def test_9_1_3_the_vendors_tools_by_their_names(trial: Trial) -> None:
    trial.write("train.py", COMPARE)
    said = trial.rehearsed("musa", "train.py")
    assert "Sequential.0/torch.ops.aten.addmm(forward) succeeds to pass CompareWithCPU test" in said
    assert "END\n" in said
    assert "addmm" not in said.partition("OFF\n")[2].partition("END\n")[0], "switched off"
    assert "succeeds to pass" in trial.read("path_to_save/compare_result_rank0.txt")  # 9.1.7


def test_9_1_5_the_failing_call_is_written_and_tried_again_by_the_manuals_file(trial: Trial) -> None:
    trial.write(
        "train.py",
        f"""
{MODEL}
from torch_musa.utils.compare_tool import CompareWithCPU
with CompareWithCPU(atol=0.001, rtol=0.001, dump_error_data=True, output_dir="saved"):
    model(x)
print("NEVER")
""",
    )
    said = trial.rehearsed("musa", "train.py", options=("--fault", "op=aten.addmm,kind=noise"), code=1)
    assert "fails to pass CompareWithCPU test" in said
    assert "NEVER" not in said
    names = {path.name for path in (trial.folder / "saved").glob("*.pkl")}
    assert names == {"torch.ops.aten.addmm_inputs.pkl", "torch.ops.aten.addmm_outputs.pkl"}
    trial.write(
        "again.py",
        """
        import torch, torch_musa
        from torch_musa.utils.compare_tool import compare_for_single_op
        correct, args, kwargs, out = compare_for_single_op(
            "saved/torch.ops.aten.addmm_inputs.pkl", torch.ops.aten.addmm, atol=0.01, rtol=0.01)
        print("CORRECT", correct, len(args), kwargs)
        """,
    )
    assert "CORRECT True 3 {}\n" in trial.rehearsed("musa", "again.py")
    assert "aten::addmm on cpu" in trial.says("replay", "saved/torch.ops.aten.addmm_inputs.pkl", "--device", "cpu")


def test_9_1_5_target_op_is_of_no_version_and_the_other_name_is_named(trial: Trial) -> None:
    trial.write("t.py", "import torch_musa\nfrom torch_musa.utils.compare_tool import CompareWithCPU\n"
                        "CompareWithCPU(target_op=['torch.ops.aten.addmm'])\n")  # fmt: skip
    assert "write target_list" in trial.rehearsed("musa", "t.py", code=1)


STEPS = """
import sys, torch, torch_musa
from torch_musa.utils.compare_tool import NanInfTracker

for window in (None, None), (3, 4), (4, 5), (0, 3):
    print("WINDOW", file=sys.stderr)
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 4).musa()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with NanInfTracker(start_step=window[0], end_step=window[1]) as tracker:
        for step in range(5):
            x = torch.randn(6, 5)
            if step == 3:
                x[0, 0] = float("nan")
            optimizer.zero_grad()
            model(x.musa()).sum().backward()
            optimizer.step()
            tracker.step()
"""


def test_9_1_6_a_step_is_counted_once_and_a_window_blames_nobody_outside(trial: Trial) -> None:
    trial.write("train.py", STEPS)
    windows = trial.rehearsed("musa", "train.py").split("WINDOW\n")[1:]
    assert ["[WARNING]" in said for said in windows] == [True, True, True, False]
    assert "step 3: nan first came from input" in windows[0]
    assert "step 3: nan first came from input" in windows[1]
    assert "nan before step 4, the first that was looked at" in windows[2]


YOLO = """
import os
import random
import sys

import torch
import torch.distributed as dist
from torch.cuda import amp as mixed

LOCAL_RANK = int(os.getenv('LOCAL_RANK', -1))


def select_device(device=''):
    device = str(device).strip().lower().replace('cuda:', '').replace('none', '')
    cpu = device == 'cpu'
    if cpu:
        os.environ['CUDA_VISIBLE_DEVICES'] = '-1'
    elif device:
        os.environ['CUDA_VISIBLE_DEVICES'] = device
        assert torch.cuda.is_available() and torch.cuda.device_count() >= len(device.split(',')), 'invalid'
    if not cpu and torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        print(f"CUDA:0 ({p.name}, {p.total_memory / (1 << 20):.0f}MiB)")
        arg = 'cuda:0'
    else:
        arg = 'cpu'
    return torch.device(arg)


def init_seeds(seed=0):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def main(seed=1, use_amp=True):
    device = select_device(sys.argv[-1])
    if LOCAL_RANK != -1:
        assert torch.cuda.device_count() > LOCAL_RANK, 'insufficient CUDA devices for DDP command'
        torch.cuda.set_device(LOCAL_RANK)
        device = torch.device('cuda', LOCAL_RANK)
        dist.init_process_group(backend="nccl" if dist.is_nccl_available() else "gloo")
    init_seeds(seed)
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    for _ in range(2):
        with torch.cuda.amp.autocast(use_amp):
            loss = model(torch.ones(3, 4, device=device)).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        mem = f'{torch.cuda.memory_reserved() / 1E9 if torch.cuda.is_available() else 0:.3g}G'
    print("trained on", device, next(model.parameters()).device, mem)
    with open(f"trained{LOCAL_RANK}.txt", "w") as file:
        print(next(model.parameters()).device, end="", file=file)


if __name__ == "__main__":
    main()
"""
"""The places of YOLOv5 that 10.1 edits, in a program that trains."""

EDITED = """
from torch_musa import amp as mixed
    os.environ['MUSA_VISIBLE_DEVICES'] = device
    assert torch.musa.is_available() and torch.musa.device_count() >= len(device.split(',')), 'invalid'
    arg = 'musa:0'
    torch.musa.manual_seed(seed)
    torch.musa.manual_seed_all(seed)
    torch.musa.set_device(LOCAL_RANK)
    device = torch.device('musa', LOCAL_RANK)
    dist.init_process_group(backend="mccl" if
    scaler = torch.musa.amp.GradScaler(enabled=use_amp)
    with torch.musa.amp.autocast(use_amp):
    mem = f'{torch.musa.memory_reserved() / 1E9 if torch.musa.is_available() else 0:.3g}G'
"""
"""What 10.1 makes of them."""


def test_10_the_edits_by_the_converters_own_options_and_back(trial: Trial) -> None:
    before = trial.write("yolo/train.py", YOLO).read_text(encoding="utf-8")
    trial.write("yolo/utils/pick.py", "device = 'cuda:0'\nimport torch\ntorch.ones(1).to(device)\n")
    left_out = trial.write("yolo/data/x.py", "import torch\ntorch.ones(1).cuda()\n").read_text(encoding="utf-8")
    options = ("-r", "./yolo", "-l", "./yolo/train.py", "-e", "./yolo/data,./yolo/none.py", "-t", "musa@2.0.0")
    trial.says("migrate", *options, code=1)  # the variable of cards is another one's: a decision
    edited = trial.read("yolo/train.py")
    for line in EDITED.strip().splitlines():
        assert line.strip() in edited, line
    assert "'musa:0'" in trial.read("yolo/utils/pick.py")
    assert trial.read("yolo/data/x.py") == left_out
    assert "trained on musa:0 musa:0" in trial.rehearsed("musa@2.0.0", "yolo/train.py", "--device", "0")
    trial.says("undo", "yolo")
    assert trial.read("yolo/train.py") == before


SAID = {
    "Error: failed to initialize mtml.": "usermod -aG render",  # 11.1
    "ImportError: libmudnn.so.1: cannot open shared object file: No such file or directory": (
        "export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/musa/lib"  # 11.2
    ),
    "ImportError: libsrv_um_MUSA.so: cannot open shared object file": "MTHREADS_VISIBLE_DEVICES=all",  # 11.4
    "ImportError: /usr/lib/x86_64-linux-gnu/musa/libsrv_um_MUSA.so: file too short": "docker setup",
    "ImportError: /x/lib/libmusa_kernels.so: undefined symbol: _ZN2at4musa3cub3sumEv": "doctor symbol",  # 11.5
    "RuntimeError: nms_impl: implementation for device musa:0 not found.": "--build setup.py",  # 7.1
    "error: shared memory (42904) exceeds limit (28672) in function '_ZL22upfirdn2d'": "leave the file out",  # 7.2.4
}
"""What the manual shows going wrong, and a part of its answer."""


def test_7_and_11_what_goes_wrong_has_the_manuals_answer(tmp_path: Path) -> None:
    entries = tuple(each for each in errors_of_all([registry.load("musa")]) if "log" in each.where)
    unanswered = {}
    for number, (line, answer) in enumerate(SAID.items()):
        log = tmp_path / f"{number}.log"
        log.write_text(f"{line}\n", encoding="utf-8")
        first = diagnose(Scan(LogReader([log]), entries)).first
        texts = "" if first is None else " ".join(
            (first.entry.remedy.en, *first.entry.commands, *(each.en for each in first.entry.causes))
        )  # fmt: skip
        if answer not in texts:
            unanswered[line] = texts
    assert unanswered == {}
