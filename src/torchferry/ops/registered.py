"""Reads what a plugin registers, in its own process: `python -m torchferry.ops.registered`.

Registrations are read, not what torch computes of them: a plugin with a fallback has a kernel for everything.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import torch

from torchferry.backends.base import Backend
from torchferry.backends.registry import choose
from torchferry.ops.child import answer

KEYS = {
    "registered": "",
    "autograd": "Autograd",
    "sparse": "Sparse",
    "sparse_compressed": "SparseCsr",
    "nested": "NestedTensor",
}
"""The lists of `registrations.LISTS`, each with what is in front of the device's dispatch key."""


def registered(key: str) -> dict[str, set[str]]:
    """Return the operators of aten that have a kernel for a device, by kind of tensor.

    Args:
        key: The device's dispatch key, such as `PrivateUse1`.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    lists: dict[str, set[str]] = {}
    for field, before in KEYS.items():
        try:
            lists[field] = {name.removeprefix("aten::") for name in names if has(name, f"{before}{key}")}
        except RuntimeError:  # noqa: PERF203 - this torch has no such key
            continue
    return lists


def added(target: str, wheel: str) -> dict[str, Any]:
    """Return what importing a plugin adds to torch's dispatcher, with its version.

    Args:
        target: Name of the backend.
        wheel: Path of a wheel, which is loaded on the simulated driver; empty for the plugin that is installed.
    """
    backend = choose(target).backend
    version = _from_wheel(backend, Path(wheel)) if wheel else ""
    before = registered(backend.DISPATCH_KEY)
    plugin = importlib.import_module(backend.PLUGIN)
    after = registered(backend.DISPATCH_KEY)
    return {
        "plugin": backend.PLUGIN,
        "plugin_version": version or _version(backend.PLUGIN, plugin),
        "torch": str(torch.__version__).partition("+")[0],
        "lists": {field: sorted(names - before.get(field, set())) for field, names in after.items()},
    }


def _version(name: str, plugin: Any) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(getattr(plugin, "__version__", ""))


def _from_wheel(backend: type[Backend], wheel: Path) -> str:
    """Make a wheel's package importable; return the plugin's version."""
    from torchferry.core.errors import UsageError
    from torchferry.core.messages import say
    from torchferry.rehearsal.driver.looking import make_importable

    plugin = make_importable(wheel, backend)
    if plugin is None:
        raise UsageError(
            say("the driver of {target} is not simulated", target=backend.NAME),
            say("run `torchferry ops dump` on a machine with the plugin"),
        )
    return plugin.version


def _work(target: str, wheel: str) -> dict[str, Any]:
    try:
        return added(target, wheel)
    except ImportError as error:
        return {"missing": str(error)}


def main() -> None:
    """Write what was read, or why it could not be, into a file."""
    answer(_work)
    os._exit(0)  # what a plugin does at its end needs a card


if __name__ == "__main__":
    main()
