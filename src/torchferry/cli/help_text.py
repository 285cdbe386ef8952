"""Help of options that holds a value, such as the names of all targets."""

from __future__ import annotations

from torchferry.core.messages import Message, say

_MESSAGES: dict[str, Message] = {}


def help_text(template: str, /, **values: object) -> str:
    """Return the help in English; in Chinese it is found again by that text."""
    message = say(template, **values)
    text = message.render("en")
    _MESSAGES[text] = message
    return text


def message_of(text: str) -> Message | None:
    """Return the message that a help was made of; None for plain text."""
    return _MESSAGES.get(text)
