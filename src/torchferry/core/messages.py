"""Messages for the user, written once in English and translated by `zh.toml`.

A message keeps its template apart from its values, so that a report can be rendered in either language
and a machine can group messages by template. Templates use `{name}` placeholders.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Union

from torchferry.core.env import language


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
    """A template and the values that fill it, in the order they were given."""

    template: str
    values: tuple[tuple[str, Value], ...] = ()

    def render(self, lang: str | None = None) -> str:
        """Fill the template, in `lang` (`en` or `zh`) or in the user's language."""
        lang = lang or language()
        template = self.template
        if lang == "zh":
            template = _chinese().get(template, template)
        else:
            template = _in_singular(template, [name for name, value in self.values if value == "1"])
        filled = {name: value if isinstance(value, str) else value.render(lang) for name, value in self.values}
        return template.format_map(filled)

    def __str__(self) -> str:
        return self.render()


Value = Union[str, Bilingual, Message]  # noqa: UP007 - the single file of `device` has this too, for Python 3.8
"""What a placeholder may be filled with."""


def say(template: str, /, **values: object) -> Message:
    """Build a message: `say("{name} is missing on {target}", name="nvtx", target="musa")`."""
    return Message(
        template,
        tuple(
            (name, value if isinstance(value, (Message, Bilingual)) else str(value)) for name, value in values.items()
        ),
    )


def _in_singular(template: str, names: list[str]) -> str:
    """Return an English template as it is written where the values called `names` are 1."""
    for name in names:
        place = "{" + name + "}"
        for several, single in singular_forms():
            if several.replace("{}", place) in template:
                template = template.replace(several.replace("{}", place), single.replace("{}", place))
                break
    return template


def noted(message: Message, note: Bilingual | None) -> Message:
    """Add a remark behind a message, if there is one."""
    return message if note is None else say("{message}; {note}", message=message, note=note)


@lru_cache(maxsize=1)
def singular_forms() -> tuple[tuple[str, str], ...]:
    """Return the forms for several things, each with the one for a single thing, the longest first."""
    from torchferry.core.singular import FORMS  # imported late: most runs count to more than one

    return tuple(sorted(FORMS.items(), key=lambda forms: -len(forms[0])))


@lru_cache(maxsize=1)
def _chinese() -> dict[str, str]:
    """Return the Chinese catalog: English template to Chinese template."""
    from torchferry.core import toml  # imported late: an English run reads no catalog

    table = toml.load_own(Path(__file__).with_name("zh.toml"))
    return {row["en"]: row["zh"] for row in table["message"]}
