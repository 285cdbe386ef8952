"""Triton for the tests, unpacked from the wheels that `make wheels` fetches: the environment itself has none."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

WHEELS = ("triton_ascend", "pybind11")
"""The vendor's Triton and what it imports."""


@cache
def folder() -> str:
    """Unpack the wheels for this Python and return the folder; the test that asks is skipped where there are none."""
    source = Path(os.environ.get("TORCHFERRY_WHEELS", "") or Path(sys.prefix) / "wheels")
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    kinds = (f"{here}-*{os.uname().machine}*", "none-any")
    wheels = {name: [path for kind in kinds for path in source.glob(f"{name}-*-{kind}.whl")] for name in WHEELS}
    missing = [name for name, found in wheels.items() if not found]
    if missing:
        pytest.skip(f"no wheel of {', '.join(missing)} for this Python; `make wheels` fetches it")
    made = tempfile.TemporaryDirectory(prefix="triton-")
    _KEPT.append(made)
    for found in wheels.values():
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(made.name)
    return made.name


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the process ends."""


def with_triton(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment in which Triton can be imported."""
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (folder(), environment.get("PYTHONPATH", ""))))}
