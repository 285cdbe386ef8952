"""Readers of a project's files."""

from __future__ import annotations

import contextlib
import gzip
import io
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.table import SEEDS, examples, reader, run_command, text_of, written
from torchferry.backends import registry
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.target import Target
from torchferry.core import config
from torchferry.core.finding import Anchor
from torchferry.core.messages import Bilingual
from torchferry.core.pathmap import PathMap
from torchferry.core.recorded_decisions import FILE, DecidedPlace, RecordedDecision, decisions_text, read_decisions
from torchferry.core.secrets import masked, masked_text, secrets_of_file
from torchferry.source.kinds import kind_of
from torchferry.source.tree import Entry, list_files


class EngineFailureError(Exception):
    """What `Engine.examine` caught: it reports it as a fault of ours, and so do we."""


@reader(
    "settings", "text", "core/config.py", "core/toml.py", "core/pathmap.py", more=examples("torchferry.toml")
)  # fmt: skip
def _settings(folder: Path, data: bytes) -> None:
    found = config.read(written(folder, "torchferry.toml", data))
    for line in ("/data/cuda/a.pth", "x/y"):
        list(PathMap.of(found.paths).replacements(line))


def _decisions() -> list[bytes]:
    place = DecidedPlace("a.py", "CUD110", Anchor("main", "4fa2", 1))
    made = RecordedDecision("CUD110-4fa2", "npu", "accept", "A. Person", "only printed", frozenset({place}))
    return [decisions_text([made]).encode()]


@reader("decisions", "text", "core/recorded_decisions.py", more=_decisions)
def _recorded_decisions(folder: Path, data: bytes) -> None:
    written(folder, FILE, data)
    read = read_decisions(folder)
    (folder / FILE).write_text(decisions_text(read), encoding="utf-8")
    assert decisions_text(read_decisions(folder)) == decisions_text(read)


def _with_secrets() -> list[bytes]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("inner/.env", "TOKEN=abc")
    return [
        b'password = "correct horse"\nAuthorization: Bearer abcdef\nurl: https://user:word@host/x?token=1\n',
        b"-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n",
        gzip.compress(b"AWS_SECRET_ACCESS_KEY=x\n"),
        archive.getvalue(),
    ]


@reader("pyproject", "text", "core/config.py")
def _pyproject(folder: Path, data: bytes) -> None:
    written(folder, "pyproject.toml", data)
    if config.find(folder) is not None:
        config.load(folder)


@reader(
    "secrets", "text", "core/secrets.py", "core/secret_archives.py", "core/secret_values.py",
    "handover/secret_check.py", more=_with_secrets,
)  # fmt: skip
def _secrets(folder: Path, data: bytes) -> None:
    for name in ("a.py", ".env", "config.yaml", "b.zip"):
        secrets_of_file(name, data)
    masked(data.decode("utf-8", "replace"))
    masked_text(data)


# --- each kind of file, with every rule ---

FILES = {
    "python": ("train.py", ("*.py",)),
    "notebook": ("a.ipynb", ("*.ipynb",)),
    "shell": ("run.sh", ("*.sh",)),
    "makefile": ("Makefile", ("Makefile",)),
    "requirements": ("requirements.txt", ("requirements*.txt",)),
    "setup.cfg": ("setup.cfg", ()),
    "pyproject-of-project": ("pyproject.toml", ("pyproject.toml",)),
    "conda": ("environment.yml", ("environment.y*ml",)),
    "yaml": ("config.yaml", ("*.yaml", "*.yml")),
    "json": ("config.json", ("*.json",)),
    "toml": ("config.toml", ("*.toml",)),
    "dockerfile": ("Dockerfile", ("Dockerfile*",)),
    "compose": ("docker-compose.yml", ()),
    "markdown": ("README.md", ("README.md",)),
    "cmake": ("CMakeLists.txt", ("CMakeLists.txt",)),
    "manifest": ("MANIFEST.in", ()),
    "meson": ("meson.build", ()),
    "bazel": ("BUILD", ()),
    "kernel": ("a.cu", ("*.cu",)),
    "cpp": ("a.cpp", ("*.cpp", "*.h")),
}
"""By the name of the reader: the file's name, and which of the examples' files are like it."""

_IN_JSON = frozenset({"notebook", "json"})


@cache
def _engine() -> Any:
    from torchferry.rules.engine import Engine
    from torchferry.rules.registry import rules

    return Engine(Path("/nowhere"), Target.named("npu"), rules(), account=True)


