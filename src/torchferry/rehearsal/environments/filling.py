"""Fill an environment: Python, torch for the CPU, the plugin, torchferry itself, and what else was asked for."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import torchferry
from torchferry.core import supported_torch
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.core.own_python import module_command
from torchferry.core.progress import doing
from torchferry.core.terminal import print_own_notice
from torchferry.core.tool_environment import tool_environment
from torchferry.rehearsal.environments import cuda_free
from torchferry.rehearsal.environments.package_installer import NoAnswerError, NotOfferedError, PackageInstaller
from torchferry.rehearsal.environments.request import EnvironmentRequest, find_interpreter, interpreters

_OF_CUDA = re.compile(r"(nvidia|cuda|triton|pytorch-triton)(-|$)")
"""Packages that a build of torch for CUDA asks for."""

_BESIDE_TORCH = ("setuptools<81",)
"""What modules of torch import in part without asking for it; later ones have no `pkg_resources`."""

_PLUGIN_IMPORTS = ("pyyaml", "decorator", "attrs")
"""What plugins import, of which the metadata of some of their versions say nothing."""

_HAVE_LIBRARIES = ("torchvision", "torchaudio")
"""Packages that are built for the CUDA of a torch."""

_HELD = "torch-as-it-is.txt"
_MOST_SHOWN = 8
_OURS = ("torchferry", "torchferry_entry_points")


def fill(folder: Path, request: EnvironmentRequest) -> None:
    """Make an environment in a folder that does not exist.

    Raises:
        TorchferryError: something of it cannot be had, or there is no room.
    """
    python = folder / "bin" / "python"
    installer = PackageInstaller(python, same_version=request.python_version == find_interpreter()[1])
    with doing(say("making the environment")):
        _make_venv(folder, request.python, with_pip=installer.is_needed)
    site_packages = site_packages_of(folder)
    own = ["numpy<2" if supported_torch.release(request.torch) < (2, 3) else "numpy", *_BESIDE_TORCH, *_own_needs()]
    _install_torch(installer, request, site_packages, own)
    held = folder / _HELD
    held.write_text(f"torch=={_installed(site_packages, 'torch').version}\n", encoding="utf-8")
    if request.plugin:
        _install_plugin(installer, request, site_packages)
    link_torchferry(folder)
    files = [word for path in request.requirement_files for word in ("-r", str(path))]
    if request.packages or files:
        installer.install("--constraint", str(held), *request.packages, *files)
        libraries = [path for name in _HAVE_LIBRARIES for path in site_packages.glob(f"{name}/**/*.so")]
        if cuda_free.is_cuda_free(site_packages / "torch") and libraries:
            cuda_free.replace_libraries(site_packages / "torch", libraries)


def site_packages_of(folder: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next(folder.glob("lib/python*/site-packages"))


def link_torchferry(folder: Path) -> None:
    """Put this torchferry into an environment: as it is now, and as it is changed."""
    site_packages = site_packages_of(folder)
    home = Path(torchferry.__file__).parent.parent
    for name in _OURS:
        link, package = site_packages / name, home / name
        if not link.is_symlink() or link.readlink() != package:
            link.unlink(missing_ok=True)
            link.symlink_to(package)
    metadata = site_packages / f"torchferry-{torchferry.__version__}.dist-info"
    if metadata.is_dir():
        return
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torchferry\nVersion: {torchferry.__version__}\n")
    points = _own_distribution_text("entry_points.txt")
    (metadata / "entry_points.txt").write_text(points, encoding="utf-8")
    _script(folder, "torchferry", "torchferry.__main__", "main")


def _own_distribution_text(file: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.distribution("torchferry").read_text(file) or ""
    return ""


def _own_needs() -> list[str]:
    """Return what torchferry needs of other packages, without its extras."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return [*_needs_of(importlib.metadata.distribution("torchferry"))]
    return ["click>=8.1", "rich>=13", "packaging>=23", "tomli>=2"]


def _script(folder: Path, name: str, module: str, function: str) -> None:
    """Write a program of an environment, as pip makes them of entry points."""
    path = folder / "bin" / name
    text = f"#!{folder / 'bin' / 'python'}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _make_venv(folder: Path, python: str, *, with_pip: bool) -> None:
    command = module_command("venv", *([] if with_pip else ["--without-pip"]), str(folder), python=python)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=tool_environment())
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise TorchferryError(
            say("{python} makes no environment: {error}", python=python, error=lines[-1] if lines else "?"),
            say("install its module venv (python3-venv on Debian and Ubuntu), or name another Python with `--python`"),
        )


def _installed(site_packages: Path, name: str) -> importlib.metadata.Distribution:
    return next(iter(importlib.metadata.distributions(name=name, path=[str(site_packages)])))


# --- torch ---


