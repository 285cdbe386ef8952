"""A launcher configured for CUDA cards: `torchrun --nproc_per_node=gpu`, `accelerate launch --multi_gpu`.

`gpu` makes torchrun count the CUDA cards, which do not exist; a number works everywhere. The target's table says
whether accelerate's option supports the target.

Why: torchrun counts no cards and stops, or accelerate looks for CUDA.

References:
- table frameworks
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, options, prints_text


class LauncherOption(Rule):
    """Finds options of launchers that mean CUDA."""

    CODE = "SHL102"
    EFFECT = Effect.RAISES
    WORDS = ("nproc", "multi_gpu", "multi-gpu")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option."""
        target = context.target
        for command in commands_of(context):
            if prints_text(command):
                continue
            for name, value, start in options(command):
                if name == "nproc_per_node" and value in ("gpu", "auto"):
                    message = say(
                        "`{name}={value}` counts CUDA cards, which {target} does not have; write the number of devices",
                        name=name,
                        value=value,
                        target=target.title,
                    )
                    yield self.finding(context, (start, start + len(value)), message, Grade.MANUAL)
            row = target.row("frameworks", "accelerate.launch.multi_gpu")
            for word in command.words:
                if word.text in ("--multi_gpu", "--multi-gpu") and "accelerate" in [w.value for w in command.words]:
                    is_known = row.status != "unknown"
                    message = noted(
                        say("`--multi_gpu` of accelerate on {target}", target=target.title)
                        if is_known
                        else say(
                            "whether `--multi_gpu` of accelerate supports {target} is UNKNOWN", target=target.title
                        ),
                        row.remark,
                    )
                    grade, effect = Grade.MANUAL, self.EFFECT
                    if row.status in REWRITTEN:
                        grade, effect = Grade.NOTE, Effect.NOTHING
                    yield self.finding(context, (word.start, word.end), message, grade, effect=effect)
