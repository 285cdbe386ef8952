"""An option that makes another library use CUDA: `--tf32 True`, `--optim adamw_bnb_8bit`.

Programs built on transformers or Lightning take their settings as options, so their scripts contain what is Python
code elsewhere. The target's table has the value that the library expects on the target. If it is unknown, the finding
says so.

Why: The library raises or looks for CUDA, although the Python code was migrated.

References:
- table frameworks
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, options, prints_text

_ATTENTION = "transformers.attn_implementation."
_OPTIMIZER = "transformers.training_arguments.optim."
_ROWS = (
    (lazy_regex(r"_?attn_implementation\Z"), lazy_regex(r"flash_attention_[23]\Z"), _ATTENTION),
    (lazy_regex(r"optim\Z"), lazy_regex(r"adamw_(?:apex_fused|torch_fused|bnb_8bit)\Z"), _OPTIMIZER),
    (lazy_regex(r"accelerator\Z"), lazy_regex(r"(?:gpu|cuda)\Z"), "lightning.accelerator."),
)
"""Option, value, and the rows of `frameworks.toml` that speak of them, by value."""

_TRUE = frozenset({"true", "1", "yes", "True"})


class FrameworkOption(Rule):
    """Finds options that tell other libraries to use CUDA."""

    CODE = "SHL104"
    EFFECT = Effect.RAISES
    WORDS = ("attn_implementation", "attn-implementation", "optim", "accelerator", "tf32")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        for command in commands_of(context):
            if prints_text(command):
                continue
            for name, value, start in options(command):
                if name == "tf32" and value in _TRUE:
                    row = "transformers.training_arguments.tf32"
                    yield from self._report(context, name, value, start, row)
                for option, pattern, rows in _ROWS:
                    if option.match(name) and pattern.match(value):
                        yield from self._report(context, name, value, start, rows + value)

    def _report(self, context: Context, name: str, value: str, start: int, row_name: str) -> Iterable[Finding]:
        row = context.target.row("frameworks", row_name)
        span = (start, start + len(value))
        values = {"name": name, "value": value, "target": context.target.title}
        if row.status == "unknown":
            message = say("option `{name} {value}` is for CUDA; the value for {target} is UNKNOWN", **values)
            yield self.finding(context, span, noted(message, row.remark), Grade.MANUAL)
        elif row.status not in REWRITTEN:
            message = say("option `{name} {value}` is for CUDA, and {target} has no counterpart", **values)
            yield self.finding(context, span, noted(message, row.remark), Grade.MANUAL)
        elif row.use and row.use != value:
            message = say("option `{name}` is `{value}`; on {target} it is `{use}`", use=row.use, **values)
            yield self.finding(context, span, noted(message, row.remark), Grade.SAFE, [Edit(*span, row.use)])
        elif row.remark is not None:
            message = say("option `{name} {value}` stays as it is on {target}", **values)
            yield self.finding(context, span, noted(message, row.remark), Grade.NOTE, effect=Effect.NOTHING)