def _add_files() -> None:
    for name, (file, patterns) in FILES.items():

        def read(folder: Path, data: bytes, file: str = file) -> None:
            kind = kind_of(file)
            assert kind is not None
            found = _engine().examine(Entry(file, kind), rewrite=True, whole=True, data=data)
            if found.failure is not None:
                raise EngineFailureError(found.failure.what)

        covers = (
            "source/text.py", "source/notebook.py", "source/jsontext.py", "source/document.py", "source/project.py",
            "source/python.py", "source/copied.py", "rules/engine.py", "rules/analysis.py", "source/reparse.py",
            "source/fstrings.py", "source/insertion.py", "source/outline.py", "rules/device/cut_off.py",
        )  # fmt: skip
        reader(name, "json" if name in _IN_JSON else "text", *covers, more=examples(*patterns))(read)


_add_files()


# --- the port of C++ ---


def _seed(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((SEEDS / name).glob("*"))]


@cache
def _build_settings(style: str) -> Any:
    from torchferry.kernels.buildfiles.model import BuildSettings

    return BuildSettings(Target.named("musa"), style, {"pkg/csrc": "pkg/csrc_musa"}, (), {"WITH_CUDA": "WITH_MUSA"})


def _add_build_files() -> None:
    for name in ("cmake", "manifest", "meson", "bazel", "pyproject-of-project", "setup"):
        file, patterns = FILES.get(name, ("setup.py", ("setup.py",)))

        def read(folder: Path, data: bytes, file: str = file) -> None:
            from torchferry.kernels.buildfiles import port_build_data
            from torchferry.kernels.buildfiles.model import STYLES

            for style in STYLES:
                port_build_data(file, data, _build_settings(style))

        def more(name: str = name, patterns: tuple[str, ...] = patterns) -> list[bytes]:
            return [*_seed(name), *examples(*patterns)()]

        covers = (
            "kernels/buildfiles/other_files.py",
            "kernels/buildfiles/joining.py",
            "kernels/buildfiles/python_script.py",
        )
        reader(f"port-{name.partition('-')[0]}", "text", *covers, more=more)(read)


_add_build_files()


def _sources() -> list[bytes]:
    return [*_seed("kernel"), *examples("*.cu", "*.cuh", "*.cpp", "*.h")()]


@reader("port-kernel", "text", "kernels/ported_tree.py", "kernels/gates/compiling.py", more=_sources)
def _port_kernel(folder: Path, data: bytes) -> None:
    from torchferry.kernels import port

    written(folder, "csrc/a.cu", data)
    written(folder, "csrc/a.cuh", b"#pragma once\n#define OWN_CUDA 1\n")
    port(folder / "csrc", "musa")


@reader("native-survey", "text", "kernels/survey.py", more=lambda: _seed("kernel"))
def _survey(folder: Path, data: bytes) -> None:
    from torchferry.kernels.survey import survey

    written(folder, "a.cu", data)
    written(folder, "setup.py", _seed("port-setup")[0])
    survey(folder, ["a.cu", "setup.py"], Target.named("npu"))


def _ruled(rules: dict[str, str]) -> None:
    from torchferry.kernels.rules import rule_set

    table = kernel_table(registry.load("musa"))
    assert table is not None
    rule_set(rules, table, allow_unsafe=True)


@reader("port-map", "text", "kernels/rules.py")
def _port_map(folder: Path, data: bytes) -> None:
    from torchferry.kernels.rules import read_rules

    name = "map.json" if data.lstrip()[:1] == b"{" else "map.toml"
    _ruled(read_rules(written(folder, name, data)))


@reader("port-rules", "json", "kernels/simple_porting.py")
def _port_rules(folder: Path, data: bytes) -> None:
    from torchferry.kernels.simple_porting import SimplePorting

    _ruled(SimplePorting(folder, "[]", text_of(data), target="musa").mapping_rule)


# --- what a tree has beside its sources ---


@reader("gitignore", "text", "source/tree.py")
def _gitignore(folder: Path, data: bytes) -> None:
    from torchferry.source.gitignore import is_ignored, parse_gitignore

    patterns = parse_gitignore(text_of(data), "base")
    for path in ("base/a.pyc", "base/build/x", "base/keep/a/b/x", "a" * 60):
        is_ignored(path, path.endswith("x"), patterns)


@reader("gitmodules", "text", "programs/imports/missing_sources.py")
def _gitmodules(folder: Path, data: bytes) -> None:
    from torchferry.programs.imports.missing_sources import absent_submodules

    written(folder, ".gitmodules", data)
    absent_submodules(folder)


@reader("pins", "text", "rules/pins.py", more=lambda: _seed("requirements"))
def _pins(folder: Path, data: bytes) -> None:
    from torchferry.rules import pins

    written(folder, "requirements.txt", data)
    written(folder, "README.md", data)
    pins._texts.cache_clear()
    pins.is_older(pins.pinned(folder, "torch") or "1", "2.1")
    pins.keeps_below(folder, "torch", "2.1")


