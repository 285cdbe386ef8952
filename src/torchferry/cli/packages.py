"""The packages of an environment that a project reaches, looked into."""

from __future__ import annotations

from collections.abc import Container

from torchferry.cli.settings import RunSettings
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_notice
from torchferry.installed.cache import Cache
from torchferry.installed.environment import Environment
from torchferry.installed.inspection import inspect
from torchferry.installed.model import Inspected
from torchferry.rules.analysis import Analysis
from torchferry.source.kinds import Kind
from torchferry.source.project import Project


def reached(environment: Environment, setting: RunSettings, analysis: Analysis, lang: str) -> tuple[Inspected, ...]:
    """Return what is known of the packages that the files of a project import, and those that these run."""
    return looked_into(environment, setting, imported(setting, analysis), lang)


def looked_into(environment: Environment, setting: RunSettings, modules: set[str], lang: str) -> tuple[Inspected, ...]:
    """Return what is known of packages by the modules that are imported of them, and of those that these run."""
    for remark in environment.remarks:
        print_notice(remark.render(lang))
    with doing(say("reading packages"), len(modules)) as work:

        def opened(package: str, waiting: int) -> None:
            work.reach(work.done + 1, work.done + 1 + waiting)

        inspected = inspect(environment, modules, setting.target, cache=Cache(), progress=opened)
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
