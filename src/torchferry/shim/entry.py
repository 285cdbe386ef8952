"""What torch calls at the end of `import torch` (entry point `torch.backends`): the redirect, where it was asked for.

It never breaks `import torch`. A redirect that was asked for and cannot begin would leave the program on the CPU, so
the reason is shown, and the first question to `torch.cuda` raises it again.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Begin the redirect when `TORCHFERRY_SHIM` is 1."""
    if os.environ.get("TORCHFERRY_SHIM") != "1":
        return
    try:
        from torchferry.shim import launched

        launched.begin()
    except BaseException as error:
        import sys

        print(f"torchferry: the redirect did not begin: {error!r}", file=sys.stderr, flush=True)
