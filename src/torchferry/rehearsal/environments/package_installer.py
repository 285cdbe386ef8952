"""pip, which fills environments: with the user's own settings of it, its progress shown, its errors explained."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.own_python import module_command
from torchferry.core.progress import Work, doing
from torchferry.core.tool_environment import tool_environment

_OTHER_PYTHON = (22, 3)
"""The first pip that installs into an environment which has none (`pip --python`)."""

_TELLS_PROGRESS = (24, 1)
"""The first pip that prints its progress for programs (`--progress-bar raw`)."""

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_FETCHES = re.compile(r"\s*(?:Downloading|Processing|Using cached) (\S+)")
_AVAILABLE = "Available versions:"
_CONFLICT = "The conflict is caused by:"
_INSTALLS = "Installing collected packages"
_VERSIONS = re.compile(r"\(from versions: ([^()]*)\)")
_NO_ANSWER = ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "Connection refused", "Retrying (",
              "ProxyError", "Could not fetch URL", "Read timed out")  # fmt: skip
_NO_ROOM = "No space left on device"
_KEPT_LINES = 400


class NoAnswerError(TorchferryError):
    """The network does not answer."""


class NotOfferedError(TorchferryError):
    """No index offers what was requested.

    Attributes:
        versions: What there is in its place for this Python, as pip lists it; oldest first.
    """

    def __init__(self, message: Message, advice: Message | None, versions: Sequence[str]) -> None:
        super().__init__(message, advice)
        self.versions = tuple(versions)


class PackageInstaller:
    """pip for one environment.

    Args:
        python: The environment's interpreter.
        same_version: Whether it is of the version that runs this, whose pip then serves.
    """

    def __init__(self, python: Path, *, same_version: bool) -> None:
        outer = pip_version() if same_version else ()
        self._of_ours = outer >= _OTHER_PYTHON
        words = ("--python", str(python)) if self._of_ours else ()
        self._command = module_command("pip", *words, python="" if self._of_ours else str(python))
        self._raw = outer >= _TELLS_PROGRESS
        self.is_needed = not self._of_ours
        """Whether the environment must have its own pip."""

    def install(self, *words: str) -> None:
        """Install, with the words of `pip install`.

        Raises:
            NotOfferedError: no index offers it.
            NoAnswerError: the network does not answer.
            TorchferryError: the disk is full, or pip fails otherwise.
        """
        self._run("install", *words)

    def download(self, requirement: str, folder: Path) -> Path:
        """Return the wheel of a requirement for this Python, in a folder.

        Raises:
            TorchferryError: as `install`.
        """
        self._run("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement)
        return max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)

    def download_wheel(self, file: str, requirement: str, sha256: str, folder: Path) -> Path:
        """Return one wheel with a known hash, of whatever Python it is for, in a folder.

        Args:
            file: Its name, which says what it is for.
            requirement: Its package and version, as pip takes them.
            sha256: The hash.
            folder: Where it goes.

        Raises:
            TorchferryError: as `install`; also where what is offered has another hash.
        """
        python, _, platforms = file.removesuffix(".whl").split("-")[-3:]
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
        words = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder)]
        if python.startswith("cp"):
            words += ["--implementation", "cp", "--python-version", python.removeprefix("cp"), "--abi", python]
        for platform in platforms.split(".") if platforms != "any" else ():
            words += ["--platform", platform]
        self._run("download", *words, "-r", str(wanted))
        wanted.unlink()
        return folder / file

    def offered(self, name: str) -> list[str]:
        """Return the versions of a package for this Python, as far as pip lists them."""
        lines: list[str] = []
        words = ("index", "versions", "--pre", "--no-input", "--disable-pip-version-check", name)
        if _follow([*self._command, *words], lines.append):
            return []
        listed = next((line for line in lines if line.startswith(_AVAILABLE)), "")
        return [each.strip() for each in listed.removeprefix(_AVAILABLE).split(",") if each.strip()]

    def _run(self, action: str, *words: str) -> None:
        command = [*self._command, action, "--no-input", "--disable-pip-version-check"]
        command += [*(("--progress-bar", "raw") if self._raw else ()), *words]
        lines: deque[str] = deque(maxlen=_KEPT_LINES)
        with doing(say("asking pip's indexes")) as work:

            def heard(line: str) -> None:
                _tell(work, line)
                lines.append(line)

            code = _follow(command, heard)
        if code:
            raise _explained(words, list(lines))


def pip_version() -> tuple[int, ...]:
    """Return the release of the pip of this environment; empty where there is none."""
    try:
        return Version(importlib.metadata.version("pip")).release
    except (importlib.metadata.PackageNotFoundError, InvalidVersion):
        return ()


def _follow(command: list[str], heard: Callable[[str], object]) -> int:
    """Run a program, hand on the lines that it prints, and return its exit code; it ends where we are interrupted."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        env=tool_environment(_variables()),
    )
    with _ended(process):
        for line in process.stdout or ():
            heard(line.rstrip())
        return process.wait()


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _variables() -> dict[str, str]:
    """Return pip's variables: the user's own, and the file of settings that this environment has for it."""
    variables = dict(os.environ)
    variables.pop("PYTHONPATH", None)  # what lies there is not the environment's
    file = Path(sys.prefix, "pip.conf")
    if file.is_file():
        variables.setdefault("PIP_CONFIG_FILE", str(file))
    variables["PIP_USER"] = "0"
    variables.pop("PIP_TARGET", None)
    variables["PYTHONUNBUFFERED"] = "1"
    return variables


