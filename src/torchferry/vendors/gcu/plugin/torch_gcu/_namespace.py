"""What `torch.gcu` does beyond the names of `torch.cuda`; what is not done here, `contents.toml` lists.

Source: github.com/sunnygui-L/torch-gcu@e63ff282355f: torch_gcu/gcu/__init__.py, autocast_utils.py, profiler.
"""

from __future__ import annotations

import functools

import torch

from torch_gcu import _tunable
from torchferry.rehearsal import torch_versions
from torchferry.rehearsal.plugin_namespace import Namespace, Plugin, make_importable, submodule

_AMP_DTYPES = "float32 float16 uint8 uint16 uint32 uint64 int8 int16 int32".split()  # noqa: SIM905 - one line
_PROFILER = "schedule supported_activities tensorboard_trace_handler ProfilerAction record_function".split()  # noqa: SIM905


def complete(namespace: Namespace, plugin: Plugin) -> None:
    """Put the plugin's own names into `torch.gcu`, and give shared ones the plugin's own behaviour."""
    properties = namespace.__dict__["get_device_properties"]

    def get_device_properties(device: object) -> object:
        """Return the properties of a device, which has to be named."""
        return properties(device)

    get_device_properties.__qualname__ = "get_device_properties"

    def gcu_device(device: int | torch.device | None = None) -> torch.device:
        """Return the `torch.device` of an index, by default of the current one."""
        if isinstance(device, torch.device):
            device = device.index
        return torch.device("gcu", namespace.current_device() if device is None else device)

    def is_fp16_supported() -> bool:
        """Whether the card computes in float16: always."""
        return True

    def get_amp_supported_dtype() -> list[torch.dtype]:
        """Return the dtypes that `torch.autocast` accepts."""
        names = [*_AMP_DTYPES, *(["bfloat16"] if namespace.is_bf16_supported() else [])]
        return [getattr(torch, name) for name in names if hasattr(torch, name)]

    namespace.__dict__.update(
        get_device_properties=get_device_properties,
        gcu_device=gcu_device,
        is_fp16_supported=is_fp16_supported,
        get_amp_supported_dtype=get_amp_supported_dtype,
        **torch_versions.autocast_functions(plugin.native),
    )
    # Importing the plugin puts a profiler of its own in place of torch's; here both are torch's, with its names.
    _name_times()
    profiler = submodule(namespace, "profiler")
    profiler.__dict__.update({name: getattr(torch.profiler, name) for name in (*_PROFILER, "ProfilerActivity")})
    profiler.__dict__["profile"] = torch.profiler.profile
    submodule(namespace, "tunable").__dict__.update(_tunable.functions())
    submodule(namespace, "efficient")
    make_importable(namespace, plugin.target.backend)


def _name_times() -> None:
    """Let the tables of the profiler know the plugin's names of times: `gcu` and `cuda` for torch's `device`."""
    from torch.autograd.profiler_util import EventList, FormattedTimesMixin, FunctionEvent, FunctionEventAvg

    table = EventList.table

    @functools.wraps(table)
    def with_names(self: EventList, sort_by: str | None = None, *args: object, **kwargs: object) -> str:
        key = sort_by and sort_by.replace("cuda", "device").replace("gcu", "device")
        return table(self, key, *args, **kwargs)

    EventList.table = with_names
    FormattedTimesMixin.gcu_time = property(lambda event: event.device_time)
    for kind in (FunctionEvent, FunctionEventAvg):
        kind.gcu_time_total = property(lambda event: event.device_time_total)
        kind.self_gcu_time_total = property(lambda event: event.self_device_time_total)
