"""A setting of another library that selects CUDA: `accelerator: gpu`, `distributed_type: MULTI_GPU`.

The target's table has the value that the library expects on the target. If it is unknown, the finding says so.

Why: The library looks for CUDA cards and stops, or trains on the CPU.

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
from torchferry.rules.config.device_setting import CONFIG_KINDS, settings_of_program

_SETTINGS = (
    (lazy_regex(r"distributed_type\Z"), lazy_regex(r"MULTI_GPU\Z"), "accelerate.distributed_type.MULTI_GPU"),
    (lazy_regex(r"accelerator\Z"), lazy_regex(r"gpu\Z"), "lightning.accelerator.gpu"),
    (lazy_regex(r"accelerator\Z"), lazy_regex(r"cuda\Z"), "lightning.accelerator.cuda"),
    (lazy_regex(r"accelerator\Z"), lazy_regex(r"(?:ddp\w*|dp|horovod)\Z"), "lightning.accelerator.gpu"),
    (lazy_regex(r"gpus\Z"), lazy_regex(r"(?!0\Z|null\Z|None\Z|~\Z|false\Z).+\Z"), "lightning.accelerator.gpu"),
    (
        lazy_regex(r"_?attn_implementation\Z"),
        lazy_regex(r"flash_attention_2\Z"),
        "transformers.attn_implementation.flash_attention_2",
    ),
    (
        lazy_regex(r"_?attn_implementation\Z"),
        lazy_regex(r"flash_attention_3\Z"),
        "transformers.attn_implementation.flash_attention_3",
    ),
)
"""Key, value, and the row of `frameworks.toml` that speaks of them."""


class FrameworkSetting(Rule):
    """Finds settings of other libraries that mean CUDA."""

    CODE = "CFG103"
    EFFECT = Effect.RAISES
    WORDS = ("MULTI_GPU", "accelerator", "attn_implementation", "gpus")
    KINDS = CONFIG_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting."""
        for setting in settings_of_program(context):
            for key, value, name in _SETTINGS:
                if not key.match(setting.key) or not value.match(setting.value):
                    continue
                if setting.key == "gpus" and not any("trainer" in part.lower() for part in setting.path):
                    continue  # elsewhere a number of cards, which means nothing by itself
                row = context.target.row("frameworks", name)
                span = (setting.start, setting.end)
                values = {"key": setting.key, "value": setting.value, "target": context.target.title}
                if row.status == "unknown":
                    message = say("setting `{key}: {value}` is for CUDA; the value for {target} is UNKNOWN", **values)
                    yield self.finding(context, span, noted(message, row.remark), Grade.MANUAL)
                elif row.status not in REWRITTEN:
                    message = say("setting `{key}: {value}` is for CUDA, and {target} has no counterpart", **values)
                    yield self.finding(context, span, noted(message, row.remark), Grade.MANUAL)
                elif row.use and row.use != setting.value:
                    message = say("setting `{key}: {value}` is `{use}` on {target}", use=row.use, **values)
                    edits = [Edit(*span, row.use)]
                    yield self.finding(context, span, noted(message, row.remark), Grade.SAFE, edits)
                elif row.remark is not None:
                    message = say("setting `{key}: {value}` stays as it is on {target}", **values)
                    yield self.finding(context, span, noted(message, row.remark), Grade.NOTE, effect=Effect.NOTHING)
