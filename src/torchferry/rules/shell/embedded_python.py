"""Python in a text that names CUDA, or imports what lacks: `python -c "import torch; torch.cuda.is_available()"`.

The text between the quotes, in a here-document, in a variable of the shell, or piped into Python is not rewritten,
because quoting and variables of the shell change it; nor is a file that a script writes (`cat > train.py <<EOF`). In
Python it is what `exec`, `eval` and `timeit` are given, and the examples that doctest runs. Often it only prints what
is installed.

Why: The command requests CUDA, and a script may stop because of it.

References:
- page migrating
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from torchferry.backends.cuda import NEEDING_KINDS, Package, packages
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, heredocs_of, prints_text
from torchferry.rules.device.strings import literal_span
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.shell import Command, Word

_PYTHON = lazy_regex(r"(?:python|pypy|ipython)[\d.]*(?:\.exe)?\Z")
_RUNS_CODE = lazy_regex(r"-[bBdEhiIOPqRsSuvx]*c(?P<code>.*)\Z", re.DOTALL)
_TIMER = "timeit"
"""The module that is given code as its arguments: `python -m timeit -s "import torch" "torch.ones(1)"`."""

_FURTHEST = 6
"""So many words behind its name the code of `python -c` is looked for: `python -u -W ignore -c`."""

_READS_AS_PYTHON = lazy_regex(r"(?:\A|[\s;'\"]|\\n)(?:import|from)[ \t]+[a-z_]\w*")
_INTO_PYTHON = lazy_regex(r"[ \t]*\|[ \t]*(?:\S*/)?python[\d.]*(?=\s|\Z)")
_PYTHON_FILE = lazy_regex(r"\.py[\"']?\Z")
_QUOTED = r"\\?['\"]"
CUDA_IN_PYTHON = lazy_regex(
    r"\btorch\.cuda\b|(?<!version)\.cuda\b\(?|\bcuda\.[a-z]\w*|import[ \t]+(?:\w+[ \t]*,[ \t]*)*cuda\b|\bis_cuda\b"
    rf"|(?:\b\w+[ \t]*=|\b(?!print\b)\w+\(|,|\[)[ \t]*f?{_QUOTED}cuda(?::[^'\"\n]*)?{_QUOTED}"
    rf"|(?:backend[ \t]*=|init_process_group\()[ \t]*{_QUOTED}nccl\b"
    r"|\b(?:CUDA|PYTORCH_CUDA|NCCL)_[A-Z][A-Z_]+\b|\bpynvml\b|\bcupy\b|\bnvidia_smi\b|\bpycuda\b|\btensorrt\b"
)
"""What names CUDA in the text of a program; what a text prints, and the version that torch was built for, do not."""

_IMPORTS = lazy_regex(
    r"\b(?:(?:import|from)[ \t]+|(?:__import__|import_module)\([ \t]*['\"])"
    r"(?P<modules>[A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)"
)
_MODULES = lazy_regex(r"[A-Za-z_][\w.]*")

_COMMAND_LINE = lazy_regex(r"\bpython[\d.]{0,8}(?:[ \t]{1,8}-\w{1,20}){0,6}[ \t]{1,8}-\w{0,8}c[ \t]")
_TAKE_CODE = frozenset({"exec", "eval", "compile", "timeit", "repeat", "Timer"})
_RUN_EXAMPLES = frozenset({"testmod", "testfile", "run_docstring_examples", "DocTestSuite", "DocTestRunner"})
"""Functions of doctest, which run what stands behind `>>>` in the documentation of a file."""

_CODE_KEYWORDS = frozenset({"stmt", "setup", "source"})
_CODE_PACKAGES = ("timeit", "torch")


def first_of_cuda(target: Target, text: str, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """Return where code names CUDA first, or imports a package that the target does not have; None for nowhere."""
    end = len(text) if end is None else end
    match = CUDA_IN_PYTHON.search(text, start, end)
    if match is not None:
        return match.span()
    for imported in _IMPORTS.finditer(text, start, end):
        for module in _MODULES.finditer(text, *imported.span("modules")):
            listed = target.package_of_module(module.group())
            if listed is not None and _is_lacking(*listed):
                return module.span()
    return None


def _is_lacking(package: Package, row: Row) -> bool:
    """Whether the target has something else in place of a package, or nothing."""
    return package.kind in NEEDING_KINDS and row.status not in ("same", "unknown")


class EmbeddedPython(Rule):
    """Finds Python in texts that names CUDA, or imports a package that the target does not have."""

    CODE = "SHL103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("check the code in the command"),)
    WORDS = ("cuda", "nccl", "pynvml", "cupy", "nvidia_smi", "pycuda", "tensorrt", "CUDA_")
    KINDS = (Kind.PYTHON, *JOB_KINDS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The words of CUDA, and the modules of packages that the target does not have."""
        lacking = (
            package for package in packages().values() if _is_lacking(package, target.row("packages", package.name))
        )
        return (*self.WORDS, *dict.fromkeys(module.partition(".")[0] for each in lacking for module in each.modules))

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield one finding for each piece of code, at the first place that names CUDA."""
        seen: set[int] = set()
        for start, end in _code(context):
            span = first_of_cuda(context.target, context.text, start, end)
            if span is not None and span[0] not in seen:
                seen.add(span[0])
                message = say(
                    "Python code in a command line names CUDA (`{found}`) and is not rewritten; check it for {target}",
                    found=context.text[slice(*span)],
                    target=context.target.title,
                )
                yield self.finding(context, span, message, Grade.MANUAL)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each text that `exec`, `eval` or `timeit` is given, and for each example that is run."""
        tables = context.file.names, context.file.attributes
        runs_examples = "doctest" in context.imported_packages and any(
            not _RUN_EXAMPLES.isdisjoint(table) for table in tables
        )
        if all(_TAKE_CODE.isdisjoint(table) for table in tables) and not runs_examples:
            return
        for node in context.file.strings:
            span = first_of_cuda(context.target, node.value) if isinstance(node.value, str) else None
            is_example = runs_examples and span is not None and ">>>" in str(node.value)
            if span is not None and (is_example or _is_taken_as_code(context, node)):
                message = say(
                    "Python code in a string names CUDA (`{found}`) and is not rewritten; check it for {target}",
                    found=str(node.value)[slice(*span)],
                    target=context.target.title,
                )
                yield self.finding(context, literal_span(context, node), message, Grade.MANUAL)


