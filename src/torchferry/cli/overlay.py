"""`migrate --overlay`: migrated copies of the modules of installed packages that the project's programs reach."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from torchferry.cli.choices import Choices
from torchferry.cli.packages import imported, looked_into
from torchferry.cli.settings import RunSettings, settle
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say
from torchferry.core.progress import counted
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import print_data, print_notice, print_text
from torchferry.installed.copying import content, licence_of, python_files, reached_modules
from torchferry.installed.distributions import Index
from torchferry.installed.environment import Environment, environment_of
from torchferry.installed.facts import Reader
from torchferry.installed.model import Inspected, State
from torchferry.migration.overlay import Copied, CopiedPackage, plan_overlay
from torchferry.migration.patch import patch
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.programs.verdicts.judging import reached_files
from torchferry.rules.analysis import analyse
from torchferry.rules.engine import Engine
from torchferry.source.kinds import Kind
from torchferry.source.project import Project
from torchferry.source.tree import Entry

_COPIED = (State.CHOOSES, State.KERNELS)
"""What a package must be for modules of it to be copied: one that knows the target decides by itself."""


class Overlay(NamedTuple):
    """What the user asks for: the folder, the environment, and whether nothing is written."""

    folder: Path
    python: Path | None
    check: bool
    diff: bool


def write_overlay(overlay: Overlay, choices: Choices, verbose: bool) -> NoReturn:
    """Write the copies, or show what they would be, and end.

    Raises:
        UsageError: the folder is not in the project.
        TorchferryError: it holds something, or cannot be written.
    """
    setting = settle(choices, rewrite=False)
    place = _place(overlay.folder, setting.root)
    environment = environment_of(overlay.python or Path(os.environ.get("VIRTUAL_ENV") or sys.prefix))
    analysis = analyse(setting.request)
    reached = frozenset(reached_files(analysis, setting.target, named=setting.config.entry_points))
    inspected = looked_into(environment, setting, imported(setting, analysis, reached), choices.lang)
    copying = _Copying(environment, setting)
    packages = [package for item in inspected if (package := copying.copied(item)) is not None]
    writes = plan_overlay(place, str(setting.target), packages) if packages else []
    if overlay.diff:
        changed = [
            Write(f"{place}/modules/{module.path}", module.before, module.after)
            for package in packages
            for module in package.modules
        ]
        print_data(patch(changed))
        sys.exit(exitcodes.FINDINGS if changed else exitcodes.CLEAN)
    if writes and not overlay.check:
        with exclusive(setting.root) as tree:
            journal = apply(tree, writes, setting.target.journal_key)
        if journal.problem is not None:
            text = say(
                "this migration could not be signed: {problem}; `torchferry undo {root} --trust-journal` undoes it",
                problem=journal.problem,
                root=setting.root,
            )
            print_notice(text.render(choices.lang))
    for message in (*copying.editable, *_messages(packages, overlay)):
        print_text(message.render(choices.lang))
    for place in copying.places_left if verbose else ():
        print_text(place)
    for package in packages:
        if not package.is_licensed:
            warning = say(
                "{name} does not state its licence: keep the copies on this machine", name=package.distribution
            )
            print_notice(f"torchferry: {warning.render(choices.lang)}")
    sys.exit(exitcodes.FINDINGS if overlay.check and writes else exitcodes.CLEAN)


def _place(folder: Path, root: Path) -> str:
    """Return the folder below the root, with `/`; it must be new or empty."""
    real, top = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    if top not in real.parents:
        raise UsageError(
            say("{folder} is not in the project", folder=folder),
            say("name a folder below {root}, so that `torchferry undo` finds it", root=root),
        )
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise TorchferryError(
            say("`{out}` already exists", out=folder),
            say("name a folder that does not exist or is empty; `torchferry undo` removes an earlier one"),
        )
    return real.relative_to(top).as_posix()


class _Copying:
    """Makes the copies of modules, package by package.

    Args:
        environment: Where the packages lie.
        setting: The target and the rules.
    """

    def __init__(self, environment: Environment, setting: RunSettings) -> None:
        self.index = Index(environment)
        self.setting = setting
        self.editable: list[Message] = []
        self.places_left: list[str] = []

    def copied(self, inspected: Inspected) -> CopiedPackage | None:
        """Return the copies of a package's modules; None where there is nothing to change in what is reached."""
        if inspected.state not in _COPIED:
            return None
        located = self.index.locate(inspected.package)
        if located is None:
            return None
        if inspected.editable:
            self.editable.append(
                say(
                    "{name} is installed as editable: it was not copied; migrate it in its own folder",
                    name=inspected.package,
                )
            )
            return None
        distribution = located.distribution
        reader = Reader(distribution, inspected.package, self.setting.target.words)
        modules = distribution.modules
        reached = reached_modules(reader, inspected.package, inspected.run)
        request = self.setting.request
        followed = request.target.written_modules
        project = Project(distribution.folder, python_files(distribution), followed=followed)
        engine = Engine(
            distribution.folder,
            request.target,
            request.rules,
            options=request.options,
            selection=request.selection,
            project=project,
        )
        before = len(self.places_left)
        title = say("migrating modules of {name}", name=inspected.package)
        done = [
            copied
            for module in counted(title, sorted(reached))
            if (copied := self._module(engine, reader, module, modules[module]))
        ]
        if not done:
            return None
        licence, texts = licence_of(distribution, reader)
        is_folder = modules.get(inspected.package, "").endswith("/__init__.py")
        return CopiedPackage(
            inspected.package,
            distribution.name,
            distribution.version,
            is_folder,
            licence,
            texts,
            tuple(done),
            len(self.places_left) - before,
        )

    def _module(self, engine: Engine, reader: Reader, module: str, path: str) -> Copied | None:
        before = content(reader, path)
        if not before:
            return None
        examined = engine.examine(Entry(path, Kind.PYTHON), rewrite=True)
        for_a_person = [finding for finding in examined.remaining if finding.grade in (Grade.MANUAL, Grade.UNSAFE)]
        self.places_left += (f"{finding.location} {finding.code}" for finding in for_a_person)
        if examined.after is None or examined.before != before:
            return None
        return Copied(module, path, before, examined.after, len(examined.fixed))


def _messages(packages: list[CopiedPackage], overlay: Overlay) -> Iterator[Message]:
    if not packages:
        yield say("nothing has to change in the packages that the programs reach")
    for package in packages:
        yield say(
            "{name} {version} ({licence}): modules {modules}, places changed {fixes}, left to do by hand {left}",
            name=package.distribution,
            version=package.version,
            licence=package.licence or ("?" if not package.is_licensed else package.licences[0][0]),
            modules=len(package.modules),
            fixes=sum(module.fixes for module in package.modules),
            left=package.places_left,
        )
    if packages and overlay.check:
        yield say("nothing was written")
    elif packages:
        yield say("import the copies first: PYTHONPATH={folder} python ...", folder=overlay.folder)
        yield say("the copies fit only the versions above; `torchferry undo` removes them")
