"""Ending a process of Windows with all that it started: there, no signal reaches a group."""

from __future__ import annotations

import os
import subprocess

from torchferry.core.tool_environment import tool_environment


def end_tree(process: int) -> None:
    """End a process and those that it started, with the system's own tool; one that has ended is no error."""
    folder = os.environ.get("SYSTEMROOT", r"C:\Windows")
    subprocess.run(
        [os.path.join(folder, "System32", "taskkill.exe"), "/PID", str(process), "/T", "/F"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=tool_environment(os.environ),
        check=False,
    )
