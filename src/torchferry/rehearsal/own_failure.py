"""What the tables of messages say of the exception that ended a command for a reason of its own."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.errors import errors_of, first_match
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.rehearsal.aggregate import Aggregate


def explanation(target: Target, aggregate: Aggregate, lang: str) -> Iterator[str]:
    """Yield why the command failed and what to do, where an entry names a cause; nothing where none does."""
    error = next(iter(aggregate.errors), None)
    if error is None or not error.text:
        return
    causes = [entry for entry in errors_of(target.backend) if entry.role == "cause"]
    match = first_match(causes, f"{error.name}: {error.text}", ("machine", "log"))
    if match is None:
        return
    for cause in match.causes:
        yield "  " + say("cause: {cause}", cause=masked(cause.render(lang))).render(lang)
    yield "  -> " + masked(match.advice.render(lang))
