"""The packages of the vendors over the built device: each target in a process of its own, as torch wants it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torchferry
from tests import warm, warm_python
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE, Rehearsal
from torchferry.rehearsal.profile import make_profile

pytestmark = pytest.mark.rehearsal

PACKAGE = Path(torchferry.__file__).parent
WITH_NAMESPACE = [name for name in registry.built_in() if registry.load(name).NAMESPACE]
PREAMBLE = """
import json, sys, warnings
import torch
warnings.simplefilter("ignore")

def outcome(statement):
    names = {"torch": torch}
    try:
        exec(compile(statement, sys.argv[1], "exec"), names)  # under a file's name: events look for the user's line
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ok"

statements = json.loads(sys.argv[2])
results = [outcome(statement) for statement in statements]
print(json.dumps(results))
"""


class Process:
    """Statements run in one process, with what each gave and the events of all."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.seen: list[tuple[str, str]] = []

    def run(self, statements: list[str], **environment: str) -> list[str]:
        choice = registry.choose(self.name)
        target = Target(choice.backend, choice.version)
        Rehearsal(self.name, make_profile(target, devices=2)).write(self.folder)
        facade = PACKAGE / "vendors" / target.name / "plugin"
        path = os.pathsep.join([str(PACKAGE.parent), str(facade)])
        (done,) = warm.run(
            PREAMBLE,
            arguments=[str(self.folder / "program.py"), json.dumps(statements)],
            environments=[{**os.environ, "PYTHONPATH": path, VARIABLE: str(self.folder), **environment}],
        )
        assert done.returncode == 0, done.stderr
        results: list[str] = json.loads(done.stdout.splitlines()[-1])
        for file in self.folder.glob("process-*.json"):
            document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            self.seen += [(event["kind"], event["subject"]) for event in document["events"]]
        return results


FUSED = """
layer = torch.nn.Linear(2, 2, device="npu")
optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
scaler = {}
scaler.scale(layer(torch.ones(1, 2, device="npu")).sum()).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 65536
"""
"""A step of a fused optimizer, scaled."""

