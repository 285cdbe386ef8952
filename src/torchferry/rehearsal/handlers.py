"""What becomes of an exception that is about to be raised: who catches it, and whether the program goes on otherwise.

The frames between the place and the end of the thread are asked from the innermost on: which `try` or
`contextlib.suppress` is around the line that is being executed, and whether it takes exceptions of this class.
Handlers that raise again, or end the program, leave the exception to those around them. What torch, Python's library or
the plugin catch on their own account is no matter of the program's; what they catch around the program's own code, as
a thread or a test runner does, ends that part of the program.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import os
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OWN = str(Path(__file__).parent.parent) + os.sep


class Caught(Enum):
    """What becomes of an exception."""

    NOT = "not caught"
    INSIDE = "caught inside of a library"
    REPORTED = "caught, and only reported"
    HANDLED = "handled"


class Handler(NamedTuple):
    """Who catches an exception.

    Attributes:
        caught: What becomes of it.
        file: The file of the handler; empty where nothing of the program catches it.
        line: The line of its `except`, or of its `with`.
    """

    caught: Caught
    file: str = ""
    line: int = 0


UNCAUGHT = Handler(Caught.NOT)

_RUNNERS = frozenset(
    {"_pytest", "pluggy", "pytest", "xdist", "execnet", "IPython", "ipykernel", "nbclient", "joblib", "ray", "dask",
     "celery", "submitit", "gradio", "starlette", "uvicorn", "flask", "werkzeug", "tornado", "fastapi", "anyio"}
)  # fmt: skip
"""Packages that catch what the code fails with which they run, and report it as its failure."""

_RUNNERS_OF_PYTHON = frozenset({"threading.py", "concurrent", "multiprocessing", "asyncio", "unittest"})
"""The same in Python's own library: modules and packages."""

_ENDS = frozenset({"exit", "_exit", "quit", "abort"})
"""Functions that end the program, by their last name."""

_EXPECTING = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
"""Context managers of tests that ask for an exception, by their last name."""

_SUPPRESSING = _EXPECTING | {"suppress"}
"""Context managers that catch exceptions of the classes that they are given, by their last name."""

_SKIPPING = "importorskip"
"""The function of pytest that skips a test where a module is not there."""

_LARGEST = 1 << 20
"""Characters of a file whose handlers are read: the syntax of a larger one takes long and much memory."""

_REPORTING = frozenset(
    {"print", "warn", "warning", "error", "exception", "info", "debug", "log", "write", "print_exc", "format_exc",
     "print_exception", "critical", "echo", "flush"}
)  # fmt: skip
"""Functions that tell people of an error, by their last name."""


class CodeOwner(Enum):
    """Whose code a file holds, as far as it matters here."""

    PLATFORM = "Python, torch or the plugin"
    OWN = "torchferry"
    RUNNER = "what runs other code and reports its failures"
    OTHER = "the program, or a package that it uses"


def handler_of(frame: FrameType | None, error: type[BaseException], owner_of: Callable[[str], CodeOwner]) -> Handler:
    """Return what becomes of an exception.

    Args:
        frame: The innermost frame: where the exception is raised, or what calls the function of C that raises it.
        error: Its class.
        owner_of: Tells whose code a file holds.
    """
    is_inside = True
    while frame is not None:
        whose = owner_of(frame.f_code.co_filename)
        is_inside = is_inside and whose is not CodeOwner.OTHER
        taken = _taken_in(frame, error) if whose in (CodeOwner.PLATFORM, CodeOwner.OTHER) else None
        if taken is not None and whose is CodeOwner.OTHER:
            caught = Caught.REPORTED if taken.only_reports else Caught.HANDLED
            return Handler(caught, frame.f_code.co_filename, taken.line)
        if taken is not None and is_inside:
            return Handler(Caught.INSIDE)
        if whose is CodeOwner.RUNNER and frame.f_code.co_name == _SKIPPING and frame.f_back is not None:
            return Handler(Caught.HANDLED, frame.f_back.f_code.co_filename, frame.f_back.f_lineno)
        frame = frame.f_back
    return UNCAUGHT


class _Taking(NamedTuple):
    """A handler that takes the exception for good."""

    line: int
    only_reports: bool


def _taken_in(frame: FrameType, error: type[BaseException]) -> _Taking | None:
    for block in _around(frame.f_code.co_filename, frame.f_code, frame.f_lineno):
        if isinstance(block, (ast.With, ast.AsyncWith)):
            name = _suppresses(block, error, frame)
            if name:
                return _Taking(block.lineno, only_reports=name not in _EXPECTING)
            continue
        for handler in block.handlers:
            if handler.type is None or _is_one_of(error, handler.type, frame):
                if _goes_on_outside(handler.body):
                    break  # the others of this block are not asked
                return _Taking(handler.lineno, _only_reports(handler.body))
    return None


_Block = ast.Try | ast.With | ast.AsyncWith


