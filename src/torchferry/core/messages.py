"""Messages for the user, written once in English and translated by the catalogues in `locale/`.

A message keeps its template apart from its values, so that a report can be rendered in either language
and a machine can group messages by template. Templates use `{name}` placeholders.

`make messages` collects what `say`, `say_plural`, `say_in` and `translatable` are given, so each takes literal text.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Union

from torchferry.core.record import NamedTuple

if TYPE_CHECKING:
    from gettext import GNUTranslations

LOCALE = Path(__file__).parent.parent / "locale"
"""The folder of the catalogues: `zh/LC_MESSAGES/<domain>.po`, and `.mo`, which is made from it and read here."""


def language() -> str:
    """Return `zh` or `en`: `TORCHFERRY_LANG` if it is one of them, else by the first locale variable that is set."""
    for variable in ("TORCHFERRY_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "").strip().lower()
        if value.startswith(("en", "zh")) or (value and variable != "TORCHFERRY_LANG"):
            return "zh" if value.startswith("zh") else "en"
    return "en"


def display_width(text: str) -> int:
    """Return the columns that a text takes on a terminal, where Chinese characters are two wide."""
    from unicodedata import east_asian_width  # imported late: most commands need none of it

    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def cut(line: str, width: int) -> str:
    """Return a line that takes no more than some columns, with three dots where it is cut."""
    if display_width(line) <= width:
        return line
    room = width - 3
    taken = 0
    for number, letter in enumerate(line):
        taken += display_width(letter)
        if taken > room:
            return f"{line[:number]}..."
    return line


class Bilingual(NamedTuple):
    """A text that the tables hold in both languages; without Chinese, the English one serves for both."""

    en: str
    zh: str = ""

    def render(self, lang: str | None = None) -> str:
        """Return the text in `lang`, or in the user's language."""
        return (self.zh or self.en) if (lang or language()) == "zh" else self.en

    def __str__(self) -> str:
        return self.render()


class Message(NamedTuple):
    """A template and the values that fill it, in the order they were given.

    Attributes:
        template: The English text; of a message that counts, the form for several things.
        values: What fills it, by the names of the placeholders.
        singular: The English text for one thing, of a message that counts.
        context: What tells this message from another of the same text.
    """

    template: str
    values: tuple[tuple[str, Value], ...] = ()
    singular: str = ""
    context: str = ""

    def render(self, lang: str | None = None) -> str:
        """Fill the template, in `lang` (`en` or `zh`) or in the user's language."""
        lang = lang or language()
        if lang == "zh":
            template = _in_chinese(self)
        else:
            template = self.singular if self.singular and self.number == 1 else self.template
        filled = {name: value if isinstance(value, str) else value.render(lang) for name, value in self.values}
        return template.format_map({name: shortened(value) for name, value in filled.items()})

    @property
    def number(self) -> int:
        """How many things a message that counts speaks of; what is no whole number is taken for several."""
        value = dict(self.values)["count"]
        return int(value) if isinstance(value, str) and value.isdecimal() else 2

    def __str__(self) -> str:
        return self.render()


_LONGEST = 4000
"""Characters of one value in a message: more than any name or command that a person reads."""


def shortened(text: str) -> str:
    """Return a text of a file without its middle where it is longer than anybody reads; a line can have a megabyte."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} [... {len(text) - 2 * half} ...] {text[-half:]}"


Value = Union[str, Bilingual, Message]  # noqa: UP007 - the single file of `device` has this too, for Python 3.8
"""What a placeholder may be filled with."""


def say(template: str, /, **values: object) -> Message:
    """Build a message: `say("{name} is missing on {target}", name="nvtx", target="musa")`."""
    return Message(template, _values(values))


def say_plural(singular: str, plural: str, /, *, count: object, **values: object) -> Message:
    """Build a message that counts: `say_plural("{count} file changes", "{count} files change", count=2)`.

    A text that counts two things is made of phrases that count one each.
    """
    return Message(plural, _values({"count": count, **values}), singular)


def say_in(context: str, template: str, /, **values: object) -> Message:
    """Build a message whose text has another meaning elsewhere: `say_in("check", "memory")`."""
    return Message(template, _values(values), context=context)


def translatable(text: str) -> str:
    """Return a text that `say` is given later, by a name: this marks it for the catalogue."""
    return text


def _values(values: dict[str, object]) -> tuple[tuple[str, Value], ...]:
    return tuple(
        (name, value if isinstance(value, (Message, Bilingual)) else str(value)) for name, value in values.items()
    )


def noted(message: Message, note: Bilingual | Message | None) -> Message:
    """Add a remark behind a message, if there is one."""
    return message if note is None else say("{message}; {note}", message=message, note=note)


def _in_chinese(message: Message) -> str:
    """Return the Chinese template of a message, or the English one where the catalogue lacks it."""
    chinese = catalogue("torchferry")
    if message.singular:
        return chinese.ngettext(message.singular, message.template, message.number)
    if message.context:
        return chinese.pgettext(message.context, message.template)
    return chinese.gettext(message.template)


@lru_cache(maxsize=2)
def catalogue(domain: str) -> GNUTranslations:
    """Return a Chinese catalogue: `torchferry` has the messages, `rules` the pages of the rules."""
    from gettext import GNUTranslations  # imported late: an English run reads no catalogue

    with (LOCALE / "zh" / "LC_MESSAGES" / f"{domain}.mo").open("rb") as file:
        return GNUTranslations(file)
