"""The entries of a list of operators: what is written, checked for its form, not yet for its sense.

An entry is written as torch_musa's: the operator's name, and what departs from torch's own definition of it::

    - func: tril
    - func: tril_
    - func: tril.out
      dispatch:
        PrivateUse1: TrilOut
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.document import DocumentError, Value, YamlList, YamlTable, YamlText

NONE = "none"
"""Takes away what torch's own definition has."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_QUALIFIED = re.compile(r"(?<!\w)(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+")
_OPERATOR = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?")

_UPSTREAM = frozenset({"tags", "autogen", "variants", "python_module", "category_override"})
"""Words of torch's own list, which an entry may repeat without any effect."""


class Problem(NamedTuple):
    """Something that an entry cannot mean: where, what, and what to do."""

    line: int
    operator: str
    message: Message
    advice: Message

    def render(self, path: Path, lang: str | None = None) -> str:
        """Return it as a line `file:line: operator: what; what to do`, in `lang` or in the user's language."""
        operator = f"{self.operator}: " if self.operator else ""
        return f"{path}:{self.line}: {operator}{self.message.render(lang)}; {self.advice.render(lang)}"


class Stub(NamedTuple):
    """The DispatchStub that a kernel of a Legacy operator is registered for.

    Attributes:
        name: Name of the stub in `at::native`.
        kernel: Function of the vendor's that is registered.
    """

    name: str
    kernel: str


class Body(NamedTuple):
    """A kernel that is made from a template.

    Attributes:
        template: Name of the template.
        call: What represents `$call` in it.
        size: Argument, or expression in C++, with the sizes of the result.
        dtype: Argument, or expression in C++, with the dtype of the result.
    """

    template: str
    call: str
    size: str
    dtype: str


class OperatorEntry(NamedTuple):
    """One entry; what it does not say is empty or None.

    Attributes:
        operator: Name with overload: `tril.out`.
        schema: The whole schema, where it is written out.
        line: Where it begins.
        dispatch: Kernel by dispatch key.
        structured: What `structured:` says.
        delegate: `none`, or the operator after `structured_delegate:`.
        inherits: `none`, or the class after `structured_inherits:`.
        precomputed: `none`, or the lines after `precomputed:`.
        shared: Function of torch's that is used: `at::native::view_as_real`.
        stub: The stub of a Legacy operator.
        is_fallback: Whether the CPU's kernel is called.
        device_check: `NoCheck` or `ExactSame`.
        device_guard: What `device_guard:` says.
        versions: First and last torch version, as (major, minor); None for an open end.
        cards: The cards for which the entry counts; empty for all.
        autograd: Kernel for the autograd key.
        body: The template of its kernel.
        library: Library of kernels whose steps its skeleton lists.
        without_effect: Words that are read and change nothing.
    """

    operator: str
    schema: str
    line: int
    dispatch: dict[str, str]
    structured: bool | None = None
    delegate: str = ""
    inherits: str = ""
    precomputed: tuple[str, ...] = ()
    shared: str = ""
    stub: Stub | None = None
    is_fallback: bool = False
    device_check: str = ""
    device_guard: bool | None = None
    versions: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)
    cards: tuple[str, ...] = ()
    autograd: str = ""
    body: Body | None = None
    library: str = ""
    without_effect: tuple[str, ...] = ()

    @property
    def resets(self) -> bool:
        """Whether it says that a structured operator of torch's is not structured here."""
        return self.structured is False or self.delegate == NONE


class Listed(NamedTuple):
    """What a file holds: entries, headers and templates for all of them, and what is wrong with its form."""

    entries: list[OperatorEntry]
    headers: tuple[str, ...]
    templates: dict[str, str]
    problems: list[Problem]


