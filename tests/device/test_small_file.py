"""The file with only the names that a project uses: whole, small, the same every time, and no linter objects."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.device.test_one_file import CONFIGURATION
from torchferry.backends import registry
from torchferry.core.vendored import NAMES, SMALL, untouched
from torchferry.device.one_file import one_file
from torchferry.device.provider import vendors
from torchferry.device.small_file import offered, small_file

USED = {
    "two names": (("device_string", "manual_seed_all"), 399),
    "a device, if there is one": (("is_available", "this_device"), 400),
    "the bundled example": (
        (
            "ACCELERATOR_TYPE", "GradScaler", "accelerator_only", "autocast", "collective_backend", "device_string",
            "is_collective_available", "load_location", "manual_seed_all", "max_memory_allocated", "set_device",
            "synchronize",
        ),
        566,
    ),
}  # fmt: skip
"""Names that projects use, and the lines that they may cost."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file for each name alone, one for all, and those of the projects."""
    folder = tmp_path_factory.mktemp("small")
    for name in sorted(offered()):
        (folder / f"only_{name}.py").write_text(small_file([name]), encoding="utf-8")
    (folder / "all_names.py").write_text(small_file(offered()), encoding="utf-8")
    for index, (names, _) in enumerate(USED.values()):
        (folder / f"project_{index}.py").write_text(small_file(names), encoding="utf-8")
    return folder


@pytest.mark.parametrize("title", USED)
def test_it_is_small_and_the_same_every_time(title: str) -> None:
    names, lines = USED[title]
    text = small_file(names)
    assert len(text.splitlines()) <= lines
    assert small_file(tuple(reversed(names))) == text
    assert untouched(text)
    assert not untouched(text + "\n")


def test_it_says_what_it_is_and_what_it_has() -> None:
    text = small_file(["device_string", "amp"])
    first = text.splitlines()[0]
    assert SMALL in first
    assert "Apache-2.0" in text[:500]
    assert f"{NAMES}amp device_string\n" in text
    ast.parse(text, feature_version=(3, 8))
    assert "torchferry." not in text
    every = {registry.load(name).DEVICE_TYPE for name in registry.built_in()}
    assert all(f'device_type="{kind}"' in text for kind in every)


def test_a_name_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no portable names: DeviceManager, nonsense"):
        small_file(["nonsense", "device_string", "DeviceManager"])


def test_whoever_asks_for_any_name_is_answered_as_by_the_installed_form() -> None:
    names: dict[str, Any] = {}
    exec(compile(small_file(["accelerator_namespace"]), "device_utils.py", "exec"), names)
    written = {facts.name: facts for facts in names["_DEVICES"]}
    for facts in vendors():
        asked = {*facts.names, "amp", "nvtx", "memory_stats"}
        assert {name: written[facts.name].name_of(name).path for name in asked} == {
            name: facts.name_of(name).path for name in asked
        }
    assert written["ptex"].name_of("amp").path == "torch_gcu.amp"


def test_mixed_precision_is_a_module_that_stays_the_same_as_compiled_functions_ask() -> None:
    written = ModuleType("device_utils")
    exec(compile(small_file(["amp"]), "device_utils.py", "exec"), written.__dict__)
    kept = written.amp
    assert isinstance(kept, ModuleType)
    assert written.amp is kept


def test_the_whole_file_has_every_name_that_it_offers() -> None:
    text = one_file("device_utils.py")
    assert [name for name in offered() if name not in text] == []


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "--config", str(CONFIGURATION), "--target-version", "py38", "--no-cache"),
        ("ruff", "check", "--isolated", "--line-length", "120", "--target-version", "py38", "--no-cache"),
        ("ruff", "format", "--check", "--config", str(CONFIGURATION), "--no-cache"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_each_name_alone_is_clean(folder: Path, command: tuple[str, ...]) -> None:
    program = shutil.which(command[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run([program, *command[1:], "."], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
