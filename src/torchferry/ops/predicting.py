"""Runs a function of the user's on a fake device and writes what it needs: `python -m torchferry.ops.predicting`.

It runs in its own process, which torch's one fake device belongs to.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Collection
from mmap import mmap
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, language, say, say_plural
from torchferry.ops.child import answer
from torchferry.ops.deferred_imports import deferred_imports
from torchferry.ops.fake_device import fake_tensors, set_up
from torchferry.ops.needs import PREDICT, RunNeeds, merged
from torchferry.ops.recorder import OperatorMode
from torchferry.ops.unknown_results import LARGEST, UNKNOWN

_LONGEST_NAME = 256
"""Bytes of the name of an operator that a process leaves."""


def predict(file: Path, name: str, device: str, target: str, registered: list[str], natives: list[str],
            *, training: bool, lang: str = "", left_out: Collection[str] = (), last: str = "") -> RunNeeds:  # fmt: skip
    """Return what a function of a file needs.

    The function takes the device's name, or nothing. It returns what is to be called for a step, or a model with its
    arguments: `(model, inputs)`, where `inputs` is a tensor, a tuple, or a dict of keywords.

    Args:
        file: A Python file.
        name: The function.
        device: Type of the device.
        target: Target with version, whose composition torch is to follow; empty for torch's own.
        registered: Operators that the target registers and leaves the gradient of to torch, without `aten::`.
        natives: All that it registers, which torch composes of nothing there.
        training: Whether a model gets a backward and an optimizer's step, beside its forward.
        lang: Language of the notes; empty for the user's.
        left_out: Operators that ended an earlier process, and are not called on fake tensors.
        last: The file that gets the name of each operator before it is called; empty for none.

    Raises:
        TorchferryError: the function does not exist, or fails before an operator of a step was called.
    """
    kind = set_up(device, registered)
    sys.path.insert(0, str(file.parent))
    make = _loaded(file, name)
    mode = OperatorMode(kind, frozenset(f"aten::{each}" for each in natives).__contains__, fake=True)
    mode.left_out = frozenset(left_out)
    if last:
        mode.on_call = _writer(Path(last))
    broken: tuple[str, ...] = ()
    try:
        with deferred_imports(mode.compiler_was_loaded), fake_tensors(kind):
            mode.counts = False
            with mode:  # numbers that the model reads while it is built have to be given too
                made = make(kind) if _takes_device(make) else make()
            mode.counts = True
            step = _step(made, kind, training=training)
            handle = register_optimizer_step_post_hook(_again())
            with mode:
                broken = _run(step, mode, file)
            handle.remove()
    except TorchferryError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise TorchferryError(
            say("{place}: {error}", place=_place(error, file), error=f"{type(error).__name__}: {error}"[:400]),
            say("the function ran on a `{device}` device without values; the call stack is above", device=kind),
        ) from error
    notes: list[Message] = []
    if mode.made_up:
        notes.append(
            say_plural(
                "{count} number was read from a tensor without values, such as by item(); the program got 1",
                "{count} numbers were read from tensors without values, such as by item(); the program got 1 each time",
                count=mode.made_up,
            )
        )
    if mode.unopened:
        names = ", ".join(sorted(mode.unopened))
        notes.append(say("some of the operators that torch composes these of were not seen: {names}", names=names))
    for trust, message in (
        (LARGEST, say("sizes by data, predicted with the largest that they can be: {names}", names=_of(mode, LARGEST))),
        (UNKNOWN, say("sizes that nobody knows, predicted with those of the input: {names}", names=_of(mode, UNKNOWN))),
    ):
        if trust in mode.guessed.values():
            notes.append(message)
    if left_out:
        names = ", ".join(sorted(left_out))
        notes.append(say("torch ended the process at these, and they were not called: {names}", names=names))
    if _stepped:
        notes.append(say("each optimizer stepped twice: the first step creates its state"))
    return RunNeeds(
        PREDICT,
        (f"{file}:{name}",),
        str(torch.__version__).partition("+")[0],
        target,
        kind,
        merged([mode.needs()]),
        broken=broken,
        notes=tuple(note.render(lang or language()) for note in notes),
    )


def _of(mode: OperatorMode, trust: str) -> str:
    return ", ".join(sorted(name for name, value in mode.guessed.items() if value == trust))


def _run(step: Callable[[], object], mode: OperatorMode, file: Path) -> tuple[str, ...]:
    """Run a step, and return where it stopped: what was seen before is worth more than nothing."""
    try:
        step()
    except TorchferryError:
        raise
    except (RuntimeError, NotImplementedError) as error:  # torch's own; what the user's code raises ends the prediction
        if not mode.calls:
            raise
        traceback.print_exc()
        return (f"{_place(error, file)}: {type(error).__name__}: {error}"[:400],)
    return ()


def _writer(path: Path) -> Callable[[str], None]:
    """Return what writes a name into a file that the process that started this one reads if this one is ended."""
    path.write_bytes(bytes(_LONGEST_NAME))
    with path.open("r+b") as opened:
        memory = mmap(opened.fileno(), _LONGEST_NAME)

    def write(name: str) -> None:
        memory[:] = name.encode()[:_LONGEST_NAME].ljust(_LONGEST_NAME, b"\0")

    return write


def _loaded(file: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise TorchferryError(say("{path} is not a Python file", path=file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise TorchferryError(
            say("{place}: {error}", place=_place(error, file), error=f"{type(error).__name__}: {error}"[:400]),
            say("the file failed when it was imported; the call stack is above"),
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        names = [each for each, value in vars(module).items() if inspect.isfunction(value) and each[:1] != "_"]
        raise TorchferryError(
            say("{path} has no function `{name}`", path=file, name=name),
            say("it has: {names}", names=", ".join(names[:20]) or "-"),
        )
    function: Callable[..., Any] = found
    return function


def _takes_device(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)


def _step(made: Any, kind: str, *, training: bool) -> Callable[[], object]:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
        return _of_model(made[0], made[1], kind, training=training)
    if callable(made) and not isinstance(made, nn.Module):
        return made  # type: ignore[no-any-return]
    raise TorchferryError(
        say("the function returned a value of the type {kind}", kind=type(made).__name__),
        say("return a function that runs one step, or (model, inputs)"),
    )


def _of_model(model: nn.Module, inputs: Any, kind: str, *, training: bool) -> Callable[[], object]:
    _move(model, kind)
    inputs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda each: _moved(each, kind), inputs)
    args = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    kwargs = inputs if isinstance(inputs, dict) else {}
    optimizer = torch.optim.AdamW(model.parameters()) if training else None

    def step() -> None:
        if optimizer is None:
            model.eval()
            with torch.no_grad():
                model(*args, **kwargs)
            return
        model.train()
        _loss(model(*args, **kwargs)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _move(model: nn.Module, kind: str) -> None:
    """Move what the old constructors made on the CPU, as `model.to(device)` does: `torch.Tensor(4, 8)`."""
    moved: dict[int, torch.Tensor] = {}
    for module in model.modules():
        own: list[dict[str, Any]] = [module._parameters, module._buffers]
        for held in own:
            for name, tensor in held.items():
                if tensor is None or tensor.device.type == kind:
                    continue
                if id(tensor) not in moved:
                    there = _moved(tensor.detach(), kind)
                    is_parameter = isinstance(tensor, nn.Parameter)
                    moved[id(tensor)] = nn.Parameter(there, tensor.requires_grad) if is_parameter else there
                held[name] = moved[id(tensor)]


def _moved(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    return tensor if tensor.device.type == kind else tensor.to(kind)


def _loss(out: Any) -> torch.Tensor:
    """Return the loss that a model computes, or the mean of all that it returns."""
    loss = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    values = [each for each in torch.utils._pytree.tree_leaves(out) if isinstance(each, torch.Tensor)]
    means = [each.float().mean() for each in values if each.requires_grad]
    if not means:
        raise TorchferryError(
            say("the model returned nothing that has a gradient"), say("predict it with `--inference`")
        )
    return torch.stack(means).sum()


_stepped: set[int] = set()


def _again() -> Callable[[Optimizer, Any, Any], None]:
    """Return a hook that has each optimizer step a second time after its first step, which is like no other."""

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if id(optimizer) not in _stepped and not args[1:] and not kwargs:
            _stepped.add(id(optimizer))
            optimizer.step()

    return after


def _place(error: BaseException, file: Path) -> str:
    """Return the innermost line of the user's file that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == file]
    return f"{file}:{own[-1].lineno}" if own else str(file)


def _work(file: str, **settings: Any) -> dict[str, Any]:
    return {"needs": predict(Path(file), **settings).to_json()}


def main() -> None:
    """Predict what the file of settings asks for."""
    gc.disable()  # as `torchferry.__main__` does: nothing large is made here
    answer(_work)
    atexit._run_exitfuncs()  # what the user's code asked for
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking down a device without a runtime sometimes ends in `std::terminate`


if __name__ == "__main__":
    main()
