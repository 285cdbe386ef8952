"""Values as YAML writes them on one line; each text is read back as it was, by Ansible, Docker and Kubernetes."""

from __future__ import annotations

import json
from typing import Any

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import visible


class Unsafe(str):
    """A text that Ansible takes as it is, although it may look like a template."""

    __slots__ = ()


def yaml_text(value: Any) -> str:
    """Return a value as YAML writes it on one line.

    Raises:
        UsageError: a text comes from bytes that are not UTF-8, which YAML cannot write.
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(yaml_text, value))}]"
    text = _quoted(value) if isinstance(value, str) else json.dumps(value)
    return f"!unsafe {text}" if isinstance(value, Unsafe) else text


def _quoted(text: str) -> str:
    """Return a text in double quotes.

    A control character ends a reader of YAML with an error, NEL is read as a space, and JSON's two surrogates for one
    letter are two letters: each letter that is not printable is written as YAML's own escape.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
        raise UsageError(
            say("`{text}` is not UTF-8, and cannot be written into YAML", text=shown[:80]),
            say("write the name of the file or host, or the argument, in UTF-8"),
        ) from None
    return visible(json.dumps(text, ensure_ascii=False))  # YAML has the same escapes
