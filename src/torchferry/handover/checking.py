"""Judge a hand-over by the rules of its form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from torchferry import __version__
from torchferry.backends.handover_forms import ZooRule
from torchferry.core.json_text import json_text
from torchferry.core.messages import say, say_plural, translatable
from torchferry.core.progress import counted
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.handover.checks import CHECKS, BrokenRule
from torchferry.handover.handed_over import HandedOver
from torchferry.handover.secret_check import INSISTED, RULE, secrets_in_folder

KIND = "torchferry handover check"
SCHEMA = 1


_MOST_PLACES = 8
"""Places of one rule in the text; JSON has them all."""


class RuleState(str, Enum):
    """What became of a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    ADVICE = "advice"
    """Broken, and only a piece of advice."""

    PERSON = "person"
    """Only a person can judge it: it counts as neither kept nor broken."""


_TITLES = {
    RuleState.BROKEN: translatable("Broken:"),
    RuleState.ADVICE: translatable("Advice:"),
    RuleState.PERSON: translatable("For a person to judge:"),
}


class JudgedRule(NamedTuple):
    """A rule, what became of it, and where it is broken."""

    rule: ZooRule
    state: RuleState
    places: tuple[BrokenRule, ...] = ()


class CheckedHandover(NamedTuple):
    """What a check found.

    Attributes:
        root: The folder that was checked.
        form: The form's name.
        folder: The model's folder below it.
        rules: That no file holds a secret, then every rule of the form, in its order.
    """

    root: str
    form: str
    folder: str
    rules: tuple[JudgedRule, ...]

    @property
    def broken(self) -> list[JudgedRule]:
        """The rules that are required and broken."""
        return [judged for judged in self.rules if judged.state is RuleState.BROKEN]


def check_handover(root: Path, form: str = "", verdict: str = "") -> CheckedHandover:
    """Check a folder that is handed over.

    Args:
        root: The folder of a hand-over, a clone of the zoo, or the model's folder in it.
        form: The form; empty for the one that the hand-over names.
        verdict: What the evidence says, of `evidence.verdict_word`; empty for what the hand-over was written from.

    Raises:
        UsageError: the folder or the form does not exist, or no form is named.
        TorchferryError: its record is damaged.
    """
    handed = HandedOver(root, form, verdict)
    broken, insisted = secrets_in_folder(handed)
    state = RuleState.BROKEN if broken else RuleState.KEPT
    judged = [_judged(handed, rule) for rule in counted(say("checking rules"), handed.form.rules)]
    rules = (JudgedRule(RULE, state, tuple(broken)), *judged)
    if insisted:
        rules = (*rules, JudgedRule(INSISTED, RuleState.PERSON, tuple(insisted)))
    return CheckedHandover(str(root), handed.form.name, handed.folder, rules)


def _judged(handed: HandedOver, rule: ZooRule) -> JudgedRule:
    if rule.level == "person":
        return JudgedRule(rule, RuleState.PERSON)
    places = tuple(CHECKS[rule.check](handed, rule))
    if not places:
        return JudgedRule(rule, RuleState.KEPT)
    return JudgedRule(rule, RuleState.ADVICE if rule.level == "advice" else RuleState.BROKEN, places)


def check_lines(checked: CheckedHandover, lang: str, verbose: bool = False) -> Iterator[str]:
    """Yield the result as text: counts, then what is missing, with place and remedy."""
    counts = {state: sum(judged.state is state for judged in checked.rules) for state in RuleState}
    place = checked.folder or "."
    yield say(
        "{folder}, checked by the rules of {form}: {kept}, {broken}, {person}",
        folder=visible(place),
        form=checked.form,
        kept=say_plural("{count} rule kept", "{count} rules kept", count=counts[RuleState.KEPT]),
        broken=say_plural("{count} broken", "{count} broken", count=counts[RuleState.BROKEN]),
        person=say_plural(
            "{count} for a person to judge", "{count} for a person to judge", count=counts[RuleState.PERSON]
        ),
    ).render(lang)
    for state, title in _TITLES.items():
        judged = [each for each in checked.rules if each.state is state]
        if judged:
            yield ""
            yield say(title).render(lang)
            for each in judged:
                yield from _rule_lines(each, lang, verbose)
    if verbose:
        yield ""
        yield say("Kept:").render(lang)
        for each in checked.rules:
            if each.state is RuleState.KEPT:
                yield from _rule_lines(each, lang, verbose)


def _rule_lines(judged: JudgedRule, lang: str, verbose: bool) -> Iterator[str]:
    rule = judged.rule
    yield f"  {rule.code}  {rule.text.render(lang)}"
    for broken in judged.places[:_MOST_PLACES]:
        where = f"{visible(broken.path)}:{broken.line}" if broken.line else visible(broken.path)
        yield f"      {where + ': ' if where else ''}{visible(broken.message.render(lang))}"
    if len(judged.places) > _MOST_PLACES:
        yield f"      {say('... and {count} more', count=len(judged.places) - _MOST_PLACES).render(lang)}"
    if judged.places and rule.remedy.render(lang):
        yield f"      {say('to do: {remedy}', remedy=rule.remedy).render(lang)}"
    if verbose:
        yield f"      {say('source: {source}', source=rule.source).render(lang)}"


def check_json(checked: CheckedHandover, lang: str) -> str:
    """Return the result as JSON."""
    document = {
        "kind": KIND,
        "schema": SCHEMA,
        "torchferry": __version__,
        "folder": checked.root,
        "form": checked.form,
        "model_folder": checked.folder,
        "rules": [
            {
                "code": judged.rule.code,
                "level": judged.rule.level,
                "state": judged.state.value,
                "text": judged.rule.text.render(lang),
                "remedy": judged.rule.remedy.render(lang),
                "source": judged.rule.source,
                "places": [
                    {"path": place.path, "line": place.line, "message": place.message.render(lang)}
                    for place in judged.places
                ],
            }
            for judged in checked.rules
        ],
        "counts": {state.value: sum(judged.state is state for judged in checked.rules) for state in RuleState},
    }
    return json_text(document)


def codes(rules: Iterable[JudgedRule]) -> list[str]:
    """Return the codes of rules."""
    return [judged.rule.code for judged in rules]
