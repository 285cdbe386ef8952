"""Small CUDA programs, and what each prints under the redirect: on every target, or where one differs, on that one."""

from __future__ import annotations

from typing import NamedTuple


class Program(NamedTuple):
    """A program.

    Attributes:
        name: What it shows.
        code: Its text.
        prints: What it prints.
        differs: What it prints on some targets instead; a text that begins with `...` is a part of what is printed.
    """

    name: str
    code: str
    prints: str
    differs: dict[str, str] = {}  # noqa: RUF012 - never mutated


NPU, MUSA, SDAA, GCU, PTEX = "npu", "musa", "sdaa", "gcu", "ptex"

UNCHANGED = [
    Program(
        "a path with the word in it",
        """
import os, tempfile, torch
folder = tempfile.mkdtemp()
path = os.path.join(folder, "model_cuda.pt")
torch.save(torch.ones(2), path)
print(torch.load(path).tolist(), os.listdir(folder))
""",
        "[1.0, 1.0] ['model_cuda.pt']",
    ),
    Program(
        "a CPU tensor stays one",
        """
import torch
x = torch.ones(2)
print(x.device, x.is_cuda, x.type(), x.to(torch.float64).dtype, x.cpu() is x, x.to("cpu") is x)
""",
        "cpu False torch.FloatTensor torch.float64 True True",
    ),
    Program(
        "the meta device",
        """
import torch
print(torch.empty(3, device="meta").device, torch.ones(2, device="meta").to("meta").is_cuda)
""",
        "meta False",
    ),
    Program(
        "the name of a group's backend",
        """
import tempfile, torch, torch.distributed as dist
def start(backend, **more):
    dist.init_process_group(backend, init_method="file://" + tempfile.mktemp(), rank=0, world_size=1, **more)
for backend in ("nccl", dist.Backend.NCCL, dist.Backend("NCCL")):
    torch.cuda.set_device(0)
    start(backend)
    print(dist.get_backend(), dist.get_backend() == dist.Backend.NCCL)
    dist.destroy_process_group()
""",
        "nccl True\nnccl True\nnccl True",
    ),
    Program(
        "a group over two backends",
        """
import tempfile, torch, torch.distributed as dist
torch.cuda.set_device(0)
for backend in ("cpu:gloo,cuda:nccl", None):
    try:
        dist.init_process_group(backend, init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
        dist.destroy_process_group()
        print("made")
    except NotImplementedError as error:
        print(error)
""",
        "made\nmade",
        {
            PTEX: "\n".join(
                2 * ["torchferry: Enflame T20 does not support one backend for each device type; use only `nccl`"]
            )
        },
    ),
    Program(
        "an argument that a plugin's own function lacks",
        """
import tempfile, torch, torch.distributed as dist
place = "file://" + tempfile.mktemp()
dist.init_process_group("gloo", init_method=place, rank=0, world_size=1, device_id=None)
print("made")
dist.destroy_process_group()
""",
        "made",
        {PTEX: "...torchferry: "},
    ),
    Program(
        "a dictionary's key",
        """
print({"cuda": 1}["cuda"], "cuda".upper())
""",
        "1 CUDA",
    ),
    Program(
        "a device that is no device",
        """
import torch
torch.ones(1).to("cudaa")
""",
        "...RuntimeError: Expected one of cpu, cuda",
    ),
    Program(
        "gloo stays gloo",
        """
import os, tempfile, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
print(dist.get_backend(), dist.is_backend_available("gloo"))
dist.destroy_process_group()
""",
        "gloo True",
        {PTEX: "...NotImplementedError: torchferry: Enflame T20 has no process groups over `gloo`; use only `nccl`"},
    ),
    Program(
        "what torch was built for is said as it is",
        """
import torch
print(torch.version.cuda, torch.backends.cudnn.is_available())
""",
        "None False",
    ),
    Program(
        "torch.device is what it was",
        """
import pickle, torch
device = torch.device("cuda:1")
print(type(device) is torch.device, device, device.type, device.index, pickle.loads(pickle.dumps(device)) == device)
""",
        "True cuda:1 cuda 1 True",
    ),
]

