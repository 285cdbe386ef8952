"""NCCL in a configuration file: `backend: nccl`, `dist_params: {backend: nccl}`.

The target has its own collective library. In a composite value, with a library for each device type, only the CUDA
part changes.

Why: The process group cannot be created: the target has no NCCL.

References:
- table api
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import words_of_options
from torchferry.rules.config.device_setting import CONFIG_KINDS, settings_of_program
from torchferry.rules.distributed.composite_backend import one_backend_alone
from torchferry.rules.family import UnderRedirect
from torchferry.source.lexicon import COLLECTIVE_SPELLING, COMPOSITE_SPELLING, lexicon

_DISTRIBUTED = lazy_regex(r"dist|collective|nccl", re.IGNORECASE)
"""Keys that speak of distributed training without the word `backend`: `dist_lib`, `ddp_dist`."""


class CollectiveSetting(Rule):
    """Finds NCCL in configuration files."""

    CODE = "CFG102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("name the target's collective backend"),)
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = ("nccl", "NCCL")
    KINDS = CONFIG_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting: safe where the key speaks of a backend, else unsafe."""
        backend = context.target.backend
        for setting in settings_of_program(context):
            value = setting.value
            if COLLECTIVE_SPELLING.match(value):
                old, new = value, backend.COLLECTIVE.upper() if value.isupper() else backend.COLLECTIVE
            elif COMPOSITE_SPELLING.match(value):
                old, new = "cuda:nccl", f"{backend.DEVICE_TYPE}:{backend.COLLECTIVE}"
            else:
                continue
            if lexicon("collective").names(words_of_options(context).get(setting.start, "")):
                continue  # SHL101
            message = say(
                "setting `{key}` is `{value}`, which {target} lacks; use `{use}`",
                key=setting.key or "-",
                value=value,
                target=context.target.title,
                use=value.replace(old, new),
            )
            if old == "cuda:nccl" and backend.COMPOSITE_COLLECTIVE is False:
                yield self.finding(
                    context, (setting.start, setting.end), one_backend_alone(context.target), Grade.MANUAL
                )
                continue
            at = setting.start + value.index(old)
            sure = lexicon("collective").names(setting.key) or _DISTRIBUTED.search(setting.key) is not None
            if old == "cuda:nccl" and backend.COMPOSITE_COLLECTIVE is not True:
                sure = False
            grade = Grade.SAFE if sure else Grade.UNSAFE
            yield self.finding(context, (setting.start, setting.end), message, grade, [Edit(at, at + len(old), new)])
