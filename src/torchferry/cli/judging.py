"""The verdicts of the programs of a run: by all that they reach, also where only some findings are asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.cli.settings import RunSettings
from torchferry.core import config
from torchferry.core.messages import Bilingual, Message, say
from torchferry.core.record import NamedTuple
from torchferry.installed.model import Inspected
from torchferry.programs.model import JudgedProgram, Start, Unexamined
from torchferry.rules.analysis import Analysis, analyse
from torchferry.rules.family import Subject
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rule_facts, rules
from torchferry.source.git import repository_of
from torchferry.source.kinds import CODE
from torchferry.source.tree import Listing, list_files

_BUILDS = ("pyproject.toml", "setup.py", "setup.cfg")

_TOPS = ("requirements.txt", "environment.yml", "environment.yaml", "LICENSE", "LICENSE.txt", "LICENSE.md")
"""Files that lie in the uppermost folder of a project, where nothing better says which that is."""

_MOST_FOLDERS = 16
"""Folders above a file that are looked at."""


class Verdicts(NamedTuple):
    """What is known of the programs of a run.

    Attributes:
        programs: The programs and their verdicts.
        unexamined: The parts of the project that were not examined.
        remarks: What there is to know about how they were judged.
        partial: Whether the findings of the run are not all that the verdicts rest on.
        without_code: Whether a whole project was looked at, and none of its files holds code.
    """

    programs: tuple[JudgedProgram, ...] = ()
    unexamined: tuple[Unexamined, ...] = ()
    remarks: tuple[Message, ...] = ()
    partial: bool = False
    without_code: bool = False


def within_project(choices: Choices) -> Choices:
    """Return choices that count paths from the project around the files that are named, where files are named."""
    if choices.home is not None or all(path.is_dir() for path in choices.paths):
        return choices
    around = project_around(choices.named_folder)
    return choices if around == choices.named_folder else choices._replace(around=around)


def whole(setting: RunSettings, choices: Choices, analysis: Analysis) -> Analysis:
    """Return the analysis of the whole project with every rule: the one that is there, where it is that."""
    selection = setting.request.selection
    if not (choices.only or selection.select or selection.ignore or selection.per_file):
        return analysis
    listing = whole_listing(setting, choices)
    request = setting.request._replace(
        listing=listing, selection=Selection(), rewrite=False, account=False, seen=None, redirected=False
    )
    return analyse(request)


def whole_listing(setting: RunSettings, choices: Choices) -> Listing:
    """Return the files of the whole project, also where some are named.

    A file in a home folder, or in one in which everybody writes, has no project around it.
    """
    listing = setting.request.listing
    if not choices.only or not _may_be_a_project(Path(os.path.abspath(setting.root))):
        return listing
    every = list_files(setting.root, setting.config.exclude)
    # what is named counts also where git or a pattern leaves it out
    return every._replace(entries=sorted({*every.entries, *listing.entries}))


def verdicts(
    setting: RunSettings,
    choices: Choices,
    analysis: Analysis,
    packages: Iterable[Inspected] = (),
    starts: Mapping[str, Start] | None = None,
) -> Verdicts:
    """Judge the programs that are asked for.

    Args:
        setting: The run as it is to be.
        choices: What was asked for.
        analysis: The whole project with every rule, of `whole`.
        packages: What an environment shows of the packages that it imports.
        starts: How the user starts some programs, by their file or the name of the console script.
    """
    if choices.home is not None:  # one file, whose project is not there
        return Verdicts()
    from torchferry.programs.verdicts.judging import judge  # imported late: most migrations judge nothing
    from torchferry.programs.verdicts.unexamined import unexamined

    only = tuple(os.path.normpath(path) for path in choices.only)
    named = setting.config.entry_points
    judged = judge(analysis, setting.target, named, only, packages, starts, setting.request.jobs)
    selection = setting.request.selection
    left_out = bool(selection.select or selection.ignore or selection.per_file)
    remarks = []
    if left_out and judged:
        remarks.append(say("Only findings of some rules are shown; the programs are judged by all rules."))
    if only and judged:
        remarks.append(
            say("Findings are shown only for the named files; the programs are judged by everything that they reach.")
        )
    if not only:
        remarks += _idle_settings(setting, analysis)
    without_code = not only and not any(item.kind in CODE for item in analysis.examined)
    return Verdicts(judged, unexamined(analysis), tuple(remarks), left_out or bool(only), without_code)


def _idle_settings(setting: RunSettings, analysis: Analysis) -> Iterator[Message]:
    """Yield which rules that the settings leave out find nothing: what they answered is gone, or is not on this target.

    What only a run sees is not known here.
    """
    ignore, per_file = setting.config.ignore, setting.config.per_file_ignores
    if not (ignore or per_file):
        return
    places = {(finding.location.path, finding.code) for finding in analysis.findings}
    title = setting.target.title
    for code in dict.fromkeys(ignore):
        if not _is_of_run(code) and not any(other.startswith(code) for _, other in places):
            yield _idle("ignore", code, title)
    paths = {path for path, _ in places}
    for pattern, codes in per_file.items():
        fitting = {path for path in paths if fnmatchcase(path, pattern)}
        if not any(fnmatchcase(entry.path, pattern) for entry in setting.request.listing.entries):
            continue  # it fits no file, which is said when the settings are read
        codes_there = {other for path, other in places if path in fitting}
        for code in codes:
            if not _is_of_run(code) and not any(other.startswith(code) for other in codes_there):
                yield _idle(f'per-file-ignores."{pattern}"', code, title)


def _idle(setting: str, code: str, target: Bilingual) -> Message:
    return say(
        "`{setting}` has `{code}`, but {target} has no such finding; remove it unless another target needs it",
        setting=setting,
        code=code,
        target=target,
    )


def _is_of_run(code: str) -> bool:
    """Whether a code, or a family, is of rules that speak of nothing but what runs see."""
    return all(rule_facts(rule.CODE).about is Subject.RUN for rule in rules() if rule.CODE.startswith(code))


def project_around(folder: Path) -> Path:
    """Return the folder of the project that a folder belongs to, in the form in which the folder was named.

    That is, the first that there is: the folder of the settings file, the work tree of git, the nearest folder with a
    build script, the nearest with requirements or a licence, and the folder that holds the package.

    Raises:
        UsageError: a folder on the way cannot be read.
    """
    start = Path(os.path.abspath(folder))
    around = [place for place in (start, *start.parents)[:_MOST_FOLDERS] if _may_be_a_project(place)]
    settings = config.find(start)
    chosen = (settings.parent if settings is not None else None, repository_of(start))
    nearest = next((place for place in chosen if place in around), None)
    nearest = nearest or _with_one_of(_BUILDS, around) or _with_one_of(_TOPS, around) or _above_packages(start, around)
    if nearest == start:
        return folder
    return nearest if folder.is_absolute() else Path(os.path.relpath(nearest))


def _may_be_a_project(folder: Path) -> bool:
    """Whether a folder may be somebody's project: not a home, nor one in which everybody writes, as /tmp."""
    if folder in (Path(folder.anchor), Path.home()):
        return False
    try:
        return not os.lstat(folder).st_mode & stat.S_IWOTH
    except OSError:
        return False


def _with_one_of(names: Iterable[str], folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if any((folder / name).is_file() for name in names)), None)


def _above_packages(start: Path, around: list[Path]) -> Path:
    for folder in around:
        if not (folder / "__init__.py").is_file():
            return folder
    return start
