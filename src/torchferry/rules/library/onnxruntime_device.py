"""Devices that ONNX Runtime is given by its own names: `binding.bind_output("y", "cuda")`.

They are no names of torch's (onnxruntime/python/onnxruntime_inference_collection.py, `get_ort_device_type`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.backends import cuda
from torchferry.rules.base import PythonContext, calls_of, keyword_of
from torchferry.rules.default_texts import evident_texts
from torchferry.rules.distributed.tensors import values
from torchferry.source.flow.syntax import string_value

PACKAGE = "onnxruntime"
NAME = "onnxruntime.device"
"""What the table has ONNX Runtime's name of the device under."""

FUNCTIONS = {
    "ortvalue_from_numpy": 1,
    "ortvalue_from_shape_and_type": 2,
    "bind_input": 1,
    "bind_output": 1,
}
"""Functions and methods that take one, with the position of it."""


def device_places(context: PythonContext) -> Iterator[tuple[str, ast.expr]]:
    """Yield the devices for CUDA that ONNX Runtime is given, each with the name of what takes it.

    That is the text, where nothing else is given it, and the argument where a variable has another use too.
    """
    if PACKAGE not in context.imported_packages:
        return
    given = {
        argument: name
        for name, position in FUNCTIONS.items()
        for call in calls_of(context, name)
        if (argument := _argument(call, position)) is not None
    }
    for argument, name in given.items():
        if not any(_is_of_torch(context, text) for text in evident_texts(context, argument)):
            continue
        is_alone = isinstance(argument, ast.Name) and all(use in given for use in context.names.uses_of(argument))
        texts = values(context, argument) if is_alone else [argument]
        for place in texts if all(string_value(each) is not None for each in texts) else [argument]:
            text = string_value(place)
            if text is None or _is_of_torch(context, text):
                yield name, place


def _is_of_torch(context: PythonContext, text: str) -> bool:
    """Whether a text is torch's name of the card: CUDA's, or the target's, where ONNX Runtime has another for it."""
    own = context.target.backend.DEVICE_TYPE
    if text.partition(":")[0] == own:
        return context.target.row("frameworks", NAME).use != own
    return text.startswith(cuda.DEVICE_TYPE)


def _argument(call: ast.Call, position: int) -> ast.expr | None:
    keyword = keyword_of(call, "device_type")
    if keyword is not None:
        return keyword.value
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return call.args[position] if position < len(call.args) and not starred else None
