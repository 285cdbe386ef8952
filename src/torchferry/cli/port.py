"""`torchferry port`: port the CUDA C++ of a project, with a list of what a person has to look at."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click

from torchferry.backends.target import Target
from torchferry.cli.completion import target_option
from torchferry.cli.writing import creatable, file_option, writable, write
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, language, say, say_plural
from torchferry.core.terminal import print_data, print_notice, print_text
from torchferry.kernels.gates.result import LEVELS, FileGate, GateRequest, GateState, state_text
from torchferry.kernels.listing import FORMATS, check_lines, render, review_lines, summary, table
from torchferry.kernels.output import PortOutput, differences
from torchferry.kernels.planning import plan_port
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.rules import read_rules, without_effect

_BY_SUFFIX = {".json": "json", ".sarif": "sarif", ".html": "html"}


@click.command("port")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@target_option(required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Folder for the result; default: PATH_TARGET beside PATH.",
)
@click.option("--in-place", is_flag=True, help="Write into the tree itself; the CUDA files stay beside their copies.")
@click.option("--ignore", multiple=True, metavar="DIR", help="Folder or file to leave out, with all below it.")
@click.option(
    "--map",
    "map_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own rules: a TOML that --names wrote, or the JSON of a vendor's tool.",
)
@click.option(
    "--drop-default-map", is_flag=True, help="Apply the rules of --map alone; suffixes of files still change."
)
@click.option("--unsafe", is_flag=True, help="Also apply rules of --map that change more than names.")
@click.option(
    "--names",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write proposed rules for the project's own names to this file.",
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Build file to change in place, such as setup.py, CMakeLists.txt or MANIFEST.in; may be repeated.",
)
@click.option(
    "--build-style",
    type=click.Choice(["branch", "replace"]),
    default="branch",
    help="Write the target's build beside CUDA's, chosen by a variable (branch), or in its place (replace).",
)
@click.option(
    "--tests",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Test, or folder of tests, whose lists of devices get the target beside CUDA; may be repeated.",
)
@click.option(
    "--requests",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write a request for each kernel that has to be rewritten to this file: Markdown, or by suffix .json.",
)
@click.option("--diff", is_flag=True, help="Print a patch and write nothing; exit with 1 if something would change.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option(
    "--review",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write the places to look at to this file: text, or by suffix .json, .sarif, .html.",
)
@click.option(
    "--gate",
    type=click.Choice(LEVELS),
    help="Check the result up to this level: its tokens; with the preprocessor; with the compiler, as CUDA.",
)
@click.option("--gate-only", multiple=True, metavar="FILE", help="With --gate: compile this file of PATH; repeatable.")
@click.option(
    "--gate-flag", multiple=True, metavar="FLAG", help="With --gate: flag for the compiler, such as -DWITH_CUDA."
)
@click.option(
    "--comments", is_flag=True, help="Also write the places to look at as comments above their lines in the ported C++."
)
@click.option(
    "--analyse",
    is_flag=True,
    help="Write nothing in the tree; print how much is renamed, to check and by hand, by class of API and file.",
)
@click.option("-f", "--output-format", type=click.Choice((*FORMATS, "csv")), default="text", help="Form of the result.")
@file_option
@click.option("-v", "--verbose", is_flag=True, help="Also print the places to look at.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    path: Path,
    target: str,
    out: Path | None,
    in_place: bool,
    ignore: tuple[str, ...],
    map_file: Path | None,
    drop_default_map: bool,
    unsafe: bool,
    names: Path | None,
    builds: tuple[Path, ...],
    build_style: str,
    tests: tuple[Path, ...],
    requests: Path | None,
    diff: bool,
    check: bool,
    review: Path | None,
    gate: str | None,
    gate_only: tuple[str, ...],
    gate_flag: tuple[str, ...],
    comments: bool,
    analyse: bool,
    output_format: str,
    output_file: Path | None,
    verbose: bool,
    lang: str | None,
) -> None:
    """Port the CUDA C++ of a project to another accelerator's kernel language.

    PATH is a folder, or one file. Names, headers and suffixes change; comments and strings do not. What renaming
    cannot solve is listed with the reason and what to do. The result is written beside the original, completely or
    not at all; `torchferry undo` removes it.
    """
    lang = lang or language()
    if sum((diff, check, analyse, in_place, out is not None)) > 1:
        raise UsageError(say("--diff, --check, --analyse, --in-place and --out exclude each other; give only one"))
    if output_format == ("sarif" if analyse else "csv"):
        raise UsageError(
            say("--output-format {form} does not go with this", form=output_format),
            say("csv is a form of --analyse alone, and sarif one of everything else"),
        )
    if drop_default_map and map_file is None:
        raise UsageError(say("--drop-default-map needs --map, whose rules alone are applied"))
    if (gate_only or gate_flag) and gate is None:
        raise UsageError(say("--gate-only and --gate-flag need --gate"))
    planned = plan_port(
        path,
        Target.named(target),
        out=out,
        in_place=in_place,
        ignore=ignore,
        rules=read_rules(map_file) if map_file is not None else None,
        drop_default_map=drop_default_map,
        unsafe=unsafe,
        builds=builds,
        build_style=build_style,
        tests=tests,
    )
    ported = planned.ported
    for text in without_effect(ported.rules.rules):
        print_notice(text.render(lang))
    if gate is not None:
        ported = _with_gates(ported, GateRequest(gate, gate_only, gate_flag, default_rules=not drop_default_map), lang)
    if names is not None:
        from torchferry.kernels.proposal import proposal

        write(proposal(ported, lang), names)
    if requests is not None:
        from torchferry.kernels.requests import requests_json, requests_markdown

        write((requests_json if requests.suffix == ".json" else requests_markdown)(ported, lang), requests)
    if review is not None:
        write(_review(ported, _BY_SUFFIX.get(review.suffix, "text"), lang), review)
    if comments:
        from torchferry.kernels.comments import with_comments

        ported, left = with_comments(ported)
        planned = replace(planned, ported=ported)
        if left:
            names_left = ", ".join(left)
            print_notice(
                say("no comments in {names}: binary, or a rule changed where its lines end", names=names_left).render(
                    lang
                )
            )
    is_empty = not any(file.is_source or file.builds for file in ported.files)
    if is_empty and not ported.unread:
        print_notice(say("{path} has no C++ file", path=path).render(lang))
    writes = differences(ported, planned.neighbours)
    failed = any(each.state is not GateState.PASSED for each in ported.gates)
    is_work_left = failed or ported.by_hand or ported.unread or is_empty
    if analyse:
        from torchferry.kernels.effort_report import render_effort

        write(render_effort(ported, output_format, lang, verbose=verbose), output_file)
        sys.exit(exitcodes.FINDINGS if is_work_left else exitcodes.CLEAN)
    if diff:
        from torchferry.migration.patch import patch

        print_data(patch(writes))
        unread = (f"{skipped}: {reason.render(lang)}" for skipped, reason in ported.skipped if skipped in ported.unread)
        print_notice(summary(ported).render(lang), *unread)
        sys.exit(exitcodes.FINDINGS if writes or is_work_left else exitcodes.CLEAN)
    would_change: list[str] | None = None
    if check:
        would_change = [] if planned.is_written() else [write.path for write in writes]
        written = "\n".join(check_lines(ported, would_change, lang)) if output_format == "text" else ""
    else:
        written = _written(planned.write(), lang)
    from torchferry.kernels.next_commands import next_commands

    following = next_commands(planned, path, requests is not None)
    _print(ported, output_format, output_file, verbose, lang, written, following, would_change)
    sys.exit(exitcodes.FINDINGS if is_work_left or would_change else exitcodes.CLEAN)


def _with_gates(ported: PortedTree, request: GateRequest, lang: str) -> PortedTree:
    """Run the gates; each file that was compiled is named on standard error as soon as it is known.

    Raises:
        TorchferryError: the port changed what no rule says.
    """
    from torchferry.kernels.gates.running import run_gates

    def each(level: str, file: FileGate) -> None:
        problems = (f"    {problem.render(lang)}" for problem in file.problems)
        print_notice(f"{level}: {file.path}: {state_text(file.state).render(lang)} ({file.seconds:.1f} s)", *problems)

    gates = run_gates(ported, request, each=each)
    wrong = [file for file in gates[0].files if file.state is GateState.FAILED]
    if wrong:
        raise TorchferryError(
            say(
                "the port of {path} is wrong, and nothing was written: {problem}",
                path=wrong[0].path,
                problem=wrong[0].problems[0],
            ),
            say("this is an error in torchferry: please report it with the file"),
        )
    return replace(ported, gates=gates)


def _written(result: PortOutput, lang: str) -> str:
    """Return what was written, and how it is taken back."""
    text = say("{folder} is up to date: nothing was written", folder=result.folder)
    if result.written:
        text = say_plural(
            "wrote {count} file to {folder}",
            "wrote {count} files to {folder}",
            count=result.written,
            folder=result.folder,
        )
    written = text.render(lang)
    if result.undo_from is not None and result.written:
        written += "; " + say("`torchferry undo {folder}` takes it back", folder=result.undo_from).render(lang)
    if result.originals:
        remaining = say("the CUDA originals stay (files: {count})", count=len(result.originals))
        written += "\n" + remaining.render(lang)
    if result.neighbours:
        changed = say_plural(
            "changed {count} file outside of it, which undo restores too",
            "changed {count} files outside of it, which undo restores too",
            count=result.neighbours,
        )
        written += "\n" + changed.render(lang)
    return written


def _print(
    ported: PortedTree,
    form: str,
    file: Path | None,
    verbose: bool,
    lang: str,
    written: str,
    following: Iterable[tuple[Message, str]],
    would_change: list[str] | None,
) -> None:
    if form != "text" or file is not None:
        write(render(ported, form, lang, would_change), file)
        if written:
            print_notice(*written.split("\n"))
        return
    listed = review_lines(ported.items, lang) if verbose else ()
    lines = [summary(ported).render(lang), *listed, "", *table(ported, lang, following)]
    if written:
        lines += ["", *written.split("\n")]
    print_text(*lines)


def _review(ported: PortedTree, form: str, lang: str) -> str | Iterable[str]:
    return review_lines(ported.items, lang) if form == "text" else render(ported, form, lang)
