"""What starts a Python of ours, and the variables of what we start: nothing that the current folder can decide."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.own_python import bare_command, file_command, module_command
from torchferry.core.tool_environment import find_tool, tool_environment


def pythons() -> dict[tuple[int, int], str]:
    """Return an interpreter of each version from 3.8 on that this machine has, ours among them."""
    versions = {sys.version_info[:2]: sys.executable}
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for path in folder.glob("3.*/bin/python"):
        name = path.parts[-3].split(".")[1]
        if name.isdecimal():
            versions.setdefault((3, int(name)), str(path))
    for minor in range(8, 16):
        if found := shutil.which(f"python3.{minor}"):
            versions.setdefault((3, minor), found)
    return {version: path for version, path in sorted(versions.items()) if version >= (3, 8)}


PYTHONS = pythons()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, "sitecustomize", "usercustomize"} - set(sys.builtin_module_names):
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name} of the clone has run')\n")
    (folder / "cache").mkdir()
    return folder


HOSTILE = {
    "PYTHONPATH": f"{os.pathsep}.",
    "PYTHONINSPECT": "1",
    "PYTHONSTARTUP": "json.py",
    "PYTHONUSERBASE": ".",
    "PYTHONHOME": ".",
    "PYTHONPYCACHEPREFIX": "cache",
}


@pytest.mark.parametrize("python", PYTHONS.values())
def test_no_module_of_the_folder_runs_in_any_python(clone: Path, tmp_path: Path, python: str) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "of_the_user.py").write_text("print('of the user')\n")
    own = tmp_path / "own"
    own.mkdir()
    leave = "import sys\nif sys.path[:1] == [__file__.rpartition('/')[0]]: del sys.path[0]\n"
    (own / "probe.py").write_text(f"{leave}import json\nimport of_the_user\n")
    for safe in ({}, {"PYTHONSAFEPATH": "1"}):
        hostile = {**HOSTILE, **safe, "PYTHONPATH": os.pathsep.join([HOSTILE["PYTHONPATH"], str(users)])}
        environment = tool_environment({"PATH": os.environ["PATH"], **hostile})
        for command, said in (
            (module_command("json.tool", "--help", python=python), "usage"),
            (module_command("of_the_user", python=python), "of the user"),
            (file_command(str(own / "probe.py"), python=python), "of the user"),
            (bare_command("-c", "import json; print('bare')", python=python), "bare"),
        ):
            done = subprocess.run(
                command,
                cwd=clone,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert said in done.stdout, (command, done)
            assert "of the clone" not in done.stdout + done.stderr


def test_ours_is_found_where_only_a_relative_entry_led_to_it(tmp_path: Path) -> None:
    """As where somebody works in `src` with PYTHONPATH=."""
    command = module_command("torchferry", "--version")
    command[1:1] = ["-S"]  # without the folders of packages; click is missing then, and torchferry is not
    done = subprocess.run(command, cwd=tmp_path, env=tool_environment(), capture_output=True, text=True, check=False)
    assert "internal error: ModuleNotFoundError" in done.stderr
    assert "torchferry 0.1.0, Python" in done.stderr


@pytest.mark.parametrize(
    "path", ["", os.pathsep, ".", "src", f"/a{os.pathsep}", f"{os.pathsep}/a{os.pathsep}.{os.pathsep}/b"]
)
def test_entries_that_mean_the_current_folder(path: str) -> None:
    wanted = os.pathsep.join(entry for entry in path.split(os.pathsep) if entry.startswith("/"))
    names = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "CPATH", "LIBRARY_PATH", "COMPILER_PATH")
    assert tool_environment(dict.fromkeys(names, path)) == (dict.fromkeys(names, wanted) if wanted else {})


@given(
    st.dictionaries(
        st.sampled_from(["PATH", "LD_LIBRARY_PATH", "HOME", "PIP_INDEX_URL", "PYTHONPATH"]), st.text(":;./ab$")
    )
)
def test_other_variables_and_absolute_entries_stay(variables: dict[str, str]) -> None:
    cleaned = tool_environment(variables)
    for name, text in variables.items():
        if name in ("HOME", "PIP_INDEX_URL"):
            assert cleaned[name] == text
            continue
        entries = cleaned[name].split(":") if name in cleaned else []
        assert all(entry.startswith("/") for entry in entries)
        separated = text.replace(";", ":") if name == "LD_LIBRARY_PATH" else text
        assert entries == [entry for entry in separated.split(":") if entry.startswith("/")]
    assert tool_environment(cleaned) == cleaned


def test_a_program_of_the_folder_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", os.pathsep, "/nonexistent:"):
        assert find_tool("git", {"PATH": path}) in (None, "/bin/git", "/usr/bin/git")
    assert find_tool("git", {"PATH": str(tmp_path)}) == str(tmp_path / "git"), "an absolute entry is somebody's choice"


@pytest.mark.parametrize("python", [path for version, path in PYTHONS.items() if version >= (3, 10)])
def test_python_m_torchferry_leaves_the_folder(clone: Path, python: str) -> None:
    """What Python itself imports for `-m` is loaded before: `runpy`, and below 3.11 what that needs."""
    loaded = subprocess.run(
        [python, "-I", "-c", "import runpy, sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    for name in loaded:
        (clone / f"{name}.py").unlink(missing_ok=True)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [python, "-m", "torchferry", "backend", "list"],
        cwd=clone,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{Path(module_command('x')[2])}{os.pathsep}{packages}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "npu" in done.stdout, done.stderr
