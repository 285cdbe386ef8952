"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

WORKS = {
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
        ("unverified-api", "torch.musa._MUSAC._no_such"),
    ],
}
"""Events of these: their kinds and subjects."""

FAILED_IMPORTS = [
    ("from torch_musa.amp import autocast", "missing-api", "torch.musa.amp"),
]
"""Imports that fail, and what is noted of each: its kind and subject."""

PACKAGE_IS_NAMESPACE = True
"""The package itself is `torch.musa`: nothing of that name is imported from it."""
