"""What a call ran in: versions and settings that change numbers. No names of machines, people or folders."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from typing import Any

import torch

from torchferry import __version__
from torchferry.backends import registry
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.numerics.callfile.reading import Call


@lru_cache(maxsize=1)
def plugins() -> dict[str, str]:
    """Return, for each type of device that is known, the module that makes torch know it."""
    return {
        backend.DEVICE_TYPE: backend.PLUGIN for backend in map(registry.load, registry.names()) if backend.DEVICE_TYPE
    }


def environment(device: str) -> dict[str, Any]:
    """Describe this process for who replays its call elsewhere.

    Args:
        device: The device that the call ran on, `cpu` or one of a plugin.
    """
    kind = device.partition(":")[0]
    facts: dict[str, Any] = {
        "torchferry": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    plugin = plugins().get(kind, "")
    if plugin:
        facts["plugin"] = f"{plugin} {_version(plugin)}"
    elif kind == "cuda":
        facts["plugin"] = f"CUDA {torch.version.cuda}"
    module: Any = getattr(torch, kind, None) if kind != "cpu" else None
    if hasattr(module, "get_device_name"):
        try:
            facts["card"] = str(module.get_device_name(0))
        except (RuntimeError, AssertionError, TypeError) as error:
            facts["card"] = f"unknown: {error}"
    switches = {name: value for name, value in os.environ.items() if name.endswith(_SWITCHES)}
    if switches:
        facts["variables"] = switches
    return facts


_SWITCHES = ("_ALLOW_TF32", "_ALLOW_TF32_CUBLAS_OVERRIDE", "_DETERMINISTIC", "CUBLAS_WORKSPACE_CONFIG")
"""Ends of the names of environment variables that change how numbers are computed."""


def _version(plugin: str) -> str:
    stated = getattr(sys.modules.get(plugin), "__version__", None)
    if stated:
        return str(stated)
    try:
        return metadata.version(plugin)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def libraries(name: str) -> list[str]:
    """Return the modules that bring a custom operator, as far as torch knows them: `my_ext.ops` for `my::op`."""
    if name.partition("::")[0] in {"aten", "prims", "prim", "quantized", "profiler"}:
        return []
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return []
    defined: Any = OPDEFS.get(name)
    module = getattr(getattr(defined, "_init_fn", None), "__module__", "")
    return [module] if module else []


# The device that a call is replayed on, with what makes torch know it.


def import_libraries(names: Iterable[str]) -> None:
    """Import what brings custom operators: modules, or libraries that end in `.so`.

    Raises:
        UsageError: one cannot be imported.
    """
    name = ""
    try:
        for name in names:
            if name.endswith(".so"):
                torch.ops.load_library(name)
            else:
                importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise UsageError(
            say("{name} cannot be imported: {error}", name=name, error=error),
            say("give --import a module that this Python can import, or the path of a library that ends in .so"),
        ) from None


def place(call: Call, named: str = "") -> torch.device:
    """Return the device that a call is replayed on: the one that is named, or the one that it was written on.

    Raises:
        TorchferryError: this machine has no such device; another one is never taken in its place.
    """
    wanted = named or str(call.document["device"])
    kind = wanted.partition(":")[0]
    plugin = plugins().get(kind)
    try:
        if plugin and not hasattr(torch, kind):
            importlib.import_module(plugin)
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (ImportError, RuntimeError, AssertionError) as error:
        raise TorchferryError(
            say(
                "device {device} is not available on this machine: {error}",
                device=wanted,
                error=str(error).splitlines()[0],
            ),
            say("name another one with `--device`, such as `--device cpu`"),
        ) from None
    return device
