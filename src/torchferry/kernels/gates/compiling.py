"""The gates of the preprocessor and the compiler: each file beside its original; only new errors count."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchferry.core import reaper, supported_torch
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.core.system import KILL, require_linux, signal_group
from torchferry.core.tool_environment import find_tool, tool_environment
from torchferry.kernels.gates.result import FileGate, GateState
from torchferry.kernels.gates.stand_ins import StandIns

_ERROR = lazy_regex(
    r"(?P<path>[^\s:()][^:()\n]*?)[:(](?P<line>\d+)\)?:?(?:\d+:)?\s*(?:fatal |catastrophic )?error\b[^:\n]*:"
    r"\s*(?P<text>.*)"
)
_NOT_FOUND = lazy_regex(r"(?<![^\s:])([^\s:]+): No such file or directory|could not open source file \"([^\"]+)\"")
_IDENTIFIER = lazy_regex(r"[A-Za-z_]\w*")
_INCLUDE = lazy_regex(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_KERNELS = (".cu", ".cuh")
_MEMORY = 12 << 30
"""Bytes that a compiler may take: a hostile file ends it, and not the machine."""

_OUTPUT = 4_000_000
_TORCH_FLAGS = (
    *("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__"),
    *("-D__CUDA_NO_HALF2_OPERATORS__", "-DTORCH_EXTENSION_NAME=gate"),
)
"""What torch.utils.cpp_extension gives every file of an extension."""

_OF_TORCH = lazy_regex(r"(?:torch|ATen|c10)/")
"""The header that a compiler does not find begins so where it is torch's."""


class Toolchain(NamedTuple):
    """The compilers of this machine, and where torch's headers are.

    Attributes:
        nvcc: CUDA's; empty where it is not installed.
        host: The C++ compiler; empty where there is none.
        torch: The folder of torch's headers; None where torch is not installed.
    """

    nvcc: str
    host: str
    torch: Path | None


class CompileError(NamedTuple):
    """An error as a compiler reports it, with the original's paths and names."""

    path: str
    line: int
    text: str


class Compilation(NamedTuple):
    """What a compiler said of one file: how it ended, its errors, and its processor seconds.

    `code` is None where it took too long.
    """

    code: int | None
    errors: tuple[CompileError, ...]
    seconds: float


def toolchain() -> Toolchain:
    """Return what is installed on this machine."""
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    include = Path(places[0]) / "include" if places else None
    host = next((path for name in ("c++", "g++", "clang++") if (path := find_tool(name))), "")
    return Toolchain(find_tool("nvcc") or "", host, include if include is not None and include.is_dir() else None)


class Sides(NamedTuple):
    """Where both sides lie.

    Attributes:
        original: The tree.
        ported: A copy of its port.
        stand_ins: The headers that give names back.
        paths: By the path of each original, the path of its port.
        names: By a new name, CUDA's: messages about the port are read with them.
        flags: Flags of the user's, for the original.
        macros: Macros of the project with their new names, for `-D`.
    """

    original: Path
    ported: Path
    stand_ins: StandIns
    paths: Mapping[str, str]
    names: Mapping[str, str]
    flags: tuple[str, ...]
    macros: Mapping[str, str]


