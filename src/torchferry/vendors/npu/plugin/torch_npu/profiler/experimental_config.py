"""Settings of the vendor's profiler. Source: torch_npu/profiler/experimental_config.py of the torch-npu 2.9.0 wheel.

The names of the levels and metrics are public; what they stand for inside is not, and their own names serve here.
"""

from __future__ import annotations

from torchferry.rehearsal import facade_support as _facade_support
from torchferry.rehearsal.plugin_namespace import current as _current


class ProfilerLevel:
    """How much is measured."""

    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics:
    """What is counted in the compute cores."""

    PipeUtilization = "PipeUtilization"
    ArithmeticUtilization = "ArithmeticUtilization"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    ResourceConflictRatio = "ResourceConflictRatio"
    L2Cache = "L2Cache"
    MemoryAccess = "MemoryAccess"
    AiCoreNone = "AiCoreNone"


class ExportType:
    """What is written."""

    Db = "Db"
    Text = "Text"


class HostSystem:
    """What is measured of the host."""

    CPU = "CPU"
    MEM = "MEM"
    DISK = "DISK"
    NETWORK = "NETWORK"
    OSRT = "OSRT"


class _ExperimentalConfig:
    def __init__(
        self,
        profiler_level=ProfilerLevel.Level0,
        aic_metrics=AiCMetrics.AiCoreNone,
        l2_cache=False,
        msprof_tx=False,
        mstx=False,
        data_simplification=True,
        record_op_args=False,
        op_attr=False,
        gc_detect_threshold=None,
        export_type=None,
        host_sys=None,
        mstx_domain_include=None,
        mstx_domain_exclude=None,
        sys_io=False,
        sys_interconnection=False,
    ):
        self.settings = {name: value for name, value in locals().items() if name != "self"}


def _names(of: type) -> set[str]:
    return {value for name, value in vars(of).items() if not name.startswith("_")}


def supported_profiler_level() -> set[str]:
    """Return the levels."""
    return _names(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """Return the metrics."""
    return _names(AiCMetrics)


def supported_export_type() -> set[str]:
    """Return the kinds of files."""
    return _names(ExportType)


if _current().at_least("2.7.1.post8 2.9.0.post6 2.10.0.post4 2.11.0"):
    HostSystem.NUMA = "NUMA"
if not _current().at_least("2.1.0.post13 2.5.1.post1 2.6.0"):
    del HostSystem
__getattr__ = _facade_support.missing(__name__)
