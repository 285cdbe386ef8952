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
    patch_device_classes,
    patch_dispatcher,
    patch_distributed,
    patch_factories,
    patch_profiler,
    patch_tensors,
    patch_torch_names,
)
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.device_count_guard import Cards
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

if TYPE_CHECKING:
    from torchferry.shim.call_sites import Sites


def patch(patches: Patches, target: Target, sites: Sites | None) -> Devices:
    """Make every patch and return the devices that they translate."""
    devices = Devices(target.backend, sites)
    viewers = Viewers(target)
    resolver = Resolver(target, devices, viewers)
    cards = Cards(target)
    cards.patch(patches)  # first: what follows keeps what it finds there
    patch_tensors.patch_tensor_methods(patches, devices, viewers)
    patch_tensors.patch_storages(patches, devices, viewers)
    patch_factories.patch(patches, devices, viewers)
    patch_device_classes.patch_generator(patches, resolver, viewers)
    patch_distributed.patch(patches, resolver.parameters, viewers)
    patch_torch_names.patch_listed_names(patches, resolver, viewers)
    patch_torch_names.patch_extensions(patches, resolver, viewers)
    patch_amp.patch_autocast(patches, resolver, viewers)
    patch_profiler.patch(patches, resolver, viewers)
    patch_tensors.patch_load(patches, devices)
    patch_amp.patch_tf32(patches, resolver, viewers)
    patch_tensors.patch_data_loader(patches, resolver.parameters)
    patch_cuda_namespace.patch_public_names(patches, resolver, viewers)
    patch_device_classes.patch_streams(patches, resolver, viewers)
    patch_accelerator.patch(patches, resolver, viewers, cards)
    patch_compile.patch_torchscript(patches, resolver)
    patch_compile.patch_compile(patches, resolver, viewers)
    patch_tensors.patch_default_tensor_type(patches, devices)
    patch_torch_names.patch_library_questions(patches)
    patch_dispatcher.patch_registrations(patches, devices, viewers)
    patch_cuda_namespace.patch_private_names(patches, target, viewers)
    patch_dispatcher.patch_fallback(patches, devices)
    failures.patch(patches, target)
    return devices
