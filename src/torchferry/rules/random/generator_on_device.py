"""A random generator on the device, for a target that has none.

`torch.Generator("cuda")` creates a generator on the card. If a plugin has no device generator, the fix to read creates
one on the CPU, and what draws with it draws on the CPU and moves the result: `torch.randn(shape, generator=g,
device="cpu").to(device)`. A function that is handed the generator has to do the same; diffusers does. The numbers
differ from those of a CUDA card in both cases.

Why: Creating the generator raises.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.expressions import device_again, device_expression
from torchferry.source.lexicon import DEVICE_SPELLING

_CPU = "cpu"


class GeneratorOnDevice(Rule):
    """Finds generators on the device."""

    CODE = "RNG102"
    EFFECT = Effect.RAISES
    WORDS = ("Generator",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each generator that is given a device other than the CPU."""
        if context.target.backend.DEVICE_GENERATOR is True:
            return
        for place in generators_on_device(context):
            span = context.file.span(place.call)
            if context.target.backend.DEVICE_GENERATOR is UNKNOWN:
                message = say(
                    "whether {target} has device generators is UNKNOWN; if not, generate on the CPU and "
                    "move the result",
                    target=context.target.title,
                )
                yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
                continue
            message = say(
                "{target} has no device generator: generate on the CPU and move the result",
                target=context.target.title,
            )
            edits = _edits(context, place)
            grade = Grade.UNSAFE if edits else Grade.MANUAL
            imports = device_expression(context)[1] if len(edits) > 1 else ()
            yield self.finding(context, span, message, grade, edits, imports=imports)


class OnDevice(NamedTuple):
    """A generator of a device other than the CPU: the call that creates it, and its device."""

    call: ast.Call
    device: ast.expr


def generators_on_device(context: PythonContext) -> Iterator[OnDevice]:
    """Yield the generators that are given a device other than the CPU."""
    for name, call in calls_to(context):
        device = _device_of(call) if name == "torch.Generator" else None
        if device is not None and not (isinstance(device, ast.Constant) and device.value == _CPU):
            yield OnDevice(call, device)


def devices_without_generator(context: PythonContext) -> set[ast.AST]:
    """Return the device strings of generators that the target lacks, and of what draws with them: RNG102 has them."""
    if context.target.backend.DEVICE_GENERATOR is not False or context.target.module:
        return set()
    strings: set[ast.AST] = set()
    for place in generators_on_device(context):
        if _writes_cuda(place.device):
            strings.add(place.device)
        strings |= {drawn.device for drawn in _drawn(context, place) if _writes_cuda(drawn.device)}
    return strings


def _device_of(call: ast.Call) -> ast.expr | None:
    keyword = keyword_of(call, "device")
    return call.args[0] if call.args else keyword.value if keyword is not None else None


def _writes_cuda(device: ast.expr) -> bool:
    """Whether a device is a literal of CUDA, all of which stands in one string."""
    return (
        isinstance(device, ast.Constant) and isinstance(device.value, str) and bool(DEVICE_SPELLING.match(device.value))
    )


def _edits(context: PythonContext, place: OnDevice) -> list[Edit]:
    """Return the edits that create a generator on the CPU and draw with it there; none where portable code asks."""
    if context.target.module:
        return []  # create_generator says what to do on a device that has none
    edits = [Edit(*context.file.span(place.device), f'"{_CPU}"')]
    for drawn in _drawn(context, place):
        own = device_again(context, drawn.device)
        if own is None:
            return []  # half an edit would leave a draw that raises
        end = context.file.span(drawn.call)[1]
        edits += [Edit(*context.file.span(drawn.device), f'"{_CPU}"'), Edit(end, end, f".to({own})")]
    return edits


def _drawn(context: PythonContext, place: OnDevice) -> Iterator[OnDevice]:
    """Yield the calls of torch that draw with a generator onto a device that they name."""
    value: ast.AST = place.call
    while isinstance(above := context.file.parents.get(value), (ast.Attribute, ast.Call)):
        if isinstance(above, ast.Call) and above.func is not value:
            break
        value = above  # torch.Generator("cuda").manual_seed(seed)
    holders = [value]
    statement = context.file.parents.get(value)
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            holders += context.names.reached_uses(target) if isinstance(target, ast.Name) else []
    drawing = dict(_calls_of_torch(context))
    for holder in holders:
        keyword = context.file.parents.get(holder)
        call = context.file.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
        if not isinstance(keyword, ast.keyword) or keyword.arg != "generator" or call not in drawing:
            continue
        device = keyword_of(drawing[call], "device")
        if device is not None and not (isinstance(device.value, ast.Constant) and device.value.value == _CPU):
            yield OnDevice(drawing[call], device.value)


def _calls_of_torch(context: PythonContext) -> Iterator[tuple[ast.AST, ast.Call]]:
    for _, call in calls_to(context):
        yield call, call
