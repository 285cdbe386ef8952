"""A path that the user's `[tool.torchferry.paths]` table maps to another.

Data sets, checkpoints and results lie elsewhere on the target's machine. The table says where::

    [tool.torchferry.paths]
    "/kaggle/input/" = "/workspace/datasets/"
    "/kaggle/working/" = "/workspace/outputs/"

A string (or, in other kinds of file, a word) that begins with a key gets the value in its place; the longest key wins.
A key may end in a pattern of file names, so that one folder becomes several by what a file is::

    "/kaggle/working/*.pth" = "/workspace/checkpoints/"

Such a key holds for the files of the pattern at any depth below the folder, before the folder's own entry. The name
may be joined to the folder by `os.path.join`, `/` of a `Path`, or `+`. Where the program only knows the name when it
runs, the folder's own entry is proposed as a fix to read; without such an entry, or for the folder alone, nothing is
changed, and the place is reported. So is a path that the program puts together of parts (`Path("/kaggle") / "input"`).
The entry of a folder holds with and without its slash (`os.path.join("/kaggle/working", name)`).
`torchferry migrate --paths kaggle` adds a shipped table.

A value may begin with its key (`"/data/" = "/data/new/"`): what has the value already stays. A value that the table
would map again is an error, since a second run would change it. torchferry's own settings are never rewritten.

Why: The path does not exist on the target's machine, so the program cannot find its data.

References:
- page configuration
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.pathmap import PathMap
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind


class UserPath(Rule):
    """Finds paths that the user's table maps."""

    CODE = "PTH101"
    EFFECT = Effect.RAISES
    KINDS = (Kind.PYTHON, Kind.SHELL, Kind.MAKEFILE, Kind.YAML, Kind.JSON, Kind.TOML, Kind.DOCKERFILE, Kind.COMPOSE)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The paths of the user's table, and what a program that puts one together begins with."""
        mapping = PathMap.of(options.paths)
        return (*mapping.words, *mapping.beginnings)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each mapped path in a string."""
        mapping = PathMap.of(context.options.paths)
        for node in context.file.strings:
            if not isinstance(node.value, str):
                continue
            if not any(old in node.value for old in mapping.words):
                yield from self._in_parts(context, mapping, node)
                continue
            start, end = context.file.literal_span(node)
            yield from self._within(context, mapping, start, end, _joined(context, node) if mapping.has_roles else "")

    def _in_parts(self, context: PythonContext, mapping: PathMap, node: ast.Constant) -> Iterable[Finding]:
        """Yield the mapped path that a program puts together of a string and what it joins: `Path("/data") / "new"`."""
        value = str(node.value)
        if not any(old.startswith(value) for old in mapping.words) or not any(
            map(value.startswith, mapping.beginnings)
        ):
            return
        whole = (value + _joined(context, node)).replace("//", "/")
        if context.file.fstring_of(node) is None and any(each.start == 0 for each in mapping.replacements(whole)):
            message = say("your `paths` table maps `{path}`, which is put together here: write it by hand", path=whole)
            yield self.finding(context, context.file.literal_span(node), message, Grade.MANUAL)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each mapped path in a file of another kind."""
        return self._within(context, PathMap.of(context.options.paths), 0, len(context.text), "")

    def _within(self, context: Context, mapping: PathMap, start: int, end: int, joined: str) -> Iterable[Finding]:
        for replacement in mapping.replacements(context.text, start, end, joined):
            span = (replacement.start, replacement.end)
            if replacement.new is None:
                message = say(
                    "your `paths` table maps `{key}`, and this place does not say which file is meant: add an entry "
                    "for `{old}` itself, or write the path by hand",
                    key=replacement.doubt,
                    old=replacement.old,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            grade = Grade.SAFE
            message = say(
                "path `{old}` becomes `{new}` by your `paths` table", old=replacement.old, new=replacement.new
            )
            if replacement.doubt:
                grade = Grade.UNSAFE
                message = say(
                    "path `{old}` becomes `{new}` by your `paths` table, unless the file, whose name is only known "
                    "when the program runs, is one of `{key}`",
                    old=replacement.old,
                    new=replacement.new,
                    key=replacement.doubt,
                )
            yield self.finding(context, span, message, grade, [Edit(*span, replacement.new)])


_PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath"})


def _joined(context: PythonContext, node: ast.expr) -> str:
    """Return what the program joins to a path that a string holds, with `*` for what is not known, or nothing."""
    parents = context.file.parents
    text = ""
    whole: ast.AST = context.file.fstring_of(node) or node
    while True:
        parent = parents.get(whole)
        if isinstance(parent, ast.BinOp) and parent.left is whole and isinstance(parent.op, ast.Add):
            text += _known(parent.right)
        elif isinstance(parent, ast.BinOp) and parent.left is whole and isinstance(parent.op, ast.Div):
            text += "/" + _known(parent.right)
        elif (
            isinstance(parent, ast.Call) and parent.args[:1] == [whole] and last_name(parent.func) in _PATHS | {"join"}
        ):
            text += "".join("/" + _known(argument) for argument in parent.args[1:])
        elif (
            isinstance(parent, ast.Attribute)
            and parent.attr == "joinpath"
            and isinstance(parents.get(parent), ast.Call)
        ):
            call = parents[parent]
            assert isinstance(call, ast.Call)
            text += "".join("/" + _known(argument) for argument in call.args)
            parent = call
        else:
            return text
        whole = parent


def _known(node: ast.expr) -> str:
    """Return the text of an expression, with `*` for what is not known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_known, node.values))
    return "*"
