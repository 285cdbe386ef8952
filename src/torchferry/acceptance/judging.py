"""The stages that judge the run: loads, runs to the end, numbers, memory, speed, stability, errors, logs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from torchferry.acceptance.acceptfile import CurveTerms, Metric, SpeedTerms
from torchferry.acceptance.gates import Gate, GateMaker, reason_of
from torchferry.acceptance.metrics import MetricBound, find_values
from torchferry.acceptance.metrics import judge as judge_metric
from torchferry.acceptance.run_end import end_of
from torchferry.acceptance.runs import SAMPLE_DEVICE, SAMPLE_HOST, SAMPLE_STEP, AcceptanceRun
from torchferry.acceptance.situation import BASELINE, Situation, UnjudgedError, is_fresh, needed_run
from torchferry.acceptance.steadiness import losses, unsteady
from torchferry.acceptance.trends import (
    FLAT,
    GROWS,
    LEAST_STEPS,
    SETTLED,
    SHORT,
    UNCLEAR,
    Estimate,
    MemoryGrowth,
    growth,
    ratio,
)
from torchferry.acceptance.units import readable
from torchferry.backends.acceptance import find as find_rule
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.curves.comparison import Terms, compare
from torchferry.numerics.curves.comparison import parse as parse_metric
from torchferry.numerics.curves.curve import Habits
from torchferry.numerics.curves.judging import OWN, SPREAD
from torchferry.numerics.curves.reading import Wanted
from torchferry.numerics.curves.reading import read as read_curves
from torchferry.numerics.curves.records import lines

_LEAST_LIMITS = {SAMPLE_DEVICE: 1.0, SAMPLE_HOST: 4096.0}
"""Bytes a step below which nothing counts as growth. What a device holds is counted to the byte; the memory of a
process comes in pages, and Python and what looks on need some."""

_TRACEBACK = "Traceback (most recent call last):"

_WORST_FIRST = (GROWS, UNCLEAR, SETTLED, SHORT, FLAT)

_MOST_NAMED = 3

_LEAST_VALUES = 10
"""Of a loss: so many that are all the same are of nothing that learns."""


def loads(situation: Situation) -> list[Gate]:
    """Judge whether the model was on the device, and whether what was loaded into it fitted."""
    run = needed_run(situation)
    judge = GateMaker("loads", run.name)
    wanted = situation.target.backend.DEVICE_TYPE
    models = [model for process in run.processes for model in process.get("models", ())]
    if not models:
        if not run.ended_well:
            return [judge.red("", say("no model was called"), say("a model on {device}", device=wanted), end_of(run))]
        raise UnjudgedError(say("the run called no torch module with parameters, so there is no model to judge"))
    elsewhere = sorted({model["name"] for model in models if model["devices"] != [wanted]})
    largest = max(models, key=lambda model: int(model["parameters"]))
    gates = [
        judge.held(
            not elsewhere,
            "device",
            say(
                "{model} with {count} parameters on {devices}",
                model=largest["name"],
                count=largest["parameters"],
                devices=", ".join(largest["devices"]),
            ),
            say("every model on {device}", device=wanted),
            say("models with parameters on another device: {names}", names=", ".join(elsewhere[:_MOST_NAMED])),
        )
    ]
    totals = {
        key: sum(int(process.get("loads", {}).get(key, 0)) for process in run.processes)
        for key in ("calls", "keys", "missing", "unexpected")
    }
    if not totals["calls"]:
        gates.append(judge.unjudged("weights", say("the program loads no weights with load_state_dict")))
    else:
        gates.append(
            judge.held(
                not totals["missing"] and not totals["unexpected"],
                "weights",
                say("{keys} entries loaded, {missing} missing, {unexpected} unexpected", **totals),
                say("none missing, none unexpected"),
                say(
                    "after load_state_dict with strict=False, missing parameters keep their initial values, and "
                    "unexpected entries are dropped"
                ),
            )
        )
    return gates


def runs(situation: Situation) -> list[Gate]:
    """Judge whether the command ran to its end, and on the device."""
    run = needed_run(situation)
    judge = GateMaker("runs", run.name)
    gates = [ended(run)]
    wanted = situation.target.backend.DEVICE_TYPE
    if run.aggregate is not None:
        aggregate = run.aggregate
        refused = (*aggregate.failures, *aggregate.only_reported)
        failures = [f"{event.subject} ({Path(event.file).name}:{event.line})" for event in refused]
        good = aggregate.on_device > 0 and aggregate.used and not aggregate.mostly_on_host and not failures
        reason = say("nothing ran on the device")
        if failures:
            reason = say("would fail on the card: {names}", names=", ".join(failures[:_MOST_NAMED]))
        elif aggregate.mostly_on_host:
            reason = say("the CPU did more of the models' work than the device")
        on_device = say_plural(
            "{count} operator ran on the simulated card",
            "{count} operators ran on the simulated card",
            count=len(aggregate.operators),
        )
        handled = dict.fromkeys(event.subject for event in aggregate.caught)
        if handled and good:
            names = ", ".join([*handled][:_MOST_NAMED])
            on_device = say("{ran}; the program goes on without {names}", ran=on_device, names=names)
        gates.append(
            judge.held(good, "device", on_device, say("the model's work is done on {device}", device=wanted), reason)
        )
    else:
        devices = sorted({process["device_type"] for process in run.processes if process.get("device_type")})
        if not devices:
            gates.append(
                judge.unjudged("device", say("no step was seen: neither an optimizer step nor a call of a model"))
            )
        else:
            gates.append(
                judge.held(
                    devices == [wanted],
                    "device",
                    say("{devices}", devices=", ".join(devices)),
                    say("{devices}", devices=wanted),
                    say("not every step ran on {device}", device=wanted),
                )
            )
    return gates


def ended(run: AcceptanceRun) -> Gate:
    """Return whether a run ended by itself, with 0; one that printed a traceback and went on has to be looked at."""
    judge = GateMaker("runs", run.name)
    measured = say(
        "exit code {code} after {seconds} s", code="-" if run.code is None else run.code, seconds=f"{run.seconds:.0f}"
    )
    wanted = say("ends by itself with 0")
    if run.finished and any(line.text.rstrip().endswith(_TRACEBACK) for line in lines(run.log)):
        reason = say(
            "the program printed a traceback but ended with 0; see logs/{path} in the evidence", path=run.log.name
        )
        return judge.unjudged("", reason, measured, wanted)
    return judge.held(run.finished, "", measured, wanted, end_of(run))


def numbers(situation: Situation) -> list[Gate]:
    """Hold the metrics against the baseline's, and the curve."""
    run = needed_run(situation)
    file = situation.file
    if not file.baseline.metrics and file.curve is None:
        raise UnjudgedError(say("the accept file has neither [[baseline.metrics]] nor [gates.curve]"))
    gates = [_metric(situation, run, metric) for metric in file.baseline.metrics]
    if file.curve is not None:
        gates.append(_curve(situation, run, file.curve))
    return gates


