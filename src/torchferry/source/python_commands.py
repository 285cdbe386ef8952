"""Command lines that a Python program starts: what is given to `os.system`, `subprocess.run` and the like.

A view shows them at the places where they are in the file, with everything else blank, so that what is read and
rewritten there is at its own offset. What the program puts in when it runs (a field of an f-string, `%s`, a variable
between two texts) is a variable of the shell in the view: `$xxx`. A list of arguments is a command whose words are its
items. Variables are followed to their values in the file, and a parameter to the arguments of the calls in the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name
from torchferry.source.inner_commands import with_inner
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile
from torchferry.source.shell import Command, Word, parts

_WORDS_AT = {"execv": 1, "execve": 1, "execvp": 1, "execvpe": 1, "posix_spawn": 1, "posix_spawnp": 1, "spawnv": 2,
             "spawnve": 2, "spawnvp": 2, "spawnvpe": 2}  # fmt: skip
"""Functions of `os` that are given the words of a command as a list, and where that stands among their arguments."""

_WORDS_FROM = {"execl": 1, "execle": 1, "execlp": 1, "execlpe": 1, "spawnl": 2, "spawnle": 2, "spawnlp": 2,
               "spawnlpe": 2}  # fmt: skip
"""Functions of `os` whose arguments are the words of a command, from one of them on."""

STARTERS = {
    "os": frozenset(
        {"os.system", "os.popen"}
        | {f"os.{name}" for name in (*_WORDS_AT, *_WORDS_FROM) if not name.startswith("create")}
    ),
    "subprocess": frozenset(
        f"subprocess.{name}"
        for name in ("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput")
    ),
    "asyncio": frozenset({"asyncio.create_subprocess_shell", "asyncio.create_subprocess_exec"}),
}
"""Functions that start a program, by module: they are given a command line, or its words."""

_SHELL_METHODS = ("system", "getoutput")
"""Methods of IPython's shell that do the same: `get_ipython().system("...")`, as which notebooks keep `!...`."""

_LINE = lazy_regex(r"[^\r\n]+")
_KEYWORDS = ("args", "cmd", "command")
_LITERAL = lazy_regex(r"[rRuUbBfF]{0,2}(?P<quote>'''|\"\"\"|'|\")")
_BETWEEN = lazy_regex(r"(?:\s|\\\r?\n|#[^\r\n]*)*")
_PUT_IN = lazy_regex(r"%(?:\(\w+\))?[-+0#]*(?:(?!0)\d+)?(?:\.\d+)?[sdirf]")
_LONGEST = 100_000
"""Characters of one expression that are read."""

_DEEPEST = 100
"""Variables and parameters behind one another that are followed."""


class StartCall(NamedTuple):
    """A command line, or a list of words, that a program starts.

    Attributes:
        call: The call that starts it.
        commands: Its commands, at the offsets of the file.
    """

    call: ast.Call
    commands: tuple[Command, ...]


class _Part(NamedTuple):
    """A part of an expression: a text as the file spells it, or what is known only when the program runs."""

    start: int
    end: int
    is_text: bool


def started_commands(file: PythonFile, names: Names) -> tuple[str, list[StartCall]]:
    """Return the view of a file's command lines, and these with the calls that start them, in order of place."""
    reader = _CommandReader(file, names)
    shown: list[tuple[ast.Call, Command | tuple[int, int]]] = []
    for module, functions in STARTERS.items():
        for reference in names.references(module):
            call = file.parents.get(reference.node)
            if reference.name in functions and isinstance(call, ast.Call) and call.func is reference.node:
                shown += ((call, line) for line in reader.lines(call))
    for method in _SHELL_METHODS:
        for attribute in file.attributes.get(method, ()):
            call = file.parents.get(attribute)
            if last_name(attribute.value) == "get_ipython" and isinstance(call, ast.Call) and call.func is attribute:
                shown += ((call, line) for line in reader.lines(call))
    view = "" if reader.view is None else reader.view.text()
    started = []
    for call, line in shown:
        commands = [line] if isinstance(line, Command) else parts(view, *line)
        started.append(StartCall(call, tuple(with_inner(view, commands))))
    return view, started


