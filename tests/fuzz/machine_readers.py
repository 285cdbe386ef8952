"""Readers of a machine: vendors' tools, settings, other interpreters, installed packages, libraries."""

from __future__ import annotations

import contextlib
import importlib
import json
import sysconfig
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.table import ROOT, SEEDS, as_json, reader, text_of, written

# --- a machine that the doctor examines ---


def _outputs(target: str) -> list[bytes]:
    module = importlib.import_module(f"tests.vendors.{target}.outputs")
    return [getattr(module, name).encode() for name in module.READINGS]


def _add_tools() -> None:
    for path in sorted((ROOT / "tests" / "vendors").glob("*/outputs.py")):
        target = path.parent.name

        def read(folder: Path, data: bytes, target: str = target) -> None:
            from torchferry.backends import registry, smi

            smi.read(smi.tool(registry.load(target)), text_of(data))

        def more(target: str = target) -> list[bytes]:
            return _outputs(target)

        reader(f"tool-of-{target}", "text", "backends/smi.py", more=more)(read)


_add_tools()


def _examined(folder: Path, machine: Mapping[str, Any], files: Mapping[str, str], probe: Any = None) -> None:
    from tests.doctor.recorded import Case, context_of
    from torchferry.doctor.engine import examine
    from torchferry.doctor.registry import all_checks
    from torchferry.doctor.report import Detail, text_lines

    case = Case("", "npu", (), files, probe=probe, machine=machine)
    found = examine(context_of(case, folder / "machine"), all_checks())
    "\n".join(text_lines(found, "en", lambda words, style: words, Detail.FULL))


_FILES = (
    "/etc/docker/daemon.json", "/etc/os-release", "/proc/modules", "/proc/meminfo", "/proc/cpuinfo", "/etc/pip.conf",
    "/etc/ascend_install.info", "/usr/local/Ascend/driver/version.info", "/etc/ld.so.conf", "/proc/mounts",
)  # fmt: skip


@reader("machine", "text", "doctor/host.py", more=lambda: _outputs("npu"))
def _machine(folder: Path, data: bytes) -> None:
    """A machine all of whose files and outputs are the input."""
    said = text_of(data)
    outputs = {f"npu-smi {words}": said for words in ("info", "info -m", "info -l", "info -t board -i 0")}
    _examined(folder, {"outputs": outputs}, dict.fromkeys(_FILES, said))


@reader("docker-settings", "json", "doctor/checks/container_runtime.py")
def _docker_settings(folder: Path, data: bytes) -> None:
    from tests.doctor.recorded import Case, context_of
    from torchferry.doctor.checks.container_runtime import container_runtime

    case = Case("", "npu", (), {"/etc/docker/daemon.json": text_of(data)})
    list(container_runtime.run(context_of(case, folder / "m")))


@reader("pip-settings", "text", "doctor/checks/environment_proxy.py")
def _pip_settings(folder: Path, data: bytes) -> None:
    from tests.doctor.recorded import Case, context_of
    from torchferry.doctor.checks.environment_proxy import environment_proxy

    names = ("/etc/pip.conf", "/home/mia/.pip/pip.conf", "/home/mia/.config/pip/pip.conf")
    machine = {"environment": {"PATH": "/usr/bin", "HOME": "/home/mia"}}
    case = Case("", "npu", (), dict.fromkeys(names, text_of(data)), machine=machine)
    list(environment_proxy.run(context_of(case, folder / "m")))


def _python_answers() -> list[bytes]:
    from tests.doctor.recorded import PYTHON

    more = {
        "modules": {"torch": "/venv/torch/__init__.py", "torch_npu": "/venv/torch_npu/__init__.py"},
        "distributions": {"torch": "2.1.0", "torch-npu": "2.1.0", "broken": None},
        "torch": {"version": "2.1.0", "cuda": None, "hip": None},
        "entry_points": {"torch_npu": "torch_npu:_autoload"},
        "libraries": {"libhccl.so": "cannot open"},
        "import": {"error": "", "version": "1"},
    }
    return [as_json({**PYTHON, **more})]


@reader("python-answer", "json", "doctor/context.py", more=_python_answers)
def _python_answer(folder: Path, data: bytes) -> None:
    from torchferry.core.subprocesses import ProcessResult

    answer = ProcessResult(0, text_of(data))
    _examined(folder, {"answer": answer, "imported": answer}, {})


@reader("probe", "lines", "doctor/probe.py")
def _probe(folder: Path, data: bytes) -> None:
    from torchferry.core.subprocesses import ProcessResult
    from torchferry.doctor.probe import probe_of

    _examined(folder, {}, {}, probe_of(ProcessResult(0, text_of(data)), 60.0))


@reader("cards-of-hosts", "lines", "deploy/collective_play.py", more=lambda: [(SEEDS / "probe" / "1").read_bytes()])
def _cards_of_hosts(folder: Path, data: bytes) -> None:
    from torchferry.deploy import collective_play

    answers = list(collective_play._answers(text_of(data)))
    list(collective_play._cards("a", answers, False))
    collective_play._all_cards(["a"], {(collective_play._EVERYONE, "a"): answers}, set())


@cache
def _snapshot() -> bytes:
    from tests.doctor.test_snapshot import taken

    with tempfile.TemporaryDirectory() as folder:
        return as_json(taken(Path(folder)))


