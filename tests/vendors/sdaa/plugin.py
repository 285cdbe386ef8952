"""What a program may do with the simulated plugin, what ends in an error, and what is noted of it."""

from __future__ import annotations

WORKS = {
    "sdaa": [
        "import torch_sdaa; import torch.sdaa; from torch.sdaa import amp",
        "from torch_sdaa.amp import autocast, GradScaler",
        "from torch_sdaa.optim import FusedAdam, FusedSGD",
        "from torch_sdaa.utils.cpp_extension import TecoExtension, BuildExtension, load_inline",
        "torch.profiler.ProfilerActivity.SDAA",
    ],
}
"""Statements that a program may have, by target."""

FAILS = {
    "sdaa": [
        ("torch.sdaa.ipc_collect()", "AttributeError"),
        ("torch.sdaa.CUDAGraph", "AttributeError"),
    ],
}
"""Statements that end in an error, and how it begins."""

FAILED_IMPORTS = [
    ("import torch_sdaa.core", "unverified-api", "torch_sdaa.core"),
]
"""Imports that fail, and what is noted of each: its kind and subject."""

REDIRECTIONS: list[tuple[str, dict[str, str]]] = [
    ("from torch_sdaa.utils import cuda_migrate", {}),
    ("import torch_sdaa", {"TORCH_SDAA_AUTOLOAD": "cuda_migrate"}),
]
"""How the vendor's own redirect of `torch.cuda` begins: a statement, and variables."""
