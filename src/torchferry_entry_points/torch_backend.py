"""What torch calls at the end of `import torch`, in every program of the environment."""

from __future__ import annotations

import os


def autoload() -> None:
    """Begin the redirect where `TORCHFERRY_SHIM` asks for it; without torchferry, end the program with the reason.

    Without the redirect that was asked for the program would run on the CPU.
    """
    if not os.environ.get("TORCHFERRY_SHIM"):
        return  # nothing more is imported, nor can fail
    try:
        from torchferry.shim import entry
    except Exception as error:
        import sys

        raise SystemExit(
            f"torchferry: TORCHFERRY_SHIM asks for the redirect, and torchferry cannot be imported ({error}); "
            f"install it again for {sys.executable}, or unset TORCHFERRY_SHIM"
        ) from None
    entry.autoload()