def _install_torch(
    installer: PackageInstaller, request: EnvironmentRequest, site_packages: Path, beside: list[str]
) -> None:
    """Install the build for the CPU, from where the user's pip looks, else from PyTorch's index; else any build.

    A build for CUDA is then unpacked without CUDA's libraries.
    """
    wanted = f"torch=={request.torch}+cpu"
    of_pytorch = ("--extra-index-url", supported_torch.CPU_INDEX, "--retries", "2", "--timeout", "15")
    with contextlib.suppress(NotOfferedError):
        installer.install(wanted, *beside)
        return
    with contextlib.suppress(NotOfferedError, NoAnswerError):  # the user's own indexes may have another build
        installer.install(*of_pytorch, wanted, *beside)
        return
    with tempfile.TemporaryDirectory(prefix="torch-", dir=site_packages.parents[2]) as folder:
        try:
            wheel = installer.download(f"torch=={request.torch}", Path(folder))
        except NotOfferedError as error:
            raise _no_torch(request, error.versions or installer.offered("torch")) from None
        if not cuda_free.is_for_cuda(wheel):
            installer.install(str(wheel), *beside)
            return
        print_own_notice(
            say(
                "no build of torch {version} for the CPU is offered; that for CUDA is taken, without its libraries",
                version=request.torch,
            )
        )
        with doing(say("unpacking {path}", path=wheel.name)):
            cuda_free.unpack(wheel, site_packages, release=supported_torch.release(request.torch))
    distribution = _installed(site_packages, "torch")
    _write_needs(distribution)
    needs = [each for each in _needs_of(distribution) if not _OF_CUDA.match(canonicalize_name(Requirement(each).name))]
    installer.install(*needs, *beside)
    for point in distribution.entry_points:
        if point.group == "console_scripts":
            _script(site_packages.parents[2], point.name, point.module, point.attr)


def _needs_of(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    """Yield what a distribution needs of others, without its extras."""
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or "extra" not in str(requirement.marker):
            yield text


def _write_needs(distribution: importlib.metadata.Distribution) -> None:
    """Take CUDA's packages off what the metadata of a torch ask for: pip would install gigabytes beside it."""
    path = Path(str(distribution.locate_file(""))) / f"torch-{distribution.version}.dist-info" / "METADATA"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [
        line
        for line in lines
        if not line.startswith("Requires-Dist: ")
        or not _OF_CUDA.match(canonicalize_name(Requirement(line.partition(": ")[2].strip()).name))
    ]
    path.write_text("".join(kept), encoding="utf-8")


def _no_torch(request: EnvironmentRequest, versions: Sequence[str]) -> UsageError:
    """Return the error for a torch that no index offers for this Python: with what it does offer."""
    offered = sorted({Version(each).public for each in versions}, key=Version)
    others = [version for version, path in interpreters() if version != request.python_version]
    shown = ", ".join(offered[-_MOST_SHOWN:]) if offered else "-"
    problem = say(
        "pip finds no torch {version} for Python {python}", version=request.torch, python=request.python_version
    )
    if offered and Version(request.torch) < Version(offered[0]):
        advice: Message = say(
            "the oldest that it finds is {oldest}: Python {python} is too new for this torch; name an older one with "
            "`--python` (on this machine: {others})",
            oldest=offered[0],
            python=request.python_version,
            others=", ".join(others) or "-",
        )
    else:
        advice = say("it finds {shown}", shown=shown)
    return UsageError(problem, advice)


# --- the plugin ---


def _install_plugin(installer: PackageInstaller, request: EnvironmentRequest, site_packages: Path) -> None:
    """Install the plugin; where no wheel of that version is for this Python, another one of the same release."""
    plugin = Requirement(request.plugin)
    version = request.plugin.partition("==")[2]
    try:
        installer.install("--no-deps", "--only-binary=:all:", request.plugin)
    except NotOfferedError as error:
        same = [each for each in error.versions if Version(each).release == Version(version).release]
        if not same:
            offered = sorted({Version(each).base_version for each in error.versions}, key=Version)
            raise UsageError(
                say("pip finds no {plugin} for Python {python}", plugin=request.plugin, python=request.python_version),
                say(
                    "it finds {shown}; rehearse with `--plugin simulated`, or name another Python with `--python`",
                    shown=", ".join(offered[-_MOST_SHOWN:]) or "-",
                ),
            ) from None
        newest = max(same, key=Version)
        print_own_notice(
            say(
                "{plugin} has no wheel for Python {python}; {newest} of the same release has",
                plugin=request.plugin,
                python=request.python_version,
                newest=newest,
            )
        )
        installer.install("--no-deps", "--only-binary=:all:", f"{plugin.name}=={newest}")
    needs = [each for each in _needs_of(_installed(site_packages, plugin.name)) if Requirement(each).name != "torch"]
    held = site_packages.parents[2] / _HELD
    installer.install("--constraint", str(held), *_PLUGIN_IMPORTS, *needs)
