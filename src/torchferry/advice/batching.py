"""Advice on loops over the samples of a batch, which give the device one sample at a time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.advice.model import Advice, CodePlace
from torchferry.advice.question import AdviceQuestion
from torchferry.advice.training_code import TrainingProgram, place_of
from torchferry.core.messages import say
from torchferry.source.flow.syntax import last_name
from torchferry.source.python import PythonFile

_SIZES = re.compile(r"(?:\A|_)(?:batch_?size|bs|bsz|n_?batch(?:es)?|num_?samples)\Z|\AB\Z", re.IGNORECASE)
"""Names of the number of samples in a batch."""

_MODELS = re.compile(r"(?:\A|_)(?:model|net|network|encoder|decoder|head|backbone|criterion|loss_fn)\Z", re.IGNORECASE)

_FORWARD = "forward"


def batch_loop(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise against a loop over the samples of a batch in a forward or in a step."""
    places: dict[CodePlace, None] = {}
    for file, loop in _loops(asked.program):
        if _is_over_samples(loop):
            places[place_of(file, loop)] = None
    if places:
        yield Advice(
            "batch-loop",
            say("compute the batch at once, and not sample by sample"),
            say(
                "each turn starts the same operators for one sample: the device has little to do in each, and the "
                "host starts them as often as the batch has samples"
            ),
            tuple(places),
            None,
            asked.effect("batch_loop"),
            (),
            say(
                "call the operators on the whole tensor: torch.bmm, a mask, pad_sequence for samples "
                "of unlike length, torch.vmap for a function of one sample"
            ),
        )


def _loops(program: TrainingProgram) -> Iterator[tuple[PythonFile, ast.For]]:
    """Yield the loops in the steps of a program and in the forward of its modules."""
    for step in program.steps:
        yield from ((step.file, node) for node in ast.walk(step.node) if isinstance(node, ast.For))
    for file, _ in program.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.FunctionDef) and node.name == _FORWARD:
                yield from ((file, inner) for inner in ast.walk(node) if isinstance(inner, ast.For))


def _is_over_samples(loop: ast.For) -> bool:
    """Whether a loop counts the samples of a batch, and computes with the one that its counter names."""
    counter, call = loop.target, loop.iter
    if not isinstance(counter, ast.Name) or not isinstance(call, ast.Call):
        return False
    if last_name(call.func) != "range" or len(call.args) != 1 or not _is_batch_size(call.args[0]):
        return False
    taken = {
        id(node)
        for statement in loop.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript) and _first_index(node) == counter.id
    }
    return bool(taken) and any(
        _computes(node) and any(id(inner) in taken for argument in node.args for inner in ast.walk(argument))
        for statement in loop.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    )


def _is_batch_size(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):  # x.shape[0]
        is_first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return is_first and last_name(node.value) == "shape"
    if isinstance(node, ast.Call):
        if last_name(node.func) == "size":  # x.size(0)
            return len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        return isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1
    return bool(_SIZES.search(last_name(node)))


def _first_index(node: ast.Subscript) -> str:
    """Return the name that a subscript takes first, as in `x[i]` and `x[i, :, 0]`."""
    index = node.slice
    if isinstance(index, ast.Tuple):
        index = index.elts[0] if index.elts else index
    return index.id if isinstance(index, ast.Name) else ""


def _computes(call: ast.Call) -> bool:
    """Whether a call computes with tensors: of torch, of torch.nn.functional, or of a module."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.value.id in ("torch", "F"):
            return function.attr not in ("save", "tensor", "is_tensor")
        return function.value.id == "self" and not function.attr.startswith("_")
    return isinstance(function, ast.Name) and bool(_MODELS.search(function.id))