class FileCompiler:
    """Compiles files of both sides."""

    def __init__(self, tools: Toolchain, sides: Sides, timeout: float) -> None:
        self.tools = tools
        self.sides = sides
        self.timeout = timeout
        self._back = {new: old for old, new in sides.paths.items()}
        self._folders = _include_folders(sides)

    def missing_tool(self, path: str) -> Message | None:
        """Why a file cannot be compiled on this machine; None where it can."""
        if not self.tools.nvcc and path.lower().endswith(_KERNELS):
            return say("nvcc is not installed: kernels cannot be compiled here")
        if not self.tools.nvcc and not self.tools.host:
            return say("no C++ compiler is installed")
        return None

    def examine(self, path: str, level: str) -> FileGate:
        """Return what one level says of a file: the original first, then its port."""
        missing = self.missing_tool(path)
        if missing is not None:
            return FileGate(path, GateState.NOT_RUN, (missing,))
        before = self.compiled(path, level, ported=False)
        if before.code is None:
            return FileGate(path, GateState.NOT_RUN, (self._late(),), before.seconds)
        after = self.compiled(path, level, ported=True)
        seconds = before.seconds + after.seconds
        if after.code is None:
            return FileGate(path, GateState.NOT_RUN, (self._late(),), seconds)
        known = {(error.path, error.text) for error in before.errors}
        stub = os.path.realpath(self.sides.stand_ins.headers) + os.sep  # what this torch lacks of the plugin's names
        own = [error for error in after.errors if not error.path.startswith(stub)]
        new = [error for error in own if (error.path, error.text) not in known]
        if new or (after.code and not before.code and (own or not after.errors)):
            problems = tuple(_problem(error) for error in (new or after.errors))
            return FileGate(path, GateState.FAILED, problems or (_ended(after.code),), seconds)
        if before.code:
            first = _problem(before.errors[0]) if before.errors else _ended(before.code)
            if self.tools.torch is None and before.errors and _OF_TORCH.match(before.errors[0].text):
                first = say("{error}: {advice}", error=first, advice=supported_torch.not_in(sys.executable))
            reason = say("the original does not compile here either: {error}", error=first)
            return FileGate(path, GateState.NOT_RUN, (reason,), seconds)
        return FileGate(path, GateState.PASSED, (), seconds)

    def _late(self) -> Message:
        return say("the compiler did not finish within {seconds} s", seconds=f"{self.timeout:.0f}")

    def command(self, path: str, level: str, *, ported: bool) -> list[str]:
        """Return the call of the compiler for a file of one side; `path` is the original's."""
        sides = self.sides
        root = sides.ported if ported else sides.original
        full = root / (sides.paths[path] if ported else path)
        is_kernel = path.lower().endswith(_KERNELS)
        if self.tools.nvcc:
            command = [self.tools.nvcc, "-x", "cu" if is_kernel else "c++", "-Wno-deprecated-gpu-targets"]
            if level == "preprocess":
                command += ["-E", "-o", os.devnull]
            elif is_kernel:
                command += ["-cuda", "-o", os.devnull]
            else:
                command += ["-c", "-o", os.devnull, "-Xcompiler", "-fsyntax-only"]
            command += ["--expt-relaxed-constexpr", "--expt-extended-lambda"] if is_kernel else []
        else:
            command = [self.tools.host, "-x", "c++"]
            command += ["-E", "-o", os.devnull] if level == "preprocess" else ["-fsyntax-only"]
            if "g++" in os.path.basename(os.path.realpath(self.tools.host)):
                command.append(
                    "-ftrack-macro-expansion=0"
                )  # errors are where a name is used, not where it is given back
        command += ["-std=c++20", "-w", *self._flags(ported=ported)]
        if ported:
            command += ["-include", str(sides.stand_ins.names)]
        command += [f"-I{root / folder}" for folder in self._folders]
        if ported:
            command += ["-I", str(sides.stand_ins.headers)]
        last = [sysconfig.get_path("include")]
        if self.tools.torch is not None:
            last += [str(self.tools.torch), str(self.tools.torch / "torch" / "csrc" / "api" / "include")]
        for folder in last:
            command += ["-isystem", folder]
        # a header outside the tree, by a path from its file, and what is not installed
        behind = [str(sides.original / folder) for folder in self._folders] if ported else []
        for folder in (*behind, str(sides.stand_ins.missing)):
            command += ["-Xcompiler", f"-idirafter,{folder}"] if self.tools.nvcc else ["-idirafter", folder]
        return [*command, os.path.abspath(full)]  # never an option, whatever the folder is called

    def _flags(self, *, ported: bool) -> Iterator[str]:
        if self.tools.torch is not None:
            yield from _TORCH_FLAGS
        for flag in self.sides.flags:
            if ported and flag.startswith("-D"):
                name, equals, value = flag[2:].partition("=")
                yield f"-D{self.sides.macros.get(name, name)}{equals}{value}"
            elif ported and flag.startswith("-I"):
                yield self._include_flag(flag)
            else:
                yield flag

    def _include_flag(self, flag: str) -> str:
        """Return `-I` of a folder of the tree as that of the port."""
        relative = os.path.relpath(os.path.abspath(flag[2:]), os.path.abspath(self.sides.original))
        inside = relative.split(os.sep)[0] != os.pardir
        return f"-I{self.sides.ported / relative}" if inside else flag

    def compiled(self, path: str, level: str, *, ported: bool) -> Compilation:
        """Compile a file of one side."""
        code, output, seconds = _run(self.command(path, level, ported=ported), self.timeout)
        errors = tuple(dict.fromkeys(self._errors(output, ported=ported)))
        return Compilation(code, errors, seconds)

    def _errors(self, output: str, *, ported: bool) -> Iterator[CompileError]:
        root = os.path.realpath(self.sides.ported if ported else self.sides.original)
        for line in output.splitlines():
            match = _ERROR.match(line.strip())
            if match is None:
                missing = _NOT_FOUND.search(line) if "rror" in line else None
                if missing is not None:
                    yield CompileError("", 0, line.strip()[:300])
                continue
            full = os.path.realpath(match["path"])
            name = os.path.relpath(full, root).replace(os.sep, "/") if full.startswith(root + os.sep) else full
            text = match["text"]
            if ported:
                name = self._back.get(name, name)
                text = _IDENTIFIER.sub(lambda word: self.sides.names.get(word.group(), word.group()), text)
            yield CompileError(name, int(match["line"]), text[:300])


