"""An expression of a file, and what the parameters in it are where the call that is looked at gives them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from torchferry.core.record import NamedTuple
from torchferry.programs.parameters import Parameter
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


class Expression(NamedTuple):
    """An expression of a file.

    Attributes:
        file: The file.
        names: What names mean there.
        node: The expression.
        given: What is given to parameters of functions around it, where one call of them is looked at.
    """

    file: PythonFile
    names: Names
    node: ast.expr
    given: Mapping[Parameter, Expression] = MappingProxyType({})

    def part(self, node: ast.expr) -> Expression:
        """Return another expression of the same place."""
        return self._replace(node=node)

    @property
    def place(self) -> tuple[str, int, int]:
        """Where it stands."""
        return self.file.path, getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0)
