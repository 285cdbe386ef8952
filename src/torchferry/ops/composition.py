"""What torch makes an operator of where a device has no kernel for it: asked of the dispatcher of this process.

As a program it prints the version of torch and `must_have`, as JSON.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from torchferry.core.json_text import json_text
from torchferry.core.terminal import print_data

IMPLICIT, EXPLICIT, DERIVED, NOTHING = "implicit", "explicit", "derived", ""
"""How an operator runs on a device without a kernel for it.

`implicit`: composed of others, its gradient too. `explicit`: composed of others, with its own gradient.
`derived`: the form that returns or writes in place, made of the form that writes into `out`. Nothing: it does not.
"""

_KEYS = {
    IMPLICIT: "CompositeImplicitAutograd",
    EXPLICIT: "CompositeExplicitAutograd",
    DERIVED: "CompositeExplicitAutogradNonFunctional",
}

_STRANGE = ("quantized_gru", "quantized_lstm")
"""What torch defines into `aten` by hand, for the CPU alone: no list of torch's has them."""


def has_kernel(name: str, key: str) -> bool:
    """Whether an operator (`aten::add.Tensor`) has a kernel under a dispatch key; False where either is unknown."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:
        return False


@lru_cache(maxsize=4096)
def composition(name: str) -> str:
    """Return how an operator runs on a device without a kernel for it."""
    kind = next((kind for kind, key in _KEYS.items() if has_kernel(name, key)), NOTHING)
    return EXPLICIT if kind == DERIVED and not derived_from(name) else kind


def kernel_key(name: str) -> torch._C.DispatchKey:
    """Return the dispatch key of the kernel that makes an operator of others.

    Raises:
        KeyError: it has none.
    """
    for key in _KEYS.values():
        if has_kernel(name, key):
            found: torch._C.DispatchKey = getattr(torch._C.DispatchKey, key)
            return found
    raise KeyError(name)


@lru_cache(maxsize=4096)
def derived_from(name: str) -> str:
    """Return the form that a derived operator is made of: `aten::add.out` of `aten::add.Tensor`; empty for others.

    It is the overload that takes the same arguments and what is written to beside them.
    """
    if not has_kernel(name, _KEYS[DERIVED]):
        return ""
    base, _, overload = name.partition(".")
    own = [(argument.name, str(argument.type)) for argument in torch._C._get_schema(base, overload).arguments]
    family = base.removesuffix("_")
    for each in _overloads().get(family, ()):
        schema = torch._C._get_schema(family, each)
        plain = [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
        if len(plain) < len(schema.arguments) and plain == own:
            form = f"{family}.{each}" if each else family
            return "" if has_kernel(form, _KEYS[EXPLICIT]) else form  # such a form is made of this one instead
    return ""


@lru_cache(maxsize=1)
def _overloads() -> dict[str, list[str]]:
    """Return the overloads of aten by the operator's name."""
    overloads: dict[str, list[str]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            base, _, overload = name.partition(".")
            overloads.setdefault(base, []).append(overload)
    return overloads


def must_have() -> list[str]:
    """Return the operators of aten, without `aten::`, that have no kernel which serves every device.

    To be asked in a process without a plugin: one with a fallback has a kernel for everything.
    """
    serves = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    plain = (name.removeprefix("aten::") for name in names if not serves(name, "PrivateUse1"))
    return sorted(name for name in plain if not name.partition(".")[0].startswith(_STRANGE) or "cell" in name)


if __name__ == "__main__":
    print_data(json_text({"torch": str(torch.__version__).partition("+")[0], "names": must_have()}))
