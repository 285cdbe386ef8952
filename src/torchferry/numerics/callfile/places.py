"""The device that a call is replayed on, with what makes torch know it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

import torch

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.numerics.callfile.environment import plugins
from torchferry.numerics.callfile.reading import Call


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
        raise UsageError(say("{name} cannot be imported: {error}", name=name, error=error)) from None


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
            say("there is no device {device} here: {error}", device=wanted, error=str(error).splitlines()[0]),
            say("name one by `--device`, such as `--device cpu`"),
        ) from None
    return device
