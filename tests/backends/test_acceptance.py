"""Rules by which a curve counts as the reference's: every one has a source, and a file that is wrong says where."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from torchferry.backends.acceptance import MEASURES, Limit, find, read, rules
from torchferry.core.errors import UsageError


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_every_rule_says_where_it_stands(rule: object) -> None:
    assert rule.source.startswith("https://")  # type: ignore[attr-defined]
    assert rule.title.en  # type: ignore[attr-defined]
    assert rule.title.zh  # type: ignore[attr-defined]


def test_names_are_told_apart_and_found() -> None:
    assert [rule.name for rule in rules()] == [
        "flagperf",
        "mindformers",
        "mindformers-norm",
        "paddle-metric",
        "tecorigin",
    ]
    assert find("flagperf").from_step == 21
    with pytest.raises(UsageError, match="unknown rule"):
        find("flagpref")


MET = [
    (Limit("mean_relative", 0.02, False), 0.02, False),
    (Limit("mean_relative", 0.02, True), 0.02, True),
    (Limit("mean_relative", 0.02, True), 0.0200001, False),
    (Limit("signed", 0.02, True), -5.0, True),
    (Limit("mean_relative", 0.02, True), None, False),
    (Limit("mean_relative", 0.02, True), math.nan, False),
    (Limit("mean_relative", 0.02, False), math.inf, False),
]


@pytest.mark.parametrize(("limit", "measured", "met"), MET)
def test_limits(limit: Limit, measured: float | None, met: bool) -> None:
    assert limit.met(measured) is met


GOOD = """
[sources]
S = "https://example.com: it"
[[rule]]
name = "acme"
title = "a rule"
source = "S"
[[rule.need]]
any = [{ measure = "mean_relative", below = 0.02 }]
"""
WRONG = [
    ('measure = "mean_relative"', 'measure = "mean"', "is none of"),
    ("below = 0.02", 'below = "2 %"', "one number"),
    ("below = 0.02", "below = 0.02, at_most = 0.02", "one number"),
    ("below = 0.02", "below = true", "one number"),
    ('source = "S"', 'source = "T"', "not in"),
    ('title = "a rule"', "from_step = 0", "whole number"),
    ('title = "a rule"', 'titel = "a rule"', "is none of"),
    ("any =", "all =", "is none of"),
    ('[[rule.need]]\nany = [{ measure = "mean_relative", below = 0.02 }]', "", "at least one"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_file_that_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "curves.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert read(path)[0].needs == ((Limit("mean_relative", 0.02, False),),)
    assert old in GOOD
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read(path)


def test_every_measure_is_one_that_is_measured() -> None:
    from torchferry.numerics.curves.measures import CurveMeasures
    from torchferry.numerics.report.curves import TITLES

    assert set(MEASURES) == set(TITLES) <= set(CurveMeasures.__dataclass_fields__)
