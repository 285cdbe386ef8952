"""The acceptance of a cluster: cards by the doctor's probe, each link by a sum over two, then all cards at once.

Which hosts meet in which round is settled here, and what their answers mean; `collective_play.py` asks them. A host
that answers badly on all of its links is named itself; a link is named where both of its hosts do well elsewhere.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple

ALL_PAIRS = 8
"""Up to so many hosts each pair is tested; beyond it each host with those at distances of 1, 2, 4, ... in the list."""

SLOW = 0.5
"""A link is slow below this share of the usual bandwidth, a card below this share of the usual speed."""

COMPARED = 3
"""Fewer links, or cards, tell nothing of what is usual: of two that differ, either may be the odd one."""

LATE_MS = 2.0
"""A link is late where a small sum takes four times as long as usual and so many milliseconds more."""


class Link(NamedTuple):
    """Two hosts that add up their numbers; the first is rank 0."""

    first: str
    second: str


class LinkAnswer(NamedTuple):
    """What a link came to: milliseconds of a small sum, gigabytes a second of a large one, or why there are none."""

    link: Link
    latency_ms: float = 0.0
    gigabytes: float = 0.0
    error: str = ""


class CardAnswer(NamedTuple):
    """What a card came to: milliseconds of a product, or what is wrong with it."""

    host: str
    card: str
    compute_ms: float = 0.0
    error: str = ""


class ClusterFinding(NamedTuple):
    """What is slow or broken: `kind` is `link`, `host`, `card` or `cluster`, `name` says which."""

    kind: str
    name: str
    message: Message


class Unjudged(NamedTuple):
    """What answered and was compared with nothing: `kind` is `link` or `card`, `measures` what nobody judged of it."""

    kind: str
    names: tuple[str, ...]
    measures: tuple[str, ...]
    message: Message


class ClusterAnswers(NamedTuple):
    """All that the hosts answered.

    Attributes:
        cards: What their cards came to.
        links: What their links came to.
        everyone: The sum over all cards; None where it was not asked.
        silent: Hosts that did not answer.
        counted: How many cards each host counted.
    """

    cards: tuple[CardAnswer, ...] = ()
    links: tuple[LinkAnswer, ...] = ()
    everyone: LinkAnswer | None = None
    silent: tuple[str, ...] = ()
    counted: Mapping[str, int] = {}


def rounds(hosts: Sequence[str]) -> tuple[tuple[Link, ...], ...]:
    """Return the links that are tested, in rounds in which no host is in two links."""
    count = len(hosts)
    if count <= ALL_PAIRS:
        pairs = [(low, high) for low in range(count) for high in range(low + 1, count)]
        pairs.sort(key=lambda pair: (pair[0] + pair[1]) % max(count - 1, 1))
    else:
        distances = [1 << power for power in range((count // 2).bit_length()) if 1 << power <= count // 2]
        pairs = list(
            dict.fromkeys(
                (min(low, (low + far) % count), max(low, (low + far) % count))
                for far in distances
                for low in sorted(range(count), key=lambda low, far=far: (low // far) % 2)  # type: ignore[misc]
            )
        )
    found: list[dict[int, Link]] = []
    for low, high in pairs:
        place = next((members for members in found if low not in members and high not in members), None)
        if place is None:
            place = {}
            found.append(place)
        place[low] = place[high] = Link(hosts[low], hosts[high])
    return tuple(tuple(dict.fromkeys(members.values())) for members in found)


def judge(answers: ClusterAnswers, at_least: float = 0.0) -> list[ClusterFinding]:
    """Return what is slow or broken, hosts first.

    Args:
        answers: What the hosts answered.
        at_least: Gigabytes a second that each link must have; 0 compares the links with each other alone.
    """
    findings = [ClusterFinding("host", name, say("it does not answer")) for name in answers.silent]
    bad = {answer.link: message for answer in answers.links if (message := _link_problem(answer, answers, at_least))}
    partners: dict[str, set[str]] = {}
    for answer in answers.links:
        partners.setdefault(answer.link.first, set()).add(answer.link.second)
        partners.setdefault(answer.link.second, set()).add(answer.link.first)
    named = set(answers.silent)
    # the host whose links are all bad and which has the most of them, again and again, until links alone are left
    while True:
        left = [link for link in bad if not {link.first, link.second} & named]
        worst = [
            host
            for host, others in partners.items()
            if host not in named
            and len(others - named) > 1
            and sum(host in (link.first, link.second) for link in left) == len(others - named)
        ]
        if not worst:
            break
        host = max(worst, key=lambda name: sum(name in (link.first, link.second) for link in left))
        message = next(bad[link] for link in left if host in (link.first, link.second))
        findings.append(ClusterFinding("host", host, say("all of its links: {problem}", problem=message)))
        named.add(host)
    alone = [link for link in bad if not {link.first, link.second} & named]
    findings += [ClusterFinding("link", f"{link.first} - {link.second}", bad[link]) for link in alone]
    findings += _card_findings(answers, named)
    if answers.everyone is not None and answers.everyone.error:
        findings.append(ClusterFinding("cluster", "*", say("all cards: {error}", error=answers.everyone.error)))
    return findings


def not_judged(answers: ClusterAnswers, at_least: float = 0.0) -> list[Unjudged]:
    """Return the links and cards that answered, but whose figures nothing was compared with.

    Args:
        answers: What the hosts answered.
        at_least: As `judge` was given it; it judges the bandwidth of a link, and nothing else.
    """
    found = []
    links = tuple(f"{row.link.first} - {row.link.second}" for row in answers.links if not row.error)
    if 0 < len(links) < COMPARED and at_least:
        reason = say(
            "the latency of {names} was not judged: fewer than three links answered, so there is nothing to "
            "compare with",
            names=", ".join(links),
        )
        found.append(Unjudged("link", links, ("latency",), reason))
    elif 0 < len(links) < COMPARED:
        reason = say(
            "bandwidth and latency of {names} were not judged: fewer than three links answered, so there is "
            "nothing to compare with; --at-least GB/S judges the bandwidth",
            names=", ".join(links),
        )
        found.append(Unjudged("link", links, ("bandwidth", "latency"), reason))
    heard = [row for row in answers.cards if row.compute_ms and row.host not in answers.silent]
    cards = tuple(f"{row.host} {row.card}".strip() for row in heard)
    if 0 < len(cards) < COMPARED:
        reason = say(
            "the speed of {names} was not judged: fewer than three cards answered, so there is nothing to compare with",
            names=", ".join(cards),
        )
        found.append(Unjudged("card", cards, ("speed",), reason))
    return found


def _link_problem(answer: LinkAnswer, answers: ClusterAnswers, at_least: float) -> Message | None:
    if answer.error:
        return say("broken: {error}", error=answer.error)
    if answer.gigabytes < at_least:
        return say(
            "slow: {found} GB/s; --at-least asks for {wanted}",
            found=f"{answer.gigabytes:.3g}",
            wanted=f"{at_least:.3g}",
        )
    well = [other for other in answers.links if not other.error]
    if len(well) < COMPARED:
        return None  # `not_judged` says so
    # where a host is slow most links may be: the best tell what the network can do
    usual = statistics.median(sorted((other.gigabytes for other in well), reverse=True)[: max(1, len(well) // 2)])
    soon = statistics.median(sorted(other.latency_ms for other in well)[: max(1, len(well) // 2)])
    if answer.gigabytes < SLOW * usual:
        return say("slow: {found} GB/s, others have {usual}", found=f"{answer.gigabytes:.3g}", usual=f"{usual:.3g}")
    if answer.latency_ms > max(4 * soon, soon + LATE_MS):
        return say(
            "high latency: a small sum takes {found} ms, others take {usual}",
            found=f"{answer.latency_ms:.3g}",
            usual=f"{soon:.3g}",
        )
    return None


def _card_findings(answers: ClusterAnswers, named: set[str]) -> Iterator[ClusterFinding]:
    seen: set[tuple[str, str]] = set()
    rows = [row for row in answers.cards if row.host not in answers.silent]
    times = [row.compute_ms for row in rows if row.compute_ms]
    usual = statistics.median(times) if len(times) >= COMPARED else 0.0
    for row in rows:
        message = None
        if row.error:
            # what is known of the host may be the reason; a product needs no link, so its time is the card's alone
            message = say("broken: {error}", error=row.error) if row.host not in named else None
        elif usual and row.compute_ms > usual / SLOW:
            message = say(
                "slow: a matrix product takes {found} ms, others take {usual}",
                found=f"{row.compute_ms:.3g}",
                usual=f"{usual:.3g}",
            )
        if message is not None and (row.host, row.card) not in seen:
            seen.add((row.host, row.card))
            yield ClusterFinding("card", f"{row.host} {row.card}".strip(), message)


def answer_of(link: Link, first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> LinkAnswer:
    """Return what both ends of a link say together; None is an end that said nothing."""
    ends = ((link.first, first), (link.second, second))
    errors = [(host, said["error"]) for host, said in ends if said is not None and said.get("error")]
    if errors:
        host, error = errors[0]
        return LinkAnswer(link, error=f"{host}: {error}")
    silent = [host for host, said in ends if said is None]
    if silent:
        return LinkAnswer(link, error=f"{silent[0]}: no answer")
    both = [said for _, said in ends if said is not None]
    return LinkAnswer(
        link,
        max(float(said.get("latency_ms") or 0.0) for said in both),
        min(float(said.get("gigabytes") or 0.0) for said in both),
    )


def probe_lines(answers: ClusterAnswers, findings: Sequence[ClusterFinding], lang: str) -> Iterator[str]:
    """Yield how many cards of each host computed for the doctor's probe, and which did not."""
    for host, count in answers.counted.items():
        bad = any(finding.name.partition(" ")[0] == host for finding in findings)
        if count and not bad:
            yield say_plural(
                "{host}: {count} card passed the doctor's probe",
                "{host}: {count} cards passed the doctor's probe",
                host=host,
                count=count,
            ).render(lang)
    yield from _finding_lines(findings, lang)


