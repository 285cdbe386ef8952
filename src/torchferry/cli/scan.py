"""`torchferry scan`: say what must change, and whether the project can arrive at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.options import output_options, selection_options
from torchferry.cli.output import progress, tell, write_report
from torchferry.cli.settings import settings_lines, settle
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.installed.inspection import Inspected
from torchferry.migration.remarks import remarks
from torchferry.migration.transaction import interrupted
from torchferry.programs.judging import judge
from torchferry.report.model import report_of
from torchferry.report.text_format import printable
from torchferry.rules.analysis import analyse


@click.command("scan")
@selection_options
@output_options
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="Look into packages that the project reaches: of an interpreter, an environment or a site-packages folder.",
)
@click.option("--kept", is_flag=True, help="List every word of CUDA that stays without a finding, and why.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when something was found.")
def command(
    choices: Choices,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    verbose: bool,
    python: Path | None,
    kept: bool,
    exit_zero: bool,
) -> None:
    """Say what a CUDA project needs in order to run on another accelerator.

    PATHS are the project's folder, or files and folders of one project; nothing is written in it. `-` reads one file
    from standard input. First comes the verdict, then counts, then what blocks, then every place with what to do there.
    """
    lang = choices.lang
    environment = None
    if python is not None:
        from torchferry.installed.environment import environment_of

        environment = environment_of(python)
    setting = settle(choices, rewrite=output_format == "html")
    for text in _interrupted(setting.root):
        tell(text.render(lang))
    selection = setting.request.selection
    whole = not (selection.select or selection.ignore)  # else the account would count what was not looked for
    # A program is judged by all that it reaches: not where files or findings were left out.
    judged = whole and not choices.only
    account = whole or kept or verbose
    setting = setting._replace(request=setting.request._replace(account=account, judged=judged))
    with progress(len(setting.request.listing.entries)) as advance:
        analysis = analyse(setting.request, advance)
    packages: tuple[Inspected, ...] = ()
    if environment is not None:
        from torchferry.cli.packages import reached  # imported late: most runs name no environment

        packages = reached(environment, setting, analysis, lang)
    known = tuple(remarks(setting.root, setting.target, analysis))
    programs = judge(analysis, setting.target, setting.config.entry_points) if judged else ()
    report = report_of(analysis, setting.target, setting.name, remarks=known, programs=programs)
    report = replace(report, packages=packages)
    if output_format == "text" and output_file is None:
        if verbose:
            for line in settings_lines(setting.config, choices):
                click.echo(line)
        if quiet:
            click.echo(report.verdict_message.render(lang))
        else:
            write_report(report, output_format, lang, None)
    else:
        write_report(report, output_format, lang, output_file)
    if kept or verbose:
        for word in report.kept:
            reason = say(word.why.value).render(lang)
            click.echo(f"{printable(str(word.location))} {printable(word.word)}  [{reason}]")
    if report.failures:
        sys.exit(exitcodes.ERROR)
    sys.exit(exitcodes.FINDINGS if report.work and not exit_zero else exitcodes.CLEAN)


def _interrupted(root: Path) -> Iterator[Message]:
    """Say which migrations of the tree were interrupted, and what is wrong with its journals; a scan goes on."""
    try:
        for journal in interrupted(root):
            if journal.problem is None:
                yield say(
                    "a migration of {root} was interrupted; `torchferry undo {root}` takes back what it did", root=root
                )
                continue
            yield say(
                "{folder} holds an interrupted migration that is not known as yours ({problem}); it is not acted on",
                folder=journal.folder,
                problem=journal.problem,
            )
    except TorchferryError as error:
        yield error.message
