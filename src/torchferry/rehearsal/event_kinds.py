"""The kinds of events of a rehearsal, and which of them mean that the card would refuse."""

from __future__ import annotations

from torchferry.core.messages import Message, say

NATIVE = {
    1: "missing-operator",
    2: "fallback",
    3: "missing-dtype",
    4: "noted-dtype",
    5: "narrowed",
    6: "synchronisation",
    7: "to-device",
    8: "to-host",
    9: "out-of-memory",
    10: "mixed-devices",
    11: "fault",
    12: "collective",
    13: "fork",
    14: "sharing",
    15: "missing-api",
    16: "host-work",
    17: "backend",
    18: "memory-format",
    19: "not-rehearsed",
    20: "refused",
    21: "kernel-limit",
    22: "beyond-limit",
    23: "slow-kernel",
    24: "unlisted-dtype",
    25: "contradiction",
}
"""Kinds that the C++ device emits, by number; csrc/settings.h has the same list."""

DTYPES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexHalf": "complex32",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Bool": "bool",
    "BFloat16": "bfloat16",
}
"""What C++ calls a dtype, and what Python does."""

KINDS = (
    *NATIVE.values(),
    "unverified-api",
    "cuda-remnant",
    "cuda-question",
    "cuda-branch",
    "cuda-setting",
    "late-setting",
    "refused-setting",
    "autoload",
    "identity",
    "rank",
    "not-compiled",
    "graph-break",
    "recompilation",
    "warning",
    "race",
    "unwatched-read",
    "device-address",
    "interpreted-kernel",
    "out-of-bounds",
)
"""All kinds."""

FAILS_ON_CARD = frozenset(
    {
        "refused",
        "missing-operator",
        "missing-dtype",
        "kernel-limit",
        "memory-format",
        "out-of-memory",
        "mixed-devices",
        "fork",
        "sharing",
        "missing-api",
        "refused-setting",
        "cuda-remnant",
        "identity",
        "rank",
        "backend",
        "race",
        "device-address",
        "out-of-bounds",
    }
)
"""What makes a run on the card fail or go wrong; `--strict` looks for these."""

RAISED_AS: dict[str, type[BaseException]] = {
    "missing-operator": NotImplementedError,
    "missing-dtype": TypeError,
    "kernel-limit": RuntimeError,
    "memory-format": RuntimeError,
    "mixed-devices": RuntimeError,
    "fork": RuntimeError,
    "sharing": RuntimeError,
    "missing-api": AttributeError,
}
"""Kinds that say what is raised next, and its class; `out-of-memory` has torch's own."""

RACES: dict[str, Message] = {
    "host reads too early": say("the host reads what a copy may still be writing"),
    "host overwrites too early": say("the host overwrites what a copy may still be using"),
    "stream reads too early": say("a stream reads what another may still be writing"),
    "stream overwrites what is read": say("a stream overwrites what another may still be reading"),
    "stream overwrites what is written": say("a stream overwrites what another may still be writing"),
    "memory freed too early": say("a stream gets memory that another may still be using"),
}
"""The subjects of races, as people read them."""

BELOW_A_MODE = frozenset({"aten::_ctc_loss.Tensor"})
"""Operators that torch calls only where a dispatch mode or a subclass of Tensor is active."""

WITHOUT_MODE = say(
    "torch calls this operator only where a dispatch mode or a subclass of Tensor is active; without one the tensors "
    "may stay where they are"
)
"""The advice for these, where their tensors are on different devices."""
