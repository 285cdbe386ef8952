"""`torchferry api`: say what a CUDA-side name is on a target."""

from __future__ import annotations

import sys

import click

from torchferry.backends import registry
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
    a name of the plugin itself (`torch.npu.set_aoe`). What nobody has verified is UNKNOWN.
    """
    lang = lang or language()
    is_known = False
    chosen = [Target.requested(text) for text in targets or registry.names()]
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
