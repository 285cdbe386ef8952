"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

SWITCH = """
import torch_musa
for allowed in (True, False):
    torch.backends.mudnn.allow_tf32 = allowed
    assert torch_musa._MUSAC._get_allow_tf32() is allowed
torch_musa._MUSAC._set_allow_tf32(True)
assert torch.backends.mudnn.allow_tf32
layer = torch.nn.Conv2d(3, 4, 3).to("musa", memory_format=torch.channels_last)
images = torch.ones(2, 3, 8, 8, device="musa").to(memory_format=torch.channels_last)
assert layer(images).is_contiguous(memory_format=torch.channels_last)
torch.backends.mudnn.allow_tf32 = False
"""
"""The developer manual's TF32 switch (5.7, 8.2), read as it reads it, and a layout that it does not change."""

PROFILED = """
import os, tempfile
from torch.profiler import ProfilerActivity, profile
verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
both = [ProfilerActivity.CPU, ProfilerActivity.MUSA]
with profile(activities=both, with_stack=True, record_shapes=True, experimental_config=verbose) as profiled:
    torch.ones(8, 8, device="musa") * 2
table = profiled.key_averages(group_by_input_shape=True).table(sort_by="self_device_time_total", row_limit=200)
assert "aten::mul" in table and "[8, 8]" in table
assert "aten::mul" in profiled.key_averages(group_by_stack_n=5).table(row_limit=200)
with tempfile.TemporaryDirectory() as folder:
    profiled.export_stacks(os.path.join(folder, "stacks"), "self_cpu_time_total")
    assert os.path.getsize(os.path.join(folder, "stacks"))
"""
"""The tables and stacks of the manual's profiler chapter (8.1), with the sort key that torch has now."""

COMPARED = """
import os, pickle, tempfile
from torch_musa.utils.compare_tool import CompareWithCPU, ModuleInfo, NanInfTracker, open_module_tracker
from torch_musa.utils.compare_tool import compare_for_single_op, nan_inf_track_for_single_op
model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU()).musa()
open_module_tracker(model)
with CompareWithCPU(False, 0.001, 0.001), NanInfTracker(False):
    model(torch.ones(2, 5, device="musa"))
with CompareWithCPU(atol=0.001, rtol=0.001, target_list=["torch.ops.aten.addmm"], verbose=False) as compared:
    model(torch.ones(2, 5, device="musa"))
    compared.step()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "torch.ops.aten.addmm_inputs.pkl")
    with open(path, "wb") as file:
        pickle.dump({"args": (torch.ones(4), torch.ones(3, 5), torch.ones(5, 4)), "kwargs": {}}, file)
    correct, args, kwargs, out = compare_for_single_op(path, torch.ops.aten.addmm, atol=0.01, rtol=0.01)
    assert correct and out.is_musa and all(each.is_musa for each in args) and kwargs == {}
    assert nan_inf_track_for_single_op(path, torch.ops.aten.addmm)[0] is False
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with NanInfTracker(dump_error_data=True, output_dir=folder):
            made = model(torch.ones(2, 5, device="musa"))
            made.div(torch.zeros_like(made)).sum().backward()
            optimizer.step()
    except Exception as error:
        assert "aten.div" in str(error)
    path = os.path.join(folder, "torch.ops.aten.div.Tensor_inputs.pkl")
    assert nan_inf_track_for_single_op(path, torch.ops.aten.div)[0] is True
"""
"""The manual's tools (9.1), by the plugin's names: its files of inputs, and the folders that stand in for them."""

PORTED = """
import os, tempfile
from torch_musa.utils.simple_porting import SimplePorting
with tempfile.TemporaryDirectory() as folder:
    source = os.path.join(folder, "csrc")
    os.mkdir(source)
    with open(os.path.join(source, "a.cu"), "w") as file:
        file.write("void f() { cudaDeviceSynchronize(); }")
    SimplePorting(cuda_dir_path=source, ignore_dir_paths=[source + "/mlu"], mapping_rule={"_CUH": "_MUH"}).run()
    with open(os.path.join(folder, "csrc_musa", "a.mu")) as file:
        assert "musaDeviceSynchronize" in file.read()
"""
"""The manual's porting (7.2.2), as its setup.py calls it: a folder that is to be left out may not be there."""

