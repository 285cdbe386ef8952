"""One trial: files in a folder, and what torchferry says and writes there."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.process import torchferry
from tests.processes import HANGS
from tests.warm_python import ferry, instead

dear = pytest.mark.skipif(os.environ.get("TORCHFERRY_TEST_DOCUMENTS") != "1", reason="runs with `make coverage`")
"""For a trial that takes seconds of a processor: what it shows is shown by cheaper tests of ours, in other words."""


class Trial(NamedTuple):
    """A project in a folder of its own."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def read(self, name: str) -> str:
        """Return a file's text."""
        return (self.folder / name).read_text(encoding="utf-8")

    def says(self, *arguments: object, code: int = 0) -> str:
        """Run a command of torchferry here, and return what it prints; `code` is what it ends with."""
        done = torchferry(*arguments, cwd=self.folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def migrated(self, target: str, name: str, *options: object) -> str:
        """Migrate, and return what became of a file."""
        torchferry("migrate", ".", "-t", target, *options, cwd=self.folder)
        return self.read(name)

    def rehearsed(
        self,
        target: str,
        *command: str,
        options: tuple[str, ...] = (),
        code: int = 0,
        variables: dict[str, str] | None = None,
        typed: str | None = None,
    ) -> str:
        """Run a program on the simulated card, and return what it prints and what torchferry says of it.

        `typed` is what a person types.
        """
        done = subprocess.run(
            [ferry(), "-m", "torchferry", "rehearse", "-t", target, *options, "--", *instead(("python", *command))],
            cwd=self.folder, env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})},
            capture_output=True, text=True, check=False, timeout=HANGS, input=typed,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr
