"""Run a Python program and keep what it computed, so that a run on the card can be laid beside one on the CPU.

    python record.py --into FOLDER [--reference] [--steps N] [--first MODULE] [--module] PROGRAM [ARGUMENTS ...]

Seeds Python, numpy and torch. Random numbers of the device come from the CPU's generator, so that both runs draw the
same ones. Each call of `backward` leaves the loss, each step of an optimizer the norm of its parameters, and the end
the parameters; a program that trains nothing leaves what the case's own driver gives to `keep`. `--steps` ends the
program after as many steps, which is what keeps a run over a real data set short. `--first` imports a module as if the
program began with it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

RANDOM = (
    "bernoulli",
    "bernoulli.p",
    "bernoulli_.float",
    "bernoulli_.Tensor",
    "exponential_",
    "log_normal_",
    "multinomial",
    "normal_",
    "random_",
    "random_.from",
    "random_.to",
    "uniform_",
)
"""Operators that all others which draw from the default generator are made of."""

_kept: dict[str, Any] = {}
_trained: dict[int, torch.optim.Optimizer] = {}
_twins: dict[torch.Generator, torch.Generator] = {}
_folder = Path()


def keep(name: str, value: Any) -> None:
    """Keep a tensor, or numbers, under a name; every rank has its own."""
    rank = os.environ.get("RANK", "0")
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().clone()
    _kept[f"{rank}:{name}"] = value


def write() -> None:
    """Write what was kept."""
    for number, optimizer in enumerate(_trained.values()):
        keep(f"parameters {number}", torch.cat([p.cpu().double().flatten() for p in _local(optimizer)]))
    if _kept:
        torch.save(_kept, _folder / f"kept-{os.environ.get('RANK', '0')}-{os.getpid()}.pt")


class Enough(SystemExit):
    """Ends the program after enough steps."""


def watch_training(most: int) -> None:
    """Keep each loss, the norm of the parameters after each step, and the parameters at the end."""
    losses = steps = 0
    backward = torch.autograd.backward

    def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal losses
        losses += 1
        if most and not steps and losses > most:
            raise Enough(0)
        for i, loss in enumerate([tensors] if isinstance(tensors, torch.Tensor) else tensors):
            keep(f"loss {losses:04}.{i}", loss.double().sum())
        backward(tensors, *args, **kwargs)

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal steps
        steps += 1
        local = _local(optimizer)
        keep(f"step {steps:04}", sum(float(p.double().cpu().square().sum()) for p in local) ** 0.5)
        keep("devices", sorted({p.device.type for p in local}))
        _trained[id(optimizer)] = optimizer
        if most and steps >= most:
            raise Enough(0)

    torch.autograd.backward = watched
    register_optimizer_step_post_hook(after)


def _local(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    return [p.to_local() if hasattr(p, "to_local") else p for p in parameters]


def when_the_device_comes(then: Callable[[], None]) -> None:
    """Call `then` now, or when the program imports the plugin: the last kernel that is registered is the one."""
    from torchferry import rehearsal
    from torchferry.rehearsal.events import recorder

    if rehearsal.current() is not None:
        then()
        return
    loaded = recorder.device_loaded

    def device_loaded() -> None:
        loaded()
        then()

    recorder.device_loaded = device_loaded  # type: ignore[method-assign]


def draw_on_the_cpu() -> None:
    """Let the device's default generator be the CPU's; generators that the program makes are its own."""
    key = "XLA" if torch._C._get_privateuse1_backend_name() == "privateuseone" else "PrivateUse1"
    make: Any = torch.library.Library
    library = make("aten", "IMPL")
    globals()["_library"] = library  # its kernels go when it goes
    for operator in RANDOM:
        packet, _, overload = operator.partition(".")
        library.impl(operator, _on_the_cpu(getattr(getattr(torch.ops.aten, packet), overload or "default")), key)
    library.impl("native_dropout", _native_dropout, key)
    library.impl("randperm.generator_out", _randperm_out, key)
    for overload in ("randperm", "randperm.generator"):  # a plugin may have kernels of its own for these
        library.impl(overload, _randperm, key)


def _on_the_cpu(operator: Any) -> Any:
    def call(self: torch.Tensor, *args: Any, generator: torch.Generator | None = None, **kwargs: Any) -> torch.Tensor:
        host = [value.cpu() if isinstance(value, torch.Tensor) else value for value in args]
        drawn = operator(self.cpu(), *host, generator=None if generator is None else _twin(generator), **kwargs)
        if operator._schema.name.endswith("_"):
            return self.copy_(drawn)
        result: torch.Tensor = drawn.to(self.device)
        return result

    return call


def _twin(generator: torch.Generator) -> torch.Generator:
    """Return the CPU generator that goes on where the device's stands; a seed sets the offset back."""
    offset = generator.get_offset()
    if offset == 0 or generator not in _twins:
        _twins[generator] = torch.Generator().manual_seed(generator.initial_seed())
    generator.set_offset(offset + 4)
    return _twins[generator]


def _randperm(
    n: int, *, generator: torch.Generator | None = None, dtype: torch.dtype | None = None, device: Any, **_: Any
) -> torch.Tensor:
    host = None if generator is None else _twin(generator)
    return torch.randperm(n, generator=host, dtype=dtype or torch.int64).to(device)


def _randperm_out(n: int, *, generator: torch.Generator | None = None, out: torch.Tensor) -> torch.Tensor:
    return out.resize_(n).copy_(torch.randperm(n, dtype=out.dtype))


def _native_dropout(input: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: A002 - the operator's own name
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    mask = torch.empty_like(input).bernoulli_(1 - p)
    return input * (mask / (1 - p)), mask.bool()


def draw_in_order() -> None:
    """Let random numbers fill a tensor of the CPU in the order of its indices, as they fill one of the card.

    The results of the CPU's convolutions lie in memory in another order, `randn_like` makes a tensor like them, and the
    CPU fills memory.
    """
    functional: Any = torch.nn.functional
    for name in ("rand_like", "randn_like", "randint_like"):
        setattr(torch, name, functools.partial(getattr(torch, name), memory_format=torch.contiguous_format))
    drop = functional.dropout
    functional.dropout = lambda input, *args, **kwargs: drop(input.contiguous(), *args, **kwargs)  # noqa: A006 - torch's own name


def reference() -> None:
    """Let code that asks torch for the machine's accelerator find the CPU; torch before 2.6 cannot be asked."""
    draw_in_order()
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.device_count = lambda: 2
        torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cpu")
        torch.accelerator.set_device_index = lambda device: None
        torch.accelerator.current_device_index = lambda: 0
    loader: Any = torch.utils.data.DataLoader
    made = loader.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **{**kwargs, "pin_memory": False})  # there is no device to pin for

    loader.__init__ = init


def main() -> None:
    """Run the program."""
    global _folder  # noqa: PLW0603 - one program a process
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--first", default="")
    parser.add_argument("--module", action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    _folder = options.into
    sys.modules["record"] = sys.modules["__main__"]  # a driver that imports this module is to find this one
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    watch_training(options.steps)
    if options.reference:
        reference()
    else:
        when_the_device_comes(draw_on_the_cpu)
    if options.first:
        importlib.import_module(options.first)
    sys.argv = [options.program, *options.arguments]
    sys.path.insert(0, os.getcwd())
    try:
        if options.module:
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(options.program).resolve().parent))
            runpy.run_path(options.program, run_name="__main__")
    finally:
        write()


if __name__ == "__main__":
    main()
