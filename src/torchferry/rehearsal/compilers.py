"""Programs that compile: `torch.compile`, whose compilers for a card are not rehearsed.

What inductor and the vendors' own compilers write needs the card's tools. Here each graph of the device is counted by
the compiler that it was meant for, and is then computed operator by operator (torch's `aot_eager`), so that the rest of
the program is judged: its operators, dtypes and memory, and what follows the compiled part. Graphs of the CPU go
where they always go. Graph breaks and repeated compilations are those of the card, since dynamo makes them: they are
counted by their line.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.userlines import NOWHERE, UserLine
from torchferry.rehearsal import events
from torchferry.rehearsal.plugin_namespace import not_rehearsed
from torchferry.shim.patches import Patches

_INDUCTOR = "inductor"
_SUBSTITUTE = "aot_eager"
"""The backend of torch that captures graphs and derivatives as inductor does, and runs them operator by operator."""

_NAMED = "torch.compile"
_LONGEST = 160
"""Characters of a reason that are kept."""

_ADDRESS = re.compile(r"(?<![\w.])\d{9,}")
"""An object's, in the reasons of dynamo."""

_ASKED_FOR = ("get_compiler_config", "backend_ctx_ctor", "reset")
"""What torch may ask of a compiler."""

_patches = Patches()
"""They stay until the process ends."""

_stand_ins: list[UnrehearsedCompiler] = []
"""Those that were made: where a function is compiled twice in the same way, torch takes what it has."""


def watch(target: Target, *, is_simulated: bool) -> None:
    """Begin to note what a program for `target` compiles, once it imports torch's compiler; can be called again.

    Args:
        target: What is rehearsed.
        is_simulated: Whether the plugin is the simulated one, which does not name its compilers itself.
    """
    if getattr(torch, "_torchferry_compilers_watched", False):
        return
    torch._torchferry_compilers_watched = True  # type: ignore[attr-defined]
    if is_simulated:
        _patches.when_imported("torch._dynamo.backends.registry", functools.partial(_name_compilers, target))
    for module, step in (
        ("torch._dynamo.eval_frame", functools.partial(_take_over, target)),
        ("torch._dynamo.symbolic_convert", _watch_breaks),
        ("torch._dynamo.convert_frame", _watch_repetitions),
        ("torch._inductor.compile_fx", functools.partial(_take_over_inductor, target)),
    ):
        _patches.when_imported(module, step)


_CONSTANT = (
    "current_device",
    "get_device_capability",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
)
"""Questions to the plugin whose answers a graph holds (torch-npu 2.13.0 wheel, torch_npu/dynamo/trace_rule.py)."""


def let_answer_in_graphs(namespace: ModuleType) -> None:
    """Let the simulated plugin's functions answer such questions in a graph: the real ones end none."""
    for name in _CONSTANT:
        function = vars(namespace).get(name)
        if isinstance(function, FunctionType):
            vars(function)["_dynamo_marked_constant"] = True  # what `torch.compiler.assume_constant_result` sets


def compilers_of(row: Row) -> frozenset[str]:
    """Return the compilers that a plugin brings for `torch.compile`, by the names of their backends."""
    return frozenset(row.extra.get("compilers", ()))


class UnrehearsedCompiler:
    """Stands for a compiler of the card's: graphs of the device are counted, and run operator by operator.

    torch compares compilers, and asks them for attributes, while it looks at each frame that Python begins. So it has
    no methods of Python's own for either: they would be such frames.

    Attributes:
        compiler_name: Its name, as torch asks for it.
    """

    def __init__(self, name: str, detail: str, original: Any, target: Target, place: UserLine = NOWHERE) -> None:
        self.compiler_name = name
        self._detail, self._original, self._target, self._place = detail, original, target, place
        for attribute in _ASKED_FOR:
            if hasattr(original, attribute):
                setattr(self, attribute, getattr(original, attribute))

    def __call__(self, graph: Any, inputs: Any, **options: Any) -> Any:
        """Return what computes a graph."""
        if not is_on_device((graph, inputs), self._target.backend.DEVICE_TYPE):
            return self._compiler()(graph, inputs, **options)
        count(self._target, self.compiler_name, self._detail, None if self._place == NOWHERE else self._place)
        return eager(graph, inputs)

    def stands_for(self, name: str, original: Any, place: UserLine) -> bool:
        """Whether this is the one for a compiler that was asked for at a line."""
        return self.compiler_name == name and self._place == place and bool(self._original == original)

    def _compiler(self) -> Any:
        if not isinstance(self._original, str):
            return self._original
        return sys.modules["torch._dynamo.backends.registry"].lookup_backend(self._original)


