"""Curves put side by side, measured and judged: tables of two logs and what comes of them."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.backends.acceptance import find
from torchferry.cli.compare_curves import command
from torchferry.core.errors import UsageError
from torchferry.numerics.curves import measures
from torchferry.numerics.curves.comparison import CurveComparison, Terms, compare
from torchferry.numerics.curves.measures import measure
from torchferry.numerics.curves.reading import Wanted, read
from torchferry.numerics.report import curves, curves_plot

NAN, INF = math.nan, math.inf


def log(folder: Path, name: str, values: Sequence[float], first: int = 1, every: int = 1, metric: str = "loss") -> Path:
    path = folder / name
    lines = [f"step {first + index * every} {metric}: {value!r}\n" for index, value in enumerate(values)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def compared(
    folder: Path, reference: Sequence[float], target: Sequence[float], terms: Terms | None = None
) -> CurveComparison:
    sides = [[read(log(folder, name, values), Wanted())] for name, values in (("a", reference), ("b", target))]
    return compare(sides[0], sides[1], (), False, terms or Terms())


def plain_measures(reference: Sequence[float], target: Sequence[float], tolerance: float = 0.1) -> dict[str, object]:
    keys = [(0.0, float(index + 1)) for index in range(len(reference))]
    found = measure(keys, reference, target, tolerance)
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


MEASURED: list[tuple[list[float], list[float], dict[str, object]]] = [
    ([1, 2, 4], [1, 2, 4], {"mean_relative": 0, "max_absolute": 0, "first_beyond": None, "correlation": 1.0}),
    ([1, 2, 4], [1.5, 1, 4], {"mean_relative": 1 / 3, "signed_relative": 0, "mean_absolute": 0.5, "signed": -1 / 6}),
    ([1, 2, 4], [1, 2, 5], {"final_relative": 0.25, "final_absolute": 1, "max_absolute_at": (0.0, 3.0)}),
    ([1, 1, 1, 1], [1, 2, 1, 2], {"first_beyond": (0.0, 2.0), "lasting_from": (0.0, 4.0), "correlation": None}),
    ([1, 1, 1], [1, 2, 2], {"lasting_from": (0.0, 2.0)}),
    ([1, 1, 1], [2, 2, 1], {"lasting_from": None, "beyond": 2}),
    ([-1, -2], [-1.5, -2], {"mean_relative": 0.25, "signed_relative": 0.25, "signed": -0.25}),
    ([0, 2], [0, 2], {"mean_relative": 0, "zeros": 0}),
    ([0, 2], [1, 2], {"mean_relative": 0, "zeros": 1, "mean_absolute": 0.5, "first_relative": None, "beyond": 1}),
    ([1, 2, 3], [1, NAN, 3], {"count": 2, "broken": (0.0, 2.0), "broken_count": 1, "mean_relative": 0}),
    ([1, INF, 3], [1, 2, 3], {"count": 2, "broken": None, "unusable": 1, "mean_relative": 0}),
    ([NAN, 1], [NAN, 1], {"count": 1, "broken_count": 0, "unusable": 1}),
    ([NAN], [1], {"count": 0, "mean_relative": None}),
    ([1e308, 1e308], [-1e308, 1e308], {"mean_relative": 1.0, "max_relative": 2.0}),
    ([1e-320, 1e-320], [1e-320, 1e-320], {"mean_relative": 0.0}),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "target", "wanted"), MEASURED)
def test_measures(reference: list[float], target: list[float], wanted: dict[str, object]) -> None:
    found = plain_measures(reference, target)
    for name, value in wanted.items():
        assert found[name] == (pytest.approx(value) if isinstance(value, float) else value), name


BY_RULE = [
    ("tecorigin", [1.0] * 100, [1.049] * 100, True, False),
    ("tecorigin", [1.0] * 100, [1.051] * 100, False, False),
    ("tecorigin", [1.0] * 100, [0.1] * 100, True, True),
    ("tecorigin", [0.001] * 100, [0.0011] * 100, True, False),
    ("flagperf", [1.0] * 100, [1.0] * 20 + [1.019] * 80, True, False),
    ("flagperf", [1.0] * 100, [9.0] * 20 + [1.019] * 80, True, False),
    ("flagperf", [1.0] * 100, [1.0] * 20 + [1.02] * 80, False, False),
    ("flagperf", [1.0] * 100, [1.0] * 20 + [1.04, 0.96] * 40, False, False),
    ("mindformers", [10.0] * 1000, [10.049] + [10.09] * 999, True, False),
    ("mindformers", [10.0] * 1000, [10.051] + [10.09] * 999, False, False),
    ("mindformers", [0.1] * 1000, [0.1049] + [0.109] * 999, True, False),
    ("mindformers", [10.0] * 1000, [10.0] + [10.2] * 999, False, False),
    ("mindformers-norm", [1.0] * 1000, [1.0999] * 1000, True, False),
    ("paddle-metric", [0.1, 0.7610], [0.9, 0.7622], True, False),
    ("paddle-metric", [0.1, 0.7610], [0.1, 0.7626], False, False),
]


@pytest.mark.parametrize(("rule", "reference", "target", "met", "by_sign"), BY_RULE)
def test_rules(
    tmp_path: Path, rule: str, reference: list[float], target: list[float], met: bool, by_sign: bool
) -> None:
    verdict = compared(tmp_path, reference, target, Terms(rule=find(rule))).metrics[0].verdict
    assert (verdict.met, verdict.by_sign) == (met, by_sign)
    advised = [note for note in verdict.notes if "advises" in str(note)]
    assert bool(advised) == (find(rule).advised_steps > len(reference))


def test_the_zoo_script_agrees(tmp_path: Path) -> None:
    """The formulas of the vendor's script, written anew, give what the rule is judged by."""
    source = random.Random(7)
    reference = [source.uniform(0.5, 2) for _ in range(60)]
    target = [value * source.uniform(0.9, 1.12) for value in reference]
    found = compared(tmp_path, reference, target, Terms(rule=find("tecorigin"))).metrics[0]
    relative = sum((t - r) / r for r, t in zip(reference, target, strict=True)) / 60
    absolute = sum(t - r for r, t in zip(reference, target, strict=True)) / 60
    assert found.measures.signed_relative == pytest.approx(relative, rel=1e-12)
    assert found.measures.signed == pytest.approx(absolute, rel=1e-12)
    assert found.verdict.met == (relative <= 0.05 or absolute <= 0.0002)


