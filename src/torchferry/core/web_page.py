"""The frame of the pages that torchferry writes: one file that loads nothing, whatever is in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape


def web_page(title: str, style: str, body: Iterable[str], lang: str, *, kind: str = "", script: str = "") -> str:
    """Return a whole page.

    Args:
        title: Its title and heading, as text.
        style: Its style sheet.
        body: What follows the heading; its text is escaped.
        lang: Its language.
        kind: The class of the heading.
        script: What the page runs when it is there; nothing else in it is run.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        policy, script = f"{policy}; script-src 'sha256-{digest}'", f"<script>{script}</script>"
    shown = f' class="{escape(kind)}"' if kind else ""
    return (
        f'<!doctype html><html lang="{"zh" if lang == "zh" else "en"}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1{shown}>{escape(title)}</h1>{''.join(body)}{script}</body></html>\n"
    )
