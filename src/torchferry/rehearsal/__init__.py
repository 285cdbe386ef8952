"""A simulated accelerator on the CPU, with the name, the API, the operators and the limits of a vendor's card.

`torchferry rehearse` runs a command on it; `enable` puts it into this process, such as a test's or a notebook's.
A rehearsal proves that code is right for the card's API. It says nothing about the card's speed or accuracy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from torchferry.rehearsal.config import Rehearsal
    from torchferry.rehearsal.driver.session import ShippedSession
    from torchferry.rehearsal.session import Session

__all__ = ["current", "enable"]


@overload
def enable(
    target: str,
    *,
    card: str = "",
    devices: int = 0,
    profile: str | Path | None = None,
    faults: tuple[str, ...] = (),
    plugin: Literal["simulated"],
    beside_card: bool = False,
    races: bool = False,
) -> Session: ...


@overload
def enable(
    target: str,
    *,
    card: str = "",
    devices: int = 0,
    profile: str | Path | None = None,
    faults: tuple[str, ...] = (),
    plugin: str | Path = "",
    beside_card: bool = False,
    races: bool = False,
) -> Session | ShippedSession: ...


def enable(
    target: str,
    *,
    card: str = "",
    devices: int = 0,
    profile: str | Path | None = None,
    faults: tuple[str, ...] = (),
    plugin: str | Path = "",
    beside_card: bool = False,
    races: bool = False,
) -> Session | ShippedSession:
    """Put the simulated card into this process and its children; the device is there when this returns.

    Args:
        target: `NAME` or `NAME@VERSION`, the version being the plugin's.
        card: Name of a card; without it, the target's usual one.
        devices: Number of devices, 1 to 16; 0 for as many as one card has.
        profile: A TOML file that changes the known facts about the card.
        faults: Faults such as `op=aten.addmm,kind=noise,scale=1e-2`.
        plugin: `installed` or the path of a wheel, for the vendor's own on a simulated driver; or `simulated`. Without
            it, the plugin that is installed where this machine has no card, else the simulated one; a warning says
            why an installed one is not taken.
        beside_card: Whether a card of this machine may be hidden by the simulated one.
        races: Whether races between streams, and of the host with copies, are looked for.

    Raises:
        TorchferryError: something named does not exist, torch is too old, the device cannot be built, or this process
            already has another one.
    """
    import warnings

    from torchferry.rehearsal.config import prepare
    from torchferry.rehearsal.driver.plugin import not_taken

    file = None if profile is None else Path(profile)
    rehearsal = prepare(target, card, devices, file, faults, str(plugin), beside_card=beside_card, races=races)
    hint = not_taken(rehearsal.resolved().backend, str(plugin), target.partition("@")[2])
    if hint is not None:
        warnings.warn(hint.render(), stacklevel=2)
    return begin(rehearsal)


def begin(rehearsal: Rehearsal) -> Session | ShippedSession:
    """Put a rehearsal that was prepared into this process and its children, as `enable` does.

    Raises:
        TorchferryError: torch is too old, the device cannot be built, or this process already has another one.
    """
    import os
    import sys

    from torchferry.core.errors import TorchferryError
    from torchferry.core.messages import say
    from torchferry.rehearsal import site
    from torchferry.rehearsal.config import VARIABLE

    running = current()
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
    variables = {VARIABLE: str(folder), "PYTHONPATH": site.search_path(folder, rehearsal)}
    before, path = {name: os.environ.get(name) for name in variables}, list(sys.path)
    os.environ.update(variables)
    sys.path[:0] = site.paths(folder, rehearsal)
    try:
        return _started(rehearsal)
    except BaseException:  # whoever goes on from here must not meet half of a rehearsal
        sys.path[:] = path
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        raise


def _started(rehearsal: Rehearsal) -> Session | ShippedSession:
    import importlib

    from torchferry.rehearsal import bootstrap

    _import_torch()
    bootstrap.require_torch()
    if rehearsal.shipped is not None:
        from torchferry.rehearsal.driver import session as driver_session

        return driver_session.start(rehearsal.resolved().backend.PLUGIN)
    from torchferry.rehearsal import session

    started = session.start()
    if rehearsal.resolved().autoloads() is True:
        importlib.import_module(started.backend.PLUGIN)  # `import torch` would have done it
    return started


def current() -> Session | ShippedSession | None:
    """Return the rehearsal that this process takes part in with its device; None where there is none (yet)."""
    import sys

    for name in ("torchferry.rehearsal.driver.session", "torchferry.rehearsal.session"):
        module = sys.modules.get(name)
        running: Session | ShippedSession | None = None if module is None else module.current()
        if running is not None:
            return running
    return None


def _import_torch() -> None:
    """Import torch without the plugins that it would load by itself: the device comes first, and says what is wrong."""
    import os

    variable = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    wanted = os.environ.get(variable)
    os.environ[variable] = "0"
    try:
        import torch  # noqa: F401
    finally:
        if wanted is None:
            del os.environ[variable]
        else:
            os.environ[variable] = wanted
