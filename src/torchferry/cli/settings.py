"""The settings of a run: the settings file and the command line, which wins, put together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torchferry.backends.path_profiles import profile_paths
from torchferry.backends.target import Target
from torchferry.cli.choices import Choices
from torchferry.cli.device_module import portable_target
from torchferry.cli.named_target import required_target
from torchferry.cli.output import tell_idle, tell_idle_ignores
from torchferry.core.config import Config, check_paths, load, read
from torchferry.core.enclosing_folders import enclosing_folders, is_planted
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import FILE as DECISIONS
from torchferry.core.recorded_decisions import RecordedDecision, read_decisions
from torchferry.rules.analysis import Request
from torchferry.rules.base import Options
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules, unknown_rule
from torchferry.source.tree import list_files

if TYPE_CHECKING:
    from torchferry.installed.environment import Environment
    from torchferry.kernels.survey import NativeSurvey
    from torchferry.source.copied import Placement


class RunSettings(NamedTuple):
    """A run as it is to be: the project, its name, the target, and the request for the analysis.

    `options` are those beside the style that decide what is written, where they are not the usual ones; `native` is
    what there is to port, once the project is examined.
    """

    root: Path
    name: str
    config: Config
    target: Target
    request: Request
    style: str = "native"
    placement: Placement | None = None
    options: tuple[str, ...] = ()
    native: NativeSurvey | None = None


def codes(text: str) -> tuple[str, ...]:
    """Split a list of codes or families, and check that each is one.

    Raises:
        UsageError: one is neither a rule nor a family.
    """
    given = tuple(code.strip().upper() for code in text.split(",") if code.strip())
    all_codes = [rule.CODE for rule in rules()]
    for code in given:
        if not any(name.startswith(code) for name in all_codes):
            raise unknown_rule(code)
    return given


def read_settings(choices: Choices) -> Config:
    """Return the settings of the file that is named, of none, or of the nearest.

    Raises:
        UsageError: the file cannot be read, or says what cannot be.
    """
    if choices.isolated:
        return Config()
    return load(choices.home or choices.named_folder) if choices.config_file is None else read(choices.config_file)


def settings_lines(config: Config, choices: Choices) -> Iterator[str]:
    """Yield the settings that apply, those of the command line included, as TOML."""
    applied = _with_choices(config, choices)
    source = say("no settings file") if config.source is None else say("settings of {path}", path=config.source)
    yield f"# {source.render(choices.lang)}"
    tables = []
    for name, value in applied._asdict().items():
        if name == "source":
            continue
        key = name.replace("_", "-")
        if isinstance(value, dict):
            tables.append((key, value))
        else:
            yield f"{key} = {_as_toml(value)}"
    for key, table in tables:
        if table:
            yield f"[{key}]"
            yield from (f"{_as_toml(name)} = {_as_toml(value)}" for name, value in table.items())


def _as_toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)  # the same for strings, numbers and booleans


def _with_choices(config: Config, choices: Choices) -> Config:
    """Return the settings with those of the command line, which win, or are added to them.

    Raises:
        UsageError: there is no table of paths of the name that is given, or the user's own contradicts it.
    """
    profile = choices.path_profile or config.path_profile
    paths = config.paths
    if profile:
        paths = {**profile_paths(profile), **config.paths}
        check_paths(f"{config.source or '--paths'} ({profile})", paths)
    return config._replace(
        paths=paths,
        path_profile=profile,
        target=choices.target or config.target,
        select=choices.select or config.select,
        ignore=(*choices.ignore, *config.ignore),
        exclude=(*choices.exclude, *config.exclude),
        unsafe_fixes=choices.unsafe_fixes or config.unsafe_fixes,
        rewrite_documents=choices.rewrite_documents or config.rewrite_documents,
    )


def settle(choices: Choices, rewrite: bool, environment: Environment | None = None) -> RunSettings:
    """Read the settings file and put it together with the command line, which wins.

    Args:
        choices: What was asked for on the command line.
        rewrite: Whether fixes are applied in memory.
        environment: The packages that are examined too; the plugin among them is the one that the code is to run with.

    Raises:
        UsageError: no target is named, or something named does not exist.
        TorchferryError: the report of a run cannot be read, or is none.
    """
    root, only = choices.root, choices.only
    config = _with_choices(read_settings(choices), choices)
    named = required_target(config.target)
    for pattern in ((), *config.per_file_ignores.values()):
        codes(",".join((*config.select, *config.ignore, *pattern)))
    target = named
    selection = Selection(
        select=config.select,
        ignore=config.ignore,
        unsafe=config.unsafe_fixes,
        per_file=tuple(config.per_file_ignores.items()),
        decided=() if choices.isolated else decisions_of_project(root, target.name),
    )
    options = Options(
        paths=config.paths,
        rewrite_documents=config.rewrite_documents,
        max_file_size=config.max_file_size,
        dtype=choices.dtype,
        status_line=choices.status_line,
    )
    listing = list_files(root, config.exclude, (".", *choices.besides_root) if choices.besides_root else only)
    if not only:  # else a pattern may be about what was not named
        tell_idle((pattern for pattern in choices.exclude if pattern in listing.idle), choices.lang)
        tell_idle_ignores(config.per_file_ignores, (entry.path for entry in listing.entries), choices.lang)
    placement = None
    if choices.style == "portable":
        target, placement = portable_target(target, root, listing, choices.device_module)
    if environment is not None:
        from torchferry.installed.plugin import installed_plugin  # imported late: most runs name no environment

        plugin = installed_plugin(environment, named)
        target = target if plugin is None else target.with_installed(plugin)
    seen = None
    if choices.seen is not None:
        from torchferry.rules.runtime.report import (
            read_runtime_report,  # imported late: few are given the report of a run
        )

        seen = read_runtime_report(choices.seen, root, only)
    request = Request(
        root,
        listing,
        target,
        rules(),
        options,
        selection,
        rewrite,
        config.entry_points,
        choices.jobs,
        seen=seen,
        redirected=choices.style == "shim",
    )
    unusual = []
    if choices.style == "portable" and choices.device_module != "file":
        unusual.append(f"--device-module {choices.device_module}")
    if choices.dtype:
        unusual.append(f"--dtype {choices.dtype}")
    if choices.status_line:
        unusual.append("--status-line")
    name = project_name(choices.home or root)
    return RunSettings(root, name, config, target, request, choices.style, placement, tuple(unusual))


def decisions_folder(root: Path) -> Path:
    """Return the real path of the folder whose file of decisions holds for a folder: the folder, or one above it."""
    for folder in enclosing_folders(root):
        path = folder / DECISIONS
        if os.path.lexists(path) and not is_planted(path, root):
            return folder
    return Path(os.path.realpath(root))


def decisions_of_project(root: Path, target: str) -> tuple[RecordedDecision, ...]:
    """Return what people decided about places below a folder, on a target, with paths from the folder.

    The file lies in the folder, or above it in the same project.

    Raises:
        UsageError: the file cannot be read, or contradicts itself.
    """
    folder = decisions_folder(root)
    below = Path(os.path.relpath(os.path.realpath(root), folder)).as_posix()
    prefix = "" if below == "." else f"{below}/"
    return tuple(
        each._replace(
            places=frozenset(
                place._replace(path=place.path.removeprefix(prefix))
                for place in each.places
                if place.path.startswith(prefix)
            )
        )
        for each in read_decisions(folder)
        if each.target == target
    )


def project_name(root: Path) -> str:
    """Return the name of the project's folder."""
    return root.resolve().name or str(root)
