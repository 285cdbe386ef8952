"""`torchferry explain`: what failed first in the logs of a run, what it means and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import is_terminal


@click.command("explain")
@click.argument("logs", nargs=-1, type=click.Path(exists=True, allow_dash=True, path_type=Path))
@target_option()
@click.option("-f", "--output-format", type=click.Choice(["text", "json", "html"]), default="text")
@file_option
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    logs: tuple[Path, ...], target: str, output_format: str, output_file: Path | None, lang: str | None
) -> None:
    """Say what failed first in the logs of a run, on which rank, what it means and what to do.

    LOGS are files, folders such as those of torchrun or of CANN (`~/ascend/log`), or `-` for standard input, which is
    read where nothing is named and no terminal is there. What only follows from the failure, such as time-outs of the
    other ranks, is listed apart from it. Ends with 0 where all was read and no failure is in it, with 1 where a
    failure is in it, or where nobody knows: something could not be read, or lines are marked as errors that no table
    explains.

    \b
    torchferry explain train.log
    torchferry explain /tmp/torchrun_logs ~/ascend/log -f html -o why.html
    kubectl logs --prefix -l job=train | torchferry explain
    """
    from torchferry.diagnosis import report
    from torchferry.diagnosis.explaining import diagnosed
    from torchferry.diagnosis.inputs import LogReader

    lang = lang or language()
    if not logs:
        if sys.stdin is None or is_terminal(sys.stdin):
            raise UsageError(say("no logs are named"), say("name files or folders, or pipe a log into the command"))
        logs = (Path("-"),)
    reader = LogReader(logs)
    diagnosis = diagnosed(reader, target)
    if not reader.size:
        advice = next((say("{name}: {reason}", name=each.name, reason=each.reason) for each in reader.not_read), None)
        raise UsageError(say("the logs are empty, or none could be read"), advice)
    if output_format == "json":
        write(report.document(diagnosis, lang), output_file)
    elif output_format == "html":
        write(report.page(diagnosis, lang), output_file)
    else:
        write(report.lines(diagnosis, lang), output_file)
    sys.exit(exitcodes.FINDINGS if diagnosis.failed or diagnosis.is_unknown else exitcodes.CLEAN)
