"""`torchferry compare record`: run a command and keep its numbers, so that a run elsewhere can be laid beside it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from torchferry.cli import ProgramCommand
from torchferry.cli.examination import check_ranks_option, command_argument, lang_option, rank_option, tell_agreement
from torchferry.cli.writing import creatable
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import make_writable_folder
from torchferry.core.messages import Message, language, say, say_plural
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.numerics.framework.launcher import Outcome, ToolSettings, last_words, require_examined, run
from torchferry.numerics.runlog import layout
from torchferry.rehearsal.config import note_verdict

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_TOOL = "torchferry.numerics.process_tools:begin_record"


@click.command("record", cls=ProgramCommand)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Folder that the record is written to.",
)
@click.option(
    "--first",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Number of first steps that are recorded operator by operator.",
)
@click.option(
    "--every",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="After these, record every Nth step operator by operator; 0 for none.",
)
@click.option(
    "--limit", default="1G", show_default=True, metavar="SIZE", help="Bytes that each rank may write, such as 1G."
)
@click.option(
    "--tensors", multiple=True, metavar="PATTERN", help="Keep whole results of these modules: 'GPT.blocks.2*'."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["safetensors", "parquet"]),
    default="safetensors",
    show_default=True,
    help="`parquet` also writes the rows as tables; it needs pyarrow.",
)
@rank_option
@click.option("--ranks", "rank_list", default="", hidden=True)
@check_ranks_option
@click.option(
    "--perturb",
    is_flag=True,
    help="Change parameters by 2^-24 first; the record is only for `diff --envelope`.",
)
@lang_option
@command_argument
def command(
    folder: Path,
    first: int,
    every: int,
    limit: str,
    tensors: tuple[str, ...],
    form: str,
    ranks: tuple[int, ...],
    rank_list: str,
    check_ranks: int,
    perturb: bool,
    lang: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and record its numbers in a folder: settings, weights, batches and the results of each operator.

    Record the correct run and the wrong one, and let `torchferry compare diff` report where and why they
    differ. Recording a step takes about 50 kB and 10 % of its time; whole tensors are kept only with `--tensors`.
    Ends with 1 if something could not be recorded, such as on a full disk.

    \b
    torchferry compare record -o there -- python train.py
    torchferry compare record -o there --first 5 --every 0 -- torchrun --nproc_per_node 8 train.py
    """
    lang = lang or language()
    _require_new(folder)
    options = {
        "folder": str(folder.absolute()),
        "first": first,
        "every": every,
        "limit": _size(limit),
        "tensors": list(tensors),
        "form": form,
        "perturb": perturb,
    }
    with temporary_folder("torchferry-record-") as session:
        settings = ToolSettings(_TOOL, options, (*ranks, *_ranks(rank_list)), check_ranks)
        outcome = run(list(command), settings, session)
        require_examined(outcome)
    ranks_differ = tell_agreement(outcome, lang)
    for line in _account(folder, outcome):
        print_notice(f"torchferry: {line.render(lang)}")
    ranks_without_end = [
        rank_folder for rank_folder in folder.glob(f"{layout.RANK}*") if not (rank_folder / layout.END).exists()
    ]
    failed = ranks_without_end or any(result.get("failed") or result.get("error") for result in outcome.results)
    if outcome.code == 0 and (ranks_differ or failed):
        note_verdict("torchferry compare record")
        sys.exit(exitcodes.FINDINGS)
    sys.exit(outcome.code)


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(say("{path} already exists", path=folder), say("name another folder, or remove this one"))
    try:
        make_writable_folder(folder)  # not after the run
    except OSError as error:
        raise UsageError(say("cannot write {path}: {error}", path=folder, error=error.strerror)) from None


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(
            say("--limit: `{text}` is not a size", text=text), say("write a number with K, M, G or T, such as 500M")
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _ranks(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise UsageError(say("`{text}` is not a list of ranks", text=text), say("write numbers, such as 0,1"))
    return tuple(map(int, parts))


def _account(folder: Path, outcome: Outcome) -> list[Message]:
    """Return what became of the recording, line by line."""
    lines: list[Message] = []
    recorded = [result for result in outcome.results if result.get("steps")]
    for rank_document in recorded:
        lines.append(
            say_plural(
                "rank {rank}: {count} step, {size} MiB in {folder}",
                "rank {rank}: {count} steps, {size} MiB in {folder}",
                rank=rank_document["rank"],
                count=rank_document["recorded"],
                size=f"{rank_document['bytes'] / 2**20:.1f}",
                folder=folder / f"{layout.RANK}{rank_document['rank']}",
            )
        )
        if rank_document["recorded"] < rank_document["steps"]:
            lines.append(
                say_plural(
                    "NOT COMPLETE: {steps} of {count} step is recorded: {why}",
                    "NOT COMPLETE: {steps} of {count} steps are recorded: {why}",
                    count=rank_document["steps"],
                    steps=rank_document["recorded"],
                    why=rank_document["ended"] or say("the recording of the other steps failed"),
                )
            )
        for error, count in rank_document["failures"].items():
            lines.append(
                say_plural(
                    "{count} part of the run was not recorded: {error}",
                    "{count} parts of the run were not recorded: {error}",
                    count=count,
                    error=error,
                )
            )
        if "unwritten" in rank_document["notes"]:
            lines.append(say("a forward pass on uninitialised memory was not recorded: its numbers mean nothing"))
        if "compiled" in rank_document["notes"]:
            lines.append(say("compiled regions ran operator by operator, because their kernels cannot be examined"))
        if rank_document.get("captured"):
            lines.append(
                say_plural(
                    "not recorded: {count} call in a captured graph, whose runs are not visible; disable the graph",
                    "not recorded: {count} calls in a captured graph, whose runs are not visible; disable the graph",
                    count=rank_document["captured"],
                )
            )
        if rank_document.get("forgotten"):
            lines.append(
                say(
                    "before its first step the program restored the random generator of the CPU, and none of "
                    "`{device}`: a resumed run draws other numbers; keep torch.{device}.get_rng_state_all() in the "
                    "checkpoint",
                    device=rank_document["forgotten"],
                )
            )
        if rank_document.get("skipped"):
            lines.append(say("not recorded: {names}", names=", ".join(sorted(rank_document["skipped"]))))
    written = recorded or any(folder.glob(f"{layout.RANK}*"))
    for process in outcome.broken:
        if written:
            lines.append(say("{process} was killed or crashed; its record ends with its last step", process=process))
        else:
            lines.append(say("{process} was killed or crashed before its first step", process=process))
    for result in outcome.results:
        if result.get("error"):
            why = last_words(result["error"])
            lines.append(say("process {process}: the recording failed: {error}", process=result["process"], error=why))
    if not written and not any(result.get("error") for result in outcome.results) and outcome.code == 0:
        if any(result.get("captured") for result in outcome.results):
            raise TorchferryError(
                say("NOTHING WAS RECORDED: everything ran inside a captured graph, whose runs are not visible"),
                say("disable the graph for the recording; the operators in it are the same"),
            )
        raise TorchferryError(
            say("NOTHING WAS RECORDED: no module ran and no optimizer stepped in a process that was recorded"),
            say("write what you would type without torchferry, such as {example}", example="-- python train.py"),
        )
    return lines
