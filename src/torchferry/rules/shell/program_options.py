"""What the project's programs do with an option of their command line, whatever it is called."""

from __future__ import annotations

import ast

from torchferry.source.flow.contexts import Flow
from torchferry.source.flow.syntax import last_name
from torchferry.source.flow.trace import TraceResult
from torchferry.source.lexicon import Lexicon
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_DECLARES = frozenset({"Option", "add_argument", "add_option", "option"})
"""Functions of argparse, optparse, click and typer that declare an option by its name."""

_MOST = 20
"""Files that are looked at for one option; a name that more of them say says little."""


def takes(project: Project, kind: Lexicon, option: str) -> TraceResult:
    """Return whether a program of the project takes a value of a kind by an option: `--card cuda` may be a device.

    Args:
        project: The project.
        kind: The kind of value.
        option: The option's name, without dashes before it, and with underscores in it.
    """
    result = TraceResult.NO
    names = {option, option.replace("_", "-")}
    spelled = {f"-{option}", *(f"--{name}" for name in names)}
    declaring = [path for path in sorted(project.paths) if _quotes(project, path, names, spelled)]
    for path in declaring[:_MOST]:
        loaded = project.file(path)
        if loaded is None:
            continue
        for constant in (each for each in loaded[0].strings if each.value in spelled):
            call = loaded[0].parents.get(constant)
            if isinstance(call, ast.Call) and constant in call.args and last_name(call.func) in _DECLARES:
                results = {result, *_of_declared(*loaded, Flow(*loaded, kind, project), call, option)}
                result = next(
                    each for each in (TraceResult.YES, TraceResult.UNKNOWN, TraceResult.NO) if each in results
                )
    return result


def _quotes(project: Project, path: str, names: set[str], spelled: set[str]) -> bool:
    """Whether a file holds one of the spellings of an option in quotes; most do not even hold its name."""
    source = project.text(path)
    if source is None or not any(name in source.text for name in names):
        return False
    return any(f"{quote}{each}{quote}" in source.text for each in spelled for quote in "\"'")


def _of_declared(file: PythonFile, names: Names, flow: Flow, call: ast.Call, option: str) -> set[TraceResult]:
    """Return what becomes of the default of an option, and of what the program reads by its name."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    target = given.get("dest")
    name = str(target.value) if isinstance(target, ast.Constant) else option
    read: list[ast.expr] = [each for each in file.attributes.get(name, ()) if isinstance(each.ctx, ast.Load)]
    for parameter in file.arguments.get(name, ()):  # of a function that click calls
        scope = file.parents.get(file.parents[parameter])
        read += names.uses(name, scope) if scope is not None else ()
    default = given.get("default")
    return {flow.trace(each).result for each in (*read, *([default] if isinstance(default, ast.Constant) else []))}
