"""How text is laid out in lines: widths, what is cut, what is wrapped, how many names of a row are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, cut, display_width
from torchferry.core.record import NamedTuple

Paint = Callable[[str, str], str]
"""Colours a text by its kind: `verdict`, `path`, or a grade."""

_WIDTH = 100
_NARROWEST, _WIDEST = 60, 160

LONGEST = 200
"""Columns of any line."""

_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_PARTS = lazy_regex(rf"[{_WIDE}][，。；：、）】」？！]*|[^\s{_WIDE}]+[，。；：、）】」？！]*\s*|\s+")
"""What stays together in a line: a word with the blanks behind it, a Chinese character with the mark behind it."""


def plain(text: str, kind: str) -> str:
    """Return a text without colours."""
    return text


class TextLayout(NamedTuple):
    """How text is written.

    Attributes:
        lang: The language.
        paint: Colours a text by its kind (`verdict`, `path`, or a grade).
        verbose: Whether each program is shown with its reasons, each decision with its whole text and all places, and
            every finding behind them.
        width: Columns of the first screen and of running text; a longer line of a list is cut there.
        is_terminal: Whether a person sees it as it is written; elsewhere the verdict is in one line.
    """

    lang: str
    paint: Paint = plain
    verbose: bool = False
    width: int = _WIDTH
    is_terminal: bool = False

    @classmethod
    def of_terminal(cls, lang: str, paint: Paint, verbose: bool, columns: int | None) -> TextLayout:
        """Return the layout for a terminal with so many columns; None for none."""
        width = _WIDTH if columns is None else max(_NARROWEST, min(columns, _WIDEST))
        return cls(lang, paint, verbose, width, columns is not None)

    def title(self, message: Message) -> str:
        """Return the title of a part."""
        return self.paint(message.render(self.lang), "path")

    def cut(self, line: str) -> str:
        """Return a line of the first screen."""
        return cut(line, self.width)

    def rows(self, line: str) -> int:
        """Return how many rows of the width a line without colours takes."""
        return max(1, -(-display_width(line) // self.width))

    def wrapped(self, text: str, indent: str, most: int | None = None, behind: str | None = None) -> Iterator[str]:
        """Yield a text in lines of the width: broken at blanks and between Chinese characters, never in a word.

        Args:
            text: The text.
            indent: What each line begins with.
            most: How many lines there may be; the last of them says with three dots that there is more.
            behind: What those after the first begin with, where that is something else.
        """
        lines = list(self._broken(text, indent, behind))
        if most is None or len(lines) <= most:
            yield from lines
            return
        yield from lines[: most - 1]
        room = min(self.width, LONGEST)
        yield cut(f"{lines[most - 1]} {lines[most].strip()}", max(room, display_width(lines[most - 1])))

    def limited(self, line: str) -> Iterator[str]:
        """Yield a line as it is where it takes no more columns than any may, else broken, the rest further right."""
        if len(line) <= LONGEST // 2 or display_width(line) <= LONGEST:
            yield line
            return
        text = line.lstrip(" ")
        indent = " " * (len(line) - len(text))
        yield from self._replace(width=LONGEST)._broken(text, indent, indent + "    ")

    def _broken(self, text: str, indent: str, behind: str | None = None) -> Iterator[str]:
        """Yield a text in lines; `behind` is what those after the first begin with, where that is something else."""
        line, columns = indent, display_width(indent)
        room = min(self.width, LONGEST)
        if behind is None:
            behind = indent
        for part in _PARTS.findall(text):
            if columns + display_width(part.rstrip()) > room and line.strip():
                yield line.rstrip()
                line, columns, part = behind, display_width(behind), part.lstrip()
            line += part
            columns += display_width(part)
        yield line.rstrip() or indent


def some_of(names: Sequence[str], most: int | None) -> str:
    """Return names in a row, all of them or the first ones with the number of the others."""
    shown = ", ".join(names[:most])
    return shown if most is None or len(names) <= most else f"{shown}, +{len(names) - most}"


def as_many(names: Sequence[str], room: int, most: int | None = None) -> str:
    """Return as many names as have room in one line, and how many more there are; nothing where not one has."""
    shown = ""
    for number, name in enumerate(names[:most]):
        more = f"{shown}, {name}" if shown else name
        left = len(names) - number - 1
        if display_width(more) + (len(f", +{left}") if left else 0) > room:
            return f"{shown}, +{len(names) - number}" if shown else ""
        shown = more
    left = len(names) - len(names[:most])
    return f"{shown}, +{left}" if left else shown
