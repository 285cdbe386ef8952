"""Memory of the device: exact accounting, peaks, and running out of it."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.rehearsal.child import run_snippet

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

MIB = 1 << 20


@pytest.fixture
def allocated(rehearsed: Any) -> Callable[[], int]:
    """Bytes allocated since the test began, on the first device."""
    gc.collect()
    before = rehearsed.namespace.memory_allocated()
    return lambda: rehearsed.namespace.memory_allocated() - before


def test_bytes_come_and_go_with_the_tensors(device: str, allocated: Callable[[], int]) -> None:
    whole = torch.empty(MIB, device=device)
    assert allocated() == 4 * MIB
    other = whole + 1
    assert allocated() == 8 * MIB
    view = whole[1:]
    del whole, other
    assert allocated() == 4 * MIB  # the view holds it
    del view
    assert allocated() == 0


@pytest.mark.parametrize(("elements", "size"), [(0, 0), (1, 512), (128, 512), (129, 1024), (1000, 4096)])
def test_blocks_are_of_512_bytes(device: str, allocated: Callable[[], int], elements: int, size: int) -> None:
    kept = torch.empty(elements, device=device)
    assert allocated() == size
    del kept
    assert allocated() == 0


def test_in_place_and_views_take_nothing(device: str, allocated: Callable[[], int]) -> None:
    values = torch.ones(MIB, device=device)
    values.add_(1).relu_()
    views = [values.view(1024, 1024).t(), values.detach(), values[::2], values.expand(3, MIB)]
    assert allocated() == 4 * MIB
    assert len(views) == 4


def test_resizing_is_counted(device: str, allocated: Callable[[], int]) -> None:
    values = torch.empty(10, device=device)
    values.resize_(MIB)
    assert allocated() == 4 * MIB
    torch.add(torch.ones(MIB // 2, device=device), 1, out=values)
    assert allocated() == 4 * MIB  # a tensor shrinks, its memory does not
    values.untyped_storage().resize_(0)
    assert allocated() == 0


def test_set_gives_the_old_memory_back(device: str, allocated: Callable[[], int]) -> None:
    values, other = torch.empty(MIB, device=device), torch.empty(16, device=device)
    values.set_(other)
    assert allocated() == 512
    assert values.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    values.data = torch.empty(MIB, device=device)
    assert allocated() == 4 * MIB + 512


def test_backward_gives_back_what_it_kept(device: str, allocated: Callable[[], int]) -> None:
    leaf = torch.ones(MIB, device=device, requires_grad=True)
    loss = leaf.exp().sin().sum()
    assert allocated() == 8 * MIB + 512  # leaf and exp's result, which both need; sin's is gone
    loss.backward()
    assert allocated() == 8 * MIB + 512  # leaf and gradient
    leaf.grad = None
    assert allocated() == 4 * MIB + 512


def test_a_loop_of_training_takes_no_more_and_no_more(device: str, allocated: Callable[[], int]) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(module.parameters())
    sizes = []
    for _ in range(6):
        optimizer.zero_grad()
        module(torch.randn(8, 32, device=device)).sum().backward()
        optimizer.step()
        sizes.append(allocated())
    assert len(set(sizes[1:])) == 1
    del module, optimizer
    gc.collect()
    assert allocated() == 0


def test_peaks(device: str, rehearsed: Any, allocated: Callable[[], int]) -> None:
    memory = rehearsed.namespace
    memory.reset_peak_memory_stats()
    start = memory.memory_allocated()
    kept = torch.empty(MIB, device=device)
    torch.empty(2 * MIB, device=device)
    assert memory.max_memory_allocated() == start + 12 * MIB
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() == start + 4 * MIB
    assert memory.memory_reserved() >= memory.memory_allocated()
    del kept


def test_each_device_has_its_own_account(device: str, rehearsed: Any) -> None:
    gc.collect()
    memory = rehearsed.namespace
    before = [memory.memory_allocated(index) for index in range(2)]
    kept = torch.empty(MIB, device=f"{device}:1")
    assert [memory.memory_allocated(index) - before[index] for index in range(2)] == [0, 4 * MIB]
    del kept


def test_the_card_is_as_large_as_its_profile(device: str, rehearsed: Any) -> None:
    free, total = rehearsed.namespace.mem_get_info()
    assert total == rehearsed.profile.memory
    assert free == total - rehearsed.namespace.memory_reserved()


def test_accelerator_statistics_agree(device: str, rehearsed: Any) -> None:
    if not hasattr(torch.accelerator, "memory_allocated"):
        pytest.skip("this torch has no memory statistics in torch.accelerator")
    kept = torch.empty(MIB, device=device)
    assert torch.accelerator.memory_allocated() == rehearsed.namespace.memory_allocated()
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == rehearsed.namespace.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == rehearsed.namespace.memory_allocated()
    del kept


def test_running_out_of_memory(device: str, native: Any, allocated: Callable[[], int]) -> None:
    used = native.memory(0).allocated
    native.set_capacity(used + 16 * MIB)
    kept = [torch.empty(MIB, device=device) for _ in range(4)]
    before = native.memory(0).ooms
    with pytest.raises(
        torch.OutOfMemoryError, match=r"SDAA out of memory. Tried to allocate 4.00 MiB \(SDAA 0; .* 0 bytes free;"
    ):
        torch.empty(MIB, device=device)
    with pytest.raises(torch.OutOfMemoryError):
        kept[0] + 1
    assert native.memory(0).ooms == before + 2
    assert allocated() == 16 * MIB
    torch.empty(MIB, device=f"{device}:1")  # the other device has room
    del kept[0]
    assert torch.zeros(MIB, device=device)[5].item() == 0


def test_parts_that_are_offloaded_fit_where_the_whole_does_not(device: str, native: Any, rehearsed: Any) -> None:
    """What `enable_model_cpu_offload` does: each part is on the card for its call alone."""
    # 4 parts of 16 MiB each
    parts = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(4))).requires_grad_(False)
    x = torch.linspace(-1, 1, 2048).expand(2, 2048)
    wanted = parts(x)
    native.set_capacity(native.memory(0).allocated + 36 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        parts.to(device)
    parts.to("cpu")
    for part in parts:
        part.register_forward_pre_hook(lambda module, _: module.to(device) and None)
        part.register_forward_hook(lambda module, *_: module.to("cpu") and None)
    before = rehearsed.namespace.memory_allocated()
    rehearsed.namespace.reset_peak_memory_stats()
    torch.testing.assert_close(parts(x.to(device)).cpu(), wanted)
    assert 16 * MIB <= rehearsed.namespace.max_memory_allocated() - before < 32 * MIB
    assert {parameter.device.type for parameter in parts.parameters()} == {"cpu"}


def test_running_out_of_memory_in_backward_leaves_nothing_behind(
    device: str, native: Any, allocated: Callable[[], int]
) -> None:
    leaf = torch.ones(MIB, device=device, requires_grad=True)
    loss = leaf.exp().sum()
    native.set_capacity(native.memory(0).allocated + 1024)
    with pytest.raises(torch.OutOfMemoryError):
        loss.backward()
    native.set_capacity(0)
    del loss
    assert allocated() == 4 * MIB
    leaf.exp().sum().backward()
    assert leaf.grad is not None


def test_a_process_can_be_given_a_part(device: str, rehearsed: Any, native: Any) -> None:
    native.set_capacity(native.memory(0).allocated + 64 * MIB)
    native.set_fraction(0, 0.5)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(10 * MIB, device=device)
    finally:
        native.set_fraction(0, 1.0)
    assert torch.empty(10 * MIB, device=device).numel() == 10 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_hosts_memory_is_given_back_too(device: str) -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(3):
        torch.ones(16 * MIB, device=device).add_(1)
    before = resident()
    for _ in range(30):
        torch.ones(16 * MIB, device=device).add_(1)
    assert resident() - before < 128 * MIB


_FAULTS_OF_A_STEP = """
import resource

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def faults_of_a_step():
    before = faults()
    kept = [torch.ones(1 << 20, device=device) for _ in range(16)]  # 4 MiB each
    return faults() - before

print(min(faults_of_a_step() for _ in range(10)))  # the heap takes some steps to settle
"""
_MAPPED_ONE_BY_ONE = "import ctypes; ctypes.CDLL(None).mallopt(-3, 65536)  # M_MMAP_THRESHOLD"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
@pytest.mark.skipif("TORCHFERRY_SANITIZE" in os.environ, reason="the sanitizer has a malloc of its own")
@pytest.mark.parametrize(
    ("environment", "is_kept"),
    [
        ({}, True),
        ({"MALLOC_ARENA_MAX": "1"}, True),
        ({"MALLOC_MMAP_THRESHOLD_": "65536"}, False),
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
        ({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=65536"}, False),
        ({"GLIBC_TUNABLES": "glibc.pthread.rseq=1"}, True),
    ],
)
def test_freed_memory_is_kept_for_the_next_step_unless_the_user_tuned_malloc(
    environment: dict[str, str], is_kept: bool
) -> None:
    output, _ = run_snippet(_FAULTS_OF_A_STEP, before=_MAPPED_ONE_BY_ONE, environment=environment)
    pages = 16 * 4 * MIB // os.sysconf("SC_PAGE_SIZE")
    assert (int(output) < pages // 10) == is_kept
