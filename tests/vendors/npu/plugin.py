"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

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
        "from torch_npu.contrib.module import MultiheadAttention",
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
        "torch.nn.Linear(1, 1).npu(0); torch.nn.Linear(1, 1).npu(); torch.ones(1).npu('npu:0')",
        "import os; os.environ['TORCH_NPU_DEVICE_CAPABILITY'] = '8.0'",
        "assert torch.npu.get_device_capability() == (8, 0)",
    ],
}
"""Statements that a program may have, by target."""

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
    "npu@2.13.0": [
        ("torch.npu.matmul.allow_hf32 = 1", "TypeError: allow_hf32 must be a bool"),
        ("torch.nn.Linear(1, 1).npu('npu:0')", "TypeError: device(): argument 'index' (position 2) must be int"),
    ],
}
"""Statements that end in an error, and how it begins."""

NOTED = {
    "npu@2.9.0": [
        ("not-rehearsed", "torch_npu.contrib.module.BiLSTM"),
        ("missing-api", "torch_npu.contrib.module.no_such"),
        ("missing-api", "torch_npu.npu_no_such_thing"),
        ("missing-api", "torch.npu.nvtx"),
        ("unverified-api", "torch.npu._no_such"),
        ("unverified-api", "torch_npu._inductor.no_such"),
    ],
}
"""Events of these: their kinds and subjects."""

FAILED_IMPORTS = [
    ("from torch_npu.npu.nvtx import range_push", "missing-api", "torch.npu.nvtx"),
    ("from torch_npu.npu import nvtx", "missing-api", "torch.npu.nvtx"),
    ("import torch_npu.amp", "missing-api", "torch_npu.amp"),
]
"""Imports that fail, and what is noted of each: its kind and subject."""

REDIRECTIONS: list[tuple[str, dict[str, str]]] = [
    ("from torch_npu.contrib import transfer_to_npu", {}),
    ("import torch_npu", {"TORCH_TRANSFER_TO_NPU": "1"}),
]
"""How the vendor's own redirect of `torch.cuda` begins: a statement, and variables."""
