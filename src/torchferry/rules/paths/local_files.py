"""A model or tokenizer that is loaded from a folder of the user's `[tool.torchferry.paths]` table, by a hub's client.

A host of cards often has no network. An entry of the table says where what was brought along lies there::

    [paths]
    "openai/clip-vit-large-patch14" = "/models/clip/tokenizer"

[PTH101](PTH101.md) writes the folder in place of the name, and this rule adds `local_files_only=True`: the call then
says itself that nothing is fetched, whatever the library makes of a folder that is lacking. Only an entry whose new
path is absolute means that; a call that is given `local_files_only` or `**` arguments stays as it is.

Why: On a host without a network only what was brought along can be loaded.

References:
- page configuration
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.pathmap import PathMap
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of

_LOADING = "from_pretrained"
_LIBRARIES = ("diffusers", "transformers")
"""Whose documentation says of `from_pretrained` that it takes `local_files_only`: huggingface.co/docs."""

_LOCAL = "local_files_only"
_FIRST = "pretrained_model_name_or_path"


class LocalFiles(Rule):
    """Finds what is loaded from a folder that the user's table names, and may still ask a hub."""

    CODE = "PTH102"
    EFFECT = Effect.NOTHING

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The method, where the table names an absolute folder."""
        return (_LOADING,) if any(new.startswith("/") for new in options.paths.values()) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that loads from such a folder."""
        folders = {use: folder for node, folder in _folders(context) for use in _uses(context, node)}
        for package in _LIBRARIES:
            for name, call in calls_to(context, package):
                keyword = keyword_of(call, _FIRST)
                given = keyword.value if keyword is not None else call.args[0] if call.args else None
                if not name.endswith(f".{_LOADING}") or given not in folders:
                    continue
                if any(each.arg in (None, _LOCAL) for each in call.keywords):
                    continue
                end = max(context.file.span(each)[1] for each in (*call.args, *call.keywords))
                message = say(
                    "loaded from `{folder}` by your `paths` table: with `local_files_only=True` no hub is asked",
                    folder=folders[given],
                )
                edit = Edit(end, end, f", {_LOCAL}=True")
                yield self.finding(context, context.file.span(call.func), message, Grade.SAFE, [edit])


def _folders(context: PythonContext) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the strings that are, or become, absolute paths of the table, each with what it becomes."""
    mapping = PathMap.of(context.options.paths)
    new_paths = tuple(each.new for each in mapping.entries if each.new.startswith("/"))
    for node in context.file.strings:
        if not isinstance(node.value, str):
            continue
        replacement = next(iter(mapping.replacements(node.value)), None)
        if replacement is not None and replacement.start == 0 and (replacement.new or "").startswith("/"):
            yield node, f"{replacement.new}{node.value[replacement.end :]}"
        elif replacement is None and node.value.startswith(new_paths):
            yield node, node.value


def _uses(context: PythonContext, node: ast.Constant) -> Iterator[ast.expr]:
    """Yield where a string is used in this file: where it stands, and where a name holds it."""
    yield node
    for value in context.values.of(node).values:
        if value.file is context.file and isinstance(value.node, ast.expr):
            yield value.node
