"""The handle of a redirect, and how one begins and ends."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from torchferry.backends import cuda
from torchferry.backends.installed import installed, installed_version
from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.core import env, supported_torch
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.shim import no_device

if TYPE_CHECKING:
    from torchferry.shim.call_sites import CallSites


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect nothing inside the block: with all of torch loaded, one full collection takes longer than every patch."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


_lock = threading.RLock()
_current: Redirect | None = None


class Redirect:
    """A redirect that is in force until `disable()`.

    Attributes:
        target: Where to; None on CUDA itself, where nothing is patched.
        names: The full names of what was patched.
    """

    def __init__(self, target: Target | None) -> None:
        from torchferry.shim.patches import Patches  # imported late: the redirect of CUDA needs no torch

        self.target = target
        self._patches = Patches()
        self._devices: object = None
        self._uses = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of what was patched."""
        return tuple(self._patches.names)

    @property
    def active(self) -> bool:
        """Whether the redirect is in force."""
        return self._uses > 0

    def disable(self) -> None:
        """Put back everything that was patched; of several `enable()` the last one to end does it."""
        global _current  # noqa: PLW0603 - a process has one torch
        with _lock:
            if self._uses == 0:
                return
            self._uses -= 1
            if self._uses == 0:
                self._end()
                if _current is self:
                    _current = None

    def _end(self) -> None:
        end = getattr(self._devices, "end", None)
        if end is not None:
            end()
        self._patches.restore()

    def __enter__(self) -> Redirect:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.disable()

    def __repr__(self) -> str:
        state = "active" if self.active else "ended"
        return f"<torchferry redirect of torch.cuda to {self.target or cuda.DEVICE_TYPE}, {state}>"


def current() -> Redirect | None:
    """Return the redirect of this process, or None."""
    return _current


def enable(text: str, *, instead_of: str = "") -> Redirect:
    """Redirect this process; see `torchferry.shim.enable`.

    Args:
        text: The target.
        instead_of: Module of another redirect that is being imported, and that this one stands in for.
    """
    global _current  # noqa: PLW0603 - a process has one torch
    with _lock, gc_paused():
        wanted_target = choose(text)
        if wanted_target is not None:
            import torch  # noqa: F401 - may begin the redirect itself, where the environment asks for it
        if _current is not None:
            return _again(_current, wanted_target, text)
        redirect = Redirect(wanted_target)
        if wanted_target is not None:
            try:
                _begin(redirect, wanted_target, instead_of)
            except BaseException:
                redirect._end()
                raise
        _current = redirect
        return redirect


def choose(text: str) -> Target | None:
    """Return the target for what the user named, at the version of the plugin; None for CUDA itself.

    Raises:
        UsageError: the name is unknown, or `auto` finds none or several.
    """
    if text == cuda.DEVICE_TYPE:
        return None
    if text != "auto":
        named = Target.requested(text)
        return named if named.version else Target(named.backend, installed_version(named.backend))
    plugins = installed()
    if len(plugins) == 1:
        return Target(plugins[0], installed_version(plugins[0]))
    if plugins:
        raise UsageError(
            say("several plugins are installed: {names}", names=", ".join(backend.PLUGIN for backend in plugins)),
            say("name the target: {names}", names=", ".join(backend.NAME for backend in plugins)),
        )
    if _has_cuda():
        return None
    raise UsageError(
        say("no accelerator's plugin is installed, and there is no CUDA device"),
        say(
            "install the plugin of one of {names}, or rehearse the program on a simulated card: `torchferry rehearse`",
            names=", ".join(built_in()),
        ),
    )


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _again(running: Redirect, wanted: Target | None, text: str) -> Redirect:
    same = str(running.target) == str(wanted) or (text == "auto")
    if not same:
        raise TorchferryError(
            say(
                "torch.cuda is already redirected to {running} and cannot be redirected to {wanted} as well",
                running=running.target or cuda.DEVICE_TYPE,
                wanted=wanted or cuda.DEVICE_TYPE,
            ),
            say("disable the first redirect, or start another process"),
        )
    running._uses += 1
    return running


