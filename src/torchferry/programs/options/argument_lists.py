"""The words that a program gives itself in the place of its command's: lists of options that its code puts together."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.assignments import only_reads
from torchferry.programs.syntax.parameters import Expression
from torchferry.programs.syntax.place_context import is_under_main
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

UNREAD = "$"
"""Stands for a part of a word that the code makes while it runs, as what a shell puts in."""

_DEEPEST = 12
"""Variables and parts of expressions that are followed."""

_MOST = 8
"""Lists that one expression may be; of more nobody can tell."""


class GivenWords(NamedTuple):
    """The words of a list.

    Attributes:
        words: The words, with `UNREAD` for what is made while the program runs.
        by_command: Whether the words of the command are among them.
        is_whole: Whether no others can be among them that may be options.
    """

    words: tuple[str, ...] = ()
    by_command: bool = False
    is_whole: bool = True

    def with_more(self, more: GivenWords) -> GivenWords:
        """Return these words with others behind them."""
        return GivenWords(
            (*self.words, *more.words), self.by_command or more.by_command, self.is_whole and more.is_whole
        )


OF_COMMAND = GivenWords(by_command=True)
_UNTOLD = (GivenWords(is_whole=False),)

Lists = tuple[GivenWords, ...]


def words_of(where: Expression, parameter: Callable[[Expression, ast.arg, int], Lists], depth: int = 0) -> Lists:
    """Return the lists of words that an expression may be.

    Args:
        where: The expression.
        parameter: Returns the same for what a function is given.
        depth: How many expressions were followed to it.
    """
    node = where.node
    if depth > _DEEPEST:
        return _UNTOLD
    if isinstance(node, ast.Constant):
        return (OF_COMMAND,) if node.value is None else _UNTOLD
    if isinstance(node, (ast.List, ast.Tuple)):
        lists: Lists = (GivenWords(),)
        before = ""
        for part in node.elts:
            inner = part.value if isinstance(part, ast.Starred) else None
            word = "" if inner is not None else _word(where, part)
            if inner is not None:
                more = words_of(where.part(inner), parameter, depth + 1)
            elif word == UNREAD and not (before.startswith("-") and "=" not in before) and not _of_argv(where, part):
                more = _UNTOLD  # it may be an option: no option stands before it whose value it is
            else:
                more = (GivenWords((word,)),)
            lists = _joined(lists, more)
            before = word
        return lists
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined(*(words_of(where.part(part), parameter, depth + 1) for part in (node.left, node.right)))
    if isinstance(node, (ast.IfExp, ast.BoolOp)):
        parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
        several = dict.fromkeys(each for part in parts for each in words_of(where.part(part), parameter, depth + 1))
        return tuple(several) if len(several) <= _MOST else _UNTOLD
    if isinstance(node, (ast.Attribute, ast.Subscript)) and _of_argv(where, node):
        return (OF_COMMAND,)
    if isinstance(node, ast.Name):
        return _of_name(where, node, parameter, depth)
    if isinstance(node, ast.Call):
        return _of_call(where, node, parameter, depth)
    if isinstance(node, ast.ListComp):
        takes = isinstance(node.elt, ast.Name) and len(node.generators) == 1
        loop = node.generators[0]
        if takes and isinstance(loop.target, ast.Name) and last_name(node.elt) == loop.target.id:
            return words_of(where.part(loop.iter), parameter, depth + 1)
    return _UNTOLD


def _of_name(
    where: Expression, node: ast.Name, parameter: Callable[[Expression, ast.arg, int], Lists], depth: int
) -> Lists:
    file = where.file
    lists: list[GivenWords] = []
    if where.names.qualified(node) == "sys.argv":
        return (OF_COMMAND,)
    for binding in where.names.reaching_bindings(node):
        value = assigned_value(file, binding)
        if isinstance(binding, ast.arg):
            lists += parameter(where, binding, depth + 1)
        elif value is not None and all(only_reads(file, use) for use in where.names.uses_of(node) if use is not node):
            lists += words_of(where.part(value), parameter, depth + 1)
        elif _is_left_over(file, binding):
            lists.append(OF_COMMAND)
        else:
            return _UNTOLD
    several = tuple(dict.fromkeys(lists))
    return several if several and len(several) <= _MOST else _UNTOLD


def _of_call(
    where: Expression, node: ast.Call, parameter: Callable[[Expression, ast.arg, int], Lists], depth: int
) -> Lists:
    of = node.func.value if isinstance(node.func, ast.Attribute) else None
    first = node.args[0] if node.args else None
    name = last_name(node.func)
    text = string_value(first) if where.names.qualified(node.func) == "shlex.split" else None
    if name == "split" and of is not None and not node.args:
        text = string_value(of)
    if text is not None:
        try:
            return (GivenWords(tuple(shlex.split(text))),)
        except ValueError:
            return _UNTOLD
    if name in ("list", "tuple") and of is None and first is not None:
        return words_of(where.part(first), parameter, depth + 1)
    return words_of(where.part(of), parameter, depth + 1) if name == "copy" and of is not None else _UNTOLD


def _joined(first: Lists, then: Lists) -> Lists:
    joined = tuple(dict.fromkeys(words.with_more(other) for words in first for other in then))
    return joined if len(joined) <= _MOST else _UNTOLD


def _word(where: Expression, node: ast.expr) -> str:
    """Return a word, as far as it is written down; `UNREAD` for what is not."""
    text = string_value(node)
    if text is not None:
        return text
    if isinstance(node, ast.JoinedStr):
        return "".join(string_value(part) or UNREAD for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _word(where, node.left) + _word(where, node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return (string_value(node.left) or UNREAD).partition("%")[0] + UNREAD
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return (string_value(node.func.value) or UNREAD).partition("{")[0] + UNREAD
    return UNREAD


def _of_argv(where: Expression, node: ast.expr) -> bool:
    """Whether an expression is `sys.argv` or a part of it."""
    return where.names.qualified(node.value if isinstance(node, ast.Subscript) else node) == "sys.argv"


def _is_left_over(file: PythonFile, binding: ast.AST) -> bool:
    """Whether a name holds the words that a parser has left: `args, rest = parser.parse_known_args()`."""
    several = file.parents.get(binding)
    statement = file.parents.get(several) if isinstance(several, (ast.Tuple, ast.List)) else None
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(several, (ast.Tuple, ast.List)) or not isinstance(call, ast.Call):
        return False
    return last_name(call.func) == "parse_known_args" and several.elts[-1] is binding and not call.args


# --- what a program does to the words that it is started with ---

CHANGES_WORDS = lazy_regex(
    r"\bargv(?:\[[^\[\]\n]{0,80}\])?[ \t]{0,20}(?:\+?=(?!=)|\.(?:append|extend|insert)\()|[\"'](?:sys\.)?argv[\"']"
)
"""The content of the text of a file that may change the words which its program is started with."""


def added_words(file: PythonFile, names: Names, is_started: bool) -> GivenWords:
    """Return the words that a file may add to those of the command: `sys.argv += ["--fast"]`.

    Args:
        file: The file.
        names: Its names.
        is_started: Whether it is the program's own file.
    """
    words = GivenWords()
    for value, is_list in _added_in(file, names, is_started):
        where = Expression(file, names, value)
        word = ast.copy_location(ast.List([value], ast.Load()), value)
        for each in words_of(where if is_list else where.part(word), lambda *_: _UNTOLD):
            words = words.with_more(each)
    return words


def _added_in(file: PythonFile, names: Names, is_started: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a file stores in `sys.argv`, or adds to it, and whether it is a list rather than one word."""
    for use in (*file.attributes.get("argv", ()), *file.names.get("argv", ())):
        if isinstance(use, ast.Name) and names.qualified(use) != "sys.argv":
            continue
        if isinstance(use, ast.Attribute) and names.qualified(use.value) != "sys":
            continue
        if not is_started and is_under_main(file, use):
            continue
        parent = file.parents.get(use)
        part = parent if isinstance(parent, ast.Subscript) else None
        statement = file.parents.get(part) if part is not None else parent
        if isinstance(statement, ast.AugAssign) and statement.target in (use, part):
            yield statement.value, True
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance((part or use).ctx, ast.Store):
            number = part.slice.value if part is not None and isinstance(part.slice, ast.Constant) else None
            if number != 0 and statement.value is not None:  # the first one is the program's name
                yield statement.value, part is None or isinstance(part.slice, ast.Slice)
        elif isinstance(parent, ast.Attribute) and isinstance(call := file.parents.get(parent), ast.Call):
            if parent.attr in ("append", "extend", "insert") and call.func is parent and call.args:
                yield call.args[-1], parent.attr == "extend"
    for callee in (
        *file.attributes.get("object", ()),
        *file.attributes.get("setattr", ()),
        *file.names.get("patch", ()),
    ):
        call = file.parents.get(callee)
        if isinstance(call, ast.Call) and call.func is callee and len(call.args) > 1:
            if "argv" in [(string_value(each) or "").rpartition(".")[2] for each in call.args[:2]]:
                yield call.args[-1], True
