"""Messages of a failed import or load that somebody caught and only mentions: they say what is absent, not what failed.

Libraries look for optional parts and report what they did not find: as a warning, as a reason in a list, or beside what
they take instead. The same words end a program where nobody catches them, and then are by themselves.
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex

_ABSENT = lazy_regex(
    r"No module named|cannot open shared object file|undefined symbol|cannot import name"
    r"|module '[\w.]+' has no attribute|KeyError: '"
)
_MENTIONED = lazy_regex(
    r"\b(?:WARNING|WARN|INFO|DEBUG)\b|\b\w*Warning:|^W\d{4} |unavailable|not available|['\"]?reason['\"]?\s*[:=]"
    r"|disabl|skipp?(?:ing|ed)?\b|fall(?:ing)? ?back|\boptional|ignor(?:ing|ed)|will not be (?:used|available)"
    r"|Failed to import|without it\b"
)


def is_not_caught(text: str) -> bool:
    """Whether a text has such a message on a line that does not say that somebody caught it."""
    lines = [line for line in text.splitlines() if _ABSENT.search(line) is not None]
    return not lines or any(_MENTIONED.search(line) is None for line in lines)
