"""`torchferry api`: say what a CUDA-side name is on a target."""

from __future__ import annotations

import sys

import click

from torchferry.backends import cuda, registry
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.core import env, exitcodes
from torchferry.core.messages import say

_TABLES = ("api", "env", "tools", "packages", "frameworks", "images")


@click.command("api")
@click.argument("name")
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="NAME[@VERSION]",
    shell_complete=complete_target,
    help="One or more; all without.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(name: str, targets: tuple[str, ...], lang: str | None) -> None:
    """Say what a CUDA-side name is on a target.

    NAME is a torch API (`torch.cuda.nvtx.range_push`), an environment variable (`CUDA_VISIBLE_DEVICES`), a program
    (`nvidia-smi`), a package (`flash-attn`) or an image (`nvidia/cuda`). What nobody has verified is UNKNOWN.
    """
    lang = lang or env.language()
    known = False
    for text in targets or registry.names():
        target = Target.named(text)
        rows = _rows(name, target)
        known = known or any(row.status != "unknown" for row in rows)
        for row in rows:
            _show(row, target, lang)
    if not known and not cuda.api_group(name):
        click.echo(say("no table speaks of `{name}`", name=name).render(lang), err=True)
        sys.exit(exitcodes.FINDINGS)


def _rows(name: str, target: Target) -> list[Row]:
    """Return what the tables say of a name; an unknown row when none does."""
    rows = [target.row(table, name) for table in _TABLES[1:]]
    rows.append(target.api(name))
    found = [row for row in rows if row.status != "unknown" or row.source]
    return found or [target.api(name)]


def _show(row: Row, target: Target, lang: str) -> None:
    status = "UNKNOWN" if row.status == "unknown" else row.status
    use = f" -> {row.use}" if row.use else ""
    click.echo(f"{target!s:<12} {row.name}  {status}{use}")
    if row.remark is not None:
        click.echo(f"{'':<13}{row.remark.render(lang)}")
    if row.since or row.until:
        span = (
            say("from plugin version {since}", since=row.since)
            if row.since
            else say("before plugin version {until}", until=row.until)
        )
        click.echo(f"{'':<13}{span.render(lang)}")
    if row.source:
        click.echo(f"{'':<13}{say('source: {source}', source=row.source).render(lang)}")
