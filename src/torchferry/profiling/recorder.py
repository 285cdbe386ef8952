"""Runs torch's profiler, or the plugin's own, inside of a program that knows nothing of it.

A step ends when the optimizer has stepped, or when a gradient scaler skipped it; in a program without an optimizer,
when a model has run (`passes`). The profiler is made when the first step has ended: by then the program has imported
its plugin, chosen its device and joined the other ranks.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module

from torchferry.core.terminal import print_notice
from torchferry.device.manager import DeviceManager
from torchferry.numerics.framework.dispatch import untraced
from torchferry.numerics.framework.launcher import ProcessTool, rank
from torchferry.numerics.framework.module_hooks import ModuleHooks
from torchferry.numerics.framework.steps import Steps
from torchferry.numerics.framework.torch_versions import is_dynamo_compiling
from torchferry.profiling.passes import Passes
from torchferry.profiling.records import FALLBACK_PREFIX, MODULE_PREFIX
from torchferry.rehearsal import events

_new_mark: Any = getattr(torch._C._profiler, "_RecordFunctionFast", torch.profiler.record_function)
"""A mark that is not dispatched as an operator, which takes ten times as long; older versions of torch lack it."""


class ModuleRanges:
    """Marks the forward of each module, so that the time of operators can be told by module.

    A forward that torch.compile traces is not marked: the marks would be in the graph, and not around its work.
    """

    def __init__(self) -> None:
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        self._numbers: Counter[str] = Counter()
        self._own = threading.local()  # modules of several threads, as of DataParallel, are not inside of each other
        self._hooks = ModuleHooks(self._enter, self._leave)

    def start(self) -> None:
        """Begin to mark."""
        self._hooks.start()

    def stop(self) -> None:
        """Mark no more; what is open in this thread is closed."""
        self._hooks.stop()
        opened = self._open()
        while opened:
            opened.pop()[1].__exit__(None, None, None)

    def _open(self) -> list[tuple[Module, Any]]:
        """Return the modules that this thread is in, each with its mark."""
        opened: list[tuple[Module, Any]] | None = getattr(self._own, "opened", None)
        if opened is None:
            opened = self._own.opened = []
        return opened

    def _enter(self, module: Module, inputs: Any) -> None:
        if is_dynamo_compiling():
            return
        name = self._names.get(module)
        if name is None:
            kind = type(module).__name__
            name = self._names[module] = f"{MODULE_PREFIX}{kind}_{self._numbers[kind]}"
            self._numbers[kind] += 1
        mark: Any = _new_mark(name)
        mark.__enter__()
        self._open().append((module, mark))

    def _leave(self, module: Module, inputs: Any, output: Any) -> None:
        if is_dynamo_compiling():
            return
        opened = self._open()
        if opened and opened[-1][0] is module:  # nearly always
            opened.pop()[1].__exit__(None, None, None)
            return
        if not any(entered is module for entered, _ in opened):
            return  # it was entered before the marking began
        while opened:  # a module that raised has not been left
            entered, mark = opened.pop()
            mark.__exit__(None, None, None)
            if entered is module:
                return


class StepRecorder:
    """Records steps of a process.

    Args:
        options: `skip_first`, `wait`, `warmup`, `active`, `repeat` as of `torch.profiler.schedule`; `shapes`, `memory`,
            `stack`, `flops` as of `torch.profiler.profile`; `modules` marks modules; `folder` is where the traces go;
            `rehearsal` names the simulated card, or is empty.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._steps = Steps()
        self._passes = Passes(self._step_ended)
        self._profiler: Any = None
        self._modules = ModuleRanges() if options["modules"] else None
        self._files: list[str] = []
        self._ended = 0
        self._recording = False
        self._fallbacks: dict[events.EventKey, int] = {}
        self._problem = ""

    def start(self) -> None:
        """Begin to wait for the end of the first step."""
        self._steps.after.append(self._optimizer_stepped)
        self._steps.start()
        self._passes.start()

    def finish(self) -> dict[str, Any]:
        """End the recording; say how many steps ended and which traces were written."""
        self._steps.stop()
        self._passes.stop()
        if self._profiler is not None:
            self._stop()
        return {"steps": self._ended, "traces": self._files, "problem": self._problem}

    def _optimizer_stepped(self) -> None:
        self._passes.stop()
        self._step_ended()

    def _step_ended(self) -> None:
        self._ended += 1
        if self._problem:
            return
        try:
            with untraced():  # a step may end while torch.jit traces the program
                if self._options["rehearsal"]:
                    self._mark_fallbacks()
                if self._profiler is None:
                    self._begin()
                else:
                    self._profiler.step()
                self._while_recording()
        except Exception as error:
            # The program must not end because it is watched; the report says that nothing was recorded.
            self._problem = f"{type(error).__name__}: {error}"
            if self._modules is not None:
                self._modules.stop()
            print_notice(f"torchferry: the profiler failed: {self._problem}")

    def _begin(self) -> None:
        options = self._options
        settings: dict[str, Any] = {
            "record_shapes": options["shapes"],
            "profile_memory": options["memory"],
            "with_stack": options["stack"],
            "with_flops": options["flops"],
        }
        if options["rehearsal"]:
            settings["activities"] = [torch.profiler.ProfilerActivity.CPU]
            made_by: Any = torch.profiler.profile
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a run on the CPU is one; the report says so
                made_by = DeviceManager().profiler
        if options["stack"] and hasattr(torch._C._profiler, "_ExperimentalConfig"):
            # without it there are no stacks since torch 2.0 (github.com/pytorch/pytorch/issues/100253)
            settings["experimental_config"] = torch._C._profiler._ExperimentalConfig(verbose=True)
        self._profiler = made_by(
            schedule=torch.profiler.schedule(
                skip_first=max(options["skip_first"] - 1, 0),
                wait=options["wait"],
                warmup=options["warmup"],
                active=options["active"],
                repeat=options["repeat"],
            ),
            on_trace_ready=self._write,
            **settings,
        )
        if options["stack"] and isinstance(self._profiler, torch.profiler.profile):
            self._modules = None  # it marks them itself then, and a path would have each name twice
        self._profiler.start()

    def _while_recording(self) -> None:
        """Mark modules in steps that are recorded, and leave the settings in each trace: later is too late for them."""
        action = getattr(self._profiler, "current_action", None)
        recording = action in (torch.profiler.ProfilerAction.RECORD, torch.profiler.ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._recording and hasattr(self._profiler, "add_metadata_json"):
            self._profiler.add_metadata_json("torchferry", json.dumps(self._settings()))
        self._recording = recording
        if self._modules is not None:
            if recording:
                self._modules.start()
            else:
                self._modules.stop()

    def _mark_fallbacks(self) -> None:
        """Leave in the step which operators the simulated card gave to the CPU: its kernels look alike."""
        for key, count in events.recorder.counts().items():
            if key.kind != "fallback":
                continue
            times = count.times - self._fallbacks.get(key, 0)
            self._fallbacks[key] = count.times
            place = f"{os.path.basename(key.place.file)}:{key.place.line}" if key.place.line else ""
            for _ in range(times if self._recording else 0):
                with torch.profiler.record_function(f"{FALLBACK_PREFIX}{key.subject}#{place}"):
                    pass

    def _stop(self) -> None:
        if self._modules is not None:
            self._modules.stop()
        try:
            self._profiler.stop()
        except Exception as error:
            self._problem = self._problem or f"{type(error).__name__}: {error}"

    def _write(self, profiler: Any) -> None:
        own = rank()
        folder = Path(self._options["folder"], f"worker{own}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"worker{own}.{os.getpid()}.{len(self._files)}.pt.trace.json"
        profiler.export_chrome_trace(str(path))
        if not path.exists():  # torch only logs what keeps it from writing, and leaves the part that it wrote
            path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)
            raise OSError(f"torch could not write {path} whole; is the disk full?")
        self._files.append(str(path))

    def _settings(self) -> dict[str, Any]:
        """Return what a comparison must know of this process."""
        settings: dict[str, Any] = {
            "program": os.path.basename(sys.argv[0]),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "host": platform.node(),
            "threads": torch.get_num_threads(),
            "float32 matmul precision": torch.get_float32_matmul_precision(),
            "cudnn benchmark": str(torch.backends.cudnn.benchmark),
        }
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            settings["world size"] = torch.distributed.get_world_size()
            settings["collectives"] = str(torch.distributed.get_backend())
        if not self._steps.count:
            settings["a step"] = "a call of a model, without an optimizer"
        if self._options["rehearsal"]:
            settings["rehearsal"] = self._options["rehearsal"]
        return settings


def begin(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to record in this process; `torchferry profile` names this function to the launcher."""
    recorder = StepRecorder(options)
    recorder.start()
    return recorder
