"""Do the variables that choose cards say what is meant? A wrong one hides cards without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.backends.cards import default_card
from torchferry.backends.smi import SmiCard
from torchferry.backends.unknown import Unknown
from torchferry.backends.variable_values import card_numbers, hides_every_card, values_of
from torchferry.backends.visible_cards import FOLK, shortfall, unread_variables
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, unknown, unverified, warned

_CUDA = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_LAST_NUMBER = re.compile(r"(?<!\d)(\d+)$")
_NONE = ("void", "none", "")
"""Values with which a container runtime passes no card in."""


@check("environment.visible_devices", rank=1, side="host", title=say_in("check", "variables that choose cards"))
def environment_visible_devices(context: CheckContext) -> Iterator[Result]:
    """Look at the target's variables and at those of CUDA."""
    backend = context.target.backend
    name, outer = backend.VISIBLE_DEVICES, backend.CONTAINER_VISIBLE_DEVICES
    if isinstance(name, Unknown):
        yield unverified(say("which variable selects the cards"))
        return
    value = context.host.environment.get(name)
    judged = [] if value is None else list(_judged(context, name, value.strip()))
    results = [*_of_cuda(context, name, outer), *judged]
    results += [
        warned(what, say("a guide or a script has the name, and the program does not do what it was set for"),
               f"unset {each}", source=context.target.row(FOLK, each).source)
        for each, what in unread_variables(context.target, context.host.environment)
    ]  # fmt: skip
    if isinstance(outer, str) and not context.rehearsed and container_info(context.host).evidence:
        results += _outer(context, outer)
        if not judged and not context.cards and not context.card_nodes:  # else the devices were counted
            results += _within(context, name, outer)
    yield from results
    if not results:
        yield passed(
            say("{name} is {value}", name=name, value=value)
            if value is not None
            else say("{name} is not set: every card is used", name=name)
        )


def _of_cuda(context: CheckContext, name: str, outer: str | Unknown | None) -> Iterator[Result]:
    """Judge the variables of CUDA: the card's own counts, and theirs must not say something else."""
    environment = context.host.environment
    own = environment.get(name)
    source = context.target.backend.source_of("VISIBLE_DEVICES")
    for other in _CUDA:
        value = environment.get(other)
        if not value or other in (name, outer):
            continue
        if other != _CUDA[0]:
            yield warned(
                say("{other} is set but has no effect here", other=other),
                say("these cards use {name}", name=name),
                f"unset {other}",
                source=source,
            )
        elif own is None:
            yield warned(
                say("{other} is set but has no effect here", other=other),
                say(
                    "these cards use {name}; only `torchferry run` copies the list of {other} to it",
                    name=name,
                    other=other,
                ),
                f"unset {other}" if card_numbers(value) is None else f"export {name}={value}; unset {other}",
                source=source,
            )
        elif own.strip() != value.strip():
            yield warned(
                say("{other} is {value}, and {name} is {own}", other=other, value=value, name=name, own=own),
                say(
                    "these cards use {name}, also under `torchferry run`; {other} is ignored",
                    name=name,
                    other=other,
                ),
                f"unset {other}",
                source=source,
            )


def _judged(context: CheckContext, name: str, value: str) -> Iterator[Result]:
    source = context.target.backend.source_of("VISIBLE_DEVICES")
    if hides_every_card(value):
        yield failed(
            say("{name} is `{value}`, which hides every card", name=name, value=value),
            say("a program then finds no device"),
            f"unset {name}",
            source=source,
        )
        return
    numbers = card_numbers(value)
    given = context.host.environment.get(name, value)
    count, named = _devices_present(context)
    is_counted = count > 0 and all(number < count or number not in named for number in numbers or ())
    fewer = shortfall(context.target, name, given, count=count if is_counted else None)
    if fewer is not None:
        yield failed(
            fewer,
            say("a program that starts a process for each card then fails, or several processes use one card"),
            f"export {name}={_corrected(given, count if is_counted else None)}",
            source=source,
        )
        return
    if numbers is None:
        yield warned(
            say("{name} is `{value}`, which is not a list of numbers", name=name, value=value),
            say("not every program can read card names or other texts; parsing may stop at the first one"),
            f"export {name}=0",
            source=source,
        )
        return
    in_any_order = values_of(context.target.row("env", _CUDA[0])).numbers == "any"
    beyond = [number for number in numbers if number >= count]
    if count and any(number not in named for number in beyond):
        worst = max(number for number in beyond if number not in named)
        yield failed(
            _beyond(name, worst, count),
            say("device numbers begin at 0, and no device here has this number"),
            f"export {name}={','.join(map(str, range(count)))}",
            source=source,
        )
    elif count and beyond:
        yield unknown(
            _beyond(name, max(beyond), count),
            f"export {name}={','.join(map(str, range(count)))}",
            advice=say(
                "nobody has verified whether {name} counts the container's cards from 0 or the host's", name=name
            ),
        )
    elif len(set(numbers)) < len(numbers) or (numbers != sorted(numbers) and not in_any_order):
        yield warned(
            say("{name} is {value}: numbers are repeated or out of order", name=name, value=value),
            say("not every plugin accepts repeated or unordered numbers"),
            f"export {name}={','.join(map(str, sorted(set(numbers))))}",
            source=source,
        )