def count(target: Target, name: str, detail: str, place: UserLine | None = None) -> None:
    """Count a graph by the compiler that would compile it; one that the card refuses raises as there."""
    row = target.api(_NAMED)
    refusal = str(row.extra.get("refuses_inductor", ""))
    if row.status == "missing":
        events.recorder.add("missing-api", _NAMED, place=place)
    elif name == _INDUCTOR and refusal:
        failed: type[BaseException] = sys.modules["torch._dynamo.exc"].BackendCompilerFailed
        events.recorder.add("refused", refusal, error=failed, above=_outside_of_torch())
        raise AssertionError(refusal)
    else:
        events.recorder.add("not-compiled", name, detail, place=place)


def _outside_of_torch() -> FrameType | None:
    """Return the innermost frame that is not torch's: dynamo takes what compilers raise, and raises another of it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and events.recorder.lines.in_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def eager(graph: Any, inputs: Any) -> Any:
    """Return what computes a graph operator by operator."""
    return sys.modules["torch._dynamo.backends.registry"].lookup_backend(_SUBSTITUTE)(graph, inputs)


def is_on_device(values: Any, device: str) -> bool:
    """Whether a graph, or what it is given, has a tensor on the device."""
    if isinstance(values, (list, tuple)):
        return any(is_on_device(value, device) for value in values)
    if isinstance(values, torch.Tensor):
        return values.device.type == device
    graph = getattr(values, "graph", None)
    for node in getattr(graph, "nodes", ()):
        if any(is_on_device(node.meta.get(key), device) for key in ("example_value", "val")):
            return True
        if any(str(value).partition(":")[0] == device for value in node.kwargs.values() if _is_device(value)):
            return True
    return False


def _is_device(value: object) -> bool:
    return isinstance(value, (str, torch.device))


def _name_compilers(target: Target, module: ModuleType) -> None:
    """Let torch know the compilers that the plugin brings, as the plugin itself does."""
    for name in sorted(compilers_of(target.api(_NAMED)) - {*module._BACKENDS, *module._COMPILER_FNS}):
        module.register_backend(UnrehearsedCompiler(name, "", _SUBSTITUTE, target), name)


def _take_over(target: Target, module: ModuleType) -> None:
    """Put such a stand-in in the place of each compiler of the card's that a program asks for."""
    original = module.get_compiler_fn

    @functools.wraps(original)
    def get_compiler_fn(compiler: Any) -> Any:
        name, detail = _named(compiler, target)
        if name:
            place = events.recorder.lines.of(sys._getframe(1))
            compiler = _stand_in(name, detail, compiler, target, place)
        return original(compiler)

    module.get_compiler_fn = get_compiler_fn  # type: ignore[attr-defined]


def _stand_in(name: str, detail: str, original: Any, target: Target, place: UserLine) -> UnrehearsedCompiler:
    for each in _stand_ins:
        if each.stands_for(name, original, place):
            return each
    made = UnrehearsedCompiler(name, detail, original, target, place)
    _stand_ins.append(made)
    return made


def _named(compiler: Any, target: Target) -> tuple[str, str]:
    """Return which compiler of the card's is asked for and with which options; nothing for another."""
    row = target.api(_NAMED)
    if isinstance(compiler, UnrehearsedCompiler) or isinstance(
        getattr(compiler, "compiler_fn", None), UnrehearsedCompiler
    ):
        return "", ""
    name = compiler if isinstance(compiler, str) else getattr(compiler, "compiler_name", "")
    options = getattr(compiler, "config", None) or getattr(compiler, "kwargs", None)
    detail = ", ".join(f"{key}={value}" for key, value in options.items()) if isinstance(options, dict) else ""
    if name == _INDUCTOR or name in compilers_of(row) or row.status == "missing":
        return str(name), detail[:_LONGEST]
    return "", ""


class Settings:
    """The settings of such a compiler, whatever they are called: they are kept, and change nothing here."""

    def __init__(self, *_: Any, **values: Any) -> None:
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = Settings()
        setattr(self, name, value)
        return value


