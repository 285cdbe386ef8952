"""Growth and ratios with their intervals: what leaks, what fills a cache, what is noise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.acceptance.trends import FLAT, GROWS, SETTLED, SHORT, UNCLEAR, growth, ratio, slope

STEPS = list(range(1, 401))
MIB = 1 << 20


def sizes(kind: str, count: int = 400) -> list[float]:
    noise = random.Random(0)
    return {
        "flat": [100.0 * MIB] * count,
        "noise": [100 * MIB + noise.gauss(0, 5e4) for _ in range(count)],
        "leak": [100 * MIB + 20_000.0 * step for step in range(count)],
        "leak in noise": [100 * MIB + 20_000 * step + noise.gauss(0, 1e5) for step in range(count)],
        "about the limit": [100 * MIB + 10_500 * step + noise.gauss(0, 1e6) for step in range(count)],
        "every 50 steps": [100 * MIB + 1e6 * (step // 50) for step in range(count)],
        "cache": [100 * MIB + 1e6 * min(step, 100) for step in range(count)],
        "late jump": [100 * MIB + 3e4 * min(step, 300) + 2 * MIB * (step > 360) for step in range(count)],
        "late cache": [100 * MIB + 1e6 * min(step, 280) for step in range(count)],
        "saw": [100 * MIB + 1e6 * (step % 20) for step in range(count)],
    }[kind]


@pytest.mark.parametrize(
    ("kind", "count", "verdict"),
    [
        ("flat", 400, FLAT),
        ("flat", 200, FLAT),
        ("flat", 199, SHORT),
        ("noise", 400, FLAT),
        ("leak", 400, GROWS),
        ("leak", 200, GROWS),
        ("leak in noise", 400, GROWS),
        ("about the limit", 400, UNCLEAR),
        ("cache", 400, FLAT),
        ("late cache", 400, SETTLED),
        ("late jump", 400, SETTLED),
        ("saw", 400, FLAT),
    ],
)
def test_growth(kind: str, count: int, verdict: str) -> None:
    assert growth(STEPS[:count], sizes(kind, count), 10_000.0).kind == verdict


def test_rare_growth_is_never_flat() -> None:
    assert growth(STEPS, sizes("every 50 steps"), 10_000.0).kind in (GROWS, UNCLEAR, SETTLED)


def test_a_row_that_was_thinned_out() -> None:
    assert growth(STEPS[::8], sizes("leak")[::8], 10_000.0).kind == GROWS


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_line_has_its_own_slope(rise: float, start: float) -> None:
    estimate = slope([float(x) for x in range(200)], [start + rise * x for x in range(200)])
    assert estimate.value == pytest.approx(rise, abs=1e-3, rel=1e-6)
    assert estimate.low <= estimate.value <= estimate.high


def test_the_interval_of_a_ratio() -> None:
    noise = random.Random(1)
    base = [100 + noise.gauss(0, 3) for _ in range(400)]
    same, half = ([scale * (100 + noise.gauss(0, 3)) for _ in range(400)] for scale in (1.0, 0.5))
    assert ratio(same, base).low < 1 < ratio(same, base).high
    assert ratio(half, base).high < 0.52
    with pytest.raises(ValueError, match="too few"):
        ratio(base[:5], base)