WORKS = {
    "npu@2.9.0": [
        "import torch_npu; assert torch_npu.__version__ == '2.9.0'; assert torch_npu.npu is torch.npu",
        "from torch_npu.npu.amp import autocast, GradScaler",
        "import torch.npu.amp",
        "import torch_npu.contrib.module.drop_path; from torch_npu.contrib.module import BiLSTM",
        "import torch_npu; isinstance(1, torch_npu.contrib.module.BiLSTM)",
        "from torch_npu.npu import graphs, utils; import torch.npu.graphs; import torch_npu._inductor",
        "from torch_npu.npu import mstx; from torch_npu.npu.mstx import mstx as other; assert mstx is other",
        "from torch_npu.npu.random import manual_seed_all",
        "from torch_npu.profiler import profile, schedule, tensorboard_trace_handler, ProfilerActivity",
        "import torch_npu; assert not hasattr(torch_npu.profiler.profile, 'key_averages')",
        "import torch_npu; torch_npu.profiler.schedule(wait=1, active=1, warmup=1, repeat=1)",
        "from torch_npu.optim import NpuFusedAdamW, NpuFusedOptimizerBase",
        "from torch_npu.utils.cpp_extension import NpuExtension",
        "torch.npu.matmul.allow_hf32 = True; assert torch.npu.matmul.allow_hf32; assert torch.npu.conv.allow_hf32",
        "torch.npu.config.allow_internal_format = False; torch.npu.set_compile_mode(jit_compile=True)",
        "assert not torch.npu.is_jit_compile_false()",
        FUSED.format("torch.amp.GradScaler('npu')"),
        "scaler = torch.npu.amp.GradScaler(dynamic=False); scaler.load_state_dict(scaler.state_dict())",
        "assert torch.npu.get_device_capability() is None",
        "p = torch.npu.get_device_properties(0); assert p.multi_processor_count == p.vector_core_num == 40",
        "p = torch.npu.get_device_properties(0); assert p.major is None and p.minor is None and p.warp_size is None",
        "assert torch.distributed.is_hccl_available()",
        "import torch_npu; torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options().hccl_config = {}",
        "assert not hasattr(torch.npu.mstx, 'range_push'); assert not hasattr(torch.npu, 'npurt')",
        "torch.npu.matmul.allow_hf32 = 1; assert torch.npu.matmul.allow_hf32 is True",
        "assert torch.npu.matmul.allow_tf32 is None; assert torch.npu.aclnn.allow_hf32 is torch.npu.conv.allow_hf32",
        "from torch_npu import profiler as p; from torch.profiler import ProfilerActivity as A\n"
        "assert p.profile(activities=[A.CPU]).activities == p.supported_activities()",
        "torch.npu.backends.fft_plan_cache.max_size = 4; torch.npu.backends.fft_plan_cache.clear()",
    ],
    "npu@2.13.0": [
        "import torch_npu; assert torch_npu.__version__ == '2.13.0'",
        "torch.npu.mstx.range_push('a'); torch.npu.mstx.range_pop()",
        "with torch.npu.mstx.annotate('a'): pass",
        "import torch_npu; torch_npu.profiler.schedule(wait=1, active=1, skip_first_wait=1)",
        "torch.npu.npurt",
        "import os; os.environ['TORCH_NPU_DEVICE_CAPABILITY'] = '8.0'",
        "assert torch.npu.get_device_capability() == (8, 0)",
    ],
    "musa": [
        "import torch_musa, sys; assert torch_musa is torch.musa is sys.modules['torch_musa']",
        "import torch_musa; assert torch_musa.__version__ == '2.7.1'",
        "from torch_musa import amp",
        "from torch_musa.core.amp import autocast, GradScaler",
        "import pickle; pickle.loads(pickle.dumps(torch.musa.amp.GradScaler()))",
        "from torch_musa.utils.musa_extension import MUSAExtension, BuildExtension, load, load_inline",
        "from torch_musa.optim import FusedAdamW",
        "assert not torch.backends.mudnn.allow_tf32; torch.backends.mudnn.allow_tf32 = True",
        "with torch.backends.mudnn.flags(allow_tf32=False): assert not torch.backends.mudnn.allow_tf32",
        "assert torch.backends.mudnn.allow_tf32",
        "assert torch.profiler.ProfilerActivity.MUSA == torch.profiler.ProfilerActivity.PrivateUse1",
        "with torch.musa.fork_rng(devices=[0]): pass",
        "with torch.musa.amp.autocast(): assert torch.is_autocast_enabled() and not torch.is_autocast_enabled('cpu')",
        "assert torch.distributed.is_mccl_available(); assert torch.version.musa is None",
        "assert torch.musa.is_tf32_supported() == (torch.musa.get_device_capability() >= (2, 2))",
    ],
    "sdaa": [
        "import torch_sdaa; import torch.sdaa; from torch.sdaa import amp",
        "from torch_sdaa.amp import autocast, GradScaler",
        "from torch_sdaa.optim import FusedAdam, FusedSGD",
        "from torch_sdaa.utils.cpp_extension import TecoExtension, BuildExtension, load_inline",
        "torch.profiler.ProfilerActivity.SDAA",
    ],
    "gcu": [
        "import torch_gcu; assert torch_gcu.__version__ == '2.10.0'; assert torch_gcu.gcu is torch.gcu",
        "from torch_gcu.gcu.amp import autocast, GradScaler",
        "import torch.gcu.amp; import torch_gcu.gcu.efficient; import torch_gcu.gcu.profiler",
        "with torch.gcu.topstx.range('step {}', 1): pass",
        "torch.profiler.ProfilerActivity.GCU; assert torch.distributed.is_eccl_available()",
        "assert torch.gcu.gcu_device(1) == torch.device('gcu:1')",
        "with torch.profiler.profile() as p: torch.ones(2) + 1\n"
        "p.key_averages().table(sort_by='self_gcu_time_total'); assert p.key_averages()[0].gcu_time_total == 0",
        "assert torch.int32 in torch.gcu.get_amp_supported_dtype()",
    ],
    "ptex": [
        "import ptex; assert ptex.device('xla') == torch.device('xla:0'); assert ptex.device('xla:1').index == 1",
        "import ptex; assert ptex.device_count() == 2; ptex.tops.manual_seed_all(3)",
        "assert hasattr(torch, 'gcu') and not torch.gcu.is_available()",  # as the T20 manual's own check wants it
        "import torch_gcu; assert torch_gcu.is_available(); assert torch_gcu.gcu_device(1) == torch.device('xla:1')",
        "import torch_gcu; torch_gcu.synchronize(); torch_gcu.sync_lived_tensor()",
        "import torch_gcu\nwith torch_gcu.device(1): assert torch_gcu.current_device() == 1",
        "assert torch.ones(2, device='xla').is_gcu(); assert not torch.ones(2).is_gcu()",
        "import torch_gcu; torch_gcu.unlazy([torch.ones(2, device='xla')])",
        "from torch_gcu.amp import autocast, GradScaler, custom_fwd, custom_bwd; GradScaler(use_zero_grad=True)",
        "from torch_gcu.amp.common import amp_definitely_not_available; assert not amp_definitely_not_available()",
        "from torch_gcu.nn.parallel import DistributedDataParallel, DataParallel",
        "from torch_gcu.nn.parallel.comm import broadcast",
        "from torch_gcu.utils.data.distributed import DistributedSampler",
        "from torch_gcu.distributed.optim import ZeroRedundancyOptimizer",
        "import torch_gcu.distributed as dist; assert dist.is_eccl_available()",
        "import torch_gcu.distributed as dist; assert dist.Backend('nccl') == 'undefined'",
        "import torch_gcu; torch_gcu.JitRunMode.SAFEASYNC",
    ],
}
"""What runs as on the card, by target."""

