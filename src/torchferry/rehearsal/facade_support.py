"""What the vendors' simulated packages share: how they start the rehearsal, and how they say what it does not cover."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import torch

from torchferry.backends.contents import Presence, contents
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.userlines import NOWHERE
from torchferry.rehearsal import events
from torchferry.rehearsal.plugin_namespace import (
    Namespace,
    Plugin,
    absence,
    current,
    error_of_name,
    has_modules,
    is_probe,
    not_rehearsed,
    presence,
    stand_in,
)
from torchferry.rehearsal.profile import ROUNDING_BITS


def start(package: str, *, known: bool = True) -> Plugin:
    """Start the rehearsal of this process, once, and return its plugin.

    Args:
        package: The package that is imported.
        known: Whether the modules of the package are public, so that others are known to be missing.
    """
    from torchferry.rehearsal import bootstrap  # imported late: the session builds the surface that this module reads

    bootstrap.load_device()
    plugin = current()
    backend = plugin.target.backend
    if plugin.target.autoloads() is UNKNOWN:
        _watch_import(backend.PLUGIN, plugin.native.operators_used)
    homes = {package: package}
    if backend.NAMESPACE:
        homes |= {backend.NAMESPACE: backend.NAMESPACE, backend.IMPORT_NAMESPACE: backend.NAMESPACE}
    sys.meta_path.append(_MissingModules(homes, "missing-api" if known else "unverified-api"))
    return plugin


class _MissingModules(MetaPathFinder):
    """Finds modules that the plugin has and that are not rehearsed, and notes imports of those that it lacks.

    It is the last one: what is rehearsed has a file.
    """

    def __init__(self, homes: dict[str, str], kind: str) -> None:
        self._homes = sorted(homes.items(), reverse=True)  # the innermost first
        self._kind = kind

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        for home, shown in self._homes:
            if fullname.startswith(home + "."):
                name = shown + fullname[len(home) :]
                in_plugin = presence(current().target, name)
                if in_plugin is Presence.MODULE:
                    return ModuleSpec(
                        fullname, _NotRehearsedModules(name), is_package=has_modules(current().target, name)
                    )
                unknown = in_plugin is Presence.UNKNOWN and contents(current().target.backend) is not None
                if not is_module_probe(sys._getframe(1)):
                    events.record("unverified-api" if unknown else self._kind, name, error=ModuleNotFoundError)
                return None
        return None


def is_module_probe(frame: FrameType | None) -> bool:
    """Whether a module is only looked for: by `importlib.util.find_spec`, or for `from package import name`."""
    while frame is not None and frame.f_code.co_filename.startswith(("<frozen importlib", _IMPORTLIB)):
        if frame.f_code.co_name == "find_spec" and frame.f_globals.get("__name__") == "importlib.util":
            return True
        if frame.f_code.co_name == "_handle_fromlist":
            return True  # where it is no module, the package is asked for the name
        frame = frame.f_back
    return False


_IMPORTLIB = str(Path(importlib.__file__).parent)


class _NotRehearsedModules(Loader):
    """Makes a module of which nothing can be rehearsed: its functions and classes raise when they are called."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"{self._shown} exists in the plugin but is not rehearsed."
        module.__dict__["__getattr__"] = missing(module.__name__)


def stated_version() -> str:
    """Return the version that the plugin's package states, `0` where no public source tells one."""
    return current().version or "0"


def stubs(package: str, names: Iterable[str]) -> dict[str, Any]:
    """Return stand-ins for `names` of `package`, which exist on the card and raise here when they are called."""
    plugin = current()
    label = f"{plugin.target.backend.PLUGIN} {plugin.version}".rstrip()
    return {name: not_rehearsed(f"{package}.{name}", label) for name in names}


def stub_of(path: str) -> Any:
    """Return a stand-in for the function or class at `path`."""
    package, _, name = path.rpartition(".")
    return stubs(package, [name])[name]


