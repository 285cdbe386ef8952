"""Seeds and generators of the simulated device; seeding waits for the first use of the device, as on the card."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

import torch

from torchferry.rehearsal.device_module.context import DeviceContext, DeviceLike


class DefaultGenerators(Sequence[torch.Generator]):
    """The generators of the devices, of which there are none until the device was first used."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context

    def __len__(self) -> int:
        return self._context.native.device_count() if self._context.is_initialized() else 0

    @overload
    def __getitem__(self, index: int) -> torch.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[torch.Generator, ...]: ...
    def __getitem__(self, index: int | slice) -> torch.Generator | tuple[torch.Generator, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError("tuple index out of range")
        return self._context.native.default_generator(index % len(self))


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the functions that deal with random numbers, by their name below `torch.cuda`."""
    native = context.native

    def generator(device: DeviceLike = None) -> torch.Generator:
        return native.default_generator(context.existing(device))

    def of_all(use: Callable[[torch.Generator], object]) -> None:
        for index in range(native.device_count()):
            use(native.default_generator(index))

    def manual_seed(seed: int) -> None:
        """Seed the current device."""
        number = int(seed)
        context.when_initialized(lambda: generator().manual_seed(number))

    def manual_seed_all(seed: int) -> None:
        """Seed every device."""
        number = int(seed)
        context.when_initialized(lambda: of_all(lambda each: each.manual_seed(number)), seeds_all=True)

    def seed() -> None:
        """Seed the current device with a random number."""
        context.when_initialized(lambda: generator().seed())

    def seed_all() -> None:
        """Seed every device with the same random number."""

        def call() -> None:
            number = generator(0).seed()
            of_all(lambda each: each.manual_seed(number))

        context.when_initialized(call)

    def initial_seed() -> int:
        """Return the seed of the current device."""
        context.initialize()
        return generator().initial_seed()

    def get_rng_state(device: DeviceLike = context.name) -> torch.Tensor:
        """Return the state of a device's generator, a tensor of bytes."""
        context.initialize()
        return generator(device).get_state()

    def get_rng_state_all() -> list[torch.Tensor]:
        """Return the states of all devices' generators."""
        return [get_rng_state(index) for index in range(native.device_count())]

    def set_rng_state(new_state: torch.Tensor, device: DeviceLike = context.name) -> None:
        """Set the state of a device's generator."""
        state = new_state.clone(memory_format=torch.contiguous_format)
        context.when_initialized(lambda: generator(device).set_state(state))

    def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
        """Set the states of all devices' generators."""
        for index, state in enumerate(new_states):
            set_rng_state(state, index)

    functions: dict[str, object] = {
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed_all,
        "seed": seed,
        "seed_all": seed_all,
        "initial_seed": initial_seed,
        "get_rng_state": get_rng_state,
        "get_rng_state_all": get_rng_state_all,
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
    }
    return {
        **functions,
        **{f"random.{name}": function for name, function in functions.items()},
        "default_generators": DefaultGenerators(context),
    }