FAILS = {
    "npu@2.9.0": [
        ("torch.npu.nvtx", "AttributeError: module 'torch.npu' has no attribute 'nvtx'"),
        ("from torch_npu.npu import nvtx", "ImportError: cannot import name 'nvtx'"),
        ("import torch_npu.npu.nvtx", "ModuleNotFoundError: No module named 'torch_npu.npu.nvtx'"),
        (
            "import torch_npu; torch_npu.npu_conv2d()",
            "NotImplementedError: torch_npu.npu_conv2d exists in torch_npu 2.9.0",
        ),
        (
            "from torch_npu.contrib.module import BiLSTM; BiLSTM(1, 2)",
            "NotImplementedError: torch_npu.contrib.module.BiLSTM exists in torch_npu 2.9.0 but is not rehearsed",
        ),
        ("import torch_npu._inductor.no_such", "ModuleNotFoundError"),
        ("from torch_npu.contrib.module import no_such", "ImportError: cannot import name 'no_such'"),
        ("torch.npu._no_such", "AttributeError"),
        ("import torch_npu; torch_npu.npu_no_such_thing", "AttributeError: module 'torch_npu' has no attribute"),
        ("import torch_npu; torch_npu.profiler.schedule(wait=1, active=1, skip_first_wait=1)", "TypeError"),
        (FUSED.format("torch.npu.amp.GradScaler()"), "TypeError: Adam.step() got an unexpected keyword argument"),
        (
            "torch.npu.amp.GradScaler().load_state_dict(torch.amp.GradScaler('npu').state_dict())",
            "KeyError: 'dynamic'",
        ),
        ("torch.npu.get_device_name(device=0)", "TypeError: get_device_name() got an unexpected keyword argument"),
        ("torch.npu.matmul.cube_math_type = 1", "TypeError: value should be one of Enum CubeMathType"),
        ("torch.npu.config.allow_internal_format", "AttributeError"),
        ("from torch_npu.utils.cpp_extension import NpuExtension; NpuExtension('a', [])", "NotImplementedError: "),
        ("from torch_npu.npu.mstx import range_start", "ImportError: cannot import name 'range_start'"),
        ("torch.npu.NPUGraph()", "NotImplementedError: torch.npu.NPUGraph: graph capture is not rehearsed"),
        (
            "from torch_npu.optim import NpuFusedLamb; NpuFusedLamb([])",
            "NotImplementedError: torch_npu.optim.NpuFusedLamb",
        ),
    ],
    "npu@2.13.0": [("torch.npu.matmul.allow_hf32 = 1", "TypeError: allow_hf32 must be a bool")],
    "musa": [
        (
            "from torch_musa.utils.compare_tool import compare_tensors_tool; compare_tensors_tool()",
            "ImportError: cannot import name 'compare_tensors_tool'",
        ),
        ("from torch_musa.utils.compare_tool import CompareWithCPU as c; c()", "NotImplementedError: torch_musa.utils"),
        ("import torch_musa.testing.base_test_tool; torch.musa._MUSAC._no_such()", "AttributeError"),
        ("from torch_musa.amp import autocast", "ModuleNotFoundError: No module named 'torch_musa.amp'"),
        ("torch.musa.nvtx", "AttributeError: module 'torch.musa' has no attribute 'nvtx'"),
        ("from torch_musa import nvtx", "ImportError: cannot import name 'nvtx'"),
        ("torch.musa.get_device_properties()", "TypeError: get_device_properties() missing 1 required positional"),
        ("torch.backends.mudnn.allow_tf32 = 1", "TypeError: allow_tf32 must be a bool"),
        ("from torch_musa.utils.musa_extension import load; load('a', [])", "NotImplementedError: "),
        ("torch.musa.mccl.version()", "NotImplementedError: torch.musa.mccl.version exists in torch_musa 2.7.1"),
    ],
    "sdaa": [
        ("torch.sdaa.ipc_collect()", "AttributeError"),
        ("torch.sdaa.CUDAGraph", "AttributeError"),
    ],
    "gcu": [
        ("torch.gcu.utilization()", "AttributeError"),
        ("torch.gcu.get_device_properties()", "TypeError: get_device_properties() missing 1 required positional"),
        ("torch.gcu.memory.GCUPluggableAllocator('a', 'b', 'c')", "NotImplementedError: "),
    ],
    "ptex": [
        ("import ptex; ptex.device('gcu')", "RuntimeError: "),
        ("torch.gcu.device_count()", "RuntimeError: GCU not available"),
        ("import torch_gcu; torch_gcu.memory_allocated()", "AttributeError: module 'torch_gcu' has no attribute"),
        ("import torch_gcu; torch_gcu.manual_seed_all(2**32)", "ValueError: Seed must be"),
        ("import torch_gcu.distributed as d; d.init_process_group('gloo')", "RuntimeError: only support eccl"),
        ("import torch_gcu.distributed as d; d.gather", "AttributeError"),
        ("import torch_gcu.distributed as d; d.all_gather_object", "AttributeError"),
        ("import torch_gcu; torch_gcu.unlazy([torch.ones(1)])", "TypeError: Tensors must be a list of GCU tensor."),
        ("from torch_gcu.amp import autocast; autocast(dtype=torch.float32)", "RuntimeError: Current GCU Device"),
        ("from torch_gcu.nn.parallel import comm; comm.broadcast(1)", "NotImplementedError: "),
    ],
}
"""What fails as on the card, or because it is not rehearsed: the statement and how the error begins."""

