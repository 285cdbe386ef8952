"""torch's dtypes, and how one may differ on a card from what it is on CUDA."""

from __future__ import annotations

DTYPE_RULES = ("missing", "narrowed", "emulated", "limited")
"""How a dtype may differ from CUDA; see `Backend.DTYPES`."""

NATIVE = "native"
"""Stands for a dtype that behaves as on CUDA, where the backend as a whole has a rule for it."""

DTYPES = (
    "bfloat16",
    "bool",
    "complex128",
    "complex32",
    "complex64",
    "float16",
    "float32",
    "float64",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "int16",
    "int32",
    "int64",
    "int8",
    "qint32",
    "qint8",
    "quint8",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
)
"""Names of torch's dtypes, so that a misspelt one is found without loading torch."""
