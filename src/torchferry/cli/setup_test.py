"""`torchferry setup-test`: write a test of the machine that a project is to run on."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.named_target import required_target
from torchferry.cli.settings import project_name
from torchferry.cli.writing import file_option
from torchferry.core.config import load
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_data, print_text


@click.command("setup-test")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@target_option()
@file_option
@click.option("--force", is_flag=True, help="Replace a file that torchferry did not write, or that was edited.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(folder: Path, target: str, output_file: Path | None, force: bool, lang: str | None) -> None:
    """Write a test of the machine that the project in FOLDER is to run on, as one file that needs no torchferry.

    It is made from the project's imports and requirements, runs on Python 3.8 or later, and asks six questions: torch
    and the plugin, the device, the device manager, the dependencies in their versions, the dtypes, and the download of
    the models that the code names. Without `-o` the file goes to standard output.
    """
    from torchferry.kit.plan import setup_test_text  # imported late: other commands need none of it

    lang = lang or language()
    config = load(folder)
    chosen = required_target(target or config.target)
    text = setup_test_text(folder, project_name(folder), chosen, config.exclude, lang)
    if output_file is None:
        print_data(text)
        return
    from torchferry.device.install_file import install_file

    written = install_file(output_file.parent, output_file.name, text, force=force)
    message = say("{path} is written", path=output_file) if written else say("{path} is up to date", path=output_file)
    print_text(message.render(lang))
