"""Advice on what makes the host wait for the device in every step, and on questions to the management tool."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.advice.model import Advice, CodePlace, Figure, ProposedEdit
from torchferry.advice.question import WORTH, AdviceQuestion
from torchferry.advice.training_code import TrainingProgram, TrainingStep, edited, nodes_of_each_step, place_of
from torchferry.backends import registry
from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_READS = frozenset({"item", "tolist", "numpy", "cpu"})
"""Methods of a tensor that bring it to the host."""

_SYNCHRONIZES = frozenset({"synchronize", "empty_cache"})
_TELEMETRY = frozenset({"utilization", "temperature", "power_draw", "clock_rate", "memory_summary", "mem_get_info"})
_STARTS = ("subprocess.", "os.system", "os.popen")
_FINITE = frozenset({"isnan", "isinf", "isfinite"})


def host_waits(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise against `.item()`, `.cpu()`, `print(loss)` and `synchronize()` in every step."""
    figure: Figure | None = None
    if asked.measured is not None:
        calls, _ = asked.measured.waits
        if calls == 0:
            return  # the trace shows that there are none
        if asked.timed is None:
            figure = Figure(
                say("numbers read from tensors, or waits for the device: {count} a step", count=f"{calls:g}")
            )
        else:
            idle = asked.timed.part("idle")
            share = asked.timed.share(idle)
            if share is None or share < WORTH:
                return  # nothing is lost while the host waits
            figure = Figure(
                say(
                    "numbers read from tensors, or waits for the device: {count} a step; time outside of "
                    "operators: {time} ms of a step of {step} ms ({share} %)",
                    count=f"{calls:g}",
                    time=f"{idle / 1e6:.1f}",
                    step=f"{asked.timed.step / 1e6:.1f}",
                    share=f"{100 * share:.0f}",
                ),
                share,
            )
    places: dict[CodePlace, None] = {}
    edits: list[ProposedEdit] = []
    for step in asked.program.steps:
        for file, node in _waits(asked.program, step):
            place = place_of(file, node)
            if place not in places:
                places[place] = None
                edits += _without_wait(file, node)
    if not places and (figure is None or figure.share is None):
        return
    yield Advice(
        "host-wait",
        say("do not wait for the device in every step"),
        say("the host cannot give the device more work while it waits for a number, so that the device runs dry"),
        tuple(places),
        figure,
        asked.effect("host_wait"),
        tuple(edits),
        say("sum on the device, and read the number every so many steps, or once an epoch"),
    )


def _waits(program: TrainingProgram, step: TrainingStep) -> Iterator[tuple[PythonFile, ast.AST]]:
    """Yield what makes the host wait in every step, also in the functions of the project that the step calls."""
    for node in nodes_of_each_step(step):
        if _is_wait(step.names, node, step.losses):
            yield step.file, node
        elif isinstance(node, ast.Call):
            called = _called(program, step.file, step.names, node)
            if called is not None:
                file, names, function = called
                inner = TrainingStep(file, names, function, frozenset())
                yield from ((file, below) for below in nodes_of_each_step(inner) if _is_wait(names, below, frozenset()))


def _called(
    program: TrainingProgram, file: PythonFile, names: Names, call: ast.Call
) -> tuple[PythonFile, Names, ast.FunctionDef | ast.AsyncFunctionDef] | None:
    """Return the function of the project that a call by its plain name means."""
    if not isinstance(call.func, ast.Name):
        return None
    for binding in names.bindings(call.func):
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return file, names, binding
        origin = names.binding_origin(binding)
        if origin is not None and not origin.startswith("torch."):
            found = program.code.project.definition(origin, file.path)
            if found is not None and isinstance(found[2], (ast.FunctionDef, ast.AsyncFunctionDef)):
                return found[0], found[1], found[2]
    return None


def _is_wait(names: Names, node: ast.AST, losses: frozenset[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        method = node.func.attr
        if method in _READS and not node.args and _may_be_tensor(node.func.value, method):
            return True
        if method in _SYNCHRONIZES:
            return (names.qualified(node.func) or "").startswith("torch")
        return False
    if isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "bool", "print"):
        return any(_is_loss(argument, losses) for argument in node.args)
    return False


def _may_be_tensor(value: ast.expr, method: str) -> bool:
    """Return whether what is brought to the host may be on the device: `.cpu().numpy()` waits once."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("cpu", "numpy"):
            return False
        if value.func.attr == "detach" and method == "numpy":
            return False  # on the CPU already, or it would raise
    if method in ("numpy", "tolist"):
        return not isinstance(value, ast.Name) and method == "tolist"
    return True


def _is_loss(argument: ast.expr, losses: frozenset[str]) -> bool:
    """Return whether the value of a loss, and not its class or shape, is in an argument."""
    if isinstance(argument, ast.Name):
        return argument.id in losses
    if isinstance(argument, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) and _is_loss(part.value, losses) for part in argument.values)
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
        finite = argument.func.attr in _FINITE and any(_is_loss(each, losses) for each in argument.args)
        return finite or (argument.func.attr in ("detach", "mean", "sum") and _is_loss(argument.func.value, losses))
    return False


def _without_wait(file: PythonFile, node: ast.AST) -> Iterator[ProposedEdit]:
    """Yield the edit that leaves out a wait, where the line alone shows that nothing else changes."""
    assert isinstance(node, ast.Call)
    try:
        if not isinstance(node.func, ast.Attribute):
            return
        statement = file.statement(node)
        if node.func.attr in _SYNCHRONIZES and isinstance(statement, ast.Expr) and statement.value is node:
            start, end = file.span(statement)
            if file.source.text[start:end] == file.source.text.split("\n")[statement.lineno - 1].strip():
                siblings = getattr(file.parents[statement], "body", [])
                if len(siblings) > 1:
                    yield edited(file, [(*_whole_line(file, start, end), "")])
        elif node.func.attr == "item" and isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            _, before = file.span(node.func.value)
            _, end = file.span(node)
            yield edited(file, [(before, end, ".detach()")])
    except ValueError:  # it stands in an f-string
        return


def _whole_line(file: PythonFile, start: int, end: int) -> tuple[int, int]:
    text = file.source.text
    return text.rfind("\n", 0, start) + 1, end


def polling(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise against questions to the management tool or the driver in every step."""
    tools = {"nvidia-smi", "gpustat", "nvitop"}
    for name in registry.names():
        tool = registry.load(name).SMI
        if not isinstance(tool, Unknown) and tool:
            tools.add(tool)
    places: list[CodePlace] = []
    for step in asked.program.steps:
        asking = (node for node in nodes_of_each_step(step) if _asks_driver(step.names, node, tools))
        places += [place_of(step.file, node) for node in asking]
    if places:
        yield Advice(
            "polling",
            say("do not query the driver in every step"),
            say("a query to the management tool or the driver takes many milliseconds, and starts a process or waits"),
            tuple(dict.fromkeys(places)),
            None,
            asked.effect("polling"),
            (),
            say("watch the card from another process, or query it once an epoch"),
        )


def _asks_driver(names: Names, call: ast.AST, tools: set[str]) -> bool:
    if not isinstance(call, ast.Call):
        return False
    called = names.qualified(call.func) or ""
    if called.startswith(_STARTS):
        words = [word for node in ast.walk(call) if (text := string_value(node)) is not None for word in text.split()]
        return any(word.rpartition("/")[2] in tools for word in words)
    if called.startswith("pynvml."):
        return True
    return called.startswith("torch") and last_name(call.func) in _TELEMETRY
