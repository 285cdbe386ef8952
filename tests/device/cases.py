"""What the device manager does, as a program that prints its answers: run on every device, in both forms.

`python cases.py FOLDER small=FOLDER installed`: the single file in FOLDER, then the one with portable names alone, then
the installed package. It keeps to Python 3.8 and torch 1.10, so that it can be run by hand where only a file runs.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import struct
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

CASES: dict[str, Any] = {}
module: Any
manager: Any


def case(function: Any) -> Any:
    """Add a function to the cases, under its name."""
    CASES[function.__name__] = function
    return function


def refused(call: Any, *arguments: Any, **options: Any) -> Any:
    """Return the name of the error that a call raises, or what it returns."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error).__name__


def warned(call: Any, *arguments: Any, **options: Any) -> Any:
    """Return what a call returns, and the kind and file of the warnings that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*arguments, **options)
    return result, [
        [item.category.__name__, Path(item.filename).name]
        for item in caught
        if issubclass(item.category, module.DeviceWarning)
    ]


def with_environment(values: dict[str, str], call: Any) -> Any:
    """Return the answer of a call, or its error, under some environment variables."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        return refused(call)
    finally:
        os.environ.clear()
        os.environ.update(before)


def quiet() -> Any:
    """Return a manager of the device that is there; its warnings are other cases'."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.DeviceManager()


@case
def chosen() -> Any:
    return [str(manager.device), manager.device_type, manager.vendor, manager.is_accelerator]


@case
def candidates() -> Any:
    return {
        item.facts.name: item.state for item in manager.candidates if item.state not in ("not installed", "not tried")
    }


@case
def it_is_warned_of_the_cpu_alone() -> Any:
    return warned(module.DeviceManager)[1]


@case
def dtype() -> Any:
    return [[str(item.dtype)[6:], item.state] for item in manager.dtype_verdicts]


@case
def dtype_as_asked() -> Any:
    asked = module.DeviceManager(str(manager.device), dtype="float32")
    return [str(asked.dtype), refused(module.DeviceManager, str(manager.device), dtype="float3")]


@case
def wide_numbers() -> Any:
    return [manager.supports(item).state for item in (torch.float64, torch.float32)]


@case
def generator() -> Any:
    def draws() -> Any:
        drawn = manager.create_generator(7)
        return torch.rand(4, generator=drawn, device=manager.device).tolist()

    return refused(lambda: [draws() == draws(), manager.create_generator(7).device.type])


@case
def generator_on_the_cpu() -> Any:
    return manager.create_generator(7, on_cpu=True).device.type


@case
def generator_that_falls_back() -> Any:
    drawn, told = warned(manager.create_generator, 7, fallback="warn")
    same = torch.rand(1, generator=drawn, device=drawn.device)
    again = torch.rand(1, generator=manager.create_generator(7, fallback="warn"), device=drawn.device)
    return [
        drawn.device.type,
        told,
        bool((same == again).all()),
        refused(manager.create_generator, 7, fallback="perhaps"),
    ]


@case
def seed() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = manager.seed_everything(3)
        first = torch.rand(4, device=manager.device).tolist()
        manager.seed_everything(3)
    again = torch.rand(4, device=manager.device).tolist()
    return [list(told), first == again, refused(manager.seed_everything, -1)]


@case
def deterministic() -> Any:
    try:
        return [warned(manager.seed_everything, 3, deterministic=True)[1], torch.are_deterministic_algorithms_enabled()]
    finally:
        torch.use_deterministic_algorithms(False)


@case
def memory() -> Any:
    held = torch.empty(2**20, dtype=torch.float32, device=manager.device)
    told = manager.memory_stats(show=False)
    del held
    sizes = (told.allocated, told.reserved, told.peak, told.free, told.total)
    return [None if size is None else size >= 2**22 for size in sizes] + [told.device == str(manager.device)]


@case
def status() -> Any:
    held = torch.empty(2**20, dtype=torch.float32, device=manager.device)
    line = manager.status_line()
    del held
    first, _, memory = line.partition(": ")
    told = "tensors" if "at most" in memory and memory.startswith("tensors 4") else memory
    return [first == f"{manager.device} ({manager.device_name}), {str(manager.dtype)[6:]}", told]


@case
def peak() -> Any:
    def after_reset() -> Any:
        held = torch.empty(2**20, dtype=torch.float32, device=manager.device)
        del held
        manager.reset_peak()
        return manager.memory_stats(show=False).peak < 2**22

    return refused(after_reset)


@case
def cache() -> Any:
    return manager.empty_cache()


@case
def memory_efficient_mode() -> Any:
    with manager.set_memory_efficient_mode(show=False):
        inside = torch.is_grad_enabled()
    mode = manager.set_memory_efficient_mode(gradients=True, show=False)
    kept = torch.is_grad_enabled()
    mode.undo()
    return [inside, kept, torch.is_grad_enabled(), manager.allocator_variable]


@case
def memory_limit() -> Any:
    def limited() -> Any:
        with manager.set_memory_efficient_mode(fraction=0.5, show=False):
            return True

    return [refused(limited), torch.is_grad_enabled()]


@case
def safetensors() -> Any:
    header = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]},
    }
    told = json.dumps(header).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.safetensors"
        path.write_bytes(struct.pack("<Q", len(told)) + told + struct.pack("<ffq", 1.5, -2.0, 7))
        loaded = manager.load_safetensors(path)
        halved = manager.load_safetensors(path, dtype=torch.float16)
        absent = refused(manager.load_safetensors, Path(folder) / "none.safetensors")
    return [
        sorted((name, tensor.device.type, tensor.cpu().tolist()) for name, tensor in loaded.items()),
        [str(halved["a"].dtype), str(halved["b"].dtype)],
        absent,
    ]


@case
def autocast() -> Any:
    x = torch.ones(4, 4, device=manager.device)
    with manager.autocast():
        usual = (x @ x).dtype
    with manager.autocast(torch.float32):
        full = (x @ x).dtype
    with manager.autocast(enabled=False):
        off = (x @ x).dtype
    return [str(usual)[6:], str(full)[6:], str(off)[6:]]


@case
def scaler() -> Any:
    return [manager.grad_scaler(item).is_enabled() for item in (torch.float16, torch.bfloat16, torch.float32)]


@case
def step_with_scaler() -> Any:
    layer = torch.nn.Linear(4, 1).to(manager.device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach().cpu().clone()
    scaler = manager.grad_scaler(torch.float16, init_scale=8.0)
    with manager.autocast(torch.float16):
        loss = layer(torch.ones(2, 4, device=manager.device)).float().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    moved = before - layer.weight.detach().cpu()
    return bool((moved - 0.1).abs().max() < 1e-3)


@case
def fused_step_with_scaler() -> Any:
    weight = torch.nn.Parameter(torch.ones(2).to(manager.device))
    optimizer = torch.optim.AdamW([weight], lr=0.5, fused=True)
    scaler = manager.grad_scaler(torch.float16, init_scale=8.0)

    def step() -> Any:
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return bool((weight.detach().cpu() < 0.9).all())

    return refused(step)


@case
def timing() -> Any:
    timing = manager.timing()
    early = refused(lambda: timing.seconds)
    with timing:
        torch.ones(64, 64, device=manager.device).sum()
    manager.synchronize()
    return [early, timing.seconds > 0]


@case
def profiler() -> Any:
    found, told = warned(manager.profiler_activities)
    return [[str(item).rpartition(".")[2] for item in found], [kind for kind, _ in told]]


@case
def profiler_runs() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with manager.profiler():
            torch.ones(4, device=manager.device).sum()
    return [refused(manager.profiler_sort_key), refused(lambda: manager.profiler_sort_key(own=True))]


@case
def streams() -> Any:
    def used() -> Any:
        side = manager.stream()
        with manager.use_stream(side):
            torch.ones(4, device=manager.device).sum()
        begin, end = manager.event(enable_timing=True), manager.event(enable_timing=True)
        begin.record()
        end.record()
        manager.synchronize()
        return begin.elapsed_time(end) >= 0

    return [manager.has_streams, refused(used), refused(lambda: manager.event() is not None)]


@case
def collective() -> Any:
    return [manager.collective_backend, refused(manager.composite_backend)]


@case
def process_group() -> Any:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = f"tcp://127.0.0.1:{port}"
    manager.init_distributed(init_method=where, rank=0, world_size=1)
    summed = torch.ones(2, device=manager.device)
    manager.distributed.all_reduce(summed)
    backend = manager.distributed.get_backend()
    manager.distributed.destroy_process_group()
    return [summed.cpu().tolist(), backend]


@case
def current_device() -> Any:
    if manager.device_count < 2:
        return "one device"
    other = module.DeviceManager(f"{manager.vendor}:1")
    plain = quiet()
    with other as entered:
        inside = [entered is other, quiet().index]
    return [str(other.device), inside, plain.index, quiet().index]


@case
def rank() -> Any:
    return [
        with_environment({"LOCAL_RANK": "1"}, lambda: quiet().index),
        with_environment({"LOCAL_RANK": "9"}, lambda: quiet().index),
        with_environment({"LOCAL_RANK": "x"}, lambda: quiet().index),
        with_environment({"LOCAL_RANK": "9"}, lambda: module.DeviceManager(manager.vendor, index=0).index),
    ]


@case
def preferred() -> Any:
    def under(value: str) -> Any:
        return with_environment({"PREFERRED_DEVICE": value}, lambda: str(quiet().device))

    return [
        under("cpu"),
        under("auto") == str(manager.device),
        under("warp"),
        under("cuda:x"),
        under(f"{manager.vendor}:7"),
    ]


@case
def what_is_not_there_is_an_error() -> Any:
    try:
        module.DeviceManager("cuda")
    except module.DeviceNotAvailableError as error:
        return ["torch.cuda.is_available() is False" in str(error), manager.vendor in str(error)]


@case
def the_cpu_in_its_place_is_a_warning() -> Any:
    taken, told = warned(module.DeviceManager, "cuda", fallback="cpu")
    by_variable = with_environment(
        {"PREFERRED_DEVICE": "cuda:1", "PREFERRED_DEVICE_FALLBACK": "cpu"}, lambda: str(quiet().device)
    )
    return [str(taken.device), told, by_variable]


@case
def fallbacks() -> Any:
    def found(policy: str) -> Any:
        result = refused(warned, module.DeviceManager, fallback=policy, order=("cuda",))
        return result if isinstance(result, str) else [str(result[0].device), len(result[1])]

    return {policy: found(policy) for policy in ("warn", "error", "allow", "cpu", "perhaps")}


@case
def an_index_is_the_accelerators() -> Any:
    """Return the CPU where there is no accelerator of that index, and an error where the CPU has none."""
    taken = module.DeviceManager(index=1, fallback="allow", order=("cuda",))
    clash = refused(module.DeviceManager, f"{manager.vendor}:0", index=1)
    return [str(taken.device), refused(module.DeviceManager, "cpu", index=1), clash]


@case
def order() -> Any:
    return [
        refused(lambda: str(module.DeviceManager(order=("cuda", manager.vendor)).device)),
        refused(module.DeviceManager, order=("cpu",)),
    ]


@case
def portable_names_of_the_device() -> Any:
    return [
        module.device_string(),
        module.device_string(1),
        module.device_named("cuda:1"),
        module.device_named("meta"),
        module.ACCELERATOR_TYPE,
        str(module.this_device(0)),
        module.visible_devices_variable(),
        module.collective_backend(),
        module.is_collective_available(),
    ]


@case
def portable_status() -> Any:
    return [module.status_line().startswith(str(module.this_device(0))), "not reported" in module.status_line()]


@case
def portable_arguments_for_cards_alone() -> Any:
    return module.accelerator_only([0])


@case
def portable_device_that_the_environment_names() -> Any:
    def under(value: str) -> Any:
        module._looked_for.cache_clear()
        try:
            return with_environment(
                {"PREFERRED_DEVICE": value}, lambda: [module.device_string(), module.current_device()]
            )
        finally:
            module._looked_for.cache_clear()

    found = [under(f"{module.ACCELERATOR_TYPE}:1"), under("cpu"), under("warp"), under("cuda:x")]
    module.set_device(0)
    return found


@case
def portable_place() -> Any:
    tensor = torch.ones(2).to(module.this_device())
    other = torch.ones(2, device=module.device_string(0)).to(module.this_device(torch.device("cpu")))
    return [tensor.device.type == module.ACCELERATOR_TYPE, other.device.type, str(module.this_device("cpu"))]


@case
def portable_questions() -> Any:
    return [module.is_available(), module.device_count(), module.current_device(), module.is_bf16_supported()]


@case
def portable_calls_that_every_device_takes() -> Any:
    def run() -> Any:
        module.set_device(module.this_device(0))
        with module.device(0):
            module.synchronize()
        module.synchronize(0)
        module.manual_seed_all(3)
        module.empty_cache()
        module.ipc_collect()
        with module.nvtx.range("a {}", 1):
            module.nvtx.range_push("b")
            module.nvtx.mark("c")
            module.nvtx.range_pop()
        return "done"

    return run()


@case
def portable_memory() -> Any:
    def told() -> Any:
        module.reset_peak_memory_stats()
        held = torch.ones(1024).to(module.this_device())
        return [module.memory_allocated() >= held.nbytes, module.max_memory_allocated() >= held.nbytes]

    return warned(told)


@case
def portable_mixed_precision() -> Any:
    def step(context: Any, scaler: Any) -> str:
        model = torch.nn.Linear(4, 4).to(module.this_device())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with context:
            out = model(torch.ones(2, 4).to(module.this_device()))
        scaler.scale(out.float().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return str(out.dtype)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = module.ACCELERATOR_TYPE
        return [
            step(module.autocast(), module.GradScaler()),
            step(module.autocast_on(kind, dtype=torch.float16), module.scaler_on(kind)),
            step(module.amp.autocast(enabled=False), module.amp.GradScaler(enabled=False)),
            step(
                module.autocast_on(kind, dtype=torch.float32, cache_enabled=False),
                module.scaler_on(kind, enabled=False),
            ),
        ]


@case
def portable_scaler() -> Any:
    of_cuda = {"scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = module.GradScaler(16.0, growth_interval=5)
    weight = torch.nn.Parameter(torch.ones(2).to(module.this_device()))
    optimizer = torch.optim.AdamW([weight], lr=0.5, fused=True)

    def step() -> Any:
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        told = scaler.get_scale(), scaler.get_growth_interval()
        scaler.load_state_dict(of_cuda)
        return [bool((weight.detach().cpu() < 0.9).all()), *told, scaler.get_scale()]

    same = module.GradScaler is module.amp.GradScaler
    return [same, isinstance(scaler, module.GradScaler), refused(step) if scaler.is_enabled() else "off"]


@case
def portable_memory_formats() -> Any:
    images = torch.ones(1, 2, 3, 3).to(module.this_device()).to(memory_format=module.channels_last)
    return [str(module.channels_last), str(module.channels_last_3d), images.stride()[1]]


@case
def portable_profile() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        activity = module.ProfilerActivity
        with module.profile(activities=[activity.CPU, activity.ACCELERATOR]):
            torch.ones(2).to(module.this_device()).sum()
    return refused(module.sort_key, "self_cuda_time_total")


@case
def portable_loading() -> Any:
    path = os.path.join(sys.argv[1], "weights.pt")
    torch.save({"a": torch.ones(2)}, path)
    return warned(lambda: torch.load(path, map_location=module.load_location())["a"].device.type)


@case
def portable_streams_and_what_is_not_there() -> Any:
    def queued() -> Any:
        with module.stream(module.Stream()):
            return type(module.Event()).__name__

    return [refused(queued), isinstance(3, module.Stream), refused(lambda: module.no_such_name)]


@case
def report() -> Any:
    told = json.loads(json.dumps(manager.report()))
    return [
        told["device"] == str(manager.device),
        told["memory"]["device"] == told["device"],
        len(told["candidates"]) > 5,
    ]


@case
def languages() -> Any:
    return [manager.describe("en")[0].split(":")[0], manager.describe("zh")[0].split("：")[0]]


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers = {}
    for form in sys.argv[1:]:
        before = set(sys.modules)  # torch may load what is installed beside it, torchferry included
        small = form.startswith("small=")
        if form != "installed":
            sys.path.insert(0, form[len("small=") :] if small else form)
            sys.modules.pop("device_utils", None)
        module = importlib.import_module("torchferry.device" if form == "installed" else "device_utils")
        manager = None if small else quiet()
        answers["small file" if small else "installed" if form == "installed" else "one file"] = {
            **{name: refused(function) for name, function in CASES.items() if not small or name.startswith("portable")},
            "without_torchferry": not any(name.startswith("torchferry") for name in set(sys.modules) - before),
        }
    print("ANSWERS" + json.dumps(answers))
