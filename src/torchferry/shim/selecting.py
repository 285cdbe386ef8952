"""The operators of torch that make a tensor on a device that they are told, rather than on that of another tensor."""

from __future__ import annotations

from functools import lru_cache

import torch

NAMESPACE = "aten"


@lru_cache(maxsize=1)
def operators() -> frozenset[str]:
    """Return them with their overloads, such as `empty.memory_format`.

    torch registers a kernel for each that selects the device. Asking for the parameters of every operator would say the
    same, and take many times as long.
    """
    prefix = f"{NAMESPACE}::"
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("BackendSelect")
    return frozenset(name.removeprefix(prefix) for name in registered if name.startswith(prefix))