DEVICES = [
    Program("is there one", "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())", "True 2"),
    Program(
        "the usual line",
        """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.zeros(2, 3, device=device)
print(device.type == x.device.type, x.device, x.is_cuda, x.get_device(), x.type())
""",
        "True cuda:0 True 0 torch.cuda.FloatTensor",
    ),
    Program(
        "which cards the program wants to see",
        """
import os
from torchferry.shim.redirect import current
use = current().target.row("env", "CUDA_VISIBLE_DEVICES").use
told = []
for wanted in ("1", "0, 1", "0,-1,1", "-1", ""):
    os.environ["CUDA_VISIBLE_DEVICES"] = wanted
    told.append(os.environ[use])
del os.environ["CUDA_VISIBLE_DEVICES"]
print(told, use in os.environ)
""",
        "['1', '0,1', '0', '-1', '-1'] False",
    ),
    Program(
        "cards by an identity of NVIDIA's",
        """
import os
try:
    os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
finally:
    print("CUDA_VISIBLE_DEVICES" in os.environ)
""",
        "...ValueError: torchferry: `CUDA_VISIBLE_DEVICES=GPU-8932f937",
    ),
    Program(
        "cards in another order",
        """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"
print(os.environ.pop("CUDA_VISIBLE_DEVICES"))
""",
        "1,0",
        {NPU: "...accepts only ascending numbers"},
    ),
    Program(
        "compared as CUDA's",
        """
import torch
x = torch.ones(2).cuda()
print(x.device == torch.device("cuda:0"), x.device.type == "cuda", str(x.device), f"{x.device}")
""",
        "True True cuda:0 cuda:0",
    ),
    Program(
        "a move to where it is gives itself",
        """
import torch
x = torch.ones(2, device="cuda")
print(x.to("cuda") is x, x.cuda() is x, x.to(x.device) is x, x.to(torch.device("cuda", 0)) is x, x.cuda(0) is x)
""",
        "True True True True True",
    ),
    Program(
        "the second device",
        """
import torch
x = torch.ones(1, device="cuda:1")
print(x.device, x.to("cuda:0").device, x.to(0).device, torch.ones(1).cuda(1).device)
torch.cuda.set_device("cuda:1")
print(torch.cuda.current_device(), torch.ones(1, device="cuda").device)
torch.cuda.set_device(0)
""",
        "cuda:1 cuda:0 cuda:0 cuda:1\n1 cuda:1",
    ),
    Program(
        "device contexts",
        """
import torch
with torch.cuda.device(1):
    print(torch.cuda.current_device(), torch.ones(1).cuda().device)
with torch.cuda.device(torch.device("cuda:1")):
    print(torch.cuda.current_device())
print(torch.cuda.current_device())
""",
        "1 cuda:1\n1\n0",
    ),
    Program(
        "a context of torch",
        """
import torch
with torch.device("cuda"):
    x = torch.arange(3)
    layer = torch.nn.Linear(2, 2)
print(x.device, layer.weight.device, torch.ones(1).device)
""",
        "cuda:0 cuda:0 cpu",
    ),
    Program(
        "the default device",
        """
import torch
torch.set_default_device("cuda")
x = torch.ones(2)
print(x.device, torch.get_default_device())
torch.set_default_device(None)
print(torch.ones(2).device)
""",
        "cuda:0 cuda:0\ncpu",
    ),
    Program(
        "a module",
        """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
print({p.device.type for p in model.to("cuda").parameters()}, {b.is_cuda for b in model.buffers()})
print({p.device.type for p in model.cpu().parameters()}, {p.device.type for p in model.cuda().parameters()})
print(next(torch.nn.Linear(2, 2, device="cuda").parameters()).device)
print(torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.device)
""",
        "{'cuda'} {True}\n{'cpu'} {'cuda'}\ncuda:0\ncuda:0",
    ),
    Program(
        "factories",
        """
import torch
made = [torch.zeros(1, device="cuda"), torch.arange(2, device="cuda"), torch.tensor([1], device="cuda"),
        torch.as_tensor([1.0], device="cuda"), torch.asarray([1.0], device="cuda"), torch.eye(2, device="cuda"),
        torch.full((1,), 2.0, device="cuda"), torch.randn(2, device="cuda"), torch.randperm(4, device="cuda"),
        torch.linspace(0, 1, 3, device="cuda"), torch.empty(1, device="cuda"), torch.tril_indices(2, 2, device="cuda"),
        torch.zeros_like(torch.ones(1), device="cuda"), torch.ones(1).new_zeros(2, device="cuda"),
        torch.ones(1).new_tensor([2.0], device="cuda"), torch.fft.fftfreq(4, device="cuda"),
        torch.hann_window(4, device="cuda"), torch.empty_strided((2, 2), (2, 1), device="cuda"),
        torch.normal(0.0, 1.0, (2,), device="cuda")]
print({x.device.type for x in made}, len(made))
""",
        "{'cuda'} 19",
    ),
    Program(
        "a name taken early",
        """
import torch
from torch import zeros
to = torch.Tensor.to
print(zeros(2, device="cuda").device, to(torch.ones(1), "cuda").device)
""",
        "cuda:0 cuda:0",
    ),
    Program(
        "types by name",
        """
import torch
x = torch.ones(2).type("torch.cuda.HalfTensor")
print(x.dtype, x.device, x.type())
""",
        "torch.float16 cuda:0 torch.cuda.HalfTensor",
    ),
    Program(
        "generators",
        """
import torch
g = torch.Generator(device="cuda").manual_seed(3)
a = torch.randn(3, generator=g, device="cuda")
b = torch.randn(3, generator=torch.Generator("cuda").manual_seed(3), device="cuda")
print(torch.equal(a, b), g.device, isinstance(g, torch.Generator), isinstance(torch.default_generator, torch.Generator))
print(torch.Generator().device)
""",
        "True cuda:0 True True\ncpu",
        {PTEX: "...NotImplementedError: torchferry: Enflame T20 has no generator"},
    ),
    Program(
        "storages",
        """
import torch
s = torch.ones(2, device="cuda").untyped_storage()
print(s.device, s.is_cuda, torch.ones(2).untyped_storage().cuda().device)
""",
        "cuda:0 True cuda:0",
        {PTEX: "...torchferry: torch has no storages on Enflame T20: move the tensor instead"},
    ),
    Program(
        "pinning",
        """
import torch
x = torch.ones(4).pin_memory()
print(x.is_pinned(), x.to("cuda", non_blocking=True).sum().item())
""",
        "True 4.0",
        {PTEX: "...NotImplementedError: torchferry: torch cannot pin memory for Enflame T20"},
    ),
    Program(
        "a loader that pins",
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(4.0))
loader = DataLoader(data, batch_size=2, pin_memory=True, num_workers=1)
print([batch[0].cuda(non_blocking=True).sum().item() for batch in loader])
""",
        "[1.0, 5.0]",
    ),
    Program(
        "indices and mixing",
        """
import torch
x = torch.ones(2, device="cuda")
x + torch.ones(2)
""",
        "...RuntimeError: Expected all tensors to be on the same device",
    ),
    Program(
        "no numpy of a device tensor",
        """
import torch
torch.ones(2, device="cuda").numpy()
""",
        "...TypeError: can't convert",
    ),
]

NAMESPACE = [
    Program(
        "seeds",
        """
import torch
torch.cuda.manual_seed_all(7); a = torch.rand(2, device="cuda")
torch.manual_seed(7); b = torch.rand(2, device="cuda")
print(torch.equal(a, b))
""",
        "True",
    ),
    Program(
        "a call that frees what is cached",
        """
import torch
torch.cuda.memory.empty_cache()
torch.cuda.memory.empty_cache()
print("on it goes")
""",
        "on it goes",
        {PTEX: "on it goes\nwarning at line 3"},
    ),
    Program(
        "memory",
        """
import torch
torch.cuda.empty_cache()
before = torch.cuda.memory_allocated()
x = torch.zeros(1024, device="cuda")
print(torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() >= 4096)
""",
        "4096 True",
        {PTEX: "...has no `torch.cuda.memory_allocated`"},
    ),
    Program(
        "marks",
        """
import torch
from torch.cuda import nvtx
from torch.profiler import ProfilerActivity, profile
print(nvtx.range_pop())
with torch.autograd.profiler.profile() as seen:
    print(nvtx.range_push("outer"), nvtx.range_push("inner"), nvtx.range_pop(), nvtx.range_pop())
    handle = nvtx.range_start("started")
    nvtx.mark("moment")
    with nvtx.range("step {}", 3):
        nvtx.range_end(handle)
print(sorted({"outer", "inner", "started", "moment", "step 3"} & {event.name for event in seen.function_events}))
""",
        "-1\n0 1 1 0\n['inner', 'moment', 'outer', 'step 3']",
        {
            NPU: "-1\n0 1 1 0\n['inner', 'moment', 'outer']",
            MUSA: "-1\n0 1 1 0\n['inner', 'moment', 'outer', 'started', 'step 3']\nwarning at line 5",
            PTEX: "-1\n0 1 1 0\n['inner', 'moment', 'outer', 'started', 'step 3']\nwarning at line 5",
        },
    ),
    Program(
        "a library asks for a certain card of NVIDIA's",
        """
import os, sys, tempfile
folder = os.path.join(tempfile.mkdtemp(), "lightning_fabric", "accelerators")
os.makedirs(folder)
with open(os.path.join(folder, "cuda.py"), "w") as file:
    file.write("import torch\\ndef _is_ampere_or_later(): return torch.cuda.get_device_capability()[0] >= 0\\n")
sys.path.insert(0, folder.removesuffix(os.path.join("", "lightning_fabric", "accelerators")))
from lightning_fabric.accelerators.cuda import _is_ampere_or_later
print(_is_ampere_or_later(), sys.path.pop(0) != "")
""",
        "False True",
    ),
    Program(
        "a library keeps the generators of the devices in its list",
        """
import os, sys, tempfile, torch
folder = os.path.join(tempfile.mkdtemp(), "accelerate")
os.makedirs(folder)
names = "def is_cuda_available(): return torch.cuda.is_available()\\n"
for name, text in {
    "__init__": "__version__ = '1.15.0'\\n",
    "checkpointing": "import torch\\nfrom .asked import is_cuda_available\\n"
    "def save(): return torch.cuda.get_rng_state_all() if is_cuda_available() else []\\n"
    "def load(states):\\n    if is_cuda_available(): torch.cuda.set_rng_state_all(states)\\n",
    "asked": "import torch\\n" + names,
}.items():
    with open(os.path.join(folder, name + ".py"), "w") as file:
        file.write(text)
sys.path.insert(0, os.path.dirname(folder))
from accelerate import checkpointing
states = checkpointing.save()
before = torch.randn(3, device="cuda")
checkpointing.load(states)
print(torch.equal(before, torch.randn(3, device="cuda")), sys.path.pop(0) != "")
""",
        "True True",
        {PTEX: "..."},
    ),
    Program(
        "is it wrapped for several ranks",
        """
import torch
from torch.nn.parallel import DistributedDataParallel as Wrapped
print(isinstance(torch.nn.Linear(1, 1), Wrapped), issubclass(torch.nn.Linear, Wrapped), issubclass(Wrapped, Wrapped))
""",
        "False False True",
    ),
    Program(
        "the ranks of a group",
        """
import os, tempfile, torch.distributed as dist
dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
print(dist.is_initialized(), dist.get_world_size(), dist.get_rank())
dist.destroy_process_group()
print(dist.is_initialized())
""",
        "True 1 0\nFalse",
    ),
    Program(
        "sharded models and a mesh",
        """
import os, tempfile, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
mesh = init_device_mesh("cuda", (1,))
whole, parts = (torch.nn.Linear(4, 4).cuda() for _ in range(2))
for model in (FullyShardedDataParallel(whole, device_id=0), fully_shard(parts, mesh=mesh)):
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    print(next(model.parameters()).grad.device, mesh.device_type)
dist.destroy_process_group()
""",
        "cuda:0 cuda\ncuda:0 cuda",
        {PTEX: "...has no `torch.distributed.fsdp.FullyShardedDataParallel`"},
    ),
    Program(
        "streams and events",
        """
import torch
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    x = torch.ones(3, device="cuda") * 2
torch.cuda.current_stream().wait_stream(stream)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); end.record(); torch.cuda.synchronize()
print(x.sum().item(), isinstance(stream, torch.cuda.Stream), start.elapsed_time(end) >= 0)
""",
        "6.0 True True",
        {PTEX: "...has no `torch.cuda.Stream`"},
    ),
    Program(
        "a stream on a named device",
        """
