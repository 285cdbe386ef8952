"""Which operators of this torch the rehearsed plugin has, leaves to composition, runs on the CPU, or lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from torchferry.backends.operators import newer_than
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import say
from torchferry.rehearsal.profile import Profile

_DERIVED = "CompositeExplicitAutogradNonFunctional"
_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", _DERIVED)
_OVERRIDDEN = frozenset({"aten::convolution", "aten::convolution_backward"})
"""Composites that end, on devices like this, in an operator that only a plugin can have (`*_overrideable`)."""


@dataclass(frozen=True)
class Modes:
    """What becomes of the operators that the CPU has.

    Attributes:
        composed: Full names (`aten::addmv`) that PyTorch composes of others, because the plugin does not register them.
        fallback: Names that the plugin runs on the CPU.
        missing: Names that raise.
        taken: Those of `missing` that the user took away, which raise for sparse and nested tensors too.
        unknown: Names of operators newer than the torch that the plugin was made for.
        layouts: For the kinds of tensors that are not dense, names that the plugin does not register for them.
    """

    composed: frozenset[str] = frozenset()
    fallback: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    layouts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def left_out(self) -> Mapping[str, frozenset[str]]:
        """What the device does not register either, by kind of tensor."""
        return {"dense": self.composed, **self.layouts}


def modes(profile: Profile) -> Modes:
    """Return the modes for a profile; where the plugin's list is not known, every operator is taken to be there.

    Raises:
        UsageError: an operator that is to run on the CPU does not exist, or cannot.
    """
    found = _of_plugin(profile)
    asked = frozenset(name for each in sorted(profile.fallback_operators) for name in _on_cpu(each, found.composed))
    return replace(found, fallback=found.fallback | asked, missing=found.missing - asked, taken=found.taken - asked)


def _on_cpu(name: str, composed: frozenset[str]) -> list[str]:
    """Return the operators with a name, with or without overload, that the CPU has its own kernel for."""
    wanted = f"aten::{name}"
    found = [each for each in _operators() if wanted in (each, each.partition(".")[0])]
    if not found:
        raise unknown_name("operator", name, {each.removeprefix("aten::").partition(".")[0] for each in _operators()})
    kept = [each for each in found if each not in composed and _has(each, "CPU")]
    kept = kept or [each for each in found if each not in composed and not _has(each, "CompositeImplicitAutograd")]
    if not kept:
        raise UsageError(
            say(
                "`{name}` and its gradient are composed of other operators: there is nothing to run on the CPU in "
                "its place",
                name=wanted,
            ),
            say("name the missing ones of these operators: `torchferry ops report` lists them"),
        )
    return kept


def _of_plugin(profile: Profile) -> Modes:
    taken = frozenset(f"aten::{name}" for name in profile.missing_operators)
    newer = newer_than(profile.operators_torch)
    layouts = {layout: _absent(names, key, newer) - taken for layout, names, key in _of_layouts(profile)}
    if profile.registered is None:
        return Modes(missing=taken, taken=taken, layouts=layouts)
    composed: set[str] = set()
    lacking: set[str] = set()
    unknown: set[str] = set()
    written_out = {name.partition(".")[0] for name in profile.registered}
    for name in _operators():
        if name in taken or name in _OVERRIDDEN or name.removeprefix("aten::") in profile.registered:
            continue
        if _has(name, _DERIVED) and name.removeprefix("aten::").partition(".")[0].rstrip("_") in written_out:
            continue  # torch derives this form from the one that writes into `out`, which the plugin registers
        if any(_has(name, key) for key in _COMPOSITE):
            composed.add(name)
        elif name.removeprefix("aten::").partition(".")[0] in newer:
            unknown.add(name)
        elif _has(name, "CPU"):
            lacking.add(name)
    forced = {f"aten::{name}" for name in profile.forced_fallback}
    fails = profile.fallback == "error"
    fallback_known = profile.fallback in {"error", "warn", "silent"}
    return Modes(
        composed=frozenset(composed),
        fallback=frozenset((lacking if fallback_known and not fails else set()) | forced) - taken,
        missing=frozenset(lacking if fails else set()) | taken,
        taken=taken,
        unknown=frozenset(unknown if fallback_known else unknown | lacking),
        layouts=layouts,
    )


def _of_layouts(profile: Profile) -> list[tuple[str, frozenset[str] | None, str]]:
    """The kinds of tensors that are not dense: name, what the plugin registers for them, the CPU's dispatch key."""
    return [
        ("sparse", profile.sparse, "SparseCPU"),
        ("sparse_compressed", profile.sparse_compressed, "SparseCsrCPU"),
        ("nested", profile.nested, "NestedTensorCPU"),
    ]


def _absent(registered: frozenset[str] | None, key: str, newer: frozenset[str]) -> frozenset[str]:
    """Return the operators with a kernel for `key` that are not `registered`; `newer` ones get the benefit of doubt."""
    if registered is None:
        return frozenset()
    return frozenset(
        name
        for name in _operators()
        if name.removeprefix("aten::") not in registered
        and name.removeprefix("aten::").partition(".")[0] not in newer
        and _has(name, key)
    )


def _operators() -> list[str]:
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]


def _has(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
