"""Names outside `torch.cuda` of which the plugin has its own: profiler, extensions, distributed modules.

Extensions with CUDA sources, which no card compiles, are told what they need in place of `CUDA_HOME is not set`.
Functions by which a library checks whether the device is a certain card of NVIDIA's answer no: such a function reads
CUDA's capability, a number of another vendor's that a card may not have. Which these are is in the tables of CUDA's
side.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim import patch_distributed
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import parameter_names
from torchferry.shim.failures import porting
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

_CPP_EXTENSION = "torch.utils.cpp_extension"

_BUILDERS = ("CUDAExtension", "load", "load_inline")
"""Functions that are given sources."""

_CUDA_SUFFIXES = (".cu", ".cuh")
"""By which torch itself knows CUDA sources (torch/utils/cpp_extension.py, `_is_cuda_file`)."""

_TOOLKIT = "_join_cuda_home"
"""Function of torch that looks for the CUDA toolkit, for headers and for the compiler."""


def patch_extensions(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.utils.cpp_extension` once it is imported."""

    def step(module: ModuleType) -> None:
        for name in _BUILDERS:
            path, original = f"{_CPP_EXTENSION}.{name}", getattr(module, name)
            row = resolver.target.api(path)
            plugin_has_its_own = row.status == "missing" or (row.status in REWRITTEN and row.use not in {"", path})
            value = resolver.counterpart(path, original) if plugin_has_its_own else original
            patches.set_view(module, name, _checked(value, original, resolver.target), policy)
        if hasattr(module, _TOOLKIT):
            patches.set(module, _TOOLKIT, _toolkit(getattr(module, _TOOLKIT), resolver.target))

    patches.when_imported(_CPP_EXTENSION, step)


def _checked(function: Callable[..., Any], original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    names = parameter_names(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        sources = _cuda_sources(given)
        if sources:
            text = say(
                "the extension `{name}` has CUDA sources ({sources}), which {target} does not compile",
                name=given.get("name", ""),
                sources=", ".join(sources),
                target=target.title,
            )
            raise NotImplementedError(f"torchferry: {porting(target, text)}")
        return function(*args, **kwargs)

    return call


def _cuda_sources(given: Mapping[str, Any]) -> list[str]:
    sources = given.get("sources")
    listed = sources if isinstance(sources, (list, tuple)) else [] if sources is None else [sources]
    cuda_sources = [str(source) for source in listed if str(source).endswith(_CUDA_SUFFIXES)]
    if given.get("cuda_sources"):
        cuda_sources.append("cuda_sources")
    if not cuda_sources and given.get("with_cuda"):
        cuda_sources.append("with_cuda=True")
    return cuda_sources


def _toolkit(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except OSError as error:
            _refuse_toolkit(target, error)

    return call


def _refuse_toolkit(target: Target, error: OSError) -> NoReturn:
    text = say("the build of an extension needs the CUDA toolkit, which {target} does not have", target=target.title)
    raise NotImplementedError(f"torchferry: {porting(target, text)}") from error


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
    *(f"torch.utils.cpp_extension.{name}" for name in _BUILDERS),
)
"""Patched by a family of their own, or left alone by policy (`torch.version.cuda` tells what torch was built for)."""


_FINDER = "__getattr__"

_ENABLED = "enabled"
"""Parameter of what can be made without effect, such as `emit_nvtx`."""


def patch_listed_names(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect the names that the backend's table has rows for; in modules not loaded yet, once they are."""
    rows: dict[str, list[Row]] = {}
    for row in resolver.target.backend.table("api"):
        if row.name.startswith((cuda.NAMESPACE, *_OWN_FAMILY)) or row.name in patch_distributed.OWN_FAMILY:
            continue
        if not row.holds_for(resolver.target.version):
            continue
        if row.status in REWRITTEN and (not row.use or row.use == row.name):
            continue
        rows.setdefault(row.name.rpartition(".")[0], []).append(row)
    for path, listed in rows.items():
        step, owner = _step(patches, resolver, policy, listed), _loaded(path)
        if owner is None:
            patches.when_imported(path, step)
        else:
            step(owner)


def _step(patches: Patches, resolver: Resolver, policy: CallerPolicy, rows: list[Row]) -> Callable[[Any], None]:
    def step(owner: Any) -> None:
        for row in rows:
            _redirect(patches, resolver, policy, owner, row)
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
    value: Any = sys.modules.get("torch")
    for part in path.split(".")[1:]:
        value = vars(value).get(part) if value is not None else None
    return value


def _redirect(patches: Patches, resolver: Resolver, policy: CallerPolicy, owner: Any, row: Row) -> None:
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
        patches.set_view(owner, last, value, policy)
    else:
        patches.set(owner, last, value, row.name)


def _refuse(patches: Patches, original: type, refusal: Any, name: str) -> None:
    """Let a class that the card lacks raise when it is used; it stays itself, since programs compare types."""
    if not issubclass(original, BaseException) and "__init__" in vars(original):
        patches.set(original, "__init__", _unless_disabled(vars(original)["__init__"], refusal.__init__), name)


def _unless_disabled(original: Callable[..., Any], refuse: Callable[..., Any]) -> Callable[..., Any]:
    """Return what refuses, except where the caller says `enabled=False`: that does nothing on any device."""
    try:
        names = parameter_names(original)
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


_STATES = "torch.cuda.get_rng_state_all"
"""What a library calls behind the question whether there is CUDA, to keep the states of generators."""


def patch_library_questions(patches: Patches, target: Target) -> None:
    """Let each of them answer as soon as its module is imported; one that a version lacks is left out.

    Whether the device is a certain card of NVIDIA's: no. Whether there are generators of CUDA to keep in a checkpoint:
    yes, which keeps the card's, where the library has no question for the card itself.
    """
    for path in cuda.asks_for_nvidia():
        module, _, name = path.rpartition(".")
        patches.when_imported(module, _answer(patches, name, _no))
    if target.api(_STATES).status not in REWRITTEN:
        return
    for path in cuda.keeps_generators():
        module, _, name = path.rpartition(".")
        own = name.replace(cuda.DEVICE_TYPE, target.backend.DEVICE_TYPE)
        patches.when_imported(module, _answer(patches, name, _yes, own))


def _answer(patches: Patches, name: str, answer: Callable[..., bool], unless: str = "") -> Callable[[ModuleType], None]:
    """Return what puts an answer in place of a question of a module, unless the module has another one, too."""

    def step(module: ModuleType) -> None:
        if hasattr(module, name) and not (unless and hasattr(module, unless)):
            patches.set(module, name, answer)

    return step


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def _yes(*args: Any, **kwargs: Any) -> bool:
    return True
