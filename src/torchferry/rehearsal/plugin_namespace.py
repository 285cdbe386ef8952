"""The namespace of a simulated plugin: exactly the names that the chosen plugin version has, and no others.

The api table of the backend decides. What exists on the card and cannot be done here is there by name and raises
when it is called, so that `hasattr` and imports answer as on the card.
"""

from __future__ import annotations

import dis
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.contents import Presence, contents, home_of
from torchferry.backends.tables import Row, reached
from torchferry.backends.target import Target
from torchferry.rehearsal import events
from torchferry.rehearsal.device_module import implementations

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native
    from torchferry.rehearsal.profile import Profile

_PREFIX = cuda.NAMESPACE + "."
_RANK = {"same": 0, "renamed": 1, "partial": 2, "equivalent": 3}
"""Which row decides when several lead to one name: the one that says most of it."""

NEEDED_BY_TORCH = frozenset({"get_amp_supported_dtype"})
"""Public names that torch itself asks a device module for; no row of a table can speak of them."""


class Namespace(ModuleType):
    """A module that has what was put into it; other names raise, and that they were asked for is recorded."""

    is_of_plugin = True

    def __init__(
        self,
        name: str,
        doc: str = "",
        kind_of: Callable[[str], str] = lambda path: "missing-api",
        stand_in: Callable[[str], object | None] = lambda path: None,
    ) -> None:
        super().__init__(name, doc)
        self.__dict__["_kind_of"] = kind_of
        self.__dict__["_stand_in"] = stand_in
        self.__path__: list[str] = []  # a package, as on the card: `import torch.<device>.amp` looks for one
        self.__dict__["_unverified"] = {}

    def __getattr__(self, name: str) -> Any:
        live = self.__dict__.get("_live", {}).get(name)
        if live is not None:
            return live()
        path = f"{self.__name__}.{name}"
        unverified: dict[str, object] = self.__dict__.get("_unverified", {})
        if name in unverified:
            events.record("unverified-api", path)
            value = self.__dict__[name] = unverified.pop(name)
            return value
        if not name.startswith("__"):
            value = self.__dict__["_stand_in"](path)
            if value is not None:
                self.__dict__[name] = value
                return value
            frame = sys._getframe(1)
            if not is_probe(frame):
                events.record(self.__dict__["_kind_of"](path), path, error=error_of_name(frame))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted(
            {*self.__dict__, *self.__dict__["_unverified"]} - {"_unverified", "_live", "_kind_of", "_stand_in"}
        )


