"""The decisions of a page and its fixes to read: each once, with its choices, its places and the programs that wait."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import Message, say, say_in
from torchferry.report.choices import choices_of
from torchferry.report.decision_lines import in_a_row, waiting_words
from torchferry.report.decisions import ReportedDecision, decisions_title, effect_words, without_subject
from torchferry.report.excerpts import ReadLines
from torchferry.report.html_text import HtmlContext, HtmlPart, clipped, place_html, rule_link, text
from torchferry.report.programs import chain_of, own_circumstance, shared_conditions
from torchferry.report.reasons import unread_reasons

MOST_CODE = 20
"""Places of one decision that are shown with their code."""

CODE = 3_000_000
"""Characters of code around places that a page carries."""

MOST_PROGRAMS = 100
"""Programs, and ways of programs, that are told below one decision."""

OPEN = 6
"""Places, and groups of them, that are listed before the others are folded away."""

_MOST_NAMES = 10

_Kind = tuple[str, Effect, Message]
"""What places have in common: the rule, what happens there, and what is said apart from the name of the thing."""


def decision_parts(context: HtmlContext, programs: Mapping[str, str]) -> Iterator[HtmlPart]:
    """Yield what could not be resolved, the decisions and the fixes to read.

    `programs` has the id of each program on the page.
    """
    writer = _DecisionWriter(context, programs)
    decisions = context.decisions
    unresolved = [*_unread(context), *(line for each in decisions.unresolved for line in writer.lines(each))]
    if unresolved:
        title = say("What could not be read or resolved:")
        yield HtmlPart("unresolved", context.title(title), unresolved, has_findings=True)
    if decisions.to_decide:
        body = [line for each in decisions.to_decide for line in writer.lines(each)]
        yield HtmlPart("decisions", context.title(decisions_title(decisions.to_decide)), body, has_findings=True)
    if decisions.to_read:
        title = say("Fixes to read, which `migrate --unsafe-fixes` makes:")
        patch = say(
            "`{command}` prints them with the safe ones.",
            command=f"torchferry migrate {context.asked} --unsafe-fixes --diff",
        )
        body = [f"<p>{context.marked(patch)}</p>", *(line for each in decisions.to_read for line in writer.lines(each))]
        yield HtmlPart("fixes", context.title(title), body, has_findings=True)


def _unread(context: HtmlContext) -> Iterator[str]:
    """Yield what was not read, each reason once with its places."""
    reasons = [*unread_reasons(context.report.programs)]
    if reasons:
        items = (f"<li>{context.text(words)}: {text(', '.join(places))}</li>" for words, places in reasons)
        yield f'<ul class="unread">{"".join(items)}</ul>'


class _DecisionWriter:
    """Writes decisions."""

    def __init__(self, context: HtmlContext, programs: Mapping[str, str]) -> None:
        self._context = context
        self._programs = programs
        self._code = _CodeRoom(context.read)

    def lines(self, decision: ReportedDecision) -> Iterator[str]:
        """Yield one decision."""
        context, name = self._context, text(decision.id)
        words = text(in_a_row(waiting_words(decision), context.lang))
        grade = Grade.UNSAFE if decision.is_fix else Grade.MANUAL
        yield f'<article class="decision" id="{name}"><h3><a class="{grade.value}" href="#{name}">{name}</a> '
        yield f'<span class="effect">{words}</span></h3>'
        yield f'<p class="what">{context.marked(_what(decision))}</p>'
        yield f'<div class="choices"><b>{context.title(say("Choices, the recommended one first:"))}</b><ol>'
        for choice in choices_of(decision, context.report.target):
            command = ""
            if choice.name and context.report.style == "native":
                words = f"torchferry decide {shlex.quote(decision.id)} {choice.name} {context.asked} --why REASON"
                command = f" <code>{text(words)}</code>"
            cost = context.text(say("costs: {cost}", cost=choice.cost))
            yield f'<li>{context.marked(choice.text)} <span class="cost">{cost}</span>{command}</li>'
        yield "</ol></div>"
        yield from self._places(decision)
        yield from self._waiting(decision)
        yield "</article>"

    def _places(self, decision: ReportedDecision) -> Iterator[str]:
        """Yield the places, those together of which the same is said, and behind them those that only a program has."""
        context = self._context
        self._code.begin()
        yield f'<div class="places"><b>{context.text(say("Places: {count}", count=len(decision.places)))}</b>'
        groups: dict[_Kind, list[Finding]] = {}
        for finding in decision.findings:
            kind = (finding.code, finding.effect, without_subject(finding.message)[0])
            groups.setdefault(kind, []).append(finding)
        about_all = without_subject(decision.message)[0]
        several = len({effect for _, effect, _ in groups}) > 1
        parts = []
        for (code, effect, alike), findings in groups.items():
            about = rule_link(code)
            if several:
                about += f" {context.text(effect_words(effect))}"
            if alike != about_all:
                about += f": {context.marked(findings[0].message)}"
            parts.append(f'<div class="group"><p class="alike">{about}</p>{self._listed(self._items(findings))}</div>')
        yield from parts[:OPEN]
        if len(parts) > OPEN:
            count = sum(map(len, [*groups.values()][OPEN:]))
            more = context.text(say_in("HTML report", "More places: "))
            yield f'<details class="more"><summary>{more}{count}</summary>{"".join(parts[OPEN:])}</details>'
        covered = {finding.location for finding in decision.findings}
        others = [place for place in decision.places if place not in covered]
        if others:
            items = [_item("manual other", place_html(place), self._code.around(place)) for place in others]
            yield f'<div class="group">{self._listed(items)}</div>'
        if self._code.is_cut:
            elsewhere = _code_elsewhere(self._code.shown, context.show_command(decision.id))
            yield f'<p class="left">{context.marked(elsewhere)}</p>'
        yield "</div>"

    def _items(self, findings: Sequence[Finding]) -> list[str]:
        """Return findings as items of a list; where they are about several things, each with its own."""
        subjects = [without_subject(finding.message)[1] for finding in findings]
        is_one = len(set(subjects)) == 1
        return [self._place(each, "" if is_one else name) for each, name in zip(findings, subjects, strict=True)]

    def _place(self, finding: Finding, subject: str) -> str:
        head = place_html(finding.location)
        css = finding.grade.value
        if finding.blocker:
            css += " blocks"
            head += f" <strong>{self._context.text(say_in('HTML report', 'blocks'))}</strong>"
        if subject and subject not in finding.snippet:
            head += f" <b>{text(subject)}</b>"
        if finding.snippet:
            head += f" <code>{text(finding.snippet)}</code>"
        return _item(css, head, self._code.around(finding.location, finding.snippet))

    def _listed(self, items: Sequence[str]) -> str:
        """Return places as a list, the later ones folded."""
        return folded_list(items, OPEN, say_in("HTML report", "More places: "), self._context)

    def _waiting(self, decision: ReportedDecision) -> Iterator[str]:
        """Yield the programs that wait, folded, and how they reach the places."""
        if not decision.programs:
            return
        context = self._context
        count = context.text(say("Programs: {count}", count=len(decision.programs)))
        yield f'<details class="waiting"><summary>{count}</summary>'
        programs = decision.titled_programs
        for title, names in programs:
            if names:
                yield f"<p><b>{context.title(title)}</b> {', '.join(map(self._program, names[:MOST_PROGRAMS]))}"
                yield f", +{len(names) - MOST_PROGRAMS}</p>" if len(names) > MOST_PROGRAMS else "</p>"
        yield from self._ways(decision)
        command = context.show_command(decision.id)
        if command and max(len(decision.ways), *(len(names) for _, names in programs)) > MOST_PROGRAMS:
            yield f'<p class="left">{context.marked(_programs_elsewhere(command))}</p>'
        yield "</details>"

    def _ways(self, decision: ReportedDecision) -> Iterator[str]:
        """Yield how programs come there: what all ways hang on, then each with what it has of its own."""
        ways, context = decision.ways, self._context
        if not ways:
            return
        shared = shared_conditions(ways)
        yield f"<p><b>{context.title(say('How programs reach it:'))}</b></p><ul>"
        if shared:
            conditions = "".join(f"<li>{text(condition)}</li>" for condition in shared)
            yield f"<li>{context.text(say('all of them only where'))}<ul>{conditions}</ul></li>"
        for program, obstacle in ways[:MOST_PROGRAMS]:
            circumstance = own_circumstance(obstacle, shared)
            own = f"; {context.text(circumstance)}" if circumstance is not None else ""
            yield f"<li>{self._program(program)}: {text(chain_of(obstacle))}{own}</li>"
        yield "</ul>"

    def _program(self, title: str) -> str:
        anchor = self._programs.get(title)
        return f'<a href="#{anchor}">{text(title)}</a>' if anchor else text(title)


class _CodeRoom:
    """The code around places, as long as the page and the decision have room for it.

    Attributes:
        shown: At how many places of the decision it is shown.
        is_cut: Whether it is left out at one for want of room.
    """

    def __init__(self, read: ReadLines) -> None:
        self._read = read
        self._room = CODE
        self.shown = 0
        self.is_cut = False

    def begin(self) -> None:
        """Begin with a decision."""
        self.shown, self.is_cut = 0, False

    def around(self, place: Location, snippet: str = "") -> str:
        """Return the code around a place as HTML; empty where there is none to show, or no room for more."""
        lines = () if self.is_cut else self._read(place)
        if lines and (self._room <= 0 or self.shown >= MOST_CODE):
            self.is_cut = True
            return ""
        marked_line = next((line for number, line in lines if number == place.line), None)
        if marked_line is None or snippet not in marked_line:  # the file is another one by now
            return ""
        parts = []
        for number, line in lines:
            css = ' class="here"' if place.line <= number <= place.end_line else ""
            parts.append(f'<div{css} data-n="{number}">{clipped(line)}</div>')
        self._room -= sum(map(len, parts))
        self.shown += 1
        return f'<div class="source">{"".join(parts)}</div>'


def _what(decision: ReportedDecision) -> Message:
    """Return what a decision is about, with the other things of which the same holds."""
    others = decision.subjects[1:]
    if not others:
        return decision.message
    names = ", ".join(f"`{name}`" for name in others[:_MOST_NAMES])
    more = f", +{len(others) - _MOST_NAMES}" if len(others) > _MOST_NAMES else ""
    return say("{message} (and so for {names})", message=decision.message, names=names + more)


def _code_elsewhere(count: int, command: str) -> Message:
    if not command:
        return say("Code is shown at {count} of these places.", count=count)
    return say("Code is shown at {count} of these places; `{command}` shows it at each.", count=count, command=command)


def _programs_elsewhere(command: str) -> Message:
    return say("`{command}` has the others.", command=f"{command} -f json")


def folded_list(items: Sequence[str], most: int, title: Message, context: HtmlContext) -> str:
    """Return items as a list; those after the first ones are folded, and counted in the title."""
    first, rest = "".join(items[:most]), items[most:]
    if not rest:
        return f'<ul class="at">{first}</ul>'
    summary = f"<summary>{context.text(title)}{len(rest)}</summary>"
    return f'<ul class="at">{first}</ul><details class="more">{summary}<ul class="at">{"".join(rest)}</ul></details>'


def _item(css: str, head: str, code_lines: str) -> str:
    if not code_lines:
        return f'<li class="{css}">{head}</li>'
    return f'<li class="{css}"><details><summary>{head}</summary>{code_lines}</details></li>'
