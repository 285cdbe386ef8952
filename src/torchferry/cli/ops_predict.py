"""`torchferry ops predict`: which operators a model's training step needs, without a card."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.backends.target import Target
from torchferry.cli.completion import target_option
from torchferry.cli.ops_options import inference_option
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice
from torchferry.ops.prediction import predicted


@click.command("predict")
@target_option()
@inference_option
@file_option
@click.argument("model", metavar="FILE.py:FUNCTION")
def command(target: str, inference: bool, output_file: Path | None, model: str) -> None:
    """Write which operators a model needs on an accelerator, as JSON, for `ops report`.

    FUNCTION takes the name of the device, or nothing. It returns (model, inputs), or a function that runs one step.
    It runs on a device without memory and values: nothing is computed, so large models take seconds. Which operators
    torch composes of others differs between plugins: name the target.

    \b
    torchferry ops predict -t NAME model.py:build -o ops.json
    """
    wanted = Target.named(target).for_installed_torch() if target else None
    needs = predicted(model, wanted, training=not inference)
    write(needs.to_json(), output_file)
    for place in needs.broken:
        print_notice(
            say("NOT COMPLETE: the run stopped at {place}; what comes behind it was not seen", place=place).render()
        )
    if needs.broken:
        sys.exit(exitcodes.ERROR)
