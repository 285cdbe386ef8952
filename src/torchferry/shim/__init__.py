"""The redirect: an unchanged CUDA program runs on another accelerator, and sees a CUDA device.

`enable()` patches names of torch once, at start; `disable()` puts every one of them back. Nothing is faked: what the
card lacks raises and says what to use, and what differs in precision is said once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        TorchferryError: there is no such target, none or several are installed, the plugin fails to import or makes no
            device known, another target is redirected to already, or torch is too old.

    Whether the plugin sees a card is asked when the program asks, since the question starts the driver: a
    `torch.cuda.is_available()` that would be False for want of a card raises then.
    """
    from torchferry.shim import redirect

    redirected = redirect.enable(target)
    text = redirect.untested(redirected)
    if text is not None:
        from torchferry.shim.caller_policy import warn_user

        warn_user(text)
    return redirected
