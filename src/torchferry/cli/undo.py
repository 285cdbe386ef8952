"""`torchferry undo`: put back every byte that the last migration changed."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say, say_plural
from torchferry.migration.journal import FOLDER
from torchferry.migration.transaction import exclusive, refuse_unknown, undo
from torchferry.migration.undo_plan import NotRecordedError, UndoPlan, choose, plan_undo
from torchferry.migration.write_fence import WriteFence, named


@click.command("undo")
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=".")
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
    try:
        plan = plan_undo(path, everything)
    except NotRecordedError:
        if path.is_dir() and (path / FOLDER).exists():
            with exclusive(path):
                pass  # removes what a killed run left there before its journal was complete
        raise
    fence = WriteFence.around(plan.asked, *plan.effects)
    fence.require_in_roots(plan.effects)
    if plan.is_above:
        _tell_root(plan, path, lang)
    with exclusive(plan.root, trust_journal, fence) as tree:
        for journal in tree.recovered:
            click.echo(say("undid the interrupted migration to {target}", target=journal.target).render(lang))
        finished = [] if tree.recovered and not everything else tree.journals()
        chosen = choose(finished, tree.real, plan.asked, everything)
        if not chosen and not tree.recovered:  # another process took it back meanwhile
            raise TorchferryError(say("no migration is recorded in {path}", path=path))
        refuse_unknown(tree, chosen, trust_journal)  # before the first of them is taken back
        for journal in reversed(chosen):
            undo(tree, journal, trust_journal)
            click.echo(
                say_plural(
                    "undid the migration to {target} of {created}: {count} file restored",
                    "undid the migration to {target} of {created}: {count} files restored",
                    target=journal.target,
                    created=journal.created,
                    count=len(journal.changes),
                ).render(lang)
            )


def _tell_root(plan: UndoPlan, path: Path, lang: str) -> None:
    """Say, before anything is restored, that the migration is that of a folder above, and what else it changed."""
    click.echo(say("the migration is recorded in {root}, above {path}", root=plan.root, path=path).render(lang))
    outside = plan.outside
    if outside:
        text = say_plural(
            "it changed {count} file outside of {path}, which is taken back too: {names}",
            "it changed {count} files outside of {path}, which are taken back too: {names}",
            count=len(outside),
            path=path,
            names=named(outside),
        )
        click.echo(text.render(lang))