@pytest.mark.parametrize("rule", ["tecorigin", "flagperf", "mindformers-norm", ""])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_no_number_is_never_met(tmp_path: Path, rule: str, value: float) -> None:
    target = [1.0] * 90 + [value] * 10
    found = compared(tmp_path, [1.0] * 100, target, Terms(rule=find(rule) if rule else None))
    assert not found.met
    assert "NaN or infinite at 10 steps" in str(found.metrics[0].verdict.notes[0])


OWN = [(0.5, 1.5, True), (0.5, 1.5001, False), (None, 1.0199, True), (None, 1.0201, False), (0.0, 1.0, True)]


@pytest.mark.parametrize(("rtol", "value", "met"), OWN)
def test_the_own_rule(tmp_path: Path, rtol: float | None, value: float, met: bool) -> None:
    assert compared(tmp_path, [1.0] * 20, [value] * 20, Terms(rtol=rtol)).met is met


def test_steps_that_are_judged(tmp_path: Path) -> None:
    reference, target = [1.0] * 30, [2.0] * 10 + [1.0] * 20
    assert not compared(tmp_path, reference, target).met
    assert compared(tmp_path, reference, target, Terms(from_step=11)).met
    assert not compared(tmp_path, reference, target, Terms(from_step=10)).met
    assert compared(tmp_path, reference, target, Terms(last=20)).met
    with pytest.raises(UsageError, match="at or after step 31"):
        compared(tmp_path, reference, target, Terms(from_step=31))