def _problem(error: CompileError) -> Message:
    if not error.path:
        return say("{text}", text=error.text)
    return say("{path}:{line}: {text}", path=error.path, line=error.line, text=error.text)


def _ended(code: int) -> Message:
    return say("the compiler ended with exit code {code} and named no error", code=code)


def _include_folders(sides: Sides) -> tuple[str, ...]:
    """Return the folders of the tree from which its headers are included, relative to it, as a build names them."""
    by_end: dict[str, list[str]] = {}
    for path in sides.paths:
        by_end.setdefault(path.rpartition("/")[2], []).append(path)
    folders = {"."}
    for path in sides.paths:
        try:
            text = (sides.original / path).read_bytes()[:1_000_000].decode("latin-1")
        except OSError:
            continue
        here = path.rpartition("/")[0]
        for match in _INCLUDE.finditer(text):
            name = match[1]
            if name.startswith(("../", "./", "/")):
                continue
            for candidate in by_end.get(name.rpartition("/")[2], ()):
                if candidate == name or candidate.endswith(f"/{name}"):
                    folder = candidate[: -len(name)].rstrip("/") or "."
                    if folder != here:
                        folders.add(folder)
    return tuple(sorted(folders))


def _run(command: list[str], timeout: float) -> tuple[int | None, str, float]:
    """Run a compiler with bounds on memory and time; returns its exit code, what it said, and its CPU seconds."""
    require_linux("torchferry port --gate")
    import resource  # imported late: not every system has it

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=bounded,  # noqa: PLW1509 - one thread starts compilers
        start_new_session=True,
        env={**tool_environment(), "LC_ALL": "C"},
    ) as process:
        try:
            reaper.watch(process.pid)
            _, errors = process.communicate(timeout=timeout)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            signal_group(process.pid, KILL)
            _, errors = process.communicate()
            code = None
        except BaseException:  # we are to end: the compiler is in a session of its own and does not know
            signal_group(process.pid, KILL)
            raise
        finally:
            reaper.release(process.pid)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return code, errors[:_OUTPUT].decode("utf-8", "replace"), seconds
