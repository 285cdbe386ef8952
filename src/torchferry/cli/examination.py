"""Options that the commands which examine the numbers of a command share: the same thing has the same name in each.

An old name of an option stays, hidden, and means the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from torchferry.cli.writing import creatable, file_option
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_notice
from torchferry.numerics.framework.launcher import Outcome

Function = TypeVar("Function", bound=Callable[..., Any])

check_ranks_option = click.option(
    "--check-ranks", type=click.IntRange(0), default=0, metavar="N", help="Every N steps, check that the ranks agree."
)
lang_option = click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
command_argument = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
rank_option = click.option(
    "--rank", "ranks", type=click.IntRange(0), multiple=True, help="Examine only this rank; can be repeated."
)

allow_cpu_option = click.option(
    "--allow-cpu", is_flag=True, help="Pass also where no accelerator was used, which otherwise ends with 3."
)

_CHOICE = (
    click.option(
        "--target-op",
        multiple=True,
        metavar="NAME",
        help="Examine only this operator, such as aten.addmm; can be repeated.",
    ),
    click.option("--skip-op", multiple=True, metavar="NAME", help="Skip this operator; can be repeated."),
    click.option("--white-list", multiple=True, hidden=True),
    click.option(
        "--start-step", type=click.IntRange(0), default=0, help="First step that is examined, counted from 0."
    ),
    click.option("--end-step", type=click.IntRange(0), default=None, help="First step that is no longer examined."),
    rank_option,
    click.option("--enable-ranks", type=click.IntRange(0), multiple=True, hidden=True),
    check_ranks_option,
    click.option(
        "--dump",
        type=click.Path(file_okay=False, path_type=Path),
        callback=creatable,
        help="Save the first wrong call in this folder, for `torchferry replay`, and end the program.",
    ),
)
_OUTPUT = (
    click.option(
        "-f",
        "--output-format",
        type=click.Choice(["text", "json", "csv", "html"]),
        default="text",
        help="Form of the summary; `csv` has a row for each call or operator that was found.",
    ),
    file_option,
    lang_option,
    command_argument,
)


def examination_options(function: Function) -> Function:
    """Add the options that choose operators, steps and ranks, and those of the summary, with COMMAND.

    The command gets `skip_op` and `ranks` with what the old names gave, and `lang` as it is to be.
    """

    @wraps(function)
    def command(
        *,
        skip_op: tuple[str, ...],
        white_list: tuple[str, ...],
        ranks: tuple[int, ...],
        enable_ranks: tuple[int, ...],
        lang: str | None,
        **others: Any,
    ) -> Any:
        return function(
            skip_op=(*skip_op, *white_list), ranks=(*ranks, *enable_ranks), lang=lang or language(), **others
        )

    for option in reversed((*_CHOICE, *_OUTPUT)):
        command = option(command)
    return command  # type: ignore[return-value]


def tell_agreement(outcome: Outcome, lang: str) -> bool:
    """Say what the ranks said of each other, if they were asked, and return whether something differs."""
    for line in rank_lines(outcome, lang):
        print_notice(f"torchferry: {line}")
    return ranks_differ(outcome)


def rank_answer(outcome: Outcome) -> dict[str, Any] | None:
    """Return what the ranks said of each other: a difference before all else; None where they were not asked."""
    answers: list[dict[str, Any]] = [result["ranks"] for result in outcome.results if "ranks" in result]
    if not answers:
        return None
    return min(
        answers,
        key=lambda judgement: (not judgement.get("differences"), not judgement.get("failure"), -judgement["checks"]),
    )


def rank_lines(outcome: Outcome, lang: str) -> list[str]:
    """Return what is to be said of it; nothing where the ranks were not asked."""
    ranks = rank_answer(outcome)
    if ranks is None:
        return []
    first, *others = ranks["said"][lang]
    if ranks.get("step") is not None and not ranks["equal"]:
        first = say("step {step}: {what}", step=ranks["step"], what=first).render(lang)
    return [first, *(f"  {line}" for line in others)]


def ranks_differ(outcome: Outcome) -> bool:
    """Whether something differs that should be equal."""
    ranks = rank_answer(outcome)
    return ranks is not None and bool(ranks.get("differences"))