def code_for_python(context: PythonContext) -> Iterator[tuple[ast.Constant, Message]]:
    """Yield the texts of a Python file that another Python is started with and that name CUDA, each with a message.

    Items of a list behind `-c` or `-m timeit`, and command lines whose quotes are escaped.
    """
    for node in context.file.strings:
        value = node.value
        if not isinstance(value, str) or ("c" not in value and value != _TIMER):
            continue
        if value == _TIMER or (len(value) < 8 and _RUNS_CODE.match(value)):
            texts = _behind(context, node)
        elif _COMMAND_LINE.search(value) and not is_text(context, node):
            texts = [node]
        else:
            continue
        for text in texts:
            span = first_of_cuda(context.target, str(text.value))
            if span is not None:
                yield (
                    text,
                    say(
                        "Python code in a command line names CUDA (`{found}`) and is not rewritten; check it for "
                        "{target}",
                        found=str(text.value)[slice(*span)],
                        target=context.target.title,
                    ),
                )
                break


def _behind(context: PythonContext, option: ast.Constant) -> list[ast.Constant]:
    """Return the texts of what stands behind `-c` or `-m timeit` in a list of words that begins with a Python."""
    words = context.file.parents.get(option)
    items = words.args if isinstance(words, ast.Call) else getattr(words, "elts", [])
    if option not in items or items.index(option) + 1 >= len(items):
        return []
    at = items.index(option)
    if not any(_names_python(word) for word in items[:at]):
        return []
    if option.value != _TIMER:
        return _texts_of(context, items[at + 1])
    if string_value(items[at - 1]) != "-m":
        return []
    return [text for item in items[at + 1 :] for text in _texts_of(context, item)]


