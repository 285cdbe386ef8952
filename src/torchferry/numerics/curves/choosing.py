"""Which metric is compared where the user names none, and which of the target's belongs to which of the reference's."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.numerics.curves.reading import Log
from torchferry.numerics.curves.sample import plain

_LIKELY = (
    "loss",
    "train loss",
    "training loss",
    "lm loss",
    "total loss",
    "loss total",
    "train total loss",
    "train loss step",
    "lm loss value",
)
_APART = frozenset({"val", "valid", "validation", "eval", "evaluation", "test"})
_MOST_SHOWN = 40


class Choice(NamedTuple):
    """One metric, under the names that the two sides have for it (as `plain` has them)."""

    reference: str
    target: str

    @property
    def title(self) -> str:
        """Return the name, or both."""
        return self.reference if self.reference == self.target else f"{self.reference} = {self.target}"


def parse(text: str) -> Choice:
    """Return what a user named: `loss`, or `loss=train/loss` where the sides differ."""
    reference, _, target = text.partition("=")
    return Choice(plain(reference), plain(target or reference))


def choose(references: list[Log], targets: list[Log], named: tuple[str, ...], every: bool) -> tuple[Choice, ...]:
    """Return the metrics to compare: those named, with `every` all that all logs have, else the training loss.

    Raises:
        UsageError: a log lacks one that is named, or it does not show which is meant.
    """
    if named:
        chosen = [choice for text in named for choice in _named(text, references, targets)]
        return tuple(dict.fromkeys(chosen))
    for log in (*references, *targets):
        if not log.points:
            raise _nothing(log)
    common = set.intersection(*(set(log.points) for log in (*references, *targets)))
    if every and common:
        return tuple(Choice(name, name) for name in sorted(common))
    likely = [name for name in _LIKELY if name in common][:1]
    if not likely:
        losses = [name for name in sorted(common) if "loss" in name and not name.endswith(("scale", "weight"))]
        likely = [name for name in losses if not _APART & set(name.split())] or losses
    if not likely and len(common) == 1:
        likely = list(common)
    if not likely:
        raise UsageError(
            say("the logs have no loss under the same name"),
            say(
                "name the metric with --metric, as in --metric loss=train/loss; the reference has {one}; "
                "the target has {other}",
                one=_names(references[0]),
                other=_names(targets[0]),
            ),
        )
    return tuple(Choice(name, name) for name in likely)


def _named(text: str, references: list[Log], targets: list[Log]) -> list[Choice]:
    if "*" in text or "?" in text:
        common = set.intersection(*(set(log.points) for log in (*references, *targets)))
        found = sorted(fnmatch.filter(common, plain(text)))
        if not found:
            raise UsageError(say("no metric that all logs have matches `{text}`", text=text), _known(references[0]))
        return [Choice(name, name) for name in found]
    choice = parse(text)
    resolved = []
    for name, logs in ((choice.reference, references), (choice.target, targets)):
        resolved.append(_in_all(name, logs, text))
    return [Choice(*resolved)]


def _in_all(name: str, logs: list[Log], text: str) -> str:
    for log in logs:
        if name not in log.points:
            if not log.points:
                raise _nothing(log)
            raise UsageError(say("{path} has no metric `{text}`", path=log.path, text=text), _known(log))
    return name


def _nothing(log: Log) -> UsageError:
    return UsageError(
        say("no value was found in {path}", path=log.path),
        say("name a pattern with --pattern, such as --pattern 'loss is (?P<value>\\S+)'"),
    )


def _known(log: Log) -> Message:
    return say("metrics in {path}: {names}", path=log.path, names=_names(log))


def _names(log: Log) -> str:
    names = sorted(log.points)
    more = f", ... ({len(names)})" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
