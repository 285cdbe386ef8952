"""What the tables of messages say of the exceptions that ended processes of a command for a reason of their own."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.errors import cause_of_exception
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.rehearsal.aggregate import Aggregate


def explanation(target: Target, aggregate: Aggregate, lang: str) -> Iterator[str]:
    """Yield why the command failed and what to do, where an entry names a cause; nothing where none does."""
    matches = (cause_of_exception(target.backend, error.name, error.text) for error in aggregate.errors if error.text)
    match = next(filter(None, matches), None)
    if match is None:
        return
    for cause in match.causes:
        yield "  " + say("cause: {cause}", cause=masked(cause.render(lang))).render(lang)
    yield from (f"  -> {masked(step.render(lang))}" for step in match.steps())
