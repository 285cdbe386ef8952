"""One Python file, parsed once and walked once into an index that rules ask by name.

The index holds no reference from a node to its parent but a table beside the tree, so that a file's memory
is freed as soon as the file is dropped, without the garbage collector.
"""

from __future__ import annotations

import ast
import sys
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from torchferry.core.finding import Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.source.fstrings import spans_in_fstring
from torchferry.source.nodes import FIELDS, children_of, fields_of
from torchferry.source.text import SourceText

SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""Nodes that open a scope; the module is one too."""

_EXACT_FSTRINGS = sys.version_info >= (3, 12)
"""Whether `ast` gives true positions inside f-strings (PEP 701)."""


class UnparsableError(Exception):
    """The text is not Python that this interpreter can parse; `message` says why, `line` where (or 0)."""

    def __init__(self, message: Message, line: int = 0) -> None:
        super().__init__(message.render("en"))
        self.message = message
        self.line = line


class PythonFile:
    """A parsed Python file and its index.

    Attributes:
        path: Path relative to the project root, with `/`.
        source: The decoded text.
        tree: The syntax tree.
        parents: Parent of every node but the module.
        names: `Name` nodes by identifier.
        attributes: `Attribute` nodes by attribute name.
        keywords: `keyword` nodes (arguments of calls) by name.
        arguments: `arg` nodes (parameters of functions) by name.
        binders: Nodes other than names and parameters that bind a name, by that name: definitions, import
            aliases, exception handlers, patterns, and `global`/`nonlocal` statements.
        strings: String constants, those in f-strings included.
        imports: Import statements.
        functions: Function definitions.
        classes: Class definitions.
        named_expressions: Assignments inside expressions (`:=`).
        matrix_products: Products that are written with `@`.
    """

    def __init__(self, path: str, source: SourceText, tree: ast.Module | None = None) -> None:
        self.path = path
        self.source = source
        self.tree = parse(source.text) if tree is None else tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.names: dict[str, list[ast.Name]] = defaultdict(list)
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        self.keywords: dict[str, list[ast.keyword]] = defaultdict(list)
        self.arguments: dict[str, list[ast.arg]] = defaultdict(list)
        self.binders: dict[str, list[ast.AST]] = defaultdict(list)
        self.strings: list[ast.Constant] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.classes: list[ast.ClassDef] = []
        self.named_expressions: list[ast.NamedExpr] = []
        self.matrix_products: list[ast.BinOp] = []
        self._fstrings: list[ast.JoinedStr] = []
        self._index()
        for table in (self.names, self.attributes, self.keywords, self.arguments, self.binders):
            table.default_factory = None  # from here on, asking for a name must not add it
        self._outermost: dict[ast.AST, ast.JoinedStr | None] = {}
        self._spans: dict[ast.JoinedStr, dict[ast.AST, tuple[int, int]]] = {}
        self._children: dict[ast.AST, tuple[list[tuple[int, int]], list[ast.AST]]] = {}
        self._path: list[_Placed] = []
        self._keys: dict[ast.Dict, dict[ast.AST, ast.expr | None]] = {}
        self._item_reads: dict[str, list[ast.Subscript]] | None = None

    def _index(self) -> None:
        """Register every node, the last child of each first.

        This is the costliest part of reading a file: an only child is taken up at once and never put on the stack, and
        lists of children are put there whole.
        """
        parents, names, attributes, strings = self.parents, self.names, self.attributes, self.strings
        name_kind, constant_kind, attribute_kind, call_kind = ast.Name, ast.Constant, ast.Attribute, ast.Call
        stack: list[ast.AST] = [self.tree]
        pop, push, extend = stack.pop, stack.append, stack.extend
        child: ast.AST
        while stack:
            node: Any = pop()
            kind = type(node)  # `__class__` of a node takes ten times as long
            while kind is attribute_kind:
                attributes[node.attr].append(node)
                child = node.value
                parents[child] = node
                node = child
                kind = type(node)
            if kind is name_kind:
                names[node.id].append(node)
                continue
            if kind is constant_kind:
                if type(node.value) is str:
                    strings.append(node)
                continue
            if kind is call_kind:
                child = node.func
                parents[child] = node
                push(child)
                for children in (node.args, node.keywords):
                    if children:
                        for child in children:
                            parents[child] = node
                        extend(children)
                continue
            fields = FIELDS.get(kind)
            if fields is None:
                fields = fields_of(kind)
            for field in fields:
                value = getattr(node, field)
                if type(value) is list:
                    for child in value:
                        if child is not None:
                            parents[child] = node
                            push(child)
                elif value is not None:
                    parents[value] = node
                    push(value)
            register = _REGISTER.get(kind)
            if register is not None:
                register(self, node)

    def keys_of(self, dictionary: ast.Dict) -> dict[ast.AST, ast.expr | None]:
        """Return the key of each value in a dictionary display; None for what is unpacked with `**`."""
        if dictionary not in self._keys:
            self._keys[dictionary] = dict(zip(dictionary.values, dictionary.keys, strict=True))
        return self._keys[dictionary]

    def item_reads(self, key: str) -> list[ast.Subscript]:
        """Return where an item is read by this string: `config["device"]`, whatever `config` is."""
        if self._item_reads is None:
            self._item_reads = {}
            for constant in self.strings:
                parent = self.parents.get(constant)
                if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load):
                    self._item_reads.setdefault(str(constant.value), []).append(parent)
        return self._item_reads.get(key, [])

    def calls_by_name(self, name: str) -> Iterator[ast.Call]:
        """Yield the calls of what is written `name(...)` or `x.name(...)`, whatever it is, methods first."""
        for callee in (*self.attributes.get(name, ()), *self.names.get(name, ())):
            call = self.parents.get(callee)
            if isinstance(call, ast.Call) and call.func is callee:
                yield call

    def scope(self, node: ast.AST) -> ast.AST:
        """Return the scope whose names `node` sees: a function, lambda, class, comprehension or the module.

        Decorators, default values, annotations, base classes and the first iterable of a comprehension
        belong to the scope around; so does the name that a definition binds.
        """
        child = node
        below = None
        while (parent := self.parents.get(child)) is not None:
            if isinstance(parent, SCOPES) and _inside(parent, child, below, node):
                return parent
            below, child = child, parent
        return child

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that holds `node` (or is it)."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def enclosing_function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost function whose body holds `node`, or None."""
        scope = self.scope(node)
        while not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            around = self.scope(scope)
            if around is scope:  # the module, or a node that is no part of this tree
                return None
            scope = around
        return scope

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class whose body holds `node`, directly or in a method, or None."""
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, ast.ClassDef):
            parent = self.parents.get(parent)
        return parent

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the start and end offset of a node that has a position.

        Raises:
            ValueError: the node lies in an f-string whose parts could not be told apart.
        """
        if not _EXACT_FSTRINGS and self._fstrings:
            joined = self.fstring_of(node)
            if joined is not None and joined is not node:
                return self._span_in(joined, node)
        return self._own_span(node)

    def literal_span(self, constant: ast.Constant) -> tuple[int, int]:
        """Return the span of a string constant: with its quotes, or the raw text of a literal part of an f-string.

        Raises:
            ValueError: the constant lies in an f-string whose parts could not be told apart.
        """
        if self._fstrings and isinstance(self.parents.get(constant), ast.JoinedStr):
            joined = self.fstring_of(constant)
            assert joined is not None
            return self._span_in(joined, constant)
        return self.span(constant)

    def _own_span(self, node: ast.AST) -> tuple[int, int]:
        offset = self.source.offset
        return (
            offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _span_in(self, joined: ast.JoinedStr, node: ast.AST) -> tuple[int, int]:
        spans = self._spans.get(joined)
        if spans is None:
            start, end = self._own_span(joined)
            try:
                spans = spans_in_fstring(joined, self.source.text[start:end], start)
            except ValueError:
                spans = {}
            self._spans[joined] = spans
        if node not in spans:
            raise ValueError("the parts of an f-string could not be told apart")
        return spans[node]

    def fstring_of(self, node: ast.AST) -> ast.JoinedStr | None:
        """Return the outermost f-string that holds `node` (or is it), or None."""
        if not self._fstrings:
            return None
        path: list[ast.AST] = []
        outermost = None
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            if current in self._outermost:
                outermost = self._outermost[current]
                break
            path.append(current)
            current = self.parents.get(current)
        for part in reversed(path):
            if outermost is None and isinstance(part, ast.JoinedStr):
                outermost = part
            self._outermost[part] = outermost
        return outermost

    def node_at(self, start: int, end: int) -> ast.AST | None:
        """Return the innermost node that holds a span of offsets, or None where the file has none.

        Questions in order of position are the cheapest: each goes on from the answer before.
        """
        path = self._path
        while path and not (path[-1].start <= start and end <= path[-1].end):
            path.pop()
        place = self.source.utf8_position(start)
        while (inner := self._child_at(path[-1].node if path else self.tree, start, end, place)) is not None:
            path.append(inner)
        return path[-1].node if path else None

    def _child_at(self, node: ast.AST, start: int, end: int, place: tuple[int, int]) -> _Placed | None:
        """Return the child of a node that holds a span. Children do not overlap: at most one does."""
        exact = _EXACT_FSTRINGS or self.fstring_of(node) is None  # else `ast` tells their places only roughly
        placed = self._children.get(node)
        if placed is None:
            place_of = _position if exact else self.span
            try:
                pairs = sorted(((place_of(child), child) for child in _children(node)), key=itemgetter(0))
            except ValueError:  # an f-string that could not be read
                pairs = []
            placed = self._children[node] = ([place for place, _ in pairs], [child for _, child in pairs])
        positions, children = placed
        index = bisect_right(positions, place if exact else (start, len(self.source.text))) - 1
        if index < 0:
            return None
        child = children[index]
        first, last = self.span(child)
        if child.__class__ in _DECORATED and child.decorator_list:  # type: ignore[attr-defined]
            first = self.span(child.decorator_list[0])[0]  # type: ignore[attr-defined]
        return _Placed(first, last, child) if first <= start and end <= last else None

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        start, end = self.span(node)
        return self.source.text[start:end]

    def location(self, start: int, end: int) -> Location:
        """Return the location of a span of offsets."""
        return Location(self.path, *self.source.position(start), *self.source.position(end))


class _Placed(NamedTuple):
    """A node and the span of offsets that it takes."""

    start: int
    end: int
    node: ast.AST


_DECORATED = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef})


