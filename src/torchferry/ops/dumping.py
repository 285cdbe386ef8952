"""Has a process read what a plugin registers: the one that is installed, or a wheel on the simulated driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.ops.dumped import DumpedList
from torchferry.ops.processes import left_nothing


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
    with tempfile.TemporaryDirectory(prefix="torchferry-ops-", ignore_cleanup_errors=True) as name:
        out = Path(name) / "list.json"
        given = "" if wheel is None else str(wheel.absolute())
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # what it adds is seen when it is imported
        code = subprocess.run(
            [python or sys.executable, "-m", "torchferry.ops.registered", target.name, given, str(out)],
            env=environment,
            stdout=sys.stderr,
            check=False,
        ).returncode
        try:
            result = json.loads(out.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise left_nothing(say("the process that loaded {plugin}", plugin=target.backend.PLUGIN), code) from None
    if "error" in result:
        message, *advice = result["error"]
        raise TorchferryError(say("{text}", text=message), say("{text}", text=advice[0]) if advice else None)
    if "missing" in result:
        raise UsageError(
            say("{plugin} cannot be imported here: {error}", plugin=target.backend.PLUGIN, error=result["missing"]),
            say("run this where the plugin is installed, or name its wheel with `--wheel`"),
        )
    lists = {field: frozenset(names) for field, names in result["lists"].items()}
    if not lists.get("registered"):
        raise TorchferryError(
            say("{plugin} registers nothing for {key}", plugin=result["plugin"], key=target.backend.DISPATCH_KEY)
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
