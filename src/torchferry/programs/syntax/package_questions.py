"""Questions after a package: `is_flash_attn_2_available()`, `HAS_APEX`, `find_spec("xformers")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from torchferry.source.flow.syntax import last_name, string_value

_BEFORE = re.compile(r"(?<!_)_*(?:(?:is|has|have)_)+")
_BEHIND = re.compile(r"(?:(?:_is)?_(?:available|installed|availble)|_\d{1,20}){1,20}\Z")

_CUDA_WORD = re.compile(
    r"cuda|cudnn|nccl|triton|tensorrt|cublas|cutlass|nvidia|kernel|fused|ext(?:ension)?s?\b|_c\b|ops?\b"
)
"""Words of a question after something that is compiled for CUDA."""


def availability_of(
    test: ast.Name | ast.Attribute | ast.Call, has_package: Callable[[str], bool | None]
) -> bool | None:
    """Return whether what a question asks for is on the target, None where only the program knows.

    Args:
        test: The question.
        has_package: Says whether the target has a package, by the name of its module; None where no table speaks of it.
    """
    last = last_name(test).lower()
    if last.startswith("use_"):
        return None
    present = has_package(module_asked_for(test))
    if present is None and _named(test) is None and sounds_of_cuda(last):
        return False
    return present


def module_asked_for(test: ast.Name | ast.Attribute | ast.Call) -> str:
    """Return the module that a question asks for: it names it, or has its name."""
    last = last_name(test).lower()
    return _named(test) or ("" if last.startswith("use_") else _BEHIND.sub("", _BEFORE.sub("", last, count=1)))


def _named(test: ast.Name | ast.Attribute | ast.Call) -> str | None:
    """Return the module that a question is given the name of; None where it is given none."""
    return (string_value(test.args[0]) or None) if isinstance(test, ast.Call) and test.args else None


def sounds_of_cuda(name: str) -> bool:
    """Whether a name speaks of something that is compiled for CUDA."""
    return _CUDA_WORD.search(name.lower()) is not None
