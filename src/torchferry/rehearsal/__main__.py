"""`python -m torchferry.rehearsal ARGUMENTS`: the same as `torchferry rehearse ARGUMENTS`."""

import os
import sys

from torchferry.core import own_python

if __name__ == "__main__":
    # The command line is a room above this one, so it is started, not imported. The user's program needs all variables.
    own_python.leave_current_folder()
    os.execv(sys.executable, own_python.module_command("torchferry", "rehearse", *sys.argv[1:]))  # noqa: S606
