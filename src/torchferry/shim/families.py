"""All families of patches, in the order in which they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchferry.backends.target import Target
from torchferry.shim import (
    accelerator,
    amp,
    collectives,
    compiling,
    default_type,
    elsewhere,
    extensions,
    factories,
    failures,
    fallback,
    generators,
    library_questions,
    loading,
    namespace,
    private,
    profiling,
    registrations,
    scripting,
    serialization,
    storages,
    streams,
    switches,
    tensors,
)
from torchferry.shim.cards import Cards
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.viewers import Viewers

if TYPE_CHECKING:
    from torchferry.shim.sites import Sites


def patch(patches: Patches, target: Target, sites: Sites | None) -> Devices:
    """Make every patch and return the devices that they translate."""
    devices = Devices(target.backend, sites)
    viewers = Viewers(target)
    resolver = Resolver(target, devices, viewers)
    cards = Cards(target)
    cards.patch(patches)  # first: what follows keeps what it finds there
    tensors.patch(patches, devices, viewers)
    storages.patch(patches, devices, viewers)
    factories.patch(patches, devices, viewers)
    generators.patch(patches, resolver, viewers)
    collectives.patch(patches, resolver.parameters, viewers)
    elsewhere.patch(patches, resolver, viewers)
    extensions.patch(patches, resolver, viewers)
    amp.patch(patches, resolver, viewers)
    profiling.patch(patches, resolver, viewers)
    serialization.patch(patches, devices)
    switches.patch(patches, resolver, viewers)
    loading.patch(patches, resolver.parameters)
    namespace.patch(patches, resolver, viewers)
    streams.patch(patches, resolver, viewers)
    accelerator.patch(patches, resolver, viewers, cards)
    scripting.patch(patches, resolver)
    compiling.patch(patches, resolver, viewers)
    default_type.patch(patches, devices)
    library_questions.patch(patches)
    registrations.patch(patches, devices, viewers)
    private.patch(patches, target, viewers)
    fallback.patch(patches, devices)
    failures.patch(patches, target)
    return devices