OWN_COLUMNS = """
import os
from torch.profiler import profile
with profile(with_stack=True, experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)) as profiled:
    torch.ones(8, device="musa") * 2
for key in ("self_musa_time_total", "musa_time_total", "self_musa_memory_usage"):
    assert "aten::mul" in profiled.key_averages(group_by_stack_n=5).table(sort_by=key)
profiled.export_stacks(os.devnull, "self_musa_time_total")
try:
    profiled.export_stacks(os.devnull, "self_cuda_time_total")
    raise SystemExit("took a metric that this version lacks")
except ValueError:
    pass
"""
"""The columns of the manual's version (8.1), which later versions do not have."""

WORKS = {
    "musa@2.0.0": [OWN_COLUMNS],
    "musa": [
        "import torch_musa, sys; assert torch_musa is torch.musa is sys.modules['torch_musa']",
        "import torch_musa; assert torch_musa.__version__ == '2.7.1'",
        "from torch_musa import amp",
        "from torch_musa.core.amp import autocast, GradScaler",
        "import pickle; pickle.loads(pickle.dumps(torch.musa.amp.GradScaler()))",
        "from torch_musa.utils.musa_extension import MUSAExtension, BuildExtension, load, load_inline",
        "from torch_musa.optim import FusedAdamW",
        "from torch_musa.testing import get_musa_arch; assert get_musa_arch() == 22",
        "assert not torch.backends.mudnn.allow_tf32; torch.backends.mudnn.allow_tf32 = True",
        "with torch.backends.mudnn.flags(allow_tf32=False): assert not torch.backends.mudnn.allow_tf32",
        "assert torch.backends.mudnn.allow_tf32",
        "assert torch.profiler.ProfilerActivity.MUSA == torch.profiler.ProfilerActivity.PrivateUse1",
        "with torch.musa.fork_rng(devices=[0]): pass",
        "with torch.musa.amp.autocast(): assert torch.is_autocast_enabled() and not torch.is_autocast_enabled('cpu')",
        "assert torch.distributed.is_mccl_available(); assert torch.version.musa is None",
        "assert torch.musa.is_tf32_supported() == (torch.musa.get_device_capability() >= (2, 2))",
        SWITCH,
        PROFILED,
        COMPARED,
        PORTED,
    ],
}
"""Statements that a program may have, by target."""

FAILS = {
    "musa": [
        (
            "from torch_musa.utils.compare_tool import compare_tensors_tool; compare_tensors_tool()",
            "ImportError: cannot import name 'compare_tensors_tool'",
        ),
        ("from torch_musa.utils.compare_tool import LogToFile as c; c()", "NotImplementedError: torch_musa.utils"),
        (
            "torch.musa.utils.compare_tool.CompareWithCPU(target_op=['addmm'])",
            "TypeError: CompareWithCPU.__init__() got",
        ),
        ("import torch_musa.testing.base_test_tool; torch.musa._MUSAC._no_such()", "AttributeError"),
        ("from torch_musa.amp import autocast", "ModuleNotFoundError: No module named 'torch_musa.amp'"),
        ("torch.musa.nvtx", "AttributeError: module 'torch.musa' has no attribute 'nvtx'"),
        ("from torch_musa import nvtx", "ImportError: cannot import name 'nvtx'"),
        ("torch.musa.get_device_properties()", "TypeError: get_device_properties() missing 1 required positional"),
        ("torch.backends.mudnn.allow_tf32 = 1", "TypeError: allow_tf32 must be a bool"),
        ("from torch_musa.utils.musa_extension import load; load('a', [])", "NotImplementedError: "),
        ("torch.musa.mccl.version()", "NotImplementedError: torch.musa.mccl.version exists in torch_musa 2.7.1"),
    ],
}
"""Statements that end in an error, and how it begins."""

NOTED = {
    "musa": [
        ("not-rehearsed", "torch_musa.utils.compare_tool.LogToFile"),
        ("missing-api", "torch_musa.utils.compare_tool.compare_tensors_tool"),
        ("missing-api", "torch.musa.nvtx"),
        ("unverified-api", "torch_musa._MUSAC._no_such"),
    ],
}
"""Events of these: their kinds and subjects."""

FAILED_IMPORTS = [
    ("from torch_musa.amp import autocast", "missing-api", "torch.musa.amp"),
]
"""Imports that fail, and what is noted of each: its kind and subject."""

PACKAGE_IS_NAMESPACE = True
"""The package itself is `torch.musa`: nothing of that name is imported from it."""
