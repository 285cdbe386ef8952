"""What stands in front of `.is_cuda()`: a tensor or a device has a counterpart of it, the type of a tensor has none.

    x.type().is_cuda()                     // DeprecatedTypeProperties: becomes x.device().is_privateuseone()
    const at::Type& t = x.type();
    t.is_cuda();                           // stays: `t` is a type

Sources: `ATen/core/DeprecatedTypeProperties.h` has `is_cuda` alone, `ATen/core/TensorBase.h` and `c10/core/Device.h`
have both (torch 2.13.0).
"""

from __future__ import annotations

import re

from torchferry.core.lazy_regex import lazy_regex

_TYPE_CALL = lazy_regex(r"(?:\.|->)\s*(type)\s*\(\s*\)\s*(?:\.|->)\s*\Z")
_VARIABLE = lazy_regex(r"(?<![\w.>])([A-Za-z_]\w*)\s*(?:\.|->)\s*\Z")
_BACK = 400


def type_before(code: str, at: int) -> int | None:
    """Return where `type` begins in `x.type().is_cuda()`, for the place of the method; None where that is not there."""
    begin = max(0, at - _BACK)
    match = _TYPE_CALL.search(code[begin:at])
    return begin + match.start(1) if match is not None else None


def has_no_such_method(code: str, at: int) -> bool:
    """Whether the method at a place is one of a variable that holds the type of a tensor."""
    match = _VARIABLE.search(code[max(0, at - _BACK) : at])
    if match is None:
        return False
    name = re.escape(match[1])
    declared = re.compile(
        rf"\b(?:Type|DeprecatedTypeProperties)\s*[&*]?\s*{name}\b|\bauto\s*&?\s*{name}\s*=[^;{{}}]{{0,200}}?\btype\s*\(\s*\)\s*;"
    )
    return declared.search(code, 0, at) is not None
