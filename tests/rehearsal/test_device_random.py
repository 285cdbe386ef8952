"""Random numbers: seeds, states and generators of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

DRAWN: dict[str, Callable[..., Any]] = {
    "rand": lambda d, g: torch.rand(5, device=d, generator=g),
    "randn": lambda d, g: torch.randn(5, device=d, generator=g),
    "randint": lambda d, g: torch.randint(99, (5,), device=d, generator=g),
    "randperm": lambda d, g: torch.randperm(9, device=d, generator=g),
    "normal_": lambda d, g: torch.empty(5, device=d).normal_(generator=g),
    "uniform_": lambda d, g: torch.empty(5, device=d).uniform_(generator=g),
    "bernoulli": lambda d, g: torch.bernoulli(torch.full((50,), 0.5, device=d), generator=g),
    "multinomial": lambda d, g: torch.multinomial(torch.ones(50, device=d), 5, generator=g),
    "exponential_": lambda d, g: torch.empty(5, device=d).exponential_(generator=g),
    "poisson": lambda d, g: torch.poisson(torch.full((9,), 4.0, device=d), generator=g),
}


@pytest.mark.parametrize("way", DRAWN)
def test_a_generator_repeats_itself(device: str, way: str) -> None:
    generator = torch.Generator(device=device).manual_seed(1)
    first, second = DRAWN[way](device, generator), DRAWN[way](device, generator)
    assert not torch.equal(first, second)
    assert torch.equal(first, DRAWN[way](device, generator.manual_seed(1)))


@pytest.mark.parametrize("way", DRAWN)
def test_a_seed_repeats_the_default_generator(device: str, way: str) -> None:
    torch.manual_seed(5)
    first = DRAWN[way](device, None)
    torch.manual_seed(5)
    assert torch.equal(first, DRAWN[way](device, None))


def test_a_generator_of_another_device_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match=f"Expected a '{device}' device type for generator"):
        torch.randn(2, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected"):
        torch.randn(2, generator=torch.Generator(device=device))


def test_the_state_of_a_generator(device: str) -> None:
    generator = torch.Generator(device=f"{device}:1").manual_seed(3)
    assert generator.device == torch.device(device, 1)
    assert generator.initial_seed() == 3
    state = generator.get_state()
    assert state.dtype == torch.uint8
    first = torch.rand(3, device=generator.device, generator=generator)
    copied = generator.clone_state()
    generator.set_state(state)
    assert torch.equal(first, torch.rand(3, device=generator.device, generator=generator))
    assert torch.equal(copied.get_state(), generator.get_state())


def test_the_state_is_a_seed_and_an_offset(device: str) -> None:
    generator = torch.Generator(device=device).manual_seed(3)
    assert generator.get_state().view(torch.int64).tolist() == [3, 0]
    torch.rand(3, device=device, generator=generator)
    offset = generator.get_offset()
    assert generator.get_state().view(torch.int64).tolist() == [3, offset]
    assert offset > 0
    next_numbers = torch.rand(3, device=device, generator=generator)
    resumed = torch.Generator(device=device)  # as in another process: nothing but the state is known
    resumed.set_state(torch.tensor([3, offset]).view(torch.uint8))
    assert torch.equal(next_numbers, torch.rand(3, device=device, generator=resumed))
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(torch.get_rng_state())


def test_each_device_has_its_own_numbers(device: str, rehearsed: Any) -> None:
    torch.manual_seed(7)
    first = torch.rand(3, device=f"{device}:1")
    torch.manual_seed(7)
    torch.rand(3, device=f"{device}:0")
    assert torch.equal(first, torch.rand(3, device=f"{device}:1"))
    state = rehearsed.namespace.get_rng_state(1)
    again = torch.rand(3, device=f"{device}:1")
    rehearsed.namespace.set_rng_state(state, 1)
    assert torch.equal(again, torch.rand(3, device=f"{device}:1"))


def test_fork_rng_leaves_the_device_as_it_was(device: str) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3, device=device)
    torch.manual_seed(11)
    with torch.random.fork_rng(devices=[0, 1], device_type=device):
        torch.rand(100, device=device)
    assert torch.equal(expected, torch.rand(3, device=device))


def test_dropout_follows_the_seed_and_its_probability(device: str) -> None:
    ones = torch.ones(4000, device=device, requires_grad=True)
    torch.manual_seed(2)
    first = torch.nn.functional.dropout(ones, 0.25)
    torch.manual_seed(2)
    assert torch.equal(first, torch.nn.functional.dropout(ones, 0.25))
    assert sorted(set(first.tolist())) == pytest.approx([0, 4 / 3])
    assert (first == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    first.sum().backward()
    assert torch.equal(ones.grad, first.detach())
    assert torch.equal(torch.nn.functional.dropout(ones, 0.25, training=False), ones)
    assert torch.nn.functional.dropout(ones, 1.0).sum().item() == 0


def test_initialisation_on_the_device_follows_the_seed(device: str) -> None:
    weights = []
    for _ in range(2):
        torch.manual_seed(0)
        weights.append(torch.nn.Linear(3, 3, device=device).weight)
    assert torch.equal(*weights)
