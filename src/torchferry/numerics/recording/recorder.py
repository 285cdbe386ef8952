"""`Recorder`: the numbers of a run, step by step, into a folder."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from torchferry import __version__
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice
from torchferry.numerics.framework.attribution import Attribution, Where
from torchferry.numerics.framework.dispatch import WithoutDispatchModes, capturing
from torchferry.numerics.framework.operators import Operator, tensors
from torchferry.numerics.framework.steps import Steps
from torchferry.numerics.recording.facts import Tracked, facts, local, norm, settings, states, stepped, world
from torchferry.numerics.recording.generators import GeneratorWatch
from torchferry.numerics.recording.mode import RecordingMode, unusual
from torchferry.numerics.recording.sketching import Hasher
from torchferry.numerics.recording.step import StepFiles, StepNotes, StepRows
from torchferry.numerics.recording.storing import ModuleTensors, RecordStore
from torchferry.numerics.runlog import layout as names

# What a recording was asked for.


LIMIT = 1 << 30
"""Bytes that a rank's record may take, unless the user says otherwise."""


@dataclass(frozen=True)
class RecordOptions:
    """What is recorded, and how much of it.

    Attributes:
        folder: Where the record goes; absolute.
        first: Steps from the first on that are recorded operator by operator.
        every: Which of the later steps are: each tenth, for example; 0 for none. The others leave a line.
        limit: Bytes that the record of one rank may take; then it ends, and says so.
        tensors: Patterns of module paths whose results are kept whole.
        form: `safetensors`; `parquet` writes the rows as tables too.
        perturb: Whether parameters are multiplied by 1 + 2^-24 N(0, 1) before the first step, so that two records show
            how far rounding alone carries.
    """

    folder: str
    first: int = 20
    every: int = 10
    limit: int = LIMIT
    tensors: tuple[str, ...] = field(default=())
    form: str = "safetensors"
    perturb: bool = False

    def records(self, step: int) -> bool:
        """Whether a step is recorded operator by operator."""
        return step < self.first or (self.every > 0 and step % self.every == 0)

    def records_state(self, step: int) -> bool:
        """Whether a step's parameters and gradients are sketched one by one."""
        return self.records(step) and (step < min(self.first, 3) or step % 20 == 0)

    @classmethod
    def of(cls, values: dict[str, Any]) -> RecordOptions:
        """Return the options that `as_dict` made."""
        return cls(**{**values, "tensors": tuple(values.get("tensors", ()))})

    def as_dict(self) -> dict[str, Any]:
        """Return the options as values that JSON has."""
        return {**self.__dict__, "tensors": list(self.tensors)}


_HASHED = 256
"""Entries of a batch that are hashed one by one; of a larger one, the whole."""

_PATIENCE = 1000
"""Failures of its own after which the recording ends: then nothing is left that could be recorded."""

_Hook = TypeVar("_Hook", bound=Callable[..., None])


def _guarded(hook: _Hook) -> _Hook:
    """Let nothing that is wrong with the recording reach the program."""

    @functools.wraps(hook)
    def guarded(self: Recorder, *args: Any) -> None:
        try:
            hook(self, *args)
        except Exception as error:
            self._failed(error)

    return cast(_Hook, guarded)


