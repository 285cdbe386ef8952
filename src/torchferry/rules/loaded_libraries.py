"""Where Python loads a compiled library by its path or name, and the texts of which that is made."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

LOADERS = ("CDLL", "PyDLL", "WinDLL", "OleDLL", "LoadLibrary", "load_library", "dlopen")
"""What loads a compiled library: ctypes, cffi, `torch.ops`, `torch.classes`, `numpy.ctypeslib`."""


class LibraryLoad(NamedTuple):
    """A call that loads a compiled library.

    Attributes:
        call: The call.
        texts: The texts of which its arguments are made, also where variables hold them.
        name: The last part of the path; empty where it is made while the program runs.
    """

    call: ast.Call
    texts: tuple[str, ...]
    name: str


def library_loads(
    file: PythonFile, names: Names, loaders: tuple[str, ...] = LOADERS, further: Iterable[ast.Call] = ()
) -> Iterator[LibraryLoad]:
    """Yield the calls of a file that load something by a path or a name.

    Args:
        file: The file.
        names: Its names.
        loaders: The last names of what loads.
        further: Calls that load, under whatever name.
    """
    for call in (*(call for loader in loaders for call in file.calls_by_name(loader)), *further):
        texts = tuple(_texts_of(file, names, call))
        yield LibraryLoad(call, texts, _last_part(file, names, call.args[0], 0) if call.args else "")


def _texts_of(file: PythonFile, names: Names, call: ast.Call) -> Iterator[str]:
    waiting: list[ast.AST] = [*call.args, *call.keywords]
    read: set[ast.AST] = set()
    while waiting:
        expression = waiting.pop()
        if expression in read:
            continue
        read.add(expression)
        for node in nodes_in(expression):
            text = string_value(node) if isinstance(node, ast.expr) else None
            if text:
                yield text
            if isinstance(node, ast.Name):
                values = (assigned_value(file, binding) for binding in names.bindings(node))
                waiting += [value for value in values if value is not None]


_DEEPEST = 8
"""Variables and calls that are followed to the last part of a path."""

_PATTERNS = ("glob", "iglob", "rglob", "listdir", "iterdir")


def _last_part(file: PythonFile, names: Names, node: ast.expr, depth: int) -> str:
    """Return the last part of a path that is a text of the file: `os.path.join(here, "libfast.so")`, `here / NAME`."""
    if depth > _DEEPEST:
        return ""
    if isinstance(node, ast.Constant):
        return node.value.replace("\\", "/").rpartition("/")[2] if isinstance(node.value, str) else ""
    last: ast.expr | None = None
    if isinstance(node, ast.Call) and last_name(node.func) not in _PATTERNS:
        method = node.func.value if isinstance(node.func, ast.Attribute) else None
        last = node.args[-1] if node.args else method  # `str(path)`, `path.resolve()`
    elif isinstance(node, ast.BinOp):
        last = node.right
    elif isinstance(node, ast.JoinedStr) and node.values:
        last = node.values[-1]
    elif isinstance(node, ast.Name):
        values = [assigned_value(file, binding) for binding in names.bindings(node)]
        parts = {"" if value is None else _last_part(file, names, value, depth + 1) for value in values}
        return parts.pop() if len(parts) == 1 else ""
    return "" if last is None else _last_part(file, names, last, depth + 1)
