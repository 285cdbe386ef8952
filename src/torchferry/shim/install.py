"""All families of patches, in the order in which they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchferry.backends.target import Target
from torchferry.shim import (
    default_type,
    extensions,
    failures,
    fallback,
    generators,
    library_questions,
    loading,
    patch_accelerator,
    patch_amp,
    patch_compile,
    patch_cuda_namespace,
    patch_dispatcher,
    patch_distributed,
    patch_factories,
    patch_profiler,
    patch_tensors,
    patch_torch_names,
    private,
    scripting,
    serialization,
    storages,
    streams,
    switches,
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
    patch_tensors.patch(patches, devices, viewers)
    storages.patch(patches, devices, viewers)
    patch_factories.patch(patches, devices, viewers)
    generators.patch(patches, resolver, viewers)
    patch_distributed.patch(patches, resolver.parameters, viewers)
    patch_torch_names.patch(patches, resolver, viewers)
    extensions.patch(patches, resolver, viewers)
    patch_amp.patch(patches, resolver, viewers)
    patch_profiler.patch(patches, resolver, viewers)
    serialization.patch(patches, devices)
    switches.patch(patches, resolver, viewers)
    loading.patch(patches, resolver.parameters)
    patch_cuda_namespace.patch(patches, resolver, viewers)
    streams.patch(patches, resolver, viewers)
    patch_accelerator.patch(patches, resolver, viewers, cards)
    scripting.patch(patches, resolver)
    patch_compile.patch(patches, resolver, viewers)
    default_type.patch(patches, devices)
    library_questions.patch(patches)
    patch_dispatcher.patch(patches, devices, viewers)
    private.patch(patches, target, viewers)
    fallback.patch(patches, devices)
    failures.patch(patches, target)
    return devices
