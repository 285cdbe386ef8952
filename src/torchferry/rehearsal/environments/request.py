"""What an environment is to have, as a command line asks for it: `--with torch==2.9.0 --with einops`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchferry.backends.base import Backend
from torchferry.backends.plugin_versions import plugin_rows
from torchferry.backends.target import Target
from torchferry.core import supported_torch
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.tool_environment import find_tool, tool_environment
from torchferry.rehearsal.driver import matching
from torchferry.rehearsal.driver.description import load_driver
from torchferry.rehearsal.driver.plugin import INSTALLED, UNSAID
from torchferry.rehearsal.driver.torch_build import torch_build

_OLDEST_PYTHON = (3, 10)
"""Which torchferry itself asks for, in pyproject.toml."""

_PYTHON = re.compile(r"\d+\.\d+")
_LARGEST_FILE = 1 << 20
"""Bytes of a file of requirements."""

_SECONDS = 10.0
"""For an interpreter to say which one it is."""


@dataclass(frozen=True)
class EnvironmentRequest:
    """What an environment is to have.

    Attributes:
        torch: Version of torch, without the name of a build.
        plugin: The vendor's plugin as pip names it, with its version: `torch-npu==2.9.0`; empty for none.
        python: Path of the interpreter.
        python_version: The first two numbers of its version.
        packages: Further requirements, as they were given.
        requirement_files: Files of requirements.
    """

    torch: str
    plugin: str
    python: str
    python_version: str
    packages: tuple[str, ...] = ()
    requirement_files: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """The environment's name: the same for the same request."""
        parts = [
            f"torch-{self.torch}",
            *filter(None, [self.plugin.replace("==", "-")]),
            f"python-{self.python_version}",
        ]
        if platform.machine() != "x86_64":
            parts.append(platform.machine())
        if self.packages or self.requirement_files:
            digest = hashlib.sha256("\0".join(sorted(self.packages)).encode())
            for path in self.requirement_files:
                digest.update(b"\0" + path.read_bytes())
            parts.append(digest.hexdigest()[:8])
        return "-".join(parts)


def environment_request(
    target: Target, given: Sequence[str], files: Sequence[Path], python: str, plugin: str
) -> tuple[EnvironmentRequest, Message | None]:
    """Return what was requested, and why it has no plugin where the target has one for other versions of torch.

    Args:
        target: What is rehearsed, with the plugin's version where the user named one.
        given: Requirements, one of which may be of torch and one of the plugin.
        files: Files of requirements.
        python: Path or version of an interpreter; empty for the one that runs this.
        plugin: As of `driver.plugin.choose`.

    Raises:
        UsageError: a requirement cannot be read or names no one version of torch, there is no such interpreter, or the
            plugin was asked for and none fits.
    """
    interpreter, version = find_interpreter(python)
    package = canonicalize_name(target.backend.PLUGIN)
    pins = {"torch": "", package: ""}
    others = []
    for text in given:
        requirement = _parsed(text)
        name = canonicalize_name(requirement.name)
        if name in pins:
            pins[name] = _pinned(requirement, text)
        else:
            others.append(text)
    for path in files:
        _check_file(path)
    wanted_plugin = pins[package] or target.version
    torch = pins["torch"] or _torch_for(target.backend, wanted_plugin)
    if supported_torch.release(torch) < supported_torch.OLDEST:
        raise UsageError(
            say("torch {version} is too old for a rehearsal", version=torch),
            say("name torch 2.1.0 or later; it ran with {ran}", ran=supported_torch.ran()),
        )
    chosen, lacking = _plugin_for(target, torch, pins[package], plugin)
    files_given = tuple(path.absolute() for path in files)
    return EnvironmentRequest(torch, chosen, interpreter, version, tuple(others), files_given), lacking


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            say("--with {text}: {error}", text=text, error=str(error).splitlines()[0]),
            say(
                "write it as in requirements.txt: `--with torch==2.9.0`; a file is named by `--with-requirements FILE`"
            ),
        ) from None


