"""A CUDA device in a short string that reads as a setting: `["--device", "cuda"]`, `"device=cuda"`, `"device: cuda"`.

Words of a command line in a list, `parse_args(["--device", "cuda"])`, overrides of hydra or OmegaConf,
`overrides=["trainer.device=cuda"]`, and defaults that docopt reads out of a text are rewritten. A string of one line
that is nothing but settings, and is handed to a function that is not known, or kept, is likely one, too: read it first.
What `subprocess` starts is SHL105, a text of several lines CFG108.

Not touched: sentences that name a setting, and texts that are printed.

Why: The program that reads the setting asks for CUDA, although the rest was migrated.

References:
- page configuration
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.config.settings_text import is_parsed_text
from torchferry.rules.device.strings import literal_span, word_edits, written_device
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.inner_commands import TEXT_NAME
from torchferry.source.lexicon import COLLECTIVE_SPELLING, DEVICE_SPELLING, lexicon
from torchferry.source.python_commands import started_commands

_SETTING = lazy_regex(
    r"[\s{,;&\"'+-](?P<key>[A-Za-z_][\w.-]{0,60})[\"']?(?:[ \t]{0,4}[:=][ \t]{0,4}|[ \t])[\"']?(?P<value>cuda|nccl)"
    r"(?=[\s,;&}\"']|:\d)"
)
_DOCOPT = lazy_regex(
    r"(?m)^[ \t]{0,20}(?:-\w,?[ \t])?--(?P<name>[\w-]{1,60})[^\n]{0,200}\[default:[ \t]?(?P<value>cuda(?::\d+)?)\]"
)
"""An option as docopt reads it, whose default is a CUDA device."""

_ASSIGNS = lazy_regex(r"(?<![ \t])(?:[ \t]*[:=][ \t]+|[ \t]+[:=])")
_PAIR = lazy_regex(r"[\"']?[+-]{0,2}[\w.-]{1,60}[\"']?[:=][\"']?[\w:./-]{1,60}[\"']?\Z")
_BETWEEN = lazy_regex(r"[\s,;&]+")
_LONGEST = 1000
"""Characters of a string that is looked at: longer ones in one line are data."""

_TAKE_WORDS = frozenset(
    {
        "parse_args", "parse_known_args", "parse_intermixed_args", "parse_args_into_dataclasses", "invoke", "main",
        "from_dotlist", "from_cli", "compose", "merge_from_list", "split",
    }
)  # fmt: skip
_HOLD_WORDS = frozenset({"overrides", "args", "argv", "opts"})


class SettingInWords(Rule):
    """Finds CUDA devices and NCCL in the words of command lines and in single settings."""

    CODE = "CFG109"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.IN_PYTHON
    WORDS = ("cuda", "nccl")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each such string."""
        for node in context.file.strings:
            value = node.value
            if not isinstance(value, str) or ("cuda" not in value and "nccl" not in value) or "\n" in value:
                continue
            if isinstance(context.file.parents.get(node), (ast.JoinedStr, ast.BinOp)) or not _is_handed_on(
                context, node
            ):
                continue
            option = _option_before(context, node)
            if option:
                finding = self._word(context, node, option)
            elif _holds_pairs(value) or _holds_options(value):
                finding = self._settings(context, node, value)
            else:
                continue
            if finding is not None and not _is_seen(context, node) and exemption_reason(context, node) is None:
                yield finding
        if "docopt" in context.imported_packages:
            yield from self._defaults_of_docopt(context)

    def _defaults_of_docopt(self, context: PythonContext) -> Iterator[Finding]:
        """Yield the defaults that docopt reads out of a text: `--device=<dev>  The device [default: cuda].`"""
        for node in context.file.strings:
            start, end = context.file.span(context.file.fstring_of(node) or node)
            for match in _DOCOPT.finditer(context.text, start, end) if "[default:" in str(node.value) else ():
                if lexicon("device").names(match["name"].replace("-", "_")):
                    use = context.target.backend.DEVICE_TYPE
                    message = say(
                        "option `{name}` is `{value}`; on {target} it is `{use}`",
                        name=match["name"],
                        value=match["value"],
                        target=context.target.title,
                        use=use + match["value"].removeprefix("cuda"),
                    )
                    at = match.start("value")
                    edits = [] if context.target.module else [Edit(at, at + len("cuda"), use)]
                    grade = Grade.SAFE if edits else Grade.MANUAL
                    yield self.finding(context, match.span("value"), message, grade, edits)

    def _word(self, context: PythonContext, node: ast.Constant, option: str) -> Finding | None:
        """Report the value of an option in a list of words."""
        value = str(node.value)
        backend = context.target.backend
        span = literal_span(context, node)
        values = {"name": option, "value": value, "target": context.target.title}
        if lexicon("device").names(option) and DEVICE_SPELLING.match(value):
            written = written_device(context, node)
            message = say("option `{name}` is `{value}`; on {target} it is `{use}`", **values, use=written.shown)
            imports = (context.target.module,) if context.target.module else ()
            grade = Grade.SAFE if written.edits else Grade.MANUAL
            return self.finding(context, span, message, grade, written.edits, imports=imports)
        if not lexicon("collective").names(option) or not COLLECTIVE_SPELLING.match(value):
            return None
        message = say("option `{name}` is `{value}`; on {target} it is `{use}`", **values, use=backend.COLLECTIVE)
        edits = [] if context.target.module else word_edits(context, node, value, backend.COLLECTIVE)
        return self.finding(context, span, message, Grade.SAFE if edits else Grade.MANUAL, edits)

    def _settings(self, context: PythonContext, node: ast.Constant, value: str) -> Finding | None:
        """Report the settings of a string that holds nothing else."""
        backend = context.target.backend
        start, end = literal_span(context, node)
        edits: list[Edit] = []
        shown = ""
        for match in _SETTING.finditer(context.text, start, end):
            role, use = (
                ("device", backend.DEVICE_TYPE) if match["value"] == "cuda" else ("collective", backend.COLLECTIVE)
            )
            if lexicon(role).names(match["key"]):
                edits.append(Edit(*match.span("value"), use))
                shown = shown or match["key"]
        if not edits or is_parsed_text(context, node):
            return None
        first = edits[0]
        message = say(
            "setting `{key}` in a string is `{value}`; on {target} it is `{use}`",
            key=shown,
            value=context.text[first.start : first.end],
            target=context.target.title,
            use=first.text,
        )
        span = (first.start, first.end)
        if context.target.module:
            return self.finding(context, span, message, Grade.MANUAL)
        grade = Grade.SAFE if _takes_words(context, node) else Grade.UNSAFE
        return self.finding(context, span, message, grade, edits)


