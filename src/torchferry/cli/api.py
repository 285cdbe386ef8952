"""`torchferry api`: say what a CUDA-side name is on a target."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from torchferry.backends import cuda, registry
from torchferry.backends.contents import Presence, contents, home_of
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.core import exitcodes
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_notice, print_text

_TABLES = ("api", "env", "tools", "packages", "frameworks", "images", "folk_variables")


@click.command("api")
@click.argument("name")
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="NAME[@VERSION]",
    shell_complete=complete_target,
    help="One or more targets; default: all.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(name: str, targets: tuple[str, ...], lang: str | None) -> None:
    """Show what replaces a CUDA name on a target.

    NAME is a torch API (`torch.cuda.nvtx.range_push`), an environment variable (`CUDA_VISIBLE_DEVICES`), a program
    (`nvidia-smi`), a package or a module of one (`flash-attn`, `flash_attn.bert_padding`), an image (`nvidia/cuda`) or
    a name of the plugin itself (`torch.npu.set_aoe`). What nobody has verified is UNKNOWN.
    """
    lang = lang or language()
    is_known = False
    chosen = [Target.requested(text) for text in targets or registry.names()]
    for target in chosen:
        rows = _rows(name, target)
        is_known = is_known or any(row.status != "unknown" or row.source for row in rows)
        for row in rows:
            _show(row, target, lang)
    if not is_known and not cuda.api_group(name):
        print_notice(say("no table mentions `{name}`", name=name).render(lang))
        near = _nearest(name, chosen)
        if near:
            print_notice(say("names that are alike: {names}", names=", ".join(near)).render(lang))
        sys.exit(exitcodes.FINDINGS)


def _rows(name: str, target: Target) -> list[Row]:
    """Return what the tables say of a name; an unknown row when none does.

    A module stands for the distribution that brings it, and a distribution is found in any spelling.
    """
    rows = [target.row(table, name) for table in _TABLES[1:]]
    rows.append(target.api(name))
    own = _own_name(name, target)
    listed = [row for row in (*rows, *own) if row.status != "unknown" or row.source]
    package = cuda.package_named(name) or cuda.package_of_module(name)
    if not listed and package is not None and not name.startswith("torch."):
        listed = [target.row("packages", package.name)]
    return listed or [target.api(name)]


def _nearest(name: str, targets: Iterable[Target]) -> list[str]:
    """Return names of the tables that are spelled alike, the nearest first."""
    from difflib import get_close_matches  # imported late: most runs have no wrong name

    tables = [target.backend.table(table) for target in targets for table in _TABLES]
    names = {row.name for table in tables for row in table} | set(cuda.packages()) | set(cuda.idle())
    return get_close_matches(name, sorted(names), n=3, cutoff=0.75)


def _own_name(name: str, target: Target) -> list[Row]:
    """Return a row for a name that some version of the plugin has of its own."""
    names = contents(target.backend)
    path = home_of(target.backend, name)
    versions = names.versions_with(path) if names is not None else ()
    if names is None or not versions:
        return []
    presence = names.presence(path, target.version or target.backend.DEFAULT_VERSION)
    status = {Presence.ABSENT: "missing", Presence.UNKNOWN: "unknown"}.get(presence, "same")
    note = say("a name of the plugin itself; read in version {versions}", versions=", ".join(versions))
    return [Row(name, status, note=note.render("en"), note_zh=note.render("zh"), source=names.source)]


def _show(row: Row, target: Target, lang: str) -> None:
    status = "UNKNOWN" if row.status == "unknown" else row.status
    use = f" -> {row.use}" if row.use else ""
    print_text(f"{target!s:<12} {row.name}  {status}{use}")
    if row.remark is not None:
        print_text(f"{'':<13}{row.remark.render(lang)}")
    if row.since or row.until:
        span = (
            say("from plugin version {since}", since=", ".join(row.since.split()))
            if row.since
            else say("before plugin version {until}", until=", ".join(row.until.split()))
        )
        print_text(f"{'':<13}{span.render(lang)}")
    if row.source:
        print_text(f"{'':<13}{say('source: {source}', source=row.source).render(lang)}")
