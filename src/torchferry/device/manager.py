"""One object for the device of a program, whichever vendor's it is."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Any

from torchferry.core.messages import Message, say, say_plural
from torchferry.device.detect import Candidate, choose
from torchferry.device.dtypes import DtypeVerdict, asked_for, best, judge
from torchferry.device.failures import DeviceError
from torchferry.device.memory import MemoryEfficientMode, MemoryStatistics, release_cache, reset_peak, statistics
from torchferry.device.names import DescribedDevice, current, find, required, resolve
from torchferry.device.precision import loss_scaler, mixed_precision
from torchferry.device.profiling import (
    Timing,
    activities,
    has_streams,
    new_event,
    new_profiler,
    new_stream,
    time_column,
    use_stream,
    wait,
)
from torchferry.device.randomness import seed_everything, seeded_generator
from torchferry.device.ranks import collective, distributed, place_index
from torchferry.device.status import card_name, status_text
from torchferry.device.torch_import import torch
from torchferry.device.weights import read_safetensors

_STATES = {
    # translators: state of a dtype: the card computes it itself
    "native": say("native"),
    "limited": say("native, with limits"),
    # translators: state of a dtype: the card computes it by other means
    "emulated": say("emulated"),
    # translators: state of a device
    "missing": say("not available"),
    # translators: state of a device that was looked at
    "chosen": say("chosen"),
    "not installed": say("not installed"),
    # translators: state of a plugin: its import failed
    "failed": say("failed"),
    "another plugin": say("another plugin"),
    # translators: state of a plugin that is installed
    "no card": say("no card"),
    # translators: state of a device: another one was found first
    "not tried": say("not tried"),
}


class DeviceManager:
    """The device that a program runs on, and what differs from vendor to vendor::

        manager = DeviceManager()
        model.to(manager.device, manager.dtype)
        with manager.autocast(), manager.timing() as timing:
            loss = model(batch.to(manager.device))
        print(timing.seconds, manager.memory_stats(show=False))

    `with DeviceManager() as manager:` makes the device the current one of its kind inside the block.

    Args:
        preferred_device: `NAME` or `NAME:INDEX`, such as `cuda:1` or `cpu`, or a `torch.device`; the name is a device
            type or that of a vendor. Without it, the environment variable PREFERRED_DEVICE, and without that the first
            device in order that is there. One that is asked for and not there is an error.
        index: Index of the device. Without it, LOCAL_RANK, which launchers set, and without that the current device.
        dtype: What `dtype` is to be; without it, the best that the card computes itself.
        fallback: What happens without an accelerator: `warn` (the default; the CPU, with a warning), `error`, `allow`
            (the CPU, without a word). `cpu` takes the CPU, with a warning, also where a device was asked for by name.
            Without it, the environment variable PREFERRED_DEVICE_FALLBACK.
        order: Names of the devices to look for, first come first chosen; without it, all that are known.

    Raises:
        DeviceNotAvailableError: the device is not there; the error says why, and what is.
        DeviceError: an argument or a variable names what does not exist, or a dtype that the device lacks.
    """

    def __init__(
        self,
        preferred_device: str | torch.device | None = None,
        *,
        index: int | None = None,
        dtype: torch.dtype | str | None = None,
        fallback: str | None = None,
        order: tuple[str, ...] = (),
    ) -> None:
        choice = choose(str(preferred_device or ""), order, fallback or "")
        if index is not None and choice.asked_index is not None and index != choice.asked_index:
            raise DeviceError(
                say("index {index} contradicts `{device}`: give only one of them", index=index, device=preferred_device)
            )
        self._candidates = choice.candidates
        self._reason = choice.reason
        self._facts = choice.facts
        self._asked_by_name = choice.asked_for
        self._place = DescribedDevice(choice.facts, self._made(choice.asked_index if index is None else index))
        self._asked = dtype
        self._verdicts: tuple[DtypeVerdict, ...] = ()
        self._inside: list[contextlib.ExitStack] = []
        if dtype is not None:
            self._verdicts = (asked_for(self._place, dtype),)

    def _made(self, index: int | None) -> torch.device:
        if not self._facts.plugin and not self._facts.namespace:
            if self._asked_by_name and index not in (None, 0):
                raise DeviceError(
                    say_plural("{name}:{index} does not exist; this process sees {count} device",
                            "{name}:{index} does not exist; this process sees {count} devices", name=self._facts.name,
                        index=index, count=1)
                )  # fmt: skip
            return torch.device(self._facts.device_type)
        text = f"{self._facts.device_type}:{place_index(self._facts, index)}"
        if not self._facts.device_factory:
            return torch.device(text)
        factory = resolve(self._facts.device_factory)
        if factory is None:
            raise DeviceError(
                say(
                    "the installed {plugin} has no {path}",
                    plugin=self._facts.plugin,
                    path=self._facts.device_factory,
                )
            )
        torch_device: torch.device = factory(text)
        return torch_device

    def __repr__(self) -> str:
        return f"DeviceManager({str(self.device)!r})"

    def __enter__(self) -> DeviceManager:
        entered = contextlib.ExitStack()
        entered.enter_context(current(self._place))
        self._inside.append(entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.pop().close()

    # --- what was chosen ---

    @property
    def device(self) -> torch.device:
        """The device, for `.to(...)` and `device=`."""
        return self._place.device

    @property
    def device_string(self) -> str:
        """The device as a text, such as `npu:0`, for what asks a text: `device_string.startswith("npu")`."""
        return str(self._place.device)

    @property
    def device_type(self) -> str:
        """Type of the device, as in `torch.device(...).type`."""
        return self._place.device.type

    @property
    def index(self) -> int | None:
        """Index of the device; None for the CPU."""
        return self._place.device.index

    @property
    def vendor(self) -> str:
        """Short name of the vendor's family: what PREFERRED_DEVICE takes. It is `cuda` and `cpu` for these two."""
        return self._facts.name

    @property
    def is_accelerator(self) -> bool:
        """Whether the device is another one than the CPU."""
        return self._place.device.type != "cpu"

    @property
    def was_asked_for(self) -> bool:
        """Whether the device is the one that the argument or PREFERRED_DEVICE names."""
        return self._asked_by_name

    @property
    def reason(self) -> Message:
        """Why this device; `str(...)` is in the user's language."""
        return self._reason

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every device that was looked at, in order, with the reason why it was or was not chosen."""
        return self._candidates

    @property
    def device_name(self) -> str:
        """What the plugin calls the card; the vendor's name where it does not say."""
        return card_name(self._place)

    @property
    def device_count(self) -> int:
        """How many devices of this kind the process sees; 1 for the CPU."""
        ask = find(self._facts, "device_count")
        return 1 if ask is None else int(ask())

    # --- dtype ---

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that was asked for, else the first of bfloat16, float16 and float32 that the card computes itself.

        The first use may compute a small product on the card, where neither the plugin nor a verified fact answers.
        """
        return self.dtype_verdicts[-1].dtype

    @property
    def dtype_verdicts(self) -> tuple[DtypeVerdict, ...]:
        """The dtypes that were looked at and how each was judged; the last one is `dtype`."""
        if not self._verdicts:
            self._verdicts = best(self._place)
        return self._verdicts

    def supports(self, dtype: torch.dtype) -> DtypeVerdict:
        """Return what the device does with a dtype: `state` is `native`, `limited`, `emulated` or `missing`."""
        return judge(self._place, dtype)

    # --- random numbers ---

    def create_generator(self, seed: int, *, on_cpu: bool = False, fallback: str = "error") -> torch.Generator:
        """Return a seeded generator of the device, or of the CPU.

        Args:
            seed: The seed.
            on_cpu: Take one of the CPU on every device: the same seed then draws the same numbers everywhere.
            fallback: What happens on a device that has no generators: `error`, or `warn`, which gives one of the CPU
                with a warning. torch refuses that one where the tensor is made on the device: draw on the CPU, and
                move the result.

        Raises:
            NotOnThisDeviceError: the device has no generators, and `fallback` is `error`.
            DeviceError: `fallback` is neither `error` nor `warn`.
        """
        return seeded_generator(self._place, seed, on_cpu, fallback)

    def seed_everything(self, seed: int, *, deterministic: bool = False) -> tuple[str, ...]:
        """Seed Python, numpy, torch and all devices of this kind; return what was seeded.

        The same seed draws other numbers on another vendor's card. `deterministic=True` also lets torch refuse
        operators that it knows to differ from run to run, and warns where the vendor's part in it is not known.

        Raises:
            DeviceError: the seed is not in 0 to 2**32 - 1.
        """
        return seed_everything(self._place, seed, deterministic)

    # --- memory ---

    def memory_stats(self, *, show: bool = True) -> MemoryStatistics:
        """Print and return allocated, reserved, peak, free and total memory in bytes; None for what is not told.

        Args:
            show: False prints nothing, for programs that want the figures alone.
        """
        figures = statistics(self._place)
        if show:
            print(figures)
        return figures

    def reset_peak(self) -> None:
        """Begin to count peak memory anew.

        Raises:
            NotOnThisDeviceError: the device counts none.
        """
        reset_peak(self._place)

    def empty_cache(self) -> bool:
        """Give cached memory back to the device; False where there is no call for it, and so nothing was done."""
        with current(self._place):
            return release_cache(self._place)

    def set_memory_efficient_mode(
        self, *, gradients: bool = False, fraction: float | None = None, show: bool = True
    ) -> MemoryEfficientMode:
        """Hold less memory from now on, or in a `with` block, and print how; `undo()` of the result takes it back.

        It stops recording gradients in this thread, so that no activation is kept (`gradients=True` leaves that, for
        training), empties the cache, and lets this process have no more than `fraction` of the device. It changes
        no model: attention slicing, checkpointing and offloading are the model's own settings. The allocator's settings
        are read once, at the start of the program, from the variable that `allocator_variable` names.

        Args:
            gradients: Go on recording gradients.
            fraction: The share of the device, from 0 to 1.
            show: False prints nothing.

        Raises:
            NotOnThisDeviceError: `fraction` is given, and the device takes no limit.
        """
        mode = MemoryEfficientMode(self._place, gradients, fraction)
        if show:
            print(mode)
        return mode

    @property
    def allocator_variable(self) -> str | None:
        """Environment variable with the allocator's settings; empty for none, None where nobody has verified it."""
        return self._facts.allocator_variable

    # --- weights ---

    def load_safetensors(
        self, path: str | os.PathLike[str], *, dtype: torch.dtype | None = None
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of a safetensors file on the device; `dtype` converts those of floating point.

        The host holds one tensor at a time beside the mapped file.

        Raises:
            DeviceError: the library safetensors is not installed.
            FileNotFoundError: there is no such file.
        """
        return read_safetensors(self._place, path, dtype)

    # --- mixed precision ---

    def autocast(self, dtype: torch.dtype | None = None, *, enabled: bool = True) -> Any:
        """Return a context of mixed precision in `dtype`, by default the manager's; for float32, one without effect.

        Raises:
            NotOnThisDeviceError: neither torch nor the plugin has autocast for the device.
        """
        return mixed_precision(self._place, dtype or self.dtype, enabled)

    def grad_scaler(self, dtype: torch.dtype | None = None, *, enabled: bool | None = None, **options: Any) -> Any:
        """Return a scaler of the loss for float16; the other dtypes need none, and it does nothing then.

        Raises:
            NotOnThisDeviceError: there is none for the device.
        """
        if enabled is None:
            enabled = (dtype or self.dtype) is torch.float16
        return loss_scaler(self._place, enabled, options)

    # --- time ---

    def synchronize(self) -> None:
        """Wait until the device has done its work; on a lazy device, run what is pending first."""
        wait(self._place)

    def timing(self) -> Timing:
        """Return a context that measures wall-clock seconds and waits for the device before and after."""
        return Timing(self._place)

    def profiler_activities(self) -> list[Any]:
        """Return the activities for the profiler; a warning says where the device's work cannot be recorded."""
        return activities(self._place)

    def profiler(self, **options: Any) -> Any:
        """Return `torch.profiler.profile(**options)`, or the plugin's own, recording CPU and device.

        Raises:
            NotOnThisDeviceError: the installed plugin does not have it.
        """
        return new_profiler(self._place, options)

    def profiler_sort_key(self, *, own: bool = False) -> str:
        """Return the column of `key_averages().table(sort_by=...)` with time on the device; `own` leaves callees out.

        Raises:
            NotOnThisDeviceError: the profiler has no table, or its columns are not known.
        """
        return time_column(self._place, own)

    # --- streams ---

    @property
    def has_streams(self) -> bool:
        """Whether the device has streams."""
        return has_streams(self._place)

    def stream(self, **options: Any) -> Any:
        """Return a new stream of the device.

        Raises:
            NotOnThisDeviceError: the device has none.
        """
        return new_stream(self._place, options)

    def use_stream(self, chosen: Any) -> Any:
        """Return a context in which work goes to a stream.

        Raises:
            NotOnThisDeviceError: the device has none.
        """
        return use_stream(self._place, chosen)

    def event(self, *, enable_timing: bool = False) -> Any:
        """Return an event of the device.

        Raises:
            NotOnThisDeviceError: the device has none; `timing` measures everywhere.
        """
        return new_event(self._place, enable_timing)

    # --- several processes ---

    @property
    def collective_backend(self) -> str:
        """Name of the backend for `init_process_group`."""
        return collective(self._facts, composite=False)

    def composite_backend(self) -> str:
        """Return the backend that also serves tensors on the CPU, such as `cpu:gloo,cuda:nccl`.

        Raises:
            NotOnThisDeviceError: the device or this torch takes none, or nobody has verified that it does.
        """
        return collective(self._facts, composite=True)

    @property
    def distributed(self) -> Any:
        """The module with the collective functions: `torch.distributed`, or the plugin's own."""
        return distributed(self._facts)

    def init_distributed(self, **options: Any) -> None:
        """Make the device current and join the process group; `options` are those of `init_process_group`.

        Raises:
            NotOnThisDeviceError: the installed plugin has no such module.
        """
        if self.is_accelerator:
            required(self._facts, "set_device")(self.index)
        self.distributed.init_process_group(**{"backend": self.collective_backend, **options})

    # --- what to show ---

    def status_line(self) -> str:
        """Return one line with the device, its card, the dtype and the memory in use at this moment.

        It is for a page that asks again and again: nothing is computed but what the first use of `dtype` computes, and
        no work of the device is waited for. What the plugin does not tell is said to be not reported.
        """
        return status_text(self._place, self.dtype)

    def report(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON: texts in English, memory in bytes."""
        plugin = sys.modules.get(self._facts.plugin or "torch")
        return {
            "device": str(self.device),
            "vendor": self.vendor,
            "name": self.device_name,
            "count": self.device_count,
            "reason": self.reason.render("en"),
            "torch": str(torch.__version__),
            "plugin": self._facts.plugin,
            "plugin_version": str(getattr(plugin, "__version__", "")) if self._facts.plugin else "",
            "dtype": str(self.dtype).replace("torch.", ""),
            "dtypes": [
                {
                    "dtype": str(verdict.dtype).replace("torch.", ""),
                    "state": verdict.state,
                    "reason": verdict.reason.render("en"),
                }
                for verdict in self.dtype_verdicts
            ],
            "memory": asdict(statistics(self._place)),
            "collective": self.collective_backend,
            "allocator_variable": self.allocator_variable,
            "candidates": [
                {
                    "vendor": candidate.facts.name,
                    "plugin": candidate.facts.plugin,
                    "state": candidate.state,
                    "reason": candidate.reason.render("en"),
                    "error": candidate.error,
                }
                for candidate in self.candidates
            ],
        }

    def describe(self, lang: str | None = None) -> list[str]:
        """Return all of it as lines for people, in `lang` (`en` or `zh`) or in the user's language."""
        messages = [
            say("device: {device} ({name}): {reason}", device=self.device, name=self.device_name, reason=self.reason),
            *(
                say(
                    "{dtype}: {state}, {reason}",
                    dtype=str(verdict.dtype).replace("torch.", ""),
                    state=_STATES[verdict.state],
                    reason=verdict.reason,
                )
                for verdict in self.dtype_verdicts
            ),
            say("memory: {memory}", memory=statistics(self._place)),
            say("collective: {backend}", backend=self.collective_backend),
            *(
                say(
                    "checked {name}: {state}; {reason}",
                    name=candidate.facts.name,
                    state=_STATES[candidate.state],
                    reason=candidate.reason,
                )
                for candidate in self.candidates
            ),
        ]
        return [message.render(lang) for message in messages]