def _holds_pairs(text: str) -> bool:
    """Whether a text is nothing but settings: `device: cuda`, `{"device": "cuda", "seed": 1}`, `a=1 device=cuda`."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    return all(map(_PAIR.match, _BETWEEN.split(_ASSIGNS.sub("=", inner))))


def _holds_options(text: str) -> bool:
    """Whether a text is nothing but options with a value at most: `--device cuda --fp16`."""
    words = text.split()
    is_option = [word.startswith("-") and len(word) > 1 for word in words]
    return bool(words) and is_option[0] and all(left or right for left, right in pairwise((*is_option, True)))


def _is_handed_on(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a function is given a string, or it is kept: in a variable, a dictionary, as a default or a result."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.List, ast.Tuple, ast.keyword, ast.BinOp, ast.Starred)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr == "split"
    if isinstance(parent, ast.Call):
        return not is_text(context, child) and not is_text(context, node)
    if isinstance(parent, ast.Dict):
        return child in parent.values
    if isinstance(parent, ast.Assign):
        return child is not node or not any(TEXT_NAME.search(last_name(target)) for target in parent.targets)
    return isinstance(parent, (ast.AnnAssign, ast.Return, ast.arguments))


def _option_before(context: PythonContext, node: ast.Constant) -> str:
    """Return the option whose value a word is in a list: `["--device", "cuda"]`; empty where it is none."""
    words = context.file.parents.get(node)
    if not isinstance(words, (ast.List, ast.Tuple)):
        return ""
    at = words.elts.index(node)
    word = string_value(words.elts[at - 1]) if at else None
    if word is None or not word.startswith("-") or "=" in word:
        return ""
    return word.lstrip("-").replace("-", "_")


def _takes_words(context: PythonContext, node: ast.Constant) -> bool:
    """Whether it is known that what a string is given to reads settings."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.List, ast.Tuple, ast.BinOp, ast.Starred)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.keyword):
        return parent.arg in _HOLD_WORDS
    if isinstance(parent, ast.Attribute):
        return parent.attr == "split"
    if isinstance(parent, ast.Assign):
        return any(last_name(target) in _HOLD_WORDS for target in parent.targets)
    return isinstance(parent, ast.Call) and last_name(parent.func) in _TAKE_WORDS


def _is_seen(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a string is a part of a command line that the program starts, which SHL105 reports."""
    start, end = literal_span(context, node)
    view, _ = started_commands(context.file, context.names)
    return bool(view[start:end].strip())
