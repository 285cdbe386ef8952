"""Operators that a model brings along: sources that are compiled for it, and operators that it registers itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.handover.handed_over import HandedOver
from torchferry.source.kinds import Kind
from torchferry.source.native import code_of

_NATIVE = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp")
_REGISTERED = re.compile(r"\b(?:TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?|PYBIND11_MODULE)[ \t]*\([ \t\n]*(\w+)")
_BUILDERS = re.compile(r"cpp_extension\.(?:load|load_inline|\w*Extension)")
_REGISTERING = frozenset(
    {f"torch.library.{name}" for name in ("Library", "custom_op", "define", "triton_op")}
    | {"torch.ops.load_library", "torch.classes.load_library"}
)
"""What makes operators known to torch: its own `torch.library`, and libraries that register them when loaded."""


class BroughtOperator(NamedTuple):
    """A place where a model has its own operator.

    Attributes:
        path: The file, from the model's folder.
        line: The line, from 1.
        name: What is registered, built or compiled there, as the file writes it.
    """

    path: str
    line: int
    name: str


def brought_operators(handed: HandedOver, kernels: tuple[str, ...]) -> Iterator[BroughtOperator]:
    """Yield the operators of a model's own, in the order of its files.

    Args:
        handed: The model.
        kernels: Ends of the names of the vendor's own kernel sources, such as `.scpp`.
    """
    for path in handed.sizes:
        if path.endswith(kernels):
            yield BroughtOperator(path, 1, path.rpartition("/")[2])
        elif path.endswith(_NATIVE):
            yield from _registered(path, handed.text(path) or "")
        elif path.endswith(".py") and (tree := handed.tree(path)) is not None:
            yield from _called(path, tree)


def _registered(path: str, text: str) -> Iterator[BroughtOperator]:
    code = code_of(Kind.CPP, text)
    for match in _REGISTERED.finditer(code):
        yield BroughtOperator(path, code.count("\n", 0, match.start()) + 1, match[1])


def _called(path: str, tree: ast.Module) -> Iterator[BroughtOperator]:
    meant = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            meant.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom):
            meant.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            first, dot, rest = ast.unparse(node.func).partition(".")
            name = f"{meant.get(first, first)}{dot}{rest}"
            if name in _REGISTERING or _BUILDERS.search(name):
                texts = [one.value for one in (*node.args, *(keyword.value for keyword in node.keywords))
                         if isinstance(one, ast.Constant) and isinstance(one.value, str)]  # fmt: skip
                yield BroughtOperator(path, node.lineno, texts[0] if texts else name)
