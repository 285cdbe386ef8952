"""Why a program ended under the redirect, told behind its own traceback.

A program whose own guard asked for CUDA, heard True, and then used an extension built for CUDA ends in an ImportError
or a NameError that says nothing of either. The traceback leads to the line; its source, which is parsed and never run,
leads to the guard and to where the extension is imported or loaded.

A field of the device's properties that no other maker has, such as the compute capability, raises and says so. A
program that asks with `getattr(properties, "major", None)`, or a library that sees the plugin's own properties, gets
None, and ends in a TypeError that names neither the field nor the card.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from torchferry.backends import cuda
from torchferry.backends.cards import default_card
from torchferry.backends.target import Target
from torchferry.core.messages import Message, language, noted, say
from torchferry.core.terminal import print_own_lines
from torchferry.core.torch_start import NOTES
from torchferry.shim import no_device
from torchferry.shim.patches import Patches

_SUFFIX = "-failed-"

_SPAWN = "torch.multiprocessing.spawn"

_NVCC = "nvcc"
_EXTENSION = "CUDAExtension"
"""The compiler and the builder of CUDA's extensions, of which the tables say what a target has instead."""

_MOST = 20
"""Explanations of one command that are shown."""

_OF_CUDA = re.compile(r"lib(?:cuda|cudart|cublas|cudnn|cufft|cusparse|nvrtc|nccl|c10_cuda|torch_cuda)\w*\.so")
"""Libraries that an extension built for CUDA is linked to."""

