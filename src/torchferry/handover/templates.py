"""Templates of a form: `{{name}}`, and lines `{% if name %}`, `{% else %}`, `{% end %}`.

A value that is not known is never left out in silence: in its place stands what is missing, in square brackets, and
`handover check` names the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchferry.core.messages import Message

_NAME = re.compile(r"\{\{(\w+)\}\}")
_CONTROL = re.compile(r"[ \t]*\{% (?:(if|unless) (\w+)|(else|end)) %\}[ \t]*\Z")

GAP = re.compile(r"\[(?:missing|缺失): ?([^\[\]\n]*)\]")
"""The text in place of something that is missing."""

_WORDS = {"en": "missing", "zh": "缺失"}


class Gap(str):
    """The text of a value that is missing; as a condition it does not hold."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


def gap(message: Message, lang: str) -> Gap:
    """Return the replacement of a value."""
    return Gap(f"[{_WORDS[lang]}: {message.render(lang).replace(']', ')')}]")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values.

    Args:
        template: The template.
        values: The values; one that is empty, or a gap, does not hold as a condition.

    Raises:
        ValueError: the template names a value that there is not, or its conditions do not close.
    """
    lines: list[str] = []
    shown: list[bool] = []
    for line in template.split("\n"):
        control = _CONTROL.match(line)
        if control is None:
            if all(shown):
                lines.append(_NAME.sub(lambda match: _value(match.group(1), values), line))
        elif control.group(1):
            holds = bool(_value(control.group(2), values))
            shown.append(holds if control.group(1) == "if" else not holds)
        elif not shown:
            raise ValueError(f"`{line.strip()}` closes nothing")
        elif control.group(3) == "else":
            shown[-1] = not shown[-1]
        else:
            shown.pop()
    if shown:
        raise ValueError("a condition is not closed")
    return "\n".join(lines)


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise ValueError(f"there is no value `{name}`")
    return values[name]
