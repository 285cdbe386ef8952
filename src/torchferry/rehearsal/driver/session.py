"""Put the vendor's plugin into this process, on the simulated driver: in front of it, and behind its import."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.datafile import data_directory
from torchferry.backends.operators import load_operators
from torchferry.backends.unknown import Unknown
from torchferry.backends.variable_values import UNORDERED, values_of
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.torch_start import or_end
from torchferry.core.userlines import NOWHERE
from torchferry.rehearsal import compilers, cuda_leftovers, events, faults, observers, session, torch_versions
from torchferry.rehearsal.config import Rehearsal
from torchferry.rehearsal.driver import building, matching, refusals
from torchferry.rehearsal.driver.composed import COMPOSED, COMPOSED_WITHOUT_CPU
from torchferry.rehearsal.driver.description import Queue, SimulatedDriver, load_driver
from torchferry.rehearsal.driver.native import Machine, TakenOver, function_of
from torchferry.rehearsal.driver.plugin import does_not_load
from torchferry.rehearsal.driver.references import below_autocast
from torchferry.rehearsal.driver.torch_build import TorchBuild
from torchferry.rehearsal.profile import ROUNDING_BITS, Profile
from torchferry.rehearsal.races import watching

_PRIVATE_USE = 20
"""The number of a plugin's device in `c10::DeviceType` (c10/core/DeviceType.h)."""

_REFERENCES = "_fused.py"
"""Operators of the plugin's own whose mathematics is public; the simulated package has them too."""


def load(name: str, stand_in: str) -> None:
    """Make the package that stands in for the plugin into the plugin itself, on the simulated driver.

    Args:
        name: The plugin's package, which is being imported.
        stand_in: The file of the package that stands in.
    """
    or_end(lambda: _load(name, Path(stand_in)))


def start(name: str) -> ShippedSession:
    """Import the plugin in this process, whose rehearsal is prepared; can be called again.

    Raises:
        TorchferryError: another plugin is there already, or the driver or the operators cannot be built.
    """
    if name not in _sessions:
        session.refuse_other_plugin(session.observe().resolved().backend)
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise TorchferryError(
                say("{plugin} was imported before the rehearsal began", plugin=name),
                say("start the rehearsal before the program imports the plugin"),
            )
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            _load(name, Path(spec.origin))
        except BaseException:
            sys.modules.pop(name, None)
            raise
    return _sessions[name]


def _load(name: str, stand_in: Path) -> None:
    rehearsal = session.observe()
    backend = rehearsal.resolved().backend
    driver = load_driver(backend)
    if driver is None or rehearsal.shipped is None:
        raise TorchferryError(say("torchferry has no simulated driver for {target}", target=rehearsal.target))
    _refuse_what_ends_the_process(backend, rehearsal.shipped.folder)
    spec = _own_spec(name, stand_in, backend)
    folder = building.driver_folder(driver)
    machine = _start_machine(driver, folder, rehearsal, backend)
    if rehearsal.races:
        machine.keep_addresses_apart()
    machine.set_text("plugin", str(Path(spec.origin or "").parent))
    refusals.watch_raises(name)
    versions = rehearsal.shipped.version, str(torch.__version__)
    queued = _import(
        driver, folder, lambda: matching.explained(backend, *versions, lambda: _become(sys.modules[name], spec))
    )
    refuse_other_key(backend)
    differences = _differences(backend, rehearsal)
    torch_versions.complete_cpu()
    operators = TakenOver(building.operators_library(), backend.DEVICE_TYPE, driver)
    if not queued:
        operators.queue_is_off()
    if rehearsal.races:
        operators.keep_addresses_apart()
    operators.use_functions(driver)
    operators.set_sink(observers.receive_native_event)
    plugin_folder = Path(spec.origin or "").parent
    events.recorder.is_platform(str(plugin_folder))
    operators.watch_refusals([plugin_folder])
    events.recorder.watch_device(backend.DEVICE_TYPE)
    events.watch_not_simulated(machine.refused)
    refusals.watch_names(name, backend)
    for operator, detail in differences:
        events.recorder.add("contradiction", operator, detail, place=NOWHERE)
    _use_profile(operators, rehearsal)
    if session.refuses_memory_formats(rehearsal.resolved()):
        operators.refuse_memory_formats()
    _add_references(backend, driver)
    _compose()
    compilers.put_packages(rehearsal.resolved())
    cuda_leftovers.watch_warnings()
    observers.watch_output()
    observers.watch_cuda_questions(backend.DEVICE_TYPE)
    faults.install(list(rehearsal.faults), _Faults(machine, operators))
    _note_exhaustion(backend, rehearsal, machine, operators)
    if rehearsal.races:
        _watch_races(backend, driver, machine)
    events.recorder.at_end(lambda: _report(backend, rehearsal, machine, operators))
    events.recorder.device_loaded()
    _sessions[name] = ShippedSession(rehearsal, backend, machine, operators)