import torch
print(torch.cuda.Stream(device="cuda:1").device_index, torch.cuda.current_stream("cuda:1").device_index)
""",
        "1 1",
        {PTEX: "...has no `torch.cuda.Stream`"},
    ),
    Program(
        "amp",
        """
import torch
layer = torch.nn.Linear(4, 4).cuda()
x = torch.ones(2, 4, device="cuda")
with torch.cuda.amp.autocast():
    print(layer(x).dtype)
with torch.cuda.amp.autocast(enabled=False):
    print(layer(x).dtype)
print(layer(x).dtype)
""",
        "torch.float16\ntorch.float32\ntorch.float32",
    ),
    Program(
        "torch.autocast",
        """
import torch
layer = torch.nn.Linear(4, 4).cuda()
x = torch.ones(2, 4, device="cuda")
for kind in (torch.autocast, torch.amp.autocast):
    with kind("cuda", dtype=torch.float16):
        print(layer(x).dtype, torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled())
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(layer(x).dtype, torch.is_autocast_enabled("cpu"))
""",
        "torch.float16 True True\ntorch.float16 True True\ntorch.float32 True",
    ),
    Program(
        "torch.autocast to a dtype that it has not is off, with a warning",
        """
import torch, warnings
layer = torch.nn.Linear(4, 4).cuda()
x = torch.ones(2, 4, device="cuda")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    with torch.autocast("cuda", dtype=torch.float32, cache_enabled=False):
        print(layer(x).dtype)
    with torch.autocast("cuda", enabled=False, dtype=torch.float32):
        print(layer(x).dtype)
