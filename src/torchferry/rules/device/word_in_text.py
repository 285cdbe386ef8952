"""A text that is held against a device and has CUDA's word in it, although it is no device itself.

`re.match(r"cuda:\\d+", str(x.device))`, `fnmatch(name, "cuda*")`, `device.type.upper() == "CUDA"`,
`device.type in "cuda,mps".split(",")`, `"cu" in device.type`: on the target the device has another word, so the answer
is silently no. The word is rewritten where the text is certainly held against a device. A part of the word is left to
you, and so is a name beside those of other devices that is read as a text: `Backend.CUDA.name.lower()`.

Why: The answer is silently no, and the code for the card never runs.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.named_devices import name_of, named_devices
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.target_words import target_words
from torchferry.rules.texts import is_text
from torchferry.source.flow import TraceResult
from torchferry.source.flow.containers import KeyAsked, questions
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.lexicon import DEVICE_SPELLING
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in

_CAPITALS = {"upper": str.upper, "capitalize": str.capitalize, "title": str.title}
"""Methods behind which a device is written in other letters."""

_PARTS = frozenset({"cu", "cud", "uda"})
_HOLDING = frozenset({"startswith", "find", "index", "count", "__contains__"})

_MATCHING = frozenset({"compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"})
"""Functions of `re` whose first argument is a pattern; those of a compiled one take the text first."""

_MATCHED_BY_NAME = frozenset({"fnmatch.fnmatch", "fnmatch.fnmatchcase", "fnmatch.filter"})

_WORD = lazy_regex(r"(?<![A-Za-z0-9_])(?:cuda|CUDA)(?![A-Za-z0-9_])")
_WHOLE = lazy_regex(r"(?<![A-Za-z0-9_])cuda(?:\(?(?:\?:)?:|\\?[$Z]|\||\)|\Z)")
"""How a pattern goes on behind the word where it may be one for devices: `cuda:`, `cuda(:`, `cuda$`, `cuda|`."""

_BETWEEN = lazy_regex(r"[\s,;|/]+")
_LONGEST = 200

_SURE = frozenset({"device", "dev", "device_type", "device_str"})
"""Names that hold a device and nothing about one, such as the name of a card."""

_MAKING_DICTIONARIES = frozenset({"dict", "OrderedDict"})


class _Held(NamedTuple):
    """A text that may be held against a device.

    Attributes:
        edits: What puts the target's word in the place of CUDA's; none where that is not known.
        is_sure: Whether it is held against a device for certain.
    """

    edits: list[Edit]
    is_sure: bool


class WordInText(Rule):
    """Finds texts with CUDA's word, or a part of it, that are held against a device."""

    CODE = "DEV117"
    EFFECT = Effect.WRONG
    BINDS = True
    WORDS = ("cuda", "CUDA", "Cuda", '"cu', "'cu", '"uda"', "'uda'")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each text, and for each keyword `cuda` of a dictionary that is asked with a device."""
        for node in context.file.strings:
            value = node.value
            if not isinstance(value, str) or not 2 <= len(value) <= _LONGEST or DEVICE_SPELLING.match(value):
                continue
            held = _held(context, node, value)
            if held is not None and not is_text(context, node):
                yield from self._report(context, node, literal_span(context, node), value, held)
        for keyword in context.file.keywords.get(cuda.DEVICE_TYPE, ()):
            call = context.file.parents.get(keyword)
            if not isinstance(call, ast.Call) or last_name(call.func) not in _MAKING_DICTIONARIES:
                continue
            if any(map(_holds, questions(context.devices, call))):
                start, _ = context.file.span(keyword)
                span = (start, start + len(cuda.DEVICE_TYPE))
                edits = [Edit(*span, context.target.backend.DEVICE_TYPE)]
                yield from self._report(context, keyword, span, cuda.DEVICE_TYPE, _Held(edits, True))

        for named in named_devices(context):
            if exemption_reason(context, named) is None:
                yield self._named(context, named)

    def _named(self, context: PythonContext, node: ast.AST) -> Finding:
        start, end = context.file.span(node)
        message = say(
            "`{text}` may be a device ({reason}); if it is, it must be `{device}` on {target}",
            text=name_of(node) or context.snippet(start, end),
            reason=say("a name"),
            device=context.target.backend.DEVICE_TYPE,
            target=context.target.title,
        )
        return self.finding(context, (start, end), message, Grade.MANUAL, effect=Effect.UNKNOWN)

    def _report(
        self, context: PythonContext, node: ast.AST, span: tuple[int, int], text: str, held: _Held
    ) -> Iterator[Finding]:
        if exemption_reason(context, node) is not None:
            return
        edits = [] if context.target.module else held.edits
        message = say(
            "`{text}` is compared with a device, which is `{device}` on {target}",
            text=text,
            device=context.target.backend.DEVICE_TYPE,
            target=context.target.title,
        )
        grade = Grade.MANUAL if not edits else Grade.SAFE if held.is_sure else Grade.UNSAFE
        yield self.finding(context, span, message, grade, edits)


def _held(context: PythonContext, node: ast.Constant, value: str) -> _Held | None:
    """Return what to do about a text that is held against a device, or None for any other."""
    parent = context.file.parents.get(node)
    if value in _PARTS:
        return _Held([], False) if any(map(_is_sure, _against(context, node))) else None
    lowered = value.lower()
    if cuda.DEVICE_TYPE not in lowered or target_words(context.target.backend.DEVICE_TYPE).search(value):
        return None
    if DEVICE_SPELLING.match(lowered):
        return None if isinstance(parent, (ast.Attribute, ast.JoinedStr)) else _in_capitals(context, node, value)
    if isinstance(parent, (ast.Call, ast.keyword, ast.JoinedStr)) and _WORD.search(value):
        pattern = _pattern(context, node, value)
        if pattern is not None:
            return pattern
    if _WORD.search(value) and any(map(_is_sure, _against(context, node))):
        return _Held(_rewritten(context, node, value), True)
    words = _BETWEEN.split(value.strip())
    if len(words) < 2 or isinstance(parent, ast.JoinedStr) or not all(_is_device(context, word) for word in words):
        return None
    trace = context.devices.trace(node)
    if trace.result is TraceResult.NO:
        return None
    return _Held(_rewritten(context, node, value), trace.result is TraceResult.YES)


def _is_device(context: PythonContext, word: str) -> bool:
    return DEVICE_SPELLING.match(word) is not None or context.devices.lexicon.is_known_value(word)


def _rewritten(context: PythonContext, node: ast.Constant, value: str) -> list[Edit]:
    own = context.target.backend.DEVICE_TYPE
    words = sorted(set(_WORD.findall(value)))
    try:
        edits = [
            edit for word in words for edit in word_edits(context, node, word, own if word.islower() else own.upper())
        ]
    except ValueError:
        return []
    return edits if len(edits) == value.lower().count(cuda.DEVICE_TYPE) else []


# --- patterns ---


def _pattern(context: PythonContext, node: ast.Constant, value: str) -> _Held | None:
    """Return what to do about a pattern, or None where it is none, or is matched with something else."""
    whole: ast.AST = context.file.fstring_of(node) or node
    call = context.file.parents.get(whole)
    if isinstance(call, ast.keyword) and call.arg in ("pattern", "pat"):
        call = context.file.parents.get(call)
    if not isinstance(call, ast.Call):
        return None
    name = context.names.qualified(call.func) or ""
    if name in _MATCHED_BY_NAME:
        texts = call.args[:1]
    elif name.rpartition(".")[0] in ("re", "regex") and last_name(call.func) in _MATCHING:
        first = 2 if last_name(call.func) in ("sub", "subn") else 1
        texts = call.args[first : first + 1] or _matched(context, call)
    else:
        return None
    place = 1 if name in _MATCHED_BY_NAME else 0
    if whole in call.args and call.args.index(whole) != place:
        return None
    matched = [KeyAsked(context.devices, text) for text in texts]
    if any(map(_holds, matched)):
        return _Held(_rewritten(context, node, value), any(map(_is_sure, matched)))
    is_open = not texts or any(isinstance(text, (ast.Name, ast.Attribute)) for text in texts)
    return _Held(_rewritten(context, node, value), False) if is_open and _WHOLE.search(value) else None


def _matched(context: PythonContext, compiled: ast.Call) -> list[ast.expr]:
    """Return what a compiled pattern is matched with, right there or by its name."""
    places: list[ast.expr] = [compiled]
    statement = context.file.parents.get(compiled)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        places += context.names.uses_of(statement.targets[0])
    texts: list[ast.expr] = []
    for place in places:
        method = context.file.parents.get(place)
        call = context.file.parents.get(method) if isinstance(method, ast.Attribute) else None
        if isinstance(call, ast.Call) and call.func is method and last_name(method) in _MATCHING:
            first = 1 if last_name(method) in ("sub", "subn") else 0
            texts += call.args[first : first + 1]
        elif isinstance(method, ast.Call) and place in method.args:  # re.match(PATTERN, text)
            texts += method.args[method.args.index(place) + 1 :][:1]
    return texts


# --- other letters ---


def _in_capitals(context: PythonContext, node: ast.Constant, value: str) -> _Held | None:
    """Return what to do about `"CUDA"`: it is a device's word where the device is written in such letters."""
    own = context.target.backend.DEVICE_TYPE
    for other in _against(context, node):
        method = "" if _is_name_of_card(other) else _spelt_by(other)
        if method:
            word, written = (_CAPITALS[method](text) for text in (cuda.DEVICE_TYPE, own))
            is_sure = _is_sure(other)
            if not value.startswith(word) or not (is_sure or _may_be_device(context, node)):
                return None
            try:
                return _Held(word_edits(context, node, word, written), is_sure)
            except ValueError:
                return _Held([], False)
    return None


