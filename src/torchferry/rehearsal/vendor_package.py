"""What the packages under `facades` share: how they start the rehearsal, and how they say what it does not cover."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder
from typing import Any, NoReturn

import torch

from torchferry.backends.unknown import UNKNOWN
from torchferry.rehearsal import events, plugin_import
from torchferry.rehearsal.profile import ROUNDING_BITS
from torchferry.rehearsal.surface import Namespace, Plugin, current, is_probe, not_rehearsed


def start(package: str, *, known: bool = True) -> Plugin:
    """Start the rehearsal of this process, once, and return its plugin.

    Args:
        package: The package that is imported.
        known: Whether the modules of the package are public, so that others are known to be missing.
    """
    from torchferry.rehearsal import process  # imported late: the session builds the surface that this module reads

    process.load_device()
    plugin = current()
    backend = plugin.target.backend
    if plugin.target.autoloads() is UNKNOWN:
        plugin_import.watch(backend.PLUGIN, plugin.native.operators_used)
    homes = {package: package}
    if backend.NAMESPACE:
        homes |= {backend.NAMESPACE: backend.NAMESPACE, backend.IMPORT_NAMESPACE: backend.NAMESPACE}
    sys.meta_path.append(_MissingModules(homes, "missing-api" if known else "unverified-api"))
    return plugin


class _MissingModules(MetaPathFinder):
    """Notes imports of modules that the plugin does not have; it stands last, and finds nothing itself."""

    def __init__(self, homes: dict[str, str], kind: str) -> None:
        self._homes = sorted(homes.items(), reverse=True)  # the innermost first
        self._kind = kind

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        for home, shown in self._homes:
            if fullname.startswith(home + "."):
                events.record(self._kind, shown + fullname[len(home) :])
                return


def stated_version() -> str:
    """Return the version that the plugin's package states, `0` where no public source tells one."""
    return current().version or "0"


def stubs(package: str, names: Iterable[str]) -> dict[str, Any]:
    """Return stand-ins for `names` of `package`, which exist on the card and raise here when they are called."""
    plugin = current()
    label = f"{plugin.target.backend.PLUGIN} {plugin.version}".rstrip()
    return {name: not_rehearsed(f"{package}.{name}", label) for name in names}


def missing(package: str) -> Callable[[str], NoReturn]:
    """Return a module `__getattr__` that records which names a program asked `package` for in vain."""

    def getattr_(name: str) -> NoReturn:
        if not name.startswith("_") and not is_probe(sys._getframe(1)):
            events.record("missing-api", f"{package}.{name}")
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

    The import system returns what stands in `sys.modules` after a package has run, and looks for the package's
    submodules where its `__path__` says.
    """
    own = sys.modules[package]
    for name in ("__path__", "__spec__", "__file__", "__loader__", "__package__"):
        namespace.__dict__[name] = getattr(own, name)
    sys.modules[package] = namespace


def add_profiler_activity(name: str) -> None:
    """Give `torch.profiler.ProfilerActivity` the plugin's own name for its device."""
    activity = torch.profiler.ProfilerActivity
    if not hasattr(activity, name):
        setattr(activity, name, activity.PrivateUse1)


def round_products(form: str, **on: bool) -> None:
    """Switch the rounding of `matmul` or `convolution` inputs to `form` (of `profile.ROUNDING_BITS`) on or off."""
    native = current().native
    native.set_rounding(**{kind: ROUNDING_BITS[form] if switched else 0 for kind, switched in on.items()})


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
            raise TypeError(f"{name} must be a bool, but got {type(value).__name__}")
        values[name] = value
