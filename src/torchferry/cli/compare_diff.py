"""`torchferry compare diff`: lay two records side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.cli.examination import allow_cpu_option
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.messages import language, say
from torchferry.core.progress import doing

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("diff")
@click.argument("reference", type=_FOLDER)
@click.argument("other", type=_FOLDER)
@click.option(
    "--envelope",
    type=_FOLDER,
    help="Another record of the reference, best made with `record --perturb`; 8 times its distance counts as noise.",
)
@click.option("--partial", is_flag=True, help="Accept a second run that covers less than the reference.")
@allow_cpu_option
@click.option("-f", "--output-format", type=click.Choice(["text", "json", "csv", "html"]), default="text")
@file_option
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    reference: Path,
    other: Path,
    envelope: Path | None,
    partial: bool,
    allow_cpu: bool,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
) -> None:
    """Report where the numbers of two recorded runs differ, and why.

    REFERENCE and OTHER are folders of `torchferry compare record`. The report first names what explains most
    differences: data order, weights, optimizer, seeds, switches, dropout; then the first operator that added an error.
    Needs neither torch nor a device. Ends with 1 when the runs differ, or when OTHER covers less than REFERENCE (it
    stopped early, or its record is cut short) and --partial does not accept that; with 3 when both ran on the CPU.

    \b
    torchferry compare diff there here
    torchferry compare diff there here --envelope there-again -f json -o diff.json
    """
    from torchferry.numerics.runlog import container  # noqa: F401 - first: it says what is not installed
    from torchferry.numerics.report import diff  # isort: skip
    from torchferry.numerics.rundiff.comparison import compare
    from torchferry.numerics.runlog.record import read_record

    lang = lang or language()
    records = read_record(reference), read_record(other), read_record(envelope) if envelope is not None else None
    with doing(say("comparing the records")):
        result = compare(*records)
    text: str | Iterable[str]
    if output_format == "json":
        text = diff.as_json(result, lang, allow_cpu)
    elif output_format == "csv":
        text = diff.as_csv(result)
    elif output_format == "html":
        from torchferry.numerics.report.pages import diff_page

        text = diff_page(diff.document(result, lang, allow_cpu), list(diff.lines(result, lang, allow_cpu)), lang)
    else:
        text = diff.lines(result, lang, allow_cpu)
    write(text, output_file)
    passed = result.same or (partial and not result.differs)
    if passed and diff.is_without_accelerator(result, allow_cpu):
        sys.exit(exitcodes.NO_ACCELERATOR)
    sys.exit(exitcodes.CLEAN if passed else exitcodes.FINDINGS)
