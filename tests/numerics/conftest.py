"""The devices that tools are tried on: the CPU, and the rehearsed card that tests of the rehearsal use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torchferry.rehearsal.session import Session

from tests.rehearsal.conftest import native, rehearsed

__all__ = ["native", "rehearsed"]


@pytest.fixture(params=["cpu", "card"])
def device(request: pytest.FixtureRequest) -> str:
    """A type of device: each test runs on both."""
    if request.param == "cpu":
        return "cpu"
    session: Session = request.getfixturevalue("rehearsed")
    return session.backend.DEVICE_TYPE