class CompilerPackage(ModuleType):
    """Stands for the package of a vendor's compiler: it makes compilers that are not rehearsed, and their settings."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return not_rehearsed(f"{self.__name__}.{name}", self.__name__)


def put_packages(target: Target) -> None:
    """Put such packages where programs import them, once the plugin is there."""
    row = target.api(_NAMED)
    for path in (*row.extra.get("compiler_makers", ()), *row.extra.get("compiler_settings", ())):
        package, _, name = path.rpartition(".")
        module = sys.modules.get(package)
        if not isinstance(module, CompilerPackage):
            module = sys.modules[package] = CompilerPackage(package, "A compiler of the card's; it is not rehearsed.")
            module.__spec__ = ModuleSpec(package, None)
        makes = path in row.extra["compiler_makers"]
        setattr(module, name, functools.partial(_make, package, target) if makes else Settings)


def _make(package: str, target: Target, *_: Any, **__: Any) -> UnrehearsedCompiler:
    return _stand_in(package, "", _SUBSTITUTE, target, events.recorder.lines.of(sys._getframe(1)))


def _take_over_inductor(target: Target, module: ModuleType) -> None:
    """A compiler of the program's own may give its graph to inductor; ahead of time nothing represents it."""
    original, ahead = module.compile_fx, getattr(module, "compile_fx_aot", None)
    device = target.backend.DEVICE_TYPE

    @functools.wraps(original)
    def compile_fx(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_on_device((graph, inputs), device):
            return original(graph, inputs, *args, **kwargs)
        count(target, _INDUCTOR, "")
        return eager(graph, inputs)

    module.compile_fx = compile_fx  # type: ignore[attr-defined]
    if ahead is None:
        return

    @functools.wraps(ahead)
    def compile_fx_aot(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if is_on_device((graph, inputs), device):
            events.record("not-rehearsed", "AOTInductor", error=NotImplementedError)
            raise NotImplementedError("AOTInductor needs the card's compiler and is not rehearsed")
        return ahead(graph, inputs, *args, **kwargs)

    module.compile_fx_aot = compile_fx_aot  # type: ignore[attr-defined]


def _watch_breaks(module: ModuleType) -> None:
    """Note each place at which dynamo ends a graph and goes on with another."""
    owner = module.InstructionTranslatorBase
    original = getattr(owner, "log_graph_break", None)
    if original is None:  # torch before 2.4
        return

    @functools.wraps(original)
    def log_graph_break(self: Any, code_options: Any, *args: Any, **kwargs: Any) -> Any:
        error = kwargs.get("exc", args[1] if len(args) > 1 else None)
        reason = str(error) if error is not None else str(kwargs.get("reason", args[0] if args else ""))
        if not getattr(error, "logged", False):
            place = _place_of_break(self, error)
            events.recorder.add("graph-break", _first_line(reason), place=place)
        return original(self, code_options, *args, **kwargs)

    owner.log_graph_break = log_graph_break


def _place_of_break(translator: Any, error: BaseException | None) -> UserLine:
    """Return the user's line at which a graph ends, of those that are being traced, or the one that runs."""
    lines = events.recorder.lines
    for each in reversed(getattr(error, "real_stack", None) or torch._guards.TracingContext.extract_stack()):
        if not lines.in_library(each.filename):
            return UserLine(each.filename, int(each.lineno or 0))
    code = translator.f_code
    if not lines.in_library(code.co_filename):
        return UserLine(code.co_filename, int(getattr(translator, "lineno", 0) or code.co_firstlineno))
    frame: FrameType | None = sys._getframe(1)
    return lines.of(frame)


def _watch_repetitions(module: ModuleType) -> None:
    """Note each time that a function is compiled again, and why what was compiled does not fit."""
    for name in ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason"):
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _noting_repetition(original))


def _noting_repetition(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reasons_of(entry: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(entry, frame, *args, **kwargs)
        reasons = [found] if isinstance(found, str) else [*(found or ())]
        reason = _first_line(str(reasons[0])) if reasons else ""
        reason = _ADDRESS.sub("...", reason)
        label, _, rest = reason.partition(": ")
        reason = rest if label.replace("/", "").isdigit() else reason
        code = frame.f_code
        place = events.recorder.lines.of(sys._getframe(1))
        if events.recorder.lines.in_library(place.file) and not events.recorder.lines.in_library(code.co_filename):
            place = UserLine(code.co_filename, code.co_firstlineno)
        events.recorder.add("recompilation", code.co_name, reason, place=place)
        return found

    return reasons_of


def _first_line(text: str) -> str:
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")[:_LONGEST]