def _listing_files() -> list[bytes]:
    names = ("requirements", "pyproject-of-project", "setup.cfg", "conda", "port-setup")
    return [data for name in names for data in _seed(name)]


@reader("lists-of-kit", "text", "kit/lists.py", "kit/needs.py", "kit/plan.py", more=_listing_files)
def _lists(folder: Path, data: bytes) -> None:
    from torchferry.kit.lists import lists_of

    for name in ("requirements.txt", "pyproject.toml", "setup.cfg", "setup.py", "environment.yml"):
        written(folder, name, data)
    lists_of(folder, list_files(folder))


@reader("included-lists", "text", "rules/dependencies/plugin_version.py", more=lambda: _seed("requirements"))
def _included_lists(folder: Path, data: bytes) -> None:
    from torchferry.rules.dependencies.plugin_version import included_lists

    written(folder, "requirements.txt", data)
    list(included_lists(folder, "all.txt", f"-r requirements.txt\n{data.decode(errors='replace')}"))


@reader(
    "code-in-a-setting", "text", "rules/cuda_api/name_in_string.py",
    more=lambda: [b"lambda t: t.cuda()", b"[torch.cuda.Stream() for _ in range(2)]"],
)  # fmt: skip
def _code_in_a_setting(folder: Path, data: bytes) -> None:
    from torchferry.rules.cuda_api.name_in_string import is_code

    is_code(data.decode(errors="replace"))


# --- the verdict on programs ---

_LOOKUPS = [
    b"import sys\nimport torch\nfrom pkg.a import helper\nimport pkg.a as a\nglobals()[sys.argv[1]]()\n"
    b"eval('a.' + sys.argv[1])()\nfor f in vars(a).values():\n    f()\ngetattr(a, f'{sys.argv[1]}')()\n",
    b"import torch\nexec(open('pkg/a.py').read())\nhelper(torch.ones(2))\n",
]


def _scan(folder: Path) -> None:
    run_command("scan", folder, "-t", "npu", "-f", "json", "--jobs", "1")


@reader(
    "programs", "text", "programs/entry_points/finder.py", "source/roles.py", "programs/verdicts/analysis_gaps.py",
    "programs/entry_points/launch_commands.py", "programs/imports/sources.py",
    "programs/imports/settings_classes.py", "programs/imports/module_graph.py",
    "programs/call_paths/path_search.py", "programs/evaluation/conditions.py", "programs/evaluation/values.py",
    "programs/evaluation/members.py", "programs/evaluation/objects.py",
    "programs/verdicts/unexamined.py", "programs/syntax/dynamic_lookups.py", "programs/syntax/dynamic_lookups.py",
    more=lambda: [*examples("train.py", most=4)(), *_LOOKUPS],
)  # fmt: skip
def _programs(folder: Path, data: bytes) -> None:
    """The verdict on a project of few files, one of which is the input."""
    written(folder, "train.py", data)
    written(folder, "pkg/__init__.py", b"")
    written(folder, "pkg/a.py", b"import torch\ndef helper(x):\n    return x.cuda()\n")
    written(folder, "c.yaml", b"device: cuda\n")
    written(folder, "run.sh", b"python train.py --device cuda\n")
    _scan(folder)


@reader(
    "settings-of-programs",
    "text",
    "programs/imports/settings_classes.py",
    "programs/evaluation/config_files.py",
    "programs/evaluation/program_facts.py",
    more=lambda: [*_seed("yaml"), *_seed("shell")],
)
def _settings_of_programs(folder: Path, data: bytes) -> None:
    written(folder, "train.py", _seed("programs")[0])
    for name in ("c.yaml", "conf/config.yaml", "run.sh", "pyproject.toml", "setup.cfg", "Makefile"):
        written(folder, name, data)
    _scan(folder)


_TASKS = (
    b"[testenv]\ncommands =\n    python train.py --fast \\\n        {posargs}\n",
    b"train flag='--fast':\n    python train.py {{flag}}\n    bash -c \"python train.py\"\n",
    b"import nox\n@nox.session\ndef t(session):\n    session.run('python', 'train.py', '--fast')\n",
    b"tasks:\n  train:\n    cmds:\n      - python train.py --fast\n",
    b"worker: python train.py --fast\n",
    b"[tool.poe.tasks]\ntrain = 'python train.py --fast'\n",
)


@reader("tasks", "text", "source/task_files.py", more=lambda: [*_TASKS])
def _tasks(folder: Path, data: bytes) -> None:
    written(folder, "train.py", _seed("programs")[0])
    for name in (
        "tox.ini",
        "tox.toml",
        "noxfile.py",
        "justfile",
        "a.just",
        "Taskfile.yml",
        "Procfile",
        "pyproject.toml",
    ):
        written(folder, name, data)
    _scan(folder)