@pytest.mark.parametrize(("first", "start"), [(0, 20), (1, 20), (11, 10)])
def test_the_21st_step_is_found_by_its_number(tmp_path: Path, first: int, start: int) -> None:
    sides = [[read(log(tmp_path, name, [1.0] * 40, first), Wanted())] for name in "ab"]
    assert compare(sides[0], sides[1], (), False, Terms(rule=find("flagperf"))).metrics[0].start == start


ALIGNED = [
    # first and interval of each side, how many values; steps in common, left out
    ((1, 1, 10), (1, 1, 8), 8, (2, 0)),
    ((1, 1, 100), (10, 10, 10), 10, (90, 0)),
    ((10, 10, 70), (7, 7, 100), 10, (60, 90)),
    ((1, 1, 10), (6, 1, 10), 5, (5, 5)),
]


@pytest.mark.parametrize(("one", "other", "common", "left"), ALIGNED)
def test_common_steps(
    tmp_path: Path, one: tuple[int, int, int], other: tuple[int, int, int], common: int, left: tuple[int, int]
) -> None:
    sides = [
        [read(log(tmp_path, name, [float(first + index * every) for index in range(count)], first, every), Wanted())]
        for name, (first, every, count) in (("a", one), ("b", other))
    ]
    found = compare(sides[0], sides[1], (), False, Terms()).metrics[0]
    assert (len(found.pairing.keys), found.pairing.left_out) == (common, left)
    assert found.measures.mean_relative == 0


COVERED: list[tuple[str, range | list[int], range | list[int], int]] = [
    ("the same steps", range(60), range(60), 0),
    ("the target goes on", range(12), range(60), 0),
    ("wider intervals", range(60), range(0, 60, 10), 0),
    ("wider intervals of the reference", range(0, 60, 10), range(60), 0),
    ("wider intervals, later", range(60), [*range(10), *range(10, 60, 10)], 0),
    ("some values are missing", range(60), [step for step in range(60) if step not in (7, 31)], 0),
    ("the target ended early", range(60), range(12), 48),
    ("the target ended one step early", range(60), range(59), 1),
    ("wider intervals, ended early", range(60), range(0, 40, 10), 29),
    ("the target began late", range(60), range(30, 60), 30),
    ("a part of the log was lost", range(60), [*range(12), *range(51, 60)], 39),
]


@pytest.mark.parametrize(("one", "other", "missing"), [case[1:] for case in COVERED], ids=[case[0] for case in COVERED])
@pytest.mark.parametrize("partial", [False, True])
def test_a_target_that_covers_less_is_not_the_reference(
    tmp_path: Path, one: Sequence[int], other: Sequence[int], missing: int, partial: bool
) -> None:
    for name, steps in (("a", one), ("b", other)):
        (tmp_path / name).write_text("".join(f"step {step} loss: {5 - step / 100}\n" for step in steps))
    arguments = [str(tmp_path / "a"), str(tmp_path / "b"), *(["--partial"] if partial else [])]
    shown = CliRunner().invoke(command, arguments)
    assert shown.exit_code == (1 if missing and not partial else 0)
    covered = f"covers only {len(one) - missing} of {len(one)} values"
    assert (covered in shown.output.splitlines()[0]) is bool(missing)
    found = json.loads(CliRunner().invoke(command, [*arguments, "-f", "json"]).output)
    assert (found["complete"], found["metrics"][0]["not_covered"]) == (not missing, missing)
    assert found["met"] is (shown.exit_code == 0)


def test_what_is_not_judged_need_not_be_covered(tmp_path: Path) -> None:
    for name, steps in (("a", range(60)), ("b", range(30, 60))):
        (tmp_path / name).write_text("".join(f"step {step} loss: {5 - step / 100}\n" for step in steps))
    sides = [[read(tmp_path / name, Wanted())] for name in "ab"]
    assert not compare(sides[0], sides[1], (), False, Terms()).passed
    assert compare(sides[0], sides[1], (), False, Terms(last=20)).passed
    assert compare(sides[0], sides[1], (), False, Terms(rule=find("flagperf"), from_step=35)).passed


