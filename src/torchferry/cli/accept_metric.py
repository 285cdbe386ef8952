"""`torchferry accept metric`: whether a metric of any log is reached."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from torchferry.acceptance.metrics import ABOUT, AT_LEAST, AT_MOST, FORMATS, MetricBound, judge
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_text


@click.command("metric")
@click.argument("log", type=click.Path(exists=True, path_type=Path))
@click.option("-m", "--metric", required=True, metavar="NAME", help="The metric as the log has it: mIoU, val/loss.")
@click.option("--at-least", metavar="VALUE", help="The least value, such as 84.96 or 84.96%.")
@click.option("--at-most", metavar="VALUE", help="The largest value.")
@click.option("--about", metavar="VALUE", help="The value that is wanted, within --tolerance.")
@click.option("--tolerance", type=click.FloatRange(0), default=0.0, help="How much worse than VALUE it may be.")
@click.option("--of", type=click.Choice(["last", "best"]), default="last", help="Which of the log's values counts.")
@click.option("--log-unit", type=click.Choice(["%", "share"]), default=None, help="Unit of the log's values.")
@click.option("--pattern", default="", metavar="REGEX", help="A pattern with a group `value` that finds the values.")
@click.option("--log-format", type=click.Choice(FORMATS), default="auto", help="Format of the log; auto detects it.")
@click.option("--despite-errors", is_flag=True, help="Judge the metric alone, whatever failure the log has.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    log: Path,
    metric: str,
    at_least: str | None,
    at_most: str | None,
    about: str | None,
    tolerance: float,
    of: str,
    log_unit: str | None,
    pattern: str,
    log_format: str,
    despite_errors: bool,
    lang: str | None,
) -> None:
    """Judge one metric of LOG: printed text, tables, JSON lines, CSV, Markdown, TensorBoard event files.

    Accuracies and the like are read as percentages or shares, whichever the log has; where both are possible and the
    verdicts differ, that is an error. Ends with 1 when the bound is not kept, when the metric never appears, or when
    the log has a failure beside it, such as a traceback or an error of CUDA's.

    \b
    torchferry accept metric val.log --metric mIoU --at-least 84.96
    torchferry accept metric results.csv --metric val/loss --at-most 0.31 --of best
    """
    lang = lang or language()
    bounds = [(AT_LEAST, at_least), (AT_MOST, at_most), (ABOUT, about)]
    stated = [(direction, text) for direction, text in bounds if text is not None]
    if len(stated) != 1:
        raise UsageError(say("give exactly one of --at-least, --at-most and --about"))
    if about is not None and not tolerance:
        raise UsageError(say("--about needs --tolerance"))
    ((direction, text),) = stated
    bound = MetricBound(direction, *_number(text), log_unit=log_unit or "", of=of)._replace(tolerance=tolerance)
    _check_pattern(pattern)
    verdict = judge(log, metric, bound, pattern, log_format)
    failure, unexplained = ("", "") if despite_errors or not verdict.met else _failure(log, lang)
    is_met = verdict.met and not failure
    word = say("MET") if is_met else say("NOT MET")
    value = "-" if verdict.value is None else f"{verdict.value:g}" + (" %" if verdict.unit == "%" else "")
    line = say(
        "{word}: {metric} is {value} ({of} of {count}), wanted {bound}",
        word=word,
        metric=metric,
        value=value,
        of=say("the last") if of == "last" else say("the best"),
        count=verdict.values,
        bound=bound.text(verdict.unit),
    )
    if verdict.value is None:
        line = say("{word}: {metric}, wanted {bound}", word=word, metric=metric, bound=bound.text(verdict.unit))
    print_text(line.render(lang))
    if verdict.reason is not None:
        print_text("  " + verdict.reason.render(lang))
    if failure:
        why = say(
            "the value is reached, and the log has a failure: {failure}; `torchferry explain {log}` says why it "
            "failed, and `--despite-errors` judges the metric alone",
            failure=failure,
            log=log,
        )
        print_text("  " + why.render(lang))
    elif unexplained:
        print_text(f"  {unexplained}")
    sys.exit(exitcodes.CLEAN if is_met else exitcodes.FINDINGS)


def _failure(log: Path, lang: str) -> tuple[str, str]:
    """Return what failed in a log of text, of any vendor, and what is said of lines that no table explains.

    Both are empty where there is nothing to say, and for what is no text.
    """
    from torchferry.diagnosis.explaining import diagnosed
    from torchferry.diagnosis.inputs import LogReader
    from torchferry.diagnosis.report import headline

    if not log.is_file():
        return "", ""
    diagnosis = diagnosed(LogReader((log,)))
    if diagnosis.failed:
        return headline(diagnosis, lang), ""
    unexplained = headline(diagnosis, lang) if diagnosis.unexplained else ""
    with log.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            match = _CUDA_FAILURE.search(line)
            if match is not None:
                return say("line {number}: {text}", number=number, text=match[0].decode()).render(lang), ""
    return "", unexplained


_CUDA_FAILURE = re.compile(
    rb"\bCUDA (?:runtime |driver )?error: \w[\w ]{0,80}|Torch not compiled with CUDA enabled|Found no NVIDIA driver"
    rb"|\bCU(?:DNN|BLAS|SOLVER|SPARSE|FFT)_STATUS_(?!SUCCESS)[A-Z_]{1,40}|CUDA driver version is insufficient"
)
"""What CUDA and its libraries write of an error, also where the program goes on: another card writes none of it.

Source: torch c10/cuda/CUDAException.cpp, torch/cuda/__init__.py, aten/src/ATen/cuda/CUDAContext.cpp; the enumerations
of the libraries.
"""


def _number(text: str) -> tuple[float, float, str]:
    """Return a bound's value, no tolerance, and its unit."""
    match = re.fullmatch(r"\s*([+-]?[\d.]+(?:[eE][+-]?\d+)?)\s*(%)?\s*", text)
    try:
        if match is not None:
            return float(match[1]), 0.0, match[2] or ""
    except ValueError:
        pass
    raise UsageError(say("`{text}` is not a number", text=text), say("write 84.96, 84.96% or 0.8496"))


def _check_pattern(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise UsageError(
            say("`{pattern}` is not a regular expression: {error}", pattern=pattern, error=error)
        ) from None
    if pattern and "value" not in groups:
        raise UsageError(
            say("`{pattern}` has no group for the value", pattern=pattern),
            say("add a group for the value: (?P<value>\\S+)"),
        )
