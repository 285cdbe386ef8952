"""Which strings name a device or a collective backend, and which identifiers hold one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from torchferry.backends import registry
from torchferry.backends.datafile import DATA
from torchferry.core import toml
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_WORDS = lazy_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_DEVICE_WORDS = frozenset({"device", "devices", "dev"})
_DEVICE_NAMES = frozenset({"map_location", "storage_device", "cuda_device", "current_accelerator"})
_COLLECTIVE_WORDS = frozenset({"backend", "backends"})
OTHER_DEVICES = frozenset({"cpu", "mps", "xpu", "mlu", "hpu", "tpu", "rocm", "hip", "meta", "auto"})
_OTHER_COLLECTIVES = frozenset({"gloo", "mpi", "ccl", "ucc", "cncl", "xccl"})
"""What programs write beside `cuda` and `nccl`, but for the targets' own names, which their descriptions say."""

DEVICE_SPELLING = lazy_regex(r"cuda(?::(?:\d+|%[sd]|\{[^{}]*\}|\*)?)?\Z")
"""A whole string that is spelt as a device: `cuda`, `cuda:1`, `cuda:`, `cuda:%d`, `cuda:{}`."""

COLLECTIVE_SPELLING = lazy_regex(r"nccl\Z", re.IGNORECASE)
"""A whole string that is spelt as NVIDIA's collective backend."""

COMPOSITE_SPELLING = lazy_regex(r"(?=(?:\w+:\w+,)*\w+:\w+\Z)(?:\w+:\w+,)*cuda:nccl(?:,|\Z)")
"""A backend for each device type: `cpu:gloo,cuda:nccl`."""

TENSOR_TYPE_SPELLING = lazy_regex(r"torch\.cuda\.(\w+Tensor)\Z")
"""A tensor type as `Tensor.type()` spells it."""


class Lexicon(NamedTuple):
    """How one kind of value is recognised.

    Attributes:
        role: `device` or `collective`.
        words: Words that, as part of an identifier, say that it holds such a value.
        identifiers: Whole identifiers that say so.
        known_values: Other values of the kind; one beside a literal says that the literal is one too.
        parameters: Position of the argument that takes such a value, by canonical name or `.method`.
    """

    role: str
    words: frozenset[str]
    identifiers: frozenset[str]
    known_values: frozenset[str]
    parameters: Mapping[str, int]

    def names(self, identifier: str) -> bool:
        """Whether an identifier says that it holds such a value: `device`, `args.map_location`, `DEVICE_0`."""
        if identifier in self.identifiers:
            return True
        return any(word.lower() in self.words for word in _WORDS.findall(identifier))

    def is_known_value(self, text: str) -> bool:
        """Whether a string is another value of the kind: `cpu` is one for devices, `gloo` for collectives."""
        return text.partition(":")[0] in self.known_values


@lru_cache(maxsize=1)
def _parameters() -> dict[str, dict[str, int]]:
    """Return the positions of the arguments that hold a value, by role and callable."""
    document = toml.load_own(DATA / "cuda" / "parameters.toml")
    positions: dict[str, dict[str, int]] = {}
    for group in document["group"]:
        positions.setdefault(group["role"], {}).update(
            {entry["name"]: entry["position"] for entry in group["parameters"]}
        )
    return positions


@lru_cache(maxsize=8)
def lexicon(role: str, name: str = "") -> Lexicon:
    """Return the lexicon for `device` or `collective`.

    Args:
        role: Which of the two.
        name: What the target of the run calls such a value: another distribution may describe it.
    """
    targets = [registry.load(target) for target in registry.built_in()]
    own = {name} - {""}
    parameters = _parameters()[role]
    if role == "device":
        devices = OTHER_DEVICES.union(own, (target.DEVICE_TYPE for target in targets))
        return Lexicon(role, _DEVICE_WORDS, _DEVICE_NAMES, devices, parameters)
    collectives = _OTHER_COLLECTIVES.union(own, (target.COLLECTIVE for target in targets))
    return Lexicon(role, _COLLECTIVE_WORDS, frozenset(), collectives, parameters)
