"""A checkpoint loaded without `map_location`.

A checkpoint written on a CUDA machine names `cuda` inside. Without `map_location`, or with None, torch tries to put
its tensors there, and raises on the target; no word in the source gives that away. `torch.load`, `torch.jit.load` and
what loads from a URL do so. `torch.export.load` takes no `map_location`: a program that was exported on CUDA names its
device in its graph, and is exported again. A checkpoint that the migrated program itself wrote loads as it is, and so
do safetensors, Lightning's `load_from_checkpoint`, and the weights that torchvision publishes.

Why: Loading raises on a machine without CUDA, and nothing in the source code shows it.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of
from torchferry.source.names import assigned_value

LOADERS = {
    "torch.load": 1,
    "torch.serialization.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.utils.model_zoo.load_url": 2,
}
"""Functions that load a checkpoint, with the position of `map_location`."""

OF_URLS = frozenset({"torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url"})
"""Those that load a state dict from a URL."""

_EXPORTED = "torch.export.load"

_SAVED_ON_CPU = "https://download.pytorch.org/"
"""Where torchvision's weights are, which its models load without `map_location` on any machine."""


class LoadWithoutMapLocation(Rule):
    """Finds checkpoints that are loaded to where they were saved."""

    CODE = "DEV107"
    EFFECT = Effect.UNKNOWN  # it depends on where the file was written
    WORDS = ("torch.load", "import load", "jit.load", "load_state_dict_from_url", "load_url", "export", "serialization")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a note for each call."""
        for name, call in calls_to(context):
            if name == _EXPORTED:
                message = say(
                    "`{name}` fails on a program that was exported on a CUDA machine and has no "
                    "`map_location`; export such a program again on the CPU",
                    name=name,
                )
                yield self.finding(context, context.file.span(call), message, Grade.NOTE)
            position = LOADERS.get(name)
            if position is None or not _may_be_none(call, position):
                continue
            if name in OF_URLS and _is_saved_on_cpu(context, call):
                continue
            message = say(
                "`{name}` without `map_location` fails on a checkpoint from a CUDA machine; "
                'for such a file pass `map_location="cpu"`',
                name=name,
            )
            yield self.finding(context, context.file.span(call), message, Grade.NOTE)


def _may_be_none(call: ast.Call, position: int) -> bool:
    """Whether `map_location` is absent, None, or None under a condition."""
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return False  # what they hold is not known
    keyword = keyword_of(call, "map_location")
    given = keyword.value if keyword is not None else call.args[position] if len(call.args) > position else None
    branches = (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,)
    return any(branch is None or (isinstance(branch, ast.Constant) and branch.value is None) for branch in branches)


def _is_saved_on_cpu(context: PythonContext, call: ast.Call) -> bool:
    """Whether all that a URL may be is evidently one of torchvision's."""
    keyword = keyword_of(call, "url")
    given = call.args[0] if call.args else keyword.value if keyword is not None else None
    urls = [] if given is None else list(_texts(context, given, 3))
    return bool(urls) and all(url is not None and url.startswith(_SAVED_ON_CPU) for url in urls)


def _texts(context: PythonContext, expression: ast.expr, depth: int) -> Iterator[str | None]:
    """Yield the strings that an expression may be, followed through names and a dictionary; None for another one."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        yield expression.value
    elif isinstance(expression, ast.Subscript) and depth:
        yield from _texts(context, expression.value, depth - 1)
    elif isinstance(expression, ast.Dict):
        for value in expression.values:
            yield from _texts(context, value, depth - 1) if depth else (None,)
    elif isinstance(expression, ast.Name) and depth:
        bindings = context.names.bindings(expression)
        values = [assigned_value(context.file, binding) for binding in bindings]
        for given in values or [None]:
            yield from (None,) if given is None else _texts(context, given, depth - 1)
    else:
        yield None