_OPERATOR = re.compile(r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'")
"""What torch says of an operator that no library has registered."""

_OF_NONE = "'NoneType' object"
"""What Python says of a name that was given None because the extension could not be loaded."""

_BUILT = re.compile(r"cuda|kernel|(?:^|[._])(?:_?c|_?ext|_?ops)(?:$|[._])|_ext|_ops", re.IGNORECASE)


class _MissedExtension(NamedTuple):
    """An extension, where it was needed, and the guard that led there."""

    extension: str
    file: str
    line: int
    guard: int


def patch(patches: Patches, target: Target) -> None:
    """Add the explanation behind the traceback of what nobody catches."""
    before = sys.excepthook

    def report(error: BaseException) -> None:
        try:
            text = explain(error, target)
            if text is None and not os.environ.get(NOTES):  # a command that waits says it of all its processes
                text = _known_cause(error, target)
        except Exception:  # the error itself is shown in any case; nothing may stand in its way
            return
        if text is not None:
            error.torchferry_explained = True  # type: ignore[attr-defined]  # core/site leaves it to us then
            _tell(text)

    def hook(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        before(kind, error, at)
        report(error)

    def undo() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before

    sys.excepthook = hook
    patches.at_end(undo)
    patches.when_imported(_SPAWN, lambda module: patches.set(module, "_wrap", _reporting(module._wrap, report)))


def _reporting(original: Callable[..., Any], report: Callable[[BaseException], None]) -> Callable[..., Any]:
    """Return what runs the function of a child of `torch.multiprocessing.spawn`, which hands on an error as text."""

    @functools.wraps(original)
    def wrap(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def reported(*given: Any) -> Any:
            try:
                return fn(*given)
            except Exception as error:
                report(error)
                raise

        return original(reported, *args, **kwargs)

    return wrap


def explain(error: BaseException, target: Target) -> str | None:
    """Return why an error ended a program that asked for CUDA; None where nothing is known of it."""
    calculated = _none_of_device(error, target)
    if calculated is not None:
        return str(calculated)
    return _explain_missed_extension(error, target)


def _known_cause(error: BaseException, target: Target) -> str | None:
    """Return what the tables of messages say of an error; None where no entry names a cause, or we raised it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames and str(frames[-1].f_globals.get("__name__", "")).partition(".")[0] == "torchferry":
        return None
    from torchferry.backends.errors import cause_of_exception  # imported late: most programs do not fail
    from torchferry.core.secrets import masked

    match = cause_of_exception(target.backend, type(error).__name__, str(error))
    if match is None:
        return None
    causes = [str(say("cause: {cause}", cause=cause)) for cause in match.causes]
    steps = [f"-> {step.render(language())}" for step in match.steps()]
    return masked("\n  ".join([f"{type(error).__name__}:", *causes, *steps]))


def _explain_missed_extension(error: BaseException, target: Target) -> str | None:
    """Return the extension that an error leads to, and the guard; None where it leads to none."""
    if not isinstance(error, (ImportError, NameError, AttributeError, TypeError, OSError)):
        return None
    missed = _find_missed_extension(error)
    if missed is None:
        return None
    file = _short_path(missed.file)
    text = say(
        "{file}:{line} needs the extension `{extension}`, which this environment does not have",
        file=file,
        line=missed.line,
        extension=missed.extension,
    )
    lines: list[Message] = [text]
    if missed.guard:
        source = " ".join(linecache.getline(missed.file, missed.guard).split())
        lines.append(
            say(
                "the check at {file}:{guard} led there: `{source}`; under the redirect the program sees a CUDA device",
                file=file,
                guard=missed.guard,
                source=source,
            )
        )
    lines.append(
        porting(
            target,
            say(
                "an extension built for CUDA does not run on {target}: port it, or check for the extension instead",
                target=target.title,
            ),
        )
    )
    return "\n  ".join(map(str, lines))


def porting(target: Target, text: Message) -> Message:
    """Return `text` and what a CUDA extension needs on the target, from its tables."""
    for name, row in (
        (_NVCC, target.row("tools", _NVCC)),
        (_EXTENSION, target.api(f"torch.utils.cpp_extension.{_EXTENSION}")),
    ):
        if row.use:
            text = say("{text}; instead of `{name}` the card has `{use}`", text=text, name=name, use=row.use)
        text = noted(text, row.remark)
    return text


def explanations_left(mark: str) -> list[str]:
    """Return the explanations that the processes of a command left, each once."""
    texts: list[str] = []
    path = Path(mark)
    for left in sorted(path.parent.glob(f"{path.name}{_SUFFIX}*")):
        text = left.read_text(encoding="utf-8", errors="replace")
        if text not in texts:
            texts.append(text)
    return texts[:_MOST]


def _tell(text: str) -> None:
    """Leave the explanation for the end of the command, or print it where no command waits for it."""
    mark = os.environ.get(no_device.MARK, "")
    if mark:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]  # eight ranks have one reason
        try:
            Path(f"{mark}{_SUFFIX}{name}").write_text(text, encoding="utf-8")
            return
        except OSError:
            pass
    print_own_lines(text)


def _find_missed_extension(error: BaseException) -> _MissedExtension | None:
    frames = frames_of_program(error)
    if not frames:
        return None
    file, line = frames[0].file, frames[0].line
    program = _source_of(file)
    if program is None:
        return None
    if isinstance(error, (ImportError, OSError)):
        extension = _missing(error, program, line)
        guard = program.guard_of(line, _looks_built(extension))
        if extension and not guard:
            guarded = _import_guard(frames) if isinstance(error, ImportError) else None
            if guarded is not None:
                return _MissedExtension(extension, *guarded)
        if extension and (guard or _OF_CUDA.search(str(error))):
            return _MissedExtension(extension, file, line, guard)
        return None
    operator = _OPERATOR.search(str(error))
    if operator is not None:
        guard = program.guard_of(line, leaving=True)
        return _MissedExtension(f"torch.ops.{operator[1]}.{operator[2]}", file, line, guard) if guard else None
    for name in _names_in_question(error, program, frames[0]):
        bound = program.extension_of(name)
        if bound is not None:
            extension, at = bound
            leaving = _looks_built(extension) or _looks_built(name)
            guard = program.guard_of(line, leaving) or program.guard_of(at, leaving)
            if guard:
                return _MissedExtension(extension, file, line, guard)
    return None


def _missing(error: BaseException, program: ProgramSource, line: int) -> str:
    """Return the extension that could not be imported or loaded at a line; empty where it is none."""
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    if isinstance(error, ImportError):
        return program.imported_at(line) or error.name or ""
    return program.loaded_at(line)


def _import_guard(frames: list[Frame]) -> tuple[str, int, int] | None:
    """Return file, line and guard of the import that led to the modules which were being imported."""
    for inner, outer in itertools.pairwise(frames):
        if inner.frame.f_code.co_name != "<module>":
            return None
        program = _source_of(outer.file)
        guard = 0 if program is None else program.guard_of(outer.line)
        if guard:
            return outer.file, outer.line, guard
    return None


def _names_in_question(error: BaseException, program: ProgramSource, frame: Frame) -> Iterator[str]:
    if isinstance(error, NameError):
        yield error.name or ""
    elif _OF_NONE in str(error):
        variables = {**frame.frame.f_globals, **frame.frame.f_locals}
        yield from (name for name in program.used_at(frame.line) if variables.get(name, error) is None)


def _looks_built(name: str) -> bool:
    """Whether a name is one that people give to what they compile."""
    return _BUILT.search(name) is not None


_CAPABILITY = "get_device_capability"
_PROPERTIES = "get_device_properties"

_STEPS = 3
"""How many assignments are followed from a name that is None to what it was given."""


def _none_of_device(error: BaseException, target: Target) -> Message | None:
    """Return where None was calculated with in place of a fact of the device; None for another error."""
    if not isinstance(error, TypeError) or "NoneType" not in str(error):
        return None
    frames = frames_of_program(error)
    program = _source_of(frames[0].file) if frames else None
    if program is None:
        return None
    unset_facts, frame = _unset_facts(target), frames[0]
    for node in _nodes_at(program.statement_at(frame.line), frame.line):
        fact = _unset_fact_behind(program, frame, node, unset_facts, _STEPS)
        if fact:
            return say(
                "{file}:{line} calculates with `{asked}`, which is None on {target}; check for the needed "
                "feature itself, such as `torch.cuda.is_bf16_supported()`",
                file=_short_path(frame.file),
                line=frame.line,
                asked=fact,
                target=target.title,
            )
    return None


def _unset_facts(target: Target) -> frozenset[str]:
    """Return the fields and functions that say None, or nothing, of the target's cards."""
    card = default_card(target.backend)
    from torchferry.shim.patch_cuda_namespace import FIELDS  # imported late: the command has no torch

    fields = FIELDS.difference(card.property_names) if card.property_names else frozenset()
    function = {_CAPABILITY} if card.capability is None else set()
    return frozenset({*card.none_properties, *fields, *function})


def _nodes_at(statement: ast.stmt | None, line: int) -> list[ast.expr]:
    """Return the expressions of a statement that are at a line of it."""
    nodes = (node for node in ast.walk(statement or ast.Pass()) if isinstance(node, ast.expr))
    return [node for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]


def _unset_fact_behind(
    program: ProgramSource, frame: Frame, node: ast.AST, unset_facts: frozenset[str], steps: int
) -> str:
    """Return the fact that an expression asks for, or that its name was given; empty for another expression."""
    if isinstance(node, ast.Attribute) and node.attr in unset_facts and _asks_for_properties(program):
        return node.attr
    if isinstance(node, ast.Call):
        called = path_of_call(node).rpartition(".")[2]
        if called == _CAPABILITY and called in unset_facts:
            return called
        if called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            name = str(node.args[1].value)
            return name if name in unset_facts and _asks_for_properties(program) else ""
    if isinstance(node, (ast.Name, ast.Attribute)) and steps and _is_none(frame, node):
        for given in _assigned_values(program.tree, path_of(node)):
            for part in ast.walk(given):
                fact = _unset_fact_behind(program, frame, part, unset_facts, steps - 1)
                if fact:
                    return fact
    return ""


def _asks_for_properties(program: ProgramSource) -> bool:
    return any(
        isinstance(node, (ast.Attribute, ast.Name)) and path_of(node).endswith(_PROPERTIES)
        for node in ast.walk(program.tree)
    )


def _is_none(frame: Frame, node: ast.Name | ast.Attribute) -> bool:
    """Whether a name of the frame is None, or an attribute of one of its names; nothing of the program is called."""
    variables = {**frame.frame.f_globals, **frame.frame.f_locals}
    if isinstance(node, ast.Name):
        return variables.get(node.id, frame) is None
    owner = variables.get(node.value.id) if isinstance(node.value, ast.Name) else None
    return getattr(owner, "__dict__", {}).get(node.attr, frame) is None


def _assigned_values(tree: ast.Module, path: str) -> list[ast.expr]:
    """Return what is assigned to a name or an attribute anywhere in the file."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(path_of(target) == path for target in node.targets)
    ]


# The source of a program that ended in an error: parsed, never run, and asked about the line where it ended.

_LONGEST = 2_000_000
"""Characters of a source that are looked at."""

_NOT_THE_PROGRAMS = frozenset({"torch", "torchferry", *sys.stdlib_module_names})

_LOADERS = frozenset({"load", "load_inline", "load_library", "import_module", "CDLL", "LoadLibrary"})
"""Functions that load an extension."""

_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Frame(NamedTuple):
    """One frame of a traceback."""

    file: str
    line: int
    frame: FrameType


def _short_path(file: str) -> str:
    """Return a file as messages name it: from the working folder on where it lies below."""
    return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file


def _source_of(file: str) -> ProgramSource | None:
    """Return the source of a file; None where there is none, or where it is very long."""
    source = "".join(linecache.getlines(file))
    return ProgramSource(ast.parse(source)) if 0 < len(source) <= _LONGEST else None


def frames_of_program(error: BaseException) -> list[Frame]:
    """Return the frames that are neither torch's, nor Python's, nor ours, the innermost first."""
    frames: list[Frame] = []
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_THE_PROGRAMS and not frame.f_code.co_filename.startswith("<"):
            frames.insert(0, Frame(frame.f_code.co_filename, at.tb_lineno, frame))
        at = at.tb_next
    return frames


class ProgramSource:
    """The source of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}

    def guard_of(self, line: int, leaving: bool = False) -> int:
        """Return the line of the guard that asks for CUDA and led to `line`; 0 for none.

        Args:
            line: Where the program ended.
            leaving: Whether a guard counts that would have left the block before it, as `assert` does.
        """
        node: ast.AST | None = self.statement_at(line)
        while node is not None:
            parent = self._parents.get(node)
            if isinstance(parent, (ast.If, ast.IfExp)) and node is not parent.test and self._asks(parent.test):
                return parent.lineno
            for before in _before(parent, node) if leaving else ():
                test = before.test if isinstance(before, (ast.If, ast.Assert)) else None
                leaves = isinstance(before, ast.Assert) or (isinstance(before, ast.If) and _leaves(before))
                if test is not None and leaves and self._asks(test):
                    return before.lineno
            node = parent
        return 0

    def extension_of(self, name: str) -> tuple[str, int] | None:
        """Return the extension that `name` represents where it was imported or loaded, and the line."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    if (alias.asname or alias.name.partition(".")[0]) == name:
                        module = getattr(node, "module", None)
                        return (alias.name if module is None else f"{module}.{alias.name}"), node.lineno
            elif isinstance(node, ast.Assign) and any(_is_name(target, name) for target in node.targets):
                loaded = _loaded(node.value)
                if loaded is not None:
                    return loaded or name, node.lineno
        return None

    def imported_at(self, line: int) -> str:
        """Return what the statement at `line` imports; empty where it imports nothing."""
        node = self.statement_at(line)
        if isinstance(node, ast.Import):
            return node.names[0].name
        if isinstance(node, ast.ImportFrom):
            return f"{node.module}.{node.names[0].name}" if node.module else node.names[0].name
        return ""

    def loaded_at(self, line: int) -> str:
        """Return the extension that the statement at `line` loads; empty for none."""
        for node in ast.walk(self.statement_at(line) or ast.Pass()):
            loaded = _loaded(node)
            if loaded:
                return loaded
        return ""

    def used_at(self, line: int) -> Iterator[str]:
        """Yield the names whose attribute the statement at `line` takes, or that it calls."""
        for node in ast.walk(self.statement_at(line) or ast.Pass()):
            owner = node.value if isinstance(node, ast.Attribute) else node.func if isinstance(node, ast.Call) else None
            if isinstance(owner, ast.Name):
                yield owner.id

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that is at `line`."""
        innermost = None
        for node in ast.walk(self.tree):  # outer ones come first
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                innermost = node
        return innermost

    def _asks(self, test: ast.expr, depth: int = 2) -> bool:
        """Whether a condition asks for CUDA, by itself or by a name that was given such a question."""
        for node in ast.walk(test):
            if isinstance(node, ast.Attribute) and (
                path_of(node).startswith(f"{cuda.NAMESPACE}.") or node.attr == "is_cuda"
            ):
                return True
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith(cuda.DEVICE_TYPE)
            ):
                return True
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name and (cuda.DEVICE_TYPE in name.lower() or (depth and self._given_a_question(name, depth - 1))):
                return True
        return False

    def _given_a_question(self, name: str, depth: int) -> bool:
        return any(
            isinstance(node, ast.Assign)
            and any(path_of(target).rpartition(".")[2] == name for target in node.targets)
            and self._asks(node.value, depth)
            for node in ast.walk(self.tree)
        )


def _before(parent: ast.AST | None, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements before `node` in its block."""
    for _, block in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(block, list) and node in block:
            yield from (statement for statement in block[: block.index(node)] if isinstance(statement, ast.stmt))


def _leaves(guard: ast.If) -> bool:
    last = guard.body[-1]
    return isinstance(last, _ENDS) or (isinstance(last, ast.Expr) and path_of_call(last.value).endswith("exit"))


def _loaded(node: ast.AST) -> str | None:
    """Return the name of the extension that a call loads, or empty where it is computed; None for another node."""
    if not isinstance(node, ast.Call) or path_of_call(node).rpartition(".")[2] not in _LOADERS:
        return None
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
    names = [
        argument.value for argument in given if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return names[0] if names else ""


def path_of_call(node: ast.AST) -> str:
    """Return the dotted name of what a call calls; empty for another node."""
    return path_of(node.func) if isinstance(node, ast.Call) else ""


def path_of(node: ast.AST) -> str:
    """Return the dotted name that an expression spells; empty where it is none."""
    if isinstance(node, ast.Attribute):
        return f"{path_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
