"""Files that a program executes in its own place: `exec(open("settings.py").read())`."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from torchferry.source.flow.syntax import string_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile


def executes_files(file: PythonFile) -> bool:
    """Whether a file takes its constants from the command line, or from files that it executes."""
    return "globals()" in file.source.text or "exec(open(" in file.source.text


def executed_files(file: PythonFile) -> Iterator[str]:
    """Yield the files that a file executes by their written names: `exec(open("settings.py").read())`."""
    for callee in file.names.get("exec", ()):
        call = file.parents.get(callee)
        for part in nodes_in(call) if isinstance(call, ast.Call) and call.func is callee else ():
            path = string_value(part) if isinstance(part, ast.expr) else None
            if path is not None and path.endswith(".py"):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(file.path), path))