_USES = frozenset(dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") if name in dis.opmap)


def is_probe(frame: FrameType) -> bool:
    """Whether `frame` only asks if an attribute is there, by `hasattr` or `getattr`, rather than uses it.

    Libraries ask every device module for what it has; on the card the answer is the same, and nothing fails.
    """
    return frame.f_code.co_code[frame.f_lasti] not in _USES


def error_of_name(frame: FrameType) -> type[BaseException]:
    """Return the class of what is raised where a module lacks a name: `from torch.npu import x` raises another."""
    return ImportError if frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"] else AttributeError


@dataclass(frozen=True)
class Plugin:
    """The plugin that this process rehearses.

    Attributes:
        target: Backend and plugin version.
        version: Version that the plugin states; empty when none is known.
        profile: The card.
        native: The simulated device.
        namespace: The module in place of `torch.cuda`; without names for a plugin that has no such module.
        elsewhere: What is at other places of the plugin's packages, by its full path.
    """

    target: Target
    version: str
    profile: Profile
    native: Native
    namespace: Namespace
    elsewhere: Mapping[str, object] = field(default_factory=dict)

    def at_least(self, version: str) -> bool:
        """Whether the plugin is of `version` or newer, which may be several first versions, as in the tables."""
        return not self.version or reached(version, self.version)


_current: Plugin | None = None


def current() -> Plugin:
    """Return the plugin of this process.

    Raises:
        RuntimeError: `build` was not called.
    """
    if _current is None:
        raise RuntimeError("no rehearsal runs in this process")
    return _current


def build(profile_target: Target, native: Native, profile: Profile, *, publish: bool = True) -> ModuleType:
    """Make the namespace module of a target, such as `torch.npu`; `publish` makes it and its submodules importable."""
    global _current  # noqa: PLW0603 - one backend can be registered with torch in a process
    backend = profile_target.backend
    version = profile_target.version or backend.DEFAULT_VERSION
    label = " ".join(filter(None, (backend.PLUGIN, version)))
    name = backend.NAMESPACE or f"torch.{backend.DEVICE_TYPE}"
    root = Namespace(
        name,
        f"{label}, rehearsed.",
        functools.partial(absence, profile_target),
        functools.partial(stand_in, profile_target, label),
    )
    available = implementations(native, profile)
    elsewhere: dict[str, object] = {}

    for path, row in _placed(profile_target):
        value = _named(_value(path, row, available, label), path)
        if not _below(path, backend.NAMESPACE):
            elsewhere[path] = value
        elif value is not None:
            put(root, path[len(backend.NAMESPACE) + 1 :], value)
        else:
            submodule(root, path[len(backend.NAMESPACE) + 1 :])
    for name in [row.name[len(_PREFIX) :] for row in _rows(profile_target) if row.status == "unknown"]:
        if name in available:
            owner = submodule(root, name.rpartition(".")[0]) if "." in name else root
            owner.__dict__["_unverified"].setdefault(name.rpartition(".")[2], available[name])
    # An attribute that torch's own checkpointing looks at: without it, dropout is not repeated in backward.
    root.__dict__["_live"] = {"_initialized": native.is_initialized}
    for name, value in available.items():
        if name.startswith("_") or name in NEEDED_BY_TORCH:
            root.__dict__.setdefault(name, value)

    if publish:
        _current = Plugin(profile_target, version, profile, native, root, elsewhere)
        if backend.NAMESPACE:
            make_importable(root, backend)
    return root


def presence(target: Target, path: str) -> Presence:
    """Return what the plugin has at a path, written with its namespace or with the module's real home."""
    known = contents(target.backend)
    if known is None:
        return Presence.UNKNOWN
    return known.presence(home_of(target.backend, path), target.version or target.backend.DEFAULT_VERSION)


def has_modules(target: Target, path: str) -> bool:
    """Whether a module of the plugin has modules below it."""
    known = contents(target.backend)
    return known is not None and known.has_modules(home_of(target.backend, path))


def stand_in(target: Target, label: str, path: str) -> object | None:
    """Return what represents a name that the plugin has and the rehearsal does not do; None where it has none."""
    row = _row(target, path)
    if row is not None and row.status != "unknown":
        return None  # the table knows better what is behind the name
    found = presence(target, path)
    known = contents(target.backend)
    if found is Presence.UNKNOWN and known is not None:
        found = known.in_last_complete_version(home_of(target.backend, path))
        if found is Presence.CALLABLE:  # taken to be there still, and the summary says so
            events.record("unverified-api", path)
    if found is Presence.CALLABLE:
        made: object = not_rehearsed(path, label)
        return made
    return importlib.import_module(path) if found is Presence.MODULE else None


def absence(target: Target, path: str) -> str:
    """Return the kind of event that a name is which is not there: missing, not rehearsed, or not known at all."""
    row = _row(target, path)
    if row is not None and row.status != "unknown":
        return "missing-api"
    found = presence(target, path)
    if found is Presence.VALUE:
        return "not-rehearsed"
    private = path.rpartition(".")[2].startswith("_")  # of which no list tells
    if private or (found is Presence.UNKNOWN and contents(target.backend) is not None):
        return "unverified-api"
    read = row is None or (target.backend.table("api").verified and not row.source)
    return "missing-api" if read else "unverified-api"


def _row(target: Target, path: str) -> Row | None:
    """Return what the api table says of a name of the namespace; None for a name elsewhere."""
    namespace = target.backend.NAMESPACE
    return target.api(cuda.NAMESPACE + path[len(namespace) :]) if _below(path, namespace) else None


def _rows(target: Target) -> Iterator[Row]:
    """Yield the rows about `torch.cuda` that hold for the plugin version, but for what objects of its classes have."""
    places = {cuda.NAMESPACE, *cuda.modules()}
    for row in target.backend.table("api"):
        if row.name.startswith(_PREFIX) and row.name.rpartition(".")[0] in places and row.holds_for(target.version):
            yield row


def _placed(target: Target) -> list[tuple[str, Row]]:
    """Return where the plugin has something in place of a name of `torch.cuda`, best row first, each path once."""
    backend = target.backend
    best: dict[str, Row] = {}
    for row in _rows(target):
        if row.status not in _RANK:
            continue
        path = row.use or backend.NAMESPACE + row.name[len(cuda.NAMESPACE) :]
        own = _below(path, backend.NAMESPACE) if backend.NAMESPACE else not path.startswith("torch.")
        if own and (path not in best or _RANK[row.status] < _RANK[best[path].status]):
            best[path] = row
    return sorted(best.items())


def _below(path: str, namespace: str) -> bool:
    return bool(namespace) and path.startswith(namespace + ".")


def _value(path: str, row: Row, available: Mapping[str, object], label: str) -> object | None:
    """Return what is at `path`, or None for a module."""
    name = row.name[len(_PREFIX) :]
    if row.name in cuda.modules():
        return None
    value = available.get(name)
    if value is None:
        stand_in: object = not_rehearsed(path, label)
        return stand_in
    keywords: dict[str, str] = row.extra.get("keywords", {})
    lacking = row.lacks_arguments
    if (keywords or lacking) and callable(value):
        return _with_arguments(value, keywords, lacking, path.rpartition(".")[2])
    return value


def _named(value: object | None, path: str) -> object | None:
    """Give a function or class the name that it has on the card, for error messages and pickles."""
    if isinstance(value, type) or inspect.isfunction(value):
        if "<locals>" in value.__qualname__:
            value.__module__, _, name = path.rpartition(".")
            value.__name__ = value.__qualname__ = name
    return value


def not_rehearsed(path: str, label: str) -> Any:
    """Return a class or function that raises when it is called.

    A name that begins with a capital letter is a class, so that it can be in `isinstance` and in annotations.
    """
    name = path.rpartition(".")[2]
    message = f"{path} exists in {label} but is not rehearsed"

    def fail(*args: object, **kwargs: object) -> Any:
        events.record("not-rehearsed", path)
        raise NotImplementedError(message)

    fail.__name__ = fail.__qualname__ = name
    fail.__doc__ = message + "."
    if name.endswith("Error"):
        return type(name, (RuntimeError,), {"__doc__": message + "."})  # it has to stand in `except`
    if name[:1].isupper():
        return type(name, (), {"__doc__": message + ".", "__init__": fail})
    return fail


def _with_arguments(
    value: Callable[..., Any], keywords: Mapping[str, str], lacking: Iterable[str], name: str
) -> Callable[..., Any]:
    """Return `value` with the arguments that the plugin has: under its names for them, and without those it lacks."""
    called = f"{name}.__init__" if isinstance(value, type) else name

    def ours(kwargs: dict[str, Any]) -> dict[str, Any]:
        for old in (*keywords, *lacking):
            if old in kwargs:
                raise events.refusal(TypeError(f"{called}() got an unexpected keyword argument {old!r}"))
        return {next((old for old, new in keywords.items() if new == key), key): it for key, it in kwargs.items()}

    if isinstance(value, type):
        kind: Any = value

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            kind.__init__(self, *args, **ours(kwargs))

        # compiled classes and those that make themselves otherwise keep what they are
        made: Any = type(name, (kind,), {"__init__": init, "__doc__": kind.__doc__}) if _is_plain(kind) else kind
    else:

        def made(*args: Any, **kwargs: Any) -> Any:
            return value(*args, **ours(kwargs))

        if inspect.isfunction(value):
            functools.update_wrapper(made, value)
        made.__name__ = made.__qualname__ = name
    if made is not value:
        _show_arguments(made, value, keywords, lacking)
    return cast("Callable[..., Any]", made)


def _is_plain(kind: type) -> bool:
    return inspect.isfunction(vars(kind).get("__init__")) and "__new__" not in vars(kind)


def _show_arguments(made: Any, value: Any, keywords: Mapping[str, str], lacking: Iterable[str]) -> None:
    """Let `inspect.signature` say what the plugin's own says."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return
    without = set(lacking)
    made.__signature__ = inspect.Signature(
        [each.replace(name=keywords.get(each.name, each.name)) for each in parameters if each.name not in without]
    )


def submodule(root: Namespace, name: str) -> Namespace:
    """Return the submodule `name` of a namespace, made if it is not there."""
    module = root
    for part in name.split("."):
        inner = module.__dict__.get(part)
        if not isinstance(inner, Namespace):
            path = f"{module.__name__}.{part}"
            inner = Namespace(path, "", module.__dict__["_kind_of"], module.__dict__["_stand_in"])
            module.__dict__[part] = inner
        module = inner
    return module


def put(root: Namespace, name: str, value: object) -> None:
    """Put `value` at the dotted `name` below a namespace."""
    owner, _, last = name.rpartition(".")
    (submodule(root, owner) if owner else root).__dict__[last] = value


def make_importable(root: Namespace, backend: type[Backend]) -> None:
    """Enter the namespace and its submodules into `sys.modules`, under each path that programs import them by.

    Where the namespace is the plugin's package itself, the files of that package decide what can be imported; torch
    alone looks the module up by its device type.
    """
    sys.modules[root.__name__] = root
    if backend.IMPORT_NAMESPACE == backend.PLUGIN:
        return
    for home in {backend.NAMESPACE, backend.IMPORT_NAMESPACE}:
        sys.modules[home] = root
        for name, module in walk(root):
            sys.modules[f"{home}.{name}"] = module


def walk(root: Namespace, prefix: str = "") -> Iterator[tuple[str, Namespace]]:
    """Yield the submodules of a namespace with their dotted names."""
    for name, value in list(root.__dict__.items()):
        if isinstance(value, Namespace):
            yield prefix + name, value
            yield from walk(value, f"{prefix}{name}.")
