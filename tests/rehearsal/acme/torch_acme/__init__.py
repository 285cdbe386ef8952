"""A vendor's plugin as it comes from an index: it loads its library, and names its device."""

import ctypes
import pathlib
import sys
import types

import torch
from torch.utils.backend_registration import rename_privateuse1_backend

__version__ = "1.0"

_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libtorch_acme.so")))
_library.torch_acme_last_error.restype = ctypes.c_char_p
_library.torch_acme_event_time.restype = ctypes.c_double


def _set_device(device: int) -> None:
    if _library.torch_acme_set_device(device):
        raise RuntimeError(f"ACME: invalid device ordinal {device}")


def _temperature() -> int:
    degrees: int = _library.torch_acme_temperature()
    if degrees < 0:
        raise RuntimeError(f"ACME: {_library.torch_acme_last_error().decode()}")
    return degrees


acme = types.ModuleType("torch_acme.acme")
vars(acme).update(
    is_available=lambda: _library.torch_acme_device_count() > 0,
    is_initialized=lambda: True,
    device_count=_library.torch_acme_device_count,
    current_device=_library.torch_acme_current_device,
    set_device=_set_device,
    temperature=_temperature,
    event_time=_library.torch_acme_event_time,
    manual_seed_all=lambda seed: None,
    _is_in_bad_fork=lambda: False,
)
sys.modules[acme.__name__] = acme

_library.torch_acme_start()
rename_privateuse1_backend("acme")
torch._register_device_module("acme", acme)  # type: ignore[no-untyped-call]
