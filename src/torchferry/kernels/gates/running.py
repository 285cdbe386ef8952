"""Runs the gates over a ported tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.progress import counted
from torchferry.core.temporary import temporary_folder
from torchferry.kernels.gates.audit import Audit, TokenChange
from torchferry.kernels.gates.compiling import FileCompiler, Sides, Toolchain, toolchain
from torchferry.kernels.gates.result import LEVELS, FileGate, GateRequest, GateResult, GateState, result_of
from torchferry.kernels.gates.stand_ins import StandIns
from torchferry.kernels.gates.surface_stubs import SurfaceStubs
from torchferry.kernels.ported_tree import PortedFile, PortedTree, table_of
from torchferry.kernels.tokens import decode

_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
_HEADERS = (".cuh", ".h", ".hpp", ".hh", ".inl")


def run_gates(
    ported: PortedTree,
    request: GateRequest,
    tools: Toolchain | None = None,
    each: Callable[[str, FileGate], None] = lambda level, file: None,
) -> tuple[GateResult, ...]:
    """Run the levels up to the one that is asked for; a file goes on to the next only if it passed.

    Args:
        ported: The tree; nothing of it needs to be written.
        request: What is to be examined.
        tools: The compilers; by default what is installed.
        each: Called with the level and what was found, for each file that was compiled.

    Raises:
        UsageError: a path of `only` is none of the tree.
    """
    chosen = _chosen(ported, request.only)
    if not table_of(ported.target).takes_cuda_syntax:
        reason = say("the target's kernels are written in another language: a gate needs CUDA syntax on both sides")
        levels = LEVELS[: LEVELS.index(request.level) + 1]
        return tuple(GateResult(level, GateState.NOT_RUN, (), 0, reason) for level in levels)
    tokens, renamed = _tokens(ported, request)
    results = [tokens]
    if request.level == "tokens":
        return tuple(results)
    failed = {file.path for file in tokens.files if file.state is not GateState.PASSED}
    with temporary_folder("torchferry-gate-") as temporary:
        tools = tools or toolchain()
        sides = _sides(ported, request, renamed, temporary, tools)
        compiler = FileCompiler(tools, sides, request.timeout)
        left = [path for path in chosen if path not in failed]
        for level in LEVELS[1 : LEVELS.index(request.level) + 1]:
            files = []
            for path in counted(say("compiling files"), left):
                files.append(compiler.examine(path, level))
                each(level, files[-1])
            left = [file.path for file in files if file.state is GateState.PASSED]
            results.append(result_of(level, tuple(files), len(left), tuple(_notes(compiler.tools, chosen, level))))
    return tuple(results)


def _chosen(ported: PortedTree, only: tuple[str, ...]) -> list[str]:
    """Return the paths to compile: those that are named, or what a build compiles; headers where there is nothing."""
    sources = ported.source_paths
    unknown = [path for path in only if path not in sources]
    if unknown:
        raise UsageError(
            say("--gate-only: `{name}` is not a C++ file of {root}", name=unknown[0], root=ported.root),
            say("name it relative to the folder that is ported, such as ops/nms.cu"),
        )
    if only:
        return list(dict.fromkeys(only))
    for suffixes in (_COMPILED, _HEADERS):
        found = [file.path for file in ported.files if file.is_source and file.path.lower().endswith(suffixes)]
        if found:
            return found
    return []


def _tokens(ported: PortedTree, request: GateRequest) -> tuple[GateResult, frozenset[TokenChange]]:
    sources = [file for file in ported.files if file.is_source]
    if ported.rules.texts:
        reason = say("rules of --unsafe replace text anywhere: tokens cannot be compared")
        return GateResult("tokens", GateState.NOT_RUN, (), 0, reason), frozenset()
    paths = frozenset(file.new_path for file in ported.files)
    audit = Audit(table_of(ported.target), ported.rules.names, request.default_rules, paths, ported.rules.contexts)
    bad: list[FileGate] = []
    renamed: set[TokenChange] = set()
    passed = 0
    for file in sources:
        if b"\0" in file.before[:4096]:
            bad.append(FileGate(file.path, GateState.NOT_RUN, (say("the file is binary, or in UTF-16: it is copied"),)))
            continue
        found = audit.compare(decode(file.before), decode(file.after))
        renamed |= found.renamed
        if found.problems:
            bad.append(FileGate(file.path, GateState.FAILED, found.problems))
        else:
            passed += 1
    return result_of("tokens", tuple(bad), passed), frozenset(renamed)


def _sides(
    ported: PortedTree, request: GateRequest, renamed: frozenset[TokenChange], folder: Path, tools: Toolchain
) -> Sides:
    """Write the port and the stand-ins into a folder of their own."""
    table = table_of(ported.target)
    copy = folder / "port"
    for file in ported.files:
        _write(copy, file)
    stand_ins = StandIns(folder / "stand_ins")
    (folder / "stand_ins").mkdir()
    own = {name for name in ported.rules.names if not name.startswith("#")}
    stubs = None
    if table.surface is not None and tools.torch is not None:
        stubs = SurfaceStubs(table, table.surface, tools.torch)
    stand_ins.write(renamed, table.macros.keys(), own, {file.new_path for file in ported.files}, stubs)
    names = {change.after: change.before for change in sorted(renamed, reverse=True) if not change.is_header}
    paths = {file.path: file.new_path for file in ported.files if file.is_source}
    return Sides(ported.root, copy, stand_ins, paths, names, request.flags, ported.rules.names)


def _write(folder: Path, file: PortedFile) -> None:
    place = folder / file.new_path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(file.after)


def _notes(tools: Toolchain, chosen: list[str], level: str) -> list[Message]:
    notes = []
    if tools.torch is None:
        notes.append(say("torch is not installed: files that include its headers cannot be examined"))
    if tools.nvcc and chosen and level == "compile":
        notes.append(
            say(
                "CUDA library headers that are not installed were replaced by stand-ins with their types only, "
                "without functions"
            )
        )
    return notes
