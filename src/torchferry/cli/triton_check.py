"""`torchferry triton check`: compile a project's Triton kernels with the vendor's own front end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.backends.target import Target
from torchferry.backends.triton_front_end import FrontEnd, front_end_of
from torchferry.backends.triton_target import triton_target
from torchferry.cli.completion import target_option
from torchferry.cli.named_target import named_target
from torchferry.cli.writing import file_option, write
from torchferry.core import env, exitcodes
from torchferry.core.config import project_root
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say, translatable
from torchferry.core.terminal import print_notice
from torchferry.source.kinds import Kind
from torchferry.source.project import Project
from torchferry.source.tree import list_files
from torchferry.triton.model import Signature
from torchferry.triton.signatures import DTYPES


@click.command("check")
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[FILE | FOLDER]...")
@target_option()
@click.option("--arch", default="", metavar="CARD", help="The card to compile for, such as 910B3.")
@click.option(
    "--signature",
    "signatures",
    multiple=True,
    metavar="'KERNEL: TYPES'",
    help="What a kernel is launched with, such as 'add: *fp32,*fp32,i32,BLOCK=1024'. Can be repeated.",
)
@click.option(
    "--launches",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take launches that `rehearse --summary-file` recorded.",
)
@click.option(
    "--assume-dtype",
    default="",
    metavar="DTYPE",
    help="Take this for tensors whose dtype the code does not say, such as fp16.",
)
@click.option(
    "--configurations",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Compile at most so many configurations of a kernel with one signature.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=120,
    show_default=True,
    metavar="N",
    help="Time limit of one configuration, in seconds.",
)
@click.option("-j", "--jobs", type=click.IntRange(1, 256), default=None, metavar="N", help="Compile so many at once.")
@click.option(
    "--import",
    "is_imported",
    is_flag=True,
    help="Import the files to find their kernels, which runs the project's code.",
)
@click.option(
    "--python", default="", metavar="VERSION", help="Python that runs the front end, such as 3.11, or its path."
)
@click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Make the front end of the wheels in this folder, without a network.",
)
@click.option(
    "-f", "--output-format", type=click.Choice(["text", "json", "html"]), default="text", help="Form of the report."
)
@file_option
@click.option("-v", "--verbose", is_flag=True, help="Also print every configuration, and what the compiler warns of.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    files: tuple[Path, ...],
    target: str,
    arch: str,
    signatures: tuple[str, ...],
    launches: Path | None,
    assume_dtype: str,
    configurations: int,
    timeout: float,
    jobs: int | None,
    is_imported: bool,
    python: str,
    wheels: Path | None,
    output_format: str,
    output_file: Path | None,
    verbose: bool,
    lang: str | None,
) -> None:
    """Compile Triton kernels with the vendor's own front end, and say for each configuration whether it is accepted.

    The front end is fetched once into the user's cache; it needs neither the card nor the vendor's toolkit. Nothing of
    the project is run. What a kernel is launched with comes from launches in the code, from a rehearsal (--launches),
    or from --signature; a kernel of which it is not known is not compiled. Ends with 1 unless every kernel is accepted.

    \b
    torchferry triton check -t NAME kernels.py
    torchferry triton check -t NAME --launches run.json
    torchferry triton check -t NAME kernels.py --signature 'add: *fp32,*fp32,i32,BLOCK=1024'
    """
    from torchferry.triton.checking import Checker, CheckRequest, kernels_in, unread_files
    from torchferry.triton.compiling import Compiler
    from torchferry.triton.environment import front_end_folder
    from torchferry.triton.model import CheckedProject
    from torchferry.triton.recorded import read_launches, recorded_signatures
    from torchferry.triton.report import document, lines, page
    from torchferry.triton.signatures import given_signatures

    lang = lang or language()
    paths = files or (Path(),)
    root = _root(paths)
    wanted = named_target(target, root)
    front_end = _front_end(wanted)
    card_facts = triton_target(wanted.backend)
    assert card_facts is not None
    card = _arch(front_end, arch)
    if assume_dtype and assume_dtype not in DTYPES:
        raise unknown_name(translatable("dtype"), assume_dtype, DTYPES)
    recorded = read_launches(launches) if launches is not None else None
    project, chosen = _project(root, paths)
    request = CheckRequest(root, chosen, wanted, assume=assume_dtype, most=configurations, is_imported=is_imported)
    kernels = kernels_in(request, project)
    given = given_signatures(signatures, kernels)
    by_kernel: dict[tuple[str, str], list[Signature]] = {}
    if recorded is not None:
        by_kernel, others = recorded_signatures(recorded.launches, kernels, root)
        _tell_left_out(recorded.left_out, others, lang)
    request = CheckRequest(
        root,
        chosen,
        wanted,
        given,
        by_kernel,
        assume_dtype,
        configurations,
        is_imported,
    )
    if not kernels:
        write(_nothing(output_format, lang), output_file)
        sys.exit(exitcodes.FINDINGS)
    begun, seconds, version = time.monotonic(), 0.0, ""
    checker = Checker(request, project, kernels)
    if checker.plan():  # else nothing is fetched
        with front_end_folder(front_end, wanted.name, python, wheels) as ready:
            packages = [root / "src", root] if is_imported else []
            compiler = Compiler(ready, front_end, card_facts, card, timeout, jobs or env.jobs(), packages)
            seconds, version = checker.run(compiler), ready.version
    checked = CheckedProject(
        str(wanted), front_end.title, card, version, checker.kernels(), unread_files(request, project),
        round(time.monotonic() - begun, 3), round(seconds, 3),
    )  # fmt: skip
    text: str | Iterable[str]
    if output_format == "json":
        text = json_text(document(checked, front_end))
    elif output_format == "html":
        text = page(checked, front_end, lang)
    else:
        text = lines(checked, front_end, lang, verbose=verbose)
    write(text, output_file)
    sys.exit(exitcodes.CLEAN if checked.is_good else exitcodes.FINDINGS)


def _root(paths: tuple[Path, ...]) -> Path:
    """Return the folder that paths are counted from: the project around what is named.

    Raises:
        UsageError: the paths belong to different projects.
    """
    folders = [Path(os.path.abspath(path if path.is_dir() else path.parent)) for path in paths]
    around = Path(os.path.commonpath(folders))
    root = project_root(around) or _around_package(around)
    if root == Path(root.anchor):
        raise UsageError(
            say("{first} and {other} belong to different projects", first=paths[0], other=paths[-1]),
            say("run the command once for each project"),
        )
    return root


def _around_package(folder: Path) -> Path:
    """Return the folder from which a package is imported that a folder belongs to; the folder itself for none."""
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _project(root: Path, paths: tuple[Path, ...]) -> tuple[Project, tuple[str, ...]]:
    """Return the files of the project, and those that are checked."""
    listing = list_files(root)
    python = [entry.path for entry in listing.entries if entry.kind is Kind.PYTHON and entry.path.endswith(".py")]
    named = [os.path.relpath(os.path.abspath(path), root).replace(os.sep, "/") for path in paths]
    extra = [name for name in named if name.endswith(".py") and name not in python]
    chosen = [
        path for path in [*python, *extra] if any(name in (".", path) or path.startswith(f"{name}/") for name in named)
    ]
    project = Project(root, [*python, *extra])
    project.keep()  # each kernel asks for the files that it is made of
    return project, tuple(sorted(chosen))


def _front_end(target: Target) -> FrontEnd:
    """Return the front end of a target.

    Raises:
        UsageError: none is public.
    """
    front_end = front_end_of(target.backend)
    if front_end is not None:
        return front_end
    if target.backend.TRITON is None:
        raise UsageError(
            say("there is no Triton for {target}", target=target.title),
            say("rewrite the kernels with operators of torch"),
        )
    raise UsageError(
        say("no front end of Triton is known for {target}: its wheels are not public", target=target.title),
        say("who has them describes them as `[front_end]` of triton.toml: docs/en/add-a-triton-front-end.md"),
    )


def _arch(front_end: FrontEnd, wanted: str) -> str:
    """Return the card as the compiler calls it.

    Raises:
        UsageError: it compiles for no such card.
    """
    if not wanted:
        return front_end.archs[0].name
    for each in front_end.archs:
        if wanted.casefold() in (each.name.casefold(), *(card.casefold() for card in each.cards)):
            return each.name
    raise unknown_name(translatable("card"), wanted, [each.name for each in front_end.archs])


def _tell_left_out(left_out: int, others: list[str], lang: str) -> None:
    if others:
        message = say("launches of kernels that these files do not have: {names}", names=", ".join(others[:10]))
        print_notice(f"torchferry: {message.render(lang)}")
    if left_out:
        message = say("the rehearsal left out {count} further kinds of launches", count=left_out)
        print_notice(f"torchferry: {message.render(lang)}")


def _nothing(output_format: str, lang: str) -> str | list[str]:
    message = say("no kernel of Triton was seen in these files")
    if output_format == "json":
        return json_text({"format": "torchferry triton check", "version": 1, "good": False, "kernels": []})
    return [message.render(lang)]
