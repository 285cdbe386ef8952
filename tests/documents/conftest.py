"""A folder for each trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.trial import Trial


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """An empty project."""
    return Trial(tmp_path)
