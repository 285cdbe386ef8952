"""Why a program ended whose own guard asked for CUDA, heard True, and then used an extension built for CUDA.

Such a program ends in an ImportError or a NameError that says nothing of either. The traceback leads to the line; its
source, which is parsed and never run, leads to the guard and to where the extension is imported or loaded.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.shim import refusing
from torchferry.shim.patches import Patches

_SUFFIX = "-failed-"

_SPAWN = "torch.multiprocessing.spawn"

_NVCC = "nvcc"
_EXTENSION = "CUDAExtension"
"""The compiler and the builder of CUDA's extensions, of which the tables say what a target has instead."""

_LONGEST = 2_000_000
"""Characters of a source that are looked at."""

_MOST = 20
"""Explanations of one command that are shown."""

_NOT_THE_PROGRAMS = frozenset({"torch", "torchferry", *sys.stdlib_module_names})

_LOADERS = frozenset({"load", "load_inline", "load_library", "import_module", "CDLL", "LoadLibrary"})
"""Functions that load an extension."""

_OF_CUDA = re.compile(r"lib(?:cuda|cudart|cublas|cudnn|cufft|cusparse|nvrtc|nccl|c10_cuda|torch_cuda)\w*\.so")
"""Libraries that an extension built for CUDA is linked to."""