def entries_of(document: Value, path: Path) -> Listed:
    """Return the entries of a file, each checked for its form.

    Args:
        document: A list of entries, or a table with `functions`, and perhaps `headers` and `templates`.
        path: The file, for the messages.

    Raises:
        DocumentError: it is neither.
    """
    headers: tuple[str, ...] = ()
    templates: dict[str, str] = {}
    problems: list[Problem] = []
    functions = document
    if isinstance(document, YamlTable):
        functions = document.items.get("functions", document)
        for name, value in document.items.items():
            if name == "headers" and isinstance(value, YamlList):
                headers = tuple(item.text for item in value.items if isinstance(item, YamlText))
            elif name == "templates" and isinstance(value, YamlTable):
                templates = {key: item.text for key, item in value.items.items() if isinstance(item, YamlText)}
            elif name != "functions":
                raise DocumentError(
                    say("{path}:{line}: `{name}` is not known here", path=path, line=document.lines[name], name=name),
                    say("known: {names}", names="functions, headers, templates"),
                )
    if not isinstance(functions, YamlList):
        raise DocumentError(
            say("{path}:{line}: the file is not a list of operators", path=path, line=functions.line),
            say("write entries such as `- func: tril.out`"),
        )
    entries = []
    for item in functions.items:
        read = _EntryReader(item)
        if read.entry is not None:
            entries.append(read.entry)
        problems += read.problems
    return Listed(entries, headers, templates, problems)