def _pinned(requirement: Requirement, text: str) -> str:
    """Return the one version that a requirement names, without the name of a build."""
    specifiers = list(requirement.specifier)
    if len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith(".*"):
        with contextlib.suppress(InvalidVersion):
            version = Version(specifiers[0].version)
            numbers = ".".join(map(str, (*version.release, 0, 0)[:3]))
            return numbers + str(version.public)[len(version.base_version) :]
    raise UsageError(
        say("--with {text}: an environment has one version of {name}", text=text, name=requirement.name),
        say("name it: `--with {name}=={version}`", name=requirement.name, version="2.9.0"),
    )


def _check_file(path: Path) -> None:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise UsageError(say("{path} is too large for a file of requirements", path=path))
        path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(say("{path} cannot be read: {error}", path=path, error=error)) from None


def _torch_for(backend: type[Backend], plugin: str) -> str:
    """Return the torch that a plugin is for; without one, that of this environment, else the usual one."""
    if plugin:
        for row in plugin_rows(backend):
            versions = (row.use.partition("==")[2], *row.extra.get("also", ()))
            if Version(plugin).release in {Version(each).release for each in versions}:
                return row.name.partition("==")[2]
        return Version(plugin).base_version
    return torch_build().public or supported_torch.USUAL


def _plugin_for(target: Target, torch: str, pinned: str, wanted: str) -> tuple[str, Message | None]:
    """Return the plugin as pip names it, and why there is none."""
    package = canonicalize_name(target.backend.PLUGIN)
    if load_driver(target.backend) is None or wanted not in (UNSAID, INSTALLED):
        return "", None  # another wheel is named, or the simulated plugin
    version = pinned or target.version or target.for_torch(torch).version
    if version and (pinned or matching.belongs(target.backend, version, torch)):
        return f"{package}=={version}", None
    lacking = say(
        "there is no {plugin} for torch {torch}; there is one for torch {others}",
        plugin=target.backend.PLUGIN,
        torch=torch,
        others=", ".join(sorted({row.name.partition("==")[2] for row in plugin_rows(target.backend)}, key=Version)),
    )
    if wanted == INSTALLED:
        raise UsageError(lacking, say("name one of these in `--with`, or rehearse with `--plugin simulated`"))
    return "", say("{why}; the simulated plugin is rehearsed", why=lacking)


# --- interpreters ---


def find_interpreter(wanted: str = "", oldest: tuple[int, int] = _OLDEST_PYTHON) -> tuple[str, str]:
    """Return the path of an interpreter and the first two numbers of its version.

    Args:
        wanted: Its path, or these numbers; empty for the one that runs this.
        oldest: The oldest version that will do.

    Raises:
        UsageError: there is none.
    """
    here = ".".join(map(str, sys.version_info[:2]))
    if wanted in ("", here):
        ours = sys.executable
        return ours, here
    found = {wanted: Path(wanted)} if not _PYTHON.fullmatch(wanted) else {}
    if not found:
        found = {version: path for version, path in interpreters(oldest) if version == wanted}
    for path in found.values():
        version = _version_of(path)
        if version and Version(version).release >= oldest:
            return str(path.absolute()), version
    raise UsageError(
        say("this machine has no Python {python} that torchferry runs with", python=wanted),
        say(
            "found: {found}; `--python` takes a path, too",
            found=", ".join(version for version, _ in interpreters(oldest)),
        ),
    )


def interpreters(oldest: tuple[int, int] = _OLDEST_PYTHON) -> Iterable[tuple[str, Path]]:
    """Return the interpreters of this machine, each version once: on PATH, of pyenv and of uv."""
    found: dict[str, Path] = {}
    for minor in range(oldest[1], 20):
        on_path = find_tool(f"python3.{minor}")
        if on_path is not None and _version_of(Path(on_path)):  # pyenv has a script for those that it does not offer
            found[f"3.{minor}"] = Path(on_path)
    homes = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions"),
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")),
    )
    for path in (path for home in homes for path in sorted(home.glob("*/bin/python3"))):
        version = _version_of(path)
        if version and Version(version).release >= oldest:
            found.setdefault(version, path)
    return sorted(found.items(), key=lambda item: Version(item[0]))


def _version_of(path: Path) -> str:
    """Return the first two numbers of an interpreter's version; empty for what is none."""
    command = [str(path), "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    if find_tool(command[0]) is None:
        return ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=tool_environment()
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if _PYTHON.fullmatch(done.stdout.strip()) else ""
