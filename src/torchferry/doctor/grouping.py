"""Failures that have one cause: it is named once, with what mends it, and each of them refers to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchferry.core.messages import Bilingual, Message, say
from torchferry.doctor import detection
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.engine import Diagnosis
from torchferry.doctor.result import CheckStatus, Missing, Result

_SPEAKERS = ("node.present", "driver.pci", "driver.module", "sdk.installed", "python.torch", "python.plugin")
"""Checks that say best why something is missing; on a host the bus comes before the nodes."""

_HOST_SPEAKERS = ("driver.pci", "driver.module", "node.present", *_SPEAKERS[3:])


@dataclass(frozen=True)
class CauseGroup:
    """Failures and warnings with one cause.

    Attributes:
        status: That of the worst of them.
        what: What is missing.
        cause: Why.
        commands: What mends all of them.
        advice: What no command can say.
        source: Where a fact that decided comes from.
        members: The results.
    """

    status: CheckStatus
    what: Message
    cause: Message | Bilingual | None
    commands: tuple[str, ...]
    advice: Message | Bilingual | None
    source: str
    members: tuple[Result, ...]

    def has(self, result: Result) -> bool:
        """Whether a result is one of the group's."""
        return any(result is member for member in self.members)


def grouped(diagnosis: Diagnosis) -> tuple[CauseGroup, ...]:
    """Return the groups of failures, in the order of the report; what fails by itself is in none."""
    context = diagnosis.context
    kinds: dict[Missing, list[Result]] = {}
    for result in diagnosis.results:
        if result.missing is not None and result.status in (CheckStatus.FAILURE, CheckStatus.WARNING):
            kinds.setdefault(result.missing, []).append(result)
    title = context.target.title
    if kinds and _nothing_of_it(context):
        everything = [result for result in diagnosis.results if any(result in members for members in kinds.values())]
        what = say("nothing of {title} was found: no card, driver, toolkit or plugin", title=title)
        return tuple(_group(context, what, everything, advice=say("`-v` shows the commands of each check")))
    if Missing.CARD in kinds:  # without a card nobody needs its driver
        kinds[Missing.CARD] += kinds.pop(Missing.DRIVER, [])
    texts = {
        Missing.CARD: say("no card of {title} was found", title=title),
        Missing.DRIVER: say("the driver of {title} was not found", title=title),
        Missing.TOOLKIT: say("{sdk} was not found", sdk=context.requirements.sdk.name or "SDK"),
        Missing.PLUGIN: say("torch or the plugin was not found"),
    }
    return tuple(group for kind in Missing if kind in kinds for group in _group(context, texts[kind], kinds[kind]))


def _group(
    context: CheckContext, what: Message, members: Iterable[Result], advice: Message | None = None
) -> Iterable[CauseGroup]:
    """Yield the group of several results; one result speaks for itself."""
    results = tuple(members)
    if len(results) < 2:
        return
    order = _SPEAKERS if container_info(context.host).evidence else _HOST_SPEAKERS
    speaker = min(results, key=lambda result: order.index(result.code) if result.code in order else len(order))
    status = (
        CheckStatus.FAILURE if any(result.status is CheckStatus.FAILURE for result in results) else CheckStatus.WARNING
    )
    yield CauseGroup(status, what, speaker.cause, speaker.commands, advice or speaker.advice, speaker.source, results)


def _nothing_of_it(context: CheckContext) -> bool:
    """Whether nothing on the machine speaks for the target."""
    plugin = context.python.has(context.target.backend.PLUGIN)
    if context.rehearsed or context.cards or context.sdk_version[0] or plugin:
        return False
    return not detection.signs(context.host, context.target.name)
