"""Options that several commands share, and what they mean together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.cli.device_module import portable_target
from torchferry.core import env
from torchferry.core.config import Config, load
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.rules.analysis import Request
from torchferry.rules.base import Options
from torchferry.rules.examined import Selection
from torchferry.rules.registry import rules
from torchferry.rules.run.sightings import read_sightings
from torchferry.source.copied import Placement
from torchferry.source.tree import list_files

FORMATS = ("text", "json", "sarif", "github", "csv", "html")

Function = TypeVar("Function", bound=Callable[..., Any])


class Choices(NamedTuple):
    """What the user asked for on the command line, before the settings file is read."""

    path: Path
    target: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    unsafe_fixes: bool
    rewrite_documents: bool
    jobs: int
    seen: Path | None = None
    style: str = "native"
    device_module: str = "file"


class Setting(NamedTuple):
    """A run as it is to be: the project, the target, and the request for the analysis."""

    root: Path
    config: Config
    target: Target
    request: Request
    style: str = "native"
    placement: Placement | None = None
    device_module: str = ""


_SELECTION = (
    click.argument("path", type=click.Path(exists=True, path_type=Path), default="."),
    click.option(
        "-t",
        "--target",
        default="",
        metavar="NAME[@VERSION]",
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
    click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output."),
    click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Processes that read files."),
)
_OUTPUT = (
    click.option("-f", "--output-format", type=click.Choice(FORMATS), default="text", help="Form of the report."),
    click.option("-o", "--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it."),
)


def selection_options(function: Function) -> Function:
    """Add the options that choose a target, files and rules."""
    for option in reversed(_SELECTION):
        function = option(function)
    return function


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
            raise UsageError(say("there is no rule or family `{code}`", code=code), say("`torchferry rule` lists them"))
    return given


def settle(choices: Choices, rewrite: bool) -> Setting:
    """Read the settings file and put it together with the command line, which wins.

    Raises:
        UsageError: no target is named, or something named does not exist.
        TorchferryError: the report of a run cannot be read, or is none.
    """
    whole = choices.path.is_dir()
    root = choices.path if whole else choices.path.parent
    config = load(root)
    wanted = choices.target or config.target
    if not wanted:
        raise UsageError(
            say("no target is named"),
            say("say `--target` and one of {names}, or set `target` in torchferry.toml", names=", ".join(built_in())),
        )
    for pattern in ((), *config.per_file_ignores.values()):
        codes(",".join((*config.select, *config.ignore, *pattern)))
    target = Target.named(wanted)
    selection = Selection(
        select=choices.select or config.select,
        ignore=(*choices.ignore, *config.ignore),
        unsafe=choices.unsafe_fixes or config.unsafe_fixes,
        per_file=tuple(config.per_file_ignores.items()),
    )
    options = Options(
        paths=config.paths,
        rewrite_documents=choices.rewrite_documents or config.rewrite_documents,
        max_file_size=config.max_file_size,
    )
    listing = list_files(root, (*choices.exclude, *config.exclude), () if whole else (choices.path.name,))
    placement = None
    if choices.style == "portable":
        target, placement = portable_target(target, root, listing, choices.device_module)
    seen = None
    if choices.seen is not None:
        seen = read_sightings(choices.seen, root, "" if whole else choices.path.name)
    request = Request(
        root,
        listing,
        target,
        rules(),
        options,
        selection,
        rewrite,
        config.entry_points,
        choices.jobs or env.jobs(),
        seen=seen,
        redirected=choices.style == "shim",
    )
    unusual = choices.device_module if choices.style == "portable" and choices.device_module != "file" else ""
    return Setting(root, config, target, request, choices.style, placement, unusual)


def project_name(root: Path) -> str:
    """Return the name of the project's folder."""
    return root.resolve().name or str(root)
