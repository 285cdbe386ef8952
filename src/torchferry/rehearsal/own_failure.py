"""Why a command failed for its own reason: the tables of messages, and a plugin that is another target's."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.errors import cause_of_exception
from torchferry.backends.registry import load, names
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.rehearsal.aggregate import Aggregate


def plugin_of_another(target: Target, module: str) -> Target | None:
    """Return the target whose plugin a module is, where that is not the one of the rehearsal.

    Args:
        target: What is rehearsed.
        module: What Python did not find; empty for none.
    """
    if not module or module == target.backend.PLUGIN:
        return None
    return next((Target.named(name) for name in names() if module == load(name).PLUGIN), None)


def explanation(target: Target, aggregate: Aggregate, lang: str) -> Iterator[str]:
    """Yield why the command failed and what to do, where an entry names a cause; nothing where none does."""
    module = next((error.module for error in aggregate.errors), "")
    other = plugin_of_another(target, module)
    if other is not None:
        step = say(
            "rehearse what was migrated to it with `torchferry rehearse -t {name}`, or migrate it to {target} first",
            name=other.name,
            target=target.title,
        )
        yield f"  -> {step.render(lang)}"
        return
    matches = (cause_of_exception(target.backend, error.name, error.text) for error in aggregate.errors if error.text)
    match = next(filter(None, matches), None)
    if match is None:
        return
    for cause in match.causes:
        yield "  " + say("cause: {cause}", cause=masked(cause.render(lang))).render(lang)
    yield from (f"  -> {masked(step.render(lang))}" for step in match.steps())