def _may_be_device(context: PythonContext, node: ast.Constant) -> bool:
    return context.devices.trace(node).result is not TraceResult.NO


def _spelt_by(question: KeyAsked) -> str:
    """Return the method that wrote an expression in other letters, also where a variable holds it; empty for none."""
    values = _values(question)
    return next(
        (name for value in values if isinstance(value, ast.Call) and (name := last_name(value)) in _CAPITALS), ""
    )


# --- what a text is held against ---


def _against(context: PythonContext, node: ast.expr) -> list[KeyAsked]:
    """Return the expressions that a text is compared with, also as an item or a key of what is asked for them."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Compare):
        sides = (parent.left, *parent.comparators)
        return [KeyAsked(context.devices, side) for side in sides if side is not child]
    if isinstance(parent, ast.Dict) and child in parent.keys:
        return list(questions(context.devices, parent))
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and child in parent.args:
        return [KeyAsked(context.devices, parent.func.value)] if parent.func.attr in _HOLDING else []
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and child is not node:
        return list(questions(context.devices, child))  # type: ignore[arg-type]
    return []


def _holds(question: KeyAsked) -> bool:
    return string_value(question.asked) is None and question.flow.values.holds(question.asked)


def _is_sure(question: KeyAsked) -> bool:
    """Whether an expression holds a device for certain: `x.device.type`, `str(device)`, a variable given one."""
    if not _holds(question):
        return False
    values = _values(question)
    return any(
        last_name(part) in _SURE for value in values for part in nodes_in(value) if not isinstance(part, ast.Call)
    )


def _values(question: KeyAsked) -> list[ast.expr]:
    """Return an expression and, of a variable, what is assigned to it."""
    flow, asked = question
    bindings = flow.names.bindings(asked) if isinstance(asked, ast.Name) else ()
    return [asked, *(value for each in bindings if (value := assigned_value(flow.file, each)) is not None)]


def _is_name_of_card(question: KeyAsked) -> bool:
    """Whether an expression is what a card is called, and no device: `torch.cuda.get_device_name().upper()`."""
    parts = (part for value in _values(question) for part in nodes_in(value) if isinstance(part, ast.expr))
    values = (value for part in parts for value in _values(question._replace(asked=part)))
    return any(isinstance(value, ast.Call) and last_name(value) == "get_device_name" for value in values)
