"""Compiles cases in a process of the front end's Python, several at once, and keeps what came of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.triton_front_end import FrontEnd
from torchferry.backends.triton_target import TritonTarget
from torchferry.core import env, reaper
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.own_python import bare_command, file_command
from torchferry.core.record import NamedTuple
from torchferry.core.result_cache import ResultCache
from torchferry.core.shape import checked
from torchferry.core.temporary import temporary_folder
from torchferry.core.tool_environment import tool_environment
from torchferry.triton.environment import FrontEndFolder

_PROGRAM = Path(__file__).with_name("front_end_program.py")
_MOST_KEPT = 20_000
"""Results in the cache; one has less than a kilobyte."""

_LONGEST_LINE = 1 << 20

_ANSWER = {
    "case": int,
    "state": str,
    "message?": str,
    "file?": str,
    "line?": int,
    "stage?": str,
    "overflows?": bool,
    "memory?": {str: int},
    "core?": str,
    "elements?": [[str, int, int]],
    "seconds?": float,
    "warnings?": [str],
    "attempts?": int,
}
"""What the program answers for a case."""

_FROM_USER = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")
"""Variables of the user's that the front end gets; no other reaches it."""


class CompileCase(NamedTuple):
    """What is compiled.

    Attributes:
        kernel: The name of the kernel.
        bundle: What it is made of, as the program takes it.
        arguments: The arguments, as the program takes them.
        options: Options of the launch.
    """

    kernel: str
    bundle: str
    arguments: tuple[tuple[tuple[str, Any], ...], ...]
    options: tuple[tuple[str, Any], ...]


class Compiler:
    """A front end for one card, with a cache of what it said.

    Args:
        ready: Where it is.
        front_end: The known facts about it.
        target: What Triton is told of the card.
        arch: The card, as the compiler calls it.
        seconds: Limit of one case.
        jobs: How many cases are compiled at once.
        packages: Folders in which an imported project finds its modules; nothing is imported without.
    """

    def __init__(
        self, ready: FrontEndFolder, front_end: FrontEnd, target: TritonTarget, arch: str, seconds: float, jobs: int,
        packages: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        self._ready = ready
        self._front_end = front_end
        self._target = target
        self._arch = arch
        self._seconds = seconds
        self._jobs = jobs
        self._packages = [*map(str, packages)]
        self._cache = ResultCache(env.cache_folder() / "triton-results", _MOST_KEPT)

    def known(self, case: CompileCase) -> dict[str, Any] | None:
        """Return what an earlier run said of a case; None where there is none, or the project is imported."""
        data = None if self._packages else self._cache.read(self._key(case))
        if data is None:
            return None
        try:
            answer: dict[str, Any] = checked(parsed_json(data), _ANSWER)
        except ValueError:
            return None
        return answer

    def compile(self, cases: Sequence[CompileCase]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the place of each case and what became of it, as they end.

        Raises:
            TorchferryError: the front end cannot be run.
        """
        if not cases:
            return
        with temporary_folder("torchferry-triton-") as folder:
            process = self._start(folder)
            try:
                reaper.watch(process.pid)
                yield from self._answers(process, cases, folder)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGTERM)
                for stream in (process.stdin, process.stdout):
                    with contextlib.suppress(OSError):
                        assert stream is not None
                        stream.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                reaper.release(process.pid)

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        python = self._ready.python
        command = bare_command(str(_PROGRAM), python=python)
        if self._packages:  # the project's own packages are to be found
            command = file_command(str(_PROGRAM), python=python)
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=tool_environment(self._variables(folder)),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise TorchferryError(
                say("{python} cannot be started: {error}", python=python, error=error.strerror or error)
            ) from None

    def _variables(self, folder: Path) -> dict[str, str]:
        variables = {name: os.environ[name] for name in _FROM_USER if name in os.environ}
        programs = os.pathsep.join([str(self._ready.programs), os.defpath])
        return {
            **variables,
            "PATH": programs,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1" if self._packages else "",
        }

    def _answers(
        self, process: subprocess.Popen[bytes], cases: Sequence[CompileCase], folder: Path
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(self._request(cases, folder)).encode() + b"\n")
            process.stdin.flush()
        first = self._line(process)
        if first is None or "triton" not in first:
            reason = str(first.get("error", "?")) if isinstance(first, dict) else "?"
            raise TorchferryError(
                say("the front end {front_end} cannot be run: {error}", front_end=self._front_end.title, error=reason),
                say(
                    "remove {folder} to make it anew, or name another Python with `--python`", folder=self._ready.folder
                ),
            )
        left = set(range(len(cases)))
        while left:
            line = self._line(process)
            if line is None:
                raise TorchferryError(
                    say("the front end {front_end} ended before its work was done", front_end=self._front_end.title),
                    say("run it again with `--jobs 1`; the memory may be full"),
                )
            answer: dict[str, Any] = checked(line, _ANSWER)
            number = answer["case"]
            if number not in left:
                continue
            left.discard(number)
            if answer["state"] in ("accepted", "refused") and not self._packages:
                self._cache.write(self._key(cases[number]), json.dumps(answer).encode())
            yield number, answer

    @staticmethod
    def _line(process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
        assert process.stdout is not None
        data = process.stdout.readline(_LONGEST_LINE)
        try:
            line = parsed_json(data) if data else None
        except ValueError:
            return None
        return line if isinstance(line, dict) else None

    def _request(self, cases: Sequence[CompileCase], folder: Path) -> dict[str, Any]:
        bundles = list(dict.fromkeys(case.bundle for case in cases))
        place = {bundle: number for number, bundle in enumerate(bundles)}
        return {
            **self._description(),
            "site": str(self._ready.site),
            "paths": self._packages,
            "folder": str(folder),
            "seconds": self._seconds,
            "jobs": self._jobs,
            "bundles": [parsed_json(bundle) for bundle in bundles],
            "cases": [
                {
                    "kernel": case.kernel,
                    "bundle": place[case.bundle],
                    "arguments": [dict(each) for each in case.arguments],
                    "options": dict(case.options),
                }
                for case in cases
            ],
        }

    def _description(self) -> dict[str, Any]:
        front_end = self._front_end
        return {
            "target": self._target.backend,
            "arch": self._arch,
            "warp_size": self._target.warp_size,
            "properties": dict(self._target.properties),
            "back_end": front_end.back_end,
            "card_library": front_end.card_library,
            "unneeded_modules": list(front_end.unneeded_modules),
            "variables": _pairs(front_end.variables),
            "core_key": front_end.core_key,
            "memory_files": front_end.memory_files,
            "elements_stage": front_end.elements_stage,
            "elements_mark": front_end.elements_mark,
            "refusals": list(front_end.refusals),
            "noise": list(front_end.noise),
            "overflow": front_end.overflow,
        }

    def _key(self, case: CompileCase) -> str:
        parts = [self._ready.key, _program_digest(), json.dumps(self._description(), sort_keys=True), *map(repr, case)]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _pairs(texts: Sequence[str]) -> Mapping[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


@lru_cache(maxsize=1)
def _program_digest() -> str:
    return hashlib.sha256(_PROGRAM.read_bytes()).hexdigest()
