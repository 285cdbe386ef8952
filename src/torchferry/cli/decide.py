"""`torchferry decide`: record what was decided about a decision, in a file of the project, and make its edits."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.judging import within_project
from torchferry.cli.options import refuse_seen, selection_options
from torchferry.cli.scan import scanned
from torchferry.cli.settings import RunSettings, decisions_folder, settle
from torchferry.cli.show import asked, decision_named, refuse_settled
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular
from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.recorded_decisions import (
    ACCEPT,
    CHOICES,
    FILE,
    FIX,
    DecidedPlace,
    RecordedDecision,
    decisions_text,
    read_decisions,
    with_decision,
)
from torchferry.core.terminal import print_notice, print_text
from torchferry.core.write_fence import WriteFence
from torchferry.migration.plan import Plan, plan
from torchferry.migration.preconditions import check_not_migrated, refuse_uncommitted
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.report.choices import can_be_accepted, changing_with, decided_places
from torchferry.report.decisions import ReportedDecision
from torchferry.report.model import Report
from torchferry.report.text_layout import some_of
from torchferry.rules.analysis import analyse
from torchferry.rules.decisions import is_decided_by
from torchferry.rules.family import Subject
from torchferry.rules.file.write_protected_file import WriteProtectedFile
from torchferry.rules.imports.plugin_import import PluginImport
from torchferry.rules.registry import rule_facts
from torchferry.source.git import git

_MOST_FILES = 3
"""Files that are named; of the others the number."""


@click.command("decide")
@click.argument("decision")
@click.argument("choice", type=click.Choice(CHOICES))
@selection_options
@click.option("--why", default="", metavar="REASON", help="The reason, for those who read the report after you.")
@click.option("--by", default="", metavar="NAME", help="Who decides; by default the user's name in git.")
@click.option("--allow-dirty", is_flag=True, help="Make edits even if there are uncommitted changes.")
def command(choices: Choices, decision: str, choice: str, why: str, by: str, allow_dirty: bool) -> None:
    """Settle one decision of `torchferry scan`: leave its places as they are, or take the edits that it proposes.

    DECISION is its id, PATHS are those of the scan. `accept` leaves its places as they are: reports go on to say that
    you have accepted them. `fix` makes its edits. The decision is written to torchferry-decisions.toml, which belongs
    under version control; `torchferry undo` undoes both. When the code of a place changes, torchferry asks about the
    place again.
    """
    refuse_seen(choices)
    if choices.home is not None:
        raise UsageError(say("`-` is one file, and a decision belongs to a project"), say("name the project's folder"))
    choices = within_project(choices)
    setting = settle(choices, rewrite=False)
    report = scanned(setting, choices)
    refuse_settled(report, setting.request.selection.decided, decision)
    chosen = decision_named(report, decision)
    paths = asked(choices, setting)
    _refuse(chosen, choice, paths)
    new = RecordedDecision(
        chosen.id, setting.target.name, choice, by.strip() or _user(setting.root), why, decided_places(chosen, choice)
    )
    home = decisions_folder(setting.root)
    folder = "" if home == Path(os.path.realpath(setting.root)) else f"{_below(home, setting.root)}/"
    file = home / FILE if folder else setting.root / FILE
    fence = WriteFence.around(setting.root, file)
    with exclusive(home if folder else setting.root, fence=fence) as tree:
        # another process may have decided meanwhile
        before = read_regular(file) if os.path.lexists(file) else None
        recorded = read_decisions(file.parent)
        placed = _placed_in(new, folder)
        _refuse_decided_meanwhile(recorded, placed, setting.request.selection.decided)
        planned = _planned(setting, report, chosen, new) if choice == FIX else None
        if planned is not None and not allow_dirty:
            refuse_uncommitted(setting.root)
        edits = [] if planned is None else planned.writes
        writes = [write._replace(path=f"{folder}{write.path}") for write in edits]
        after = decisions_text(with_decision(recorded, placed)).encode()
        apply(tree, [Write(FILE, before, after), *writes], setting.target.journal_key)
    print_text(_outcome(chosen, new, planned, file).render(choices.lang))
    for line in _what_is_left(report, new, planned, paths):
        print_notice(line.render(choices.lang))


def _below(home: Path, root: Path) -> str:
    return Path(os.path.relpath(os.path.realpath(root), home)).as_posix()


def _placed_in(decision: RecordedDecision, folder: str) -> RecordedDecision:
    """Return a decision with its places as the file of a folder above has them."""
    return decision._replace(
        places=frozenset(place._replace(path=f"{folder}{place.path}") for place in decision.places)
    )


def _refuse_decided_meanwhile(
    recorded: Iterable[RecordedDecision], new: RecordedDecision, earlier: Iterable[RecordedDecision]
) -> None:
    """Refuse to replace an answer that somebody has given since the report was made.

    Raises:
        TorchferryError: somebody has decided about one of the places.
    """
    before = {(each.id, each.choice, each.by, each.why) for each in earlier}
    for each in recorded:
        is_new = (each.id, each.choice, each.by, each.why) not in before
        if is_new and each.target == new.target and each.places & new.places:
            raise TorchferryError(
                say("{name} has just decided `{id}`: {choice}", name=each.by, id=each.id, choice=each.choice),
                say("nothing was changed; look at it with `torchferry show {id}`", id=each.id),
            )


def _planned(setting: RunSettings, report: Report, decision: ReportedDecision, new: RecordedDecision) -> Plan:
    """Return what makes the edits of a decision, with what changes only together with them, and no other.

    Raises:
        TorchferryError: the tree was migrated to another target, or none of the edits can be made.
    """
    request = setting.request
    selection = request.selection
    selection = selection._replace(
        decided=with_decision(selection.decided, new),
        only=changing_with(report.findings, decision),
        ignore=(*selection.ignore, PluginImport.CODE),  # `torchferry migrate` imports the plugin
    )
    analysis = analyse(request._replace(rewrite=True, selection=selection))
    check_not_migrated(setting.root, setting.target, analysis)
    planned = plan(setting.root, analysis)
    protected = [each.location.path for each in planned.remaining if each.code == WriteProtectedFile.CODE]
    if protected:
        raise TorchferryError(
            say("the edits of `{id}` cannot be made: {path} is write-protected", id=decision.id, path=protected[0]),
            say("make it writable, or change it by hand"),
        )
    if not planned.writes:
        raise TorchferryError(
            say("the edits of `{id}` change only together with others that are to be decided first", id=decision.id),
            say("`torchferry scan -v` names them beside its places"),
        )
    return planned


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


def _outcome(decision: ReportedDecision, new: RecordedDecision, planned: Plan | None, file: Path) -> Message:
    values = {"id": decision.id, "name": new.by, "file": file}
    if planned is not None:
        return say_plural(
            "{id}: {name} took the edit of one place, made in {names}; recorded in {file}",
            "{id}: {name} took the edits of {count} places, made in {names}; recorded in {file}",
            count=len(_made(new, planned)),
            names=some_of([write.path for write in planned.writes], _MOST_FILES),
            **values,
        )
    return say_plural(
        "{id}: {name} accepted one place; recorded in {file}",
        "{id}: {name} accepted {count} places; recorded in {file}",
        count=len(decision.findings),
        **values,
    )


def _made(new: RecordedDecision, planned: Plan) -> set[DecidedPlace]:
    """Return the places of a decision whose edits a plan makes."""
    return {place for place in new.places if any(each.key == tuple(place) for each in planned.fixed)}


def _what_is_left(report: Report, new: RecordedDecision, planned: Plan | None, paths: str) -> Iterator[Message]:
    """Yield what there is to say behind the outcome: edits that wait for another decision, and what comes next."""
    if planned is None:
        return
    waiting = len(new.places) - len(_made(new, planned))
    if waiting:
        yield say_plural(
            "one place changes only together with another one that is still to be decided: its edit is made then",
            "{count} places change only together with others that are still to be decided: their edits are made then",
            count=waiting,
        )
    if report.by_grade[Grade.SAFE]:
        yield say("next: torchferry migrate {paths}", paths=paths)


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
