"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

WORKS = {
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
"""Statements that a program may have, by target."""

FAILS = {
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
"""Statements that end in an error, and how it begins."""

NOTED = {
    "ptex": [("unverified-api", "torch.gcu.device_count")],
}
"""Events of these: their kinds and subjects."""
