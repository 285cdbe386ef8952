"""The three groups of tests: `pure` by default, `rehearsal`, and `hardware`, skipped where there is no card."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from torchferry.backends import registry

# What one of the many processes compiles serves the others, also where the machine is set not to keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")  # how long an example takes says something of the machine alone


def pytest_configure(config: pytest.Config) -> None:
    """Keep what belongs to a user out of the home folder of who runs the tests; modules copy the environment."""
    folder = tempfile.TemporaryDirectory(prefix="torchferry-state-")
    config.add_cleanup(folder.cleanup)
    os.environ["XDG_STATE_HOME"] = folder.name
    os.environ["TORCHFERRY_NO_CACHE"] = "1"  # what a test changes in torchferry itself is seen


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    plugins = [registry.load(name).PLUGIN for name in registry.built_in()]
    installed = [plugin for plugin in plugins if find_spec(plugin) is not None]
    for item in items:
        if item.get_closest_marker("hardware") is not None:
            if not installed:
                item.add_marker(pytest.mark.skip(reason=f"needs a card and one of {', '.join(plugins)}"))
        elif item.get_closest_marker("rehearsal") is None:
            item.add_marker(pytest.mark.pure)


def pytest_collection_finish() -> None:
    """Spare each collection of garbage the look at what all tests share: torch, the tests, and what they import."""
    gc.collect()
    gc.freeze()
