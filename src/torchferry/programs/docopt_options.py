"""Options that docopt reads out of the text at the top of a file: `--mode=<m>  Mode [default: plain].`"""

from __future__ import annotations

import ast
import re

from torchferry.programs.switches import UNSAID, Value
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

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
    """Return by what a command says an option, as commands are asked: `fast`, and `-f` where both stand on one line."""
    lines = (line.split() for line in text.split("\n") if line.lstrip().startswith("-"))
    beside = [words[:3] for words in lines if any(word.partition("=")[0].rstrip(",") == flag for word in words[:3])]
    short = [word.rstrip(",") for words in beside for word in words if re.fullmatch(r"-[A-Za-z],?", word)]
    return [flag.lstrip("-").replace("-", "_"), *short]


def docopt_default(text: str, flag: str) -> Value:
    """Return what an option is where the command does not say it; `UNSAID` where the text does not tell."""
    lines = text.split("\n")
    said = re.compile(rf"{re.escape(flag)}(?P<value>[= ](?:<[^>\n]{{1,80}}>|[A-Z]{{2,40}}\b))?(?![\w-])")
    for number, line in enumerate(lines):
        declared = said.search(line) if line.lstrip().startswith("-") else None
        if declared is None:
            continue
        told = [line[declared.end() :]]
        for more in lines[number + 1 :]:
            if not more.strip() or more.lstrip().startswith("-"):
                break
            told.append(more)
        default = _DEFAULT.search("\n".join(told))
        return default[1] if default is not None else None if declared["value"] else False
    usage = next((found for line in lines for found in [said.search(line)] if found is not None), None)
    in_brackets = re.search(rf"\[[^\[\]\n]{{0,200}}{re.escape(flag)}", text) is not None
    return UNSAID if usage is None or not in_brackets else None if usage["value"] else False
