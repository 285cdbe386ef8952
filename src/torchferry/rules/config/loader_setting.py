"""NVIDIA's data loader chosen by a setting: `--data-backend dali-gpu`, `data_loader: dali`.

DALI decodes and augments on NVIDIA cards and does not exist on the target. A program with this setting has another
loader too: choose that one, with more workers, because the CPU now does the work.

Why: DALI is not available on the target, so the program cannot read its data.

References:
- table packages
"""

from __future__ import annotations

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.config.switches import SwitchRule, plain


class LoaderSetting(SwitchRule):
    """Finds settings that choose DALI."""

    CODE = "CFG107"
    EFFECT = Effect.RAISES
    ANSWERS = (say("change the setting"),)
    ROLE = "loader"

    def words(self, target: Target, options: object) -> tuple[str, ...]:
        """The beginning of all values."""
        return ("dali",)

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Leave the choice of another loader to the user."""
        message = say(
            "setting `{name}: {value}` chooses the loader of `{package}`, which {target} does not have",
            package=row.name,
            **plain(name, value, target),
        )
        return Grade.MANUAL, message