def test_steps_that_do_not_meet(tmp_path: Path) -> None:
    sides = [[read(log(tmp_path, name, [1.0, 2.0], first), Wanted())] for name, first in (("a", 1), ("b", 10))]
    with pytest.raises(UsageError, match=r"no step in common: 1 \.\. 2; 10 \.\. 11"):
        compare(sides[0], sides[1], (), False, Terms())
    assert compare(sides[0], sides[1], (), False, Terms(alignment="order")).met


def test_logs_that_count_differently_are_compared_in_order_and_it_is_said(tmp_path: Path) -> None:
    other = tmp_path / "b"
    other.write_text("loss: 1.0\nloss: 2.0\n", encoding="utf-8")
    sides = [[read(log(tmp_path, "a", [1.0, 2.0, 3.0]), Wanted())], [read(other, Wanted())]]
    found = compare(sides[0], sides[1], (), False, Terms())
    assert found.met
    assert "count differently" in str(found.metrics[0].pairing.notes[0])
    with pytest.raises(UsageError, match="--align step cannot be used"):
        compare(sides[0], sides[1], (), False, Terms(alignment="step"))


CHOSEN = [
    ("lr: 1 lm loss: 2 loss scale: 3 | val loss: 4", ["lm loss"]),
    ("loss: 1, loss_cls: 2", ["loss"]),
    ("train_loss=1, val_loss=2", ["train loss"]),
    ("train/box_loss=1, train/cls_loss=2, val/box_loss=2", ["train box loss", "train cls loss"]),
    ("val_loss=2 lr=1", ["val loss"]),
    ("accuracy=2", ["accuracy"]),
]


@pytest.mark.parametrize(("text", "metrics"), CHOSEN)
def test_the_metric_where_none_is_named(tmp_path: Path, text: str, metrics: list[str]) -> None:
    path = tmp_path / "a"
    path.write_text(f"step 1 | {text}\n", encoding="utf-8")
    found = compare([read(path, Wanted())], [read(path, Wanted())], (), False, Terms())
    assert [metric.choice.reference for metric in found.metrics] == metrics


def test_metrics_that_are_named(tmp_path: Path) -> None:
    one = read(log(tmp_path, "a", [1.0, 2.0], metric="loss"), Wanted())
    other = read(log(tmp_path, "b", [1.0, 2.0], metric="train/loss"), Wanted())
    with pytest.raises(UsageError, match="no loss under the same name"):
        compare([one], [other], (), False, Terms())
    found = compare([one], [other], ("loss=train.loss",), False, Terms())
    assert found.metrics[0].choice.title == "loss = train loss"
    with pytest.raises(UsageError, match="has no metric `accuracy`"):
        compare([one], [one], ("accuracy",), False, Terms())
    assert len(compare([one], [one], ("l*",), False, Terms()).metrics) == 1
    with pytest.raises(UsageError, match="matches"):
        compare([one], [one], ("x*",), False, Terms())
    (tmp_path / "c").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no value was found"):
        compare([read(tmp_path / "c", Wanted())], [one], (), False, Terms())


def runs(seed: int, count: int, bias: float = 0.0, noise: float = 0.01) -> list[list[float]]:
    source = random.Random(seed)
    return [
        [(2 * math.exp(-step / 50) + 0.5) * (1 + source.gauss(bias, noise)) for step in range(200)]
        for _ in range(count)
    ]


