"""Names of torch outside `torch.cuda` of which the plugin has its own: profiler, extensions, distributed modules."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.shim import extensions
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.signatures import parameters

_OWN_FAMILY = (
    "torch.backends.",
    "torch.profiler.",
    "torch.amp.",
    "torch.autocast",
    "torch.version.",
    "torch.get_autocast",
    "torch.set_autocast",
    "torch.is_autocast",
    "torch.accelerator.",
    *(f"torch.utils.cpp_extension.{name}" for name in extensions.NAMES),
)
"""Patched by a family of their own, or left alone by policy (`torch.version.cuda` tells what torch was built for)."""


_FINDER = "__getattr__"

_ENABLED = "enabled"
"""Parameter of what can be made without effect, such as `emit_nvtx`."""


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect the names that the backend's table has rows for; in modules not loaded yet, once they are."""
    rows: dict[str, list[Row]] = {}
    for row in resolver.target.backend.table("api"):
        if row.name.startswith((cuda.NAMESPACE, *_OWN_FAMILY)) or not row.holds_for(resolver.target.version):
            continue
        if row.status in REWRITTEN and (not row.use or row.use == row.name):
            continue
        rows.setdefault(row.name.rpartition(".")[0], []).append(row)
    for path, listed in rows.items():
        step, owner = _step(patches, resolver, viewers, listed), _loaded(path)
        if owner is None:
            patches.when_imported(path, step)
        else:
            step(owner)


def _step(patches: Patches, resolver: Resolver, viewers: Viewers, rows: list[Row]) -> Callable[[Any], None]:
    def step(owner: Any) -> None:
        for row in rows:
            _redirect(patches, resolver, viewers, owner, row)
        if isinstance(owner, ModuleType):
            _explain(patches, resolver, owner, rows)

    return step


def _explain(patches: Patches, resolver: Resolver, module: ModuleType, rows: list[Row]) -> None:
    """Let a name that the card lacks, and this torch was built without, say more than that it is not there.

    `hasattr` goes on to say False, and an import of it fails as it would without us.
    """
    names = {row.name.rpartition(".")[2]: row for row in rows if row.status == "missing"}
    absent = {name: row for name, row in names.items() if name not in vars(module)}
    if not absent:
        return
    before = vars(module).get(_FINDER)

    def find(name: str) -> Any:
        row = absent.get(name)
        if row is not None:
            raise AttributeError(f"torchferry: {resolver.why(row.name, row)}", name=name, obj=module)
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    patches.set(module, _FINDER, find)


def _loaded(path: str) -> Any:
    """Return the module or class at a dotted path, if it is there without importing anything."""
    found: Any = sys.modules.get("torch")
    for part in path.split(".")[1:]:
        found = vars(found).get(part) if found is not None else None
    return found


def _redirect(patches: Patches, resolver: Resolver, viewers: Viewers, owner: Any, row: Row) -> None:
    """Redirect one name; torch itself goes on to use what it has."""
    last = row.name.rpartition(".")[2]
    original = vars(owner).get(last)
    if row.status in REWRITTEN:
        value = resolver.counterpart(row.name, original)
    elif row.status == "missing" and callable(original):
        value = resolver.refusal(row.name, row, original)
        if isinstance(original, type):
            _refuse(patches, original, value, row.name)
            return
    else:
        return
    if isinstance(owner, ModuleType):
        patches.set_view(owner, last, value, viewers)
    else:
        patches.set(owner, last, value, row.name)


def _refuse(patches: Patches, original: type, refusal: Any, name: str) -> None:
    """Let a class that the card lacks raise when it is used; it stays itself, since programs compare types."""
    if not issubclass(original, BaseException) and "__init__" in vars(original):
        patches.set(original, "__init__", _unless_disabled(vars(original)["__init__"], refusal.__init__), name)


def _unless_disabled(original: Callable[..., Any], refuse: Callable[..., Any]) -> Callable[..., Any]:
    """Return what refuses, except where the caller says `enabled=False`: that does nothing on any device."""
    try:
        names = parameters(original)
    except (TypeError, ValueError):  # a class of C++ without a signature
        return refuse
    if _ENABLED not in names:
        return refuse
    position = names.index(_ENABLED)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        enabled = args[position] if position < len(args) else kwargs.get(_ENABLED, True)
        return refuse(*args, **kwargs) if enabled else original(*args, **kwargs)

    return init
