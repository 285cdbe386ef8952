"""What the commands of `torchferry profile` share: options."""

from __future__ import annotations

import click

from torchferry.profiling.report import TOP

top_option = click.option("--top", type=click.IntRange(1), default=TOP, show_default=True, help="Rows of a table.")
format_option = click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "csv", "html"]),
    default="text",
    help="Form of the report.",
)
lang_option = click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
