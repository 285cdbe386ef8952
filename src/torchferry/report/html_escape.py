"""Texts of a project made harmless for a page: as HTML, and as JSON within HTML."""

from __future__ import annotations

import json
import re
from html import escape

from torchferry.core.terminal import visible

_CODE = re.compile(r"`([^`]+)`")
_IN_MARKUP = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def text(value: str) -> str:
    """Return a text as HTML."""
    return escape(visible(value))


def lines(value: str) -> str:
    """Return a text of several lines as HTML."""
    return "\n".join(text(line) for line in value.split("\n"))


def marked(value: str) -> str:
    """Return a message as HTML, with what stands between backquotes set as code."""
    return _CODE.sub(r"<code>\1</code>", text(value))


def paragraphs(value: str) -> str:
    """Return a page as HTML: blank lines part paragraphs, lines that begin with a hyphen or are indented stay apart."""
    done: list[str] = []
    for block in re.split(r"\n\s*\n", value.strip()):
        is_list = any(line.startswith((" ", "- ", "* ")) for line in block.split("\n"))
        whole = "\n".join(map(marked, block.split("\n")))
        done.append(f'<p class="kept">{whole}</p>' if is_list else f"<p>{whole}</p>")
    return "".join(done)


def json_in_html(value: object) -> str:
    """Return a value as JSON that can stand in a page: nothing in it ends an element or begins one."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_IN_MARKUP)
