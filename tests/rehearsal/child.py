"""Child processes that have a rehearsal of their own."""

from __future__ import annotations

import os
import textwrap

from tests import warm

ENVIRONMENT = dict(os.environ)
"""As it was before any test started a rehearsal in this process."""

_START = """
import torch
import torchferry.rehearsal
torch.set_num_threads(1)
{before}
session = torchferry.rehearsal.enable({arguments})
device = session.backend.DEVICE_TYPE
"""


def run_snippet(
    snippet: str,
    target: str = "sdaa",
    *,
    status: int = 0,
    enable: str = "devices=2",
    before: str = "",
    environment: dict[str, str] | None = None,
) -> tuple[str, str]:
    """Run `snippet` on a device of its own and return what it printed to stdout and stderr.

    Args:
        snippet: Python; it finds `torch`, `session` and `device`, the device's type.
        target: What is rehearsed.
        status: The exit status that the process must have.
        enable: Further arguments of `torchferry.rehearsal.enable`, as source.
        before: A line to run before the device is there.
        environment: Variables to add.
    """
    start = _START.format(arguments=f'{target!r}, plugin="simulated", {enable}', before=before)
    (done,) = warm.run(start + textwrap.dedent(snippet), environments=[{**ENVIRONMENT, **(environment or {})}])
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr
