"""Questions whether a device is CUDA's: `x.is_cuda`, `device.type == "cuda"`. On the card the answer is no.

A branch that such a question decides goes another way than on CUDA, and nothing raises. Asked for are tensors and
devices of the card, from the program's own lines; a device of the CPU is none of CUDA's anywhere.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import linecache
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torchferry.rehearsal import events

KIND = "cuda-branch"
_CUDA = "cuda"
_LONGEST = 80
"""Characters of a comparison that are shown."""


def watch(device_type: str) -> None:
    """Begin to note such questions about what is on `device_type`."""
    tensor: Any = torch.Tensor
    tensor.is_cuda = property(_is_cuda(tensor.is_cuda.__get__, device_type))
    if sys.implementation.name == "cpython":
        _watch_type(device_type)


def _is_cuda(get: Callable[[Any], bool], device_type: str) -> Callable[[Any], bool]:
    def is_cuda(self: Any) -> bool:
        answer = get(self)
        if not answer and self.device.type == device_type and events.recorder.called_by_user():
            events.recorder.add(KIND, "is_cuda")
        return answer

    return is_cuda


def _watch_type(device_type: str) -> None:
    """Replace the getter of `torch.device.type`, a class of C's that takes no attributes: its dictionary does."""
    (attributes,) = gc.get_referents(torch.device.__dict__)
    get = attributes["type"].__get__
    in_library = events.recorder.lines.in_library
    comparisons: dict[str, dict[int, str]] = {}

    def type_(self: torch.device) -> str:
        name: str = get(self)
        if name == device_type:
            frame = sys._getframe(1)
            file = frame.f_code.co_filename
            found = comparisons.get(file)
            if found is None:
                found = comparisons[file] = {} if in_library(file) else dict(_comparisons(file))
            if found and frame.f_lineno in found:
                events.recorder.add(KIND, found[frame.f_lineno])
        return name

    attributes["type"] = property(type_)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.device))


def _comparisons(file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines on which a file compares the type of a device with CUDA's, and what stands there."""
    text = "".join(linecache.getlines(file))
    if _CUDA not in text:
        return
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _asks_for_cuda(node):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield line, ast.unparse(node)[:_LONGEST]


def _asks_for_cuda(node: ast.Compare) -> bool:
    parts = [node.left, *node.comparators]
    named = any(
        isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.partition(":")[0] == _CUDA
        for part in parts
        for each in (part.elts if isinstance(part, (ast.Tuple, ast.List, ast.Set)) else [part])
    )
    return named and any(isinstance(part, ast.Attribute) and part.attr == "type" for part in parts)