@reader(
    "settings-of-functions", "text", "programs/evaluation/config_files.py", "programs/evaluation/fields.py",
    more=lambda: [b"run.fast = True\nmodel/run.fast = False\ninclude 'b.gin'\n", b"FAST=1\nexport X='a b'\n"],
)  # fmt: skip
def _settings_of_functions(folder: Path, data: bytes) -> None:
    """The verdict on a program whose parameters and fields come from a gin file and the environment."""
    written(folder, "train.py",
            b"import gin\nimport torch\nfrom pydantic_settings import BaseSettings\nclass S(BaseSettings):\n"
            b"    fast: bool = False\n@gin.configurable\ndef run(fast=False):\n    if fast or S().fast:\n"
            b"        import cupy\ngin.parse_config_file('a.gin')\nrun()\n")  # fmt: skip
    for name in ("a.gin", ".env", "conf/b.gin"):
        written(folder, name, data)
    _scan(folder)


_POINTS = b"""[project]
name = "lab"
[project.entry-points."lab.nets"]
small = "pkg.a:helper"
[tool.setuptools.dynamic]
entry-points = {file = ["points.ini"]}
"""
_POINTS_CFG = b"""[options.entry_points]
console_scripts =
    lab = pkg.a:helper
lab.nets =
    small = pkg.a:helper [fast]
[options]
entry_points = file: points.ini
"""
_POINTS_SETUP = b"""from setuptools import setup
NETS = ["a", "b"]
POINTS = {"lab.nets": [f"{n} = pkg.a:{n}" for n in NETS], **{"other": "[x]"}}
POINTS["lab.nets"].append("small = pkg.a:helper")
POINTS.setdefault("more", []).extend(["c = pkg:a"] + NETS)
setup(entry_points=POINTS if NETS else open("points.ini").read())
"""


@reader(
    "files-named-by-programs", "text", "programs/imports/plugin_loading.py", "programs/imports/packaging_metadata.py",
    "programs/imports/setup_scripts.py", "rules/config/unread_files.py",
    more=lambda: [_POINTS, _POINTS_CFG, _POINTS_SETUP, b"0,cuda\n1,cuda:1\n", b"device=cuda\n"],
)  # fmt: skip
def _files_named_by_programs(folder: Path, data: bytes) -> None:
    """The verdict on a program that loads entry points and names files of values."""
    written(folder, "train.py",
            b"import csv\nfrom importlib.metadata import entry_points\nfor each in entry_points(group='lab.nets'):\n"
            b"    each.load()(1)\nrows = csv.reader(open('devices.csv'))\nopen('values.txt').read()\n")  # fmt: skip
    written(folder, "pkg/__init__.py", b"")
    written(folder, "pkg/a.py", b"import cupy\ndef helper(x):\n    return x\n")
    for name in ("pyproject.toml", "setup.cfg", "setup.py", "points.ini", "devices.csv", "values.txt"):
        written(folder, name, data)
    _scan(folder)


@cache
def _report() -> bytes:
    from torchferry.cli import scan_cache
    from torchferry.core.messages import say
    from torchferry.core.records_json import records_to_json
    from torchferry.report.model import Report

    report = Report("npu", Bilingual("Huawei Ascend"), "a", 1, (), remarks=(say("{a} is b", a=1),))
    return records_to_json((report, None), scan_cache._classes()).encode()


@reader(
    "scan-report", "json", "cli/scan_cache.py", "core/records_json.py", "core/result_cache.py", more=lambda: [_report()]
)
def _scan_report(folder: Path, data: bytes) -> None:
    """A report that a scan kept: what is none is as if it were not there."""
    from torchferry.cli import scan_cache
    from torchferry.core.records_json import RecordsError, records_from_json
    from torchferry.core.result_cache import ResultCache

    with contextlib.suppress(RecordsError):
        records_from_json(data, scan_cache._classes())
    written(folder, f"scans/{'0' * 64}.json", data)
    assert ResultCache(folder / "scans").read("0" * 64) in (None, data.partition(b"\n")[2])


@reader("compiled-code", "text", "source/compiled.py", more=lambda: [*_seed("cmake"), *_seed("kernel")])
def _compiled_code(folder: Path, data: bytes) -> None:
    """What a program loads, where the input says what is built and registered."""
    written(folder, "train.py", b"import ctypes\nimport torch\nctypes.CDLL('libk.so')\ntorch.ops.k.f(torch.ones(1))\n")
    for name in ("CMakeLists.txt", "Makefile", "k.cu", "ops.cpp"):
        written(folder, name, data)
    _scan(folder)


@reader("notebook-program", "json", "programs/imports/sources.py", more=lambda: _seed("notebook"))
def _notebook_program(folder: Path, data: bytes) -> None:
    written(folder, "a.ipynb", data)
    _scan(folder)