class _FormError(Exception):
    """A value has not the form that its name asks for; `expected` says which."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)


class _EntryReader:
    """Reads one entry; what is wrong is collected in `problems`, and `entry` is None where it cannot be read."""

    def __init__(self, value: Value) -> None:
        self.problems: list[Problem] = []
        self.entry: OperatorEntry | None = None
        self.operator = ""
        function = value.items.get("func") if isinstance(value, YamlTable) else None
        if not isinstance(value, YamlTable) or not isinstance(function, YamlText):
            self._problem(value.line, say("an entry has no `func`"), say("write `- func: NAME`"))
            return
        name = function.text.partition("(")[0].strip()
        if not _OPERATOR.fullmatch(name):
            self._problem(
                function.line,
                say("`{name}` is not the name of an operator", name=name[:80]),
                say("write it as torch does, such as `tril.out`"),
            )
            return
        self.operator = name
        schema = function.text.strip() if "(" in function.text else ""
        fields = dict(self._fields(value))
        if not self.problems:
            dispatch = fields.pop("dispatch", {})
            self.entry = OperatorEntry(name, schema, value.line, dispatch, **fields)  # type: ignore[arg-type]

    def _problem(self, line: int, message: Message, advice: Message) -> None:
        self.problems.append(Problem(line, self.operator, message, advice))

    def _fields(self, table: YamlTable) -> Iterator[tuple[str, object]]:
        ignored = []
        for name, value in table.items.items():
            if name == "func":
                continue
            if name in _UPSTREAM:
                ignored.append(name)
            elif name not in _FORMS:
                close = difflib.get_close_matches(name, _FORMS, n=1)
                self._problem(
                    table.lines[name],
                    say("`{name}` is not known", name=name[:80]),
                    say("did you mean `{close}`?", close=close[0]) if close
                    else say("known: {names}", names=", ".join(_FORMS)),
                )  # fmt: skip
            else:
                field, form = _FORMS[name]
                try:
                    yield field, form(value)
                except _FormError as error:
                    self._problem(
                        table.lines[name],
                        say("`{name}` has an invalid value", name=name),
                        say("expected: {expected}", expected=str(error)),
                    )
        yield "without_effect", tuple(ignored)


def _text(value: Value, expected: str) -> str:
    if not isinstance(value, YamlText) or not value.text:
        raise _FormError(expected)
    return value.text


def _matching(pattern: re.Pattern[str], expected: str, *also: str) -> Callable[[Value], str]:
    def read(value: Value) -> str:
        text = _text(value, expected)
        lower = text.lower()
        if isinstance(value, YamlText) and value.is_plain and lower in also:
            return lower
        if not pattern.fullmatch(text):
            raise _FormError(expected)
        return text

    return read


def _truth(value: Value) -> bool:
    text = _text(value, "true or false").lower()
    if text not in {"true", "false"}:
        raise _FormError("true or false")
    return text == "true"


def _dispatch(value: Value) -> dict[str, str]:
    expected = "PrivateUse1: NAME"
    if not isinstance(value, YamlTable) or not value.items:
        raise _FormError(expected)
    kernels: dict[str, str] = {}
    for keys, kernel in value.items.items():
        name = _text(kernel, expected)
        if not _NAME.fullmatch(name):
            raise _FormError(f"{keys}: NAME")
        for key in keys.split(","):
            kernels[key.strip()] = name
    return kernels


def _precomputed(value: Value) -> tuple[str, ...]:
    expected = "none, or a list such as `- diagonal -> int var`"
    if isinstance(value, YamlText) and value.text.lower() == NONE:
        return (NONE,)
    if not isinstance(value, YamlList) or not value.items:
        raise _FormError(expected)
    return tuple(_text(item, expected) for item in value.items)


def _stub(value: Value) -> Stub:
    expected = "NAME: KERNEL, the stub of torch and the function that is registered for it"
    if not isinstance(value, YamlTable) or len(value.items) != 1:
        raise _FormError(expected)
    ((name, kernel),) = value.items.items()
    text = _text(kernel, expected)
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(text):
        raise _FormError(expected)
    return Stub(name, text)


def _fallback(value: Value) -> bool:
    if _text(value, "cpu") != "cpu":
        raise _FormError("cpu")
    return True


def _device_check(value: Value) -> str:
    text = _text(value, "NoCheck or ExactSame")
    if text not in {"NoCheck", "ExactSame"}:
        raise _FormError("NoCheck or ExactSame")
    return text


def _versions(value: Value) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    expected = "all_version, a version such as v2.7, or two such as [v2.1, newest]"
    if isinstance(value, YamlText):
        if value.text == "all_version":
            return None, None
        return _version(value, expected), _version(value, expected)
    if not isinstance(value, YamlList) or len(value.items) != 2:
        raise _FormError(expected)
    first, last = value.items
    begin = _version(first, expected)
    end = None if isinstance(last, YamlText) and last.text == "newest" else _version(last, expected)
    if end is not None and end < begin:
        raise _FormError(expected)
    return begin, end


def _version(value: Value, expected: str) -> tuple[int, int]:
    version = _VERSION.fullmatch(_text(value, expected))
    if version is None:
        raise _FormError(expected)
    return int(version[1]), int(version[2])


def _cards(value: Value) -> tuple[str, ...]:
    expected = "card: NAME, or card: [NAME, NAME]"
    if not isinstance(value, YamlTable) or list(value.items) != ["card"]:
        raise _FormError(expected)
    card = value.items["card"]
    return tuple(_text(item, expected) for item in (card.items if isinstance(card, YamlList) else [card]))


def _body(value: Value) -> Body:
    expected = "template: NAME, call: NAME, and for a result that is made here size: ARGUMENT and dtype: ARGUMENT"
    if not isinstance(value, YamlTable) or "template" not in value.items or set(value.items) - set(Body._fields):
        raise _FormError(expected)
    texts = {name: _text(item, expected) for name, item in value.items.items()}
    if any("\n" in text or ";" in text for text in texts.values()):
        raise _FormError(expected)
    return Body(texts["template"], texts.get("call", ""), texts.get("size", ""), texts.get("dtype", ""))


_FORMS: dict[str, tuple[str, Callable[[Value], object]]] = {
    "dispatch": ("dispatch", _dispatch),
    "structured": ("structured", _truth),
    "structured_delegate": ("delegate", _matching(_OPERATOR, "none, or an operator such as tril.out", NONE)),
    "structured_inherits": ("inherits", _matching(re.compile(f"{_NAME.pattern}|{_QUALIFIED.pattern}"),
                                                  "none, or a class such as at::acme::MetaBase", NONE)),
    "precomputed": ("precomputed", _precomputed),
    "shared": ("shared", _matching(_QUALIFIED, "a function such as at::native::view_as_real")),
    "stub": ("stub", _stub),
    "fallback": ("is_fallback", _fallback),
    "device_check": ("device_check", _device_check),
    "device_guard": ("device_guard", _truth),
    "versions": ("versions", _versions),
    "when": ("cards", _cards),
    "autograd": ("autograd", _matching(_NAME, "the name of a function")),
    "exec": ("body", _body),
    "library": ("library", _matching(_NAME, "a library of kernels")),
}  # fmt: skip
"""For each word of an entry: the field that it fills, and how its value is read."""
