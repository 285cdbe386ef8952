"""A CUDA device in a string that a program parses as settings: `yaml.safe_load("device: cuda:0")`.

A comparison with the device, such as `device.type == "cuda"`, is rewritten. If the string keeps `cuda`, the comparison
is False on the target, and the program takes the other branch without an error. A string that is passed to a parser of
YAML, JSON, TOML or INI is rewritten. For any other string of several lines the parser is not known: read it first.

Why: The settings still request CUDA after the code was migrated, so the program fails or silently takes the CPU.

References:
- page configuration
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name
from torchferry.source.lexicon import lexicon

_SETTING = lazy_regex(
    r"(?:^|[\s{,\[(\"']|\\n)\\?[\"']?(?P<key>[A-Za-z_][\w.-]{0,60})\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?"
    r"(?P<value>cuda|nccl)(?=:(?:[\d{%]|\Z)|\\?[\"']|[\s,;}\])]|\\n|\Z)"
)
_PARSERS = frozenset(
    {"safe_load", "safe_load_all", "full_load", "unsafe_load", "load", "load_all", "loads", "read_string", "create"}
)
_PARSING = lazy_regex(r"(?i)yaml|json|toml|omegaconf|config|parser|ini\b")
_WRAPPERS = frozenset({"dedent", "StringIO", "BytesIO", "strip", "lstrip", "format", "encode", "cleandoc"})
_CODE = lazy_regex(r"(?m)^[ \t]*(?:import|from|def|class|@)[ \t]*\w|\btorch\.")


class SettingsText(Rule):
    """Finds CUDA devices and NCCL in strings that hold settings."""

    CODE = "CFG108"
    EFFECT = Effect.WRONG
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = ("cuda", "nccl")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each setting: safe where the string is passed to a parser, otherwise unsafe."""
        seen: set[tuple[int, int]] = set()
        for node in context.file.strings:
            value = node.value
            if not isinstance(value, str) or ("cuda" not in value and "nccl" not in value):
                continue
            if not _SETTING.search(value):
                continue
            joined = context.file.fstring_of(node)
            literal = node if joined is None else joined
            span = context.file.span(literal)
            if span in seen or is_text(context, literal) or exemption_reason(context, literal) is not None:
                continue
            seen.add(span)
            is_parsed = is_parsed_text(context, literal)
            if is_parsed or ("\n" in value and not _CODE.search(value)):
                yield from self._settings(context, span, is_parsed)

    def _settings(self, context: PythonContext, span: tuple[int, int], is_parsed: bool) -> Iterator[Finding]:
        backend = context.target.backend
        for match in _SETTING.finditer(context.text, *span):
            role, use = (
                ("device", backend.DEVICE_TYPE) if match["value"] == "cuda" else ("collective", backend.COLLECTIVE)
            )
            if not lexicon(role).names(match["key"]):
                continue
            start, end = match.span("value")
            message = say(
                "setting `{key}` in a string is `{value}`; on {target} it is `{use}`",
                key=match["key"],
                value=match["value"],
                target=context.target.title,
                use=use,
            )
            grade = Grade.SAFE if is_parsed else Grade.UNSAFE
            yield self.finding(context, (start, end), message, grade, [Edit(start, end, use)])


def is_parsed_text(context: PythonContext, node: ast.AST) -> bool:
    """Whether a string, or the variable that holds it, is passed to a parser of settings."""
    call, argument = _passed_to(context, node)
    if call is not None:
        return _parses(context, call)
    parent = context.file.parents.get(argument)
    if not isinstance(parent, ast.Assign):
        return False
    names = [target.id for target in parent.targets if isinstance(target, ast.Name)]
    return any(
        (parser := _passed_to(context, use)[0]) is not None and _parses(context, parser)
        for name in names
        for use in context.file.names.get(name, ())
        if isinstance(use.ctx, ast.Load)
    )


def _passed_to(context: PythonContext, node: ast.AST) -> tuple[ast.Call | None, ast.AST]:
    """Return the call that a string is passed to, or None, and its argument; `dedent` and the like do not count."""
    child = node
    while True:
        parent = context.file.parents.get(child)
        if isinstance(parent, ast.Attribute) and parent.attr in _WRAPPERS:
            child = context.file.parents.get(parent, parent)
        elif isinstance(parent, ast.Call) and child in parent.args:
            if last_name(parent.func) not in _WRAPPERS:
                return parent, child
            child = parent
        else:
            return None, child


def _parses(context: PythonContext, call: ast.Call) -> bool:
    """Whether a call parses settings: `yaml.safe_load`, `parser.read_string`."""
    name = last_name(call.func)
    full = context.names.qualified(call.func) or context.file.text(call.func)
    return name in _PARSERS and (name in ("read_string", "safe_load") or _PARSING.search(full) is not None)
