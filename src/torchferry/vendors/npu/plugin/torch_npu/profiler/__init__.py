"""The vendor's profiler as a program sees it: it writes files and has no tables.

Sources: torch_npu/profiler of the torch-npu 2.9.0 and 2.13.0 wheels; native_api/pytorch_2-13-0/torch-profiler.md of
github.com/Ascend/pytorch@9e73e708ab93 (key_averages: no).
"""

from torch_npu.profiler import experimental_config
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profiler import (
    ProfilerActivity,
    _KinetoProfile,
    profile,
    supported_activities,
    tensorboard_trace_handler,
)
from torch_npu.profiler.scheduler import ProfilerAction
from torch_npu.profiler.scheduler import Schedule as schedule  # noqa: N813 - the vendor's name
from torchferry.rehearsal import facade_support as _facade_support

__all__ = [
    "AiCMetrics",
    "ExportType",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]
if hasattr(experimental_config, "HostSystem"):
    HostSystem = experimental_config.HostSystem
__getattr__ = _facade_support.missing(__name__)
