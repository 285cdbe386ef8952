"""Observers: they note what torch does not say of itself, and change no result.

* Questions whether a device is CUDA's: `x.is_cuda`, `device.type == "cuda"`. On the card the answer is no. A branch
  that such a question decides goes another way than on CUDA, and nothing raises. Asked for are tensors and devices of
  the card, from the program's own lines; a device of the CPU is none of CUDA's anywhere.
* Printing, saving and loading of tensors: each is one event, whatever torch does inside for it.
* Where `.to(device)` makes new Parameters: tied weights come apart, and an optimizer made before trains nothing.
  Neither raises on such a card. Watched only where the plugin is known to behave so.
* Work of a model that the CPU did: which module it was, and which line of the program called it. The device counts
  what the CPU does in matrix products, convolutions, attention and recurrent layers. It is a model's where a module
  with parameters is being called, or where gradients are involved: what prepares data on the CPU has neither, and is
  where it belongs.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import gc
import linecache
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch

from torchferry.core.userlines import UserLine, UserLines
from torchferry.rehearsal import events
from torchferry.rehearsal.event_kinds import NATIVE

_BRANCH = "cuda-branch"
_CUDA = "cuda"
_LONGEST = 80
"""Characters of a comparison that are shown."""


def watch_cuda_questions(device_type: str) -> None:
    """Begin to note such questions about what is on `device_type`."""
    tensor: Any = torch.Tensor
    tensor.is_cuda = property(_is_cuda(tensor.is_cuda.__get__, device_type))
    if sys.implementation.name == "cpython":
        _watch_type(device_type)


def _is_cuda(get: Callable[[Any], bool], device_type: str) -> Callable[[Any], bool]:
    def is_cuda(self: Any) -> bool:
        answer = get(self)
        if not answer and self.device.type == device_type and events.recorder.called_by_user():
            events.recorder.add(_BRANCH, "is_cuda")
        return answer

    return is_cuda


def _watch_type(device_type: str) -> None:
    """Replace the getter of `torch.device.type`, a class of C's that takes no attributes: its dictionary does."""
    device_class = type(torch.empty(0).device)  # a plugin may put a class of its own in the place of `torch.device`
    (attributes,) = gc.get_referents(device_class.__dict__)
    get = attributes["type"].__get__
    in_library = events.recorder.lines.in_library
    comparisons: dict[str, dict[int, str]] = {}

    def type_(self: torch.device) -> str:
        name: str = get(self)
        if name == device_type:
            frame = sys._getframe(1)
            file = frame.f_code.co_filename
            comparisons_of_file = comparisons.get(file)
            if comparisons_of_file is None:
                comparisons_of_file = comparisons[file] = {} if in_library(file) else dict(_comparisons(file))
            if comparisons_of_file and frame.f_lineno in comparisons_of_file:
                events.recorder.add(_BRANCH, comparisons_of_file[frame.f_lineno])
        return name

    attributes["type"] = property(type_)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(device_class))


def _comparisons(file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines on which a file compares the type of a device with CUDA's, and what is there."""
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


def watch_output() -> None:
    """Count what torch does to print a tensor as one wait, and what it does to save or load objects as one copy."""
    printing: Any = torch._tensor_str
    serialization: Any = torch.serialization
    printing._str = _as_one(printing._str, "synchronisation", "printing a tensor")
    for name, kind, subject in (
        ("_save", "to-host", "torch.save"),
        ("_legacy_save", "to-host", "torch.save"),
        ("_load", "to-device", "torch.load"),
        ("_legacy_load", "to-device", "torch.load"),
    ):
        setattr(serialization, name, _as_one(getattr(serialization, name), kind, subject))


def _as_one(original: Callable[..., Any], kind: str, subject: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with events.as_one(kind, subject):
            return original(*args, **kwargs)

    return call


_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_moving = threading.local()


def watch_parameters() -> None:
    """Begin to look at each move of a module, and at the optimizers that exist then."""
    _watch_optimizers()
    _watch_moves()


def _watch_optimizers() -> None:
    original = torch.optim.Optimizer.__init__

    @functools.wraps(original)
    def init(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _optimizers.add(self)

    torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign]


def _watch_moves() -> None:
    original: Callable[..., Any] = torch.nn.Module._apply

    @functools.wraps(original)
    def apply(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if getattr(_moving, "inside", False):
            return original(self, *args, **kwargs)
        before = _parameters(self)
        _moving.inside = True
        try:
            return original(self, *args, **kwargs)
        finally:
            _moving.inside = False
            _compare(before, _parameters(self))

    torch.nn.Module._apply = apply  # type: ignore[method-assign]


def _parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return dict(module.named_parameters(remove_duplicate=False))


def _compare(before: dict[str, torch.nn.Parameter], after: dict[str, torch.nn.Parameter]) -> None:
    replaced = {id(old): name for name, old in before.items() if name in after and after[name] is not old}
    if not replaced:
        return
    uses = Counter(id(parameter) for parameter in before.values())
    for name, old in before.items():
        if uses[id(old)] > 1 and replaced.get(id(old)) == name:
            events.record("identity", name, "a tied weight came apart: its names hold two Parameters now")
    for optimizer in _optimizers:
        held = [p for group in optimizer.param_groups for p in group["params"] if id(p) in replaced]
        if held:
            name = type(optimizer).__name__
            events.record("identity", name, f"made before the move: it updates {len(held)} Parameters nobody uses")


_HOST_WORK = "host-work"
"""The kind of these events; their amount is in floating point operations."""

_MODULE_CALL = torch.nn.Module._call_impl.__code__
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.", "torch._dynamo.")
"""Modules that hold the program's own model; naming them would say nothing."""


def receive_native_event(kind: int, subject: bytes, detail: bytes, amount: int) -> None:
    """Count an event of the C++ device; called from any thread."""
    if NATIVE.get(kind) != _HOST_WORK:
        events.receive(kind, subject, detail, amount)
        return
    owner = owner_of_work(sys._getframe(1), events.recorder.lines, phase=subject.decode())
    if owner is not None:
        events.recorder.add(_HOST_WORK, owner[0], "", amount, owner[1])


_OF_GRADIENTS = {"forward": "tensors that need gradients", "backward": "backward"}


def owner_of_work(frame: FrameType | None, lines: UserLines, *, phase: str) -> tuple[str, UserLine] | None:
    """Return what the work that is done in `frame` is part of, and the user's line; None for what is no model's.

    Args:
        frame: The innermost frame.
        lines: Which lines are the user's.
        phase: `forward` where tensors need gradients, `backward` where gradients are computed; empty without any.
    """
    inner = frame
    model_call: tuple[str, FrameType] | None = None
    while frame is not None:
        if frame.f_code is _MODULE_CALL:
            name = _on_host(frame.f_locals.get("self"))
            model_call = (name, frame) if name else model_call
        frame = frame.f_back
    if model_call is not None:
        return f"model `{model_call[0]}`", lines.of(model_call[1])
    return (_OF_GRADIENTS[phase], lines.of(inner)) if phase in _OF_GRADIENTS else None


def _on_host(module: Any) -> str:
    """Return the name of a module's class where its parameters are on the CPU; empty where it has none there."""
    kind = type(module)
    if not isinstance(module, torch.nn.Module) or kind.__module__.startswith(_WRAPPERS):
        return ""
    parameter = next(module.parameters(), None)
    return kind.__name__ if parameter is not None and parameter.device.type == "cpu" else ""
