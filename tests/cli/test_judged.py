"""Programs are judged by all that they reach, whatever was named and left out, and what was not read is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from tests.programs.small import BUILT, Files, write
from torchferry.cli import migrate, scan
from torchferry.programs.verdicts import judging
from torchferry.report.model import ProjectVerdict

MAIN = "import torch\nif __name__ == '__main__':\n    print(torch.ones(2))\n"
NEEDY: Files = {
    "pyproject.toml": "[project]\nname = 'x'\n",
    "tools/train.py": "from net import model\n" + MAIN,
    "tools/plain.py": MAIN,
    "tools/fixed.py": MAIN.replace("torch.ones(2)", "torch.ones(2).cuda()"),
    "net/__init__.py": "",
    "net/model.py": "import cupy\n",
}


def report(*arguments: object, command: object = scan.command, status: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    options = ["-t", "npu", "--lang", "en", "-f", "json"]
    done = CliRunner().invoke(command, [*map(str, arguments), *options])  # type: ignore[arg-type]
    assert done.exit_code in status, done.output
    return dict(json.loads(done.stdout))


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {each["path"]: each["verdict"] for each in document["programs"]}


@pytest.mark.parametrize(
    ("named", "wanted", "whole"),
    [
        (("tools/train.py",), {"tools/train.py": "blocked"}, "blocked"),
        (("tools/plain.py",), {"tools/plain.py": "ready"}, "ready"),
        (("tools/fixed.py",), {"tools/fixed.py": "fixes"}, "ready after fixes"),
        (("net/model.py", "tools/plain.py"), {"net/model.py": "blocked", "tools/plain.py": "ready"}, "partly blocked"),
        (("net/model.py",), {"net/model.py": "blocked"}, "blocked"),
        (("pyproject.toml",), {}, "ready"),
    ],
)  # fmt: skip
def test_named_programs_are_judged_by_the_project_around_them(
    tmp_path: Path, named: tuple[str, ...], wanted: dict[str, str], whole: str
) -> None:
    write(tmp_path, NEEDY)
    document = report(*(tmp_path / name for name in named))
    assert verdicts(document) == wanted
    assert document["verdict"] == whole
    assert {finding["path"] for finding in document["findings"]} <= set(named)
    assert document["files"] == len(named)
    assert document["partial"] is True


@pytest.mark.parametrize("way", ["git", "settings", "build script", "requirements", "packages"])
def test_the_project_is_found_as_people_mark_it(tmp_path: Path, way: str) -> None:
    root = tmp_path / "project"
    write(root, {"deep/down/train.py": "import helper.net\n" + MAIN, "helper/net.py": "import cupy\n"})
    if way == "git":
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    elif way == "packages":
        write(root, {"deep/__init__.py": "", "deep/down/__init__.py": ""})
    else:
        names = {"settings": "torchferry.toml", "build script": "setup.py", "requirements": "requirements.txt"}
        write(root, {names[way]: ""})
    document = report(root / "deep" / "down" / "train.py")
    assert verdicts(document) == {"deep/down/train.py": "blocked"}
    assert document["programs"][0]["reasons"][0]["chain"] == ["deep/down/train.py:1", "helper/net.py:1"]


def test_a_file_without_a_project_around_it_is_judged_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path, {"other/net.py": "import cupy\n", "here/train.py": "import net\n" + MAIN})
    assert verdicts(report(tmp_path / "here" / "train.py")) == {"train.py": "ready"}


@pytest.mark.parametrize("options", [("--select", "DOC"), ("--ignore", "LIB"), ("--ignore", "LIB,DEV,IMP")])
def test_rules_that_are_left_out_make_no_verdict_stronger(tmp_path: Path, options: tuple[str, str]) -> None:
    write(tmp_path, NEEDY)
    every, some = report(tmp_path), report(tmp_path, *options)
    assert some["programs"] == every["programs"]
    assert some["verdict"] == every["verdict"] == "partly blocked"
    assert len(some["findings"]) < len(every["findings"])
    assert any("judged by all rules" in remark for remark in some["remarks"])
    fixed = report(tmp_path / "tools" / "fixed.py", "--select", "DOC")
    assert (fixed["verdict"], fixed["summary"]) == ("ready after fixes", "Ready for Huawei Ascend after 2 fixes.")


def test_rules_that_the_settings_leave_out_for_a_file_make_no_verdict_stronger(tmp_path: Path) -> None:
    write(tmp_path, NEEDY | {"torchferry.toml": '[per-file-ignores]\n"net/*" = ["LIB"]\n'})
    assert verdicts(report(tmp_path))["tools/train.py"] == "blocked"


@pytest.mark.parametrize("options", [(), ("--select", "DEV"), ("--unsafe-fixes",)])
def test_a_migration_that_writes_blocks_on_what_programs_come_to(tmp_path: Path, options: tuple[str, ...]) -> None:
    files = NEEDY | {"tools/fixed.py": "import torch\n" + "torch.ones(2).cuda()\n" * 3 + "import tensorrt\n"}
    files |= {"tests/test_it.py": "import cupy\n"} | BUILT
    write(tmp_path, files)
    checked = report(tmp_path, "--check", *options, command=migrate.command)
    written = report(tmp_path, *options, "--allow-dirty", command=migrate.command)
    for document in (checked, written):
        assert verdicts(document)["tools/fixed.py"] == verdicts(document)["tools/train.py"] == "blocked"
        assert document["verdict"] == "partly blocked"
        blockers = [finding["path"] for finding in document["findings"] if finding["blocker"]]
        assert blockers == ([] if "--select" in options else ["net/model.py", "tools/fixed.py"])
    fixes = [next(p["fixes"] for p in d["programs"] if p["path"] == "tools/fixed.py") for d in (checked, written)]
    assert fixes[0] >= 3
    assert fixes[1] == 0


# --- what was not read ---

SUBMODULE = '[submodule "n"]\n\tpath = net\n\turl = u\n'

UNREAD: dict[str, tuple[Files, str, str]] = {
    "a file that does not parse, without a word of CUDA": (
        {"net.py": "print 'x'\n"}, "net.py", "does not parse: line 1"),
    "a submodule": (
        {".gitmodules": '[submodule "n"]\n\tpath = ext/net\n\turl = u\n'}, "train.py:1", "submodule ext/net"),
    "a package in a submodule": (
        {".gitmodules": '[submodule "n"]\n\tpath = net\n\turl = u\n'}, "train.py:1", "submodule net"),
    "an ignored file": ({".gitignore": "net.py\n", "net.py": "x = 1\n"}, "train.py:1", ".gitignore file hides net.py"),
    "an ignored folder": (
        {".gitignore": "net/\n", "net/__init__.py": "x = 1\n"}, "train.py:1", "a .gitignore file hides net"),
    "an excluded file": (
        {"torchferry.toml": 'exclude = ["net.py"]\n', "net.py": "x = 1\n"}, "train.py:1", "left out by the settings"),
    "a large file": ({"torchferry.toml": "max-file-size = 1000\n", "net.py": "x = 1\n" * 500}, "net.py", "3000 bytes"),
    "Cython that speaks of CUDA": ({"net.pyx": "cdef cuda\n"}, "train.py:1", "net.pyx is Cython"),
    "Cython that imports others": (
        {"net.pyx": "import numpy as np\nimport os, kernels\ncimport numpy as np\n"}, "train.py:1", "imports kernels"),
    "a long file": ({"net.py": "x = 1\n" * 400_000}, "net.py", "too long"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREAD.values(), ids=UNREAD.keys())
def test_what_was_not_read_is_not_ready(tmp_path: Path, case: tuple[Files, str, str]) -> None:
    files, place, reason = case
    write(tmp_path, files | {"train.py": "import net\n" + MAIN, "other.py": MAIN})
    document = report(tmp_path)
    assert verdicts(document) == {"train.py": "not judged", "other.py": "ready"}
    assert document["verdict"] == "incomplete"
    unread = next(program for program in document["programs"] if program["path"] == "train.py")["unread"]
    assert [each["place"] for each in unread] == [place]
    assert reason in unread[0]["reason"]
    assert unread[0]["chain"] == (["train.py:1"] if place == "train.py:1" else ["train.py:1", place])


STARTED_BY_NAME: dict[str, Files] = {
    "a command": {"pkg/train.py": MAIN, "run.sh": "python -m pkg.train\n"},
    "a command with joined options": {"pkg/train.py": MAIN, "run.sh": "python -um pkg.train\n"},
    "a module joined to its option": {"pkg/train.py": MAIN, "run.sh": "uv run -mpkg.train\n"},
    "a launcher": {"pkg/train.py": MAIN, "run.sh": "torchrun --nproc-per-node 2 -m pkg.train\n"},
    "a package": {"pkg/__main__.py": MAIN, "README.md": "```\npython -m pkg\n```\n"},
    "a console script": {
        "pkg/train.py": "def main():\n    pass\n",
        "pyproject.toml": '[project]\nname = "x"\n[project.scripts]\nx = "pkg.train:main"\n',
    },
    "runpy": {"pkg/train.py": "x = 1\n", "go.py": "import torch, runpy\nrunpy.run_module('pkg.train')\n"},
    "a name in code": {
        "pkg/train.py": "x = 1\n",
        "go.py": "import importlib\nimportlib.import_module('pkg.train')\n" + MAIN,
    },
    "a computed name": {
        "pkg/train.py": "x = 1\n",
        "go.py": "import importlib, sys\nimportlib.import_module(f'pkg.{sys.argv[1]}')\n" + MAIN,
    },
    "an import of its module": {"pkg/train.py": "x = 1\n", "go.py": "from pkg.train import x\n" + MAIN},
    "an import of the module's name": {"pkg/train.py": "x = 1\n", "go.py": "from pkg import train\n" + MAIN},
}


@pytest.mark.parametrize("files", STARTED_BY_NAME.values(), ids=STARTED_BY_NAME)
def test_the_package_of_a_module_runs_before_it(tmp_path: Path, files: Files) -> None:
    write(tmp_path, files | {"pkg/__init__.py": "import cupy\n"})
    assert [*verdicts(report(tmp_path)).values()] == ["blocked"]
    write(tmp_path, {".gitignore": "__init__.py\n"})
    (found,) = report(tmp_path)["programs"]
    assert found["verdict"] == "not judged"
    assert "pkg/__init__.py" in found["unread"][0]["reason"]
    named = report(tmp_path, tmp_path / "pkg" / "__init__.py")  # what is named is read all the same
    assert ([*verdicts(named).values()], named["ignored"]) == (["blocked"], [])


def test_the_package_of_a_file_that_is_started_itself_does_not_run(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "import cupy\n", "pkg/train.py": MAIN, "run.sh": "python pkg/train.py\n"})
    assert verdicts(report(tmp_path)) == {"pkg/train.py": "ready"}


def test_a_file_of_an_own_package_that_is_hidden(tmp_path: Path) -> None:
    hidden = {".gitignore": "made.py\n", "pkg/made.py": "x = 1\n", "train.py": "import pkg\n" + MAIN}
    for text in ("from . import made\n", "from .made import x\n", "from pkg.made import x\n", "import pkg.made\n"):
        write(tmp_path, hidden | {"pkg/__init__.py": text})
        (found,) = report(tmp_path)["programs"]
        assert (found["verdict"], found["unread"][0]["place"]) == ("not judged", "pkg/__init__.py:1")


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"pkg/native/fast.cpython-311-x86_64-linux-gnu.so": ""}, "from .native.fast import go\n"),
        ({".gitignore": "pkg/gen/\n", "pkg/gen/deep/x.py": "x = 1\n"}, "from .gen.deep import x\n"),
        ({"pkg/native/other.py": ""}, "from pkg.native.fast import go\n"),
        ({"pkg/native/__init__.py": "", "pkg/fast.pyx": "x = 1\n"}, "from .native.fast import go\n"),
    ],
    ids=["compiled", "ignored", "absent", "absent beside Cython of its name"],
)
def test_a_module_in_a_folder_of_an_own_package(tmp_path: Path, files: Files, text: str) -> None:
    write(tmp_path, files | {"pkg/__init__.py": text, "train.py": "import pkg\n" + MAIN})
    (found,) = report(tmp_path)["programs"]
    assert (found["verdict"], found["unread"][0]["place"]) == ("not judged", "pkg/__init__.py:1")


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"pkg/__init__.py": "from .made import x\n", "pkg/made.py": "x = 1\n"}, "from pkg import x\n"),
        ({"pkg/__init__.py": "import pkg.deep\nfrom .deep import a\n", "pkg/deep/a.py": "x = 1\n"}, "import pkg\n"),
        ({".gitmodules": SUBMODULE}, "try:\n    import net\nexcept ImportError:\n    pass\n"),
        ({".gitmodules": '[submodule "n"]\n\tpath = net\n\turl = u\n', "net/__init__.py": ""}, "import net\n"),
        ({".gitmodules": '[submodule "n"]\n\tpath = ../net\n\turl = u\n'}, "import net\n"),
        ({".gitmodules": "\0[[[", "net.py": ""}, "import net\n"),
        ({"net.pyx": "x = 1\n"}, "import net\n"),
        ({"pkg/__init__.py": "from .pkg.core import f\n", "pkg/core.pyx": "x = 1\n"}, "import pkg\n"),
        ({"pkg/__init__.py": "from .pkg.core import f\n", "pkg/core.pyx": "x = 1\n", "pkg/pkg/.gitkeep": ""},
         "import pkg\n"),
        ({"pkg/__init__.py": "from .pkg.core import f\n", "pkg/core.pyx": "x = 1\n", "pkg/pkg/core.so": ""},
         "import pkg\n"),
        ({"pkg/__init__.py": "from .version import __version__\n"}, "import pkg\n"),
        ({"net/readme.txt": "x"}, "import net\n"),
    ],
    ids=[
        *("a name of a package", "a package without __init__", "guarded", "there", "outside"),
        *("broken", "plain Cython", "Cython that is built into a folder", "which is kept", "and was built"),
        *("a version", "data"),
    ],
)  # fmt: skip
def test_what_is_no_gap_does_not_count_as_one(tmp_path: Path, files: Files, text: str) -> None:
    write(tmp_path, files | {"train.py": text + MAIN})
    assert verdicts(report(tmp_path))["train.py"] == "ready"


READ = "def read():\n    pass\n"
ON_PATH = "import sys\nsys.path.append({})\nimport {}\n"
ASTRAY: dict[str, tuple[Files, str]] = {
    "a submodule on the path": (
        {".gitmodules": SUBMODULE, "train.py": ON_PATH.format("'net/'", "voice")}, "may be in the submodule net"),
    "a submodule that the program puts on the path for others": (
        {".gitmodules": SUBMODULE, "train.py": ON_PATH.format("'net'", "inner"), "inner.py": "import voice\n"},
        "may be in the submodule net, which train.py adds"),
    "another case": ({"train.py": "from Nets.model import A\n", "nets/__init__.py": ""}, "but nets is"),
    "a file elsewhere": (
        {"train.py": "from voice import read\n", "net/__init__.py": "", "net/voice.py": READ},
        "the folder of net/voice.py"),
}  # fmt: skip
FOREIGN: dict[str, Files] = {
    "a submodule that is not on the path": {
        ".gitmodules": SUBMODULE, "train.py": "import sys\nimport voice\nprint('net')\n"},
    "another submodule on the path": {".gitmodules": SUBMODULE, "train.py": ON_PATH.format("'nets'", "voice")},
    "a submodule that another program puts on the path": {
        ".gitmodules": SUBMODULE, "train.py": "import inner\n", "inner.py": "import voice\n",
        "eval.py": ON_PATH.format("'net'", "inner")},
    "a package that a table knows": {".gitmodules": SUBMODULE, "train.py": ON_PATH.format("'net'", "timm")},
    "a file elsewhere with other names": {
        "train.py": "from voice import read\n", "net/__init__.py": "", "net/voice.py": "x = 1\n"},
    "a file of the same name in the folder of the importer": {
        "train.py": "import net.voice\n", "net/__init__.py": "", "net/voice.py": "import voice.inner\n"},
    "an adapter called as its package in small letters": {
        "train.py": "import net.voice\n", "net/__init__.py": "", "net/voice.py": "import Voice\n"},
    "an adapter called as its package": {
        "train.py": "import net.voice\n", "net/__init__.py": "",
        "net/voice.py": "from voice import read\nread = read\n"},
    "a guard": {
        "train.py": "try:\n    from Nets.model import A\nexcept ImportError:\n    A = None\n", "nets/__init__.py": ""},
}  # fmt: skip


@pytest.mark.parametrize("case", ASTRAY.values(), ids=ASTRAY.keys())
def test_an_import_that_goes_astray_is_not_a_package_nobody_knows(tmp_path: Path, case: tuple[Files, str]) -> None:
    files, reason = case
    write(tmp_path, files | {"train.py": files["train.py"] + MAIN})
    program = next(each for each in report(tmp_path)["programs"] if each["path"] == "train.py")
    assert (program["verdict"], program["unverified"]) == ("not judged", [])
    assert reason in program["unread"][0]["reason"]


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_package_that_nobody_knows_is_not_the_projects(tmp_path: Path, files: Files) -> None:
    write(tmp_path, files | {"train.py": files["train.py"] + MAIN})
    assert verdicts(report(tmp_path))["train.py"] == "ready"


@pytest.mark.parametrize("content", ["right", "another module", "broken"])
def test_a_module_in_an_archive(tmp_path: Path, content: str) -> None:
    write(tmp_path, {"app/train.py": "import sys\nsys.path.insert(0, 'lib.zip')\nimport inner\n" + MAIN})
    with ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("inner/__init__.py" if content == "right" else "other.py", "import cupy\n")
    if content == "broken":
        (tmp_path / "lib.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    (found,) = report(tmp_path)["programs"]
    is_other = content == "another module"
    assert found["verdict"] == ("ready" if is_other else "not judged")
    assert any("lib.zip" in unread["reason"] for unread in found["unread"]) is not is_other


def test_a_module_that_is_not_in_the_tree(tmp_path: Path) -> None:
    write(tmp_path, {"pkg/__init__.py": "from .made import ops\n", "train.py": "import pkg\n" + MAIN})
    (found,) = report(tmp_path / "train.py")["programs"]
    assert found["verdict"] == "not judged"
    assert found["unread"][0]["chain"] == ["train.py:1", "pkg/__init__.py:1"]


def test_each_thing_that_was_not_looked_at_has_a_line_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_PROGRAMS", 1)
    files = {
        ".gitignore": "data/\n",
        ".gitmodules": '[submodule "n"]\n\tpath = ext/net\n\turl = u\n',
        "data/a.py": "cuda = 'nccl'\n",
        "data/b.py": "cuda\n",
        "torchferry.toml": 'exclude = ["vendor"]\nmax-file-size = 3000000\n',
        "vendor/x.py": "cuda\n",
        "venv/pyvenv.cfg": "",
        "venv/a.py": "cuda\n",
        "big.py": "# cuda\n" * 500_000,
        "README.md": "# NVIDIA\n" * 150_000,
        "csrc/a.cpp": "cudaMalloc();\n",
        "a.lua": "-- cuda\n",
        "b.js": "x\n",
        "train.py": MAIN,
        "other.py": MAIN,
    }
    write(tmp_path, files)
    document = report(tmp_path)
    assert [(row["place"], row["files"], row["words"]) for row in document["unlooked"]] == [
        ("ext/net", 0, None),
        ("data/", 2, 3),
        ("vendor/x.py", 1, 1),
        ("venv", 0, None),
        ("README.md", 1, 150_000),
        ("big.py", 1, 500_000),
        ("C, C++", 1, 1),
        ("Lua", 1, 1),
    ]
    verdicts = [program["verdict"] for program in document["programs"]]
    assert sorted(verdicts) == ["not judged", "ready"]  # there is one more than are judged


V1 = {
    "torchferry": str, "target": str, "root": str, "verdict": str, "summary": str, "files": int, "counts": dict,
    "families": dict, "remarks": list, "entry_points": list, "findings": list, "changes": list, "ignored": list,
    "kept": dict, "failures": list,
}  # fmt: skip
V1_FINDING = {
    "code": str, "family": str, "grade": str, "blocker": bool, "path": str, "line": int, "column": int,
    "end_line": int, "end_column": int, "message": str, "snippet": str, "fix": list,
}  # fmt: skip


def test_readers_of_version_1_find_what_they_read(tmp_path: Path) -> None:
    """Version 2 adds to version 1: every field is where it was, and of the kind that it was."""
    write(tmp_path, NEEDY | {"data/a.py": "x = 1\n", ".gitignore": "data/\n"})
    document = report(tmp_path)
    assert document["schema"].startswith("3.")
    assert {name: type(document[name]) for name in V1} == V1
    assert document["findings"]
    for finding in document["findings"]:
        assert {name: type(finding[name]) for name in V1_FINDING} == V1_FINDING
        assert finding["grade"] in ("safe", "unsafe", "manual", "note")
    assert document["ignored"] == ["data/a.py"]
    assert document["verdict"] in {verdict.value for verdict in ProjectVerdict}


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "import net\n" + MAIN})
    (tmp_path / "net.py").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    assert verdicts(report(tmp_path)) == {"train.py": "ready"}
