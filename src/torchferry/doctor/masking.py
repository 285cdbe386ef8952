"""Keeping secrets out of what is shown: passwords in addresses, tokens, keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

_USERINFO = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@]*@(?:[^\s/@]*@)*")
_BARE_USERINFO = re.compile(r"(?:(?<=\s)|^)[^\s/@:]+:[^\s/@]+@(?=[\w.-]+(?::\d+)?)")
_PARAMETER = re.compile(
    r"(?i)\b(?P<name>[\w-]*(?:token|secret|password|passwd|api[_-]?key|access[_-]?key|credential|auth)[\w-]*)"
    r"(?P<sign>\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s&;,]+)"
)
_KNOWN = re.compile(r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|AKIA[A-Z0-9]{12,}|sk-[A-Za-z0-9-]{12,})\b")
_SECRET_NAME = re.compile(r"(?i)token|secret|passw|key|credential|auth|cookie|session")

MASK = "***"


def masked(text: str) -> str:
    """Return `text` without what looks like a password or a token."""
    text = _USERINFO.sub(rf"\g<scheme>{MASK}@", text)
    text = _BARE_USERINFO.sub(f"{MASK}@", text)
    text = _PARAMETER.sub(rf"\g<name>\g<sign>{MASK}", text)
    return _KNOWN.sub(MASK, text)


def masked_variables(names: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the secret ones hidden: by their name, else by what is in them."""
    return {name: MASK if _SECRET_NAME.search(name) else masked(value) for name, value in names.items()}
