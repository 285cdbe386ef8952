"""Environments for the matrix: those of `torchferry rehearse --with`, and the libraries that people had with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.rehearsal.environments import cuda_free, store
from torchferry.rehearsal.environments.filling import site_packages_of
from torchferry.rehearsal.environments.package_installer import PackageInstaller
from torchferry.rehearsal.environments.request import EnvironmentRequest, find_interpreter

ROOT = Path(__file__).parents[2]
LIMIT = 1200
"""Seconds for one run, which may build the device first."""


OF_THE_TIME = {
    "2.1.0": {
        "torchvision": "0.16.0", "transformers": "4.36.2", "tokenizers": "0.15.0", "huggingface-hub": "0.20.1",
        "accelerate": "0.25.0", "diffusers": "0.25.0", "timm": "0.9.12", "opencv-python-headless": "4.8.1.78",
        "scipy": "1.11.4", "pandas": "2.1.4",
    },
    "2.5.1": {
        "torchvision": "0.20.1", "transformers": "4.46.3", "tokenizers": "0.20.3", "huggingface-hub": "0.26.2",
        "accelerate": "1.1.1", "diffusers": "0.31.0", "timm": "1.0.12", "opencv-python-headless": "4.11.0.86",
    },
    "2.7.1": {
        "torchvision": "0.22.1", "transformers": "4.52.4", "tokenizers": "0.21.1", "huggingface-hub": "0.32.4",
        "accelerate": "1.7.0", "diffusers": "0.33.1", "timm": "1.0.15", "opencv-python-headless": "4.11.0.86",
    },
    "2.9.0": {
        "torchvision": "0.24.0", "transformers": "4.57.1", "tokenizers": "0.22.1", "huggingface-hub": "0.35.3",
        "accelerate": "1.11.0", "diffusers": "0.35.2", "timm": "1.0.20", "opencv-python-headless": "4.12.0.88",
    },
    "2.13.0": {
        "torchvision": "0.28.0", "transformers": "5.23.0", "tokenizers": "0.23.3", "huggingface-hub": "2.4.0",
        "accelerate": "1.15.0", "diffusers": "0.42.1", "timm": "1.0.31", "opencv-python-headless": "5.0.0.93",
        "httpx2": "2.16.2", "httpcore2": "2.16.2", "h11": "0.16.0", "anyio": "4.16.0", "truststore": "0.10.5",
        "typer": "0.29.2", "shellingham": "1.5.4",
    },
}  # fmt: skip
"""For each torch whose real programs run: the libraries that people had with it."""

_BESIDE = (
    "pillow", "requests", "tqdm", "psutil", "regex", "urllib3", "certifi", "idna", "charset-normalizer", "matplotlib",
    "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "python-dateutil", "pytz", "tzdata", "six",
    "seaborn", "importlib-metadata", "zipp", "scipy", "pandas", "hf-xet", "einops",
)  # fmt: skip
"""What these and the programs import."""

_NEEDED = ("pyyaml", "decorator", "attrs", "pytest", "safetensors", "tomli")
"""What the plugins import, and the checks."""


class AbsentError(Exception):
    """Something that a version needs cannot be had."""


def this_python() -> str:
    """The first two numbers of this Python's version."""
    return ".".join(map(str, sys.version_info[:2]))


@contextmanager
def _absent() -> Iterator[None]:
    """Say of what torchferry refuses that it cannot be had."""
    try:
        yield
    except TorchferryError as error:
        raise AbsentError("; ".join(error.lines())) from None


class Environment:
    """A Python environment with one version of torch."""

    def __init__(self, cache: Path, torch: str, python: str) -> None:
        os.environ["TORCHFERRY_CACHE"] = str(cache / "torchferry")
        self.wheels = cache / "wheels"
        with _absent():
            path, _ = find_interpreter(python)
        self._request = EnvironmentRequest(torch, "", path, python, _NEEDED)
        self.folder = store.environments_folder() / self._request.name
        # what lies in a folder of this name is a library's, and not the user's own
        self.packages = cache / "packages" / self.folder.name / "site-packages"
        self.python = self.folder / "bin" / "python"
        self.torch = torch
        self.tag = "cp" + python.replace(".", "")
        self.variables = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCHFERRY_LANG": "en",  # the results are read from sentences
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        self.variables.pop("PYTHONPATH", None)

    def make(self) -> None:
        """Install torch, torchferry, and what the plugin and torchferry import.

        Raises:
            AbsentError: torch or the Python cannot be had.
        """
        with _absent():
            os.close(store.use(self._request).descriptor)

    def add_packages(self) -> bool:
        """Install the libraries of this torch's time in a folder of their own; return whether any are known.

        Raises:
            AbsentError: one of them cannot be had.
        """
        versions = OF_THE_TIME.get(self.torch, {})
        if versions and not (self.packages / "made").exists():
            wanted = [f"{name}=={version}" for name, version in versions.items()]
            wanted += [name for name in _BESIDE if name not in versions]
            with _absent():
                self._installer.install("--no-deps", "--only-binary=:all:", "--target", str(self.packages), *wanted)
            # torchvision is built for CUDA, whichever torch it lies beside
            cuda_free.replace_libraries(self._torch_folder(), self.packages.glob("torchvision/*.so"))
            (self.packages / "made").touch()
        return bool(versions)

    def _torch_folder(self) -> Path:
        return site_packages_of(self.folder) / "torch"

    @property
    def _installer(self) -> PackageInstaller:
        return PackageInstaller(self.python, same_version=self._request.python_version == this_python())

    def download(self, name: str, version: str) -> Path:
        """Return the wheel of a package for this Python.

        Raises:
            AbsentError: there is none.
        """
        pattern = f"{name.replace('-', '_')}-{version}-*{self.tag}-*.whl"  # a build's number may come before the tag
        found = sorted(self.wheels.glob(pattern))
        if not found:
            with _absent():
                return self._installer.download(f"{name}=={version}", self.wheels)
        return found[0]

    def remove(self) -> None:
        """Remove the environment."""
        if self.folder.exists():
            store.remove(self.folder.name)
        shutil.rmtree(self.packages.parent, ignore_errors=True)

    def run(self, *words: str, folder: Path | None = None, packages: bool = False) -> tuple[str, str, int]:
        """Run a command, with the libraries of the time if so asked: what it printed, what it told, its exit code."""
        variables = dict(self.variables)
        if packages:
            # a CPU build of torch loads none of the empty libraries by itself
            libraries = self._torch_folder() / "lib"
            variables |= {"PYTHONPATH": str(self.packages), "LD_LIBRARY_PATH": str(libraries)}
        limit = LIMIT * (10 if packages else 1)
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, env=variables, cwd=folder, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return "", f"not ended after {limit} s", 124
        return done.stdout, done.stderr, done.returncode

    @cached_property
    def versions(self) -> tuple[str, str]:
        """What torch and Python say of their versions.

        Raises:
            AbsentError: torch cannot be imported.
        """
        program = "import sys, torch; print(torch.__version__, sys.version.split()[0])"
        out, err, code = self.run(str(self.python), "-c", program)
        if code:
            reason = (err.splitlines() or [f"exit code {code}"])[-1]
            raise AbsentError(f"this torch cannot be imported here: {reason}")
        torch, python = out.split()
        return torch, python
