"""What a command needs of an extra, which is not installed with torchferry itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say


@contextmanager
def of_extra(extra: str, *packages: str) -> Iterator[None]:
    """Import what a command needs of the extra that is called as the command.

    Args:
        extra: The extra.
        packages: Modules that come with it, first the one that the user knows; another that is absent is our fault.

    Raises:
        TorchferryError: one of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise TorchferryError(
            say("`torchferry {name}` needs the package {package}", name=extra, package=packages[0]),
            say("pip install 'torchferry[{extra}]'", extra=extra),
        ) from None
