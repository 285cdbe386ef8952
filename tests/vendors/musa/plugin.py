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

WORKS = {
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
    ],
}
"""Statements that a program may have, by target."""

FAILS = {
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
}
"""Statements that end in an error, and how it begins."""

NOTED = {
    "musa": [
        ("not-rehearsed", "torch_musa.utils.compare_tool.CompareWithCPU"),
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