class Recorder:
    """Records the run inside of a `with` block.

    A step ends with `step()`, or by itself with each step of an optimizer: when `by_optimizer` is set, and where a
    program never calls `step`.

        with Recorder("there", first=50) as recorder:
            for batch in loader:
                train_step(batch)
                recorder.step()
    """

    def __init__(self, folder: str | Path | RecordOptions, **options: Any) -> None:
        """Prepare a recording; nothing is written before the first step.

        Args:
            folder: Where the record goes; it must not hold one.
            **options: As in `RecordOptions`.
        """
        if not isinstance(folder, RecordOptions):
            options["tensors"] = tuple(options.get("tensors", ()))
            folder = RecordOptions(str(Path(folder).absolute()), **options)
        self.options = folder
        self._attribution = Attribution()
        self._rows = StepRows()
        self._mode = RecordingMode(self._attribution, self._rows)
        self._mode.on_draw = self._drawn
        self._mode.on_target = self._target
        self._mode.on_failure = self._failed
        self._tracked = Tracked(self._attribution.modules)
        self._hasher = Hasher()
        self._gathered = StepNotes()
        self._kept = ModuleTensors(self.options.tensors, self.options.limit // 2)
        if self.options.tensors:
            self._mode.on_tensor = self._kept.add
        self._store: RecordStore | None = None
        self._handles: list[Any] = []
        self._generators = GeneratorWatch()
        self._forgotten = ""
        """The type of the device whose generators a resumed program left as they were; empty where it did not."""
        self._steps = Steps()
        self._steps.before.append(self._before_optimizer)
        self._steps.skipped.append(self._skipped)
        self._steps.after.append(self._ended)
        self._how = ""
        self._step = 0
        self._layouts: set[str] = set()
        self._by_optimizer = False
        self._ran: set[str] = set()
        self._state_of = -1
        self._notes: set[str] = set()
        self._failures: dict[str, int] = {}
        self._recorded = 0
        self._told = False
        self._updated = False
        """Whether an optimizer stepped since the last step ended."""
        self._running = False
        self._on_before: bool | None = None
        self._optimizers: dict[int, str] = {}
        self._held: dict[tuple[str, str], int] = {}
        """Rows of this step's parameters, buffers and gradients, by phase and name."""

    def __enter__(self) -> Recorder:
        self.start(by_optimizer=False)
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self, by_optimizer: bool = False) -> None:
        """Begin to record, or go on after `stop`.

        Args:
            by_optimizer: Whether a step ends with each step of an optimizer, or is told by `step()`.

        Raises:
            TorchferryError: the folder holds a record already.
        """
        folder = Path(self.options.folder)
        if self._store is None and (folder / f"{names.RANK}{world()['rank']}" / names.STEPS).exists():
            raise TorchferryError(
                say("{path} already contains a record", path=folder), say("name another folder, or remove this one")
            )
        if self.options.form == "parquet":
            from torchferry.numerics.recording.step import require

            require()
        self._by_optimizer = by_optimizer
        self._attribution.start()
        self._attribution.modules.on_root.append(self._root)
        self._attribution.modules.on_root_left.append(self._root_left)
        self._attribution.modules.on_left.append(self._left)
        self._how = "optimizer" if by_optimizer else "told"
        self._handles = [register_optimizer_step_post_hook(self._after_optimizer)]
        self._steps.by_hand = not by_optimizer
        self._steps.start()
        if self._store is None:
            self._generators.start()
        self._mode.on = self.options.records(0) and not by_optimizer
        self._running = True
        self._mode.__enter__()

    def stop(self) -> dict[str, Any]:
        """End the recording and return what became of it."""
        if not self._running:
            return {}
        if len(self._rows) or self._gathered.batch:
            self._end_step("rest")
        self._running = False
        self._mode.on = False
        self._mode.__exit__(None, None, None)
        for handle in self._handles:
            handle.remove()
        self._steps.stop()
        self._generators.stop()
        self._attribution.modules.on_root.remove(self._root)
        self._attribution.modules.on_root_left.remove(self._root_left)
        self._attribution.modules.on_left.remove(self._left)
        self._attribution.stop()
        result: dict[str, Any] = {
            "steps": self._step,
            "recorded": self._recorded,
            "failed": bool(self._store and self._store.failed) or bool(self._failures),
            "bytes": self._store.written if self._store else 0,
            "ended": self._store.ended.render("en") if self._store and self._store.ended else "",
            "folder": self.options.folder,
            "skipped": self._mode.skipped,
            "captured": self._mode.captured,
            "unobserved": self._mode.unobserved,
            "failures": dict(self._failures),
            "notes": sorted(self._notes),
            "forgotten": self._forgotten,
        }
        if self._store is not None:
            self._store.last(names.END, result)
        return result

    def forget(self) -> None:
        """Record nothing in this process, which is a fork of the one that is recorded."""
        self._running = False
        self._mode.on = False

    def step(self) -> None:
        """End a step. Where steps end with the optimizer's, because nobody called this before, it does nothing."""
        self._told = True
        if self._steps.by_hand:
            self._steps.end()

    # what the hooks see

    @_guarded
    def _root(self, module: nn.Module, args: Any) -> None:
        """An outermost module is about to run."""
        if not self._running or self._captures():
            return
        if self._updated and self._steps.by_hand and not self._told:
            self._end_untold()
        path = self._attribution.modules.of(module)
        if self._by_optimizer and path in self._ran and not self._mode.calls_backward and not torch.is_grad_enabled():
            self._end_step("evaluation")
        self._ran.add(path)
        unwritten = self._mode.unwritten
        if unwritten is not None and any(map(unwritten.holds, tensors(args))):
            self._notes.add("unwritten")
            self._on_before, self._mode.on = self._mode.on, False
            return
        if type(module).__name__ == "OptimizedModule":
            self._notes.add("compiled")
        with WithoutDispatchModes(), torch.no_grad(), torch.inference_mode(False):
            self._tracked.add(module)
            if not self._begin():
                return
            self._mode.on = self.options.records(self._step)
            if self._mode.on and self._state_of < self._step and self.options.records_state(self._step):
                self._state_of = self._step
                self._note_parameters()
            trained = next(module.parameters(), None) is not None
            for index, tensor in enumerate(tensors(args)):
                self._batch(f"{path}({index})", tensor, trained)

    def _end_untold(self) -> None:
        """A model is called after an optimizer's step, and nobody ever called `step`: let the optimizer end steps."""
        text = say("`step()` was not called: a step ends with each step of an optimizer")
        print_notice(f"torchferry: {text}")
        self._steps.by_hand, self._how = False, "optimizer"
        self._notes.add("untold")
        self._steps.end()

    @_guarded
    def _root_left(self, module: nn.Module, args: Any, result: Any) -> None:
        """An outermost module has run."""
        if self._on_before is not None:
            self._mode.on, self._on_before = self._on_before, None

    @_guarded
    def _left(self, path: str, result: Any) -> None:
        """A module has run."""
        if self._running:
            self._mode.left(path, result)

    @_guarded
    def _before_optimizer(self, optimizer: Optimizer) -> None:
        if not self._running or self._captures() or not self._begin():
            return
        with WithoutDispatchModes(), torch.no_grad():
            name = self._optimizers.get(id(optimizer))
            if name is None:
                kind = type(optimizer).__name__
                name = self._optimizers[id(optimizer)] = (
                    kind if not self._optimizers else f"{kind}#{len(self._optimizers) + 1}"
                )
            self._gathered.optimizers[name] = settings(optimizer)
            every = [part for _, part in self._tracked.gradients()]
            if not every:
                held = [
                    param.grad
                    for group in optimizer.param_groups
                    for param in group["params"]
                    if param.grad is not None
                ]
                every = [part for part in map(local, held) if part is not None]
            if every:
                self._gathered.numbers["gradient norm"] = norm(every)
            if self._notes_state():
                self._note_gradients(name, optimizer)

    @_guarded
    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._running or self._mode.captures:
            return
        self._updated = True
        if self._notes_state():
            with WithoutDispatchModes(), torch.no_grad():
                self._note_updates(self._optimizers[id(optimizer)], optimizer)

    def _skipped(self, optimizer: Optimizer) -> None:
        """A GradScaler left out the optimizer's step; the step ends all the same."""
        self._how = "skipped"

    def _ended(self) -> None:
        if self._running and not self._captures():  # a captured step ends nothing, and nobody may wait for the device
            self._end_step(self._how)
        self._how = "optimizer" if not self._steps.by_hand else "told"

    def _drawn(self, operator: Operator, where: Where, tensor: Tensor, row: int) -> None:
        """An operator drew random numbers."""
        mask = tensor if tensor.dtype is torch.bool else tensor != 0
        self._gathered.draws.append(
            {
                "operator": operator.name,
                "module": where.module,
                "phase": where.phase,
                "shape": list(tensor.shape),
                "row": row if tensor.dtype.is_floating_point else -1,
            }
        )
        keeps = operator.base.startswith(("bernoulli", "native_dropout", "dropout"))
        self._gathered.kept.append(mask.sum().reshape(1).to(torch.int64))
        self._gathered.drawn.append(self._hasher.whole(mask if keeps else tensor))

    def _target(self, name: str, tensor: Tensor) -> None:
        self._batch(name, tensor)

    def _failed(self, error: Exception) -> None:
        """The recording has its own fault: what it was at is left out, and the rest goes on."""
        text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        if not self._failures:
            what = say("a part of the run cannot be recorded; the rest is recorded: {error}", error=text)
            print_notice(f"torchferry: {what}")
        self._failures[text] = self._failures.get(text, 0) + 1
        if sum(self._failures.values()) >= _PATIENCE and self._store is not None:
            self._mode.on = False
            self._store.end(say("an internal error: {error}", error=text))

    # what is noted

    def _captures(self) -> bool:
        """Note whether what the program calls from now on goes into a graph, and return it."""
        self._mode.captures = capturing()
        return self._mode.captures

    def _begin(self) -> bool:
        """Open the rank's folder, before the first step; returns whether there is anything to write to."""
        if self._store is None:
            self._generators.stop()  # what is set from now on belongs to a step, such as its recomputation
            place = world()
            folder = Path(self.options.folder)
            self._store = RecordStore(folder / f"{names.RANK}{place['rank']}", self.options.limit)
            if not self._store.begin():
                self._mode.on = False
                return False
            device = next((parameter.device for parameter in self._tracked.parameters.values()), None)
            self._mode.any_device = device is None or device.type == "cpu"
            if device is not None and self._generators.forgotten(device.type):
                self._forgotten = device.type
            if self.options.perturb:
                self._perturb()
            started = {
                "format": names.FORMAT,
                "version": names.VERSION,
                "torchferry": __version__,
                "world": place,
                "started": time.time(),
                "options": self.options.as_dict(),
                "facts": facts(device, self._forgotten),
            }
            self._store.file(names.BEGIN, names.sealed(started))
        return self._store.ended is None

    def _perturb(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for parameter in self._tracked.parameters.values():
            part = local(parameter)
            if part is not None:
                noise = torch.randn(part.shape, generator=generator, dtype=torch.float64) * 2.0**-24
                part.copy_((part.cpu().to(torch.float64) * (1 + noise)).to(part))

    def _note_parameters(self) -> None:
        first = self._step == 0
        if first:
            self._gathered.sharded = self._tracked.sharded
        for phase, held in ((names.PARAMETER, self._tracked.parameters), (names.BUFFER, self._tracked.buffers)):
            for path, tensor in held.items():
                part = local(tensor)
                if part is None:
                    continue
                row = self._held[phase, path] = self._state(phase, path, part)
                if row >= 0:
                    self._mode.made(part, row)
                    if first:
                        self._gathered.hashed.append(row)
                        self._gathered.hashes.append(self._hasher.whole(part))

    def _notes_state(self) -> bool:
        """Whether parameters, gradients and what optimizers make of them are recorded one by one in this step."""
        return self._mode.on and self._state_of == self._step

    def _note_gradients(self, name: str, optimizer: Optimizer) -> None:
        """Note gradients before an optimizer changes anything, and parameters that no module holds."""
        for group, place, parameter in stepped(optimizer):
            part = local(parameter.detach())
            path = self._tracked.name(parameter) or f"{name}[{group}][{place}]"
            if part is not None and (names.PARAMETER, path) not in self._held:
                self._held[names.PARAMETER, path] = self._state(names.PARAMETER, path, part)
            part = None if parameter.grad is None else local(parameter.grad)
            if part is not None:
                row = self._state(names.GRADIENT, path, part, self._mode.makers(part))
                self._held[names.GRADIENT, path] = row
                if not part.is_complex():
                    self._held[names.SIGNS, path] = self._state(names.SIGNS, path, part.sign())
        for path, part in self._tracked.gradients():
            if (names.GRADIENT, path) not in self._held:
                self._held[names.GRADIENT, path] = self._state(names.GRADIENT, path, part, self._mode.makers(part))

    def _note_updates(self, name: str, optimizer: Optimizer) -> None:
        """Note what an optimizer keeps of its parameters, and the parameters after its step."""
        for group, place, parameter in stepped(optimizer):
            path = self._tracked.name(parameter) or f"{name}[{group}][{place}]"
            gradient = self._held.get((names.GRADIENT, path), -1)
            given = (self._held.get((phase, path), -1) for phase in (names.PARAMETER, names.GRADIENT, names.SIGNS))
            used = [row for row in given if row >= 0]
            for state, part in states(optimizer, parameter):
                row = self._state(names.STATE, path, part, (gradient,) if gradient >= 0 else (), f"{name}.{state}")
                used += [row] if row >= 0 else []
            after = local(parameter.detach())
            if after is not None:
                self._state(names.UPDATE, path, after, tuple(used), name)

    def _state(self, phase: str, path: str, tensor: Tensor, used: tuple[int, ...] = (), operator: str = "") -> int:
        try:
            key = (phase, path, operator, "", 0, self._rows.dtype(tensor.dtype), False)
            return self._rows.add(key, tensor, (), used)
        except Exception as error:  # a tensor that cannot be read does not keep the others from being recorded
            self._failed(error)
            return -1

    def _batch(self, name: str, tensor: Tensor, trained: bool = False) -> None:
        """Note what the program was given, not what it computed.

        A loss may be given numbers that were made of a model's results, as a detector's is. Where operators are not
        recorded nobody knows, and only what models are given is noted, and labels that are whole numbers.
        """
        if type(tensor) is not Tensor or tensor.requires_grad:
            return
        if unusual(tensor) or tensor.device.type == "meta" or tensor.numel() == 0:
            return
        may_be_hashed = self._mode.on or trained or not tensor.is_floating_point()
        if not may_be_hashed or not self._mode.is_given(tensor):
            return
        with WithoutDispatchModes(), torch.no_grad():
            entries = self._gathered.entries_of(tensor)
            rows = self._hasher.rows(entries) if entries.shape[0] <= _HASHED else self._hasher.whole(entries)
        self._gathered.add_batch(name, tensor, rows, self._rows.dtype(tensor.dtype))

    def _end_step(self, how: str) -> None:
        try:
            with WithoutDispatchModes(), torch.no_grad(), torch.inference_mode(False):
                if self._begin():
                    assert self._store is not None
                    self._write(self._store, how)
        except Exception as error:  # this step is lost, and its number stays free
            self._failed(error)
            with contextlib.suppress(Exception):
                self._rows.read()  # what lies on the device is not the next step's
        self._updated = False
        self._held = {}
        self._rows.clear()
        self._mode.clear()
        self._kept.clear()
        self._gathered = StepNotes()
        self._attribution.next_step()
        self._ran.clear()
        self._mode.unwritten = None  # such forwards come before the training
        self._step += 1
        self._mode.on = (
            self._running and self._store is not None and self._store.ended is None and self.options.records(self._step)
        )

    def _write(self, store: RecordStore, how: str) -> None:
        self._gathered.loss = list(self._mode.loss)
        files = StepFiles(self._step, how, self._rows, self._gathered)
        line = files.line
        line_files: tuple[str, ...] = ()
        if files.sketch is not None and files.sums is not None:
            name = files.layout_name()
            if name not in self._layouts:
                self._layouts.add(name)
                store.file(name, files.layout())
            store.file(line["rows"], files.rows(), noted=True)
            line_files = (name, line["rows"])
            kept = self._kept.file()
            if kept is not None and store.file(f"tensors-{self._step:08d}.safetensors", kept, noted=True):
                line["tensors"] = f"tensors-{self._step:08d}.safetensors"
            if self.options.form == "parquet":
                from torchferry.numerics.recording.step import table

                store.file(f"step-{self._step:08d}.parquet", table(self._rows, self._step, files.sketch, files.sums))
        used = [name for name in (*line_files, line.get("tensors", "")) if name]
        line[names.FILES] = {name: store.checksums[name] for name in used if name in store.checksums}
        self._recorded += store.line(names.STEPS, line)
        for name in used:
            if not name.startswith("layout-"):
                store.checksums.pop(name, None)
