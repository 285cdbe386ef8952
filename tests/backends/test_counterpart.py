"""What is done with a name of CUDA's on a target, and with an argument that its function does not take."""

from __future__ import annotations

import pytest

from torchferry.backends import cuda
from torchferry.backends.accelerator import AcceleratorTarget
from torchferry.backends.counterpart import Counterpart, Decision, decide, lacking
from torchferry.backends.portable import INSTALLED, PortableTarget
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


PORTABLE = {
    ("npu", "torch.cuda.synchronize"): Counterpart(Decision.WRITE, f"{INSTALLED}.synchronize"),
    ("npu", "torch.cuda.CUDAGraph"): Counterpart(Decision.WRITE, f"{INSTALLED}.CUDAGraph"),
    ("npu", "torch.cuda.not_listed"): Counterpart(Decision.TRY),
    ("sdaa", "torch.cuda.temperature"): Counterpart(Decision.TRY),
    ("npu", "torch.cuda.utilization"): Counterpart(Decision.LACK),
    ("musa", "torch.cuda.temperature"): Counterpart(Decision.LACK),
    ("ptex", "torch.cuda.empty_cache"): Counterpart(Decision.WRITE, f"{INSTALLED}.empty_cache"),
}
"""A portable module has no name that it was not written with: what nobody verified cannot be tried in it."""


@pytest.mark.parametrize(("target", "name"), PORTABLE)
def test_a_name_is_decided_for_portable_code(target: str, name: str) -> None:
    chosen = PortableTarget(Target.named(target).backend)
    assert decide(chosen, chosen.api(name)) == PORTABLE[target, name]


@pytest.mark.parametrize("name", ["current_device", "device_count", "memory_allocated", "set_device", "temperature"])
def test_what_is_written_for_torch_alone_has_torchs_name(name: str) -> None:
    for target in ("npu", "musa", "gcu", "sdaa", "ptex"):
        chosen = AcceleratorTarget(Target.named(target).backend)
        use = decide(chosen, chosen.api(f"torch.cuda.{name}")).use
        torchs = {"current_device": "current_device_index", "set_device": "set_device_index"}.get(name, name)
        assert use in ("", f"torch.accelerator.{torchs}")


REFUSED: list[tuple[int, tuple[str, ...], list[str]]] = [
    (0, (), []),
    (3, (), []),
    (4, (), ["external"]),
    (0, ("enable_timing", "external"), ["external"]),
    (9, ("late",), ["external", "late"]),
    (9, (), ["external"]),
]


@pytest.mark.parametrize(("positional", "keywords", "names"), REFUSED)
def test_an_argument_is_refused_by_name_and_by_position(
    positional: int, keywords: tuple[str, ...], names: list[str]
) -> None:
    row = Row("torch.cuda.Event", "same", "torch.npu.Event", extra={"lacks_arguments": {"external": 3, "late": -1}})
    assert row.refused(positional, keywords) == names
    told = lacking(row, positional, keywords)
    said = f"`torch.npu.Event` has no argument `{', '.join(names)}`: omit it" if names else None
    assert (told and told.render("en")) == said


def test_what_changes_nothing_and_what_measures() -> None:
    assert cuda.changes_nothing("torch.cuda.memory.empty_cache")
    assert not cuda.changes_nothing("torch.empty_cache")
    assert cuda.is_measured("torch.cuda.memory_allocated")
    assert cuda.is_measured("torch.cuda.temperature")
    assert not cuda.is_measured("torch.cuda.synchronize")
    assert not cuda.is_measured("torch.nothing")
