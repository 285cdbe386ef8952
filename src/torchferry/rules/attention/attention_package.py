"""A package of attention kernels for CUDA: flash-attn, xformers, sageattention.

Their kernels are CUDA code, so they neither build nor load on the target. If the target has its own fused attention,
use it; `torch.nn.functional.scaled_dot_product_attention` runs everywhere. Plain attention gives the same result up to
rounding. It stores the whole score matrix, so its memory grows with the square of the length. Where its speed beside
these kernels is published for the target, the finding says it.

An import inside `try`/`except ImportError`, or behind a check for the package, is only noted, because the program
continues without it.

Why: The package cannot be installed or imported on the target, so the program stops at the import.

References:
- table packages
- page advising
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.performance import performance_facts, times_the_speed
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import OncePerBlock, PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import MISSING, Guard, guard_of, without

_PACKAGES = {
    "flash_attn": "flash-attn",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_3": "flash-attn-3",
    "flash_attn_interface": "flash-attn-3",
    "flashinfer": "flashinfer-python",
    "sageattention": "sageattention",
    "xformers": "xformers",
}

ATTENTION_PACKAGES = frozenset(_PACKAGES.values())
"""The distributions whose kernels these are."""


def plain_attention_speed(target: Target) -> Message | None:
    """Return how fast attention by its formula is where such kernels were; None where nobody published it."""
    for fact in performance_facts(target.backend):
        if fact.about == "without_flash" and fact.speed is not None:
            return say(
                "attention by its formula instead: {factor} ({measured})",
                factor=times_the_speed(fact.speed),
                measured=fact.measured,
            )
    return None


def _imports(context: PythonContext, module: str) -> Iterator[ast.AST]:
    """Yield the statements that import a module, and the calls that import it by its name."""
    for reference in context.names.references(module):
        if isinstance(reference.node, ast.alias):
            yield context.file.parents[reference.node]
    for name, call in context.named_imports:
        if name == module or name.startswith(f"{module}."):
            yield call


class AttentionPackage(Rule):
    """Finds imports of attention kernels."""

    CODE = "ATT101"
    EFFECT = Effect.RAISES
    MODULES = tuple(_PACKAGES)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each package in each block that imports it: a program may come to any of them."""
        once = OncePerBlock(context.file)
        for module, package in _PACKAGES.items():
            for statement in _imports(context, module):
                if exemption_reason(context, statement) is not None:
                    continue
                row = context.target.row("packages", package)
                if row.status == "same":
                    continue
                guard = guard_of(context.file, statement, MISSING)
                advice: object = row.remark or say("use torch.nn.functional.scaled_dot_product_attention")
                if row.use:
                    advice = noted(say("use `{use}`", use=row.use), row.remark)
                message = say(
                    "`{module}` contains CUDA kernels that do not run on {target}: {advice}",
                    module=module,
                    target=context.target.title,
                    advice=advice,
                )
                message = noted(message, plain_attention_speed(context.target))
                grade, effect = without(guard, self.EFFECT)
                blocker = guard is Guard.NONE
                span = context.file.span(statement)
                reported = self.finding(context, span, message, grade, effect=effect, blocker=blocker, lacks=package)
                yield from once.first(statement, reported)
