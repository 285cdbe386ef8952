"""All families of patches, in the order in which they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchferry.backends.target import Target
from torchferry.shim import (
    failures,
    patch_accelerator,
    patch_amp,
    patch_compile,
    patch_cuda_namespace,
    patch_distributed,
    patch_factories,
    patch_profiler,
    patch_tensors,
    patch_torch_names,
)
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices
from torchferry.shim.no_device import DeviceCountGuard
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

if TYPE_CHECKING:
    from torchferry.shim.call_sites import CallSites


def patch(patches: Patches, target: Target, call_sites: CallSites | None) -> Devices:
    """Make every patch and return the devices that they translate."""
    devices = Devices(target.backend, call_sites)
    policy = CallerPolicy(target)
    resolver = Resolver(target, devices, policy)
    guard = DeviceCountGuard(target)
    guard.patch(patches)  # first: what follows keeps what it finds there
    patch_tensors.patch_tensor_methods(patches, resolver, policy)
    patch_tensors.patch_storages(patches, resolver, policy)
    patch_factories.patch(patches, devices, policy)
    patch_tensors.patch_generator(patches, resolver, policy)
    patch_distributed.patch(patches, resolver, policy)
    patch_torch_names.patch_listed_names(patches, resolver, policy)
    patch_torch_names.patch_extensions(patches, resolver, policy)
    patch_amp.patch_autocast(patches, resolver, policy)
    patch_profiler.patch(patches, resolver, policy)
    patch_tensors.patch_load(patches, resolver)
    patch_amp.patch_tf32(patches, resolver, policy)
    patch_tensors.patch_data_loader(patches, resolver.parameters, devices)
    patch_tensors.patch_fork_rng(patches, devices)
    patch_cuda_namespace.patch_public_names(patches, resolver, policy)
    patch_tensors.patch_streams(patches, resolver, policy)
    patch_accelerator.patch(patches, resolver, policy, guard)
    patch_compile.patch_torchscript(patches, resolver)
    patch_compile.patch_compile(patches, resolver, policy)
    patch_tensors.patch_default_tensor_type(patches, devices)
    patch_torch_names.patch_library_questions(patches, target)
    patch_factories.patch_registrations(patches, devices, policy)
    patch_cuda_namespace.patch_private_names(patches, target, policy)
    patch_factories.patch_fallback(patches, devices)
    failures.patch(patches, target)
    return devices
