"""`torchferry replay`: run the written call of an operator again, and judge it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchferry.core import exitcodes, supported_torch
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_data, print_text

if TYPE_CHECKING:
    import torch

    from torchferry.numerics.replay import Call, ReplayVerdict


@click.command("replay")
@click.argument("directory", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--device",
    default="",
    metavar="NAME[:INDEX]",
    help="Device to run on; default: the one on which the call was saved.",
)
@click.option(
    "--standard", default="ours", show_default=True, metavar="NAME", help="The standard to judge by; see `compare cpu`."
)
@click.option(
    "--nan", is_flag=True, help="Only check whether the call produces NaN or Inf that its inputs do not have."
)
@click.option("--issue", is_flag=True, help="Print Markdown for a vendor's issue tracker.")
@click.option(
    "--import",
    "libraries",
    multiple=True,
    metavar="MODULE",
    help="Import this module, which registers a custom operator.",
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the output.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    directory: Path,
    device: str,
    standard: str,
    nan: bool,
    issue: bool,
    libraries: tuple[str, ...],
    output_format: str,
    lang: str | None,
) -> None:
    """Run the call in DIRECTORY again, and compare its result with the CPU's.

    `compare` and `nan` write such directories. The file torch.ops.aten.addmm_inputs.pkl that a vendor's comparison tool
    left may stand in its place: it is read as data, and no code in it runs. Ends with 1 when the call is wrong again,
    with 2 when it could not be judged. Nothing in the directory is trusted.

    \b
    torchferry replay wrong/aten.addmm-001 --device cpu
    torchferry replay torch.ops.aten.addmm_inputs.pkl --device musa
    torchferry replay wrong/aten.addmm-001 --issue > issue.md
    """
    lang = lang or language()
    with supported_torch.needed("torchferry replay"):
        from torchferry.numerics import replay
        from torchferry.numerics.callfile import environment
        from torchferry.numerics.callfile.reproduction import issue as as_issue
        from torchferry.numerics.replay import finiteness
    if issue and directory.is_file():
        raise UsageError(
            say(
                "--issue needs a folder: {path} holds the inputs alone, and no test that others can run", path=directory
            ),
            say("find the call again with `torchferry compare --dump`, which writes such a folder"),
        )
    environment.import_libraries(libraries)
    call = replay.read(directory, device)
    place = environment.place(call, device)
    judgements: list[ReplayVerdict] = []
    failure = ""
    try:
        with doing(say("running the call again")):
            judgements = finiteness(call, place) if nan else replay.judge(call, place, standard)
    except TorchferryError:
        raise
    except Exception as error:  # whatever the operator raises is what was to be found
        failure = f"{type(error).__name__}: {error}"
    if issue:
        machine = environment.environment(str(place))
        issue_text = as_issue(call, directory, judgements, machine, str(place), "" if nan else standard, failure)
        print_text(*issue_text.split("\n"), end="")
    elif output_format == "json":
        print_data(json_text({"standard": standard, **_document(call, place, judgements, failure)}, indent=2))
    else:
        _tell(call, place, judgements, failure, lang)
    statuses = {judgement.status for judgement in judgements}
    if failure or replay.FAIL in statuses:
        sys.exit(exitcodes.FINDINGS)
    sys.exit(exitcodes.CLEAN if statuses & {replay.PASS, "warn"} else exitcodes.ERROR)


def _document(call: Call, place: torch.device, judgements: list[ReplayVerdict], failure: str) -> dict[str, Any]:
    return {
        "operator": call.name,
        "overload": call.overload,
        "device": str(place),
        "where": call.document.get("where"),
        "raised": failure,
        "results": [
            {
                "result": judgement.what.render("en"),
                "status": judgement.status,
                "found": judgement.why.render("en"),
                "ratio": judgement.ratio if judgement.ratio == judgement.ratio else None,
            }
            for judgement in judgements
        ],
    }


def _tell(call: Call, place: torch.device, judgements: list[ReplayVerdict], failure: str, lang: str) -> None:
    from torchferry.numerics.callfile.reproduction import arguments

    print_text(
        say("{operator} on {device}", operator=f"{call.name}.{call.overload}".rstrip("."), device=place).render(lang)
    )
    for line in arguments(call):
        print_text(f"  {line}")
    where = call.document.get("where")
    if isinstance(where, dict) and where.get("phase"):
        met = say("found in {module} ({phase})", module=where.get("module") or say("no module"), phase=where["phase"])
        print_text(f"  {met.render(lang)}")
    if failure:
        print_text(say("the call raised {error}", error=failure).render(lang))
    for judgement in judgements:
        print_text(f"{judgement.status}: {judgement.what.render(lang)}: {judgement.why.render(lang)}")
