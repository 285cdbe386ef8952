"""How Triton kernels are launched: grids that are too large, and options that mean something else on the target.

`num_warps`, `num_stages` and the like describe a card of NVIDIA; the table of the target says what they do there. A
grid that is written down is compared with the most programs that a launch may have.

Why: A launch with too many programs raises. Options without effect make the autotuner try the same kernel again and
again.

References:
- table triton
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from torchferry.backends.triton_target import TABLE, effect_of, grid_limit
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.triton.kernels import launches_of, value_of

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class KernelLaunch(Rule):
    """Finds launches and configurations that the target takes in another way."""

    CODE = "TRI103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("change the launch"),)
    MODULES = ("triton",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each grid that is too large, and one a file for each option."""
        if not isinstance(context.target.backend.TRITON, str):
            return
        met: set[str] = set()
        for keyword in _options(context):
            row = context.target.row(TABLE, f"launch({keyword.arg})")
            if row.remark is None or keyword.arg in met or keyword.arg is None:
                continue
            met.add(keyword.arg)
            message = say("`{option}` of a launch: {note}", option=keyword.arg, note=row.remark)
            yield self.finding(context, context.file.span(keyword), message, Grade.NOTE, effect=effect_of(row))
        limit = grid_limit(context.target)
        if limit is None:
            return
        for launch in launches_of(context):
            programs = _programs(context, launch.grid)
            is_too_large = programs is not None and programs > limit.most
            if not is_too_large or exemption_reason(context, launch.grid) is not None:
                continue
            message = say(
                "`{kernel}` is launched with a grid of {size}: {note}",
                kernel=launch.kernel,
                size=f"{programs:,}",
                note=limit.row.remark or "",
            )
            span = context.file.span(launch.grid)
            yield self.finding(context, span, message, Grade.MANUAL, effect=effect_of(limit.row))


def _options(context: PythonContext) -> Iterator[ast.keyword]:
    """Yield the options of launches and of `triton.Config`, each in order of place."""
    for option in _OPTIONS:
        for keyword in sorted(context.file.keywords.get(option, ()), key=lambda each: (each.lineno, each.col_offset)):
            call = context.file.parents.get(keyword)
            if isinstance(call, ast.Call) and (
                isinstance(call.func, ast.Subscript) or context.names.qualified(call.func) == "triton.Config"
            ):
                yield keyword


def _programs(context: PythonContext, grid: ast.expr) -> int | None:
    """Return how many programs a grid has; None where its text does not tell."""
    sizes = [value_of(context, each) for each in (grid.elts if isinstance(grid, ast.Tuple) else [grid])]
    numbers = [int(size) for size in sizes if size is not None and size.isdigit()]
    return prod(numbers) if len(numbers) == len(sizes) else None