def probe_document(answers: ClusterAnswers, findings: Sequence[ClusterFinding], lang: str) -> dict[str, Any]:
    """Return what the doctor's probe came to for programs."""
    return {"cards": dict(answers.counted), "findings": [_finding_row(row, lang) for row in findings]}


def _finding_lines(findings: Sequence[ClusterFinding], lang: str) -> Iterator[str]:
    kinds = {"link": say("link"), "host": say("host"), "card": say("card"), "cluster": say("cluster")}
    for finding in findings:
        yield f"{kinds[finding.kind].render(lang)} {finding.name}: {finding.message.render(lang)}"


def _finding_row(row: ClusterFinding, lang: str) -> dict[str, str]:
    return {"kind": row.kind, "name": row.name, "message": row.message.render(lang)}


def report_lines(
    answers: ClusterAnswers, findings: Sequence[ClusterFinding], unjudged: Sequence[Unjudged], lang: str
) -> Iterator[str]:
    """Yield the links with their figures, what was not judged, and what is slow or broken."""
    for answer in answers.links:
        figures = answer.error or f"{answer.latency_ms:.3g} ms, {answer.gigabytes:.3g} GB/s"
        yield f"  {answer.link.first} - {answer.link.second}: {figures}"
    if answers.everyone is not None and not answers.everyone.error:
        everyone = answers.everyone
        figures = f"{everyone.latency_ms:.3g} ms, {everyone.gigabytes:.3g} GB/s"
        yield "  " + say("all cards: {figures}", figures=figures).render(lang)
    for row in unjudged:
        yield row.message.render(lang)
    yield from _finding_lines(findings, lang)
    if not findings and unjudged:
        yield say("no link and no card that was tested is broken").render(lang)
    elif not findings:
        yield say("every link and every card that was tested works well").render(lang)


def document(
    answers: ClusterAnswers, findings: Sequence[ClusterFinding], unjudged: Sequence[Unjudged], lang: str
) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "links": [{"first": row.link.first, "second": row.link.second, **_figures(row)} for row in answers.links],
        "cards": [{"host": row.host, "card": row.card, "error": row.error} for row in answers.cards],
        "everyone": _figures(answers.everyone) if answers.everyone is not None else None,
        "silent": list(answers.silent),
        "findings": [_finding_row(row, lang) for row in findings],
        "not_judged": [
            {"kind": row.kind, "names": row.names, "measures": row.measures, "message": row.message.render(lang)}
            for row in unjudged
        ],
    }


def _figures(row: LinkAnswer) -> dict[str, Any]:
    return {"latency_ms": row.latency_ms, "gigabytes_a_second": row.gigabytes, "error": row.error}
