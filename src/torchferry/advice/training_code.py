"""The training steps of a project, the files that belong to them, and what these say of precision, layout and devices.

A step is the innermost loop that calls both `backward` and the optimizer's `step`; where there is none, the function
that calls `backward`, and the loops that call this function. To it belong the files that the
programs with a step use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from torchferry.advice.model import CodePlace, ProposedEdit
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.module_graph import Modules
from torchferry.source.exports import absolute_module
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names, assigned_value
from torchferry.source.outline import Outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.source.roles import ASIDE

Loop = (ast.For, ast.AsyncFor, ast.While)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)
StepNode: TypeAlias = ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.AsyncFunctionDef

_BACKWARD = frozenset({"backward", "manual_backward"})
_RANKS = ("rank", "main_process", "master", "is_main", "is_primary")
"""Parts of names that tell whether a process is the first one: it runs what follows them in every step."""

_LIGHTNING = ("lightning", "pytorch_lightning", "fastai", "keras")
_TRAINERS = ("transformers", "trl", "composer", "sentence_transformers", "mmengine", "ignite", "detectron2")
"""Libraries that have a training loop of their own; of the latter only some programs use it."""

_COMMON = frozenset({"__init__", "forward", "main", "run", "step", "train", "update"})
"""Names of functions that many classes have: who calls one of them by its name alone cannot be told."""

_SWITCHES = {"store_true": False, "store_false": True}
"""What the options of argparse are that nobody gives, by their action."""

_LONGEST = 100
"""Characters of a line that is shown."""


class TrainingStep(NamedTuple):
    """One training step.

    Attributes:
        file: The file.
        names: What its names mean.
        node: The loop or the function.
        losses: Names of which the backward is called in it.
    """

    file: PythonFile
    names: Names
    node: StepNode
    losses: frozenset[str]


class CodeCall(NamedTuple):
    """A call in the code of a training program.

    Attributes:
        file: The file.
        names: What its names mean.
        node: The call.
        name: The full name of what is called, such as `torch.utils.data.DataLoader`.
    """

    file: PythonFile
    names: Names
    node: ast.Call
    name: str

    @property
    def keywords(self) -> dict[str, ast.expr]:
        """Return the keyword arguments by name."""
        return {keyword.arg: keyword.value for keyword in self.node.keywords if keyword.arg is not None}

    @property
    def is_direct(self) -> bool:
        """Return whether the name of what is called is imported, and not chosen elsewhere and held in a variable."""
        root: ast.AST = self.node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and all(
            isinstance(binding, ast.alias) for binding in self.names.bindings(root)
        )

    @property
    def is_open(self) -> bool:
        """Return whether more arguments are unpacked into the call, so that nobody can tell which are missing."""
        return any(keyword.arg is None for keyword in self.node.keywords) or any(
            isinstance(argument, ast.Starred) for argument in self.node.args
        )


class TrainingCode:
    """The training steps of a project.

    Args:
        project: The project's files.
        outlines: What each of them imports.
        only: Files and folders that are asked about; empty for all.

    Attributes:
        project: The project's files.
        unread: Files that may hold a step and could not be read or parsed.
        steps: The steps.
    """

    def __init__(self, project: Project, outlines: Sequence[Outline], only: Sequence[str] = ()) -> None:
        self.project = project
        self.modules = Modules(project, outlines)
        self.unread: list[str] = []
        self.named = frozenset(
            path for path in project.paths if any(path == name or path.startswith(f"{name}/") for name in only)
        )
        self.steps = tuple(self._find_steps(sorted(self.named or project.paths)))
        if only and not self.steps:
            self.steps = tuple(self._find_steps(sorted(self._reached(self.named))))

    def _find_steps(self, paths: Sequence[str]) -> Iterator[TrainingStep]:
        seen: set[ast.AST] = set()
        for step in self._steps_and_callers(paths):
            if step.node not in seen:
                seen.add(step.node)
                yield step

    def _steps_and_callers(self, paths: Sequence[str]) -> Iterator[TrainingStep]:
        for path in paths:
            source = self.project.text(path)
            if source is None:
                self.unread.append(path)
            if source is None or not any(f"{word}(" in source.text for word in _BACKWARD):
                continue
            if ASIDE.search(path) and path not in self.named:
                continue
            loaded = self.project.file(path)
            if loaded is None:
                self.unread.append(path)
                continue
            file, names = loaded
            losses: dict[StepNode, set[str]] = {}
            for word in sorted(_BACKWARD):
                for attribute in file.attributes.get(word, ()):
                    call = file.parents.get(attribute)
                    if isinstance(call, ast.Call) and call.func is attribute:
                        region = _region(file, call)
                        if region is not None:
                            losses.setdefault(region, set()).update(_losses(attribute, call))
            for region in sorted(losses, key=lambda node: node.lineno):
                yield TrainingStep(file, names, region, frozenset(losses[region]))
                if isinstance(region, Function):
                    yield from self._loops_around(file, region, paths)

    def _loops_around(
        self, file: PythonFile, function: ast.FunctionDef | ast.AsyncFunctionDef, paths: Sequence[str]
    ) -> Iterator[TrainingStep]:
        """Yield the loops that call a function which is one step, or an object that is called and makes it."""
        wanted = {function.name}
        if function.name == "__call__":
            owner = file.enclosing_class(function)
            wanted = self._instances(owner.name, paths) if owner is not None else set()
        wanted -= _COMMON
        users = self._reaching(file.path)
        for path in (path for path in paths if path in users) if wanted else ():
            source = self.project.text(path)
            if source is None or not any(f"{name}(" in source.text for name in wanted) or ASIDE.search(path):
                continue
            loaded = self.project.file(path)
            if loaded is None:
                continue
            calling, names = loaded
            seen: set[ast.AST] = set()
            for name in sorted(wanted):
                for node in (*calling.names.get(name, ()), *calling.attributes.get(name, ())):
                    call = calling.parents.get(node)
                    loop = _loop_around(calling, node) if isinstance(call, ast.Call) and call.func is node else None
                    if loop is not None and loop not in seen:
                        seen.add(loop)
                        yield TrainingStep(calling, names, loop, frozenset({"loss"}))

    def _instances(self, name: str, paths: Sequence[str]) -> set[str]:
        """Return the names that objects of a class are given."""
        given: set[str] = set()
        for path in paths:
            source = self.project.text(path)
            if source is not None and f"{name}(" in source.text and (loaded := self.project.file(path)) is not None:
                file = loaded[0]
                for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
                    call = file.parents.get(use)
                    statement = file.parents.get(call) if call is not None else None
                    if isinstance(call, ast.Call) and call.func is use and isinstance(statement, ast.Assign):
                        given.update(last_name(target) for target in statement.targets)
        return given - {""}

    def _reached(self, paths: Iterable[str]) -> set[str]:
        """Return files and every file that they use, directly or not.

        Of a package that takes up names from its modules, only the modules of the names that are imported are used.
        """
        reached: set[str] = set()
        seen: set[tuple[str, str]] = set()
        todo = [(path, "") for path in paths]
        while todo:
            path, name = todo.pop()
            if (path, name) in seen or (path, "") in seen:
                continue
            seen.add((path, name))
            reached.add(path)
            for imported in self.modules.imports.get(path, ()):
                taken = imported.names
                if name:
                    taken = tuple(each for each in taken if each == name) or ((name,) if "*" in taken else ())
                    if not taken:
                        continue
                elif imported.indented and path.endswith("__init__.py"):
                    continue  # what only some of a package's users ask for
                todo += self._files_of(imported.module, taken, path)
        return reached

    def _files_of(self, module: str, names: tuple[str, ...], importer: str) -> Iterator[tuple[str, str]]:
        """Yield the files that an import means, each with the one name that is taken from it; empty for all."""
        absolute = absolute_module(module, importer)
        path = self.modules.find(absolute, importer)
        for name in names or ("",):
            inner = self.modules.find(f"{absolute}.{name}", importer) if name else None
            if inner is not None:
                yield inner, ""
            elif path is not None:
                yield path, name if path.endswith("__init__.py") else ""

    def _reaching(self, path: str) -> set[str]:
        """Return a file and every file that imports it, directly or not."""
        reaching, todo = {path}, [path]
        while todo:
            for edge in self.modules.importers.get(todo.pop(), ()):
                if edge.importer not in reaching:
                    reaching.add(edge.importer)
                    todo.append(edge.importer)
        return reaching

    def library_trainers(self) -> dict[str, CodePlace]:
        """Return the libraries of which a trainer is used, whose steps are not in this code, with the first place."""
        found: dict[str, CodePlace] = {}
        for path in sorted(self.named or self.modules.externals):
            for external in self.modules.externals.get(path, ()) if not ASIDE.search(path) else ():
                library = external.module.partition(".")[0]
                trains = library in _LIGHTNING or any(name.endswith("Trainer") for name in external.names)
                if library in (*_LIGHTNING, *_TRAINERS) and trains:
                    found.setdefault(library, CodePlace(path, external.line, external.module))
        return found

    def programs(self) -> Iterator[TrainingProgram]:
        """Yield what belongs together: the steps of one file, and the files of the programs that come there."""
        by_file: dict[str, list[TrainingStep]] = {}
        for step in self.steps:
            by_file.setdefault(step.file.path, []).append(step)
        for path, steps in by_file.items():
            starting = {other for other in self._reaching(path) if not ASIDE.search(other)}
            if self.named:
                starting = (starting & self.named) or starting
            reached = self._reached({path, *starting})
            yield TrainingProgram(
                self, tuple(steps), tuple(sorted(file for file in reached if not _is_aside(file, path)))
            )


def _is_aside(path: str, step: str) -> bool:
    return path != step and ASIDE.search(path) is not None


class TrainingProgram:
    """The steps of one file and the files that belong to the programs that come there.

    Attributes:
        code: The project's code.
        steps: The steps.
        paths: The files.
    """

    def __init__(self, code: TrainingCode, steps: tuple[TrainingStep, ...], paths: tuple[str, ...]) -> None:
        self.code = code
        self.steps = steps
        self.paths = paths

    @cached_property
    def files(self) -> tuple[tuple[PythonFile, Names], ...]:
        """The parsed files of `paths`; what cannot be parsed is in `unread`."""
        files = []
        for path in self.paths:
            loaded = self.code.project.file(path)
            if loaded is not None:
                files.append(loaded)
            elif path not in self.code.unread:
                self.code.unread.append(path)
        return tuple(files)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, keyword, parameter and imported name of the files."""
        words: set[str] = set()
        for file, _ in self.files:
            for table in (file.names, file.attributes, file.keywords, file.arguments, file.binders):
                words.update(table)
            for statement in file.imports:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    words.update(statement.module.split("."))
                words.update(part for alias in statement.names for part in alias.name.split("."))
        return frozenset(words)

    @cached_property
    def strings(self) -> frozenset[str]:
        """Every string of the files."""
        return frozenset(str(node.value) for file, _ in self.files for node in file.strings)

    def says(self, words: Iterable[str]) -> bool:
        """Return whether the code has one of these names, or one that ends in it behind an underscore."""
        wanted = tuple(words)
        endings = tuple(f"_{word}" for word in wanted)
        return not self.words.isdisjoint(wanted) or any(name.lower().endswith(endings) for name in self.words)

    @cached_property
    def calls(self) -> tuple[CodeCall, ...]:
        """Every call of something of torch, by its full name."""
        found = []
        for file, names in self.files:
            for reference in names.references("torch"):
                call = file.parents.get(reference.node)
                if isinstance(call, ast.Call) and call.func is reference.node:
                    found.append(CodeCall(file, names, call, reference.name))
        return tuple(found)

    def calls_of(self, *full_names: str) -> list[CodeCall]:
        """Return the calls of these functions or classes of torch."""
        return [call for call in self.calls if call.name in full_names]

    def default_of(self, name: str) -> ast.expr | None:
        """Return the default of the option that a program reads as `args.<name>`; None where no option has one."""
        option = self.option(name)
        return None if option is None else option.keywords.get("default")

    def option(self, name: str) -> CodeCall | None:
        """Return the call of `add_argument` that makes the option which a program reads as `args.<name>`."""
        for file, names in self.files:
            for attribute in file.attributes.get("add_argument", ()):
                call = file.parents.get(attribute)
                if not isinstance(call, ast.Call) or call.func is not attribute:
                    continue
                options = [node.value for node in call.args if isinstance(node, ast.Constant)]
                keywords = {keyword.arg: keyword.value for keyword in call.keywords}
                destination = keywords.get("dest")
                named = [str(option).lstrip("-").replace("-", "_") for option in options]
                if isinstance(destination, ast.Constant):
                    named = [str(destination.value)]
                if name in named:
                    return CodeCall(file, names, call, "add_argument")
        return None

    def value_of(self, call: CodeCall, node: ast.expr | None, depth: int = 4) -> object:
        """Return the constant that an expression is by default; None if it is unknown."""
        if isinstance(node, ast.Constant):
            return node.value
        if depth == 0 or node is None:
            return None
        if isinstance(node, ast.Attribute):
            option = self.option(node.attr)
            if option is not None and "default" not in option.keywords:
                return _SWITCHES.get(str(getattr(option.keywords.get("action"), "value", "")))
            return self.value_of(call, self.default_of(node.attr), depth - 1)
        if isinstance(node, ast.Name):
            bindings = call.names.bindings(node)
            if len(bindings) == 1:
                if isinstance(bindings[0], ast.arg):
                    return None
                return self.value_of(call, assigned_value(call.file, bindings[0]), depth - 1)
        return None