_OPERATOR = re.compile(r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'")
"""What torch says of an operator that no library has registered."""

_OF_NONE = "'NoneType' object"
"""What Python says of a name that was given None because the extension could not be loaded."""

_BUILT = re.compile(r"cuda|kernel|(?:^|[._])(?:_?c|_?ext|_?ops)(?:$|[._])|_ext|_ops", re.IGNORECASE)

_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class _Place(NamedTuple):
    """An extension, where it was needed, and the guard that led there."""

    extension: str
    file: str
    line: int
    guard: int


class _Frame(NamedTuple):
    file: str
    line: int
    frame: FrameType


def patch(patches: Patches, target: Target) -> None:
    """Add the explanation behind the traceback of what nobody catches."""
    before = sys.excepthook

    def report(error: BaseException) -> None:
        try:
            text = explain(error, target)
        except Exception:  # the error itself is shown in any case; nothing may stand in its way
            return
        if text is not None:
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
    """Return why an error ended a program that asked for CUDA; None where nothing leads to an extension."""
    if not isinstance(error, (ImportError, NameError, AttributeError, TypeError, OSError)):
        return None
    found = _place(error)
    if found is None:
        return None
    shown = os.path.relpath(found.file) if found.file.startswith(os.getcwd() + os.sep) else found.file
    text = say(
        "{file}:{line} needs the extension `{extension}`, which this environment does not have",
        file=shown,
        line=found.line,
        extension=found.extension,
    )
    lines: list[Message] = [text]
    if found.guard:
        source = " ".join(linecache.getline(found.file, found.guard).split())
        lines.append(
            say(
                "the guard at {file}:{guard} led there: `{source}`; under the redirect the program sees a CUDA device",
                file=shown,
                guard=found.guard,
                source=source,
            )
        )
    lines.append(
        porting(
            target,
            say(
                "an extension built for CUDA does not run on {target}: port it, or let the guard ask for the extension",
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
            text = say("{text}; in place of `{name}` the card has `{use}`", text=text, name=name, use=row.use)
        text = noted(text, row.remark)
    return text


def told(mark: str) -> list[str]:
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
    mark = os.environ.get(refusing.MARK, "")
    if mark:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]  # eight ranks have one reason
        try:
            Path(f"{mark}{_SUFFIX}{name}").write_text(text, encoding="utf-8")
            return
        except OSError:
            pass
    print(f"torchferry: {text}", file=sys.stderr, flush=True)


def _place(error: BaseException) -> _Place | None:
    frames = _frames_of_program(error)
    if not frames:
        return None
    file, line = frames[0].file, frames[0].line
    program = _read(file)
    if program is None:
        return None
    if isinstance(error, (ImportError, OSError)):
        extension = _missing(error, program, line)
        guard = program.guard_of(line, _looks_built(extension))
        if extension and not guard:
            guarded = _import_guard(frames) if isinstance(error, ImportError) else None
            if guarded is not None:
                return _Place(extension, *guarded)
        if extension and (guard or _OF_CUDA.search(str(error))):
            return _Place(extension, file, line, guard)
        return None
    operator = _OPERATOR.search(str(error))
    if operator is not None:
        guard = program.guard_of(line, leaving=True)
        return _Place(f"torch.ops.{operator[1]}.{operator[2]}", file, line, guard) if guard else None
    for name in _names_in_question(error, program, frames[0]):
        bound = program.extension_of(name)
        if bound is not None:
            extension, at = bound
            leaving = _looks_built(extension) or _looks_built(name)
            guard = program.guard_of(line, leaving) or program.guard_of(at, leaving)
            if guard:
                return _Place(extension, file, line, guard)
    return None


def _read(file: str) -> _Program | None:
    source = "".join(linecache.getlines(file))
    return _Program(ast.parse(source)) if 0 < len(source) <= _LONGEST else None


def _frames_of_program(error: BaseException) -> list[_Frame]:
    """Return the frames that are neither torch's, nor Python's, nor ours, the innermost first."""
    frames: list[_Frame] = []
    at = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_THE_PROGRAMS and not frame.f_code.co_filename.startswith("<"):
            frames.insert(0, _Frame(frame.f_code.co_filename, at.tb_lineno, frame))
        at = at.tb_next
    return frames


def _missing(error: BaseException, program: _Program, line: int) -> str:
    """Return the extension that could not be imported or loaded at a line; empty where it is none."""
    if isinstance(error, ModuleNotFoundError):
        return error.name or ""
    if isinstance(error, ImportError):
        return program.imported_at(line) or error.name or ""
    return program.loaded_at(line)


def _import_guard(frames: list[_Frame]) -> tuple[str, int, int] | None:
    """Return file, line and guard of the import that led to the modules which were being imported."""
    for inner, outer in itertools.pairwise(frames):
        if inner.frame.f_code.co_name != "<module>":
            return None
        program = _read(outer.file)
        guard = 0 if program is None else program.guard_of(outer.line)
        if guard:
            return outer.file, outer.line, guard
    return None


def _names_in_question(error: BaseException, program: _Program, frame: _Frame) -> Iterator[str]:
    if isinstance(error, NameError):
        yield error.name or ""
    elif _OF_NONE in str(error):
        variables = {**frame.frame.f_globals, **frame.frame.f_locals}
        yield from (name for name in program.used_at(frame.line) if variables.get(name, error) is None)


def _looks_built(name: str) -> bool:
    """Whether a name is one that people give to what they compile."""
    return _BUILT.search(name) is not None


class _Program:
    """The source of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}

    def guard_of(self, line: int, leaving: bool = False) -> int:
        """Return the line of the guard that asks for CUDA and led to `line`; 0 for none.

        Args:
            line: Where the program ended.
            leaving: Whether a guard counts that would have left the block before it, as `assert` does.
        """
        node: ast.AST | None = self._statement_at(line)
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
        """Return the extension that `name` stands for where it was imported or loaded, and the line."""
        for node in ast.walk(self._tree):
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
        node = self._statement_at(line)
        if isinstance(node, ast.Import):
            return node.names[0].name
        if isinstance(node, ast.ImportFrom):
            return f"{node.module}.{node.names[0].name}" if node.module else node.names[0].name
        return ""

    def loaded_at(self, line: int) -> str:
        """Return the extension that the statement at `line` loads; empty for none."""
        for node in ast.walk(self._statement_at(line) or ast.Pass()):
            loaded = _loaded(node)
            if loaded:
                return loaded
        return ""

    def used_at(self, line: int) -> Iterator[str]:
        """Yield the names whose attribute the statement at `line` takes, or that it calls."""
        for node in ast.walk(self._statement_at(line) or ast.Pass()):
            owner = node.value if isinstance(node, ast.Attribute) else node.func if isinstance(node, ast.Call) else None
            if isinstance(owner, ast.Name):
                yield owner.id

    def _statement_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that stands at `line`."""
        found = None
        for node in ast.walk(self._tree):  # outer ones come first
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                found = node
        return found

    def _asks(self, test: ast.expr, depth: int = 2) -> bool:
        """Whether a condition asks for CUDA, by itself or by a name that was given such a question."""
        for node in ast.walk(test):
            if isinstance(node, ast.Attribute) and (
                _path(node).startswith(f"{cuda.NAMESPACE}.") or node.attr == "is_cuda"
            ):
                return True
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith(cuda.DEVICE_TYPE)
            ):
                return True
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name and (cuda.DEVICE_TYPE in name.lower() or (depth and self._given(name, depth - 1))):
                return True
        return False

    def _given(self, name: str, depth: int) -> bool:
        return any(
            isinstance(node, ast.Assign)
            and any(_path(target).rpartition(".")[2] == name for target in node.targets)
            and self._asks(node.value, depth)
            for node in ast.walk(self._tree)
        )


def _before(parent: ast.AST | None, node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements before `node` in its block."""
    for _, block in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(block, list) and node in block:
            yield from (one for one in block[: block.index(node)] if isinstance(one, ast.stmt))


def _leaves(guard: ast.If) -> bool:
    last = guard.body[-1]
    return isinstance(last, _ENDS) or (isinstance(last, ast.Expr) and _path_of_call(last.value).endswith("exit"))


def _loaded(node: ast.AST) -> str | None:
    """Return the name of the extension that a call loads, or empty where it is computed; None for another node."""
    if not isinstance(node, ast.Call) or _path_of_call(node).rpartition(".")[2] not in _LOADERS:
        return None
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
    names = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return names[0] if names else ""


def _path_of_call(node: ast.AST) -> str:
    return _path(node.func) if isinstance(node, ast.Call) else ""


def _path(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_path(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
