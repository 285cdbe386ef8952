"""What a connected machine fetches for a bundle: images, packages of the system, wheels for the container's Python.

Installers are never fetched: they come from the vendor, who asks for an account. Programs are started by lists of
words; what they need of a network is that machine's own.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from torchferry.backends.deployment import DeployFile, Deployment
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say

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
        facts: What is known of the target's installation.
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
    pip = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--implementation", "cp"]
    pip += ["--python-version", facts.python, "--dest", str(target)]
    pip += [word for platform in _PLATFORMS for word in ("--platform", f"{platform}_{machine}")]
    _run([*pip, *file.packages], tell)
    if file.no_deps:
        _run([*pip, "--no-deps", *file.no_deps], tell)
    return target


def fetch_controller(folder: Path, tell: Callable[[str], None]) -> None:
    """Fetch the wheels of torchferry and Ansible, for a machine without a network that is to install from.

    Raises:
        TorchferryError: pip failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    sources = _own_sources()
    if sources:  # one that was installed from a folder has no other place to come from
        _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), sources], tell)
    own = f"torchferry[deploy]=={importlib.metadata.version('torchferry')}"
    fetched = ["download", "--only-binary=:all:", "--find-links", str(folder), "--dest", str(folder)]
    _run([*pip, *fetched, own, *CONTROLLER], tell)


def _own_sources() -> str:
    """Return the folder that torchferry was installed from; empty where it came as a wheel (PEP 610)."""
    text = importlib.metadata.distribution("torchferry").read_text("direct_url.json")
    try:
        url = urlsplit(parsed_json(text or "{}").get("url", ""))
    except (ValueError, AttributeError):
        return ""
    return url2pathname(url.path) if url.scheme == "file" and Path(url2pathname(url.path)).is_dir() else ""


def _run(command: list[str], tell: Callable[[str], None]) -> None:
    tell("+ " + " ".join(command[:8]) + (" ..." if len(command) > 8 else ""))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TorchferryError(
            say("{program} cannot be started: {problem}", program=command[0], problem=error.strerror),
            say("install it, or fetch the files yourself and name them with --file"),
        ) from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise TorchferryError(
            say("{program} failed: {problem}", program=command[0], problem="\n    ".join(last)),
            say("fetch the files yourself and name them with --file"),
        )
