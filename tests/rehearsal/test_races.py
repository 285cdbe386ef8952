"""Races are named with both lines by both judges, and what waits as it should is not."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.rehearsal.racing_programs import RIGHT, WRONG, joined, marked
from tests.rehearsal.ranks import free_port
from tests.rehearsal.test_refusals import JUDGES, rehearse
from tests.rehearsal.test_shipped_plugin import two_ranks

pytestmark = pytest.mark.rehearsal


@pytest.mark.parametrize("judge", JUDGES)
def test_each_race_is_told_with_both_lines_and_nothing_else(judge: str, tmp_path: Path) -> None:
    text = joined([race.text for race in WRONG.values()], free_port())
    code, told, summary = rehearse(judge, text, tmp_path, "--races", "--strict")
    wanted = {
        (second, first, race.subject): name
        for (name, race), (first, second) in zip(WRONG.items(), marked(text), strict=True)
    }
    found = {
        (event["line"], event["earlier_line"], event["subject"]): event["detail"]
        for event in summary["events"]
        if event["kind"] == "race"
    }
    assert [name for key, name in wanted.items() if key not in found] == [], told
    assert {key: detail for key, detail in found.items() if key not in wanted} == {}
    assert (code, summary["outcome"]) == (1, "would fail")
    assert told.count("should wait for program.py:") >= 12


@pytest.mark.parametrize("judge", JUDGES)
def test_what_waits_is_no_race(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, joined([*RIGHT.values()], free_port()), tmp_path, "--races")
    assert [event for event in summary["events"] if event["kind"] in {"race", "unwatched-read"}] == []
    assert (code, summary["outcome"]) == (0, "nothing seen"), told


OF_TWO_RANKS = """
    import os, sys
    import torch, torch_npu
    from torch.nn.parallel import DistributedDataParallel
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    rank = int(os.environ["RANK"])
    torch.npu.set_device(rank)
    torch.distributed.init_process_group("hccl")
    def model():
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).npu()
    sharded = model()
    for part in sharded:
        fully_shard(part)
    fully_shard(sharded)
    by_parts = FullyShardedDataParallel(model(), device_id=rank, forward_prefetch=True, use_orig_params=True)
    for each in (DistributedDataParallel(model(), bucket_cap_mb=0.0001), sharded, by_parts):
        optimizer = torch.optim.AdamW(each.parameters())
        for _ in range(3):
            batch = torch.ones(8, 4).pin_memory().npu(non_blocking=True)
            each(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_ranks_that_wait_for_each_other_do_not_race(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, OF_TWO_RANKS, tmp_path, "--races", "--devices", "2", launcher=two_ranks())
    assert [event for event in summary["events"] if event["kind"] == "race"] == []
    assert (code, summary["outcome"]) == (0, "nothing seen"), told


ARRAY = """
    import torch, torch_npu
    x = torch.ones(8, device="npu")
    array = x.to("cpu", non_blocking=True).numpy()
    torch.npu.synchronize()
    print(array.sum())
"""


def test_when_an_array_was_read_is_not_known_and_is_said(tmp_path: Path) -> None:
    code, told, summary = rehearse("simulated", ARRAY, tmp_path, "--races")
    unknown = [event for event in summary["events"] if event["kind"] == "unwatched-read"]
    assert [event["line"] for event in unknown] == [4]
    assert (code, summary["would_fail"]) == (0, 0)
    assert "when they were read is not seen" in told


def test_nothing_is_watched_where_nobody_asked(tmp_path: Path) -> None:
    program = """
        import torch, torch_npu
        x = torch.ones(8, device="npu").to("cpu", non_blocking=True).sum()
        assert "races.so" not in open("/proc/self/maps").read()
    """
    code, told, summary = rehearse("simulated", program, tmp_path)
    assert (code, summary["outcome"]) == (0, "nothing seen"), told


ADDRESS = """
    import ctypes
    import torch, torch_npu
    x = torch.ones(100, device="npu")
    same = x.data_ptr() == x.untyped_storage().data_ptr()
    assert same and x[10:].data_ptr() - x.data_ptr() == 40
    assert x.resize_(1000).zero_().sum().item() == 0
    copied = ctypes.create_string_buffer(400)
    ctypes.memmove(copied, x.data_ptr(), 400)
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_device_memory_is_out_of_the_hosts_reach(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, ADDRESS, tmp_path, "--races")
    (event,) = [event for event in summary["events"] if event["fails"]]
    assert (event["kind"], event["line"], event["earlier_line"]) == ("device-address", 9, 7)
    assert (code, summary["outcome"]) == (128 + signal.SIGSEGV, "would fail"), told


def test_another_target_races_alike(tmp_path: Path) -> None:
    names = {"torch_npu": "torch_musa", "torch.npu": "torch.musa", '"npu"': '"musa"', ".npu(": ".musa(", "hccl": "mccl"}
    text = joined([race.text for race in WRONG.values()], free_port())
    for name, other in names.items():
        text = text.replace(name, other)
    _, told, summary = rehearse("simulated", text, tmp_path, "--races", target="musa")
    lines = {(event["earlier_line"], event["line"]) for event in summary["events"] if event["kind"] == "race"}
    assert lines == {*marked(text)}, told
