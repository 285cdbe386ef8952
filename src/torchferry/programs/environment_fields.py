"""Fields that pydantic fills from the environment: `class Settings(BaseSettings)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.files import read_regular
from torchferry.programs.object_kinds import ClassObject
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.nodes import nodes_in

_LARGEST = 1_000_000
_FILES = (".env", ".env.example", ".env.sample", ".env.template", "env.example")
"""Files of the project's folder that say the environment, or show what to put into it."""

_ALIASES = frozenset({"env", "alias", "validation_alias"})


def is_filled_by_environment(classes: list[ClassObject]) -> bool:
    """Whether an object of a class, told with its bases, takes its fields from the environment."""
    return any(last_name(base) == "BaseSettings" for each in classes for base in each.node.bases)


def variables_of_field(classes: list[ClassObject], name: str) -> Iterator[str]:
    """Yield the variables of the environment that give a field of a class, told with its bases."""
    prefix = ""
    for each in reversed(classes):
        for node in nodes_in(each.node):
            targets = node.targets if isinstance(node, ast.Assign) else []
            is_keyword = isinstance(node, ast.keyword) and node.arg == "env_prefix"
            if isinstance(node, (ast.Assign, ast.keyword)):
                if is_keyword or any(last_name(target) == "env_prefix" for target in targets):
                    prefix = string_value(node.value) or prefix
            field = node.value if isinstance(node, ast.AnnAssign) and last_name(node.target) == name else None
            for keyword in field.keywords if isinstance(field, ast.Call) else ():
                alias = string_value(keyword.value) if keyword.arg in _ALIASES else None
                if alias is not None:
                    yield from (alias, alias.upper())
    for each_name in (name, prefix + name):
        yield from (each_name.upper(), each_name)


class EnvironmentFiles:
    """Answers which variables the files of a project say: `.env`.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._text: str | None = None

    def say(self, variable: str) -> bool:
        """Whether a file says a variable."""
        if self._text is None:
            self._text = "\n".join(map(self._read, _FILES))
        return re.search(rf"(?mi)^[ \t]*(?:export[ \t]{{1,20}})?{re.escape(variable)}[ \t]*=", self._text) is not None

    def _read(self, name: str) -> str:
        try:
            return read_regular(self._root / name, _LARGEST).decode("utf-8", "replace")
        except OSError:
            return ""
