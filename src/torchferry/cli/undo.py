"""`torchferry undo`: put back every byte that the last migration changed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say, say_plural
from torchferry.core.terminal import print_text
from torchferry.migration.journal import FOLDER
from torchferry.migration.transaction import exclusive, refuse_unknown, undo


@click.command("undo")
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--all", "everything", is_flag=True, help="Undo every migration of the tree, the last one first.")
@click.option(
    "--trust-journal",
    is_flag=True,
    help="Trust a journal that is not known as yours: made on another machine, or before the tree was copied.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(path: Path, everything: bool, trust_journal: bool, lang: str | None) -> None:
    """Restore every byte that the last migration changed.

    Works after an interrupted run too. If a file has changed since, nothing is touched: the
    files are named, and you decide. A journal that you did not make here, such as one that came with a repository,
    is shown and ignored.
    """
    lang = lang or language()
    root = next((place for place in (path, *path.absolute().parents) if _has_journals(place)), None)
    if root is None:
        raise TorchferryError(
            say("no migration is recorded in {path}", path=path),
            say("a copy (`--out`) is undone by removing it, a patch by `git apply -R`"),
        )
    with exclusive(root, trust_journal) as tree:
        for journal in tree.recovered:
            print_text(say("undid the interrupted migration to {target}", target=journal.target).render(lang))
        journals = tree.journals()
        if not journals and not tree.recovered:
            raise TorchferryError(say("no migration is recorded in {path}", path=path))
        count = len(journals) if everything else 0 if tree.recovered else 1
        chosen = journals[len(journals) - count :]
        refuse_unknown(tree, chosen, trust_journal)  # before the first of them is taken back
        for journal in reversed(chosen):
            undo(tree, journal, trust_journal)
            print_text(
                say_plural(
                    "undid the migration to {target} of {created}: {count} file restored",
                    "undid the migration to {target} of {created}: {count} files restored",
                    target=journal.target,
                    created=journal.created,
                    count=len(journal.changes),
                ).render(lang)
            )


def _has_journals(place: Path) -> bool:
    """Whether a folder has journals of migrations, or what stands in their place and is refused."""
    return os.path.lexists(place / FOLDER / "journal") or (place / FOLDER).is_symlink()
