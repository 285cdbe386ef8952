"""What files of gin give the parameters of configurable functions: `run.fast = True`."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from torchferry.core.files import read_regular
from torchferry.programs.around import FunctionNode
from torchferry.source.flow.syntax import callee
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_LARGEST = 1_000_000
_MOST = 400
_MOST_FOLDERS = 4_000
"""Bytes of one file, files, and folders that are looked into; where there are more, nobody can tell what they give."""


def is_configurable(file: PythonFile, names: Names, function: FunctionNode) -> bool:
    """Whether gin gives a function, or the class that it makes objects of, what its calls leave out."""
    owner = file.parents.get(function)
    around_it = owner.decorator_list if isinstance(owner, ast.ClassDef) else []
    for decorator in (*function.decorator_list, *around_it):
        called = callee(decorator)
        if (names.qualified(called) or "").partition(".")[0] == "gin":
            return True
    return False


class GinBindings:
    """Answers what the files of gin in a project say.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._texts: list[str] | None = None

    def may_give(self, parameter: str) -> bool:
        """Whether a file may give a parameter something; also where none is read, as the user then brings one."""
        if self._texts is None:
            self._texts = self._read()
        said = re.compile(rf"(?m)^[^#\n=]{{0,400}}\.{re.escape(parameter)}[ \t]{{0,40}}=")
        return not self._texts or any(said.search(text) for text in self._texts)

    def _read(self) -> list[str]:
        """Return the texts of all files; none where one of them is not read."""
        texts: list[str] = []
        for number, (folder, folders, files) in enumerate(os.walk(self._root)):
            if number > _MOST_FOLDERS:
                return []
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in sorted(files):
                if name.endswith(".gin"):
                    if len(texts) >= _MOST:
                        return []
                    try:
                        texts.append(read_regular(Path(folder, name), _LARGEST).decode("utf-8", "replace"))
                    except OSError:
                        return []
        return texts