@reader("snapshot", "json", "doctor/snapshot.py", more=lambda: [_snapshot()])
def _read_snapshot(folder: Path, data: bytes) -> None:
    from torchferry.doctor.snapshot import compare, load

    found = load(written(folder, "a.json", data))
    compare(found, json.loads(_snapshot()))
    compare(json.loads(_snapshot()), found)


# --- installed packages ---


@cache
def _library() -> bytes:
    from tests.installed.made import library

    return library(["libc.so.6", "libcudart.so.12"], [".nv_fatbin"], ["f"])


_INFO = "pkg-1.0.dist-info"
_OF_PACKAGES = {
    "metadata": ("text", f"{_INFO}/METADATA"),
    "record": ("text", f"{_INFO}/RECORD"),
    "entry-points": ("text", f"{_INFO}/entry_points.txt"),
    "direct-url": ("json", f"{_INFO}/direct_url.json"),
    "pth": ("text", "x.pth"),
    "package": ("text", "pkg/__init__.py"),
    "package-library": ("bytes", "pkg/_C.abi3.so"),
    "venv-settings": ("text", "../../../pyvenv.cfg"),
}


def _add_packages() -> None:
    covers = (
        "installed/distributions.py", "installed/environment.py", "installed/facts.py", "installed/elf.py",
        "installed/inspection.py", "backends/registry.py",
    )  # fmt: skip
    for name, (form, file) in _OF_PACKAGES.items():

        def read(folder: Path, data: bytes, file: str = file) -> None:
            from tests.installed.made import install, site_of
            from torchferry.backends.target import Target
            from torchferry.installed.environment import environment_of
            from torchferry.installed.inspection import inspect

            site = site_of(folder / "env")
            install(site, "pkg", {"pkg/__init__.py": "import torch\n", "pkg/a.py": "", "pkg/_C.abi3.so": _library()})
            written(site, file, data)
            inspect(environment_of(folder / "env"), ["pkg", "pkg.a", "torch"], Target.named("npu"))

        def more(form: str = form) -> list[bytes]:
            return [_library()] if form == "bytes" else []

        reader(name, form, *covers, more=more)(read)


_add_packages()


@reader("plugin-sources", "text", "installed/plugin.py", more=lambda: [b"from .streams import *\nclass Event: ...\n"])
def _plugin_sources(folder: Path, data: bytes) -> None:
    from tests.installed.made import install, site_of
    from torchferry.backends.target import Target
    from torchferry.installed.environment import environment_of
    from torchferry.installed.plugin import installed_plugin

    site = site_of(folder / "env")
    install(site, "torch_npu", {"torch_npu/__init__.py": "", "torch_npu/npu/streams.py": "Stream = 1\n"}, "2.9.0")
    written(site, "torch_npu/npu/__init__.py", data)
    installed_plugin(environment_of(folder / "env"), Target.named("npu"))


@reader("interpreter-answer", "json", "installed/environment.py")
def _interpreter_answer(folder: Path, data: bytes) -> None:
    from torchferry.installed import environment

    environment._answer(text_of(data))


@cache
def _facts() -> bytes:
    from tests.installed.made import install, site_of
    from torchferry.backends.target import Target
    from torchferry.installed.cache import Cache
    from torchferry.installed.environment import environment_of
    from torchferry.installed.inspection import inspect

    with tempfile.TemporaryDirectory() as folder:
        site = site_of(Path(folder, "env"))
        install(site, "pkg", {"pkg/__init__.py": (SEEDS / "python" / "1").read_bytes(), "pkg/_C.abi3.so": _library()})
        inspect(environment_of(Path(folder, "env")), ["pkg"], Target.named("npu"), cache=Cache(Path(folder, "cache")))
        kept = next(path for path in Path(folder, "cache").rglob("*") if path.is_file()).read_bytes()
        return kept.partition(b"\n")[2]  # behind its hash


@reader("package-cache", "json", "installed/cache.py", more=lambda: [_facts()])
def _package_cache(folder: Path, data: bytes) -> None:
    from torchferry.core.json_text import parsed_json
    from torchferry.installed import cache as kept

    with contextlib.suppress(ValueError):  # as `Cache.load`, which then looks into the package again
        kept._facts(parsed_json(data))


# --- libraries and their sources ---


def _libraries() -> list[bytes]:
    """Return the smallest libraries of this Python that have symbols."""
    folders = (Path(sysconfig.get_path("platlib")), Path(sysconfig.get_path("platstdlib"), "lib-dynload"))
    found = [path for folder in folders for path in folder.glob("*/*.so")]
    return [path.read_bytes() for path in sorted(found, key=lambda path: path.stat().st_size)[:2]] or [_library()]


@reader("library", "bytes", "doctor/symbols/elf.py", more=_libraries)
def _library_of_doctor(folder: Path, data: bytes) -> None:
    from torchferry.doctor.symbols.elf import architecture_of, read_library

    path = written(folder, "x.so", data)
    architecture_of(path)
    read_library(path)


@reader("symbol-sources", "text", "doctor/symbols/places.py", more=lambda: [(SEEDS / "cpp" / "1").read_bytes()])
def _symbol_sources(folder: Path, data: bytes) -> None:
    from torchferry.doctor.symbols.places import build_files, definitions

    for name in ("a.cpp", "setup.py", "CMakeLists.txt", "pyproject.toml"):
        written(folder, name, data)
    definitions("f", folder)
    list(build_files(folder))
