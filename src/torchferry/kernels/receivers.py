"""What is in front of `.is_cuda()`: a tensor or a device has a counterpart of it, the type of a tensor has none.

    x.type().is_cuda()                     // DeprecatedTypeProperties: becomes x.device().is_privateuseone()
    const at::Type& t = x.type();
    t.is_cuda();                           // stays: `t` is a type

Sources: `ATen/core/DeprecatedTypeProperties.h` has `is_cuda` alone, `ATen/core/TensorBase.h` and `c10/core/Device.h`
have both (torch 2.13.0).
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex
from torchferry.kernels.tokens import SourceTokens, last_word

_TYPE_CALL = lazy_regex(r"(?:\.|->)\s*(type)\s*\(\s*\)\s*(?:\.|->)\s*\Z")
_VARIABLE = lazy_regex(r"(?<![\w.>])([A-Za-z_]\w*)\s*(?:\.|->)\s*\Z")
_BACK = 400
_NEAR = 80
"""Characters in front of a method, or of a variable, that are read."""

_TYPES = ("Type", "DeprecatedTypeProperties")
_SET_TO_A_TYPE = lazy_regex(r"\s*=[^;{}]{0,200}?\btype\s*\(\s*\)\s*;")


def type_before(code: str, at: int) -> int | None:
    """Return where `type` begins in `x.type().is_cuda()`, for the place of the method; None where that is not there."""
    begin = max(0, at - _BACK)
    match = _TYPE_CALL.search(code[begin:at])
    return begin + match.start(1) if match is not None else None


def has_no_such_method(source: SourceTokens, at: int) -> bool:
    """Whether the method at a place is one of a variable that holds the type of a tensor."""
    if not any(map(source.may_have, ("type", *_TYPES))):
        return False
    code = source.code
    match = _VARIABLE.search(code, max(0, at - _NEAR), at)
    if match is None:
        return False
    name = match[1]
    for begin in source.places(name):
        if begin >= at:
            break
        declared = last_word(code[max(0, begin - _NEAR) : begin].rstrip(" \t\r\n&*"))
        if declared in _TYPES or (declared == "auto" and _SET_TO_A_TYPE.match(code, begin + len(name))):
            return True
    return False
