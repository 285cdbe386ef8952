"""`torchferry handover check`: which rules of a model zoo a hand-over keeps, and what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.backends.handover_forms import form_of
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say


@click.command("check")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--for", "form", default="", metavar="FORM", help="The form; default: the one that DIR was written for.")
@click.option(
    "--evidence",
    type=click.Path(exists=True, path_type=Path),
    help="What `torchferry accept` wrote: its folder or file.",
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the result.")
@file_option
@click.option("-v", "--verbose", is_flag=True, help="Also print the rules that are kept, and the source of each rule.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    folder: Path,
    form: str,
    evidence: Path | None,
    output_format: str,
    output_file: Path | None,
    verbose: bool,
    lang: str | None,
) -> None:
    """Check a hand-over against every rule of its model zoo, and list what is missing.

    DIR is a folder that `torchferry handover` wrote, a clone of the zoo, or the model's folder in it. Nothing is
    written or run. What only a person can judge is listed and counts as neither. Ends with 1 when a rule is broken.
    """
    from torchferry.handover.checking import check_handover, check_json, check_lines
    from torchferry.handover.evidence import read_accept_evidence, verdict_word

    lang = lang or language()
    read = None if evidence is None else read_accept_evidence(evidence)
    checked = check_handover(folder, form, verdict_word(read))
    backend = form_of(checked.form).backend
    if read is not None and backend is not None and read.target not in ("", backend.NAME):
        raise UsageError(
            say(
                "the evidence is for {found}, but the hand-over is for {target}", found=read.target, target=backend.NAME
            ),
            say("judge the project there: torchferry accept -t {target}", target=backend.NAME),
        )
    write(check_json(checked, lang) if output_format == "json" else check_lines(checked, lang, verbose), output_file)
    sys.exit(exitcodes.FINDINGS if checked.broken else exitcodes.CLEAN)