def _metric(situation: Situation, run: AcceptanceRun, metric: Metric) -> Gate:
    judge = GateMaker("numbers", run.name)
    bound = MetricBound(metric.direction, metric.value, metric.tolerance, metric.unit, metric.log_unit, metric.of)
    wanted = bound.text(metric.unit)
    if situation.kind not in (*metric.runs, BASELINE):
        return judge.unjudged(
            metric.name,
            say("its `runs` in the accept file do not include {run}", run=situation.kind),
            wanted=wanted,
        )
    log = situation.log_of(run, metric.log)
    stale = _unwritten(log, run)
    if stale is not None:
        return judge.red(metric.name, say("-"), wanted, stale)
    try:
        usual = _logged_unit(situation, metric)
        verdict = judge_metric(log, metric.name, bound, metric.pattern, usual_unit=usual)
    except TorchferryError as error:
        return judge.red(metric.name, say("-"), wanted, reason_of(error))
    situation.metrics.append(
        {
            "run": run.name,
            "name": metric.name,
            "value": verdict.value,
            "unit": verdict.unit,
            "of": metric.of,
            "baseline": metric.value,
        }
    )
    sign = " %" if verdict.unit == "%" else ""
    value = say("never appears")
    if verdict.value is not None:
        which = say("the last") if metric.of == "last" else say("the best")
        value = say(
            "{value} ({which} of {count})", value=f"{verdict.value:.6g}{sign}", which=which, count=verdict.values
        )
    if verdict.met and _is_constant_loss(log, metric):
        reason = say(
            "every value of this loss is the same (values: {count}): nothing was learned", count=verdict.values
        )
        return judge.red(metric.name, value, wanted, reason, verdict.value, bound.limit)
    finite = verdict.value if verdict.value is not None and math.isfinite(verdict.value) else None
    return judge.held(verdict.met, metric.name, value, bound.text(verdict.unit), verdict.reason, finite, bound.limit)