NOTED = {
    "npu@2.9.0": [
        ("not-rehearsed", "torch_npu.contrib.module.BiLSTM"),
        ("missing-api", "torch_npu.contrib.module.no_such"),
        ("missing-api", "torch_npu.npu_no_such_thing"),
        ("missing-api", "torch.npu.nvtx"),
        ("unverified-api", "torch.npu._no_such"),
        ("unverified-api", "torch_npu._inductor.no_such"),
    ],
    "ptex": [("unverified-api", "torch.gcu.device_count")],
    "musa": [
        ("not-rehearsed", "torch_musa.utils.compare_tool.CompareWithCPU"),
        ("missing-api", "torch_musa.utils.compare_tool.compare_tensors_tool"),
        ("missing-api", "torch.musa.nvtx"),
        ("unverified-api", "torch.musa._MUSAC._no_such"),
    ],
}
"""What is noted of names that are not there: what the plugin has, what it lacks, and what no list tells."""


ROWS = """
import importlib, re
from torchferry.backends import registry
from torchferry.rehearsal.plugin_namespace import current

target = current().target
namespace = target.backend.NAMESPACE

def resolve(path):
    first, *rest = path.split(".")
    value, where = importlib.import_module(first), first
    for part in rest:
        where += "." + part
        value = getattr(value, part) if hasattr(value, part) else importlib.import_module(where)

seen = 0
for row in target.backend.table("api"):
    if row.status not in ("same", "renamed", "equivalent", "partial") or not row.holds_for(target.version):
        continue
    own = namespace + row.name[len("torch.cuda"):] if row.name.startswith("torch.cuda.") else row.name
    use = row.use or own
    if re.fullmatch(r"[\\w.]+", use):
        resolve(use)
        seen += 1
assert seen > 80, seen
"""