@lru_cache(maxsize=2048)
def _around(file: str, code: CodeType, line: int) -> tuple[Any, ...]:
    """Return the blocks around a line of a function that may catch an exception, the innermost first.

    To Python two codes are equal whose files differ, so that the file is asked for too.
    """
    function = _function(file, code)
    return tuple(reversed([*_blocks(function, line)])) if function is not None else ()


def _blocks(node: ast.AST, line: int) -> Iterator[_Block]:
    """Yield the blocks whose protected statements hold a line, the outermost first."""
    for field, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not isinstance(part, ast.AST) or isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            if not (getattr(part, "lineno", line) <= line <= (getattr(part, "end_lineno", line) or line)):
                continue
            if field == "body" and isinstance(node, (ast.With, ast.AsyncWith)):
                yield node
            elif field == "body" and type(node).__name__ in ("Try", "TryStar"):
                yield node  # type: ignore[misc]
            yield from _blocks(part, line)
            break  # a line lies in one of the statements


@lru_cache(maxsize=512)
def _function(file: str, code: CodeType) -> ast.AST | None:
    """Return the syntax of a function or module, as its file has it now; None where it cannot be had."""
    tree = _tree(file)
    if tree is None or code.co_name == "<module>":
        return tree
    first = code.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", None) or [node]
            if first in (node.lineno, decorators[0].lineno) and getattr(node, "name", "<lambda>") == code.co_name:
                return node
    return None


@lru_cache(maxsize=32)
def _tree(file: str) -> ast.Module | None:
    text = "".join(linecache.getlines(file))
    try:
        return ast.parse(text) if text and len(text) <= _LARGEST else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _is_one_of(error: type[BaseException], named: ast.expr, frame: FrameType) -> bool:
    """Whether an exception is of one of the classes that a handler names; of those that cannot be told it is."""
    parts = named.elts if isinstance(named, ast.Tuple) else [named]
    for part in parts:
        value = _value(part, frame)
        classes = value if isinstance(value, tuple) else (value,)
        if any(not isinstance(each, type) or issubclass(error, each) for each in classes):
            return True
    return False


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return what a dotted name represents in a frame; None where it is something else, or not there.

    Local names are not asked for: that would keep alive what they represent, as long as the function runs.
    """
    if isinstance(node, ast.Name):
        code = frame.f_code
        if node.id in code.co_varnames or node.id in code.co_cellvars or node.id in code.co_freevars:
            return None
        for names in (frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
        return None
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        held = getattr(owner, "__dict__", {})  # without running code of the program's
        return held.get(node.attr)
    return None


def _suppresses(block: ast.With | ast.AsyncWith, error: type[BaseException], frame: FrameType) -> str:
    """Return the name of the context manager that catches an exception; empty where none does."""
    for item in block.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and _last_name(call.func) in _SUPPRESSING:
            if not call.args or any(_is_one_of(error, each, frame) for each in call.args[:8]):
                return _last_name(call.func)
    return ""


def _goes_on_outside(body: list[ast.stmt]) -> bool:
    """Whether a handler ends by raising, or by ending the program."""
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(call, ast.Call) and _last_name(call.func) in _ENDS


def _only_reports(body: list[ast.stmt]) -> bool:
    """Whether a handler does nothing but to tell people of the error."""
    return all(
        isinstance(each, (ast.Pass, ast.Continue))
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        or (
            isinstance(each, ast.Expr)
            and isinstance(each.value, ast.Call)
            and _last_name(each.value.func) in _REPORTING
        )
        for each in body
    )


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


_PACKAGES = ("site-packages", "dist-packages")


class CodeOwners:
    """Tells whose code files hold.

    Args:
        platform: Folders of Python's library, of torch and of the plugin.
    """

    def __init__(self, platform: tuple[str, ...]) -> None:
        self._platform = platform
        # Python's own folder has that of the packages in it
        self._packages = tuple(folder for folder in platform if any(each in folder for each in _PACKAGES)) or ("\0",)
        self._known: dict[str, CodeOwner] = {}

    def __call__(self, file: str) -> CodeOwner:
        """Return whose code a file holds."""
        owner = self._known.get(file)
        if owner is None:
            owner = self._known[file] = self._of(file)
        return owner

    def _of(self, file: str) -> CodeOwner:
        if file.startswith(_OWN):
            return CodeOwner.OWN
        if any(each in file for each in _PACKAGES):
            if _package_of(file) in _RUNNERS:
                return CodeOwner.RUNNER
            is_torch = _package_of(file) in ("torch", "torchgen")
            return CodeOwner.PLATFORM if is_torch or file.startswith(self._packages) else CodeOwner.OTHER
        for folder in self._platform:
            if file.startswith(folder):
                is_runner = file[len(folder) :].split(os.sep, maxsplit=1)[0] in _RUNNERS_OF_PYTHON
                return CodeOwner.RUNNER if is_runner else CodeOwner.PLATFORM
        return CodeOwner.PLATFORM if file.startswith("<frozen") else CodeOwner.OTHER


def _package_of(file: str) -> str:
    parts = file.split(os.sep)
    for number, part in enumerate(parts[:-1]):
        if part in _PACKAGES:
            return parts[number + 1]
    return ""
