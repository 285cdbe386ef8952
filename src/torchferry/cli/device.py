"""`torchferry device`: show the device of this machine, and write the device manager into a project."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.core import exitcodes, supported_torch
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_data, print_text


@click.group("device")
def command() -> None:
    """Show the device of this machine, or write the device manager into a project."""


@command.command("show")
@click.option("--device", default="", metavar="NAME[:INDEX]", help="The target to look for; default: all.")
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def show(device: str, output_format: str, lang: str | None) -> None:
    """Show which device a program would get, with dtype and memory, and why not another one.

    Ends with 1 when that is the CPU and nobody asked for it.
    """
    lang = lang or language()
    try:
        with doing(say("importing torch")):
            from torchferry.device.manager import DeviceManager
    except ImportError as error:
        if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name == "torch":
            raise supported_torch.absent("torchferry device show", sys.executable) from None
        raise TorchferryError(
            say("DeviceManager needs torch: {error}", error=error.__cause__ or error),
            say("install the torch version that the accelerator's plugin requires"),
        ) from None
    with doing(say("looking for a device")):
        manager = DeviceManager(device)
    if output_format == "json":
        print_data(json_text(manager.report(), indent=2))
    else:
        print_text(*manager.describe(lang))
    sys.exit(exitcodes.CLEAN if manager.is_accelerator or manager.was_asked_for else exitcodes.FINDINGS)


@command.command("vendor")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", default="device_utils.py", show_default=True, help="Name of the file.")
@click.option("--force", is_flag=True, help="Replace a file that torchferry did not write, or that was edited.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def vendor(folder: Path, name: str, force: bool, lang: str | None) -> None:
    """Write the device manager into FOLDER as one file without dependencies, for Python 3.8 and torch 1.10 or later.

    The file is generated from the installed torchferry, including vendors of other distributions. It never
    imports torchferry.
    """
    from torchferry.device.install_file import install_file
    from torchferry.device.one_file import one_file

    written = install_file(folder, name, one_file(name), force=force)
    message = (
        say("{path} is written", path=folder / name) if written else say("{path} is up to date", path=folder / name)
    )
    print_text(message.render(lang or language()))