@pytest.mark.parametrize("name", ["npu@2.9.0", *registry.built_in()])
def test_what_the_table_says_to_use_is_there(name: str, tmp_path: Path) -> None:
    assert Process(name, tmp_path).run([first(name), ROWS]) == ["ok"] * 2


def first(name: str) -> str:
    """Return the import that a program of the target begins with."""
    backend = registry.choose(name).backend
    return f"import {backend.PLUGIN}"


@pytest.mark.parametrize("name", WORKS)
def test_works(name: str, tmp_path: Path) -> None:
    results = Process(name, tmp_path).run([first(name), *WORKS[name]])
    assert [pair for pair in zip(WORKS[name], results[1:], strict=True) if pair[1] != "ok"] == []
    assert results[0] == "ok"


@pytest.mark.parametrize("name", FAILS)
def test_fails(name: str, tmp_path: Path) -> None:
    process = Process(name, tmp_path)
    results = process.run([first(name), *(statement for statement, _ in FAILS[name])])
    kinds: dict[str, set[str]] = {}
    for kind, subject in process.seen:
        kinds.setdefault(subject, set()).add(kind)
    assert [(kind, subject) for kind, subject in NOTED.get(name, ()) if kinds.get(subject) != {kind}] == []
    wrong = [
        (statement, result)
        for (statement, expected), result in zip(FAILS[name], results[1:], strict=True)
        if not result.startswith(expected)
    ]
    assert wrong == []