def _is_constant_loss(log: Path, metric: Metric) -> bool:
    """Whether a metric is a loss that never moves, as that of a program that trains nothing."""
    if "loss" not in metric.name.lower():
        return False
    values = [value.number for value in find_values(log, metric.name, metric.pattern)]
    return len(values) >= _LEAST_VALUES and len(set(values)) == 1


def _logged_unit(situation: Situation, metric: Metric) -> str:
    """Return the unit of the log by the baseline's own: the same program prints the same; empty where it is unclear."""
    file = situation.file
    if metric.unit not in ("%", "share") or not file.baseline.log or metric.log:
        return ""
    try:
        values = find_values(file.root / file.baseline.log, metric.name, metric.pattern)
    except TorchferryError:
        return ""
    last = values[-1].number if values else math.nan
    in_unit = {
        "%": metric.value if metric.unit == "%" else metric.value * 100,
        "share": metric.value if metric.unit == "share" else metric.value / 100,
    }
    close = [unit for unit, value in in_unit.items() if value and abs(last / value - 1) < 0.05]
    return close[0] if len(close) == 1 else ""


def _unwritten(log: Path, run: AcceptanceRun) -> Message | None:
    """Return why a log does not count as this run's; None where it does."""
    try:
        fresh = log == run.log or (log.is_file() and is_fresh(log, run))
    except OSError:
        fresh = False
    return None if fresh else say("the run did not write {path}", path=log.name)


def _curve(situation: Situation, run: AcceptanceRun, terms: CurveTerms) -> Gate:
    judge = GateMaker("numbers", run.name)
    wanted = say("agrees with the baseline's curve by the rule {rule}", rule=terms.rule or OWN)
    if situation.kind not in (*terms.runs, BASELINE):
        reason = say("its `runs` in the accept file do not include {run}", run=situation.kind)
        return judge.unjudged("curve", reason, wanted=wanted)
    if not situation.file.baseline.log:
        return judge.unjudged("curve", say("the accept file has no `log` in [baseline]"), wanted=wanted)
    log = situation.log_of(run, terms.log)
    stale = _unwritten(log, run)
    if stale is not None:
        return judge.red("curve", say("-"), wanted, stale)
    named = (terms.metric,) if terms.metric else ()
    sides = [parse_metric(text) for text in named]
    read_as = [Wanted(tuple(side[number] for side in sides)) for number in (0, 1)]
    rule = None if terms.rule in ("", OWN, SPREAD) else find_rule(terms.rule)
    asked = Terms(
        rule,
        terms.rule == SPREAD,
        terms.rule == OWN,
        terms.rtol,
        terms.from_step,
        habits=Habits(),
        partial=terms.partial,
    )
    try:
        comparison = compare(
            [read_curves(situation.file.root / situation.file.baseline.log, read_as[0])],
            [read_curves(log, read_as[1])],
            named,
            every=False,
            terms=asked,
        )
    except TorchferryError as error:
        return judge.red("curve", say("-"), wanted, reason_of(error))
    worst = max(comparison.metrics, key=lambda each: each.measures.mean_relative or 0.0)
    relative = worst.measures.mean_relative
    measured = say(
        "{metric}: mean relative error {error}, steps compared: {steps}",
        metric=worst.choice.title,
        error="-" if relative is None else f"{relative:.3g}",
        steps=len(worst.pairing.keys) - worst.start,
    )
    reason = say("run `torchferry compare curves` to see where the curves diverge")
    if comparison.met and not comparison.complete:
        reason = say("the run covers less than the baseline; `partial = true` in [gates.curve] accepts that")
    return judge.held(comparison.passed, "curve", measured, wanted, reason, relative)


