"""Plugins for another torch, damaged, there twice, or beside a half-installed toolkit: small wheels stand in."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.warm_python import ferry, python
from torchferry.backends import registry
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.rehearsal import build
from torchferry.rehearsal.config import prepare
from torchferry.rehearsal.driver import building, matching, plugin, plugin_state, torch_build
from torchferry.rehearsal.driver.description import load_driver
from torchferry.rehearsal.driver.plugin import unpacked

pytestmark = pytest.mark.rehearsal

BACKEND = registry.choose("npu").backend
HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"


def wheel(
    folder: Path,
    code: str,
    version: str = "2.1.0",
    package: str = "torch_npu",
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    path = folder / f"torch_npu-{version}-{HERE}-{HERE}-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"{package}/__init__.py", code)
    return path


@pytest.mark.parametrize(
    ("plugin", "version", "belongs"),
    [
        ("2.9.0", "2.9.0+cpu", True),
        ("2.1.0.post17", "2.1.0+cu121", True),
        ("2.9.1", "2.9.0", False),
        ("2.7.1", "2.13.0+cpu", False),
        ("2.13.0rc1", "2.13.0", True),
        ("of somebody", "2.13.0", True),
    ],
)
def test_a_plugin_belongs_to_the_torch_of_its_number(plugin: str, version: str, belongs: bool) -> None:
    assert matching.belongs(BACKEND, plugin, version) is belongs


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("2.9.0+cpu", "for torch 2.9.0 install torch-npu==2.9.0"),
        ("2.2.2", "no plugin for torch 2.2.2 is known; torch_npu 2.1.0 is for torch 2.1.0"),
    ],
)
def test_what_fits_comes_from_the_vendors_table(version: str, advice: str) -> None:
    assert matching.what_fits(BACKEND, "2.1.0", version).render("en").startswith(advice)


def test_another_plugins_words_come_first_and_then_what_to_install() -> None:
    def load() -> None:
        raise ImportError("libtorch_npu.so: undefined symbol: _ZN3c10\nand more")

    with pytest.raises(TorchferryError) as caught:
        matching.explained(BACKEND, "2.1.0", "2.9.0+cpu", load)
    assert caught.value.message.render("en").endswith(": libtorch_npu.so: undefined symbol: _ZN3c10")
    with pytest.raises(TorchferryError) as caught:  # this one is for this torch: somebody lacks the name
        matching.explained(BACKEND, "2.9.0", "2.9.0+cpu", load)
    assert caught.value.advice is not None
    assert "driver/driver.toml of npu lacks it" in caught.value.advice.render("en")

    def fail() -> None:
        raise ImportError("no module named yaml")

    with pytest.raises(ImportError):  # what else is wrong with it is for itself to say
        matching.explained(BACKEND, "2.9.0", "2.9.0+cpu", fail)


COMPRESSIONS = {"bytes": zipfile.ZIP_DEFLATED, "bytes of bz2": zipfile.ZIP_BZIP2, "bytes of lzma": zipfile.ZIP_LZMA}


@pytest.mark.parametrize("damage", [*COMPRESSIONS, "package", "cut", "empty"])
def test_a_damaged_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    package = "other" if damage == "package" else "torch_npu"
    compression = COMPRESSIONS.get(damage, zipfile.ZIP_DEFLATED)
    path = wheel(tmp_path, "x = 1\n" * 1000, package=package, compression=compression)
    content = bytearray(path.read_bytes())
    if damage in COMPRESSIONS:
        start = content.index(b"__init__.py") + len("__init__.py") + (9 if compression == zipfile.ZIP_LZMA else 0)
        content[start : start + 12] = bytes(range(12))
    elif damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "empty":
        content.clear()
    path.write_bytes(bytes(content))
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        prepare("npu", "", 0, None, (), str(path))
    assert not [folder for folder in (tmp_path / "cache" / "rehearsal").glob("*") if folder.is_dir()]


_LINK, _SETUID, _DEVICE = (mode << 16 for mode in (0o120777, 0o104755, 0o020666))
_ENTRY_POINTS = b"[torch.backends]\na b = x y : z ; touch started\n"

BOMBS: dict[str, tuple[dict[str, tuple[bytes, int]], str]] = {
    "what is harmless": ({"torch_npu/a.py": (b"x = 1\n", 0)}, ""),
    "names that differ in their case": ({"torch_npu/A": (b"1", 0), "torch_npu/a": (b"2", 0)}, ""),
    "a link is a file": ({"torch_npu/l": (b"/etc/passwd", _LINK)}, ""),
    "a program for others, and a device": ({"torch_npu/s": (b"1", _SETUID), "torch_npu/d": (b"1", _DEVICE)}, ""),
    "entry points are not read": ({"torch_npu-2.1.0.dist-info/entry_points.txt": (_ENTRY_POINTS, 0)}, ""),
    "an absolute path": ({"/etc/x": (b"1", 0)}, "outside of itself: /etc/x"),
    "a path upwards": ({"torch_npu/../../x": (b"1", 0)}, "outside of itself"),
    "no name": ({"": (b"1", 0)}, "outside of itself"),
    "a way through a link": ({"torch_npu/l": (b"/tmp", _LINK), "torch_npu/l/x": (b"1", 0)}, "Not a directory"),
    "a long name": ({"torch_npu/" + "a" * 300: (b"1", 0)}, "name too long"),
    "many folders": ({"torch_npu/" + "a/" * 2000 + "x": (b"1", 0)}, "cannot be read as a wheel"),
    "zeros without end": ({"torch_npu/b": (bytes((1 << 28) + 1), 0)}, "no plugin of its size"),
}


@pytest.mark.parametrize(("files", "refusal"), BOMBS.values(), ids=BOMBS)
def test_a_wheel_that_means_harm_is_refused_or_becomes_plain_files(
    files: dict[str, tuple[bytes, int]], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "torch_npu-2.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (content, attributes) in {"torch_npu/__init__.py": (b"", 0), **files}.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, attributes
            archive.writestr(entry, content)
    if refusal:
        with pytest.raises(UsageError, match=refusal):
            unpacked(path, BACKEND)
    else:
        unpacked(path, BACKEND)
    left = [file for file in tmp_path.rglob("*") if not file.is_dir() and file != path]
    assert {
        file.name for file in left if file.is_symlink() or file.stat().st_mode & 0o7111 or not file.is_file()
    } == set()
    assert {file.relative_to(tmp_path).parts[0] for file in left} <= {"cache"}
    assert bool(refusal) != any(file.name == "__init__.py" for file in left)


def test_two_versions_in_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("2.9.0", "2.9.1"):
        folder = tmp_path / f"torch_npu-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch-npu\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"in several versions: 2\.9\.0, 2\.9\.1"):
        prepare("npu", "", 0, None, (), "installed")
    shutil.rmtree(tmp_path / "torch_npu-2.9.1.dist-info")
    shipped = prepare("npu", "", 0, None, (), "installed").shipped
    assert shipped is not None
    assert shipped.version == "2.9.0"


def rehearse(path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [ferry(), "-m", "torchferry", "rehearse", "-t", "npu", "--plugin", str(path), "--"]
    return subprocess.run(
        [*command, sys.executable, "-c", "import torch, torch_npu"],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**ENVIRONMENT, **variables},
        check=False,
    )


needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")


@needs_compiler
def test_a_plugin_for_another_torch_ends_the_program_with_what_to_install(tmp_path: Path) -> None:
    done = rehearse(wheel(tmp_path, "raise ImportError('undefined symbol: _ZN3c10')"))
    line = next(line for line in done.stderr.splitlines() if "does not load" in line)
    assert line.startswith(
        f"torchferry: torch_npu 2.1.0 does not load with torch {importlib.metadata.version('torch')}: undefined symbol"
    )
    assert "install torch-npu==" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


@needs_compiler
def test_a_toolkit_that_is_installed_by_half_is_not_asked(tmp_path: Path) -> None:
    toolkit = tmp_path / "cann"
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "lib64" / "libascendcl.so").write_text("no library")
    code = "import os; raise ImportError(os.environ['ASCEND_HOME_PATH'] + ' ' + os.environ['ASCEND_OPP_PATH'])"
    home = str(toolkit)
    done = rehearse(
        wheel(tmp_path, code),
        ASCEND_HOME_PATH=home,
        ASCEND_OPP_PATH=f"{home}/opp",
        LD_LIBRARY_PATH=os.pathsep.join([f"{home}/lib64", os.environ.get("LD_LIBRARY_PATH", "")]),
    )
    line = next(line for line in done.stderr.splitlines() if "does not load" in line)
    assert home not in line
    assert line.count("driver-npu-") == 2


@pytest.mark.rehearsal
def test_a_program_finds_a_folder_of_the_vendor_software_that_is_empty_and_its_own_one_kept() -> None:
    asks = "home = os.environ['ASCEND_HOME_PATH']; print(home, os.listdir(home), os.environ['ASCEND_OPP_PATH'])"
    code = f"import os, torch_npu; {asks}"
    command = [ferry(), "-m", "torchferry", "rehearse", "-t", "npu", "--", python(), "-c", code]
    environment = {**ENVIRONMENT, "ASCEND_OPP_PATH": "/opp/of/the/user"}
    environment.pop("ASCEND_HOME_PATH", None)
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, env=environment, check=False)
    home, _, rest = done.stdout.partition(" ")
    assert Path(home).name == "no-vendor-software-in-a-rehearsal", done.stderr
    assert rest == "[] /opp/of/the/user\n"


@needs_compiler
def test_a_driver_that_was_built_before_serves_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = load_driver(BACKEND)
    assert driver is not None
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path))
    folder = building.driver_folder(driver)
    monkeypatch.setenv("CC", str(tmp_path / "absent"))
    assert building.driver_folder(driver) == folder
    shutil.rmtree(folder)
    with pytest.raises(build.MissingCompilerError):
        building.driver_folder(driver)


def install(folder: Path, name: str, version: str, *, needs: str = "", entry: str = "") -> None:
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    required = f"Requires-Dist: {needs}\n" if needs else ""
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
    (metadata / "entry_points.txt").write_text(f"[torch.backends]\n{entry}\n" if entry else "")


@pytest.mark.parametrize(
    ("version", "cuda", "until", "needs", "fits"),
    [
        ("2.13.0+cpu", "", "2.9", "", True),
        ("2.13.0+cu130", "13.0", "2.9", "torch==2.13.0.*", False),
        ("2.10.0", "12.8", "2.9", "", False),  # as PyPI has it: the name does not say it
        ("2.9.1", "12.8", "2.9", "torch==2.9.1+cpu", True),
        ("2.9.1", "12.8", "", "torch==2.9.1+cpu", False),
        ("2.9.1", "12.8", "", "torch==2.9.1", True),
        ("2.9.1", "12.8", "", "", True),
        ("of somebody", "12.8", "2.9", "torch==2.9.1+cpu", False),
    ],
)
def test_a_build_for_cuda_is_known_before_the_plugin_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, cuda: str, until: str, needs: str, fits: bool
) -> None:
    driver = load_driver(BACKEND)
    assert driver is not None
    monkeypatch.setattr(torch_build, "load_driver", lambda backend: replace(driver, beside_cuda_until=until))
    install(tmp_path, "torch_npu", "2.9.1", needs=needs)
    why = torch_build.unfit(BACKEND, torch_build.TorchBuild(version, cuda), str(tmp_path))
    assert (why is None) == fits


@pytest.mark.parametrize("text", ["cuda: Optional[str] = '13.0'\n", "cuda = '13.0'\n__version__ = '2.13.0'\n", "(", ""])
def test_the_build_of_torch_is_read_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemError")
    (tmp_path / "torch" / "version.py").write_text(text)
    install(tmp_path, "torch", "2.13.0")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    build = torch_build.torch_build()
    assert build == torch_build.TorchBuild("2.13.0", "13.0" if "cuda" in text else "")


def test_a_rehearsal_goes_on_with_the_simulated_plugin_beside_a_build_for_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = importlib.metadata.version("torch").partition("+")[0]
    install(tmp_path, "torch_npu", version)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch_build, "torch_build", lambda: torch_build.TorchBuild(f"{version}+cu130", "13.0"))
    monkeypatch.setattr(plugin, "card_here", lambda backend: "")
    assert prepare("npu", "", 0, None, ()).shipped is None
    hint = plugin.not_taken(BACKEND, "")
    assert hint is not None
    assert "is a build for CUDA 13.0" in hint.render("en")
    assert f"--with torch=={version}" in hint.render("en")
    with pytest.raises(UsageError, match=r"is a build for CUDA 13\.0"):
        prepare("npu", "", 0, None, (), "installed")


def test_a_library_that_is_cut_is_known_by_its_headers(tmp_path: Path) -> None:
    package = tmp_path / "torch_npu"
    (package / "lib").mkdir(parents=True)
    library = package / "lib" / "libtorch_npu.so"
    shutil.copy(importlib.util.find_spec("_ctypes").origin, library)  # type: ignore[arg-type, union-attr]
    (package / "lib" / "script.so").write_text(
        "/* GNU ld script */ GROUP ( libtorch_npu.so.1 libtorch_npu.so.2 libmore.so )"
    )
    whole = library.read_bytes()
    assert plugin_state.cut_library(BACKEND, str(tmp_path)) is None
    for size in (len(whole) - 1, len(whole) // 2, 100, 20, 0):
        library.write_bytes(whole[:size])
        message = plugin_state.cut_library(BACKEND, str(tmp_path))
        assert message is not None
        assert f"its size is {size:,}" in message.render("en")
    for position in range(64):  # whatever its header says, it is an answer
        library.write_bytes(whole[:position] + b"\xff" + whole[position + 1 : 5000])
        plugin_state.cut_library(BACKEND, str(tmp_path))


def test_another_vendors_plugin_that_torch_would_load_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "torch_musa", "2.7.1", entry="torch_musa = torch_musa:_autoload")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD", raising=False)
    with pytest.raises(UsageError, match=r"torch_musa 2\.7\.1 is installed too"):
        prepare("npu", "", 0, None, (), "simulated")
    prepare("musa", "", 0, None, (), "simulated")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    prepare("npu", "", 0, None, (), "simulated")
