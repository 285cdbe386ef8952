"""What is done with a name of CUDA's on a target, and with an argument that its function does not take."""

from __future__ import annotations

import pytest

from torchferry.backends import cuda
from torchferry.backends.counterpart import Counterpart, Decision, decide
from torchferry.backends.tables import Row
from torchferry.backends.target import Target

DECISIONS = {
    ("npu", "torch.cuda.synchronize"): Counterpart(Decision.WRITE, "torch.npu.synchronize"),
    ("npu", "torch.cuda.CUDAGraph"): Counterpart(Decision.WRITE, "torch.npu.NPUGraph"),
    ("npu", "torch.cuda.get_arch_list"): Counterpart(Decision.LACK),
    ("npu", "torch.cuda.not_listed"): Counterpart(Decision.TRY, "torch.npu.not_listed"),
    ("npu", "torch.not_listed"): Counterpart(Decision.TRY),
    ("ptex", "torch.cuda.empty_cache"): Counterpart(Decision.STAY),
    ("ptex", "torch.cuda.ipc_collect"): Counterpart(Decision.OMIT),
}


@pytest.mark.parametrize(("target", "name"), DECISIONS)
def test_a_name_is_decided(target: str, name: str) -> None:
    chosen = Target.named(target)
    assert decide(chosen, chosen.api(name)) == DECISIONS[target, name]


REFUSED: list[tuple[int, tuple[str, ...], list[str]]] = [
    (0, (), []),
    (3, (), []),
    (4, (), ["external"]),
    (0, ("enable_timing", "external"), ["external"]),
    (9, ("late",), ["external", "late"]),
    (9, (), ["external"]),
]


@pytest.mark.parametrize(("positional", "keywords", "lacking"), REFUSED)
def test_an_argument_is_refused_by_name_and_by_position(
    positional: int, keywords: tuple[str, ...], lacking: list[str]
) -> None:
    row = Row("torch.cuda.Event", "same", extra={"lacks_arguments": {"external": 3, "late": -1}})
    assert row.refused(positional, keywords) == lacking


def test_what_changes_nothing_and_what_measures() -> None:
    assert cuda.changes_nothing("torch.cuda.memory.empty_cache")
    assert not cuda.changes_nothing("torch.empty_cache")
    assert cuda.is_measured("torch.cuda.memory_allocated")
    assert cuda.is_measured("torch.cuda.temperature")
    assert not cuda.is_measured("torch.cuda.synchronize")
    assert not cuda.is_measured("torch.nothing")