def _begin(redirect: Redirect, target: Target, instead_of: str) -> None:
    import torch

    from torchferry.shim import visible_devices

    supported_torch.require(str(torch.__version__), say("the redirect"))
    visible_devices.patch(redirect._patches, target)  # first: a plugin may count its cards as it is imported
    load_plugin(target)
    _check_device(target)
    _refuse_others(target, instead_of)
    from torchferry.shim import install

    folder = env.sites_folder()
    call_sites = None if folder is None else _call_sites()
    redirect._devices = install.patch(redirect._patches, target, call_sites)
    if call_sites is not None and folder is not None:
        call_sites.write_into(folder)


def _call_sites() -> CallSites:
    from torchferry.shim.call_sites import CallSites  # imported late: few programs are asked for their lines

    return CallSites()


def _refuse_others(target: Target, instead_of: str) -> None:
    """Two redirects on top of each other would translate what the other one already has."""
    for module in target.backend.REDIRECTIONS:
        if module in sys.modules and module != instead_of:
            raise TorchferryError(
                say("`{module}` redirects torch.cuda already", module=module),
                say("remove its import, or do not use torchferry's redirect"),
            )


def untested(redirect: Redirect) -> Message | None:
    """Return what to say of a torch with which the redirect was not tested; None where it was, or there is none."""
    if redirect.target is None:
        return None
    import torch

    version = str(torch.__version__)
    if supported_torch.is_tested(version):
        return None
    return say(
        "torch {version} is not tested with the redirect, which ran with torch {tested}",
        version=version,
        tested=supported_torch.ran(),
    )


def load_plugin(target: Target) -> None:
    """Import the plugin of a target.

    Raises:
        TorchferryError: it fails; the error is shown whole.
    """
    plugin = target.backend.PLUGIN
    if plugin in sys.modules:
        return
    try:
        importlib.import_module(plugin)
    except (Exception, SystemExit) as error:  # some end the process where their driver does not answer
        raise TorchferryError(_failure(target, error), _advice(target, error)) from error


def _failure(target: Target, error: BaseException) -> Message:
    if _is_absent(target, error):
        return say(
            "the plugin `{plugin}` of {target} is not installed in {python}",
            plugin=target.backend.PLUGIN,
            target=target.title,
            python=sys.executable,
        )
    return say(
        "the plugin `{plugin}` of {target} fails to import: {error}",
        plugin=target.backend.PLUGIN,
        target=target.title,
        error=no_device.in_full(error),
    )


def _is_absent(target: Target, error: BaseException) -> bool:
    """Whether Python does not find the plugin, rather than that it fails."""
    return isinstance(error, ModuleNotFoundError) and error.name == target.backend.PLUGIN


def _advice(target: Target, error: BaseException) -> Message:
    if _is_absent(target, error):
        return say("{install}; `torchferry doctor` shows what else is missing", install=target.install)
    from torchferry.backends.errors import errors_of, first_match  # imported late: few plugins fail

    text = "".join(traceback.format_exception(error))
    match = first_match(errors_of(target.backend), text, ("machine",))
    if match is not None and match.entry.commands:
        return say(
            "{cause}; `torchferry doctor --target {name}` checks the machine; commands that fix this:{commands}",
            cause=match.causes[0],
            name=target.name,
            commands="".join(f"\n    {command}" for command in match.commands(sys.executable)),
        )
    return no_device.ask_the_doctor(target)


def _check_device(target: Target) -> None:
    """A plugin may be imported and do nothing: half installed, or another package of its name."""
    import torch

    device = target.backend.DEVICE_TYPE
    try:
        torch.device(device)
    except RuntimeError:
        raise TorchferryError(
            say(
                "the plugin `{plugin}` of {target}, imported from {path}, registers no device `{device}` with torch",
                plugin=target.backend.PLUGIN,
                target=target.title,
                path=_home(target.backend.PLUGIN),
                device=device,
            ),
            no_device.ask_the_doctor(target),
        ) from None


def _home(module: str) -> str:
    loaded = sys.modules[module]
    return str(getattr(loaded, "__file__", None) or list(getattr(loaded, "__path__", [])))
