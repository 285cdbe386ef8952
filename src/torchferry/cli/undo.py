"""`torchferry undo`: put back every byte that the last migration changed."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.core import env
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration.journal import FOLDER, journals
from torchferry.migration.transaction import exclusive, undo


@click.command("undo")
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--all", "everything", is_flag=True, help="Take back every migration of the tree, the last first.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(path: Path, everything: bool, lang: str | None) -> None:
    """Put back every byte that the last migration changed.

    Works after an interrupted run too. A file that has changed since is not touched, nor is any other then: the
    files are named, and you decide.
    """
    lang = lang or env.language()
    root = next((place for place in (path, *path.absolute().parents) if (place / FOLDER / "journal").is_dir()), None)
    if root is None:
        raise TorchferryError(
            say("no migration is recorded in {path}", path=path),
            say("a copy (`--out`) is undone by removing it, a patch by `git apply -R`"),
        )
    with exclusive(root) as recovered:
        for journal in recovered:
            click.echo(say("took back the interrupted migration to {target}", target=journal.target).render(lang))
        left = journals(root)
        if not left and not recovered:
            raise TorchferryError(say("no migration is recorded in {path}", path=path))
        count = len(left) if everything else 0 if recovered else 1
        for journal in reversed(left[len(left) - count :]):
            undo(root, journal)
            click.echo(
                say(
                    "took back the migration to {target} of {created}: {count} files are as they were",
                    target=journal.target,
                    created=journal.created,
                    count=len(journal.changes),
                ).render(lang)
            )