# --- memory ---


def memory(situation: Situation) -> list[Gate]:
    """Judge the peak, and whether memory grows from step to step."""
    run = needed_run(situation)
    judge = GateMaker("memory", run.name)
    return [
        _peak(situation, run, judge),
        _growth(situation, run, judge, SAMPLE_DEVICE, "growth"),
        _growth(situation, run, judge, SAMPLE_HOST, "host-growth"),
    ]


def _peak(situation: Situation, run: AcceptanceRun, judge: GateMaker) -> Gate:
    limit = situation.file.memory.peak
    if run.peak is None:
        return judge.unjudged("peak", say("the memory of the device could not be read"))
    measured = say("{size}", size=readable(run.peak))
    if not limit:
        return judge.unjudged("peak", say("the accept file has no limit for it (`peak` in [gates.memory])"), measured)
    return judge.held(
        run.peak <= limit, "peak", measured, say("at most {size}", size=readable(limit)), None, float(run.peak), limit
    )


def _growth(situation: Situation, run: AcceptanceRun, judge: GateMaker, column: int, part: str) -> Gate:
    found = memory_growth(situation, run, column)
    if found is None:
        return judge.unjudged(
            part,
            say("no step was seen: neither an optimizer step nor a call of a model")
            if not run.rows()
            else say("the memory of the device could not be read")
            if column == SAMPLE_DEVICE
            else say("the memory of the process could not be read"),
        )
    limit = _limit(situation, found.peak, column)
    wanted = say("less than {size} a step", size=readable(limit))
    if found.slope is None:
        reason = say(
            "steps seen: {steps}; needed: at least {needed}; run more steps", steps=found.last, needed=LEAST_STEPS
        )
        return judge.unjudged(part, reason, wanted=wanted)
    measured = say(
        "{slope} a step, 95 % between {low} and {high} (steps {first} to {last})",
        slope=readable(found.slope.value),
        low=readable(found.slope.low),
        high=readable(found.slope.high),
        first=found.first,
        last=found.last,
    )
    if found.kind == FLAT:
        return judge.green(part, measured, wanted, found.slope.value, limit)
    if found.kind == GROWS:
        reason = say(
            "memory grows with the steps; look for what the program keeps, such as a list of losses without .item()"
        )
        return judge.red(part, measured, wanted, reason, found.slope.value, limit)
    reason = (
        say(
            "it grew and then stopped; run more steps: at least {needed} of them must show no growth",
            needed=LEAST_STEPS,
        )
        if found.kind == SETTLED
        else say("the interval is too wide; more steps make it narrower")
    )
    return judge.unjudged(part, reason, measured, wanted)


def memory_growth(situation: Situation, run: AcceptanceRun, column: int = SAMPLE_DEVICE) -> MemoryGrowth | None:
    """Return how the memory of a run grows, by the worst of its processes; None where nothing was seen of it."""
    most = 0 if run.stepped is None else int(run.stepped["steps"])
    found: list[MemoryGrowth] = []
    for process in run.processes:
        rows = [row for row in process.get("samples", ()) if row[column] >= 0]
        if rows and int(process["steps"]) * 2 >= most:  # a helper that made a few steps says nothing of the others
            steps, sizes = [row[SAMPLE_STEP] for row in rows], [row[column] for row in rows]
            found.append(growth(steps, sizes, _limit(situation, max(sizes), column)))
    return min(found, key=lambda each: _WORST_FIRST.index(each.kind), default=None)