def _refuse_what_ends_the_process(backend: type[Backend], folder: str) -> None:
    """Refuse to load a plugin that would end this process, which may have another torch than the command's.

    Raises:
        TorchferryError: a library of it is cut, or torch is a build for CUDA beside which it aborts.
    """
    build = TorchBuild(str(torch.__version__), str(torch.version.cuda or ""))
    unfit = does_not_load(backend, build, folder)
    if unfit is not None:
        raise TorchferryError(unfit, say("or rehearse with `--plugin simulated`"))


@dataclass(frozen=True)
class ShippedSession:
    """The rehearsal of this process with the plugin as its vendor ships it.

    Attributes:
        rehearsal: What was asked for.
        backend: The target's backend.
        machine: The simulated machine.
        operators: The plugin's operators, computed by the CPU.
    """

    rehearsal: Rehearsal
    backend: type[Backend]
    machine: Machine
    operators: TakenOver

    @property
    def profile(self) -> Profile:
        """The card."""
        return self.rehearsal.profile


_sessions: dict[str, ShippedSession] = {}


def current() -> ShippedSession | None:
    """Return the session of this process; None where no plugin was loaded on the simulated driver."""
    return next(iter(_sessions.values()), None)


def operators() -> TakenOver | None:
    """Return the operators that were taken over in this process; None where no plugin was loaded."""
    running = current()
    return None if running is None else running.operators


def _watch_races(backend: type[Backend], driver: SimulatedDriver, machine: Machine) -> None:
    """Look for races, where the driver's streams can be told from each other; a line says where they cannot."""
    stream = function_of(driver.library, driver.stream)
    if stream is None:
        events.recorder.add("not-rehearsed", "races", "the plugin does not tell its streams", place=NOWHERE)
        return
    races = watching.watch(backend.DEVICE_TYPE, _PRIVATE_USE, stream)
    races.watch_queries(getattr(torch, backend.DEVICE_TYPE, None))
    machine.watch_order(races.order)
    races.watch_addresses()


def _own_spec(name: str, stand_in: Path, backend: type[Backend]) -> ModuleSpec:
    """Return where the plugin itself is: the first package of its name that is not the one that stands in."""
    ours = stand_in.parent.parent.resolve()
    path = [entry for entry in sys.path if Path(entry or os.curdir).resolve() != ours]
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        raise TorchferryError(
            say("{plugin} is not installed in this environment", plugin=backend.PLUGIN),
            say("install it, name a wheel in `--plugin`, or rehearse with `--plugin simulated`"),
        )
    return spec


def _become(module: ModuleType, spec: ModuleSpec) -> None:
    """Run the plugin's own package in place of the one that stands in for it."""
    for name in [name for name in vars(module) if not name.startswith("__")]:
        delattr(module, name)
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    module.__path__ = spec.submodule_search_locations or []
    module.__doc__ = None
    if spec.loader is not None:
        spec.loader.exec_module(module)


def _import(driver: SimulatedDriver, folder: Path, import_plugin: Callable[[], None]) -> bool:
    """Import the plugin with its own queue turned off, whatever the program asks for, and its vendor's folders there.

    Returns:
        Whether it has a queue nonetheless, as far as anybody knows.
    """
    queue = driver.queue
    values = {name: str(folder) for name in driver.homes}  # what is installed here, half or whole, is not asked
    if isinstance(queue, Queue):
        values[queue.variable] = queue.off
    wanted = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        import_plugin()
        if not isinstance(queue, Queue):
            return queue is not None
        asks = function_of(driver.library, queue.asks)
        if asks is None:  # a version that reads the variable later, when the device starts, and does not tell
            del wanted[queue.variable]
        return asks is None or bool(asks())
    finally:
        for name, value in wanted.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def refuse_other_key(backend: type[Backend]) -> None:
    """Refuse a plugin whose operators are not where torch puts those of other vendors.

    Raises:
        TorchferryError: it gave the name of its device to another dispatch key, or to none.
    """
    named = torch._C._get_privateuse1_backend_name()
    if named != backend.DEVICE_TYPE:
        raise TorchferryError(
            say(
                "{plugin} registers its operators for another dispatch key than PrivateUse1: they cannot be taken over",
                plugin=backend.PLUGIN,
            ),
            say("rehearse with `--plugin simulated`"),
        )