def _corrected(value: str, count: int | None) -> str:
    """Return the cards of a list that are here, in order."""
    numbers = {int(each) for each in re.findall(r"[0-9]{1,9}", value)}
    return ",".join(map(str, sorted(each for each in numbers if count is None or each < count))) or "0"


def _beyond(name: str, number: int, count: int) -> Message:
    return say_plural(
        "{name} names device {number}, but there is {count} device",
        "{name} names device {number}, but there are {count} devices",
        name=name,
        number=number,
        count=count,
    )


def _devices_present(context: CheckContext) -> tuple[int, set[int]]:
    """Return how many devices are here, and the numbers by which the tool or the nodes call them.

    The tool counts devices. Where it shows none, the nodes tell the cards; without them nothing is known, and it is 0.
    """
    if context.cards:
        numbers = {int(card.index) for card in context.cards if card.index.isdigit()}
        return sum(_devices_of(context, card) for card in context.cards), numbers
    numbers = {int(match[1]) for path in context.card_nodes if (match := _LAST_NUMBER.search(path))}
    backend = context.target.backend
    each = backend.DEVICES_PER_CARD
    if isinstance(each, Unknown):
        each = default_card(backend).devices_per_card
    if isinstance(each, Unknown):
        return 0, set()
    return len(numbers) * each, {number * each + part for number in numbers for part in range(each)}


def _devices_of(context: CheckContext, card: SmiCard) -> int:
    """Return how many devices a line of the tool is: a card's number of them, where the line has the memory of all."""
    model, each = context.model(card.name), context.devices_per_card(card)
    if model is None or isinstance(each, Unknown) or isinstance(model.memory, Unknown) or card.total is None:
        return 1
    return each if card.total << 20 >= each * model.memory else 1


def _outer(context: CheckContext, outer: str) -> Iterator[Result]:
    """Judge the container's variable, unless a card was passed in without it, as `--device` and `--privileged` do."""
    if context.card_nodes:
        return
    value = context.host.environment.get(outer)
    if value is None and context.requirements.container.variable_needed:
        yield failed(
            say("{name} is not set in this container", name=outer),
            say("without it, the container runtime passes no card into the container"),
            context.requirements.container.run,
            source=context.requirements.container.source,
            missing=Missing.CARD,
        )
    elif value is not None and value.strip() in _NONE:
        yield failed(
            say("{name} is `{value}`, which hides every card", name=outer, value=value),
            say("the container runtime then passes no card in"),
            context.requirements.container.run or f"docker run -it --env {outer}=0 IMAGE /bin/bash",
            source=context.target.backend.source_of("CONTAINER_VISIBLE_DEVICES"),
        )


def _within(context: CheckContext, name: str, outer: str) -> Iterator[Result]:
    """Compare the program's list with the container's.

    Whether numbers in a container begin at 0 or stay the host's is known of few targets. A number that exists by
    neither count is wrong; one that exists by one of them is not judged.
    """
    inner, given = (_numbers(context.host.environment.get(variable, "")) for variable in (name, outer))
    if not inner or not given or len(context.card_nodes) > len(given):  # more is here than the variable passes in
        return
    count = len(given)
    if isinstance(context.target.backend.DEVICES_PER_CARD, int):
        count *= context.target.backend.DEVICES_PER_CARD
    beyond = [number for number in inner if number >= count]
    values = {"name": name, "outer": outer, "inner": ",".join(map(str, inner)), "given": ",".join(map(str, given))}
    if any(number not in given for number in beyond):
        yield warned(
            say("{name} is {inner}, but {outer} passes {given} into this container", **values),
            say_plural("{count} device is in this container, and it does not have the number {number}",
                    "{count} devices are in this container, and none of them has the number {number}",
                count=count, number=max(number for number in beyond if number not in given)),
            f"unset {name}",
            source=context.target.backend.source_of("CONTAINER_VISIBLE_DEVICES"),
        )  # fmt: skip
    elif beyond:
        yield unknown(
            say("{name} is {inner}, but {outer} passes {given} into this container", **values),
            f"unset {name}",
            advice=say(
                "nobody has verified whether {name} counts the container's cards from 0 or the host's", name=name
            ),
        )


def _numbers(value: str) -> list[int]:
    return card_numbers(value) or []
