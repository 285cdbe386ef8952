"""What pytest loads at its start: the plugin of rehearsals, where torchferry is still there."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # `--rehearse` is then an option that pytest does not know, and says so
    from torchferry.rehearsal.pytest_plugin import *  # noqa: F403 - pytest looks for hooks and fixtures here
