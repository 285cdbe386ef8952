"""Options that several commands share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click

from torchferry.backends.path_profiles import path_profiles
from torchferry.cli.choices import Choices
from torchferry.cli.completion import Function, target_option
from torchferry.cli.device_module import DEVICE_MODULES
from torchferry.cli.help_text import help_text
from torchferry.cli.settings import codes, read_settings, settings_lines
from torchferry.cli.standard_input import reading_standard_input
from torchferry.cli.writing import file_option
from torchferry.core import env
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_text

FORMATS = ("text", "full", "json", "json-2", "sarif", "github", "csv", "html")

_SELECTION = (
    click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True, path_type=Path)),
    target_option(),
    click.option("--select", default="", metavar="CODES", help="Rules or families to apply: DEV,AMP101."),
    click.option("--ignore", default="", metavar="CODES", help="Rules or families to leave out."),
    click.option(
        "--seen",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Report of `torchferry run --report FILE`: lines that only the run saw become findings.",
    ),
    click.option(
        "--paths",
        "path_profile",
        default="",
        metavar="NAME",
        help=help_text(
            "Shipped table of paths to add to your `[paths]`: {names}.", names=", ".join(sorted(path_profiles()))
        ),
    ),
    click.option("--exclude", multiple=True, metavar="PATTERN", help="Files or folders to leave out; can be repeated."),
    click.option(
        "--config",
        "config_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Settings file to read instead of the nearest torchferry.toml or pyproject.toml.",
    ),
    click.option("--isolated", is_flag=True, help="Read no settings file."),
    click.option(
        "--stdin-filename",
        type=click.Path(path_type=Path),
        help="With `-`: the file name of the text on standard input, such as train.py.",
    ),
    click.option("--show-settings", is_flag=True, help="Print the settings that apply, and exit."),
    click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output."),
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(1),
        default=None,
        help="Number of processes that read files and judge programs.",
    ),
)
_OUTPUT = (
    click.option("-q", "--quiet", is_flag=True, help="Print only the first line."),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Also print the settings, what needs no change, and which grades were changed and why.",
    ),
    click.option("-f", "--output-format", type=click.Choice(FORMATS), default="text", help="Form of the report."),
    file_option,
)


rehearse_seconds_option = click.option(
    "--rehearse-seconds",
    type=click.FloatRange(1),
    default=600,
    show_default=True,
    metavar="N",
    help="Time limit of each rehearsal, in seconds.",
)


def selection_options(function: Function) -> Function:
    """Add the options that choose a target, files and rules; the command gets them as `choices`.

    With `--show-settings` the command is not called.
    """

    @wraps(function)
    def command(
        *,
        paths: tuple[Path, ...],
        target: str,
        select: str,
        ignore: str,
        seen: Path | None,
        exclude: tuple[str, ...],
        config_file: Path | None,
        isolated: bool,
        stdin_filename: Path | None,
        path_profile: str,
        show_settings: bool,
        lang: str | None,
        jobs: int | None,
        **others: Any,
    ) -> Any:
        if isolated and config_file is not None:
            raise UsageError(say("--config and --isolated contradict each other; name one"))
        choices = Choices(
            paths or (Path("."),),
            target,
            codes(select),
            codes(ignore),
            exclude,
            lang or language(),
            jobs or env.jobs(),
            seen,
            config_file,
            isolated,
            stdin_filename,
            path_profile=path_profile,
        )
        with reading_standard_input(choices) as choices:
            if show_settings:
                for line in settings_lines(read_settings(choices), choices):
                    print_text(line)
                return None
            return function(choices=choices, **others)

    for option in reversed(_SELECTION):
        command = option(command)
    return command  # type: ignore[return-value]


STYLES = ("native", "portable", "shim")
"""The target's own API in place of CUDA's; one that leads to whichever device is there; or one import that redirects
CUDA's, and nothing else."""

_STYLE = (
    click.option(
        "--style",
        type=click.Choice(STYLES),
        default="native",
        help="What to write: the vendor's own API, code for all devices, or a redirect.",
    ),
    click.option(
        "--device-module",
        type=click.Choice(DEVICE_MODULES),
        default="file",
        help="With --style portable: a small file in the project, the torchferry package, or torch.accelerator.",
    ),
)


def style_options(function: Function) -> Function:
    """Add the options that choose how code is written."""
    for option in reversed(_STYLE):
        function = option(function)
    return function


def refuse_seen(choices: Choices) -> None:
    """Refuse the report of a run where the redirect is to be written.

    Raises:
        UsageError: both are asked for.
    """
    if choices.seen is not None and choices.style == "shim":
        raise UsageError(
            say("--seen has no use with `--style shim`: the redirect handles these lines in every run"),
            say("use --seen without --style shim; it finds what has to be rewritten by hand"),
        )


def output_options(function: Function) -> Function:
    """Add the options that choose the form of a report."""
    for option in reversed(_OUTPUT):
        function = option(function)
    return function
