"""The commands in a document: code blocks that are shell, and nothing of the prose."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*(?:\{?\.?(?P<language>[\w+-]*))?[^\n]*$")
_SHELL = frozenset({"sh", "shell", "bash", "zsh", "console", "terminal", "shell-session", "powershell", "ps1"})
_NO_LANGUAGE = frozenset({"text", "none", "cmd"})
_DOLLAR = re.compile(r"^[ \t]{0,8}\$[ \t]+")
_PROMPT = re.compile(r"^[ \t]*(?:\(\w+\)[ \t]*)?[$%>][ \t]+")
_COMMAND = re.compile(
    r"^[ \t]*(?:[$%>][ \t]+)?(?:[A-Z_]+=\S+[ \t]+)*(?:sudo[ \t]+)?"
    r"(?:python3?|pip3?|conda|mamba|torchrun|accelerate|deepspeed|docker|nvidia-smi|nvcc|export|git|bash|sh|cd|make|uv)\b"
)


def command_view(text: str) -> str:
    """Return a text of the same length in which everything but the commands in code blocks is blank."""
    shown = []
    fence = ""
    is_shell = is_other = False
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence and match is not None and match["fence"].startswith(fence) and not match["language"]:
            fence = ""
            shown.append(_blank(line))
        elif fence:
            shown.append(_blank(line) if is_other else _commands(line, is_shell))
        elif match is not None:
            fence = match["fence"]
            language = (match["language"] or "").lower()
            is_shell = language in _SHELL
            is_other = bool(language) and not is_shell and language not in _NO_LANGUAGE
            shown.append(_blank(line))
        else:
            prompt = _DOLLAR.match(line)
            shown.append(_blank(line) if prompt is None else _blank(prompt.group()) + line[prompt.end() :])
    return "\n".join(shown)


def _commands(line: str, is_shell: bool) -> str:
    """Return a line of a code block as far as it is a command."""
    prompt = _PROMPT.match(line)
    if prompt is not None:
        return _blank(prompt.group()) + line[prompt.end() :]
    return line if is_shell or _COMMAND.match(line) is not None else _blank(line)


def _blank(line: str) -> str:
    return " " * len(line)
