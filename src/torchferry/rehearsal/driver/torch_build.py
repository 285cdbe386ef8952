"""Which build of torch an environment has, read from its files: `import torch` would run it."""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from torchferry.backends.base import Backend
from torchferry.core import supported_torch
from torchferry.core.messages import Message, say
from torchferry.rehearsal.driver.description import load_driver

_LARGEST = 1 << 16
"""Bytes of torch's `version.py`; it has a tenth of a kilobyte."""


@dataclass(frozen=True)
class TorchBuild:
    """A build of torch.

    Attributes:
        version: As `torch.__version__` says; empty where there is no torch.
        cuda: Version of CUDA that it is built for; empty for a build for the CPU.
    """

    version: str = ""
    cuda: str = ""

    @property
    def public(self) -> str:
        """The version without the name of the build."""
        return self.version.partition("+")[0]


def torch_build() -> TorchBuild:
    """Return the build of torch that this environment has."""
    version = ""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("torch")
    said = _version_file()
    return TorchBuild(said.get("__version__") or version, said.get("cuda") or "")


def _version_file() -> dict[str, str]:
    """Return the texts that torch's `version.py` sets."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return {}
    return {} if spec is None or spec.origin is None else texts_set_in(Path(spec.origin).with_name("version.py"))


def texts_set_in(path: Path) -> dict[str, str]:
    """Return the texts that a small Python file sets at its top, by name; nothing of one that cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            tree = ast.parse(file.read(_LARGEST))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    texts: dict[str, str] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            texts[target.id] = value.value
    return texts


def unfit(backend: type[Backend], build: TorchBuild, folder: str) -> Message | None:
    """Return why a plugin cannot be loaded beside a build of torch; None where it can, or nobody knows.

    Args:
        backend: The plugin's backend.
        build: The build.
        folder: Where the plugin was unpacked; empty for one that is installed.
    """
    if not build.cuda or not _refuses_cuda(backend, build, folder):
        return None
    return say(
        "torch {version} is a build for CUDA {cuda}, and {plugin} needs the build for the CPU beside it; install that "
        "with `{command}`, or let `torchferry rehearse --with torch=={public}` make an environment that has it",
        version=build.version,
        cuda=build.cuda,
        plugin=backend.PLUGIN,
        command=f"pip install torch=={build.public}+cpu --index-url {supported_torch.CPU_INDEX}",
        public=build.public,
    )


def _refuses_cuda(backend: type[Backend], build: TorchBuild, folder: str) -> bool:
    driver = load_driver(backend)
    if driver is None:
        return False
    with contextlib.suppress(InvalidVersion):
        if driver.beside_cuda_until:
            return Version(build.version).release[:2] > Version(driver.beside_cuda_until).release
    found = importlib.metadata.distributions(name=backend.PLUGIN, path=[folder] if folder else sys.path)
    return any(_asks_for_cpu(each) for distribution in found for each in distribution.requires or ())


def _asks_for_cpu(requirement: str) -> bool:
    """Whether a requirement of a plugin's metadata is one such as `torch==2.9.1+cpu`."""
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return False
    return parsed.name.lower() == "torch" and any(each.version.endswith("+cpu") for each in parsed.specifier)