def _tell(work: Work, line: str) -> None:
    """Say on the line of progress what pip is at."""
    progress = _PROGRESS.fullmatch(line)
    if progress is not None:
        work.in_bytes = True
        work.reach(int(progress[1]), int(progress[2]))
        return
    fetched = _FETCHES.match(line)
    if fetched is not None:
        work.title, work.in_bytes = say("downloading {file}", file=os.path.basename(fetched[1])), False
        work.reach(0, 0)
    elif line.startswith(_INSTALLS):
        work.title, work.in_bytes = say("installing packages"), False
        work.reach(0, 0)


def _explained(words: Sequence[str], lines: list[str]) -> TorchferryError:
    """Return the error for what pip printed."""
    text = "\n".join(lines)
    errors = [line.partition("ERROR: ")[2] for line in lines if line.startswith("ERROR: ")]
    said = (errors or lines or ["pip failed"])[-1 if not errors else 0].strip()
    if _NO_ROOM in text:
        return TorchferryError(
            say("the disk is full: {error}", error=_NO_ROOM),
            say(
                "an environment takes about 1 GB, and as much while it is downloaded; TORCHFERRY_CACHE names another "
                "folder for it, TMPDIR one for what pip unpacks"
            ),
        )
    listed = next(filter(None, map(_VERSIONS.search, lines)), None)
    versions = [] if listed is None or listed[1] == "none" else [each.strip() for each in listed[1].split(",")]
    if any(part in text for part in _NO_ANSWER) and not versions:
        return NoAnswerError(
            say("no index of pip answers: {error}", error=_about_network(lines) or said),
            say("check the network and the proxy; PIP_INDEX_URL names a mirror, PIP_FIND_LINKS a folder with wheels"),
        )
    if _CONFLICT in lines:  # a file of constraints may leave nothing; pip then lists no versions
        causes = [line.strip() for line in lines[lines.index(_CONFLICT) + 1 :]]
        shown = "; ".join(causes[: causes.index("")] if "" in causes else causes)
        return NotOfferedError(say("pip finds nothing that fits: {causes}", causes=shown), None, ())
    if listed is not None:
        return NotOfferedError(say("pip finds no {what}", what=_asked(said, words)), None, versions)
    return TorchferryError(
        say("pip failed: {error}", error=said), say("pip's own settings decide where it looks: `pip config list`")
    )


def _asked(said: str, words: Sequence[str]) -> str:
    name, is_said, _ = said.rpartition("requirement ")[2].partition(" (from")
    return name if is_said else " ".join(word for word in words if not word.startswith("-"))


def _about_network(lines: list[str]) -> str:
    """Return pip's words about the network, without how often it tried."""
    for line in lines:
        match = re.search(r"(?:broken by '?|caused by )([^:]*):? *(.*)", line)
        if match is not None:
            return match[0].partition("broken by ")[2].strip("'\" ")[:200] or match[0][:200]
    return next((line[:200] for line in lines if "Could not fetch URL" in line), "")
