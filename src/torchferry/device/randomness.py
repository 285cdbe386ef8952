"""Random numbers: generators on the device, and one seed for everything."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
from typing import Any

from torchferry.core.messages import say
from torchferry.device.failures import DeviceError, NotOnThisDeviceError, warn
from torchferry.device.names import DescribedDevice, find
from torchferry.device.torch_import import torch


def seeded_generator(place: DescribedDevice, seed: int, on_cpu: bool, fallback: str) -> torch.Generator:
    """Return a seeded generator of the device, or of the CPU; also, with a warning, where `fallback` is `warn`.

    Raises:
        NotOnThisDeviceError: the device has none.
        DeviceError: `fallback` is no choice.
    """
    if fallback not in ("error", "warn"):
        raise DeviceError(say("fallback is `error` or `warn`, not `{value}`", value=fallback))
    try:
        return _generator(place, seed, on_cpu)
    except NotOnThisDeviceError:
        if fallback == "error":
            raise
        warn(
            say(
                "{title} has no generator of its own: this one draws on the CPU; create the tensor there and move it",
                title=place.facts.title,
            )
        )
        return torch.Generator(device="cpu").manual_seed(seed)


def _generator(place: DescribedDevice, seed: int, on_cpu: bool) -> torch.Generator:
    device = torch.device("cpu") if on_cpu else place.device
    advice = say("generate on the CPU and move the result: create_generator(seed, on_cpu=True)")
    if not on_cpu and place.facts.generator is False:
        raise NotOnThisDeviceError(say("{title} has no generator of its own", title=place.facts.title), advice)
    try:
        return torch.Generator(device=device).manual_seed(seed)
    except RuntimeError as error:
        if place.facts.generator is not None:
            raise
        raise NotOnThisDeviceError(
            say("{title} cannot create a generator: {error}", title=place.facts.title, error=error), advice
        ) from error


def seed_everything(place: DescribedDevice, seed: int, deterministic: bool) -> tuple[str, ...]:
    """Seed Python, numpy (if it is installed), torch and every device of the kind; return what was seeded.

    Args:
        place: The device.
        seed: 0 to 2**32 - 1, the range that all of them take.
        deterministic: Also let torch refuse operators whose result is not the same in every run.

    Raises:
        DeviceError: the seed is out of range.
    """
    if not 0 <= seed < 2**32:
        raise DeviceError(say("seed {seed} is not in 0 to 2**32 - 1", seed=seed))
    seeded = ["python"]
    random.seed(seed)
    if importlib.util.find_spec("numpy") is not None:
        numpy: Any = importlib.import_module("numpy")
        numpy.random.seed(seed)
        seeded.append("numpy")
    torch.manual_seed(seed)
    seeded.append("torch")
    if place.facts.plugin or place.facts.namespace:
        every = find(place.facts, "manual_seed_all")
        if every is None:
            warn(say("the generator of {title} was not seeded: no call for it is known", title=place.facts.title))
        else:
            every(seed)
            seeded.append(str(place.device.type))
    if deterministic:
        _be_deterministic(place)
    return tuple(seeded)


def _be_deterministic(place: DescribedDevice) -> None:
    torch.use_deterministic_algorithms(True)
    if not place.facts.plugin:
        torch.backends.cudnn.benchmark = False  # it chooses kernels by their time, which differs from run to run
    name, _, value = place.facts.deterministic_variable.partition("=")
    if name and name not in os.environ:
        warn(
            say("matrix products raise unless {name}={value} is set before the program starts", name=name, value=value)
        )
    if place.facts.plugin:
        warn(
            say(
                "whether every operator of {title} respects torch.use_deterministic_algorithms is not known",
                title=place.facts.title,
            )
        )