print(len(seen))
""",
        "torch.float32\ntorch.float32\n1",
        {NPU: "torch.float32\ntorch.float32\n0", GCU: "torch.float32\ntorch.float32\n0"},  # float32 is in their lists
    ),
    Program(
        "a scaler trains",
        """
import torch
torch.manual_seed(0)
layer = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
scaler = torch.cuda.amp.GradScaler()
x = torch.ones(8, 4, device="cuda")
for step in range(3):
    with torch.cuda.amp.autocast():
        loss = layer(x).float().pow(2).mean()
    optimizer.zero_grad(); scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
print(scaler.is_enabled(), scaler.get_scale() > 1, loss.item() < 1)
""",
        "True True True",
    ),
    Program(
        "a scaler with a fused optimizer",
        """
import torch
layer = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
scaler = torch.cuda.amp.GradScaler(2.0**8)
scaler.load_state_dict(torch.amp.GradScaler("cuda", 2.0**10).state_dict())
scaler.scale(layer(torch.ones(8, 4, device="cuda")).sum()).backward(); scaler.step(optimizer); scaler.update()
print(scaler.get_scale(), isinstance(scaler, torch.cuda.amp.GradScaler))
""",
        "1024.0 True",
        {MUSA: "...torch.optim.AdamW(fused=True) is not supported", PTEX: "...`fused=True` requires all the params"},
    ),
    Program(
        "torch.amp.GradScaler",
        """
