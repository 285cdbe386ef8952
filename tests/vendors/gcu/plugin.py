"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

WORKS = {
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
}
"""Statements that a program may have, by target."""

FAILS = {
    "gcu": [
        ("torch.gcu.utilization()", "AttributeError"),
        ("torch.gcu.get_device_properties()", "TypeError: get_device_properties() missing 1 required positional"),
        ("torch.gcu.memory.GCUPluggableAllocator('a', 'b', 'c')", "NotImplementedError: "),
    ],
}
"""Statements that end in an error, and how it begins."""

REDIRECTIONS: list[tuple[str, dict[str, str]]] = [
    ("from torch_gcu import transfer_to_gcu", {}),
]
"""How the vendor's own redirect of `torch.cuda` begins: a statement, and variables."""
