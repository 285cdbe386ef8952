"""What a connected machine fetches for a bundle: images, packages of the system, wheels for the container's Python.

Installers are never fetched: they come from the vendor, who requests an account. Programs are started by lists of
words; what they need of a network is that machine's own.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torchferry.backends.deployment import DeployFile, Deployment
from torchferry.core import own_python
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.tool_environment import tool_environment

_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux1", "manylinux2010")
"""Tags of wheels that run on the systems in question, whose glibc is 2.17 or newer."""

_DEBS = """\
set -e
apt-get update
apt-get install -y --download-only --no-install-recommends -o Dir::Cache::archives=/out "$@"
rm -rf /out/lock /out/partial
chown -R "$OWNER" /out
"""
"""Runs in the image itself, so that exactly what it lacks is fetched. No target ever runs it."""

CONTROLLER = ("ansible-core>=2.16,<2.17", "ansible-runner>=2.4")
"""What the machine needs that installs: the line of ansible-core that still serves targets with Python 3.6."""


def can_be_fetched(file: DeployFile) -> bool:
    """Whether a file is made of public things."""
    return file.kind == "image" or (file.kind in ("debs", "wheels") and bool(file.packages))


def fetch(
    file: DeployFile, facts: Deployment, values: Mapping[str, str], folder: Path, tell: Callable[[str], None]
) -> Path:
    """Fetch a file of a bundle into a new folder; return the path of the file or folder.

    Args:
        file: What is wanted.
        facts: The known facts about the target's installation.
        values: The settings.
        folder: An empty folder.
        tell: Takes the command lines that are run, for the user to see.

    Raises:
        TorchferryError: a program is missing or failed.
    """
    if file.kind == "image":
        path = folder / "image.tar"
        _run([values["engine"], "pull", values["image"]], tell)
        _run([values["engine"], "save", "-o", str(path), values["image"]], tell)
        return path
    target = folder / file.name
    target.mkdir()
    if file.kind == "debs":
        owner = f"OWNER={os.getuid()}:{os.getgid()}"
        run = [values["engine"], "run", "--rm", "-e", owner, "-v", f"{target.resolve()}:/out", values["image"]]
        _run([*run, "bash", "-c", _DEBS, "fetch", *file.packages], tell)
        return target
    machine = facts.architecture or "x86_64"
    options = ["download", "--only-binary=:all:", "--implementation", "cp"]
    options += ["--python-version", facts.python, "--dest", str(target.resolve())]
    options += [word for platform in _PLATFORMS for word in ("--platform", f"{platform}_{machine}")]
    _pip([*options, *file.packages], target, tell)
    if file.no_deps:
        _pip([*options, "--no-deps", *file.no_deps], target, tell)
    return target


def fetch_controller(folder: Path, tell: Callable[[str], None]) -> None:
    """Fetch the wheels of torchferry and Ansible, for a machine without a network that is to install from.

    Raises:
        TorchferryError: pip failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dest = str(folder.resolve())
    sources = _own_sources()
    if sources:  # one that was installed from a folder has no other place to come from
        _pip(["wheel", "--no-deps", "--wheel-dir", dest, sources], folder, tell)
    own = f"torchferry[deploy]=={importlib.metadata.version('torchferry')}"
    fetched = ["download", "--only-binary=:all:", "--find-links", dest, "--dest", dest]
    _pip([*fetched, own, *CONTROLLER], folder, tell)


def _own_sources() -> str:
    """Return the folder that torchferry was installed from; empty where it came as a wheel (PEP 610)."""
    text = importlib.metadata.distribution("torchferry").read_text("direct_url.json")
    try:
        url = urlsplit(parsed_json(text or "{}").get("url", ""))
    except (ValueError, AttributeError):
        return ""
    return url2pathname(url.path) if url.scheme == "file" and Path(url2pathname(url.path)).is_dir() else ""


def _pip(words: list[str], folder: Path, tell: Callable[[str], None]) -> None:
    """Run pip in a folder of ours: pip reads settings of the folder that it is started in, and its builds run there."""
    _run(own_python.module_command("pip", *words), tell, ["pip", *words], folder)


def _run(
    command: list[str], tell: Callable[[str], None], shown: Sequence[str] = (), folder: Path | None = None
) -> None:
    shown = shown or command
    line = " ".join(shown[:8]) + (" ..." if len(shown) > 8 else "")
    tell(f"+ {line}")
    try:
        with doing(say("running {command}", command=line)):
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env=tool_environment(),
                cwd=folder,
            )
    except OSError as error:
        raise TorchferryError(
            say("{program} cannot be started: {problem}", program=shown[0], problem=error.strerror),
            say("install it, or fetch the files yourself and name them with --file"),
        ) from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise TorchferryError(
            say("{program} failed: {problem}", program=shown[0], problem="\n    ".join(last)),
            say("fetch the files yourself and name them with --file"),
        )
