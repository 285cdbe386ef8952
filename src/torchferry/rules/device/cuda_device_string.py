"""A string that names a CUDA device.

`"cuda"`, `"cuda:0"`, `f"cuda:{rank}"`, `"cuda:%d" % i` and the like, wherever the string reaches a device: as an
argument, a default, an option, a value in a configuration, one side of a comparison, a key asked for with a
device type. The target does not know the device type `cuda`, so `torch.device` raises, and a comparison with it
is silently false.

Where a device is cut off a text, as in `device.replace("cuda:", "")`, the target's is cut off too: scripts that say
`--device cuda:0` go on.

A string that merely contains the word is left alone: comments, help and log texts, file names, command-line
flags, dictionary keys, names that other libraries define. So is the key of a `map_location` dictionary, which
names the device inside the checkpoint rather than the one to load to.

Why: torch raises for an unknown device type. A comparison is silently False, and the code for the card never runs.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to
from torchferry.rules.compile.compilers import compiler_of
from torchferry.rules.device.counted_letters import letters_compared
from torchferry.rules.device.cut_off import cutting_call
from torchferry.rules.device.expressions import device_expression, portable_imports, quoted_for
from torchferry.rules.device.load_onto_device import parts_of_unloadable
from torchferry.rules.device.method_values import names_method
from torchferry.rules.device.strings import is_cut_off_already, literal_span, written_device
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.library.onnxruntime_device import device_places
from torchferry.rules.library.portable_weights import is_loaded_weight
from torchferry.rules.library.refused_device import is_refused
from torchferry.rules.random.generator_on_device import devices_without_generator
from torchferry.rules.random.portable_generator import is_seeded_generator
from torchferry.source.flow import Trace, TraceResult
from torchferry.source.flow.assembled import folded
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.lexicon import DEVICE_SPELLING

_BEGINNINGS = (
    *(f"{quote}{part}{end}" for part in ("cu", "cud") for quote in "\"'" for end in (quote, "{", "%")),
    *(f"{word}{quote}" for word in ("CUDA", "Cuda") for quote in "\"'"),
    *(f"cuda{space}{quote}." for space in ("", " ") for quote in "\"'"),
)
"""How the first part of a device begins that is put together of literal parts."""


class CudaDeviceString(Rule):
    """Finds device strings that were followed to a device."""

    CODE = "DEV101"
    EFFECT = Effect.RAISES
    BINDS = True
    WORDS = ('"cuda', "'cuda", *_BEGINNINGS)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each device string whose use is known."""
        # DEV114, LIB102, LIB109, RNG102, RNG104 and LIB121 report what is left out here
        unloadable = parts_of_unloadable(context) | {place for _, place in device_places(context)}
        unloadable |= devices_without_generator(context)
        for node in device_strings(context):
            trace = device_trace(context, node)
            if compiler_of(context, node) is not None:
                yield self._report(context, node, trace)
                continue
            if trace.result is not TraceResult.YES or is_refused(context, node) or node in unloadable:
                continue
            if not is_seeded_generator(context, node) and not is_loaded_weight(context, node):
                yield self._report(context, node, trace)

        yield from self._in_parts(context)

    def _in_parts(self, context: PythonContext) -> Iterable[Finding]:
        """Yield the devices that literal parts make, none of which is one: `"cu" + "da"`."""
        own = context.target.backend.DEVICE_TYPE
        of_variables = dict(small_letters_of_variables(context))
        for expression, text in (*parts_of_device(context), *of_variables.items()):
            trace = context.devices.trace(expression)
            if trace.result is TraceResult.NO or exemption_for(context, expression) is not None:
                continue
            shown = text.replace("cuda", own)
            message = say(
                "device string `{text}` is built from parts; on {target} it is `{device}`",
                text=text,
                target=context.target.title,
                device=shown,
            )
            span = context.file.span(expression)
            written: str | None = f'"{shown}"'
            if not isinstance(expression, ast.JoinedStr):
                written = quoted_for(context, expression, f'"{shown}"')
            if (
                written is None
                or expression in of_variables
                or context.target.module
                or trace.result is not TraceResult.YES
            ):
                yield self.finding(context, span, message, Grade.MANUAL)
            else:
                yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, written)])

    def _report(self, context: PythonContext, node: ast.Constant, trace: Trace) -> Finding:
        span = literal_span(context, node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("device string `{text}` is left as it is: {reason}", text=node.value, reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        written = written_device(context, node)
        if written.edits and cutting_call(context, node) is not None:
            message = say(
                "removes `{text}` from a text, such as the device that a user names; on {target} remove `{device}` too",
                text=node.value,
                target=context.target.title,
                device=written.shown,
            )
            return self.finding(context, span, message, Grade.SAFE, written.edits, imports=portable_imports(context))
        message = say(
            "device string `{text}` ({reason}); on {target} it is `{device}`",
            text=node.value,
            reason=trace.reason,
            target=context.target.title,
            device=written.shown,
        )
        cut = letters_compared(context, node)
        if cut is not None and cut.edits is None:
            message = say("{message}; it is compared with a slice of its length: change both", message=message)
        if not written.edits or (cut is not None and cut.edits is None):
            return self.finding(context, span, message, Grade.MANUAL)
        edits = [*written.edits, *((cut.edits or ()) if cut is not None else ())]
        factory = factory_edits(context, node)
        imports = device_expression(context)[1] if factory else portable_imports(context)
        return self.finding(context, span, message, Grade.SAFE, [*edits, *factory], imports=imports)


def device_strings(context: PythonContext) -> list[ast.Constant]:
    """Return the string literals spelt as a CUDA device, f-strings by their literal part."""
    strings = []
    for node in context.file.strings:
        value = node.value
        if isinstance(value, str) and value.startswith("cuda") and DEVICE_SPELLING.match(value):
            parent = context.file.parents.get(node)
            if isinstance(parent, ast.JoinedStr) and not _is_device_fstring(parent):
                continue
            if is_cut_off_already(context, node) or names_method(context, node) or _is_translated(context, node):
                continue
            strings.append(node)
    return strings


def factory_edits(context: PythonContext, node: ast.Constant) -> list[Edit]:
    """Return the edit of `torch.device` around a device string, for a plugin with a function in its place."""
    factory = context.target.backend.DEVICE_FACTORY
    whole = context.file.fstring_of(node) or node
    call = context.file.parents.get(whole)
    if not factory or context.target.module or not isinstance(call, ast.Call) or call.args != [whole] or call.keywords:
        return []
    if not any(name == "torch.device" and other is call for name, other in calls_to(context)):
        return []
    return [Edit(*context.file.span(call.func), factory)]


def _is_translated(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a device is read as the target's: `word.replace("cuda", "npu")`."""
    call = context.file.parents.get(node)
    if not isinstance(call, ast.Call) or last_name(call.func) != "replace" or call.args[:1] != [node]:
        return False
    return [string_value(other) for other in call.args[1:]] == [context.target.backend.DEVICE_TYPE]


def parts_of_device(context: PythonContext) -> Iterable[tuple[ast.expr, str]]:
    """Yield the expressions of literal parts that make a device of which no part is one, with their texts."""
    for node in context.file.strings:
        if not isinstance(node.value, str):
            continue
        whole: ast.AST | None = context.file.parents.get(node)
        if _FIELDS.split(node.value, 1)[0] not in _PARTS:
            is_changed = isinstance(whole, ast.Attribute) and "cuda" in node.value.lower()
            if not is_changed or DEVICE_SPELLING.match(node.value):
                continue
        if isinstance(whole, (ast.List, ast.Tuple, ast.Attribute, ast.FormattedValue)):
            whole = context.file.parents.get(whole)
        while isinstance(around := context.file.parents.get(whole) if whole is not None else None, ast.BinOp):
            if not isinstance(around.op, ast.Add) or around.left is not whole:
                break
            whole = around
        if isinstance(whole, ast.expr) and not isinstance(whole, ast.Constant):
            text = folded(whole)
            if text is not None and text != node.value and DEVICE_SPELLING.match(text):
                yield whole, text


def small_letters_of_variables(context: PythonContext) -> Iterable[tuple[ast.Call, str]]:
    """Yield the calls that make a device of a variable with capitals, with its text: `NAME = "CUDA"; NAME.lower()`."""
    for node in context.file.strings:
        statement = context.file.parents.get(node)
        if not isinstance(statement, ast.Assign) or node.value not in _IN_CAPITALS:
            continue
        for target in statement.targets:
            for use in context.names.reached_uses(target) if isinstance(target, ast.Name) else ():
                method = context.file.parents.get(use)
                call = context.file.parents.get(method) if isinstance(method, ast.Attribute) else None
                if isinstance(call, ast.Call) and call.func is method and last_name(method) in ("lower", "casefold"):
                    yield call, str(node.value).lower()


_FIELDS = lazy_regex(r"%s|\{\}")
_IN_CAPITALS = ("CUDA", "Cuda")
_PARTS = ("c", "cu", "cud", *_IN_CAPITALS)


def _is_device_fstring(joined: ast.JoinedStr) -> bool:
    """Whether an f-string is a device string as a whole: `f"cuda:{rank}"`, `f"cuda:0"`, not `f"cuda {version}"`."""
    if len(joined.values) == 1:
        return isinstance(joined.values[0], ast.Constant)
    literal = "".join(
        value.value for value in joined.values if isinstance(value, ast.Constant) and isinstance(value.value, str)
    )
    return literal in ("cuda", "cuda:")


def device_trace(context: PythonContext, node: ast.Constant) -> Trace:
    """Follow a device string."""
    return context.devices.trace(node)