import torch
print(torch.amp.GradScaler().is_enabled(), torch.amp.GradScaler("cuda").is_enabled())
""",
        "True True",
    ),
    Program(
        "state of the generator",
        """
import torch
state = torch.cuda.get_rng_state()
a = torch.rand(2, device="cuda")
torch.cuda.set_rng_state(state)
print(torch.equal(a, torch.rand(2, device="cuda")))
""",
        "True",
        {PTEX: "...has no `torch.cuda.get_rng_state`"},
    ),
    Program(
        "fork_rng",
        """
import torch
torch.cuda.manual_seed(1); torch.manual_seed(1)
with torch.random.fork_rng():
    torch.rand(2, device="cuda")
a = torch.rand(2, device="cuda")
torch.cuda.manual_seed(1); torch.manual_seed(1)
print(torch.equal(a, torch.rand(2, device="cuda")))
""",
        "True",
        {PTEX: "..."},
    ),
    Program(
        "imported by name",
        """
from torch.cuda import is_available, synchronize
from torch.cuda.amp import autocast, GradScaler
import torch.cuda.amp as amp
synchronize()
print(is_available(), amp.autocast is autocast)
""",
        "True True",
    ),
    Program(
        "an error of memory",
        """
import torch
try:
    torch.empty(1 << 50, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("out of memory")
""",
        "out of memory",
        {PTEX: "..."},
    ),
    Program(
        "properties",
        """
import torch
p = torch.cuda.get_device_properties(0)
print(p.total_memory > 0, isinstance(p.name, str), torch.cuda.get_device_name() == p.name)
""",
        "True True True",
        {PTEX: "...has no `torch.cuda.get_device_properties`"},
    ),
    Program(
        "checkpointing",
        """
import torch
from torch.utils.checkpoint import checkpoint
layer = torch.nn.Linear(3, 3).cuda()
x = torch.ones(2, 3, device="cuda", requires_grad=True)
checkpoint(layer, x, use_reentrant=False).sum().backward()
print(x.grad.shape, x.grad.device)
""",
        "torch.Size([2, 3]) cuda:0",
        {PTEX: "...has no attribute 'xla'"},
    ),
]

COMPILERS = [
    Program(
        "tracing",
        """
import torch
layer = torch.nn.Linear(2, 2).cuda()
traced = torch.jit.trace(layer, torch.ones(1, 2, device="cuda"))
print(torch.equal(traced(torch.ones(1, 2, device="cuda")), layer(torch.ones(1, 2, device="cuda"))))
""",
        "True",
    ),
    Program(
        "a scripted module",
        """
import torch
model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())).cuda()
print(model(torch.ones(1, 2, device="cuda")).device)
""",
        "cuda:0",
    ),
    Program(
        "symbolic tracing",
        """
