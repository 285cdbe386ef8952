"""Where an import goes: after the first top-level import of torch, else behind the imports at the top."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache

from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.lines import line_matches
from torchferry.source.nodes import nodes_in

_AHEAD = r"(?:(?:import|from)[ \t][^;#\n\r'\"]*;[ \t]*)*"
"""Imports ahead of one in the same line: `import os; import torch`."""

_BESIDE = r"(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*"
"""Modules ahead of one in the same statement: `import os, numpy as np, torch`."""

_TORCH_IMPORT = lazy_regex(
    rf"^{_AHEAD}(?:import[ \t]+{_BESIDE}torch(?!\w)|from[ \t]+torch(?:\.[\w.]+)?[ \t]+import\b)", re.MULTILINE
)
_LONGEST_STATEMENT = 60
"""Lines that one import statement may span before it is taken for something else."""


def binds_module(text: str, module: str) -> bool:
    """Whether the text has a top-level line after which the name `module` means that module."""
    if module not in text:  # a line that has it is looked for where there may be one
        return False
    pattern = rf"^{_AHEAD}import[ \t]+{_BESIDE}{re.escape(module)}(?:\.\w+)*[ \t]*(?:[,;#\r]|$)"
    return re.search(pattern, text, re.MULTILINE) is not None or any(
        isinstance(node, ast.Import)
        and any(alias.asname is None and alias.name.partition(".")[0] == module for alias in node.names)
        for node in _run_when_imported(text, module)
    )


def binds_by(text: str, statement: str) -> bool:
    """Whether the text binds what a statement `from package import module` does, at its top level."""
    owner, _, name = statement.removeprefix("from ").partition(" import ")
    if owner not in text or name not in text:
        return False
    pattern = rf"^from[ \t]+{re.escape(owner)}[ \t]+import[ \t]+(?:[\w ]+,[ \t]*)*{re.escape(name)}[ \t]*(?:[,;#\r]|$)"
    return re.search(pattern, text, re.MULTILINE) is not None


def imports_module(text: str, module: str) -> bool:
    """Whether the text imports `module`, or something of it, when it is imported itself.

    An import under `try` or `with` does; so does one under a condition that speaks of the module's device.
    """
    if module not in text:
        return False
    pattern = rf"^{_AHEAD}(?:import[ \t]+{_BESIDE}|from[ \t]+){re.escape(module)}\b"
    return re.search(pattern, text, re.MULTILINE) is not None or any(
        _imports(node, module) for node in _run_when_imported(text, module)
    )


def _imports(node: ast.stmt, module: str) -> bool:
    """Whether a statement imports a module or something of it, by name or by its text."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if not node.level else []
    elif isinstance(node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Call):
        called, argument = ast.unparse(node.value.func), node.value.args[:1]
        is_import = called in ("importlib.import_module", "import_module", "__import__")
        names = [part.value for part in argument if is_import and isinstance(part, ast.Constant)]  # type: ignore[misc]
    else:
        return False
    return any(name == module or str(name).startswith(f"{module}.") for name in names)


@lru_cache(maxsize=16)
def _run_when_imported(text: str, module: str) -> tuple[ast.stmt, ...]:
    """Return the statements of a text that run when it is imported and speak of a module, those in `try` included."""
    try:
        waiting = list(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    kind = module.partition(".")[0].rpartition("_")[2]
    statements: list[ast.stmt] = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Try, ast.With)):
            waiting += node.body
            waiting += [*node.orelse, *node.finalbody] if isinstance(node, ast.Try) else []
        elif isinstance(node, ast.If) and kind in ast.unparse(node.test).lower():
            waiting += node.body
        elif isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)):
            statements.append(node)
    return tuple(statements)


def has_torch_import(text: str) -> bool:
    """Whether the text has a top-level line that imports torch or something of it."""
    return any(line_matches(_TORCH_IMPORT, "torch", text))


def behind_path_changes(text: str) -> int:
    """Return the offset after the last statement at the top of a program that changes `sys.path`; 0 where none does.

    Behind it the project's own modules can be imported, and ahead of it perhaps not.
    """
    if "sys.path" not in text:
        return 0
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0
    line = 0
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if any(_changes_path(node) for node in nodes_in(statement)):
            line = statement.end_lineno or line
    return _line_start(text, line + 1) if line else 0


def _changes_path(node: ast.AST) -> bool:
    changed: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changed = node.func.value if node.func.attr in ("append", "insert", "extend") else None
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        changed = node
    return changed is not None and ast.unparse(changed) == "sys.path"