def _position(node: ast.AST) -> tuple[int, int]:
    """Return where a node begins: its decorators are in front of what `ast` says is its place."""
    if node.__class__ in _DECORATED and node.decorator_list:  # type: ignore[attr-defined]
        node = node.decorator_list[0]  # type: ignore[attr-defined]
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one that have a place."""
    for child in children_of(node):
        if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
            continue  # a literal part is what the f-string says, not a node beside its fields
        if hasattr(child, "lineno") and not isinstance(child, ast.FormattedValue):
            yield child
        else:  # arguments, comprehensions, cases: their parts have places, they themselves have none to rely on
            yield from _children(child)


def parse(text: str) -> ast.Module:
    """Parse Python source.

    Raises:
        UnparsableError: this interpreter cannot parse it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the user's strings are not our news
            return ast.parse(text)
    except SyntaxError as error:
        raise UnparsableError(_why_not_parsed(text, error), error.lineno or 0) from None
    except (RecursionError, MemoryError):
        raise UnparsableError(say("nested too deeply for Python's parser")) from None
    except ValueError:  # Python 3.10 and 3.11.3 and before
        raise UnparsableError(say("contains NUL bytes, which Python source may not have")) from None


def _why_not_parsed(text: str, error: SyntaxError) -> Message:
    if "\0" in text:
        return say("contains NUL bytes, which Python source may not have")
    lines = text.splitlines()
    line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    if line.startswith(("<<<<<<<", "=======", ">>>>>>>", "|||||||")):
        return say("contains merge-conflict markers; resolve the merge first")
    if error.msg.startswith(("Missing parentheses in call to 'print'", "Missing parentheses in call to 'exec'")) or (
        "multiple exception types must be parenthesized" in error.msg
        or "leading zeros in decimal" in error.msg
        or "cannot mix" in error.msg
        or line.lstrip().startswith(("print ", "exec "))
    ):
        return say(
            "looks like Python 2 ({error}); convert it to Python 3 first, which the target needs",
            error=error.msg,
        )
    own = sys.version_info[:2]
    needed = next((version for version, sign in _NEWER if version > own and sign.search(line or "")), None)
    if needed is None and error.msg.startswith("f-string") and own < _PLAIN_FSTRINGS:
        needed = _PLAIN_FSTRINGS
    if needed is not None:
        return say(
            "this is syntax of Python {needed}, and torchferry runs on {version}: install and run it with Python "
            "{needed} or later",
            needed="{}.{}".format(*needed),
            version="{}.{}".format(*own),
        )
    return say("Python {version} cannot parse it: {error}", version="{}.{}".format(*own), error=error.msg)


