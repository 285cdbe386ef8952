"""What the commands of `torchferry profile` share: options, and a bar while a large trace is read."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli.output import progress_bar
from torchferry.core.messages import say
from torchferry.core.terminal import is_terminal, visible
from torchferry.profiling.comparison import ProfiledRun, open_run
from torchferry.profiling.report import TOP

_LARGE = 100 << 20
"""Bytes of a trace from which on a bar is shown."""

top_option = click.option("--top", type=click.IntRange(1), default=TOP, show_default=True, help="Rows of a table.")
format_option = click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "csv", "html"]),
    default="text",
    help="Form of the report.",
)
lang_option = click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")


def open_shown(path: Path) -> ProfiledRun:
    """Return the run at a path, with a bar on the terminal while a large trace is read."""
    size = path.stat().st_size if path.is_file() else 0
    if size < _LARGE or not is_terminal(sys.stderr):
        return open_run(path)
    from rich.markup import escape

    with progress_bar() as bar:
        task = bar.add_task(escape(visible(say("reading {path}", path=path.name).render())), total=size)
        return open_run(path, lambda at: bar.update(task, completed=at, refresh=True))