def _differences(backend: type[Backend], rehearsal: Rehearsal) -> list[tuple[str, str]]:
    """Return the operators that the table for this version of the plugin has and the plugin not, or the reverse."""
    assert rehearsal.shipped is not None
    table = load_operators(backend, rehearsal.shipped.version)
    if isinstance(table.registered, Unknown) or table.version != rehearsal.shipped.version:
        return []
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    there = {name for name in names if has(name, backend.DISPATCH_KEY)}
    listed = {name for name in names if name.removeprefix("aten::") in table.registered}
    return [
        *((name, "the table has it, and the plugin does not register it") for name in sorted(listed - there)),
        *((name, "the plugin registers it, and the table lacks it") for name in sorted(there - listed)),
    ]


def _start_machine(driver: SimulatedDriver, folder: Path, rehearsal: Rehearsal, backend: type[Backend]) -> Machine:
    profile = rehearsal.profile
    machine = Machine(folder, driver.libraries, devices=profile.devices, memory=profile.memory)
    visible = backend.VISIBLE_DEVICES
    machine.set_text("visible_variable", "" if isinstance(visible, Unknown) else visible)
    takes = values_of(rehearsal.resolved().row("env", cuda.VISIBLE_DEVICES))
    machine.set_number("visible_rising", int(UNORDERED in takes.void_if))
    for key, value in profile.properties.items():
        if isinstance(value, str):
            machine.set_text(key, value)
        else:
            machine.set_number(key, value)
    return machine


def _use_profile(operators: TakenOver, rehearsal: Rehearsal) -> None:
    profile = rehearsal.profile
    operators.set_dtypes(*session.rules_of_dtypes(profile))
    session.use_kernel_limits(operators, profile)
    bits = ROUNDING_BITS[profile.matmul_rounding]
    operators.set_rounding(matmul=bits, convolution=bits)
    for operator in profile.missing_operators:
        operators.set_mode(operator if "::" in operator else f"aten::{operator}", "missing")


class _Faults:
    """What goes wrong on purpose: with memory in the driver, with operators in those that were taken over."""

    def __init__(self, machine: Machine, operators: TakenOver) -> None:
        self._machine, self._operators = machine, operators

    def set_fault(self, operator: str, kind: str, scale: float, after: int) -> None:
        self._operators.set_fault(operator, kind, scale, after)

    def fail_allocation(self, number: int) -> None:
        self._machine.fail_allocation(number)


_held: list[torch.library.Library] = []
"""Registrations end with the objects that made them."""


def _add_references(backend: type[Backend], driver: SimulatedDriver) -> None:
    """Compute operators of the plugin's own by formulas: those of the simulated package, then those of its driver."""
    if not driver.namespace:
        return
    package = backend.FACADE_DIRECTORY or data_directory(backend) / "plugin"
    library = torch.library.Library(driver.namespace, "IMPL")  # type: ignore[no-untyped-call]
    _held.append(library)
    for file in (package / backend.PLUGIN / _REFERENCES, *sorted((driver.folder / "operators").glob("*.py"))):
        for name, function in _formulas(file).items():
            operator = _operator(driver.namespace, name)
            if operator is not None and name not in driver.format_casts:
                reference = below_autocast(_adapted(operator._schema, function))
                for key in ("PrivateUse1", "AutogradPrivateUse1"):
                    _register(library, name, reference, key)


def _compose() -> None:
    """Compose operators that no kernel of the CPU computes on the plugin's memory; see `composed`."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _held.append(library)
    known, has = set(torch._C._dispatch_get_all_op_names()), torch._C._dispatch_has_kernel_for_dispatch_key
    lacking = {
        (name, "PrivateUse1"): function
        for name, function in COMPOSED_WITHOUT_CPU.items()
        if f"aten::{name}" in known and not has(f"aten::{name}", "CPU")
    }
    for (name, key), function in {**COMPOSED, **lacking}.items():
        if f"aten::{name}" in known and has(f"aten::{name}", key):
            _register(library, name, function, key)


def _formulas(file: Path) -> dict[str, Callable[..., Any]]:
    """Return the formulas in a file, by the names of their operators."""
    spec = importlib.util.spec_from_file_location(f"torchferry_plugin_references_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        return {}
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    operators: dict[str, Callable[..., Any]] = module.OPERATORS
    return operators


def _operator(namespace: str, name: str) -> Any | None:
    """Return an operator that the plugin has at its version, by its name and, behind a point, its overload."""
    base, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    overload = overload or "default"
    return getattr(packet, overload) if packet is not None and overload in packet.overloads() else None


def _adapted(schema: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reference as a kernel: later versions of the operator may have arguments that it does not know."""
    arguments = list(schema.arguments)
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    taken = len(arguments) if takes_all else min(len(parameters), len(arguments))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *(kwargs.get(each.name, each.default_value) for each in arguments[len(args) :])]
        for argument, value in zip(arguments[taken:], values[taken:], strict=True):
            if value is not argument.default_value and value != argument.default_value:
                events.record("not-rehearsed", schema.name, argument.name)
                raise NotImplementedError(f"{schema.name} with {argument.name}: not rehearsed")
        return function(*values[:taken])

    return kernel


