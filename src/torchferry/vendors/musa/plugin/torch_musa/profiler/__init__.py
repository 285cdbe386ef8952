"""What torch_musa adds to `torch.profiler`: programs use torch's own profiler with ProfilerActivity.MUSA.

Up to 2.0.1 the plugin replaced the profiler of torch by its own, whose columns are `musa_time_total` and so on. They
are torch's columns of the device here, which a rehearsal leaves at 0.

Source: torch_musa/autograd/profiler_util.py, v2.0.0.
"""

import functools as _functools
import warnings as _warnings

from torch import profiler as _torch_profiler
from torch.autograd import profiler_util as _profiler_util

from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)

_ENDS = ("time", "time_total", "memory_usage")


def name_columns(device):
    """Give the events of torch's profiler columns that are named after the device, as the plugin's own had them."""
    for kind in (_profiler_util.FunctionEvent, _profiler_util.FunctionEventAvg):
        for start in ("", "self_"):
            for end in _ENDS:
                column = property(lambda event, name=f"{start}device_{end}": getattr(event, name))
                setattr(kind, f"{start}{device}_{end}", column)
    metrics = ["self_cpu_time_total", f"self_{device}_time_total"]
    _profiler_util.EventList.supported_export_stacks_metrics = lambda events: metrics


def take_switch(device):
    """Let torch's profiler take `use_<device>`, as the plugin's own does: it warns, and changes nothing.

    Source: torch_musa/profiler/profiler.py of v2.0.0: the deprecated argument changes no activity.
    """
    kind, name = _torch_profiler.profile, f"use_{device}"
    original = kind.__init__

    @_functools.wraps(original)
    def init(self, *args, **kwargs):
        if kwargs.pop(name, None) is not None:
            _warnings.warn(f"{name} is deprecated, use activities argument instead", stacklevel=2)
        original(self, *args, **kwargs)

    kind.__init__ = init