class _CommandReader:
    """Reads the command lines of one file into a view of it."""

    def __init__(self, file: PythonFile, names: Names) -> None:
        self.file = file
        self.names = names
        self.view: _MaskedText | None = None
        self._read: set[ast.AST] = set()

    def lines(self, call: ast.Call) -> Iterator[Command | tuple[int, int]]:
        """Yield what a call starts, each once in the file: a command that was a list, or the span of a text."""
        name = last_name(call.func)
        argument = next(iter(call.args[_WORDS_AT.get(name, 0) :]), None)
        if argument is None:
            argument = next((keyword.value for keyword in call.keywords if keyword.arg in _KEYWORDS), None)
        if argument is None:
            return
        if self.view is None:
            self.view = _MaskedText(self.file.source.text)
        first = 0 if name == "create_subprocess_exec" else _WORDS_FROM.get(name)
        words = None if first is None else [ast.List(call.args[first:], ast.Load())]
        for expression in self._values(argument, 0, set()) if words is None else words:
            if expression in self._read:
                continue
            self._read.add(expression)
            if isinstance(expression, (ast.List, ast.Tuple)):
                command = self._listed(expression)
                if command is not None:
                    yield command
                continue
            pieces = self._parts(expression)
            if any(part.is_text for part in pieces):
                yield self._shown(pieces)

    # --- what a command is made of ---

    def _values(self, expression: ast.expr, depth: int, met: set[ast.AST]) -> Iterator[ast.expr]:
        """Yield the texts and lists that an expression may represent, by bindings that were not met before."""
        expression = _without_calls(expression)
        if not isinstance(expression, ast.Name):
            yield expression
            return
        if depth >= _DEEPEST:
            return
        for binding in self.names.bindings(expression):
            if binding in met:
                continue
            met.add(binding)
            if isinstance(binding, ast.arg):
                yield from self._arguments(binding, depth, met)
                continue
            statement = self.file.parents.get(binding)
            value = assigned_value(self.file, binding)
            if value is None and isinstance(statement, ast.AugAssign) and statement.target is binding:
                value = statement.value
            if value is not None:
                yield from self._values(value, depth + 1, met)
        if self.file.attributes.get("extend"):
            yield from self._added(expression)

    def _added(self, name: ast.Name) -> Iterator[ast.expr]:
        """Yield the lists that `name.extend([...])` adds."""
        for use in self.names.uses_of(name):
            method = self.file.parents.get(use)
            if not isinstance(method, ast.Attribute) or method.attr != "extend":
                continue
            call = self.file.parents.get(method)
            if isinstance(call, ast.Call) and call.func is method and call.args:
                if isinstance(call.args[0], (ast.List, ast.Tuple)):
                    yield call.args[0]

    def _arguments(self, parameter: ast.arg, depth: int, met: set[ast.AST]) -> Iterator[ast.expr]:
        """Yield what the calls in the file give to a parameter of a function."""
        arguments = self.file.parents.get(parameter)
        function = self.file.parents.get(arguments) if isinstance(arguments, ast.arguments) else None
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or parameter not in arguments.args:  # type: ignore[union-attr]
            return
        index = arguments.args.index(parameter)  # type: ignore[union-attr]
        scope = self.names.variable_scope(function.name, self.file.scope(function))
        for use in self.names.uses(function.name, scope) if scope is not None else ():
            call = self.file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use and index < len(call.args):
                if not any(isinstance(argument, ast.Starred) for argument in call.args[: index + 1]):
                    yield from self._values(call.args[index], depth + 1, met)

    def _listed(self, expression: ast.List | ast.Tuple) -> Command | None:
        """Return the command whose words are the items of a list; None for an empty one."""
        words = []
        for item in expression.elts:
            pieces = self._parts(item)
            if not pieces:
                return None
            start, end = self._shown(pieces)
            words.append(Word(self._view.part(start, end), start, end))
        return Command((), tuple(words)) if words else None

    # --- what an expression is made of ---

    def _parts(self, expression: ast.expr) -> list[_Part]:
        """Return the parts of an expression in order of place."""
        expression = _without_calls(expression)
        try:
            start, end = self.file.span(expression)
        except (ValueError, AttributeError):
            return []
        if end - start > _LONGEST:
            return []
        if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
            pieces = self._literals(start, self.file.source.text[start:end])
            if pieces is not None and self._spell(pieces) == expression.value:
                return pieces
        elif isinstance(expression, ast.JoinedStr):
            pieces = self._joined(expression, start, end)
            if pieces is not None:
                return pieces
        elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mod):
            return self._parts(expression.left)
        elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
            return [*self._parts(expression.left), *self._parts(expression.right)]
        return [_Part(start, end, False)]

    def _spell(self, pieces: list[_Part]) -> str:
        """Return what the texts of a literal say: a line that is continued by a backslash is one line to Python."""
        text = self.file.source.text
        return re.sub(r"\\\r?\n", "", "".join(text[part.start : part.end] for part in pieces)).replace("\r\n", "\n")

    def _joined(self, joined: ast.JoinedStr, start: int, end: int) -> list[_Part] | None:
        """Return the parts of an f-string; None where its fields could not be told apart."""
        text = self.file.source.text
        try:
            fields = [self.file.span(value) for value in joined.values if isinstance(value, ast.FormattedValue)]
        except ValueError:
            return None
        masked = list(text[start:end])
        for first, last in fields:
            masked[first - start : last - start] = "x" * (last - first)
        pieces = self._literals(start, "".join(masked))
        if pieces is None:
            return None
        cut: list[_Part] = []
        waiting = sorted(fields)
        for part in pieces:
            at = part.start
            while waiting and waiting[0][1] <= part.end:
                first, last = waiting.pop(0)
                cut += [_Part(at, first, True), _Part(first, last, False)]
                at = last
            cut.append(_Part(at, part.end, True))
        return cut if not waiting else None

    def _literals(self, offset: int, raw: str) -> list[_Part] | None:
        """Return the texts between the quotes of literals that are next to each other; None for one with escapes."""
        pieces = []
        at = 0
        while at < len(raw):
            opening = _LITERAL.match(raw, at)
            if opening is None:
                return None
            closing = raw.find(opening["quote"], opening.end())
            if closing < 0:
                return None
            inner = raw[opening.end() : closing]
            if "\\" in inner.replace("\\\n", "").replace("\\\r\n", ""):
                return None
            pieces.append(_Part(offset + opening.end(), offset + closing, True))
            at = closing + len(opening["quote"])
            between = _BETWEEN.match(raw, at)
            at = between.end() if between is not None else at
        return pieces

    # --- the view ---

    def _shown(self, pieces: list[_Part]) -> tuple[int, int]:
        """Show the parts of one text in the view; return where it begins and ends."""
        text = self.file.source.text
        put = self._view.put
        for part in pieces:
            if part.is_text:
                put(part.start, text[part.start : part.end])
                for match in _PUT_IN.finditer(text, part.start, part.end):
                    self._put_in(*match.span())
            else:
                self._put_in(part.start, part.end)
        for left, right in pairwise(pieces):
            if left.is_text and right.is_text:  # quotes and line ends between literals: nothing stands there
                parted = text[left.end - 1 : left.end].isspace() or text[right.start : right.start + 1].isspace()
                put(left.end, (" " if parted else "x") * (right.start - left.end))
            else:
                put(left.end, "x" * (right.start - left.end))
                if not right.is_text and right.start > left.end:
                    self._put_in(left.end, right.end)
        return pieces[0].start, pieces[-1].end

    def _put_in(self, start: int, end: int) -> None:
        self._view.put(start, ("$" + "x" * (end - start - 1))[: end - start])

    @property
    def _view(self) -> _MaskedText:
        assert self.view is not None
        return self.view