def _limit(situation: Situation, peak: float, column: int) -> float:
    """Return the bytes a step that are growth: the stricter of both limits, and never less than Python itself needs."""
    terms = situation.file.memory
    return min(terms.growth_per_step, max(_LEAST_LIMITS[column], terms.growth_per_1000_steps * peak / 1000))


# --- speed ---


def speed(situation: Situation) -> list[Gate]:
    """Hold the speed against the baseline's; never on a rehearsal."""
    judge = GateMaker("speed", situation.kind)
    terms = situation.file.speed
    if situation.rehearsal is not None:
        return [
            judge.unjudged("", say("a rehearsal runs on this machine's CPU and says nothing about the card's speed"))
        ]
    if terms is None:
        raise UnjudgedError(say("the accept file has no [gates.speed]"))
    run = needed_run(situation)
    wanted = say("at least {share} of the baseline's speed", share=f"{terms.at_least:g}")
    measured = _metered(situation, run, terms) if terms.metric else _timed(run, terms)
    if measured is None:
        absent = say("`{metric}` never appears in {where}", metric=terms.metric, where=say("the run's log"))
        return [judge.red("", say("never appears"), wanted, absent)]
    if isinstance(measured, Message):
        return [judge.unjudged("", measured, wanted=wanted)]
    shown = say(
        "{value} of the baseline's speed, 95 % between {low} and {high}",
        value=f"{measured.value:.3f}",
        low=f"{measured.low:.3f}",
        high=f"{measured.high:.3f}",
    )
    if measured.low == measured.high:
        shown = say("{value} of the baseline's speed; too few values for an interval", value=f"{measured.value:.3f}")
    if measured.low >= terms.at_least:
        return [judge.green("", shown, wanted, measured.value, terms.at_least)]
    if measured.high < terms.at_least:
        reason = say("`torchferry profile compare` says where the time goes")
        return [judge.red("", shown, wanted, reason, measured.value, terms.at_least)]
    return [
        judge.unjudged("", say("the limit lies inside of the interval; more steps make it narrower"), shown, wanted)
    ]


def _metered(situation: Situation, run: AcceptanceRun, terms: SpeedTerms) -> Estimate | Message | None:
    """Return the ratio by a metric of both logs, such as images a second; None where the run's log has none."""
    if not situation.file.baseline.log:
        return say("the accept file has no `log` in [baseline]")
    log = situation.log_of(run, terms.log)
    stale = _unwritten(log, run)
    if stale is not None:
        return stale
    own, base = (
        [value.number for value in find_values(path, terms.metric) if math.isfinite(value.number) and value.number > 0]
        for path in (log, situation.file.root / situation.file.baseline.log)
    )
    if not own:
        return None
    if not base:
        where = say("the baseline's log")
        return say("`{metric}` never appears in {where}", metric=terms.metric, where=where)
    own, base = (values[terms.from_step :] if len(values) > 2 * terms.from_step else values for values in (own, base))
    return _ratio(own, base) if terms.better == "higher" else _ratio(base, own)


def _timed(run: AcceptanceRun, terms: SpeedTerms) -> Estimate | Message:
    """Return the ratio by the time of the steps."""
    if not terms.seconds_per_step:
        return say("[gates.speed] in the accept file has neither `metric` nor `seconds-per-step`")
    own = run.step_seconds(terms.from_step)
    if not own:
        return say("no step was seen: neither an optimizer step nor a call of a model")
    return _ratio([terms.seconds_per_step] * len(own), own)


def _ratio(target: list[float], base: list[float]) -> Estimate:
    try:
        return ratio(target, base)
    except ValueError:
        value = fmean(target) / fmean(base)
        return Estimate(value, value, value)


# --- stability, errors, logs ---