_PLAIN_FSTRINGS = (3, 12)
"""The first Python in which the fields of an f-string are any expression (PEP 701)."""

_NEWER = (
    ((3, 11), lazy_regex(r"^\s*except\s*\*")),  # PEP 654
    ((3, 12), lazy_regex(r"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*\[|^\s*type\s+\w+\s*[\[=]")),  # PEP 695
    ((3, 14), lazy_regex(r"(?<!\w)(?:[tT][rR]?|[rR][tT])[\"']")),  # PEP 750
)
"""Versions of Python, with a sign of what each was the first to take."""


def _register_function(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    file.functions.append(node)
    file.binders[node.name].append(node)


def _register_class(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.ClassDef)
    file.classes.append(node)
    file.binders[node.name].append(node)


def _register_import(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    file.imports.append(node)
    for alias in node.names:
        bound = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.partition(".")[0])
        file.binders[bound].append(alias)


def _register_keyword(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.keyword)
    if node.arg is not None:
        file.keywords[node.arg].append(node)


def _register_argument(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.arg)
    file.arguments[node.arg].append(node)


def _register_named(file: PythonFile, node: ast.AST) -> None:
    name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
    if name is not None:
        file.binders[name].append(node)


def _register_outer(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, (ast.Global, ast.Nonlocal))
    for name in node.names:
        file.binders[name].append(node)


def _register_named_expression(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.NamedExpr)
    file.named_expressions.append(node)


def _register_product(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    if type(node.op) is ast.MatMult:
        file.matrix_products.append(node)


def _register_fstring(file: PythonFile, node: ast.AST) -> None:
    assert isinstance(node, ast.JoinedStr)
    file._fstrings.append(node)


_REGISTER = {
    ast.FunctionDef: _register_function,
    ast.AsyncFunctionDef: _register_function,
    ast.ClassDef: _register_class,
    ast.Import: _register_import,
    ast.ImportFrom: _register_import,
    ast.keyword: _register_keyword,
    ast.arg: _register_argument,
    ast.ExceptHandler: _register_named,
    ast.MatchAs: _register_named,
    ast.MatchStar: _register_named,
    ast.MatchMapping: _register_named,
    ast.NamedExpr: _register_named_expression,
    ast.BinOp: _register_product,
    ast.JoinedStr: _register_fstring,
    ast.Global: _register_outer,
    ast.Nonlocal: _register_outer,
}


def _inside(scope: ast.AST, child: ast.AST, below: ast.AST | None, node: ast.AST) -> bool:
    """Whether `node`, reached from `scope` through `child` and then `below`, is in the scope it opens."""
    if isinstance(scope, ast.ClassDef):
        return isinstance(child, ast.stmt)
    if isinstance(child, ast.arguments):
        # A parameter itself is bound inside; its annotation and its default value are outside.
        return isinstance(below, ast.arg) and below is node
    if isinstance(scope, ast.Lambda):
        return True
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return isinstance(child, ast.stmt)
    generators: list[ast.comprehension] = scope.generators  # type: ignore[attr-defined]
    return not (child is generators[0] and below is generators[0].iter)
