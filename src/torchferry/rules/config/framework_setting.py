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

_TARGET = "_target_"
"""What hydra calls the class that takes the table."""


_OF_LIGHTNING = "lightning."


def _tables_of_project(context: Context) -> frozenset[tuple[str, ...]]:
    """Return the paths of the tables that are given to a class of the project: `_target_: training.trainer.Trainer`.

    Of none whose file speaks of Lightning: the class may hand on what it is given.
    """
    project = context.project
    tables: set[tuple[str, ...]] = set()
    for setting in settings_of_program(context) if project is not None else ():
        module = setting.value.rpartition(".")[0] if setting.key == _TARGET else ""
        path = project.module_path(module, "") if project is not None and module else None
        source = project.text(path) if project is not None and path is not None else None
        if source is not None and "lightning" not in source.text.lower():
            tables.add(setting.path[:-1])
    return frozenset(tables)


class FrameworkSetting(Rule):
    """Finds settings of other libraries that mean CUDA."""

    CODE = "CFG103"
    EFFECT = Effect.RAISES
    WORDS = ("MULTI_GPU", "accelerator", "attn_implementation", "gpus")
    KINDS = CONFIG_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting."""
        own = _tables_of_project(context)
        for setting in settings_of_program(context):
            for key, value, name in _SETTINGS:
                if not key.match(setting.key) or not value.match(setting.value):
                    continue
                if name.startswith(_OF_LIGHTNING) and setting.path[:-1] in own:
                    continue  # what the project's own trainer makes of it stands in its code
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
