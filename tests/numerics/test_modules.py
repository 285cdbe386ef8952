"""Paths of modules: stable under wrappers, changes and errors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper  # noqa: E402
from torch.nn.modules.module import register_module_forward_pre_hook  # noqa: E402

from torchferry.numerics.framework.attribution import ModulePaths  # noqa: E402


class Leaf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Pair(nn.Module):
    """Two children, of which one is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.parts = Leaf(), nn.ModuleList([Leaf(), Leaf()])
        self.again = self.one

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        result: Tensor = self.again(self.one(x))
        return result


class Wrapper(nn.Module):
    """What data parallelism looks like."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        return self.module(x)


class Makes(nn.Module):
    """Makes a module while it runs."""

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = Leaf()(x)
        return made


class Adds(nn.Module):
    """Takes up a module while it runs."""

    def forward(self, x: Tensor) -> Any:
        self.late = Leaf()
        return self.late(x)


@pytest.fixture
def paths() -> Iterator[ModulePaths]:
    followed = ModulePaths()
    followed.start()
    yield followed
    followed.stop()


def seen(paths: ModulePaths, call: Callable[[], object]) -> list[str]:
    names: list[str] = []
    handle = register_module_forward_pre_hook(lambda module, args: names.append(paths.current))
    try:
        call()
    finally:
        handle.remove()
    return names


PAIR = ["Pair", "Pair.parts.0", "Pair.parts.1", "Pair.one", "Pair.one"]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Leaf, ["Leaf"]),
        (Pair, PAIR),
        (lambda: Wrapper(Pair()), ["Pair", *PAIR]),
        (lambda: Wrapper(Wrapper(Pair())), ["Pair", "Pair", *PAIR]),
        (lambda: checkpoint_wrapper(Leaf()), ["Leaf", "Leaf"]),
        (lambda: nn.Sequential(checkpoint_wrapper(Leaf())), ["Sequential", "Sequential.0", "Sequential.0"]),
        (Makes, ["Makes", "Makes.Leaf"]),
        (Adds, ["Adds", "Adds.late"]),
    ],
)
def test_names(paths: ModulePaths, make: Callable[[], nn.Module], expected: list[str]) -> None:
    module = make()
    assert seen(paths, lambda: module(torch.zeros(1))) == expected
    assert paths.current == ""


def test_two_of_a_kind_are_told_apart(paths: ModulePaths) -> None:
    one, two = Leaf(), Leaf()
    assert seen(paths, lambda: (one(torch.zeros(1)), two(torch.zeros(1)), one(torch.zeros(1)))) == [
        "Leaf", "Leaf#2", "Leaf"
    ]  # fmt: skip


def test_a_part_that_is_called_alone_keeps_its_place(paths: ModulePaths) -> None:
    model = Pair()
    model(torch.zeros(1))
    assert seen(paths, lambda: model.parts[1](torch.zeros(1))) == ["Pair.parts.1"]


def test_a_part_that_ran_before_the_whole_has_its_place_in_it(paths: ModulePaths) -> None:
    model = Wrapper(nn.Sequential(Pair()))
    model.module[0](torch.zeros(1))  # type: ignore[index]
    assert seen(paths, lambda: model(torch.zeros(1))) == [
        "Sequential",
        "Sequential",
        *(name.replace("Pair", "Sequential.0", 1) for name in PAIR),
    ]


def test_an_error_leaves_no_module_behind(paths: ModulePaths) -> None:
    class Raises(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        nn.Sequential(Leaf(), Raises())(torch.zeros(1))
    assert paths.current == ""


def test_parameters_have_their_module(paths: ModulePaths) -> None:
    layer = nn.Linear(2, 2)
    nn.Sequential(layer)(torch.zeros(1, 2))
    assert paths.parameter(layer.weight) == "Sequential.0.weight"
    assert paths.parameter(torch.zeros(1)) == ""


def test_threads_have_modules_of_their_own(paths: ModulePaths) -> None:
    inside: list[str] = []

    class Starts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            thread = threading.Thread(target=lambda: inside.append(paths.current))
            thread.start()
            thread.join()
            return x

    Starts()(torch.zeros(1))
    assert inside == [""]


def test_modules_are_let_go(paths: ModulePaths) -> None:
    for _ in range(50):
        nn.Sequential(Pair(), nn.Linear(1, 1))(torch.zeros(1))
    gc.collect()
    assert len(paths._paths) == len(paths._alive) == len(paths._parameters) == 0


def test_models_are_not_changed(paths: ModulePaths) -> None:
    model = Pair()
    before = {name: dict(vars(part)) for name, part in model.named_modules()}
    model(torch.zeros(1))
    assert {name: dict(vars(part)) for name, part in model.named_modules()} == before
