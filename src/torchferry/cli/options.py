"""Options that several commands share, and what they mean together."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.cli.device_module import portable_target
from torchferry.core import env
from torchferry.core.config import Config, load, read
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.rules.analysis import Request
from torchferry.rules.base import Options
from torchferry.rules.examined import Selection
from torchferry.rules.registry import rules, unknown_rule
from torchferry.rules.run.sightings import read_sightings
from torchferry.source.copied import Placement
from torchferry.source.git import repository_of
from torchferry.source.tree import list_files

FORMATS = ("text", "json", "sarif", "github", "csv", "html")

Function = TypeVar("Function", bound=Callable[..., Any])


class Choices(NamedTuple):
    """What the user asked for on the command line, before the settings file is read.

    Attributes:
        paths: Files and folders to look at; `-` alone for standard input.
        target: Target, as `NAME` or `NAME@VERSION`; empty for that of the settings file.
        select: Codes or families of rules to apply.
        ignore: Codes or families of rules to leave out.
        exclude: Patterns of paths to leave out.
        lang: Language of the output.
        jobs: How many processes may read files.
        seen: The report of a run.
        config_file: The settings file; None for the nearest one.
        isolated: Whether no settings file is read.
        stdin_filename: What standard input is called, where it is to be read.
        unsafe_fixes: Whether unsafe fixes are applied.
        rewrite_documents: Whether commands in README files are rewritten.
        style: `native`, `portable` or `shim`.
        device_module: What portable code imports.
        home: The project's folder, where the file that is read is a copy of standard input.
        copied_to: The folder that holds this copy.
    """

    paths: tuple[Path, ...]
    target: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    lang: str
    jobs: int
    seen: Path | None
    config_file: Path | None
    isolated: bool
    stdin_filename: Path | None
    unsafe_fixes: bool = False
    rewrite_documents: bool = False
    style: str = "native"
    device_module: str = "file"
    home: Path | None = None
    copied_to: Path | None = None

    @property
    def root(self) -> Path:
        """The folder that paths are counted from: the one folder that is named, else the one around what is named.

        Raises:
            UsageError: the paths belong to different projects.
        """
        if self.copied_to is not None:
            return self.copied_to
        first = self.paths[0]
        if len(self.paths) == 1:
            return first if first.is_dir() else first.parent
        folders = [Path(os.path.abspath(path if path.is_dir() else path.parent)) for path in self.paths]
        around = Path(os.path.commonpath(folders))
        if around in (Path(around.anchor), Path.home()) or len({repository_of(folder) for folder in folders}) > 1:
            raise UsageError(
                say("{first} and {other} are not of one project", first=first, other=self.paths[-1]),
                say("run the command once for each project"),
            )
        return Path(os.path.relpath(around))

    @property
    def only(self) -> tuple[str, ...]:
        """What to look at below the root; empty for everything."""
        names = tuple(os.path.relpath(path, self.root).replace(os.sep, "/") for path in self.paths)
        return () if "." in names else names


class Setting(NamedTuple):
    """A run as it is to be: the project, its name, the target, and the request for the analysis."""

    root: Path
    name: str
    config: Config
    target: Target
    request: Request
    style: str = "native"
    placement: Placement | None = None
    device_module: str = ""


_SELECTION = (
    click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True, path_type=Path)),
    click.option(
        "-t",
        "--target",
        default="",
        metavar="NAME[@VERSION]",
        shell_complete=complete_target,
        help=f"Where it is to run: {', '.join(built_in())}; VERSION is the plugin's.",
    ),
    click.option("--select", default="", metavar="CODES", help="Rules or families to apply: DEV,AMP101."),
    click.option("--ignore", default="", metavar="CODES", help="Rules or families to leave out."),
    click.option(
        "--seen",
        type=click.Path(dir_okay=False, path_type=Path),
        help="What `torchferry run --report FILE` wrote: lines that only the run saw become findings.",
    ),
    click.option("--exclude", multiple=True, metavar="PATTERN", help="Files to leave out; can be repeated."),
    click.option(
        "--config",
        "config_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Settings file to read in place of the nearest torchferry.toml or pyproject.toml.",
    ),
    click.option("--isolated", is_flag=True, help="Read no settings file."),
    click.option(
        "--stdin-filename",
        type=click.Path(path_type=Path),
        help="With `-`: what the text on standard input is called, such as train.py.",
    ),
    click.option("--show-settings", is_flag=True, help="Print the settings that apply, and end."),
    click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output."),
    click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes that read files."),
)
_OUTPUT = (
    click.option("-q", "--quiet", is_flag=True, help="Print the first line alone."),
    click.option("-v", "--verbose", is_flag=True, help="Also print the settings, and what needs no change."),
    click.option("-f", "--output-format", type=click.Choice(FORMATS), default="text", help="Form of the report."),
    click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it."),
)


def selection_options(function: Function) -> Function:
    """Add the options that choose a target, files and rules; the command gets them as `choices`.

    With `--show-settings` the command is not called.
    """

    @wraps(function)
    def command(
        *,
        paths: tuple[Path, ...],
        target: str,
        select: str,
        ignore: str,
        seen: Path | None,
        exclude: tuple[str, ...],
        config_file: Path | None,
        isolated: bool,
        stdin_filename: Path | None,
        show_settings: bool,
        lang: str | None,
        jobs: int | None,
        **others: Any,
    ) -> Any:
        if isolated and config_file is not None:
            raise UsageError(say("--config and --isolated contradict each other; name one"))
        choices = Choices(
            paths or (Path("."),),
            target,
            codes(select),
            codes(ignore),
            exclude,
            lang or env.language(),
            jobs or env.jobs(),
            seen,
            config_file,
            isolated,
            stdin_filename,
        )
        with reading_standard_input(choices) as choices:
            if show_settings:
                for line in settings_lines(read_settings(choices), choices):
                    click.echo(line)
                return None
            return function(choices=choices, **others)

    for option in reversed(_SELECTION):
        command = option(command)
    return command  # type: ignore[return-value]


@contextmanager
def reading_standard_input(choices: Choices) -> Iterator[Choices]:
    """Put the text on standard input, where it is asked for, into a folder of its own for as long as the run takes.

    Raises:
        UsageError: `-` stands beside other paths, or has no name.
    """
    dash = Path("-")
    if dash not in choices.paths:
        if choices.stdin_filename is not None:
            raise UsageError(say("--stdin-filename belongs to `-`, which reads standard input"))
        yield choices
        return
    if len(choices.paths) > 1:
        raise UsageError(say("`-` reads standard input, and stands alone"))
    if choices.stdin_filename is None:
        raise UsageError(
            say("the text on standard input has no name, which says what kind of file it is"),
            say("add --stdin-filename train.py"),
        )
    from tempfile import TemporaryDirectory  # imported late: few runs read standard input

    here = Path.cwd()
    named = Path(os.path.abspath(choices.stdin_filename))
    home = here if named.is_relative_to(here) else named.parent
    if named in (here, home):
        raise UsageError(
            say("{path} is a folder", path=choices.stdin_filename),
            say("name one such as train.py, run.sh or config.yaml"),
        )
    if sys.stdin is None:  # it was closed
        raise UsageError(say("standard input cannot be read: {error}", error=os.strerror(errno.EBADF)))
    try:
        text = sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(say("standard input cannot be read: {error}", error=error.strerror)) from None
    with TemporaryDirectory(prefix="torchferry-") as folder:
        copy = Path(folder, named.relative_to(home))
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
        except OSError as error:
            raise UsageError(say("cannot write {path}: {error}", path=copy, error=error.strerror)) from None
        yield choices._replace(paths=(copy,), home=home, copied_to=Path(folder))


def output_options(function: Function) -> Function:
    """Add the options that choose the form of a report."""
    for option in reversed(_OUTPUT):
        function = option(function)
    return function


def codes(text: str) -> tuple[str, ...]:
    """Split a list of codes or families, and check that each is one.

    Raises:
        UsageError: one is neither a rule nor a family.
    """
    given = tuple(code.strip().upper() for code in text.split(",") if code.strip())
    known = [rule.CODE for rule in rules()]
    for code in given:
        if not any(name.startswith(code) for name in known):
            raise unknown_rule(code)
    return given


def read_settings(choices: Choices) -> Config:
    """Return the settings of the file that is named, of none, or of the nearest.

    Raises:
        UsageError: the file cannot be read, or says what cannot be.
    """
    if choices.isolated:
        return Config()
    return load(choices.home or choices.root) if choices.config_file is None else read(choices.config_file)


def settings_lines(config: Config, choices: Choices) -> Iterator[str]:
    """Yield the settings that apply, those of the command line included, as TOML."""
    applied = _with_choices(config, choices)
    source = say("no settings file") if config.source is None else say("settings of {path}", path=config.source)
    yield f"# {source.render(choices.lang)}"
    tables = []
    for item in fields(Config):
        if item.name == "source":
            continue
        key, value = item.name.replace("_", "-"), getattr(applied, item.name)
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
    """Return the settings with those of the command line, which win, or are added to them."""
    return replace(
        config,
        target=choices.target or config.target,
        select=choices.select or config.select,
        ignore=(*choices.ignore, *config.ignore),
        exclude=(*choices.exclude, *config.exclude),
        unsafe_fixes=choices.unsafe_fixes or config.unsafe_fixes,
        rewrite_documents=choices.rewrite_documents or config.rewrite_documents,
    )


def settle(choices: Choices, rewrite: bool) -> Setting:
    """Read the settings file and put it together with the command line, which wins.

    Raises:
        UsageError: no target is named, or something named does not exist.
        TorchferryError: the report of a run cannot be read, or is none.
    """
    root, only = choices.root, choices.only
    config = _with_choices(read_settings(choices), choices)
    if not config.target:
        raise UsageError(
            say("no target is named"),
            say("say `--target` and one of {names}, or set `target` in torchferry.toml", names=", ".join(built_in())),
        )
    for pattern in ((), *config.per_file_ignores.values()):
        codes(",".join((*config.select, *config.ignore, *pattern)))
    target = Target.named(config.target)
    selection = Selection(
        select=config.select,
        ignore=config.ignore,
        unsafe=config.unsafe_fixes,
        per_file=tuple(config.per_file_ignores.items()),
    )
    options = Options(
        paths=config.paths,
        rewrite_documents=config.rewrite_documents,
        max_file_size=config.max_file_size,
    )
    listing = list_files(root, config.exclude, only)
    placement = None
    if choices.style == "portable":
        target, placement = portable_target(target, root, listing, choices.device_module)
    seen = None
    if choices.seen is not None:
        seen = read_sightings(choices.seen, root, only)
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
    unusual = choices.device_module if choices.style == "portable" and choices.device_module != "file" else ""
    name = project_name(choices.home or root)
    return Setting(root, name, config, target, request, choices.style, placement, unusual)


def project_name(root: Path) -> str:
    """Return the name of the project's folder."""
    return root.resolve().name or str(root)
