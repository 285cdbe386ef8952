"""The shape of the house: who may import whom, where vendors live, and that nothing here loads torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchferry.backends import registry

SOURCE = Path(__file__).parent.parent / "src" / "torchferry"
MODULES = sorted(SOURCE.rglob("*.py"))

VENDORS = SOURCE / "vendors"
"""The vendors' folders. Packages in them have the vendors' own names, and are importable only in a rehearsal."""

WITH_TORCH = {
    *(
        f"torchferry.device.{name}"
        for name in (
            "detect",
            "dtypes",
            "manager",
            "memory",
            "names",
            "portable",
            "presence",
            "precision",
            "profiling",
            "randomness",
            "ranks",
            "required",
            "weights",
        )
    ),
    *(
        f"torchferry.shim.{name}"
        for name in (
            "accelerator",
            "amp",
            "auto",  # redirects when it is imported
            "cards",
            "collectives",
            "compiling",
            "default_type",
            "devices",
            "elsewhere",
            "extensions",
            "factories",
            "fallback",
            "families",
            "generators",
            "loading",
            "made",
            "marks",
            "namespace",
            "parameters",
            "private",
            "profiling",
            "properties",
            "registrations",
            "resolve",
            "scripting",
            "selecting",
            "serialization",
            "storages",
            "streams",
            "switches",
            "tensors",
        )
    ),
    *(
        f"torchferry.rehearsal.{name}"
        for name in (
            "autocast",
            "branches",
            "collectives",
            "data_parallel",
            "extension_build",
            "device_module",
            "identity",
            "native",
            "operator_modes",
            "output",
            "remnants",
            "session",
            "sharing",
            "surface",
            "vendor_package",
            "work",
        )
    ),
}
"""Modules that run inside a program that has torch, and the room they are in."""

NUMERICS_ON_FILES = ("curves", "inside", "launched", "report", "site", "differences", "summaries", "pages")
"""Parts of `numerics` that work on files, without torch; the others run inside a program."""

NUMERICS_WITH_NUMPY = ("differences",)
"""Of these, what is imported by one command alone, with the numpy of the extra `numerics`."""

MAY_IMPORT = {
    "core": set(),
    "backends": {"core"},
    "source": {"core", "backends"},
    "rules": {"core", "backends", "source"},
    "installed": {"core", "backends", "source", "rules"},
    "programs": {"core", "backends", "source", "rules", "installed"},
    "migration": {"core", "backends", "source", "rules"},
    "report": {"core", "backends", "source", "rules", "installed", "programs", "migration"},
    "shim": {"core", "backends"},
    "rehearsal": {"core", "backends", "shim"},
    "doctor": {"core", "backends"},
    "device": {"core", "backends"},
    "numerics": {"core", "backends"},
    "cli": {
        *("core", "backends", "source", "rules", "installed", "programs", "migration", "report"),
        *("shim", "rehearsal", "doctor", "device", "numerics"),
    },
}
"""For each room, the rooms that it may import from. `source` knows the CUDA side of `backends`, and asks its
registry for the words of all targets."""


def imported_rooms(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == "torchferry" and len(parts) > 1:
                yield parts[1], node.lineno


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_in_one_direction(room: str) -> None:
    for path in sorted((SOURCE / room).rglob("*.py")):
        for other, line in imported_rooms(path):
            assert other == room or other in MAY_IMPORT[room], f"{path.relative_to(SOURCE)}:{line} imports {other}"


def test_every_room_is_known() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(MAY_IMPORT)


def vendor_words() -> re.Pattern[str]:
    words: set[str] = set()
    for name in registry.built_in():
        backend = registry.load(name)
        words |= {backend.NAME, backend.PLUGIN, backend.COLLECTIVE, backend.DEVICE_TYPE}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield string constants that are not documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


ALLOWED = {
    # an example in an advice
    "migration/suffix.py",
}


@pytest.mark.parametrize("path", [p for p in MODULES if VENDORS not in p.parents], ids=lambda p: p.stem)
def test_vendors_live_in_their_folders_alone(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix() in ALLOWED:
        return
    pattern = vendor_words()
    for line, text in strings(path):
        if path.name.startswith(("html", "pages")) or "CHINESE" in text:
            continue
        assert not pattern.search(text), f"{path.relative_to(SOURCE)}:{line} names a vendor: {text!r}"


def test_no_module_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert [f"{path}: {length}" for path, length in lengths.items() if length > 600] == []


def test_nothing_here_imports_torch() -> None:
    names = [
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if VENDORS not in path.parents and path.name != "pytest_plugin.py"
    ]
    names = [name for name in names if not any(name == own or name.startswith(f"{own}.") for own in WITH_TORCH)]
    names = [
        name for name in names if not name.startswith("torchferry.numerics.") or name.split(".")[2] in NUMERICS_ON_FILES
    ]
    names = [name for name in names if not name.endswith("__main__")]
    numeric = [name for name in names if name.startswith("torchferry.numerics.")]
    heavy = [name for name in numeric if name.split(".")[2] in NUMERICS_WITH_NUMPY]
    for imported, never in (
        ([name for name in names if name not in heavy], {"torch", "numpy", "rich", "yaml"}),
        (heavy, {"torch", "rich", "yaml"}),
    ):
        code = (
            "import importlib, sys\n"
            f"for name in {imported!r}: importlib.import_module(name)\n"
            f"bad = {never!r} & set(sys.modules)\n"
            "assert not bad, bad"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_threat_model_names_tests_that_exist() -> None:
    root = SOURCE.parent.parent
    named = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", (root / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    missing = [
        f"{path}::{name}" for path, name in named if f"def {name}(" not in (root / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_help_imports_little() -> None:
    code = (
        "import sys, click\nbefore = set(sys.modules)\nfrom torchferry.cli import main\n"
        "sys.argv = ['torchferry', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if m.startswith('torchferry')), file=sys.stderr)\n"
        "heavy = {'torch', 'rich', 'packaging', 'tomllib', 'subprocess'} & (set(sys.modules) - before)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scan" in done.stdout
