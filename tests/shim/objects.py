"""Small CUDA programs about objects that have a device, and about settings that several names of torch change."""

from __future__ import annotations

from tests.shim.programs import NPU, PTEX, Program

NO_STREAMS = "...has no `torch.cuda.Stream`"
NO_CURRENT = "...has no `torch.cuda.current_stream`"

OBJECTS = [
    Program(
        "streams and events of torch",
        """
import torch
s, e = torch.Stream("cuda:1"), torch.Event(device="cuda")
print(type(s).__name__, s.device, s.device_index, e.device.type, torch.Stream(device=torch.device("cuda")).device.type)
print(isinstance(torch.cuda.Stream(), torch.Stream), isinstance(s, torch.Stream), issubclass(type(s), torch.Stream))
""",
        "Stream cuda:1 1 cuda cuda\nTrue True True",
        {PTEX: NO_STREAMS},
    ),
    Program(
        "the device of a stream",
        """
import torch
print(torch.cuda.Stream(device="cuda:1").device, torch.cuda.current_stream().device, torch.cuda.Event().device.type)
""",
        "cuda:1 cuda:0 cuda",
        {PTEX: NO_STREAMS},
    ),
    Program(
        "the current stream of the accelerator",
        """
import torch
s = torch.accelerator.current_stream()
with s:
    print(s.device, s == torch.accelerator.current_stream(), isinstance(s, torch.Stream))
""",
        "cuda:0 True True",
        {PTEX: NO_CURRENT},
    ),
    Program(
        "the accelerator's functions take a device of CUDA",
        """
import torch
torch.accelerator.synchronize("cuda:0"); torch.accelerator.max_memory_allocated("cuda:0")
torch.accelerator.set_device_index("cuda:1")
print(torch.accelerator.current_device_index(), torch.accelerator.current_stream(torch.device("cuda:0")).device)
torch.accelerator.set_device_index(0)
""",
        "1 cuda:0",
        {PTEX: "..."},
    ),
    Program(
        "the accelerator has a module, and makes tensors",
        """
import torch
d = torch.accelerator.current_accelerator()
print(callable(torch.get_device_module(d).synchronize), torch.ones(2, device=d).device)
""",
        "True cuda:0",
    ),
    Program(
        "priorities that the installed plugin does not tell",
        """
import torch
torch.cuda.Stream.priority_range()
""",
        "...which the installed plugin does not have; use streams without a priority",
        {PTEX: NO_STREAMS, NPU: "...NPU does not support Stream.priority_range() currently."},
    ),
    Program(
        "the handle of a stream",
        """
import torch
print(isinstance(torch.cuda.current_stream().cuda_stream, int), hasattr(torch.cuda.Stream(), "cuda_stream"))
""",
        "True True",
        {PTEX: NO_CURRENT},
    ),
    Program(
        "storages that are made on a device",
        """
import torch
s = torch.UntypedStorage(4, device="cuda")
t = torch.storage.TypedStorage(2, device="cuda:1", dtype=torch.float32)
print(s.device, s.nbytes(), t.device, torch.UntypedStorage(4).device, torch.FloatStorage(2).device)
""",
        "cuda:0 4 cuda:1 cpu cpu",
        {PTEX: "...Storage device not recognized: xla"},
    ),
    Program(
        "a model of several processes shows its device",
        """
import os, tempfile, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("nccl", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])
model(torch.ones(1, 2, device=model.device)).sum().backward()
print(model.device, model.device_type, init_device_mesh("cuda", (1,)).device_type)
dist.destroy_process_group()
""",
        "cuda:0 cuda cuda",
        {PTEX: "..."},
    ),
    Program(
        "what refuses is no list",
        """
import torch
try:
    print(len(torch.cuda.default_generators) >= 0)
except NotImplementedError as error:
    print(str(error).startswith("torchferry: "))
""",
        "True",
    ),
    Program(
        "properties that are equal",
        """
import torch
a, b = torch.cuda.get_device_properties(0), torch.cuda.get_device_properties("cuda")
print(a == b, a != b, len({a, b}))
""",
        "True False 1",
        {PTEX: "...has no `torch.cuda.get_device_properties`"},
    ),
    Program(
        "a function that says where storages go",
        """
import io, torch
b = io.BytesIO(); torch.save(torch.ones(2, device="cuda:1"), b); b.seek(0)
print(torch.load(b, map_location=lambda storage, place: storage.cuda(0) if place == "cuda:1" else None).device)
""",
        "cuda:0",
        {PTEX: "..."},
    ),
    Program(
        "private names of CUDA's say what they are",
        """
import torch
print(hasattr(torch._C, "_cuda_sleep"), hasattr(torch._C, "_no_such_name"))
torch._C._cuda_sleep(1)
""",
        "...torchferry: `torch._C._cuda_sleep` is a private name",
    ),
]

PROFILER = [
    Program(
        "the averages of a profile",
        """
import torch
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
    torch.ones(2, device="cuda") + 1
print("aten::add" in profiled.key_averages().table(sort_by="cuda_time_total"))
""",
        "True",
        {
            NPU: "...AttributeError: torchferry: Huawei Ascend has no `torch.profiler.profile.key_averages`; it writes",
            PTEX: "...",
        },
    ),
]

TF32 = """
import torch, warnings
warnings.simplefilter("ignore")
"""

PRECISION = [
    Program(
        "the precision of products is one setting",
        TF32
        + """
torch.set_float32_matmul_precision("high"); a = torch.backends.cuda.matmul.allow_tf32
torch.set_float32_matmul_precision("highest"); b = torch.backends.cuda.matmul.allow_tf32
print(a, b, torch.get_float32_matmul_precision())
""",
        "True False highest",
    ),
    Program(
        "the flags of cudnn hold for the block",
        TF32
        + """
before = torch.backends.cudnn.allow_tf32
torch.backends.cudnn.allow_tf32 = True
with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
    inside = torch.backends.cudnn.allow_tf32
print(inside, torch.backends.cudnn.allow_tf32)
torch.backends.cudnn.allow_tf32 = before
""",
        "False True",
    ),
]

ALL = [*OBJECTS, *PROFILER, *PRECISION]
