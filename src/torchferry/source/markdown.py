"""The commands in a document: code blocks that are shell, and nothing of the prose."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex

_FENCE = lazy_regex(r"^[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*(?:\{?\.?(?P<language>[\w+-]*))?[^\n]*$")
_DIRECTIVE = lazy_regex(r"^[ \t]*\.\.[ \t]+(?:code-block|code|sourcecode|prompt)::[ \t]*(?P<language>[\w+-]*)")
_LITERAL = lazy_regex(r"::[ \t\r]*\Z")
_SHELL = frozenset({"sh", "shell", "bash", "zsh", "powershell", "ps1"})
_SESSION = frozenset({"console", "terminal", "shell-session"})
_UNMARKED = frozenset({"", "text", "none", "cmd"})
_PYTHON = frozenset({"python", "python3", "py"})

_DOLLAR = lazy_regex(r"^[ \t]{0,8}\$[ \t]+")
_PROMPT = lazy_regex(r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-][^\s$#%]*[$#%]|[$%>])[ \t]+")
_STARTS_PYTHON = lazy_regex(
    r"^[ \t]*(?:[A-Z_]+=\S+[ \t]+)*(?:python3?|torchrun|accelerate launch|deepspeed)[ \t]+[\w./-]"
)
"""A command in a block that is said to be Python: no statement begins so."""

_COMMAND = lazy_regex(
    r"^[ \t]*(?:[A-Z_]+=\S+[ \t]+)*(?:sudo[ \t]+)?"
    r"(?:(?:python3?|pip3?|conda|mamba|torchrun|accelerate|deepspeed|docker|nvidia-smi|nvcc|export|git|bash|sh|cd|make|uv"
    r"|streamlit|gradio|chainlit|fastapi|uvicorn|gunicorn)\b"
    r"|\.{0,2}/?[\w./-]{1,200}\.sh(?:[ \t]|$))"
)


def command_view(text: str) -> str:
    """Return a text of the same length in which everything but the commands in code blocks is blank."""
    shown: list[str] = []
    block: list[str] = []
    fence = language = ""
    indent = -1  # that of the directive whose block is being read
    for line in text.split("\n"):
        fenced = "```" in line or "~~~" in line
        match = _FENCE.match(line) if fenced and indent < 0 else None
        if fence:
            if match is not None and match["fence"].startswith(fence) and not match["language"]:
                shown += _commands(block, language)
                shown.append(_blank(line))
                fence = ""
            else:
                block.append(line)
            continue
        if indent >= 0:
            if not line.strip() or _indent(line) > indent:
                block.append(line)
                continue
            shown += _commands(block, language)
            indent = -1
            match = _FENCE.match(line) if fenced else None
        colons = "::" in line
        directive = _DIRECTIVE.match(line) if colons else None
        if match is not None:
            fence, language, block = match["fence"], (match["language"] or "").lower(), []
        elif directive is not None or (colons and _LITERAL.search(line) is not None):
            indent, block = _indent(line), []
            language = directive["language"].lower() if directive is not None else ""
        else:
            prompt = _DOLLAR.match(line) if "$" in line else None
            shown.append(_blank(line) if prompt is None else _blank(prompt.group()) + line[prompt.end() :])
            continue
        shown.append(_blank(line))
    if fence or indent >= 0:
        shown += _commands(block, language)
    return "\n".join(shown)


def _commands(block: list[str], language: str) -> Iterator[str]:
    """Yield the lines of a code block as far as they are commands; where some have a prompt, the others are output."""
    is_shell = language in _SHELL
    is_session = language in _SESSION
    is_unmarked = language in _UNMARKED
    is_python = language in _PYTHON
    prompts = [_PROMPT.match(line) if is_shell or is_session or is_unmarked else None for line in block]
    prompted = any(prompts)
    if is_shell and next((prompt for prompt, line in zip(prompts, block, strict=True) if line.strip()), None):
        is_shell = False  # a session, called a script
    continued = False
    for line, prompt in zip(block, prompts, strict=True):
        if prompt is not None:
            shown = _blank(prompt.group()) + line[prompt.end() :]
        elif (
            continued
            or is_shell
            or (is_python and _STARTS_PYTHON.match(line))
            or (not prompted and (is_session or (is_unmarked and _COMMAND.match(line))))
        ):
            shown = line
        else:
            shown = _blank(line)
        continued = shown.rstrip().endswith("\\")
        yield shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _blank(line: str) -> str:
    return " " * len(line)