import torch, torch.fx
class M(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(2, device="cuda") + torch.zeros_like(x)
print(torch.fx.symbolic_trace(M())(torch.ones(2, device="cuda")).tolist())
""",
        "[2.0, 2.0]",
    ),
    Program(
        "compiling",
        """
import torch
@torch.compile(backend="aot_eager")
def f(x):
    return x * 2 + torch.ones(x.shape[0], device="cuda") + torch.arange(x.shape[0], device=x.device)
print(f(torch.ones(2, device="cuda")).tolist())
""",
        "[3.0, 4.0]",
        {PTEX: "...has no `torch.compile`"},
    ),
    Program(
        "compiling what holds a device",
        """
import torch
device = torch.device("cuda")
@torch.compile(backend="aot_eager")
def f(x):
    return x.to(device) + torch.ones(2).cuda()
print(f(torch.ones(2, device="cuda")).tolist())
""",
        "[2.0, 2.0]",
        {PTEX: "...has no `torch.compile`"},
    ),
    Program(
        "exporting",
        """
import torch
class M(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(2, device=x.device) + torch.ones(2, device="cuda")
print(torch.export.export(M(), (torch.ones(2, device="cuda"),)).module()(torch.ones(2, device="cuda")).tolist())
""",
        "[2.0, 3.0]",
        {PTEX: "..."},
    ),
    Program(
        "pickling and copying",
        """
import copy, pickle, torch
x = torch.ones(2, device="cuda")
y = pickle.loads(pickle.dumps(x))
print(y.device, copy.deepcopy(x).device, copy.deepcopy(torch.nn.Linear(2, 2).cuda()).weight.device)
""",
        "cuda:0 cuda:0 cuda:0",
    ),
    Program(
        "vmap and grad",
        """
import torch
from torch.func import grad, vmap
print(vmap(grad(lambda x: (x ** 2).sum()))(torch.ones(2, 3, device="cuda")).device)
""",
        "cuda:0",
    ),
    Program(
        "fake tensors",
        """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    x = torch.ones(2, device="cuda")
    print((x + torch.zeros(2, device="cuda")).shape)
""",
        "torch.Size([2])",
    ),
]

FILES = [
    Program(
        "a file of CUDA, and places that are told",
        """
import io, torch, warnings
warnings.simplefilter("always")
b = io.BytesIO(); torch.save({"w": torch.ones(2)}, b)
def load(**options):
    b.seek(0)
    with warnings.catch_warnings(record=True) as said:
        return torch.load(b, **options)["w"].device, ["stay on the CPU" in str(each.message) for each in said]
print(load(map_location="cuda"), load(map_location={"cpu": "cuda:1"}), load())
print(load(map_location=lambda storage, location: storage.cuda(1)))
""",
        "(device(type='cuda', index=0), []) (device(type='cuda', index=1), []) (device(type='cpu'), [])\n"
        "(device(type='cuda', index=1), [])",
        {
            PTEX: "(device(type='cpu'), [True]) (device(type='cpu'), [True]) (device(type='cpu'), [])\n"
            "(device(type='cpu'), [True])"
        },
    ),
    Program(
        "map_location",
        """
import io, torch
b = io.BytesIO(); torch.save({"w": torch.ones(2, device="cuda")}, b)
def load(**options):
    b.seek(0)
    return torch.load(b, **options)["w"].device
print(load(), load(map_location="cpu"), load(map_location="cuda"), load(map_location=torch.device("cuda:1")))
print(load(map_location={"cuda:0": "cuda:1"}), load(map_location=lambda storage, location: storage))
print(load(map_location=lambda storage, location: storage.cuda(1)))
""",
        "cuda:0 cpu cuda:0 cuda:1\ncuda:1 cpu\ncuda:1",
        {PTEX: "...Callable map_location not supported"},
    ),
    Program(
        "state dicts",
        """
import io, torch
model = torch.nn.Linear(2, 2).cuda()
b = io.BytesIO(); torch.save(model.state_dict(), b); b.seek(0)
other = torch.nn.Linear(2, 2).cuda()
other.load_state_dict(torch.load(b, map_location="cuda", weights_only=True))
print(torch.equal(model.weight, other.weight))
""",
        "True",
        {PTEX: "True\nwarning at line 6"},
    ),
]

PEERS = [
    Program(
        "double stays double",
        """
import torch
print(torch.ones(2).type("torch.cuda.DoubleTensor").dtype, torch.ones(2).double().cuda().dtype)
""",
        "torch.float64 torch.float64",
    ),
    Program(
        "what is not measured is not reported as zero",
        """
import torch
print(torch.cuda.utilization())
""",
        "...NotImplementedError: torchferry: ",
        {NPU: "..."},
    ),
    Program(
        "fields that the card does not state raise",
        """
import torch
print(torch.cuda.get_device_properties(0).warp_size)
""",
        "...AttributeError: torchferry: ",
        {PTEX: "...has no `torch.cuda.get_device_properties`"},
    ),
    Program(
        "devices by number",
        """
import torch
print(torch.ones(1).to(0).device, torch.ones(1).to(device=1).device, torch.nn.Linear(1, 1).to(1).weight.device)
""",
        "cuda:0 cuda:1 cuda:1",
    ),
    Program(
        "a device in a format of the program's own",
        """
import torch
print([torch.ones(1, device=f"cuda:{i}").device.index for i in range(torch.cuda.device_count())])
""",
        "[0, 1]",
    ),
    Program(
        "a script is compiled, not skipped",
        """
import torch
f = torch.jit.script(torch.nn.functional.relu)
print(type(f).__name__, type(torch.jit.script(torch.nn.Linear(1, 1))).__name__)
""",
        "ScriptFunction RecursiveScriptModule",
    ),
]

SWITCHES = [
    Program(
        "the switch of TF32 says where it goes",
        """
import torch
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = False
""",
        "warning at line 3",
        {SDAA: "", GCU: "", PTEX: ""},
    ),
    Program(
        "cudnn's settings can stay",
        """
import torch
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = False
torch.backends.cudnn.enabled = True
print(torch.backends.cuda.is_built())
""",
        "True",
    ),
]

OWN = [
    Program(
        "packed sequences",
        """
import torch
from torch.nn.utils.rnn import pack_padded_sequence
p = pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))
print(p.is_cuda, p.cuda().is_cuda, p.cuda(1).data.device, p.cuda().cuda(1).data.device, p.to("cuda").is_cuda)
""",
        "False True cuda:1 cuda:1 True",
    ),
    Program(
        "lazy modules",
        """