def first_use_when_imported(text: str, offsets: Iterable[int]) -> int | None:
    """Return where the first top-level statement begins that has one of some offsets and runs it with the import.

    The body of a function runs later. None where there is none, or the text does not parse.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = sorted({text.count("\n", 0, offset) + 1 for offset in offsets})
    for statement in body:
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
        inside = [line for line in lines if first <= line <= (statement.end_lineno or first)]
        later = _lines_run_later(statement) if inside else set()
        if any(line not in later for line in inside):
            return _line_start(text, first)
    return None


def _lines_run_later(statement: ast.stmt) -> set[int]:
    """Return the lines that bodies of functions have to themselves."""
    lines: set[int] = set()
    for node in nodes_in(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            head = max(
                [
                    node.lineno,
                    *(part.end_lineno or 0 for part in nodes_in(node.args) if isinstance(part, (ast.expr, ast.arg))),
                ]
            )
            first = max(node.body[0].lineno, head + 1)
            if node.body[0].lineno == node.lineno:  # `def f(): return x`
                first = node.lineno if not (node.args.defaults or node.args.kw_defaults) else first
            lines.update(range(first, (node.end_lineno or first) + 1))
    return lines


def import_edit(
    text: str, modules: list[str], newline: str, ahead_of: str = "", behind: int = 0, uses: Iterable[int] = ()
) -> Edit | None:
    """Return the edit that imports `modules`, one a line, or None where the text has no place for it.

    A module may also be a whole statement, such as `from package import module`.

    The place is after the first import of torch that is at the top level, so that torch is imported
    when the plugin is; without one, behind the docstring, `__future__` imports and the imports at the top.
    It goes before an import of `ahead_of`, a module below torch that exists only once `modules` are imported.
    A line `import a` is valid where the statement before it ends, so the rest of the text is not parsed. It goes behind
    `behind`, the beginning of a line, and ahead of the first of `uses`, offsets, that runs when the text is imported.
    """
    edit = _import_edit(text, modules, newline, ahead_of, behind)
    ahead = [use for use in uses if edit is not None and use < edit.start]
    first = first_use_when_imported(text, ahead) if ahead else None
    if edit is None or first is None or first >= edit.start:
        return edit
    return _edit(text, first, modules, newline)


def _import_edit(text: str, modules: list[str], newline: str, ahead_of: str, behind: int) -> Edit | None:
    for match in line_matches(_TORCH_IMPORT, "torch", text):
        if ahead_of and re.compile(rf"(?:from|import)[ \t]+{re.escape(ahead_of)}\b").match(text, match.start()):
            if _statement_end(text, match.start()) is not None:
                return _edit(text, match.start(), modules, newline)
        end = _statement_end(text, match.start())
        if end is not None:
            return _edit(text, max(end, behind), modules, newline)
    end = header_end(text)
    return None if end is None else _edit(text, max(end, behind), modules, newline)


def first_import_edit(text: str, modules: list[str], newline: str) -> Edit | None:
    """Return the edit that imports `modules` ahead of all other imports, or None where the text does not parse.

    The place is behind the docstring and `from __future__` imports, which must stay first; in a notebook, behind the
    magics at its top too, in the cell of the first Python statement.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    ahead = 0
    while ahead < len(body) and (_is_future(body[ahead]) or _is_text(body[ahead], ahead) or _is_masked(body[ahead])):
        ahead += 1
    if ahead == 0:
        return _edit(text, _behind_comments(text), modules, newline)
    if not any(map(_is_masked, body[:ahead])):
        return _edit(text, _line_start(text, (body[ahead - 1].end_lineno or 0) + 1), modules, newline)
    if ahead == len(body):
        return None
    at = _line_start(text, body[ahead].lineno)
    edit = _edit(text, at, modules, newline)
    return edit._replace(end=at + 1, text=edit.text + text[at])  # taking a character binds it to this cell


def _line_start(text: str, line: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = _next_line(text, start)
    return start


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_text(statement: ast.stmt, index: int) -> bool:
    return (
        index == 0
        and isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_masked(statement: ast.stmt) -> bool:
    """Whether a statement represents a magic of a notebook."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and type(statement.value.value) is int
        and statement.value.value == 0
    )


def _edit(text: str, at: int, modules: list[str], newline: str) -> Edit:
    lines = "".join(f"{module if ' ' in module else f'import {module}'}{newline}" for module in modules)
    if at and text[at - 1] not in "\r\n":
        return Edit(at, at, newline + lines.removesuffix(newline))
    return Edit(at, at, lines)


def _statement_end(text: str, start: int) -> int | None:
    """Return where the line after the import statement at `start` begins; None if that is no statement.

    The text up to there parses, and its last statement is the import, only if `start` is really code: in a
    docstring the text before would not parse.
    """
    end = start
    for _ in range(_LONGEST_STATEMENT):
        end = _next_line(text, end)
        is_import = _ends_with_import(text[:end])
        if is_import is not None:
            return end if is_import else None
        if end == len(text):
            return None
    return None


@lru_cache(maxsize=16)
def _ends_with_import(text: str) -> bool | None:
    """Whether the last statement of a text is an import; None where the text ends within a statement."""
    # The head of a file is asked for before and after its fixes, which seldom change it.
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    except (ValueError, RecursionError, MemoryError):
        return False
    return bool(body) and isinstance(body[-1], (ast.Import, ast.ImportFrom))


def _next_line(text: str, at: int) -> int:
    newline = text.find("\n", at)
    if newline < 0:
        newline = text.find("\r", at)
    return len(text) if newline < 0 else newline + 1


def header_end(text: str) -> int | None:
    """Return the offset behind the docstring, `__future__` imports and the imports at the top."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    line = 0
    for index, statement in enumerate(tree.body):
        docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            break
        line = statement.end_lineno or line
    end = 0
    if line == 0:
        return _behind_comments(text)
    for _ in range(line):
        end = _next_line(text, end)
    return end


def _behind_comments(text: str) -> int:
    """Return the offset behind the comments at the top: an interpreter line, a coding cookie, a licence."""
    end = 0
    while text.startswith("#", end):
        end = _next_line(text, end)
    return end
