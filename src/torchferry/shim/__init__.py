"""The redirect: an unchanged CUDA program runs on another accelerator, and sees a CUDA device.

`enable()` patches names of torch once, at start; `disable()` puts every one of them back. Nothing is faked: what the
card lacks raises and says what to use, and what differs in precision is said once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchferry.shim.collection import put_off

if TYPE_CHECKING:
    from torchferry.shim.redirect import Redirect

__all__ = ["enable"]


def enable(target: str = "auto") -> Redirect:
    """Redirect `torch.cuda` of this process to another accelerator.

    Args:
        target: `NAME` or `NAME@VERSION`, `cuda` for no redirect at all, or `auto` for the accelerator whose plugin is
            installed.

    Returns:
        A handle with `disable()`; it is a context manager, too.

    Raises:
        TorchferryError: there is no such target, none or several are installed, the plugin fails to import, another
            target is redirected to already, or torch is too old.
    """
    with put_off():
        from torchferry.shim.redirect import enable as enable_

        return enable_(target)
