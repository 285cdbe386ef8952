"""A simulated accelerator on the CPU, with the name, the API, the operators and the limits of a vendor's card.

`torchferry rehearse` runs a command on it; `enable` puts it into this process, such as a test's or a notebook's.
A rehearsal proves that code is right for the card's API. It says nothing about the card's speed or accuracy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchferry.rehearsal.session import Session

__all__ = ["enable"]


def enable(
    target: str,
    *,
    card: str = "",
    devices: int = 0,
    profile: str | Path | None = None,
    faults: tuple[str, ...] = (),
) -> Session:
    """Put the simulated card into this process and its children; the device is there when this returns.

    Args:
        target: `NAME` or `NAME@VERSION`, the version being the plugin's.
        card: Name of a card; without it, the target's usual one.
        devices: Number of devices, 1 to 16; 0 for as many as one card has.
        profile: A TOML file that changes what is known of the card.
        faults: Faults such as `op=aten.addmm,kind=noise,scale=1e-2`.

    Raises:
        TorchferryError: something named does not exist, torch is too old, the device cannot be built, or this process
            already has another one.
    """
    import importlib
    import os
    import sys

    import torch  # noqa: F401 - before the session's module, which a rehearsed process loads inside this import

    from torchferry.core.errors import TorchferryError
    from torchferry.core.messages import say
    from torchferry.rehearsal import session, site
    from torchferry.rehearsal.config import VARIABLE, prepare

    running = session.current()
    rehearsal = prepare(target, card, devices, None if profile is None else Path(profile), faults)
    if running is not None:
        if running.rehearsal == rehearsal:
            return running
        raise TorchferryError(
            say(
                "this process already rehearses {card} of {target}; torch allows one such device per process",
                card=running.profile.card,
                target=running.rehearsal.target,
            ),
            say("start another process for another card"),
        )
    folder = site.joined(rehearsal) or site.make(rehearsal)
    os.environ[VARIABLE] = str(folder)
    sys.path[:0] = site.paths(folder, rehearsal)
    os.environ["PYTHONPATH"] = site.search_path(folder, rehearsal)
    started = session.start()
    if rehearsal.resolved().autoloads() is True:
        importlib.import_module(started.backend.PLUGIN)  # `import torch` would have done it
    return started
