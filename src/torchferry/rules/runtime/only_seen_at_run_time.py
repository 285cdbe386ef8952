"""A line that went through the redirect when the program ran, and that no rule found.

`torchferry run --report FILE` lists the lines at which an unchanged program reached the card; `--seen FILE` compares
them with what the rules found. If only the run saw a line, the device comes from a configuration or an assembled
string, or the name of a function is computed. Find where the value comes from and set it to the target's device. Lines
that the run did not reach are not listed.

If a library requested the device and the line only calls it, the finding is a note: libraries mostly follow the device
of their tensors.

Why: After a rewrite nothing redirects this line any more, and it requests CUDA.

References:
- page running
- page migrating
"""

from __future__ import annotations

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import Message, say, say_in
from torchferry.rules.base import Rule


class OnlySeenAtRunTime(Rule):
    """Reports what a run saw and no rule; which lines these are is known when all files were examined."""

    CODE = "RUN101"
    EFFECT = Effect.RAISES

    def device(self, place: Location, asked: str, times: int, target: Target, snippet: str) -> Finding:
        """Build the finding for a device whose source no rule saw; `asked` is the expression that gave it."""
        message = say(
            "seen at run time: `{asked}` was a CUDA device here ({times}x), and no rule found "
            "its source; look for it (a configuration, a computed string) and set it to "
            "`{device}` on {target}",
            asked=asked,
            times=times,
            device=target.backend.DEVICE_TYPE,
            target=target.title,
        )
        return self._found(place, message, Grade.MANUAL, snippet, self.EFFECT)

    def name(self, place: Location, name: str, times: int, target: Target, snippet: str) -> Finding:
        """Build the finding for a name of torch that no rule saw here."""
        message = say(
            "seen at run time: `{name}` was used here ({times}x), and no rule found how it is "
            "named; its counterpart on {target}: {use}",
            name=name,
            times=times,
            target=target.title,
            use=_counterpart(name, target),
        )
        return self._found(place, message, Grade.MANUAL, snippet, self.EFFECT)

    def library(self, place: Location, name: str, times: int, target: Target, snippet: str) -> Finding:
        """Build the note for a line that only calls what asked for CUDA."""
        message = say(
            "seen at run time: the code called here requested `{name}` ({times}x); if it follows "
            "its tensors, nothing has to change; if it names CUDA itself, pass `{device}`",
            name=name,
            times=times,
            device=target.backend.DEVICE_TYPE,
        )
        return self._found(place, message, Grade.NOTE, snippet, Effect.UNKNOWN)

    def _found(self, place: Location, message: Message, grade: Grade, snippet: str, effect: Effect) -> Finding:
        return Finding(self.CODE, place, message, grade, snippet=snippet, effect=effect)


def _counterpart(name: str, target: Target) -> Message | str:
    if not name.startswith(cuda.NAMESPACE):
        return f"`{target.backend.DEVICE_TYPE}`"
    row = target.api(name)
    if row.status in REWRITTEN and row.use:
        return f"`{row.use}`"
    return say_in("in place of a name", "nothing") if row.status == "missing" else "UNKNOWN"
