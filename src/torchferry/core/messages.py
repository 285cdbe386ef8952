"""Messages for the user, written once in English and translated by `zh.toml`.

A message keeps its template apart from its values, so that a report can be rendered in either language
and a machine can group messages by template. Templates use `{name}` placeholders.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from torchferry.core import toml
from torchferry.core.env import language


class Message(NamedTuple):
    """A template and the values that fill it, in the order they were given."""

    template: str
    values: tuple[tuple[str, str], ...] = ()

    def render(self, lang: str | None = None) -> str:
        """Fill the template, in `lang` (`en` or `zh`) or in the user's language."""
        template = self.template
        if (lang or language()) == "zh":
            template = _chinese().get(template, template)
        return template.format_map(dict(self.values))

    def __str__(self) -> str:
        return self.render()


def say(template: str, /, **values: object) -> Message:
    """Build a message: `say("{name} is missing on {target}", name="nvtx", target="musa")`."""
    return Message(template, tuple((name, str(value)) for name, value in values.items()))


@lru_cache(maxsize=1)
def _chinese() -> dict[str, str]:
    """Return the Chinese catalog: English template to Chinese template."""
    table = toml.load(Path(__file__).with_name("zh.toml"))
    return {row["en"]: row["zh"] for row in table["message"]}
