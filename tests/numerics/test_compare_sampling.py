"""When each kind of call, and each place of a kind, is compared again; and a kernel that goes wrong late."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.numerics.wrong import Wrong  # noqa: E402
from torchferry.numerics import CompareWithCPU  # noqa: E402
from torchferry.numerics.compare.sampling import LATER, SOON, YOUNG, Sampler  # noqa: E402


@pytest.mark.parametrize("kinds", [1, 4, 7, 60, 333])
@pytest.mark.parametrize("places", [1, 3])
def test_each_kind_is_compared_again_within_the_stated_steps(kinds: int, places: int) -> None:
    sampler = Sampler(every=False, budget=0.0)
    every = [sampler.signature(first=True) for _ in range(kinds)]
    looked: dict[tuple[int, int], list[int]] = {}
    for step in range(3 * LATER):
        for kind, signature in enumerate(every):
            for place in range(places):
                if sampler.wants(signature):
                    looked.setdefault((kind, place), []).append(step)
                    signature.taken += 1
                    sampler.spent(signature, 1.0)
        sampler.choose()
    for kind in range(kinds):
        steps = sorted(step for (one, _), found in looked.items() if one == kind for step in found)
        gaps = [(before, after - before) for before, after in zip([0, *steps], [*steps, 3 * LATER], strict=True)]
        assert max(gap for before, gap in gaps if before + SOON < YOUNG) <= SOON + 1
        assert max(gap for _, gap in gaps) <= max(LATER, 3 * LATER // 2) + 1
        assert {place for one, place in looked if one == kind} == set(range(places))
    again, of_places = sampler.again()
    assert 1 <= again <= 3 * LATER // 2 + 1
    assert of_places == again * places


@pytest.mark.parametrize(("every", "left"), [(False, 1), (True, 0)])
def test_no_kind_is_left_to_the_budget_where_every_call_is_compared(every: bool, left: int) -> None:
    sampler = Sampler(every=every, budget=0.0)
    for first in (True, False):
        sampler.wants(sampler.signature(first=first))
    assert sampler.left_to_budget == left


@pytest.mark.parametrize("operator", ["addmm", "native_layer_norm", "tanh"])
@pytest.mark.parametrize("begins", [1, 3, 7])
def test_a_kernel_that_goes_wrong_later_is_found_by_the_default_sample(operator: str, begins: int) -> None:
    step = 0

    def change(out: Any, args: Any) -> Any:
        if step >= begins:
            (out[0] if isinstance(out, tuple) else out).mul_(1.01)
        return out

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with Wrong(operator, change), CompareWithCPU(quiet=True, budget=0.0) as compare:
        for step in range(12):  # noqa: B007 - the fault reads it
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            compare.step()
    found = compare.document()
    assert found["first_failure"] is not None
    first = found["operators"][found["first_failure"]]
    assert first["operator"] == f"aten.{operator}"
    assert begins <= first["step"] < begins + SOON
    assert 1 <= found["again_within"] <= SOON + 1
