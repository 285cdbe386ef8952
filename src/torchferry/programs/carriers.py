"""Packages that a program computes with: its models, trainers and pipelines are theirs.

A package that nobody has verified on the target matters little where it draws curves or reads files. Where the
program's model is made by it, whatever is said of the program's own code is only half of the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_METHODS = frozenset({
    "to", "cuda", "half", "bfloat16", "train", "eval", "fit", "predict", "generate", "backward", "parameters",
    "forward", "state_dict", "load_state_dict", "transcribe", "infer", "inference", "learn", "fine_tune",
    "from_pretrained",
})  # fmt: skip
"""What is asked of models, trainers and pipelines, and of little else."""

_MAKES = lazy_regex(
    r"(?i)model(?!s?_?(?:path|dir|name|url|card|file))|net\Z|(?:\A|_)net|trainer|learner|pipeline|(?:\A|_)train(?:_|\Z)"
    r"|infer|optimi[sz]er|diffusion|transformer|attention|encoder\Z|decoder\Z|(?:\A|_)(?:fit|generate|finetune)(?:_|\Z)"
)
"""Names of functions and classes that make or run a model."""


def computes_with(file: PythonFile, names: Names, top: str) -> bool:
    """Whether a file makes or runs a model with a package.

    Args:
        file: The file.
        names: Its names.
        top: The package's top-level module.
    """
    for reference in names.references(top):
        if reference.is_import or not isinstance(reference.node, ast.expr):
            continue
        parent = file.parents.get(reference.node)
        if isinstance(parent, ast.ClassDef) and reference.node in parent.bases:
            return True
        if not isinstance(parent, ast.Call) or parent.func is not reference.node:
            continue
        if _MAKES.search(last_name(reference.node)) or last_name(reference.node) in _METHODS:
            return True
        if any(method in _METHODS for method in _methods_of(file, names, parent)):
            return True
    return False


def _methods_of(file: PythonFile, names: Names, call: ast.Call) -> Iterator[str]:
    """Yield the methods that are called of what a call returns, also by the variable that holds it."""
    parent = file.parents.get(call)
    if isinstance(parent, ast.Attribute):
        yield parent.attr
    for target in parent.targets if isinstance(parent, ast.Assign) else ():
        uses: list[ast.expr] = []
        if isinstance(target, ast.Name):
            uses += names.uses_of(target)
        elif isinstance(target, ast.Attribute):
            uses += [use for use in file.attributes.get(target.attr, ()) if isinstance(use.ctx, ast.Load)]
        for use in uses:
            asked = file.parents.get(use)
            if isinstance(asked, ast.Attribute) and isinstance(file.parents.get(asked), ast.Call):
                yield asked.attr
