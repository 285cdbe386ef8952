"""`torchferry api`: say what a CUDA-side name is on a target, and what a code of its errors means."""

from __future__ import annotations

import sys

import click

from torchferry.backends import registry
from torchferry.backends.errors import COMMON, KnownError, errors_of_all
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.cli.name_lookup import alike, is_cuda_name, is_said, rows_of
from torchferry.core import exitcodes
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_notice, print_text


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
    a name of the plugin itself (`torch.npu.set_aoe`). What nobody has verified is UNKNOWN. A code of the stack's errors
    (`EI0006`) is explained as `torchferry explain` does.
    """
    lang = lang or language()
    is_known = False
    chosen = [Target.requested(text) for text in targets or registry.names()]
    errors = [entry for entry in errors_of_all([each.backend for each in chosen]) if entry.has_code(name)]
    if errors:
        for entry in errors:
            _show_error(entry, name, lang)
        return
    for target in chosen:
        rows = rows_of(name, target)
        is_known = is_known or any(map(is_said, rows))
        for row in rows:
            _show(row, target, lang)
    if not is_known and not is_cuda_name(name):
        print_notice(say("`{name}` is in no table: what replaces it is not known", name=name).render(lang))
        near = alike(name, chosen)
        if near:
            print_notice(say("similar names: {names}", names=", ".join(near)).render(lang))
        sys.exit(exitcodes.FINDINGS)


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


def _show_error(entry: KnownError, code: str, lang: str) -> None:
    """Print what a code means: there is no message, so what it would name is not known."""
    match = entry.without_text(code)
    print_text(f"{'' if entry.owner == COMMON else entry.owner:<12} {code}  {match.meaning.render(lang)}")
    for cause in match.causes:
        print_text(f"{'':<13}{say('cause: {cause}', cause=cause.render(lang)).render(lang)}")
    for line in filter(None, (match.remedy.render(lang), *match.commands())):
        print_text(f"{'':<13}-> {line}")
    print_text(f"{'':<13}{say('source: {source}', source=entry.source).render(lang)}")
