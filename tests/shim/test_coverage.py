"""What the vendors' own redirects cover between them, and who sees what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shim.programs import ALL
from torchferry.backends.target import Target

pytest.importorskip("torch")

FACTORIES = """
logspace randint hann_window rand full_like ones_like rand_like randperm arange normal empty_strided empty_like
scalar_tensor tril_indices bartlett_window ones sparse_coo_tensor randn kaiser_window tensor triu_indices as_tensor
zeros randint_like full eye empty blackman_window zeros_like range sparse_csr_tensor randn_like from_file linspace
hamming_window empty_quantized sparse_compressed_tensor asarray
"""
"""Functions of `torch` that take a device, as the redirects of torch_npu 2.13, torch_gcu 2.10 and torch_mlu list them.

`frombuffer`, which they list as well, takes none. Source: their transfer_to_npu.py, transfer_to_gcu.py, gpu_migration.
"""

DOCS = Path(__file__).parent.parent.parent / "docs"

METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_row_of_the_comparison_is_a_test(language: str) -> None:
    rows = [line for line in (DOCS / language / "running.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"\[([^\]]+)\](?!\()", row)}
    assert len(named) > 25
    assert named - {program.name for program in ALL} == set()


def test_every_factory_of_the_vendors_lists_is_found() -> None:
    import torch

    from torchferry.shim import patch_factories

    found = {(owner, name) for owner, name in patch_factories.factories()}
    assert {(torch, name) for name in FACTORIES.split()} - found == set()
    assert {(torch.Tensor, name) for name in METHODS.split()} - found == set()


@pytest.mark.parametrize(
    ("target", "module", "sees_card"),
    [
        ("npu", "torch.nn.functional", True),
        ("npu", "torch_npu.npu", True),
        ("npu", "torchferry.device", True),
        ("npu", "torch.testing._internal.common_utils", False),  # told of no CUDA, it would skip the program's tests
        ("npu", "torch.testing._internal.distributed.fake_pg", True),  # which registers a group for torch itself
        ("npu", "__main__", False),
        ("npu", "train", False),
        ("npu", "", False),
        ("npu", "flash_attn.bert_padding", True),  # CUDA's kernels: a True would start them
        ("npu", "a_library_that_nobody_knows", False),
        ("musa", "torch_musa.core", True),
        ("musa", "torch_npu", False),
        ("gcu", "torch_gcu.gcu", True),
        ("ptex", "torch_gcu.distributed", True),
    ],
)
def test_who_sees_the_card(target: str, module: str, sees_card: bool) -> None:
    from torchferry.shim.caller_policy import CallerPolicy

    assert CallerPolicy(Target.named(target)).decide(module) is sees_card


@pytest.mark.parametrize(
    ("target", "library", "version", "sees_card"),
    [
        ("npu", "transformers", "4.57.0", True),
        ("npu", "transformers", "4.31.0", False),
        ("npu", "accelerate", "1.0.0", True),
        ("npu", "timm", "1.0.31", False),  # it takes the device that its caller names
        ("musa", "accelerate", "1.0.0", True),
        ("musa", "diffusers", "0.41.0", True),  # it asks torch.accelerator
        ("musa", "diffusers", "0.30.0", False),
        ("sdaa", "accelerate", "1.5.0", True),
        ("sdaa", "transformers", "5.0.0", False),  # it asks torch.cuda alone
        ("gcu", "accelerate", "1.0.0", False),
        ("gcu", "transformers", "5.0.0", False),
    ],
)
def test_a_library_sees_the_card_from_the_version_that_knows_it(
    target: str, library: str, version: str, sees_card: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchferry.shim import caller_policy

    monkeypatch.setattr(caller_policy, "_version", lambda package: version)
    assert caller_policy.CallerPolicy(Target.named(target)).knows(library) is sees_card