def _register(library: Any, name: str, function: Callable[..., Any], key: str) -> None:
    if "allow_override" in inspect.signature(library.impl).parameters:
        library.impl(name, function, key, allow_override=True)
    else:
        library.impl(name, function, key)


def _peak(backend: type[Backend], machine: Machine, index: int) -> int:
    """Return the peak of what tensors held, as the plugin counts it; of an untouched device it is not asked.

    A plugin that does not count is taken to hold what it asked the driver for.
    """
    if not machine.memory_peak(index):
        return 0
    counted = getattr(getattr(torch, backend.DEVICE_TYPE, None), "max_memory_allocated", None)
    return machine.memory_peak(index) if counted is None else int(counted(index))


_OBSERVE_EXHAUSTION = "_{device}_attach_out_of_memory_observer"
"""What a plugin's `_C` has, as torch's own has for CUDA: what it is given is called where memory ran out."""


def _note_exhaustion(backend: type[Backend], rehearsal: Rehearsal, machine: Machine, operators: TakenOver) -> None:
    """Note where a device runs out of memory: when the plugin has freed what it could, in the line that asked."""
    kind, detail = ("fault", "out of memory") if _orders_exhaustion(rehearsal) else ("out-of-memory", "")

    def note(device: int, *_: int) -> None:
        events.recorder.add(kind, f"{backend.DEVICE_TYPE}:{device}", detail)
        operators.refusal_is_told()

    own = getattr(sys.modules.get(backend.PLUGIN), "_C", None)
    attach = getattr(own, _OBSERVE_EXHAUSTION.format(device=backend.DEVICE_TYPE), None)
    when_it_begins = getattr(getattr(torch, backend.DEVICE_TYPE, None), "_lazy_call", None)
    if attach is not None and when_it_begins is not None:
        # not now: that begins the device's work, and a device mesh gives each rank its device only before that
        when_it_begins(lambda: attach(note))
    else:
        events.recorder.at_end(lambda: _count_exhaustion(backend, rehearsal, machine, kind, detail))


def _orders_exhaustion(rehearsal: Rehearsal) -> bool:
    return any(fault.kind == "oom" for fault in rehearsal.faults)


def _count_exhaustion(
    backend: type[Backend], rehearsal: Rehearsal, machine: Machine, kind: str, detail: str
) -> dict[str, object]:
    """Count how often a device ran out of memory, as a plugin without an observer tells it: without a line."""
    for index in range(rehearsal.profile.devices):
        for _ in range(_exhausted(backend, machine, index)):
            events.recorder.add(kind, f"{backend.DEVICE_TYPE}:{index}", detail, place=NOWHERE)
    return {}


def _exhausted(backend: type[Backend], machine: Machine, index: int) -> int:
    """Return how often a device ran out of memory, by the plugin's count; one that has none is taken never to retry."""
    namespace = getattr(torch, backend.DEVICE_TYPE, None)
    statistics = getattr(namespace, "memory_stats", None)
    if statistics is None:
        return machine.memory_exhausted(index)
    is_started = getattr(namespace, "is_initialized", None)  # to ask would start it
    return 0 if is_started is not None and not is_started() else int(statistics(index).get("num_ooms", 0))


def _report(backend: type[Backend], rehearsal: Rehearsal, machine: Machine, operators: TakenOver) -> dict[str, object]:
    """What the device did in this process, for the summary."""
    told = {key.subject for key in events.recorder.counts() if key.kind == "not-rehearsed"}
    for name, calls in machine.refused().items():
        if name not in told:
            events.recorder.add("not-rehearsed", name, amount=calls)
    return {
        "device": backend.DEVICE_TYPE,
        "memory": [{"peak_allocated": _peak(backend, machine, index)} for index in range(rehearsal.profile.devices)],
        "operators": operators.operators_used(),
        "work": operators.work(),
        "unverified_operators": [],
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "imported": session.imported(),
    }
