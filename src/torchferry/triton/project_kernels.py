"""The kernels of a project, with what their autotuners try."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext
from torchferry.rules.triton.kernels import TritonLaunch, kernels_of, launches_of
from torchferry.source.flow.syntax import callee, last_name
from torchferry.source.project import Project
from torchferry.triton.definitions import jit_decorators
from torchferry.triton.evaluating import Configuration, Evaluator, NotToldError
from torchferry.triton.model import KernelParameter, ProjectKernel
from torchferry.triton.signatures import pointers_of


def context_of(project: Project, path: str, target: Target) -> PythonContext | None:
    """Return a file as rules see it; None for one that cannot be read."""
    loaded = project.file(path)
    return None if loaded is None else PythonContext(*loaded, target, Options(), project)


def project_kernels(project: Project, paths: Iterable[str], target: Target) -> Iterator[ProjectKernel]:
    """Yield the kernels of some files, by file and line."""
    for path in paths:
        source = project.text(path)
        if source is None or "triton" not in source.text:
            continue
        context = context_of(project, path, target)
        if context is None:
            continue
        for kernel in kernels_of(context):
            if not kernel.is_of_unknown_language:
                yield described(project, path, kernel.function, target)


def project_launches(
    project: Project, paths: Iterable[str], kernels: Collection[str], target: Target
) -> Iterator[tuple[str, TritonLaunch]]:
    """Yield the launches of some files, with their file; one that has the name of no kernel is not parsed."""
    for path in paths:
        source = project.text(path)
        if source is None or not any(name in source.text for name in kernels):
            continue
        context = context_of(project, path, target)
        if context is not None:
            yield from ((path, launch) for launch in launches_of(context))


def described(project: Project, path: str, function: ast.FunctionDef, target: Target) -> ProjectKernel:
    """Return a kernel with what its decorators say."""
    loaded = project.file(path)
    assert loaded is not None
    compilers = jit_decorators(loaded[1], function)
    evaluator = Evaluator(project, target)
    configurations: tuple[Configuration, ...] = ()
    unread: Message | None = None
    heuristics: list[tuple[str, ast.expr]] = []
    for decorator in function.decorator_list:
        if decorator in compilers or not isinstance(decorator, ast.Call):
            continue
        listed = _listed_configurations(decorator)
        rules = _listed_heuristics(decorator, evaluator, path)
        if rules is not None:
            heuristics += rules
        elif listed is not None:
            configurations, unread = _configurations(evaluator, listed, path)
    return ProjectKernel(
        path,
        function.name,
        function.lineno,
        function,
        tuple(_parameters(function)),
        configurations,
        unread,
        tuple(heuristics),
        tuple(evaluator.choices),
        pointers_of(function),
    )


def _parameters(function: ast.FunctionDef) -> Iterator[KernelParameter]:
    positional = [*function.args.posonlyargs, *function.args.args]
    without = len(positional) - len(function.args.defaults)
    for place, argument in enumerate(positional):
        default = function.args.defaults[place - without] if place >= without else None
        yield KernelParameter(argument.arg, _is_constant(argument), default)
    for argument, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        yield KernelParameter(argument.arg, _is_constant(argument), value)


def _is_constant(argument: ast.arg) -> bool:
    return argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)


def _listed_configurations(decorator: ast.Call) -> ast.expr | None:
    """Return the configurations that a decorator names, whatever the project calls it."""
    for keyword in decorator.keywords:
        if keyword.arg == "configs":
            return keyword.value
    is_tuner = last_name(callee(decorator)) == "autotune"
    return decorator.args[0] if is_tuner and decorator.args else None


def _listed_heuristics(decorator: ast.Call, evaluator: Evaluator, path: str) -> list[tuple[str, ast.expr]] | None:
    """Return the constants that a decorator computes, `*` for unknown ones; None for one that computes none."""
    if last_name(callee(decorator)) != "heuristics":
        return None
    values = [keyword.value for keyword in decorator.keywords if keyword.arg == "values"] + decorator.args[:1]
    found: list[tuple[str, ast.expr]] = []
    for value in values:
        dictionary = value
        if isinstance(value, ast.Name):
            with contextlib.suppress(NotToldError):
                dictionary = evaluator.module_value(value.id, path)[1]
        if not isinstance(dictionary, ast.Dict):
            return [("*", dictionary)]
        for key, rule in zip(dictionary.keys, dictionary.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.append((key.value, rule))
    return found


def _configurations(
    evaluator: Evaluator, listed: ast.expr, path: str
) -> tuple[tuple[Configuration, ...], Message | None]:
    try:
        values: Any = evaluator.value(listed, path)
    except NotToldError as error:
        return (), say("the text does not tell what its autotuner tries: {code}", code=error)
    if not isinstance(values, (list, tuple)) or not all(isinstance(each, Configuration) for each in values):
        return (), say("the text does not tell what its autotuner tries: {code}", code=ast.unparse(listed)[:80])
    return tuple(values), None


def heuristic_value(evaluator: Evaluator, kernel: ProjectKernel, rule: ast.expr, values: dict[str, Any]) -> Any:
    """Return the constant that a rule computes of the arguments of a launch.

    Raises:
        NotToldError: the text does not tell, or an argument that it asks for is not known.
    """
    if not isinstance(rule, ast.Lambda) or len(rule.args.args) != 1:
        raise NotToldError(ast.unparse(rule)[:80])
    return evaluator.value(rule.body, kernel.path, {rule.args.args[0].arg: values})
