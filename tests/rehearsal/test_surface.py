"""The namespace of each simulated plugin has exactly the names of its api table; a stand-in serves as the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import cast

import pytest

pytest.importorskip("torch")

import torch

from tests.rehearsal.facade_process import lists_all_names
from torchferry.backends import cuda, registry
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.rehearsal import events, plugin_namespace
from torchferry.rehearsal.device_module import implementations
from torchferry.rehearsal.native import MemoryStats, Native
from torchferry.rehearsal.profile import Profile, make_profile

pytestmark = pytest.mark.rehearsal

TARGETS = ["npu@2.9.0", "npu@2.13.0", "musa@2.1.0"] + [
    name for name in registry.built_in() if registry.load(name).NAMESPACE
]
"""Targets whose plugin has a namespace in place of torch.cuda."""


class StandIn:
    """Two devices that hold what they are told to."""

    def __init__(self, device_name: str) -> None:
        self.device_name = device_name
        self.current = 0
        self.initialised = False
        self.forked = False
        self.peaks_reset = 0
        self.fraction: dict[int, float] = {}
        self.generators = [torch.Generator(), torch.Generator()]

    def at_first_use(self, call: Callable[[], None]) -> None:
        self.waiting = call

    def device_count(self) -> int:
        return 2

    def current_device(self) -> int:
        return self.current

    def set_device(self, index: int) -> None:
        if not 0 <= index < 2:
            raise RuntimeError(f"invalid device ordinal {index}")
        self.current = index

    def initialise(self) -> None:
        self.initialised = True

    def is_initialized(self) -> bool:
        return self.initialised

    def in_bad_fork(self) -> bool:
        return self.forked

    def default_generator(self, index: int) -> torch.Generator:
        return self.generators[index]

    def memory(self, index: int) -> MemoryStats:
        return MemoryStats(1000, 3000, 4096, 8192, 5, 2, 1, 1 << 20, 7000, 6000)

    def reset_peak(self, index: int) -> None:
        self.peaks_reset += 1

    def reset_accumulated(self, index: int) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def set_fraction(self, index: int, fraction: float) -> None:
        self.fraction[index] = fraction


def built(name: str, device: StandIn | None = None) -> tuple[ModuleType, Target]:
    choice = registry.choose(name)
    target = Target(choice.backend, choice.version)
    native = cast("Native", device or StandIn(target.backend.DEVICE_TYPE))
    return plugin_namespace.build(target, native, make_profile(target), publish=False), target


def find(module: ModuleType, name: str) -> object:
    """Return what stands at a dotted name, raising AttributeError where nothing does."""
    value: object = module
    for part in name.split("."):
        value = getattr(value, part)
    return value


def has(module: ModuleType, name: str) -> bool:
    try:
        find(module, name)
    except AttributeError:
        return False
    return True


def rows(target: Target) -> Iterator[Row]:
    for row in target.backend.table("api"):
        in_module = row.name.rpartition(".")[0] in {"torch.cuda", *cuda.modules()}  # what objects have is their class's
        if row.name.startswith("torch.cuda.") and in_module and row.holds_for(target.version):
            yield row


# --- every row of every table ---


@pytest.mark.parametrize("name", TARGETS)
def test_every_row_is_obeyed(name: str) -> None:
    module, target = built(name)
    namespace = target.backend.NAMESPACE
    profile = make_profile(target)
    rehearsed = implementations(cast("Native", StandIn(target.backend.DEVICE_TYPE)), profile)
    there = {row.use or namespace + row.name[len("torch.cuda") :] for row in rows(target) if row.status == "same"}
    there |= {row.use for row in rows(target) if row.status in ("renamed", "partial", "equivalent")}
    seen = 0
    for row in rows(target):
        seen += 1
        own = row.name[len("torch.cuda.") :]
        path = f"{namespace}.{own}"
        # a name that only groups others is there when one of them is
        groups = row.name in cuda.modules() and any(each.startswith(path + ".") for each in there)
        match row.status:
            case "same" | "renamed" | "partial" | "equivalent":
                use = row.use or path
                if use.startswith(namespace + "."):
                    assert has(module, use[len(namespace) + 1 :]), f"{use} is not there"
                if use != path and path not in there and not groups:
                    assert not has(module, own), f"{path} is there beside {use}"
            case "missing":
                assert path in there or groups or not has(module, own), f"{path} is there"
            case "unknown":
                if row.name not in cuda.modules():
                    assert has(module, own) is (own in rehearsed), path
    assert seen > (200 if lists_all_names(name) else 0)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_else_is_public(name: str) -> None:
    module, target = built(name)
    namespace = target.backend.NAMESPACE
    allowed = set(plugin_namespace.NEEDED_BY_TORCH)
    for row in rows(target):
        if row.status != "missing":
            path = row.use or namespace + row.name[len("torch.cuda") :]
            allowed.add(path[len(namespace) + 1 :].partition(".")[0])
    public = {each for each in dir(module) if not each.startswith("_")}
    assert public <= allowed, public - allowed


# --- tables to read: what must be there, and what must not ---

SURFACE = {
    "npu@2.9.0": (
        "Event Stream FloatTensor FloatStorage NPUGraph NPUPluggableAllocator amp.autocast amp.GradScaler "
        "memory.memory_stats random.manual_seed_all streams.Stream set_device memory_cached mem_get_info utilization "
        "mstx.mark mstx.range_start graphs.make_graphed_callables current_blas_handle",
        "nvtx CUDAGraph comm nccl memory_usage list_gpu_processes cudart tunable OutOfMemoryError ExternalStream "
        "host_memory_stats get_per_process_memory_fraction mstx.range_push mstx.annotate memory.mem_get_info "
        "get_arch_list sparse jiterator profiler ComplexFloatStorage is_tf32_supported",
    ),
    "npu@2.13.0": (
        "ExternalStream host_memory_stats get_per_process_memory_fraction mstx.range_push mstx.range_pop mstx.annotate "
        "NPUGraph streams.ExternalStream memory.reset_peak_host_memory_stats",
        "nvtx CUDAGraph comm memory_usage OutOfMemoryError memory.mem_get_info cudart get_stream_from_external",
    ),
    "musa@2.1.0": (
        "Event Stream MUSAGraph amp.autocast FloatTensor manual_seed_all",
        "StreamContext is_tf32_supported current_blas_handle mccl init nvtx random streams memory_cached",
    ),
    "musa": (
        "Event Stream StreamContext MUSAGraph MUSAPluggableAllocator OutOfMemoryError amp.custom_fwd graph mccl "
        "FloatStorage memory.mem_get_info default_generators is_tf32_supported amp_definitely_not_available",
        "init nvtx random streams memory_cached CUDAGraph nccl utilization set_sync_debug_mode host_memory_stats "
        "graphs.CUDAGraph ComplexFloatStorage cudart caching_allocator_alloc",
    ),
    "sdaa": (
        "Event Stream amp.autocast amp.GradScaler memory_cached manual_seed mem_get_info is_bf16_supported "
        "memory.SDAAPluggableAllocator device set_stream FloatTensor",
        "CUDAGraph ipc_collect OutOfMemoryError graphs make_graphed_callables cudart temperature",
    ),
    "gcu": (
        "Event Stream ExternalStream GCUGraph GcuError DeferredGcuCallError gcuStatus topstx.range_push topstx.range "
        "memory.GCUPluggableAllocator FloatStorage init set_sync_debug_mode profiler.profile amp.autocast "
        "tunable.enable",
        "nvtx CUDAGraph CudaError OutOfMemoryError ipc_collect utilization comm nccl GCUPluggableAllocator "
        "profiler.start is_tf32_supported host_memory_stats change_current_allocator tunable.tune_gemm_in_file",
    ),
}


@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for name, table in SURFACE.items() for path in table[0].split()]
)
def test_is_there(name: str, path: str) -> None:
    assert has(built(name)[0], path)


@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for name, table in SURFACE.items() for path in table[1].split()]
)
def test_is_not_there(name: str, path: str) -> None:
    assert not has(built(name)[0], path)


# --- how a name answers ---


def kinds() -> set[tuple[str, str]]:
    return {(key.kind, key.subject) for key in events.recorder.counts()}


def test_a_missing_name_raises_as_python_does_and_is_noted() -> None:
    module, _ = built("npu")
    events.recorder.clear()
    with pytest.raises(AttributeError, match=r"^module 'torch\.npu' has no attribute 'nvtx'$"):
        module.nvtx  # noqa: B018 - asking for it is the test
    assert kinds() == {("missing-api", "torch.npu.nvtx")}


def test_asking_whether_a_name_is_there_is_not_noted() -> None:
    module, _ = built("npu")
    events.recorder.clear()
    assert not hasattr(module, "nvtx")
    assert getattr(module, "list_gpu_processes", None) is None
    assert not kinds()


def test_a_name_that_cannot_be_rehearsed_raises_when_it_is_called() -> None:
    module, _ = built("npu@2.13.0")
    events.recorder.clear()
    pool = module.MemPool
    assert isinstance(pool, type)
    assert not kinds()
    with pytest.raises(NotImplementedError, match=r"torch\.npu\.MemPool exists in torch_npu 2\.13\.0 but is not"):
        pool()
    assert kinds() == {("not-rehearsed", "torch.npu.MemPool")}


def test_graph_capture_says_so() -> None:
    module, _ = built("musa")
    with pytest.raises(NotImplementedError, match="graph capture is not rehearsed"):
        module.MUSAGraph()
    assert module.is_current_stream_capturing() is False


def test_arguments_have_the_names_of_the_plugin() -> None:
    module, _ = built("musa")
    with pytest.raises(TypeError, match="unexpected keyword argument 'cuda_graph'"):
        module.graph(cuda_graph=None)
    with pytest.raises(NotImplementedError, match="graph capture"):
        module.graph(musa_graph=None)


def test_a_name_that_nobody_verified_is_noted_when_it_is_used() -> None:
    module, _ = built("sdaa")
    events.recorder.clear()
    assert module.device_of is module.device_of
    assert kinds() == {("unverified-api", "torch.sdaa.device_of")}


@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [
        ("sdaa", "ipc_collect", "missing-api"),
        ("sdaa", "temperature", "unverified-api"),
        ("sdaa", "made_up", "unverified-api"),
        ("npu", "made_up", "missing-api"),
        ("npu", "CUDAGraph", "missing-api"),
    ],
)
def test_what_nobody_read_is_not_called_missing(name: str, path: str, kind: str) -> None:
    module, _ = built(name)
    events.recorder.clear()
    with pytest.raises(AttributeError):
        eval(f"module.{path}", {"module": module})
    assert kinds() == {(kind, f"torch.{name}.{path}")}


@pytest.mark.parametrize(
    ("name", "path", "kinds_noted"),
    [
        ("npu@2.9.0", "npurt", None),  # since 2.10
        ("npu@2.13.0", "npurt", {"not-rehearsed"}),
        ("npu@2.13.0", "MemPoolContext", None),  # until 2.12
        ("npu@2.12.0", "MemPoolContext", {"not-rehearsed"}),
        ("npu@2.13.0", "set_aoe", {"not-rehearsed"}),
        ("npu@2.14.0", "set_aoe", {"not-rehearsed"}),
        ("musa@2.5.0", "update_musa_graph_with_profile", None),
        ("musa@2.7.1", "update_musa_graph_with_profile", {"not-rehearsed"}),
        ("gcu", "get_sip_count", {"not-rehearsed"}),
    ],
)
def test_what_the_plugin_has_beyond_cuda_is_there_in_its_versions(
    name: str, path: str, kinds_noted: set[str] | None
) -> None:
    module, _ = built(name)
    events.recorder.clear()
    if kinds_noted is None:
        assert not hasattr(module, path)
        return
    with pytest.raises(NotImplementedError, match="is not rehearsed"):
        getattr(module, path)()
    assert {kind for kind, _ in kinds()} == kinds_noted


def test_an_error_of_the_plugin_can_be_caught() -> None:
    module, _ = built("gcu")
    assert issubclass(module.GcuError, RuntimeError)


def test_functions_have_their_own_names() -> None:
    module, _ = built("gcu")
    with pytest.raises(TypeError, match=r"^set_device\(\) missing"):
        module.set_device()
    assert repr(module.Event) == "<class 'torch.gcu.Event'>"


def test_a_plugin_without_a_namespace_has_its_names_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_namespace, "_current", None)  # another test may rehearse in this process
    choice = registry.choose("ptex")
    target = Target(choice.backend, choice.version)
    module = plugin_namespace.build(target, cast("Native", StandIn("xla")), make_profile(target))
    assert not [
        name for name in dir(module) if not name.startswith("_") and name not in plugin_namespace.NEEDED_BY_TORCH
    ]
    elsewhere = plugin_namespace.current().elsewhere
    assert {"ptex.device_count", "ptex.tops.manual_seed_all", "torch_gcu.amp.autocast"} <= elsewhere.keys()
    assert elsewhere["ptex.device_count"]() == 2  # type: ignore[operator]


# --- what the functions do ---


def test_seeding_waits_for_the_first_use() -> None:
    device = StandIn("npu")
    module, _ = built("npu", device)
    before = device.generators[0].initial_seed()
    module.manual_seed_all(5)
    assert not device.is_initialized()
    assert device.generators[0].initial_seed() == before
    assert len(module.default_generators) == 0
    assert module.initial_seed() == 5
    assert device.is_initialized()
    assert len(module.default_generators) == 2


def test_seeds_apply_in_their_order() -> None:
    device = StandIn("npu")
    module, _ = built("npu", device)
    module.manual_seed(1)
    module.manual_seed_all(2)
    module.manual_seed(3)
    module.init()
    assert [generator.initial_seed() for generator in device.generators] == [3, 2]


def test_a_forked_process_cannot_use_the_device() -> None:
    device = StandIn("npu")
    module, _ = built("npu", device)
    module.init()
    device.forked = True
    assert module._is_in_bad_fork()
    assert not module.is_initialized()
    with pytest.raises(RuntimeError, match="Cannot re-initialize NPU in forked subprocess"):
        module.synchronize()


def test_devices_are_named_in_every_way() -> None:
    device = StandIn("npu")
    module, _ = built("npu", device)
    for name in (1, "cpu"):
        if name == "cpu":
            with pytest.raises(ValueError, match="Expected a npu device"):
                module.set_device(name)
        else:
            module.set_device(name)
            assert module.current_device() == 1
    module.set_device(-1)
    assert module.current_device() == 1
    with module.device(0):
        assert module.current_device() == 0
        with module.device(None):
            assert module.current_device() == 0
    assert module.current_device() == 1
    with pytest.raises(AssertionError, match="Invalid device id"):
        module.get_device_properties(2)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        module.set_device(7)


def test_memory_figures_agree() -> None:
    module, _ = built("npu")
    assert module.memory_stats() == {}  # before the first use
    module.init()
    assert module.memory_allocated() == 1000
    assert module.max_memory_allocated() == 3000
    assert module.memory_reserved() == 4096
    stats = module.memory_stats()
    for key in ("allocated_bytes.all", "reserved_bytes.all", "allocation.all"):
        assert stats[f"{key}.current"] == stats[f"{key}.allocated"] - stats[f"{key}.freed"]
    assert stats["num_ooms"] == 1
    assert module.mem_get_info() == ((1 << 20) - 4096, 1 << 20)
    assert "1000 B" in module.memory_summary(abbreviated=True)
    with pytest.warns(FutureWarning, match="renamed to `torch.npu.memory_reserved`"):
        assert module.memory_cached() == 4096


def test_the_keys_of_memory_stats_are_those_of_cuda() -> None:
    module, _ = built("npu")
    module.init()
    stats = module.memory_stats()
    pools, metrics = ("all", "large_pool", "small_pool"), ("current", "peak", "allocated", "freed")
    of_pools = "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes requested_bytes"
    expected = {f"{key}.{pool}.{metric}" for key in of_pools.split() for pool in pools for metric in metrics}
    assert expected <= stats.keys()
    assert {"num_alloc_retries", "num_ooms", "oversize_segments.peak", "max_split_size"} <= stats.keys()
    assert list(stats) == sorted(stats)


@pytest.mark.parametrize(("value", "error"), [(1, TypeError), (1.5, ValueError), (-0.1, ValueError)])
def test_a_memory_fraction_is_checked(value: float, error: type[Exception]) -> None:
    module, _ = built("npu@2.13.0")
    with pytest.raises(error):
        module.set_per_process_memory_fraction(value)


def test_a_memory_fraction_is_kept() -> None:
    device = StandIn("npu")
    module, _ = built("npu@2.13.0", device)
    module.set_per_process_memory_fraction(0.5, 1)
    assert device.fraction == {1: 0.5}
    assert module.get_per_process_memory_fraction(1) == 0.5
    assert module.get_per_process_memory_fraction(0) == 1.0


def test_a_field_whose_value_nobody_published_says_so() -> None:
    choice = registry.choose("musa")
    target = Target(choice.backend, choice.version)
    profile = Profile("musa", "2.7.1", "X", property_names=("name", "is_integrated"), capability_known=False)
    module = plugin_namespace.build(target, cast("Native", StandIn("musa")), profile, publish=False)
    properties = module.get_device_properties(0)
    assert properties.name == "X"
    with pytest.raises(NotImplementedError, match="is_integrated"):
        properties.is_integrated  # noqa: B018 - asking for it is the test
    with pytest.raises(AttributeError):
        properties.warp_size  # noqa: B018 - asking for it is the test
    with pytest.raises(NotImplementedError, match="capability"):
        module.get_device_capability()


@pytest.mark.parametrize(
    ("state", "expected", "without_emulation"),
    [("", True, True), ("missing", False, False), ("narrowed", False, False), ("emulated", True, False)],
)
def test_bfloat16_is_what_the_card_says(state: str, expected: bool, without_emulation: bool) -> None:
    choice = registry.choose("gcu")
    target = Target(choice.backend, choice.version)
    profile = Profile("gcu", "2.10.0", "X", dtypes={"bfloat16": state} if state else {})
    module = plugin_namespace.build(target, cast("Native", StandIn("gcu")), profile, publish=False)
    assert module.is_bf16_supported() is expected
    assert module.is_bf16_supported(including_emulation=False) is without_emulation
    assert (torch.bfloat16 in module.get_amp_supported_dtype()) is expected


def test_range_markers_nest() -> None:
    module, _ = built("gcu")
    assert module.topstx.range_push("outer") == 0
    assert module.topstx.range_push("inner") == 1
    assert module.topstx.range_pop() == 1
    assert module.topstx.range_pop() == 0
    assert module.topstx.range_pop() == -1
    with module.topstx.range("step {}", 3):
        pass


def test_the_debug_mode_is_kept() -> None:
    module, _ = built("gcu")
    module.set_sync_debug_mode("warn")
    assert module.get_sync_debug_mode() == 1
    module.set_sync_debug_mode(0)
    assert module.get_sync_debug_mode() == 0
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        module.set_sync_debug_mode("loud")
