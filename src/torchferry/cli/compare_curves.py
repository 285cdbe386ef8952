"""`torchferry compare curves`: whether a target's training curve is the reference's."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.backends.acceptance import find, rules
from torchferry.cli.writing import file_option, writable, write
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_text, style
from torchferry.numerics.curves.comparison import CurveComparison, Terms, compare
from torchferry.numerics.curves.comparison import parse as parse_metric
from torchferry.numerics.curves.curve import ALIGNMENTS, REPEATED, RESTARTS, Habits
from torchferry.numerics.curves.judging import FACTOR, OWN, SPREAD
from torchferry.numerics.curves.measures import parse as parse_smoothing
from torchferry.numerics.curves.reading import FORMATS, Wanted, read
from torchferry.numerics.report import curves, curves_plot

_COLOURS = {"met": ("green", "bold"), "not met": ("red", "bold"), "faint": ("dim",)}
_FILE = click.Path(exists=True, path_type=Path)


@click.command("curves")
@click.argument("reference", type=_FILE, required=False)
@click.argument("target", type=_FILE, required=False)
@click.option("--reference-run", multiple=True, type=_FILE, help="Another run of the reference, with another seed.")
@click.option("--target-run", multiple=True, type=_FILE, help="Another run of the target, with another seed.")
@click.option(
    "-m",
    "--metric",
    "--key",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="What to compare: loss, train.loss, 'loss*', or loss=train/loss where the logs differ; can be repeated.",
)
@click.option("--all-metrics", is_flag=True, help="Compare all metrics that all logs have.")
@click.option(
    "--pattern",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="Regular expression with a group `value`, and optional `step`, `epoch`, `rank`, `metric`; can be repeated.",
)
@click.option("--log-format", type=click.Choice(FORMATS), default="auto", help="Format of the logs; auto detects it.")
@click.option("--rule", default="", metavar="NAME", help="The rule that decides; see --list-rules.")
@click.option("--list-rules", is_flag=True, help="Show the rules with their sources and exit.")
@click.option("--rtol", type=click.FloatRange(0), help="Allowed relative error as a fraction, such as 0.02.")
@click.option("--from-step", type=click.IntRange(1), help="First step that is judged, counted from 1.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Judge only the last N common steps.")
@click.option(
    "--spread-factor",
    type=click.FloatRange(0, min_open=True),
    default=FACTOR,
    show_default=True,
    help="With several runs of the reference: the allowed distance, as a multiple of their own spread.",
)
@click.option("--partial", is_flag=True, help="Accept a target that covers less than the reference.")
@click.option("--align", type=click.Choice(ALIGNMENTS), default="auto", help="Match values by step or by order.")
@click.option("--smooth", default="none", metavar="HOW", help="Smooth both sides first: none, ema:0.9 or window:20.")
@click.option("--rank", type=click.IntRange(0), help="Rank to use if several ranks wrote; default: the lowest.")
@click.option(
    "--restarts",
    type=click.Choice(RESTARTS),
    default="auto",
    help="Meaning of a step that goes back: a restarted run, or the next epoch.",
)
@click.option(
    "--repeated", type=click.Choice(REPEATED), default="last", help="Which of several values at a step counts."
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json", "csv", "html"]), default="text")
@file_option
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Plot the curves to FILE.svg or FILE.html.",
)
@click.option("--log-scale", is_flag=True, help="Draw the values on a logarithmic scale.")
@click.option("--list-metrics", is_flag=True, help="Show the metrics in the logs and exit.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    reference: Path | None,
    target: Path | None,
    reference_run: tuple[Path, ...],
    target_run: tuple[Path, ...],
    metrics: tuple[str, ...],
    all_metrics: bool,
    patterns: tuple[str, ...],
    log_format: str,
    rule: str,
    list_rules: bool,
    rtol: float | None,
    from_step: int | None,
    last: int | None,
    spread_factor: float,
    partial: bool,
    align: str,
    smooth: str,
    rank: int | None,
    restarts: str,
    repeated: str,
    output_format: str,
    output_file: Path | None,
    plot_file: Path | None,
    log_scale: bool,
    list_metrics: bool,
    lang: str | None,
) -> None:
    """Check that a target's training curve agrees with the reference's.

    REFERENCE and TARGET are logs: printed text with or without progress bars, JSON lines, CSV, trainer_state.json,
    TensorBoard event files, or a folder with one. Ends with 1 when the rule is not met, or when the target covers less
    than the reference and --partial does not accept that.

    \b
    torchferry compare curves cuda.log target.log
    torchferry compare curves cuda.log target.log --rule flagperf --plot curves.svg
    torchferry compare curves a.log b.log --pattern 'loss is (?P<value>\\S+) at (?P<step>\\d+)'
    torchferry compare curves cuda-1.log target.log --reference-run cuda-2.log --reference-run cuda-3.log
    """
    lang = lang or language()
    if list_rules:
        _list_rules(lang)
        return
    if reference is None or target is None:
        raise UsageError(say("give two logs: the reference's and the target's"))
    if plot_file is not None and plot_file.suffix.lower() not in (".svg", ".html"):
        raise UsageError(say("a plot is written to FILE.svg or FILE.html, not to {path}", path=plot_file))
    if rule not in ("", OWN, SPREAD):
        chosen = find(rule)
    else:
        chosen = None
    habits = Habits(restarts, repeated, rank)
    terms = Terms(
        chosen,
        rule == SPREAD,
        rule == OWN,
        rtol,
        from_step,
        last,
        spread_factor,
        align,
        parse_smoothing(smooth),
        habits,
        partial,
    )
    every = all_metrics or list_metrics
    sides = [_wanted(metrics, patterns, log_format, side)._replace(every=every) for side in (0, 1)]
    references = [read(path, sides[0]) for path in (reference, *reference_run)]
    targets = [read(path, sides[1]) for path in (target, *target_run)]
    if list_metrics:
        for log in (*references, *targets):
            print_text(f"{log.path}: {', '.join(sorted(log.points))}")
        return
    comparison = compare(references, targets, metrics, all_metrics or bool(patterns), terms)
    _show(comparison, output_format, output_file, lang, log_scale)
    if plot_file is not None:
        draw = curves_plot.draw if plot_file.suffix.lower() == ".svg" else curves_plot.render
        write(draw(comparison, lang, log_scale), plot_file)
    sys.exit(exitcodes.CLEAN if comparison.passed else exitcodes.FINDINGS)


def _wanted(metrics: tuple[str, ...], patterns: tuple[str, ...], log_format: str, side: int) -> Wanted:
    named = tuple(parse_metric(text)[side] for text in metrics)
    if any("*" in text or "?" in text for text in metrics):
        named = ()  # all are read, and those that match are chosen
    compiled = tuple(_compiled(text) for text in patterns)
    return Wanted(named, compiled, named[0] if len(named) == 1 else "loss", log_format)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(say("`{pattern}` is not a regular expression: {error}", pattern=text, error=error)) from None
    if "value" not in pattern.groupindex and pattern.groups != 1:
        raise UsageError(
            say("`{pattern}` has no group for the value", pattern=text),
            say("add a group for the value: (?P<value>\\S+)"),
        )
    return pattern


def _show(comparison: CurveComparison, form: str, file: Path | None, lang: str, log_scale: bool) -> None:
    text: str | Iterable[str]
    if form == "text":
        text = curves.lines(comparison, lang, _paint)
    elif form == "json":
        text = curves.render_json(comparison, lang)
    elif form == "csv":
        text = curves.render_csv(comparison)
    else:
        text = curves_plot.render(comparison, lang, log_scale)
    write(text, file)


def _list_rules(lang: str) -> None:
    print_text(f"{OWN:<18} {say('torchferry: mean relative error at most --rtol').render(lang)}")
    print_text(f"{SPREAD:<18} {say('torchferry: within the spread of several runs of the reference').render(lang)}")
    for rule in rules():
        print_text(f"{rule.name:<18} {rule.title.render(lang)}")
        needs = [
            " | ".join(f"{limit.measure} {'<=' if limit.inclusive else '<'} {limit.value:g}" for limit in need)
            for need in rule.needs
        ]
        if rule.from_step > 1:
            needs.append(say("from step {step} on", step=rule.from_step).render(lang))
        print_text(f"{'':<18} {'; '.join(needs)}")
        print_text(f"{'':<18} {rule.source}")


def _paint(text: str, kind: str) -> str:
    return style(text, *_COLOURS[kind])
