"""Process groups: the collective backend's name, in every place that takes or tells one.

`nccl` is the card's library and nothing else: where the plugin has no such group, starting one raises, and no
program ends up on gloo. A plugin with its own copy of `torch.distributed` makes groups over its own library alone, and
is asked for the name of a group's; the class of names, `Backend`, stays torch's, as the program knows it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Parameters
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

_FUNCTIONS = (
    "init_process_group",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
    "is_backend_available",
)

_TOLD = ("get_backend", "get_default_backend_for_device")
"""Functions that return a collective backend's name."""

_BACKEND = cuda.group_makers_of(Backend.DISTRIBUTED)
"""Functions that make a group, with the place of the parameter `backend`."""

OWN_FAMILY = frozenset(f"torch.distributed.{name}" for name in ("Backend", *_BACKEND, *_TOLD))
"""Names that are patched here where a plugin has its own of them."""


def patch(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.distributed`; nothing where torch was built without it."""
    parameters = resolver.parameters
    _initialiser(patches, parameters, DataParallel)
    _initialiser(patches, parameters, DistributedDataParallel)
    for name in ("device", "device_type"):
        _show(patches, DistributedDataParallel, name, parameters, policy)
    if not dist.is_available():
        return
    for name in _FUNCTIONS:
        _function(patches, parameters, (dist.distributed_c10d, dist), name)
    for name in _TOLD:
        original = getattr(dist.distributed_c10d, name, None)
        if original is not None:
            patched = _with_program_name(parameters.translated(original), parameters, policy)
            for module in (dist.distributed_c10d, dist):
                patches.set(module, name, patched)
    _own_functions(patches, resolver, policy)

    def meshes(module: ModuleType) -> None:
        _function(patches, parameters, (module, dist), "init_device_mesh")
        _initialiser(patches, parameters, module.DeviceMesh)
        _show(patches, module.DeviceMesh, "device_type", parameters, policy)

    patches.when_imported("torch.distributed.device_mesh", meshes)
    patches.when_imported(
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        lambda module: _initialiser(patches, parameters, module.FullyShardedDataParallel),
    )


def _own_functions(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Give the program those of a plugin with its own copy of the module."""
    for name in (*_BACKEND, *_TOLD):
        path, original = f"{dist.__name__}.{name}", getattr(dist, name, None)
        row = resolver.target.api(path)
        if original is None or row.status not in REWRITTEN or row.use in ("", path):
            continue
        own = resolver.counterpart(path, original)
        if name in _BACKEND:
            own = _refusing(own, name, resolver.target)
        else:
            own = _with_program_name(own, resolver.parameters, policy)
        patches.set_view(dist, name, own, policy)


def _refusing(function: Callable[..., Any], name: str, target: Target) -> Callable[..., Any]:
    """Return a function that makes a group, and says which ones the plugin cannot make."""
    position = _BACKEND[name]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        backend = args[position] if position < len(args) else kwargs.get("backend")
        names = [] if backend is None else str(backend).lower().split(",")
        if target.backend.COMPOSITE_COLLECTIVE is False and (
            any(":" in part for part in names) or (not names and position == 0)
        ):
            text = say(
                "{target} does not support one backend for each device type; use only `{use}`",
                target=target.title,
                use=cuda.COLLECTIVE,
            )
            raise NotImplementedError(f"torchferry: {text}")
        if target.backend.GLOO_GROUPS is False and names == ["gloo"]:
            text = say(
                "{target} has no process groups over `gloo`; use only `{use}`", target=target.title, use=cuda.COLLECTIVE
            )
            raise NotImplementedError(f"torchferry: {text}")
        return function(*args, **kwargs)

    return call


def _function(patches: Patches, parameters: Parameters, modules: tuple[ModuleType, ...], name: str) -> None:
    original = getattr(modules[0], name, None)
    if original is None:
        return
    patched = parameters.translated(original)
    for module in modules:
        if getattr(module, name, None) is original:
            patches.set(module, name, patched)


def _initialiser(patches: Patches, parameters: Parameters, kind: Any) -> None:
    patches.set(kind, "__init__", parameters.translated(kind.__init__))


def _show(patches: Patches, kind: type, name: str, parameters: Parameters, policy: CallerPolicy) -> None:
    """Show what objects of torch say of their device: a property of the class, or what each object holds."""
    held = vars(kind).get(name)

    def find(self: Any) -> Any:
        if isinstance(held, property):
            value = held.__get__(self)
        elif name in vars(self):
            value = vars(self)[name]
        else:
            raise AttributeError(name)
        return value if policy.sees_card() else parameters.as_cuda(value)

    def put(self: Any, value: Any) -> None:
        vars(self)[name] = value

    patches.set(kind, name, property(find, put))


def _with_program_name(
    original: Callable[..., str], parameters: Parameters, policy: CallerPolicy
) -> Callable[..., str]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> str:
        name = original(*args, **kwargs)
        return name if policy.sees_card() else parameters.to_program(name)

    return call