class _MaskedText:
    """A text of the length and the lines of a file in which only what was put there stands."""

    def __init__(self, text: str) -> None:
        if "\r" in text:
            self._blank = _LINE.sub(lambda line: " " * len(line[0]), text)
        else:
            self._blank = "\n".join([" " * len(line) for line in text.split("\n")])
        self._put: dict[int, str] = {}

    def put(self, start: int, text: str) -> None:
        """Let a text stand somewhere, over what stood there."""
        self._put.update(enumerate(text, start))

    def part(self, start: int, end: int) -> str:
        """Return the text between two offsets."""
        return "".join([self._put.get(offset, self._blank[offset]) for offset in range(start, end)])

    def text(self) -> str:
        """Return the whole."""
        pieces: list[str] = []
        done = 0
        for offset in sorted(self._put):
            if offset > done:
                pieces.append(self._blank[done:offset])
            pieces.append(self._put[offset])
            done = offset + 1
        return "".join([*pieces, self._blank[done:]])


def _without_calls(expression: ast.expr) -> ast.expr:
    """Return the text or list that is formatted, split, joined or spread over lines."""
    while isinstance(expression, ast.Call):
        function = expression.func
        name = last_name(function)
        if name == "split" and len(expression.args) == 1 and isinstance(function, ast.Attribute):
            if isinstance(function.value, ast.Name) and function.value.id == "shlex":
                expression = expression.args[0]
                continue
        if isinstance(function, ast.Attribute) and name in ("format", "split", "strip"):
            expression = function.value
        elif name in ("join", "list", "dedent") and len(expression.args) == 1:
            expression = expression.args[0]
        else:
            break
    return expression
