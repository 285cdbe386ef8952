"""One device for the whole pytest process, because torch takes one; other devices are for child processes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native
    from torchferry.rehearsal.session import Session

TARGET = "sdaa"
"""A target whose list of operators nobody knows: nothing is missing that a test does not take away."""


@pytest.fixture(scope="session")
def rehearsed() -> Iterator[Session]:
    """The rehearsal of this process. What it sets for children is taken back: other tests' children are their own."""
    torch = pytest.importorskip("torch")
    from torchferry import rehearsal

    torch.set_num_threads(1)
    environment, path = dict(os.environ), list(sys.path)
    session = rehearsal.enable(TARGET, devices=2, plugin="simulated")
    os.environ.clear()
    os.environ.update(environment)
    yield session
    sys.path[:] = path


@pytest.fixture
def device(rehearsed: Session) -> str:
    """Type of the device, which has two of them."""
    return rehearsed.backend.DEVICE_TYPE


@pytest.fixture
def native(rehearsed: Session) -> Iterator[Native]:
    """The device's settings, put back afterwards."""
    gc.collect()
    yield rehearsed.native
    rehearsed.native.set_capacity(rehearsed.profile.memory)
    rehearsed.native.set_dtypes([], [], [])
    rehearsed.native.set_rounding(matmul=0, convolution=0)
    rehearsed.native.set_fallback_warns(True)