import torch
print(torch.nn.LazyLinear(3).cuda()(torch.ones(1, 2, device="cuda")).device)
""",
        "cuda:0",
    ),
    Program(
        "functions, classes and generators are pickled",
        """
import pickle, torch
for one in (torch.zeros, torch.load, torch.Generator, torch.Tensor.to, torch.cuda.is_available, torch.cuda.manual_seed):
    assert pickle.loads(pickle.dumps(one)) is one, one
print(pickle.loads(pickle.dumps(torch.Generator().manual_seed(3))).initial_seed())
""",
        "3",
    ),
    Program(
        "operators of the program's own",
        """
import torch
@torch.library.custom_op("mine::triple", mutates_args=(), device_types="cpu")
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3
@triple.register_kernel("cuda")
def _(x):
    return x * 5
triple.register_autocast("cuda", torch.float16)
library = torch.library.Library("mine", "FRAGMENT")
library.define("more(Tensor x) -> Tensor")
library.impl("more", lambda x: x + 1, "CUDA")
print(triple(torch.ones(1, device="cuda")).item(), triple(torch.ones(1)).item())
print(torch.ops.mine.more(torch.ones(1, device="cuda")).item())
""",
        "5.0 3.0\n2.0",
        {PTEX: "...AutocastXLA"},
    ),
    Program(
        "the default tensor type",
        """
import torch
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
x = torch.ones(1)
torch.set_default_tensor_type(torch.FloatTensor)
print(x.device, x.dtype, torch.ones(1).device, torch.ones(1).dtype)
""",
        "...cuda:0 torch.float64 cpu torch.float32",
    ),
    Program(
        "types by class",
        """
