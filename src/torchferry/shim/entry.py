"""What is called at the end of `import torch`, by our entry point for torch: the redirect, where it was requested.

It never breaks `import torch` of who did not ask. A redirect that was asked for and cannot begin, for whatever reason,
would leave the program on the CPU, so the reason is shown, and the first question to `torch.cuda` raises it again.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Begin the redirect when `TORCHFERRY_SHIM` asks for it."""
    if not os.environ.get("TORCHFERRY_SHIM"):
        return  # nothing more is imported, nor can fail
    try:
        from torchferry.core import env

        if env.shim_asked():
            from torchferry.shim import launcher

            launcher.begin()
    except KeyboardInterrupt:
        raise  # the user ends the program
    except BaseException as error:  # a plugin may even call sys.exit
        from torchferry.shim import no_device

        no_device.refuse(error)