STEP = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 8).to("{device}")
optimizer = {optimizer}
scaler = {amp}.GradScaler(init_scale=8.0)
x = torch.randn(4, 8).to("{device}")
for _ in range(3):
    optimizer.zero_grad()
    with {amp}.autocast():
        loss = model(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
assert str(loss.device) == "{device}:0"
assert loss.item() < 10
"""

STREAMS = """
start, end = {m}.Event(enable_timing=True), {m}.Event(enable_timing=True)
stream = {m}.Stream()
assert {m}.current_stream() == {m}.default_stream()
with {m}.stream(stream):
    assert {m}.current_stream() == stream and isinstance({m}.current_stream(), {m}.Stream)
    start.record()
    end.record()
stream.wait_event(end)
stream.wait_stream({m}.current_stream())
stream.synchronize()
assert stream.query() and end.query()
assert start.elapsed_time(end) >= 0
assert isinstance(stream.record_event(), {m}.Event)
try:
    {m}.Event().elapsed_time(end)
    raise SystemExit("measured without enable_timing")
except RuntimeError as error:
    assert "enable_timing" in str(error)
assert isinstance(stream.{name}_stream, int)
"""

TENSORS = """
x = {m}.FloatTensor([1.0, 2.0])
assert isinstance(x, {m}.FloatTensor) and not isinstance(x, {m}.HalfTensor) and not isinstance(x.cpu(), {m}.FloatTensor)
assert x.device.type == "{name}" and {m}.LongTensor(2, 3).shape == (2, 3)
assert x.type() == "torch.{name}.FloatTensor"
assert x.type({m}.HalfTensor).dtype == torch.float16
assert x.{name}() is x and x.is_{name}
"""

MEMORY = """
before = {m}.memory_allocated()
x = torch.ones(1 << 18, device="{name}")
assert {m}.memory_allocated() - before == 1 << 20
del x
assert {m}.memory_allocated() == before
assert {m}.max_memory_allocated() - before >= 1 << 20
{m}.reset_peak_memory_stats()
assert {m}.max_memory_allocated() == before
free, total = {m}.mem_get_info()
assert 0 < free <= total
{m}.empty_cache()
"""

RANDOM = """
torch.manual_seed(3)
first = torch.randn(4, device="{name}")
{m}.manual_seed_all(3)
assert torch.equal(first, torch.randn(4, device="{name}"))
state = {m}.get_rng_state()
second = torch.randn(4, device="{name}")
{m}.set_rng_state(state)
assert torch.equal(second, torch.randn(4, device="{name}"))
assert len({m}.default_generators) == 2 and {m}.initial_seed() == 3
with torch.random.fork_rng(devices=[0], device_type="{name}"):
    torch.randn(4, device="{name}")
assert torch.equal({m}.get_rng_state_all()[0], {m}.get_rng_state(0))
"""


@pytest.mark.parametrize("name", WITH_NAMESPACE)
def test_the_namespace_drives_the_device(name: str, tmp_path: Path) -> None:
    module = f"torch.{name}"
    step = STEP.format(device=name, optimizer="torch.optim.AdamW(model.parameters())", amp=f"{module}.amp")
    parts = [part.format(m=module, name=name) for part in (STREAMS, TENSORS, MEMORY, RANDOM)]
    results = Process(name, tmp_path).run([first(name), step, *parts])
    assert results == ["ok"] * 6


def test_ptex_drives_the_device(tmp_path: Path) -> None:
    step = "import torch_gcu\n" + STEP.format(
        device="xla", optimizer="torch.optim.SGD(model.parameters(), lr=0.1)", amp="torch_gcu.amp"
    )
    lazy = """
import torch_gcu
model = torch.nn.Linear(2, 1).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
before = model.weight.detach().clone()
loss = model(torch.ones(3, 2, device="xla")).sum()
loss.backward()
assert torch_gcu.optimizer_step(optimizer, [loss], model=model, mode=torch_gcu.JitRunMode.SAFEASYNC) is None
assert not torch.equal(before, model.weight)
assert len(torch_gcu.fetch_gradients(optimizer)) == 2 and torch_gcu.collect_buffers(model) == []
"""
    generator = """
try:
    torch.Generator(device="xla")
    raise SystemExit("it has a generator")
except NotImplementedError as error:
    assert "has no generator of its own" in str(error)
assert torch.Generator().manual_seed(1).initial_seed() == 1
"""
    # The first statement: nothing has used the device when the seed is set.
    seeded = """
import ptex, torch_gcu
draws = []
for seed in (ptex.tops.manual_seed_all, torch_gcu.manual_seed_all):
    seed(5)
    draws.append(torch.nn.functional.dropout(torch.ones(64, device="xla"), 0.5).tolist())
assert draws[0] == draws[1]
"""
    process = Process("ptex", tmp_path)
    assert process.run([seeded, first("ptex"), step, lazy, generator]) == ["ok"] * 5
    assert ("missing-api", "torch.Generator") in process.seen


GROUP = """
import os, tempfile, torch.distributed as torchs
import torch_gcu.distributed as dist
file = tempfile.NamedTemporaryFile(delete=False).name
assert not torchs.is_initialized()
dist.init_process_group("eccl", init_method=f"file://{file}", rank=0, world_size=1)
assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_backend() == "eccl"
assert not torchs.is_initialized()  # on the card torch's own module has no group
try:
    torchs.get_rank()
    raise SystemExit("torch.distributed has a group")
except RuntimeError as error:
    assert "has not been initialized" in str(error)
dist.destroy_process_group()
"""


def test_ptex_has_a_group_of_its_own(tmp_path: Path) -> None:
    process = Process("ptex", tmp_path)
    assert process.run([first("ptex"), GROUP]) == ["ok"] * 2
    assert ("backend", "torch.distributed.get_rank") in process.seen


ATTENTION = """
import torch_npu
torch.manual_seed(0)
q, k, v = (torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3))
causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
full = torch.nn.functional.scaled_dot_product_attention(q, k, v)
compressed = torch.triu(torch.ones(2048, 2048), 1).bool().npu()
layouts = {
    "BNSD": (lambda t: t, lambda t: t),
    "BSND": (lambda t: t.transpose(1, 2), lambda t: t.transpose(1, 2)),
    "BSH": (lambda t: t.transpose(1, 2).flatten(2), lambda t: t.unflatten(2, (4, 8)).transpose(1, 2)),
    "SBH": (lambda t: t.permute(2, 0, 1, 3).flatten(2), lambda t: t.unflatten(2, (4, 8)).permute(1, 2, 0, 3)),
}
for layout, (there, back) in layouts.items():
    given = [there(t.npu()) for t in (q, k, v)]
    result = torch_npu.npu_fusion_attention(*given, 4, layout, scale=8**-0.5)
    assert len(result) == 7 and result[1].shape == (2, 4, 6, 8) and result[3].numel() == 0
    torch.testing.assert_close(back(result[0]).cpu(), full)
    for mode in (2, 3):
        options = {"scale": 8**-0.5, "atten_mask": compressed, "sparse_mode": mode}
        masked = torch_npu.npu_fusion_attention(*given, 4, layout, **options)
        torch.testing.assert_close(back(masked[0]).cpu(), causal)
