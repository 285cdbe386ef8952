"""What a program computes with and nobody has read here: packages of others, and code that is loaded with a model.

A package that nobody has verified on the target matters little where it draws curves or reads files. Where the
program's model is made by it, whatever is said of the program's own code is only half of the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_METHODS = frozenset({
    "to", "cuda", "half", "bfloat16", "train", "eval", "fit", "predict", "generate", "backward", "parameters",
    "forward", "state_dict", "load_state_dict", "transcribe", "infer", "inference", "learn", "fine_tune",
    "from_pretrained", "fit_one_cycle",
})  # fmt: skip
"""What is asked of models, trainers and pipelines, and of little else."""

_MAKES = lazy_regex(
    r"(?i)model(?!s?_?(?:path|dir|name|url|card|file))|net\Z|(?:\A|_)net|trainer|learner|pipeline|(?:\A|_)train(?:_|\Z)"
    r"|infer|classifier|regressor|optimi[sz]er|diffusion|transformer|attention|encoder\Z|decoder\Z|(?:\A|_)(?:fit|generate|finetune)(?:_|\Z)"
)
"""Names of functions and classes that make or run a model."""


_NO_MODEL = lazy_regex(r"(?i)tokenizer|config|dataset|processor|extractor")
"""Names of what is loaded beside a model: their code touches no device."""


_LONGEST = 40
"""Characters of the code that says whether code is loaded."""


class LoadedCode(NamedTuple):
    """Code that a program loads with a model while it runs.

    Attributes:
        name: The repository that it comes from, else the expression that says so.
        call: The call that loads it.
        when: What must be true for that; None where it is written down.
    """

    name: str
    call: ast.Call
    when: ast.expr | None = None


def loaded_code(file: PythonFile, names: Names) -> Iterator[LoadedCode]:
    """Yield where a file has code loaded: `torch.hub.load("owner/name")`, `from_pretrained(trust_remote_code=True)`.

    What is loaded from the tree itself, with `source="local"`, is none of these.
    """
    for attribute in file.attributes.get("load", ()):
        call = file.parents.get(attribute)
        if isinstance(call, ast.Call) and call.func is attribute and last_name(attribute.value) == "hub":
            if names.qualified(attribute) == "torch.hub.load":
                if not any(part.arg == "source" and string_value(part.value) == "local" for part in call.keywords):
                    yield LoadedCode(_origin(call, "torch.hub.load"), call)
    for keyword in file.keywords.get("trust_remote_code", ()):
        call = file.parents.get(keyword)
        is_written = isinstance(keyword.value, ast.Constant)
        if isinstance(call, ast.Call) and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            if _NO_MODEL.search(ast.unparse(call.func)) is None:
                when = None if is_written else keyword.value
                condition = "True" if when is None else " ".join(file.text(when).split())[:_LONGEST]
                yield LoadedCode(_origin(call, f"trust_remote_code={condition}"), call, when)


def _origin(call: ast.Call, otherwise: str) -> str:
    """Return the repository that a call names, as far as it is written there."""
    named = (part.value for part in call.keywords if part.arg in ("repo_or_dir", "pretrained_model_name_or_path"))
    return string_value(next(iter((*call.args, *named)), None)) or otherwise


def computes_with(file: PythonFile, names: Names, top: str) -> bool:
    """Whether a file makes or runs a model with a package.

    Args:
        file: The file.
        names: Its names.
        top: The package's top-level module.
    """
    for node in _uses(file, names, top):
        parent = file.parents.get(node)
        if isinstance(parent, ast.ClassDef) and node in parent.bases and _is_model(parent, node):
            return True
        if not isinstance(parent, ast.Call) or parent.func is not node:
            continue
        if _MAKES.search(last_name(node)) or last_name(node) in _METHODS:
            return True
        if any(method in _METHODS for method in _methods_of(file, names, parent)):
            return True
    return False


def _is_model(derived: ast.ClassDef, base: ast.expr) -> bool:
    """Whether a class is a model, a trainer or the like, by its name, that of its base, or what it defines."""
    if any(_MAKES.search(name) and not _NO_MODEL.search(name) for name in (derived.name, last_name(base))):
        return True
    return any(isinstance(part, ast.FunctionDef) and part.name in _METHODS for part in derived.body)


def _uses(file: PythonFile, names: Names, top: str) -> Iterator[ast.expr]:
    """Yield the uses of what a package has, those included that only its `*` can bind."""
    for reference in names.references(top):
        if not reference.is_import and isinstance(reference.node, ast.expr):
            yield reference.node
    if any(module.partition(".")[0] == top for _, star in names.stars() for module in star.unread):
        for nodes in file.names.values():
            if names.unread_stars(nodes[0]):
                yield from nodes


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
