"""`torchferry undo`: put back every byte that the last migration changed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchferry.core.abandoned import abandoned
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import language, say, say_plural
from torchferry.core.staging import clear, left_over
from torchferry.core.terminal import print_notice, print_text
from torchferry.core.write_fence import WriteFence, named, require_in_roots
from torchferry.migration.journal import FOLDER
from torchferry.migration.transaction import exclusive, refuse_unknown, undo
from torchferry.migration.undo_plan import NotRecordedError, UndoPlan, choose, plan_undo


@click.command("undo")
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--all", "everything", is_flag=True, help="Undo every migration of the tree, the last one first.")
@click.option(
    "--trust-journal",
    is_flag=True,
    help="Trust a journal that is not known as yours: made on another machine, or before the tree was copied.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(path: Path, everything: bool, trust_journal: bool, lang: str | None) -> None:
    """Restore every byte that the last migration of PATH changed.

    PATH is a folder or a file. The migration is looked for there and above it, up to the top of the project: the work
    tree of git, or the folder of the settings file.

    Works after an interrupted run too. If a file has changed since, nothing is touched: the
    files are named, and you decide. A journal that you did not make here, such as one that came with a repository,
    is shown and ignored.
    """
    lang = lang or language()
    cleared = _clear_left_over(path, lang)
    if not os.path.lexists(path):
        if cleared:
            return
        raise UsageError(say("{path} does not exist", path=path))
    try:
        plan = plan_undo(path, everything)
    except NotRecordedError:
        if path.is_dir() and (path / FOLDER).exists():
            with exclusive(path):
                pass  # removes what a killed run left there before its journal was complete
        if cleared:
            return
        raise
    fence = WriteFence.around(plan.asked, *plan.effects)
    fence.require_in_roots(plan.effects)
    if plan.is_above:
        _tell_root(plan, path, lang)
    with exclusive(plan.root, trust_journal, fence) as tree:
        for journal in tree.recovered:
            print_text(say("undid the interrupted migration to {target}", target=journal.target).render(lang))
        finished = [] if tree.recovered and not everything else tree.journals()
        chosen = choose(finished, tree.real, plan.asked, everything)
        if not chosen and not tree.recovered:  # another process took it back meanwhile
            raise TorchferryError(say("no migration is recorded in {path}", path=path))
        refuse_unknown(tree, chosen, trust_journal)  # before the first of them is taken back
        for journal in reversed(chosen):
            undo(tree, journal, trust_journal)
            if journal.is_decision:
                print_text(say("undid the decision of {created}", created=journal.created).render(lang))
                continue
            print_text(
                say_plural(
                    "undid the migration to {target} of {created}: {count} file restored",
                    "undid the migration to {target} of {created}: {count} files restored",
                    target=journal.target,
                    created=journal.created,
                    count=len(journal.changes),
                ).render(lang)
            )


def _clear_left_over(path: Path, lang: str) -> bool:
    """Remove what killed runs left of outputs in a folder, or for it, and name it; name what they left beside it."""
    place = Path(os.path.realpath(path))
    inside = [left for left in left_over(place) if place.is_dir()]
    siblings = left_over(place.parent)
    removed = False
    for left in [*inside, *(each for each in siblings if each.output == place)]:
        require_in_roots(left.path, left.output)
        gone = clear(left)
        if gone is None:
            continue
        removed = True
        if gone.restored:
            message = say("restored {out}, which a killed run had moved away", out=left.output)
        else:
            message = say("removed {path}, which a killed run left there", path=left.path)
        print_text(message.render(lang))
    for left in siblings:
        if left.output == place:
            continue
        with abandoned(left.path) as is_left:
            pass
        if is_left:
            message = say(
                "{path} was left by a run that was killed; `torchferry undo {out}` removes it",
                path=left.path,
                out=left.output,
            )
            print_notice(message.render(lang))
    return removed


def _tell_root(plan: UndoPlan, path: Path, lang: str) -> None:
    """Say, before anything is restored, that the migration is that of a folder above, and what else it changed."""
    print_text(say("the migration is recorded in {root}, above {path}", root=plan.root, path=path).render(lang))
    outside = plan.outside
    if outside:
        text = say_plural(
            "it changed {count} file outside of {path}, which is restored too: {names}",
            "it changed {count} files outside of {path}, which are restored too: {names}",
            count=len(outside),
            path=path,
            names=named(outside),
        )
        print_text(text.render(lang))
