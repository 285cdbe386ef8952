"""Errors that are the user's to mend: shown as one message, without a traceback, exit code 2."""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.messages import Message, say


class TorchferryError(Exception):
    """Something the user can mend; `message` says what, where and why, `advice` what to do."""

    def __init__(self, message: Message, advice: Message | None = None) -> None:
        super().__init__(message.render("en"))
        self.message = message
        self.advice = advice

    def lines(self) -> list[str]:
        """Return what the user is shown: the message, then the advice if there is one."""
        return [text.render() for text in (self.message, self.advice) if text is not None]

    def __str__(self) -> str:
        """Return both on one line, as a traceback shows them."""
        return "; ".join(self.lines())


class UsageError(TorchferryError):
    """A name, option or setting that does not exist or does not fit."""


_MOST_NAMES = 40
"""Names that an error lists; torch has more operators than anybody reads."""


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """Build the error for an unknown name, with the nearest known one: ``unknown target `nppu```."""
    import difflib  # imported late: most runs have no wrong name

    names = sorted(set(choices))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    advice = say("known: {names}", names=listed)
    if close:
        advice = say("did you mean `{close}`? (known: {names})", close=close[0], names=listed)
    return UsageError(say("unknown {kind} `{name}`", kind=say(kind), name=name), advice)
