"""A vendor's plugin as it comes from an index: it loads its library, and names its device."""

import ctypes
import pathlib
import sys
import types

import torch

__version__ = "1.0"

_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libtorch_acme.so")))
_library.torch_acme_time_of_nothing.restype = ctypes.c_double


def _set_device(device: int) -> None:
    if _library.torch_acme_set_device(torch.device("acme", device).index if isinstance(device, int) else device.index):
        raise RuntimeError(f"ACME: invalid device ordinal {device}")


acme = types.ModuleType("torch_acme.acme")
acme.is_available = lambda: _library.torch_acme_device_count() > 0
acme.is_initialized = lambda: True
acme.device_count = _library.torch_acme_device_count
acme.current_device = _library.torch_acme_current_device
acme.set_device = _set_device
acme.time_of_nothing = _library.torch_acme_time_of_nothing
acme.manual_seed_all = lambda seed: None
acme._is_in_bad_fork = lambda: False
sys.modules[acme.__name__] = acme

_library.torch_acme_start()
torch.utils.rename_privateuse1_backend("acme")
torch._register_device_module("acme", acme)
