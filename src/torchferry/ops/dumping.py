"""Has a process read what a plugin registers: the one that is installed, or a wheel on the simulated driver."""

from __future__ import annotations

from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.ops.child import result_of
from torchferry.ops.dumped import DumpedList


def dumped_from(target: Target, wheel: Path | None, python: str = "") -> DumpedList:
    """Return what a target's plugin registers.

    Args:
        target: The target.
        wheel: A wheel of the plugin, for a machine without a card; None for the plugin that is installed.
        python: The interpreter that has the plugin; empty for ours.

    Raises:
        UsageError: the plugin is not installed.
        TorchferryError: it cannot be loaded, or registers nothing.
    """
    plugin = target.backend.PLUGIN
    result = result_of(
        "torchferry.ops.registered",
        {"target": target.name, "wheel": "" if wheel is None else str(wheel.absolute())},
        say("the process that loaded {plugin}", plugin=plugin),
        python,
    )
    if "missing" in result:
        raise UsageError(
            say("{plugin} cannot be imported here: {error}", plugin=plugin, error=result["missing"]),
            say("run this where the plugin is installed, or name its wheel with `--wheel`"),
        )
    lists = {field: frozenset(names) for field, names in result["lists"].items()}
    if not lists.get("registered"):
        raise TorchferryError(
            say("{plugin} registers no operators for {key}", plugin=result["plugin"], key=target.backend.DISPATCH_KEY),
            say("check that this is the plugin of {target}, and that it is installed completely", target=target.name),
        )
    where = f"the wheel {wheel.name}, on a simulated driver" if wheel is not None else "the plugin that is installed"
    return DumpedList(
        target.name,
        result["plugin"],
        result["plugin_version"],
        result["torch"],
        f"registrations of {where}, with torch {result['torch']}",
        lists,
    )