mask = torch.triu(torch.ones(6, 6), 1).bool().npu()
given = [t.npu() for t in (q, k, v)]
masked = torch_npu.npu_fusion_attention(*given, 4, "BNSD", scale=8**-0.5, atten_mask=mask)
torch.testing.assert_close(masked[0].cpu(), causal)
band = torch_npu.npu_fusion_attention(
    *given, 4, "BNSD", scale=8**-0.5, atten_mask=compressed, sparse_mode=4, pre_tockens=6, next_tockens=0
)
torch.testing.assert_close(band[0].cpu(), causal)
few = torch_npu.npu_fusion_attention(given[0], given[1][:, :2], given[2][:, :2], 4, "BNSD", scale=8**-0.5)[0]
grouped = torch.nn.functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
torch.testing.assert_close(few.cpu(), grouped)
packed = [t.npu().transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
ends = [6, 12]
result = torch_npu.npu_fusion_attention(
    *packed, 4, "TND", scale=8**-0.5, atten_mask=compressed, sparse_mode=3, actual_seq_qlen=ends, actual_seq_kvlen=ends
)[0]
torch.testing.assert_close(result.unflatten(0, (2, 6)).transpose(1, 2).cpu(), causal)
torch_npu.npu_fusion_attention(*given, 4, "BNSD", scale=8**-0.5)[0].sum().backward()
expected = torch.autograd.grad(full.sum(), q)[0]
torch.testing.assert_close(q.grad, expected)
"""

FORMULAS = """
import torch_npu
x, gamma = torch.randn(2, 3, 8), torch.randn(8)
result, inverse = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), epsilon=1e-5)
torch.testing.assert_close(result.cpu(), torch.nn.functional.rms_norm(x, (8,), gamma, 1e-5))
assert inverse.shape == (2, 3, 1)
torch.testing.assert_close(torch_npu.npu_swiglu(x.npu()).cpu(), torch.nn.functional.silu(x[..., :4]) * x[..., 4:])
activated = torch.nn.functional.gelu(x[..., 4:], approximate="tanh")
product, gelu = torch_npu.npu_geglu(x.npu(), dim=-1, approximate=1)
torch.testing.assert_close((product.cpu(), gelu.cpu()), (x[..., :4] * activated, activated))
angle = torch.randn(2, 3, 4)
cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
turned = torch_npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu()).cpu()
torch.testing.assert_close(torch.view_as_complex(torch.stack(turned.chunk(2, -1), -1)),
    torch.view_as_complex(torch.stack(x.chunk(2, -1), -1)) * torch.polar(torch.ones(2, 3, 4), angle))
assert torch_npu.npu_format_cast(x, 29) is x
"""

OPTIMIZERS = """
import torch_npu
for own, torchs, extra in (
    (torch_npu.optim.NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch_npu.optim.NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.1}),
    (torch_npu.optim.NpuFusedAdadelta, torch.optim.Adadelta, {"lr": 0.1}),
):
    ours, theirs = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for parameter, kind in ((ours, own), (theirs, torchs)):
        optimizer = kind([parameter], **extra)
        assert isinstance(optimizer, torchs)
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours, theirs)
    assert isinstance(own([ours], **extra), torch_npu.optim.NpuFusedOptimizerBase)
"""

PROFILER = """
import os, tempfile, torch_npu
folder = tempfile.mkdtemp()
activities = [torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU]
with torch_npu.profiler.profile(
    activities=activities,
    schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
    on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder),
    record_shapes=True,
    experimental_config=torch_npu.profiler._ExperimentalConfig(profiler_level=torch_npu.profiler.ProfilerLevel.Level1),
) as profiler:
    for _ in range(3):
        torch.ones(2).npu() + 1
        profiler.step()