def of_seeds(
    folder: Path, references: list[list[float]], targets: list[list[float]], terms: Terms | None = None
) -> CurveComparison:
    logs = [
        [read(log(folder, f"{side}{index}", run), Wanted()) for index, run in enumerate(many)]
        for side, many in (("a", references), ("b", targets))
    ]
    return compare(logs[0], logs[1], (), False, terms or Terms())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_spread_of_the_reference_holds_its_like(tmp_path: Path, seed: int, count: int) -> None:
    found = of_seeds(tmp_path, runs(seed, count), runs(seed + 1000, 2))
    assert found.met
    assert found.metrics[0].verdict.rule.name == "spread"


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_spread_of_the_reference_does_not_hold_another_curve(tmp_path: Path, count: int) -> None:
    assert not of_seeds(tmp_path, runs(1, count), runs(2, 1, bias=0.05)).met
    assert not of_seeds(tmp_path, runs(1, count), [*runs(2, 1), *runs(3, 1, bias=0.05)]).met
    assert of_seeds(tmp_path, runs(1, count), runs(2, 1, bias=0.05), Terms(factor=20)).met
    broken = runs(2, 1)
    broken[0][150] = NAN
    assert not of_seeds(tmp_path, runs(1, count), broken).met


def test_runs_that_are_the_same_to_the_last_digit(tmp_path: Path) -> None:
    run = runs(1, 1)[0]
    assert of_seeds(tmp_path, [run, run], [run]).met
    found = of_seeds(tmp_path, [run, run], [[value * (1 + 1e-9) for value in run]])
    assert not found.met
    assert any("are identical" in str(note) for note in found.metrics[0].verdict.notes)


def test_a_rule_that_is_named_holds_for_many_runs_too(tmp_path: Path) -> None:
    found = of_seeds(tmp_path, runs(1, 3), runs(2, 3), Terms(rule=find("flagperf")))
    assert found.metrics[0].verdict.rule.name == "flagperf"
    assert found.metrics[0].envelope is not None
    with pytest.raises(UsageError, match="two or more runs"):
        of_seeds(tmp_path, runs(1, 1), runs(2, 1), Terms(spread=True))


SMOOTHED = [
    ("none", [1, 2, 3], [1, 2, 3]),
    ("window:2", [1, 3, 5], [1, 2, 4]),
    ("window:100", [1, 3, 5], [1, 2, 3]),
    ("window:2", [1, NAN, 5], [1, NAN, 3]),
    ("ema:0.5", [4, 4, 4], [4, 4, 4]),
    ("ema:0.5", [0, 3], [0, 2]),
    ("ema:0.5", [INF, 4], [INF, 4]),
]


@pytest.mark.parametrize(("how", "values", "wanted"), SMOOTHED)
def test_smoothing(how: str, values: list[float], wanted: list[float]) -> None:
    assert measures.parse(how)(values) == pytest.approx(tuple(wanted), nan_ok=True)


@pytest.mark.parametrize("how", ["", "ema", "ema:1", "ema:0", "window:0", "window:1.5", "window:x", "none:1", "mean:3"])
def test_no_smoothing(how: str) -> None:
    with pytest.raises(UsageError, match="is not a way of smoothing"):
        measures.parse(how)


def text(comparison: CurveComparison, lang: str = "en") -> str:
    return "\n".join(curves.lines(comparison, lang, lambda words, kind: words))


def test_the_text_says_the_verdict_first(tmp_path: Path) -> None:
    shown = text(compared(tmp_path, [1.0] * 30, [1.0] * 29 + [1.5]))
    assert shown.startswith(
        "The target's curve agrees with the reference's.\n\n"
        "loss: meets rule relative: mean relative error 1.67 % <= 2 %"
    )
    assert "first step beyond 2 %" in shown
    assert "30 (1 step in all)" in shown
    assert text(compared(tmp_path, [1.0] * 3, [2.0] * 3)).startswith(
        "The target's curve does not agree with the reference's: loss"
    )
    signed = text(compared(tmp_path, [1.0] * 30, [0.1] * 30, Terms(rule=find("tecorigin"))))
    assert signed.startswith("Rule tecorigin is met only because of the sign of the errors")
    assert "without sign the mean relative error is 90 %" in signed


