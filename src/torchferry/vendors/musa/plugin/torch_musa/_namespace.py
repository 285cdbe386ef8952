"""What `torch.musa` does beyond the names of `torch.cuda`, and what the plugin changes in torch.

What is not done here, `contents.toml` lists.

Source: github.com/MooreThreads/torch_musa@8b583b3f2fd0 (2.7.1): torch_musa/__init__.py and torch_musa/core.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

import torch
from torch.multiprocessing import reductions

from torchferry.rehearsal import facade_support, sharing
from torchferry.rehearsal.plugin_namespace import Namespace, Plugin

_SUBMODULES = ("core", "distributed", "musa_graph", "optim", "profiler", "utils")

_FORK_RNG = torch.random.fork_rng


def complete(namespace: Namespace, plugin: Plugin, autoload: Callable[[], None]) -> None:
    """Put the plugin's own names into `torch.musa`, and do to torch what its import does."""
    stated = facade_support.stated_version()
    names: dict[str, object] = {
        "__version__": stated,
        "get_device_properties": _required_device(namespace.__dict__["get_device_properties"]),
        "fork_rng": functools.partial(_FORK_RNG, device_type="musa"),
        "_autoload": autoload,
    }
    if plugin.at_least("2.7.1"):
        names["is_tf32_supported"] = _is_tf32_supported
    namespace.__dict__.update(names)
    for name in _SUBMODULES:
        namespace.__dict__[name] = importlib.import_module(f"torch_musa.{name}")
    from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension

    namespace.__dict__.update(BuildExtension=BuildExtension, MUSAExtension=MUSAExtension)

    from torch_musa.core import mudnn

    torch.backends.mudnn = mudnn.mudnn
    torch.random.fork_rng = namespace.__dict__["fork_rng"]
    _share_as_cuda_does()
    if plugin.at_least("2.7.0"):
        _speak_of_this_device()
    if plugin.at_least("2.5.0"):
        namespace.mccl.__dict__.update(facade_support.stubs("torch.musa.mccl", ["version"]))
    facade_support.add_profiler_activity("MUSA")
    if not plugin.at_least("2.1.0"):
        namespace.profiler.name_columns("musa")
        namespace.profiler.take_switch("musa")
    torch.version.musa = None  # the version of a toolkit that is not here
    torch.distributed.is_mccl_available = lambda: True  # in the vendor's build of torch


def _share_as_cuda_does() -> None:
    """Let torch's own functions for CUDA tensors in other processes serve this device: the vendor's torch sends so."""
    reductions.rebuild_cuda_tensor = sharing.rebuild_tensor
    untyped = torch.UntypedStorage
    untyped._share_cuda_, untyped._new_shared_cuda = untyped._share_musa_, untyped._new_shared_musa
    is_shared = untyped.is_shared
    untyped.is_shared = lambda self: self.device.type == "musa" or is_shared(self)


def _speak_of_this_device() -> None:
    """Let torch's questions about autocast that name no device mean this one."""
    is_enabled, set_enabled = torch.is_autocast_enabled, torch.set_autocast_enabled

    def is_autocast_enabled(*device_type: str) -> bool:
        """Whether autocast is on, by default for this device."""
        return is_enabled(*(device_type or ("musa",)))

    def set_autocast_enabled(*arguments: object) -> None:
        """Turn autocast on or off, by default for this device."""
        set_enabled(*(("musa", *arguments) if len(arguments) == 1 else arguments))

    torch.is_autocast_enabled, torch.set_autocast_enabled = is_autocast_enabled, set_autocast_enabled


def _required_device(function: object) -> object:
    def get_device_properties(device: object) -> object:
        """Return the properties of a device, which has to be named."""
        return function(device)

    get_device_properties.__qualname__ = "get_device_properties"
    return get_device_properties


def _is_tf32_supported() -> bool:
    """Whether the card is of capability 2.2 or above."""
    return torch.musa.get_device_capability() >= (2, 2)
