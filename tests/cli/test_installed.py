"""What the packages of an environment show is in the verdicts of the programs that import them, in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.installed.made import install, library, site_of
from tests.programs.small import Files, write
from torchferry.cli import scan

MAIN = "import torch\nif __name__ == '__main__':\n    print(torch.ones(2))\n"
CUDA = library(["libcudart.so.12"], [".nv_fatbin"])
PACKAGES: dict[str, dict[str, str | bytes]] = {
    "plainmath": {"plainmath/__init__.py": "def double(x):\n    return 2 * x\n"},
    "follower": {"follower/__init__.py": "import torch\ndef f(x):\n    return torch.zeros_like(x)\n"},
    "fastnet": {"fastnet/__init__.py": "from fastnet import _C\n", "fastnet/_C.so": CUDA},
    "someops": {"someops/__init__.py": "x = 1\n", "someops/fast.so": CUDA},
    "chooser": {"chooser/__init__.py": "import torch\ndef f(device='cuda'):\n    return torch.ones(device=device)\n"},
    "outer": {"outer/__init__.py": "import fastnet\n"},
    "wrapper": {"wrapper/__init__.py": "x = 1\nimport cupy\n"},
    "cupy": {"cupy/__init__.py": "x = 1\n"},
    "lazy": {"lazy/__init__.py": "def f():\n    import fastnet\n"},
}  # fmt: skip


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    site = site_of(tmp_path / "env")
    for name, files in PACKAGES.items():
        install(site, name, files)
    return tmp_path / "env"


def scanned(root: Path, files: Files, *arguments: object, form: str = "json") -> str:
    write(root, files)
    command = [str(root), "-t", "npu", "--isolated", "--lang", "en", "-f", form, *map(str, arguments)]
    done = CliRunner().invoke(scan.command, command)
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def program(root: Path, text: str, *arguments: object) -> dict[str, Any]:
    (found,) = json.loads(scanned(root, {"train.py": text}, *arguments))["programs"]
    return dict(found)


@pytest.mark.parametrize(
    ("text", "verdict", "chain"),
    [
        ("import plainmath\n", "ready", []),
        ("import follower\n", "ready", []),
        ("import lazy\n", "ready", []),
        ("import fastnet\n", "blocked", ["train.py:1", "fastnet/_C.so"]),
        ("import outer\n", "blocked", ["train.py:1", "outer/__init__.py:1", "fastnet/_C.so"]),
        ("import wrapper\n", "blocked", ["train.py:1", "wrapper/__init__.py:2"]),
        ("try:\n    import fastnet\nexcept ImportError:\n    pass\n", "without", ["train.py:2", "fastnet/_C.so"]),
        ("import someops\n", "decisions", ["train.py:1", "someops/fast.so"]),
        ("import chooser\n", "decisions", ["train.py:1", "chooser/__init__.py:2"]),
        ("def f():\n    import chooser\n", "ready", []),
    ],
)  # fmt: skip
def test_an_environment_answers_for_what_no_table_knows(
    environment: Path, tmp_path: Path, text: str, verdict: str, chain: list[str]
) -> None:
    found = program(tmp_path / "p", text + MAIN, "--python", environment)
    assert found["verdict"] == verdict
    assert [reason["chain"] for reason in found["reasons"]] == ([chain] if chain else [])
    assert found["unverified"] == []
    for reason in found["reasons"]:
        assert reason["source"] == ("table" if reason["what"] == "cupy" else "environment")
        assert reason["decision"] is (verdict == "decisions")


def test_without_the_environment_nobody_has_verified_them(environment: Path, tmp_path: Path) -> None:
    found = program(tmp_path / "p", "import plainmath\nimport fastnet\n" + MAIN)
    assert found["verdict"] == "ready"
    assert [row["package"] for row in found["unverified"]] == ["plainmath", "fastnet"]


def test_a_table_that_speaks_of_a_package_is_believed(environment: Path, tmp_path: Path) -> None:
    """An environment in which nothing of CUDA was found proves nothing against a source."""
    found = program(tmp_path / "p", "import cupy\n" + MAIN, "--python", environment)
    assert found["verdict"] == "blocked"
    assert [reason["source"] for reason in found["reasons"]] == ["table"]


@pytest.mark.parametrize("form", ["text", "html", "sarif", "csv", "json"])
def test_every_form_has_programs_packages_and_what_was_not_looked_at(
    environment: Path, tmp_path: Path, form: str
) -> None:
    files = {"train.py": "import fastnet\nimport chooser\n" + MAIN, "fast.pyx": "# cuda\n"}
    text = scanned(tmp_path / "p", files, "--python", environment, form=form)
    if form == "json":
        document = json.loads(text)
        assert document["schema"].startswith("3.")
        assert {row["package"] for row in document["packages"]} == {"fastnet", "chooser"}
        assert document["unlooked"] == [
            {"place": "Cython", "reason": "a language that is not read", "files": 1, "words": 1}
        ]
    elif form == "sarif":
        properties = json.loads(text)["runs"][0]["properties"]
        assert "train.py:1 -> fastnet/_C.so" in properties["programs"][0]["chains"]
        assert {row["package"] for row in properties["packages"]} == {"fastnet", "chooser"}
        assert len(properties["notLookedAt"]) == 1
    elif form == "csv":
        grades = [row[1] for row in csv.reader(io.StringIO(text.lstrip("\ufeff")))]
        assert grades[:5] == ["grade", "program", "package", "package", "not examined"]
    else:
        for part in ("blocked by fastnet", "train.py:1 -&gt; fastnet/_C.so", "chooser 1.0", "a language that is not"):
            assert part in text or part.replace("&gt;", ">") in text
        assert text.index("blocked by fastnet") < text.index("a language that is not")


@pytest.mark.parametrize(
    ("named", "on_path", "runs"),
    [("python3", ":", False), ("python3", "", False), ("./python3", "", True), ("nothing", ":", False)],
)
def test_a_bare_name_is_a_program_on_path_and_never_one_of_the_current_folder(
    named: str, on_path: str, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python3", "nothing"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{on_path}/usr/bin:/bin")
    done = CliRunner().invoke(scan.command, [".", "-t", "npu", "--isolated", "--lang", "en", "--python", named])
    assert (tmp_path / "ran").exists() is runs
    if named == "nothing":
        assert "on PATH" in str(done.exception)


@pytest.mark.parametrize(
    ("plugin", "silent"),
    [
        (
            {"torch_npu/npu/__init__.py": "from .streams import *\n", "torch_npu/npu/streams.py": "class Event: ...\n"},
            "",
        ),
        ({"torch_npu/npu/__init__.py": "from torch_npu._C import *\n"}, "a star import of what cannot be read"),
        ({"torch_npu/npu/__init__.py": "def __getattr__(name): ...\n"}, "any name"),
        ({"torch_npu/npu/__init__.py": "", "torch_npu/late.py": "torch.npu.synchronize = print\n"}, "given by another"),
    ],
)
def test_the_plugin_that_is_installed_wins_over_the_table(plugin: dict[str, str], silent: str, tmp_path: Path) -> None:
    install(site_of(tmp_path / "env"), "torch_npu", {"torch_npu/__init__.py": "from . import npu\n", **plugin}, "2.9.0")
    root = tmp_path / "project"
    text = "import torch\nevent = torch.cuda.Event()\ntorch.cuda.synchronize()\n"
    report = scanned(root, {"train.py": text}, "--python", tmp_path / "env", form="full")
    assert f"{tmp_path.as_posix()}/env has torch_npu 2.9.0: this version is assumed." in report
    assert ("`torch.npu.synchronize`, and torch_npu 2.9.0 in" in report) == (not silent)
    assert "`torch.cuda.Event` is `torch.npu.Event`" in report or silent
    named = scanned(root, {"train.py": text}, "--python", tmp_path / "env", "-t", "npu@2.10.0", form="text")
    assert "has torch_npu 2.9.0; the code was examined for 2.10.0, as it was asked for." in named
    assert "the plugin wins" not in named
