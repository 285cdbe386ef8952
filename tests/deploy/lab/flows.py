"""Bundles of the lab, and the command line run on its servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.deploy.lab.packages import gcu_sources, musa_sources, npu_sources, sdaa_sources, t20_sources
from tests.deploy.lab.servers import Servers, roots
from torchferry.deploy.bundle import write_bundle


class Flow:
    """A vendor's flow on some servers.

    Args:
        servers: The servers.
        target: The target.
        bundle: The bundle's folder.
        arguments: What every command gets besides.
    """

    def __init__(self, servers: Servers, target: str, bundle: Path, *arguments: str) -> None:
        self.servers, self.target, self.bundle, self.arguments = servers, target, bundle, arguments
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(servers.folder / "state"),
            "TORCHFERRY_LANG": "en",
            "NO_COLOR": "1",
        }

    def command(self, action: str, *more: str) -> list[str]:
        """Return a command line."""
        where = ["-i", str(self.servers.inventory)] if action != "plan" else []
        bundle = ["-b", str(self.bundle)] if action != "report" else []
        extra = self.arguments if action != "report" else ()
        return [sys.executable, "-m", "torchferry", "deploy", action, "-t", self.target, *where, *bundle, *extra, *more]

    def __call__(self, action: str, *more: str) -> tuple[int, str]:
        """Run a command; return how it ended and what it printed."""
        done = subprocess.run(
            self.command(action, *more),
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout + done.stderr

    def json(self, action: str, *more: str) -> dict[str, Any]:
        """Run a command that prints JSON."""
        command = self.command(action, "-f", "json", *more)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def t20_flow(servers: Servers, folder: Path) -> Flow:
    """Make the bundle of the T20 flow, with an image that has its packages, and return the flow."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = t20_sources(folder, roots() / "prepared.tar", None)
    write_bundle(folder / "bundle", "ptex", sources, {"disk_mb": "500"})
    return Flow(servers, "ptex", folder / "bundle")


FLOWS = {
    "npu": (npu_sources, {"image": "lab/cann:1"}),
    "sdaa": (sdaa_sources, {"image": "lab/torch-sdaa:1"}),
    "gcu": (gcu_sources, {"image": "lab/torch-gcu:1"}),
    "musa": (musa_sources, {"image": "lab/torch-musa:1", "python": "python3"}),
}
"""What the bundles of the other flows carry, and their settings."""


def other_flow(target: str, servers: Servers) -> Flow:
    """Make the bundle of a target's flow beside its servers, and return the flow."""
    folder = servers.folder / target
    make, settings = FLOWS[target]
    write_bundle(folder / "bundle", target, make(folder, roots() / "prepared.tar"), {"disk_mb": "500", **settings})
    return Flow(servers, target, folder / "bundle")
