"""The packages of an environment that a project reaches, looked into with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from time import monotonic

from torchferry.cli.output import progress_bar
from torchferry.cli.settings import RunSettings
from torchferry.core.messages import say
from torchferry.core.terminal import is_terminal, print_notice, visible
from torchferry.installed.cache import Cache
from torchferry.installed.environment import Environment
from torchferry.installed.inspection import inspect
from torchferry.installed.model import Inspected
from torchferry.rules.analysis import Analysis
from torchferry.source.kinds import Kind
from torchferry.source.project import Project

_PATIENCE = 0.5
"""Seconds before a progress bar is shown."""

_REFRESH = 0.1


def reached(environment: Environment, setting: RunSettings, analysis: Analysis, lang: str) -> tuple[Inspected, ...]:
    """Return what is known of the packages that the files of a project import, and those that these run."""
    return looked_into(environment, setting, imported(setting, analysis), lang)


def looked_into(environment: Environment, setting: RunSettings, modules: set[str], lang: str) -> tuple[Inspected, ...]:
    """Return what is known of packages by the modules that are imported of them, and of those that these run."""
    for remark in environment.remarks:
        print_notice(remark.render(lang))
    with _progress() as advance:
        inspected = inspect(environment, modules, setting.target, cache=Cache(), progress=advance)
    return tuple(inspected.values())


def imported(setting: RunSettings, analysis: Analysis, paths: Container[str] | None = None) -> set[str]:
    """Return the modules that the files of a project, or some of them, import and that are not its own."""
    own = analysis.project or Project(
        setting.root, [entry.path for entry in setting.request.listing.entries if entry.kind is Kind.PYTHON]
    )
    return {
        item.module
        for examined in analysis.examined
        if examined.outline is not None and (paths is None or examined.path in paths)
        for item in examined.outline.imports
        if item.module and not item.module.startswith(".") and own.module_path(item.module, examined.path) is None
    }


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None] | None]:
    """Show which package is looked into, on a terminal and when it takes long enough to be read."""
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    begun, shown, done = monotonic(), 0.0, 0
    bar = progress_bar(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    task = bar.add_task(say("reading packages").render(), total=None)

    def advance(package: str, waiting: int) -> None:
        nonlocal shown, done
        done += 1
        if monotonic() - begun < _PATIENCE:
            return
        bar.start()
        if monotonic() - shown > _REFRESH:
            shown = monotonic()
            bar.update(task, completed=done, total=done + waiting, description=visible(package))
            bar.refresh()

    try:
        yield advance
    finally:
        bar.stop()
