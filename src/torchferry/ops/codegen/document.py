"""A YAML file as values that know their line, read within bounds.

Only what a list of operators needs is read: texts, lists and tables. Anchors, aliases, tags and several documents are
refused, because a few lines of aliases can represent terabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

from torchferry.core import supported_torch
from torchferry.core.errors import TorchferryError
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_DEEPEST = 16
"""Levels of lists and tables; an entry has four."""

_MOST_VALUES = 500_000
"""A list of every operator that torch has needs less than 40,000."""


class YamlText(NamedTuple):
    """A single value, as it is written; `is_plain` where no quotes surround it."""

    text: str
    is_plain: bool
    line: int


class YamlList(NamedTuple):
    """A list of values."""

    items: list[Value]
    line: int


class YamlTable(NamedTuple):
    """Values by name, with the line of each name."""

    items: dict[str, Value]
    lines: dict[str, int]
    line: int


Value = Union[YamlText, YamlList, YamlTable]  # noqa: UP007 - evaluated at run time, and the classes are named tuples


class DocumentError(TorchferryError):
    """A file of operators that cannot be used; the message begins with file and line."""


def missing_yaml() -> TorchferryError:
    """Return the error for an environment without PyYAML, which torchgen needs too."""
    return TorchferryError(
        say("PyYAML is not installed; it reads the list of operators"),
        say("pip install 'torchferry[codegen]'"),
    )


@contextmanager
def torchgen_needed(command: str) -> Iterator[None]:
    """Import what imports torchgen, which comes with torch and needs PyYAML.

    Args:
        command: The command of ours that needs it.

    Raises:
        TorchferryError: this Python has no torch, or no PyYAML.
    """
    try:
        with supported_torch.needed(command):
            yield
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise missing_yaml() from None


def read_document(path: Path) -> Value:
    """Read a YAML file.

    Raises:
        DocumentError: the file cannot be read, is not UTF-8 or no YAML, or has what is refused; says the line.
        TorchferryError: PyYAML is not installed.
    """
    try:
        data = read_regular(path, LARGEST_SETTINGS)
    except OSError as error:
        raise DocumentError(say("cannot read {path}: {error}", path=path, error=error.strerror or error)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            say("{path}:{line}: the text is not UTF-8 (byte 0x{byte})", path=path, line=line,
                byte=f"{data[error.start]:02x}"),
            say("save the file in UTF-8"),
        ) from None  # fmt: skip
    return _DocumentReader(path, text).document()


class _DocumentReader:
    """Builds the values of one text from the parser's events."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.count = 0

    def document(self) -> Value:
        try:
            import yaml
        except ImportError:
            raise missing_yaml() from None
        events: Iterator[Any] = yaml.parse(self.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        try:
            names = {type(next(events)).__name__}  # the beginning of the stream
            first = next(events)
            names.add(type(first).__name__)
            if "StreamEndEvent" in names:
                raise self._error(1, say("the file is empty"), say("write entries such as `- func: tril.out`"))
            value = self._value(next(events), events, 0)
            next(events)  # the end of the document
            after = next(events)
            if type(after).__name__ != "StreamEndEvent":
                raise self._error(
                    after.start_mark.line + 1, say("the file has a second YAML document"), say("remove the `---`")
                )
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            raise self._error(
                mark.line + 1 if mark is not None else 1,
                say("this is not YAML: {error}", error=getattr(error, "problem", None) or str(error).splitlines()[0]),
                say("look at the indentation, the colons and the quotes of this line and the one before"),
            ) from None
        return value

    def _error(self, line: int, message: Message, advice: Message | None = None) -> DocumentError:
        return DocumentError(say("{path}:{line}: {message}", path=self.path, line=line, message=message), advice)

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Value:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        self.count += 1
        if self.count > _MOST_VALUES or depth > _DEEPEST:
            raise self._error(
                line,
                say(
                    "the file is too large or nested too deeply (limits: values {most}, levels {deepest})",
                    most=_MOST_VALUES,
                    deepest=_DEEPEST,
                ),
            )
        if kind == "AliasEvent" or event.anchor is not None:
            raise self._error(line, say("anchors and aliases are not read"), say("write the value out"))
        if event.tag not in {None, "!"}:
            raise self._error(line, say("tags are not read: `{tag}`", tag=event.tag), say("remove the tag"))
        if kind == "ScalarEvent":
            return YamlText(event.value, event.style is None, line)
        if kind == "SequenceStartEvent":
            items = []
            while type(item := next(events)).__name__ != "SequenceEndEvent":
                items.append(self._value(item, events, depth + 1))
            return YamlList(items, line)
        return self._table(line, events, depth)

    def _table(self, line: int, events: Iterator[Any], depth: int) -> YamlTable:
        table = YamlTable({}, {}, line)
        while type(event := next(events)).__name__ != "MappingEndEvent":
            key = self._value(event, events, depth + 1)
            if not isinstance(key, YamlText):
                raise self._error(key.line, say("a key must be a string"))
            if key.text in table.items:
                raise self._error(key.line, say("`{name}` is there twice", name=key.text), say("remove one of them"))
            table.lines[key.text] = key.line
            table.items[key.text] = self._value(next(events), events, depth + 1)
        return table
