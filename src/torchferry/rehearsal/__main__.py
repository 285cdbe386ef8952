"""`python -m torchferry.rehearsal ARGUMENTS`: the same as `torchferry rehearse ARGUMENTS`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # The command line is a room above this one, so it is started, not imported.
    os.execv(sys.executable, [sys.executable, "-m", "torchferry", "rehearse", *sys.argv[1:]])  # noqa: S606
