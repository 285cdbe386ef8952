"""`torchferry decide`: record what was decided about the places of a decision, in a file of the project."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.judging import within_project
from torchferry.cli.options import refuse_seen, selection_options
from torchferry.cli.scan import scanned
from torchferry.cli.settings import settle
from torchferry.cli.show import asked, decision_named
from torchferry.core.errors import UsageError
from torchferry.core.files import read_regular
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.recorded_decisions import (
    ACCEPT,
    CHOICES,
    FILE,
    FIX,
    RecordedDecision,
    decisions_text,
    read_decisions,
    with_decision,
)
from torchferry.core.terminal import print_notice, print_text
from torchferry.core.write_fence import WriteFence
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.report.choices import can_be_accepted, decided_places
from torchferry.report.decisions import ReportedDecision
from torchferry.rules.decisions import is_decided_by
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts
from torchferry.source.git import git


@click.command("decide")
@click.argument("decision")
@click.argument("choice", type=click.Choice(CHOICES))
@selection_options
@click.option("--why", default="", metavar="REASON", help="The reason, for those who read the report after you.")
@click.option("--by", default="", metavar="NAME", help="Who decides; by default the user's name in git.")
def command(choices: Choices, decision: str, choice: str, why: str, by: str) -> None:
    """Settle one decision of `torchferry scan` without changing its code, or take the edits that it proposes.

    DECISION is its id, PATHS are those of the scan. `accept` leaves its places as they are: reports go on to say that
    you have accepted them. `fix` makes its edits safe, and the next `torchferry migrate` makes them. The decision is
    written to torchferry-decisions.toml, which belongs under version control; `torchferry undo` undoes it. When the
    code of a place changes, torchferry asks about the place again.
    """
    refuse_seen(choices)
    if choices.home is not None:
        raise UsageError(say("`-` is one file, and a decision belongs to a project"), say("name the project's folder"))
    choices = within_project(choices)
    setting = settle(choices, rewrite=False)
    chosen = decision_named(scanned(setting, choices), decision)
    _refuse(chosen, choice, asked(choices, setting))
    places = decided_places(chosen, choice)
    new = RecordedDecision(chosen.id, setting.target.name, choice, by.strip() or _user(setting.root), why, places)
    file = setting.root / FILE
    with exclusive(setting.root, fence=WriteFence.around(setting.root)) as tree:
        before = read_regular(file) if os.path.lexists(file) else None  # another process may have decided meanwhile
        text = decisions_text(with_decision(read_decisions(setting.root), new))
        apply(tree, [Write(FILE, before, text.encode())], setting.target.journal_key)
    print_text(_outcome(chosen, choice, new.by, file).render(choices.lang))
    if choice == FIX:
        print_notice(say("next: torchferry migrate {paths}", paths=asked(choices, setting)).render(choices.lang))


def _refuse(decision: ReportedDecision, choice: str, paths: str) -> None:
    """Refuse what cannot be decided.

    Raises:
        UsageError: the choice does not fit.
    """
    if choice == ACCEPT and not can_be_accepted(decision):
        why = say("`{id}` cannot be accepted: accepting it would not make it work on the target", id=decision.id)
        if any(rule_facts(finding.code).about is Subject.FILE for finding in decision.findings):
            why = say("`{id}` cannot be accepted: it is a file that could not be examined", id=decision.id)
        raise UsageError(why, say("`torchferry show {id} {paths}` says what can be done", id=decision.id, paths=paths))
    if choice == FIX and not any(is_decided_by(finding, FIX) for finding in decision.findings):
        raise UsageError(
            say("`{id}` has no edit that torchferry could make", id=decision.id),
            say("change the code, or `torchferry decide {id} accept {paths}`", id=decision.id, paths=paths),
        )


def _outcome(decision: ReportedDecision, choice: str, by: str, file: Path) -> Message:
    values = {"id": decision.id, "name": by, "file": file, "count": len(decision.findings)}
    if choice == FIX:
        return say_plural(
            "{id}: {name} chose the edit of one place; recorded in {file}",
            "{id}: {name} chose the edits of {count} places; recorded in {file}",
            **values,
        )
    return say_plural(
        "{id}: {name} accepted one place; recorded in {file}",
        "{id}: {name} accepted {count} places; recorded in {file}",
        **values,
    )


def _user(root: Path) -> str:
    """Return who decides: the user's name in git, or that of the account.

    Raises:
        UsageError: nobody knows it.
    """
    named = (git(root, "config", "--get", "user.name") or "").strip()
    try:
        return named or getpass.getuser()
    except (KeyError, OSError, ImportError):
        raise UsageError(say("neither git nor the system knows your name"), say("give it: --by NAME")) from None