def missing(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: for what the plugin has there and we do not, and what is asked in vain."""

    def getattr_(name: str) -> Any:
        path = f"{package}.{name}"
        if not name.startswith("__"):
            plugin = current()
            value = stand_in(plugin.target, f"{plugin.target.backend.PLUGIN} {plugin.version}".rstrip(), path)
            if value is not None:
                setattr(sys.modules[package], name, value)
                return value
            frame = sys._getframe(1)
            if not is_probe(frame):
                events.record(absence(plugin.target, path), path, error=error_of_name(frame))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return getattr_


def extensions_unavailable(path: str) -> NoReturn:
    """Raise because C++ extensions are compiled for a card that is not here."""
    events.record("not-rehearsed", path, "extensions")
    raise NotImplementedError(f"{path}: extensions are not rehearsed; guard the build, or test it on the card")


def redirect(path: str) -> None:
    """Do what the vendor's redirection of `torch.cuda` is for, as torchferry's own does it.

    The vendors' own differ in what they cover and in what they fake; the rehearsal says that it was another one.
    """
    from torchferry.shim.redirect import enable  # imported late: few programs use it

    enable(str(current().target), instead_of=path)
    events.record("not-rehearsed", path, "torchferry's own redirect stands in for it")


def become(package: str, namespace: Namespace) -> None:
    """Make a namespace the package `package` itself, for plugins whose package is the device module.

    The import system returns what is in `sys.modules` after a package has run, and looks for the package's
    submodules where its `__path__` says.
    """
    own = sys.modules[package]
    for name in ("__path__", "__spec__", "__file__", "__loader__", "__package__"):
        namespace.__dict__[name] = getattr(own, name)
    sys.modules[package] = namespace


def add_profiler_activity(name: str) -> None:
    """Give `torch.profiler.ProfilerActivity` the plugin's own name for its device."""
    activity = torch.profiler.ProfilerActivity
    if not hasattr(activity, name) and hasattr(activity, "PrivateUse1"):  # from torch 2.4 on
        setattr(activity, name, activity.PrivateUse1)


def round_products(form: str, **on: bool) -> None:
    """Switch the rounding of `matmul` or `convolution` inputs to `form` (of `profile.ROUNDING_BITS`) on or off."""
    native = current().native
    native.set_rounding(**{kind: ROUNDING_BITS[form] if switched else 0 for kind, switched in on.items()})


def show_parameters(value: Any, newer: Mapping[str, object], before: str = "") -> None:
    """Show the parameters of a class as this version of the plugin has them, in place of those that are variadic.

    Args:
        value: A class whose `__init__` takes arguments that came later as `**newer`, and refuses others by itself.
        newer: Those that this version has, with their defaults.
        before: The parameter in front of which they stand; empty for the end.
    """
    shown = [each for each in inspect.signature(value).parameters.values() if each.kind is not each.VAR_KEYWORD]
    place = next((index for index, each in enumerate(shown) if each.name == before), len(shown))
    kind = shown[place - 1].kind
    added = [inspect.Parameter(name, kind, default=default) for name, default in newer.items()]
    value.__signature__ = inspect.Signature([*shown[:place], *added, *shown[place:]])


class Switches:
    """Settings of the card. Names are those that the plugin has; a bool takes nothing but a bool, as there."""

    def __init__(self, **values: object) -> None:
        self.__dict__["_values"] = values

    def __getattr__(self, name: str) -> object:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        values = self.__dict__["_values"]
        if isinstance(values.get(name), bool) and not isinstance(value, bool):
            raise events.refusal(TypeError(f"{name} must be a bool, but got {type(value).__name__}"))
        values[name] = value


_OWN_FOLDER = str(Path(__file__).parent.parent)
_PLUGIN_LOADER = "_import_device_backends"
"""The function of torch that loads plugins."""


def _watch_import(package: str, used: Callable[[], object]) -> None:
    """Begin to look for an import of `package`; without one, an event says so at the end if the device was `used`."""
    if not _is_loaded_by_torch():
        return
    imported = False
    # the simulated package imports its own modules, wherever its vendor's folder lies
    own_code = (_OWN_FOLDER, *map(str, sys.modules[package].__path__), "<frozen")

    def note(name: object) -> None:
        nonlocal imported
        caller = sys._getframe(2).f_code.co_filename
        if str(name).partition(".")[0] == package and not caller.startswith(own_code):
            imported = True

    builtins.__import__ = _noting(builtins.__import__, note)
    importlib.import_module = _noting(importlib.import_module, note)

    def report() -> dict[str, object]:
        redirect = sys.modules.get("torchferry.shim.redirect")
        # where it was on, it imported the plugin, and does so on the card
        redirected = redirect is not None and redirect.current() is not None
        if not imported and not redirected and used():
            events.recorder.add("autoload", f"import {package}", place=NOWHERE)
        return {}

    events.recorder.at_end(report)


def _is_loaded_by_torch() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == _PLUGIN_LOADER:
            return True
        frame = frame.f_back
    return False


def _noting(original: Any, note: Callable[[object], None]) -> Any:
    @functools.wraps(original)
    def import_(name: Any, *args: Any, **kwargs: Any) -> Any:
        note(name)
        return original(name, *args, **kwargs)

    return import_