def test_chinese_has_no_english_sentence(tmp_path: Path) -> None:
    target = [1.0] * 20 + [NAN] * 5 + [0.0] * 5
    shown = text(
        compared(tmp_path, [1.0] * 25 + [0.0] * 4 + [NAN], target, Terms(rule=find("mindformers"), rtol=0.1)), "zh"
    )
    shown = re.sub(r"来源：.*", "", shown)
    assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", shown), shown


SPARK = [([0, 1, 2, 3], "▁▃▆█"), ([1, 1], "▁▁"), ([0, NAN, 3], "▁×█"), ([], "")]


@pytest.mark.parametrize(("values", "drawn"), SPARK)
def test_sparklines(values: list[float], drawn: str) -> None:
    finite = [value for value in values if math.isfinite(value)]
    assert curves.sparkline(values, min(finite, default=0), max(finite, default=0)) == drawn
    assert len(curves.sparkline([1.0] * 1000, 0, 2)) == 60


def test_json_and_csv(tmp_path: Path) -> None:
    found = compared(tmp_path, [1.0, 2.0, 4.0, 0.0], [1.0, 2.5, NAN, 1.0])
    document = json.loads(curves.render_json(found, "en"))
    metric = document["metrics"][0]
    assert (document["met"], metric["rule"]["name"], metric["common_steps"]) == (False, "relative", 4)
    assert metric["measures"]["first_beyond"] == "2"
    assert metric["measures"]["broken"] == "3"
    assert metric["needs"][0][0]["limit"] == 0.02
    rows = list(csv.DictReader(io.StringIO(curves.render_csv(found))))
    assert [(row["step"], row["reference"], row["relative_error"]) for row in rows] == [
        ("1", "1.0", "0.0"), ("2", "2.0", "0.25"), ("3", "4.0", ""), ("4", "0.0", "")]  # fmt: skip


DRAWN = [
    ([3.0, 2.0, 1.0], [3.0, 2.0, 1.5]),
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    ([1.0], [1.0]),
    ([1.0, NAN, 3.0], [NAN, INF, 3.0]),
    ([0.0, 0.0], [0.0, 0.0]),
    ([1e300, -1e300], [1e-300, 1e300]),
    ([float(step % 97) for step in range(4_000)], [float(step % 89) for step in range(4_000)]),
]


@pytest.mark.parametrize(("reference", "target"), DRAWN)
def test_plots(tmp_path: Path, reference: list[float], target: list[float]) -> None:
    found = compared(tmp_path, reference, target)
    drawn = curves_plot.draw(found, "en")
    root = ET.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert not re.search(r"\b(?:nan|inf)\b", re.sub(r"<(?:title|text|style).*?</", "", drawn, flags=re.DOTALL))
    assert len(drawn) < 400_000
    assert drawn == curves_plot.draw(found, "en")
    whole = curves_plot.render(found, "zh")
    assert whole.startswith('<!doctype html><html lang="zh">')
    assert "http" not in re.sub(r"https?://www\.w3\.org/2000/svg", "", drawn)


def test_a_hostile_name_does_not_break_the_page(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('step,<script>alert(1)</script>\x1b[31m"loss\n1,2\n2,3\n', encoding="utf-8")
    found = compare([read(path, Wanted())], [read(path, Wanted())], (), False, Terms())
    for shown in (curves_plot.draw(found, "en"), curves_plot.render(found, "en")):
        assert "<script>" not in shown
        assert "\x1b" not in shown
    assert "\x1b" not in text(found)
    ET.fromstring(curves_plot.draw(found, "en"))


def test_a_logarithmic_scale(tmp_path: Path) -> None:
    assert curves_plot.draw(compared(tmp_path, [100.0, 1.0], [90.0, 1.0]), "en", log_scale=True)
    with pytest.raises(UsageError, match="values of 0 or below"):
        curves_plot.draw(compared(tmp_path, [1.0, 0.0], [1.0, 1.0]), "en", log_scale=True)