def _region(file: PythonFile, call: ast.Call) -> StepNode | None:
    """Return the loop or function that is one step, around a call of `backward`."""
    loops: list[ast.For | ast.AsyncFor | ast.While] = []
    node: ast.AST | None = call
    while node is not None and not isinstance(node, (*Function, ast.ClassDef, ast.Lambda)):
        if isinstance(node, Loop):
            loops.append(node)
        node = file.parents.get(node)
    for loop in loops:
        if any(_steps_optimizer(inner) for inner in ast.walk(loop)):
            return loop
    if not isinstance(node, Function) or node.name in _BACKWARD:
        return None  # the backward of an operator of one's own
    around: ast.AST | None = node
    while around is not None and not isinstance(around, ast.Module):
        if isinstance(around, (*Function, ast.ClassDef)) and any(map(_steps_optimizer, ast.walk(around))):
            return node  # of a class, another method may step the optimizer
        around = file.parents.get(around)
    return None


def _loop_around(file: PythonFile, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """Return the innermost loop around a node in its own function."""
    around = file.parents.get(node)
    while around is not None and not isinstance(around, (*Function, ast.ClassDef, ast.Lambda)):
        if isinstance(around, Loop):
            return around
        around = file.parents.get(around)
    return None


def _steps_optimizer(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"):
        return False
    return "sched" not in last_name(node.func.value).lower()


def _losses(attribute: ast.Attribute, call: ast.Call) -> Iterator[str]:
    """Yield the names of the losses whose backward is called: `loss.backward()`, `accelerator.backward(loss)`."""
    for part in (attribute.value, *call.args[:1]):
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and "loss" in node.id.lower():
                yield node.id


# What runs in every step.


def nodes_of_each_step(step: TrainingStep) -> Iterator[ast.AST]:
    """Yield the nodes that are computed in every step: nothing behind a condition, and no function defined there.

    A condition on the first rank alone is none: this rank makes the others wait in every step. What stands
    behind a conditional `continue`, `break` or `return` is left out too.
    """
    body = step.node.body
    yield from _each_time(body)
    if isinstance(step.node, ast.While):
        yield from _walk(step.node.test)


def _each_time(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        if isinstance(statement, (*Function, ast.ClassDef)):
            continue
        if isinstance(statement, ast.If):
            yield from _walk(statement.test)
            if _asks_rank(statement.test):
                yield from _each_time(statement.body)
            if _leaves(statement) and _counts(statement.test):
                return
            continue
        if isinstance(statement, (*Loop,)):
            yield from _walk(statement.iter if isinstance(statement, (ast.For, ast.AsyncFor)) else statement.test)
            yield from _each_time(statement.body)
            continue
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                yield from _walk(item.context_expr)
            yield from _each_time(statement.body)
            continue
        if isinstance(statement, ast.Try):
            yield from _each_time(statement.body)
            yield from _each_time(statement.finalbody)
            continue
        if isinstance(statement, ast.Match):
            continue
        yield from _walk(statement)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is below it, without lambdas and what an `if ... else` chooses."""
    todo = [node]
    while todo:  # not by recursion: a sum of a thousand terms is as deep
        node = todo.pop()
        yield node
        below: list[ast.AST] = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Lambda)]
        if isinstance(node, ast.IfExp):
            below = [node.test]
        elif isinstance(node, ast.BoolOp):
            below = list(node.values[:1])
        todo.extend(reversed(below))


def _asks_rank(test: ast.expr) -> bool:
    """Return whether a condition tests for the first rank and for nothing else, such as the number of the step."""
    words = [last_name(node).lower() for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))]
    return any(part in word for word in words for part in _RANKS) and not _counts(test)


def _counts(test: ast.expr) -> bool:
    """Return whether a condition tests the number of a step."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def _leaves(statement: ast.If) -> bool:
    return any(isinstance(node, (ast.Continue, ast.Break, ast.Return)) for node in statement.body)


# Places and edits.


def place_of(file: PythonFile, node: ast.AST) -> CodePlace:
    """Return the place of a node, with its line."""
    line: int = node.lineno  # type: ignore[attr-defined]
    return CodePlace(file.path, line, _lines(file)[line - 1].strip()[:_LONGEST])


def edited(file: PythonFile, changes: Iterable[tuple[int, int, str]]) -> ProposedEdit:
    """Return the edit of the lines that hold some spans of offsets, each replaced by a text.

    Args:
        file: The file.
        changes: Start, end and text of each change; they do not overlap.
    """
    ordered = sorted(changes)
    text = file.source.text
    start = text.rfind("\n", 0, ordered[0][0]) + 1
    end = text.find("\n", ordered[-1][1])
    end = len(text) if end < 0 else end
    before = text[start:end]
    after, at = "", start
    for first, last, new in ordered:
        after += text[at:first] + new
        at = last
    after += text[at:end]
    line = text.count("\n", 0, start) + 1
    kept = after.splitlines() if after.strip() else []
    return ProposedEdit(file.path, line, tuple(before.splitlines()), tuple(kept))


def _lines(file: PythonFile) -> list[str]:
    return file.source.text.split("\n")