def stability(situation: Situation) -> list[Gate]:
    """Judge whether the run shows a NaN or a restart."""
    run = needed_run(situation)
    judge = GateMaker("stability", run.name)
    wrong = unsteady(run)
    values = sum(map(len, losses(run.log).values()))
    wanted = say("no NaN, no restart")
    if wrong is None and not values:
        return [judge.unjudged("run", say("the log has no loss, so a NaN would not be seen"), wanted=wanted)]
    measured = say_plural("{count} value of a loss", "{count} values of losses", count=values)
    return [judge.held(wrong is None, "run", measured, wanted, wrong)]


def errors(situation: Situation) -> list[Gate]:
    """Take an operator away that the run uses: the program has to end with an error that names it."""
    judge = GateMaker("errors", "errors")
    if situation.rehearsal is None:
        raise UnjudgedError(say("an operator can be taken away on the simulated card only: use --rehearse"))
    run = needed_run(situation)
    command = situation.command
    assert command is not None
    name = None if run.aggregate is None else _planted(run.aggregate.operators)
    if name is None:
        raise UnjudgedError(say("no operator ran on the device"))
    if situation.rehearsal.shipped is not None:
        raise UnjudgedError(say("the run used the vendor's own plugin, from which no operator can be taken away"))
    profile = situation.rehearsal.profile
    without = replace(
        profile, fallback="error", missing_operators=profile.missing_operators | {name.removeprefix("aten::")}
    )
    broken = situation.run("errors", command, rehearsal=replace(situation.rehearsal, profile=without))
    short = name.removeprefix("aten::").partition(".")[0]
    word = re.compile(rf"(?<!\w){re.escape(short)}(?!\w)")  # `mm` is no part of `command`
    named = any(word.search(line.text) for line in lines(broken.log))
    measured = say(
        "without {operator}: exit code {code}", operator=name, code="-" if broken.code is None else broken.code
    )
    wanted = say("it ends with an error that names the operator")
    if broken.aggregate is None or not any(short in event.subject for event in broken.aggregate.of("missing-operator")):
        return [judge.unjudged("", say("the program did not call the operator in this run"), measured, wanted)]
    reason = (
        say("the program ignored the error and ended with 0")
        if broken.code == 0
        else say("the program's output does not name the operator")
    )
    return [judge.held(broken.code != 0 and named, "", measured, wanted, reason)]


_PLAIN = re.compile(
    r"aten::(?:empty|copy|_copy|_to_copy|view|as_strided|fill|zero|_local_scalar|detach|t\b|resize|set_)"
)
"""Operators that make and move tensors: without them nothing runs, not even what prints the error."""


def _planted(operators: dict[str, int]) -> str | None:
    """Return the operator that is taken away: the most called one that computes."""
    counted = {name if "::" in name else f"aten::{name}": count for name, count in operators.items()}
    computing = {name: count for name, count in counted.items() if name.startswith("aten::") and not _PLAIN.match(name)}
    return max(computing, key=lambda name: (computing[name], name), default=None)


def logs(situation: Situation) -> list[Gate]:
    """Look for the lines that the log has to have."""
    terms = situation.file.logs
    if terms is None:
        raise UnjudgedError(say("the accept file has no [gates.logs]"))
    run = needed_run(situation)
    judge = GateMaker("logs", run.name)
    log = situation.log_of(run, terms.log)
    stale = _unwritten(log, run)
    if stale is not None:
        return [judge.red(name, say("-"), say("{pattern}", pattern=text), stale) for name, text in terms.lines.items()]
    patterns = {name: re.compile(text) for name, text in terms.lines.items()}
    counts = dict.fromkeys(patterns, 0)
    for line in lines(log):
        for name, pattern in patterns.items():
            counts[name] += pattern.search(line.text) is not None
    return list(_lines_found(judge, counts, terms.lines))


def _lines_found(judge: GateMaker, counts: dict[str, int], wanted: object) -> Iterator[Gate]:
    texts = dict(wanted) if isinstance(wanted, dict) else {}
    for name, count in counts.items():
        yield judge.held(
            count > 0,
            name,
            say_plural("{count} line", "{count} lines", count=count),
            say("a line that matches {pattern}", pattern=texts.get(name, "")),
            say("no line of the log matches"),
            float(count),
            1.0,
        )
