"""Files that a program names, in a form that is not read here, and that hold a CUDA device: tables, lists of values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import PythonContext

ENDINGS = (".txt", ".csv", ".tsv", ".dat", ".list", ".lst", ".opts", ".params", ".hparams", ".xml", ".config")
"""How the names of such files end."""

_CELL = lazy_regex(r"(?m)(?:^|[,;\t|])[ \t]*[\"']?cuda(?::\d+)?[\"']?[ \t]*\r?(?=$|[,;\t|])")
_VALUE = lazy_regex(r"(?m)(?:^|[=:>])[ \t]*[\"']?cuda(?::\d+)?[\"']?[ \t]*\r?(?=$|[,;<])")
_TABLES = (".csv", ".tsv")


def unread_files_with_device(context: PythonContext) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the texts that name such a file of the project, each with the file."""
    if context.project is None:
        return
    for text in context.file.strings:
        name = str(text.value)
        if "\n" in name or not name.endswith(ENDINGS):
            continue
        path = context.project.unread_file(name, context.path)
        if path is not None and _holds_device(context, path):
            yield text, path


def _holds_device(context: PythonContext, path: str) -> bool:
    assert context.project is not None
    try:
        text = read_text(context.project.root / path, LARGEST_SETTINGS, "replace")
    except OSError:
        return False
    return "cuda" in text and (_CELL if path.endswith(_TABLES) else _VALUE).search(text) is not None
