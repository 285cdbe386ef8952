"""What libraries that make options of parameters read of them: `fast: Annotated[bool, typer.Option("--quick")]`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator

from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.switches import UNDETERMINED, Value
from torchferry.source.flow.syntax import callee, last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DECLARE = frozenset({"Option", "Argument"})

_FILLING = frozenset({"cli", "parse", "entrypoint", "wrap", "CLI", "auto_cli", "main"})
_FILLING_PACKAGES = frozenset({"tyro", "simple_parsing", "pyrallis", "draccus", "chz", "jsonargparse"})
"""Packages, and functions of theirs, that fill the fields of a class from the command line, also for a function."""


def declaration(node: ast.expr | None) -> ast.Call | None:
    """Return the call that declares an option, as a default or in an annotation: `typer.Option(...)`."""
    if isinstance(node, ast.Subscript) and last_name(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
        return next((call for part in node.slice.elts[1:] for call in [declaration(part)] if call is not None), None)
    return node if isinstance(node, ast.Call) and last_name(node.func) in _DECLARE else None


def flags_of(call: ast.Call) -> list[str]:
    """Return how an option is said: `--quick/--slow`, `-q`."""
    return [text for part in call.args for text in [string_value(part)] if text and text.startswith("-")]


def said_of_declared(
    call: ast.Call, name: str, option_value: Callable[[str], DefaultValue | None]
) -> DefaultValue | None:
    """Return what the command says of a declared option; None where it says nothing.

    Args:
        call: The call that declares it.
        name: The name of the parameter.
        option_value: Returns what the command says of an option or key.
    """
    flags = flags_of(call)
    for flag in flags:
        on, _, off = flag.partition("/")
        for part, means in ((on, True), (off, False)):
            value = option_value(_key(part)) if part else None
            if value is not None:
                return value if means else DefaultValue(False, on)
    return None if any(flag.startswith("--") for flag in flags) else option_value(name)


def _key(flag: str) -> str:
    return flag if len(flag) == 2 else flag.lstrip("-").replace("-", "_")


def words_behind(arguments: Iterator[str | None], names: Collection[str]) -> DefaultValue | None:
    """Return that nobody can tell a parameter where the command has words that no option precedes.

    Args:
        arguments: The words of the command, in their order.
        names: What the first of them may be without being given to the function: its name, or that of a command.
    """
    first = next(arguments, None)
    if first in names:
        first = next(arguments, None)
    return DefaultValue(UNDETERMINED) if first is not None and not first.startswith("-") else None


def fills_class(qualified: str) -> bool:
    """Whether a name is that of a function which fills a class from the command line: `tyro.cli`, `draccus.wrap`."""
    package, _, _ = qualified.partition(".")
    return package in _FILLING_PACKAGES and qualified.rpartition(".")[2] in _FILLING


def filled_under(
    file: PythonFile, names: Names, function: ast.FunctionDef | ast.AsyncFunctionDef, argument: ast.arg
) -> str | None:
    """Return how options begin that fill a class for a parameter; None where no decorator and no call does.

    A decorator fills the one class that the function takes: `@draccus.wrap()`. What is given the function makes an
    option of each parameter: `tyro.cli(main)`.
    """
    if any(fills_class(names.qualified(callee(each)) or "") for each in function.decorator_list):
        return ""
    for use in file.names.get(function.name, ()):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and use in call.args[:1] and fills_class(names.qualified(call.func) or ""):
            return f"{argument.arg}."
    return None


_DEFAULT = re.compile(r"\[default:[ \t]{0,20}([^\]\n]{0,200})\]", re.IGNORECASE)


def docopt_text(file: PythonFile, names: Names, node: ast.expr) -> str | None:
    """Return the text that docopt reads where an expression is what it gives back; else None."""
    if isinstance(node, ast.Name):
        bindings = names.reaching_bindings(node)
        value = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
        return docopt_text(file, names, value) if isinstance(value, ast.Call) else None
    if not isinstance(node, ast.Call) or (names.qualified(node.func) or "").partition(".")[0] != "docopt":
        return None
    given = next((each.value for each in node.keywords if each.arg == "doc"), node.args[0] if node.args else None)
    if last_name(given) == "__doc__" if given is not None else False:
        return ast.get_docstring(file.tree)
    if isinstance(given, ast.Name):
        bindings = names.reaching_bindings(given)
        given = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
    return string_value(given)


def docopt_flags(text: str, flag: str) -> list[str]:
    """Return by what a command says an option, as commands are asked: `fast`, and `-f` where both are on one line."""
    lines = (line.split() for line in text.split("\n") if line.lstrip().startswith("-"))
    alternatives = [
        words[:3] for words in lines if any(word.partition("=")[0].rstrip(",") == flag for word in words[:3])
    ]
    short = [word.rstrip(",") for words in alternatives for word in words if re.fullmatch(r"-[A-Za-z],?", word)]
    return [flag.lstrip("-").replace("-", "_"), *short]


def docopt_default(text: str, flag: str) -> Value:
    """Return what an option is where the command does not say it; `UNDETERMINED` where the text does not tell."""
    lines = text.split("\n")
    pattern = re.compile(rf"{re.escape(flag)}(?P<value>[= ](?:<[^>\n]{{1,80}}>|[A-Z]{{2,40}}\b))?(?![\w-])")
    for number, line in enumerate(lines):
        declared = pattern.search(line) if line.lstrip().startswith("-") else None
        if declared is None:
            continue
        descriptions = [line[declared.end() :]]
        for more in lines[number + 1 :]:
            if not more.strip() or more.lstrip().startswith("-"):
                break
            descriptions.append(more)
        default = _DEFAULT.search("\n".join(descriptions))
        return default[1] if default is not None else None if declared["value"] else False
    usage = next((match for line in lines for match in [pattern.search(line)] if match is not None), None)
    in_brackets = re.search(rf"\[[^\[\]\n]{{0,200}}{re.escape(flag)}", text) is not None
    return UNDETERMINED if usage is None or not in_brackets else None if usage["value"] else False
