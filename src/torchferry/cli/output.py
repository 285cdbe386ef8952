"""Where reports go."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from torchferry.cli.writing import write
from torchferry.core.messages import say, say_plural
from torchferry.core.recorded_decisions import FIX
from torchferry.core.terminal import is_terminal, print_notice, print_text, style, visible

if TYPE_CHECKING:
    from torchferry.core.finding import Finding
    from torchferry.core.recorded_decisions import RecordedDecision
    from torchferry.report.model import Report
    from torchferry.report.text_layout import TextLayout


def write_report(
    report: Report,
    form: str,
    lang: str,
    file: Path | None,
    verbose: bool = False,
    paths: Iterable[Path] = (),
    root: Path | None = None,
) -> None:
    """Write a report to a file, or to standard output.

    Args:
        report: The report.
        form: One of the forms of `--output-format`.
        lang: The language.
        file: Where to; None for standard output.
        verbose: Whether text says more.
        paths: What was named on the command line, for the commands that come next.
        root: The folder of the files that the report is about, for showing their code; None where there is none.

    Raises:
        TorchferryError: the file cannot be written.
    """
    if form in ("text", "full"):
        from torchferry.report import full_format, text_format
        from torchferry.report.text_layout import TextLayout

        if form == "full":
            lines = full_format.lines(report, lang, paint if file is None else None, verbose)
        else:
            layout = TextLayout(lang, verbose=verbose) if file is not None else terminal_layout(lang, verbose)
            lines = text_format.lines(report, layout, [*map(str, paths)] or ["."])
        if file is not None:
            write(lines, file)
            return
        for line in lines:
            print_text(line)
        return
    text: str
    if form == "json-2":
        from torchferry.report.json_format import render_older

        text = render_older(report, lang)
    elif form == "html":
        from torchferry.report import excerpts, html_format

        read = excerpts.no_code if root is None else excerpts.CodeReader(root).around
        text = html_format.render(report, lang, [*map(str, paths)] or ["."], read)
    else:
        text = importlib.import_module(f"torchferry.report.{form}_format").render(report, lang)
    write(text, file)


def terminal_layout(lang: str, verbose: bool = False) -> TextLayout:
    """Return how text is written to standard output: with colours and the columns of a terminal, where it is one."""
    from torchferry.report.text_layout import TextLayout

    columns = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
    return TextLayout.of_terminal(lang, paint, verbose, columns)


def tell_idle(patterns: Iterable[str], lang: str) -> None:
    """Say which patterns of `--exclude` leave nothing out: what they were to spare is taken."""
    for pattern in dict.fromkeys(patterns):
        warning = say(
            "`--exclude {pattern}` leaves nothing out: no file or folder has this name or path", pattern=pattern
        )
        print_notice(f"torchferry: {warning.render(lang)}")


def tell_idle_ignores(patterns: Iterable[str], paths: Iterable[str], lang: str) -> None:
    """Say which patterns of `per-file-ignores` fit no file of the project."""
    left = set(patterns)
    if not left:
        return
    from fnmatch import fnmatchcase  # imported late: few configurations have such a table

    for path in paths:
        left = {pattern for pattern in left if not fnmatchcase(path, pattern)}
    for pattern in sorted(left):
        warning = say(
            "`per-file-ignores` has `{pattern}`, which matches no file; correct it or remove it",
            pattern=pattern,
        )
        print_notice(f"torchferry: {warning.render(lang)}")


def tell_stale_decisions(decided: Iterable[RecordedDecision], findings: Iterable[Finding], lang: str) -> None:
    """Say which recorded decisions name places that are gone or have changed: they are asked about again."""
    places = {finding.key for finding in findings}
    for each in decided:
        if each.choice == FIX:  # its places are to be gone
            continue
        gone = sum(tuple(place) not in places for place in each.places)
        if gone:
            warning = say_plural(
                "{id}: one place that {name} accepted has changed or is gone; the decision no longer applies to it",
                "{id}: {count} places that {name} accepted have changed or are gone; the decision no longer applies "
                "to them",
                id=each.id,
                name=each.by,
                count=gone,
            )
            print_notice(f"torchferry: {visible(warning.render(lang))}")


_STYLES = {
    "verdict": ("bold",),
    "path": ("bold",),
    "safe": ("green",),
    "unsafe": ("yellow",),
    "manual": ("red",),
    "note": ("dim",),
}


def paint(text: str, kind: str) -> str:
    """Return a text in the colour of its kind, where the terminal has colours."""
    return style(text, *_STYLES[kind])