assert len(os.listdir(folder)) == 1
"""


def test_npu_operators_optimizers_and_profiler(tmp_path: Path) -> None:
    process = Process("npu", tmp_path)
    assert process.run([first("npu"), ATTENTION, FORMULAS, OPTIMIZERS, PROFILER]) == ["ok"] * 5


def test_what_was_missing_is_noted(tmp_path: Path) -> None:
    process = Process("npu", tmp_path)
    process.run([first("npu"), "torch.npu.nvtx", "hasattr(torch.npu, 'comm')", "torch.npu.MemPool()"])
    assert ("missing-api", "torch.npu.nvtx") in process.seen
    assert ("not-rehearsed", "torch.npu.MemPool") in process.seen
    assert ("missing-api", "torch.npu.comm") not in process.seen


@pytest.mark.parametrize(
    ("name", "statement", "kind", "subject"),
    [
        ("npu", "from torch_npu.npu.nvtx import range_push", "missing-api", "torch.npu.nvtx"),
        ("npu", "from torch_npu.npu import nvtx", "missing-api", "torch.npu.nvtx"),
        ("npu", "import torch_npu.amp", "missing-api", "torch_npu.amp"),
        ("musa", "from torch_musa.amp import autocast", "missing-api", "torch.musa.amp"),
        ("sdaa", "import torch_sdaa.core", "unverified-api", "torch_sdaa.core"),
    ],
)
def test_an_import_that_fails_is_noted(name: str, statement: str, kind: str, subject: str, tmp_path: Path) -> None:
    process = Process(name, tmp_path)
    (_, result) = process.run([first(name), statement])
    assert result.startswith(("ModuleNotFoundError", "ImportError"))
    assert {pair for pair in process.seen if pair[0].endswith("-api")} == {(kind, subject)}


@pytest.mark.parametrize(
    ("name", "statement", "variables"),
    [
        ("npu", "from torch_npu.contrib import transfer_to_npu", {}),
        ("npu", "import torch_npu", {"TORCH_TRANSFER_TO_NPU": "1"}),
        ("sdaa", "from torch_sdaa.utils import cuda_migrate", {}),
        ("sdaa", "import torch_sdaa", {"TORCH_SDAA_AUTOLOAD": "cuda_migrate"}),
        ("gcu", "from torch_gcu import transfer_to_gcu", {}),
    ],
)
def test_the_vendors_redirection_is_done_by_ours_and_said(
    name: str, statement: str, variables: dict[str, str], tmp_path: Path
) -> None:
    process = Process(name, tmp_path)
    results = process.run(
        [first(name), statement, "assert torch.cuda.is_available()", "assert torch.ones(1).cuda().is_cuda"], **variables
    )
    assert results == ["ok"] * 4
    assert "not-rehearsed" in {kind for kind, _ in process.seen}


ORDERS = {
    "plugin by torch": "import torch; torch.ones(2, device={device!r}); import {plugin}",
    "torch first": "import torch; import {plugin}; torch.ones(2, device={device!r})",
    "plugin first": "import {plugin}; import torch; torch.ones(2, device={device!r})",
    "from the plugin first": "from {plugin} import {device}; import torch; torch.ones(2, device={device!r})",
}


@pytest.mark.parametrize("name", WITH_NAMESPACE)
def test_torch_and_plugin_are_imported_in_any_order(name: str, tmp_path: Path) -> None:
    interpreter = sys.executable if name == WITH_NAMESPACE[0] else warm_python.python()
    choice = registry.choose(name)
    rehearsal = Rehearsal(name, make_profile(Target(choice.backend, choice.version), devices=2))
    site.fill(tmp_path, rehearsal)
    path = os.pathsep.join([*site.paths(tmp_path, rehearsal), str(PACKAGE.parent)])
    for order, program in ORDERS.items():
        if name == "musa" and "from" in order:
            continue  # there the package is the namespace
        done = subprocess.run(
            [interpreter, "-c", program.format(plugin=choice.backend.PLUGIN, device=choice.backend.DEVICE_TYPE)],
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{order}: {done.stderr}"


@pytest.mark.parametrize("name", registry.built_in())
def test_a_package_outside_a_rehearsal_says_so(name: str, tmp_path: Path) -> None:
    (result,) = Process(name, tmp_path).run([first(name)], **{VARIABLE: ""})
    assert result == "SystemExit: 2"