def _names_python(word: ast.expr) -> bool:
    if isinstance(word, ast.Constant):
        return isinstance(word.value, str) and _PYTHON.match(word.value.rpartition("/")[2]) is not None
    return last_name(word) == "executable" or "python" in last_name(word).lower()


def _texts_of(context: PythonContext, expression: ast.expr) -> list[ast.Constant]:
    """Return the literals of a text, those of a variable with the value that the file gives it."""
    literals: list[ast.Constant] = []
    for node in nodes_in(expression):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            literals.append(node)
        elif isinstance(node, ast.Name):
            values = (assigned_value(context.file, binding) for binding in context.names.bindings(node))
            for value in values:
                if value is not None and value is not expression:
                    literals += [part for part in nodes_in(value) if isinstance(part, ast.Constant)]
    return literals


def _is_taken_as_code(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a text, or a variable that holds it, is an argument of what runs code."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.IfExp, ast.Attribute)) or (
        isinstance(parent, ast.Call) and last_name(parent.func) in ("dedent", "format", "strip")
    ):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return any(_is_code_argument(context, use) for use in context.names.uses_of(parent.targets[0]))
    return _is_code_argument(context, child)


def _is_code_argument(context: PythonContext, node: ast.AST) -> bool:
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.keyword):
        if parent.arg not in _CODE_KEYWORDS:
            return False
        parent = context.file.parents.get(parent)
    elif isinstance(parent, ast.Call) and node not in parent.args[:2]:
        return False
    if not isinstance(parent, ast.Call) or last_name(parent.func) not in _TAKE_CODE:
        return False
    if isinstance(parent.func, ast.Name) and not context.names.bindings(parent.func):
        return True  # the builtin
    function: ast.expr = parent.func
    while isinstance(function, ast.Attribute):
        function = function.value
    origin = context.names.origin(function) if isinstance(function, ast.Name) else None
    return (origin or "").partition(".")[0] in _CODE_PACKAGES


def _code(context: Context) -> Iterator[tuple[int, int]]:
    for command in commands_of(context):
        yield from _behind_option(command)
        for word in (*command.assignments, *command.words):
            if (" " in word.text or "\n" in word.text) and _READS_AS_PYTHON.search(word.text):
                if not prints_text(command) or _INTO_PYTHON.match(context.text, command.words[-1].end):
                    yield word.start, word.end
    for heredoc in heredocs_of(context):
        writes = any(_PYTHON_FILE.search(word.text) for word in heredoc.command.words)
        if writes or _interpreter(heredoc.command) >= 0:
            yield heredoc.start, heredoc.end


def _behind_option(command: Command) -> Iterator[tuple[int, int]]:
    """Yield the code that a command gives to an interpreter with `-c`, or to `-m timeit`."""
    at = _interpreter(command)
    words: tuple[Word, ...] = command.words[at + 1 : at + 1 + _FURTHEST] if at >= 0 else ()
    for option, word in pairwise((*words, Word("", 0, 0))):
        if (option.text, word.text) == ("-m", _TIMER):
            yield from ((code.start, code.end) for code in command.words if code.start > word.end)
            return
        match = _RUNS_CODE.match(option.text)
        if match is not None:
            yield (option.start, option.end) if match["code"] else (word.start, word.end)
            return


def _interpreter(command: Command) -> int:
    """Return the index of the word that names a Python interpreter, or a variable that may; -1 where none does."""
    for index, word in enumerate(command.words):
        if _PYTHON.match(word.value.rpartition("/")[2].lstrip("@-")):
            return index
    for index, word in enumerate(command.words):
        if "$" in word.text[:3] and "PY" in word.text.upper():
            return index
    return -1