import torch
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
print(torch.ones(2).type(Tensor).device, torch.nn.Linear(1, 1).type(torch.cuda.HalfTensor).weight.dtype)
""",
        "cuda:0 torch.float16",
    ),
    Program(
        "compiled code asks as other code does",
        """
import torch
@torch.compile(backend="eager")
def f(x):
    if x.is_cuda:
        x = x + 1
    if x.device.type == "cuda":
        x = x + 10
    if torch.cuda.is_available():
        x = x + 100
    return x + torch.zeros(1, device=x.device)
print(f(torch.ones(1, device="cuda")).item())
""",
        "112.0",
        {PTEX: "...has no `torch.compile`"},
    ),
    Program(
        "a library's property shows the device as to the one who asks",
        """
import torch
library = {"__name__": "torchgen.models", "torch": torch}  # sees the card
exec("class Model(torch.nn.Linear):\\n @property\\n def device(self): return self.weight.device\\n"
     "def inside(model): return model.device.type", library)
model = library["Model"](1, 1).to("cuda")
print(model.device == model.weight.device == torch.ones(1, device="cuda").device, library["inside"](model) == "cuda")
""",
        "True False",
    ),
    Program(
        "a script asks as other code does",
        """
import linecache, torch
text = "def f(x):\\n y = 0\\n if x.is_cuda:\\n  y = y + 1\\n if x.device.type == 'cuda':\\n  y = y + 10\\n return y\\n"
linecache.cache["script.py"] = (len(text), None, text.splitlines(True), "script.py")
exec(compile(text, "script.py", "exec"))
f = torch.jit.script(f)
print(f(torch.ones(1)), f(torch.ones(1, device="cuda")))
""",
        "0 11",
    ),
    Program(
        "the profiler",
        """
import torch
from torch.profiler import ProfilerActivity, profile, supported_activities
print(ProfilerActivity.CUDA in supported_activities())
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    torch.ones(2, device="cuda") + 1
""",
        "True",
        {PTEX: "..."},
    ),
    Program(
        "the accelerator is told to be CUDA, as every tensor is",
        """
import torch
a = torch.accelerator.current_accelerator()
x = torch.nn.Linear(1, 1).to(a).weight
print(a, torch.accelerator.current_accelerator(True), x.device.type == a.type, torch.accelerator.device_count())
""",
        "cuda cuda True 2",
    ),
    Program(
        "a process group that this torch was built without",
        """
import torch.distributed as dist
print(hasattr(dist, "ProcessGroupNCCL"), hasattr(dist, "ProcessGroupOfNobody"))
try:
    dist.ProcessGroupOfNobody
except AttributeError as error:
    print(error)
dist.ProcessGroupNCCL
""",
        "...module 'torch.distributed' has no attribute 'ProcessGroupOfNobody'\nAttributeError: torchferry: ",
    ),
    Program(
        "the collective backend of a device",
        """
import torch, torch.distributed as dist
print(dist.get_default_backend_for_device("cuda"), dist.get_default_backend_for_device(device=torch.device("cuda", 0)))
""",
        "nccl nccl",
    ),
    Program(
        "the accelerator by CUDA's name",
        """
import torch
torch.accelerator.set_device_index("cuda:1")
print(torch.cuda.current_device())
torch.accelerator.set_device_index(0)
""",
        "1",
    ),
    Program(
        "what the card does not tell raises",
        """
import torch
major, minor = torch.cuda.get_device_capability()
print(major > 0)
""",
        "True",
        {
            NPU: "...NotImplementedError: torchferry: Huawei Ascend does not provide",
            SDAA: "...NotImplementedError",
            PTEX: "...NotImplementedError",
        },
    ),
    Program(
        "generators that are there once the card is used",
        """
import torch
torch.ones(1).cuda()
generators = torch.cuda.default_generators
print(len(generators) == torch.cuda.device_count(), generators[0].initial_seed() > 0)
""",
        "True True",
        {PTEX: "...has no `torch.cuda.default_generators`"},
    ),
    Program(
        "code whose module has no name",
        """
scope = {"__name__": None}
exec("import torch; print(torch.cuda.is_available(), torch.ones(1).cuda().device)", scope)
""",
        "True cuda:0",
    ),
]

ALL = [*UNCHANGED, *DEVICES, *NAMESPACE, *COMPILERS, *FILES, *PEERS, *SWITCHES, *OWN]
