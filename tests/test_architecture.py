"""The shape of the house: who may import whom, where vendors live, and that nothing here loads torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
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
            "status",
            "torch_import",
            "weights",
        )
    ),
    *(
        f"torchferry.shim.{name}"
        for name in (
            "auto",  # redirects when it is imported
            "devices",
            "install",
            "patch_accelerator",
            "patch_amp",
            "patch_compile",
            "patch_cuda_namespace",
            "patch_distributed",
            "patch_factories",
            "patch_profiler",
            "patch_tensors",
            "patch_torch_names",
            "resolve",
            "torch_versions",
        )
    ),
    "torchferry.acceptance.watch",
    "torchferry.profiling.passes",
    "torchferry.profiling.recorder",
    "torchferry.ops.codegen.generate",  # these three import torchgen, and it PyYAML
    "torchferry.ops.codegen.new_operator",
    "torchferry.ops.codegen.registrations",
    *(
        f"torchferry.rehearsal.{name}"
        for name in (
            "autocast",
            "compilers",
            "cuda_leftovers",
            "device_module",
            "distributed",
            "driver.composed",
            "driver.looking",
            "driver.native",
            "driver.references",
            "driver.refusals",
            "driver.session",
            "extension_build",
            "facade_support",
            "native",
            "observers",
            "operator_modes",
            "plugin_namespace",
            "races.watching",
            "session",
            "torch_versions",
            "triton_kernels",
            "sharing",
        )
    ),
    *(
        f"torchferry.ops.{name}"
        for name in (
            "composition",
            "deferred_imports",
            "fake_autocast",
            "unknown_results",
            "fake_device",
            "fallback",
            "predicting",
            "recorder",
            "registered",
        )
    ),
}
"""Modules that run inside a program that has torch, and the room they are in."""

NUMERICS_ON_FILES = (
    "curves",
    "differences",
    "framework.kinds",
    "framework.launcher",
    "framework.site",
    "report",
    "rundiff",
    "runlog",
)
"""Parts of `numerics` that work on files, without torch; the others run inside a program."""

NUMERICS_WITH_NUMPY = (
    "differences",
    "report.diff",
    "rundiff",
    "runlog.container",
    "runlog.record",
)
"""Of these, what is imported by one command alone, with the numpy of the extra `numerics`."""

MAY_IMPORT = {
    "core": set(),
    "backends": {"core"},
    "source": {"core", "backends"},
    "rules": {"core", "backends", "source"},
    "kernels": {"core", "backends", "source", "migration"},
    "installed": {"core", "backends", "source", "rules"},
    "programs": {"core", "backends", "source", "rules", "installed"},
    "migration": {"core", "backends", "source", "rules"},
    "report": {"core", "backends", "source", "rules", "installed", "programs", "migration", "kernels"},
    "shim": {"core", "backends"},
    "rehearsal": {"core", "backends", "shim"},
    "doctor": {"core", "backends"},
    "device": {"core", "backends"},
    "numerics": {"core", "backends"},
    "ops": {"core", "backends", "rehearsal", "numerics", "migration"},
    "profiling": {"core", "backends", "rehearsal", "numerics", "ops", "device"},
    "triton": {"core", "backends", "source", "rules", "rehearsal", "numerics"},
    "advice": {"core", "backends", "source", "rules", "programs", "ops", "profiling", "numerics"},
    "acceptance": {
        *("core", "backends", "source", "migration", "report", "rehearsal", "doctor", "device", "numerics"),
        *("diagnosis",),
    },
    "handover": {"core", "backends", "source", "migration", "acceptance"},
    "kit": {"core", "backends", "source", "rules", "migration", "device"},
    "deploy": {"core", "backends", "doctor"},
    "diagnosis": {"core", "backends"},
    "assistant": {"core", "backends", "source", "rules", "report", "rehearsal"},
    "cli": {
        *("core", "backends", "source", "rules", "installed", "programs", "migration", "report"),
        *("shim", "rehearsal", "doctor", "device", "numerics", "kernels", "ops", "profiling"),
        *("advice", "acceptance", "kit", "handover", "deploy", "assistant", "diagnosis", "triton"),
    },
}
"""For each room, the rooms that it may import from. `source` knows the CUDA side of `backends`, and asks its
registry for the words of all targets."""


@cache
def imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return what imports in a file, at the top or inside of a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def imported_rooms(path: Path) -> Iterator[tuple[str, int]]:
    for node in imports(path):
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


LAYERS_OF_PROGRAMS = (
    *("model", "syntax", "imports", "options", "entry_points", "references", "evaluation", "call_paths", "verdicts"),
)
"""The packages of `programs`: each may import from those before it."""


def test_the_packages_of_programs_are_layers() -> None:
    room = SOURCE / "programs"
    assert {path.stem for path in room.iterdir() if path.name[:1] != "_"} == {*LAYERS_OF_PROGRAMS}
    for path in sorted(room.rglob("*/*.py")):
        own = LAYERS_OF_PROGRAMS.index(path.parent.name)
        for node in imports(path):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            parts = (module or "").split(".")
            if parts[:2] == ["torchferry", "programs"] and len(parts) > 2:
                assert LAYERS_OF_PROGRAMS.index(parts[2]) <= own, f"{path.relative_to(SOURCE)}:{node.lineno}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_files_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    paths = {module_name(path): path for path in (SOURCE / room).rglob("*.py") if "facades" not in path.parts}
    TopologicalSorter({name: set(imported_modules(path, paths)) for name, path in paths.items()}).prepare()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(path: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the modules of `known` that a file imports."""
    for node in imports(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        else:
            for alias in node.names:
                names = (f"{node.module}.{alias.name}", node.module or "")
                yield from [name for name in names if name in known][:1]


@pytest.mark.parametrize("document", ["docs/internals.md", "docs/zh/internals.md"])
def test_the_plan_names_every_family_of_patches(document: str) -> None:
    text = (SOURCE.parent.parent / document).read_text(encoding="utf-8")
    assert [path.name for path in (SOURCE / "shim").glob("patch_*.py") if f"`{path.name}`" not in text] == []


SAYS_NOTHING = frozenset({"beside", "found", "here", "it", "kept", "known", "made", "one", "said", "told", "what"})
"""Words that do not tell what a name holds; `left` is one too, but for its place beside `right`."""

NAMED_BY_WHAT_THEY_HOLD = (
    "backends",
    "cli",
    "core",
    "device",
    "installed",
    "migration",
    "programs",
    "report",
    "rules",
    "shim",
    "source",
)


def names_of(path: Path) -> Iterator[str]:
    """Yield the functions and classes of a file and their parameters, and what functions assign to."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name.lower()
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


FIELDS_OF_REPORTS = {
    # keys of the JSON that users read
    "installed/model.py": {"what"},
    "programs/model.py": {"what"},
    "programs/verdicts/package_requirements.py": {"what"},
    "rules/file_result.py": {"what"},
}


@pytest.mark.parametrize("room", NAMED_BY_WHAT_THEY_HOLD)
def test_names_say_what_they_hold(room: str) -> None:
    for path in sorted((SOURCE / room).rglob("*.py")):
        allowed = FIELDS_OF_REPORTS.get(path.relative_to(SOURCE).as_posix(), set())
        assert SAYS_NOTHING.intersection(names_of(path)) - allowed == set(), path


def documented(docstring: str) -> set[str]:
    """Return the parameters and attributes that a docstring describes."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:(?:    .*)?\n)+)", f"{docstring}\n", re.MULTILINE)
    return {name for section in sections for name in re.findall(r"^    \*{0,2}(\w+): ", section, re.MULTILINE)}


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = function.args
    all_of_them = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in all_of_them if each is not None}


def held_by(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str] | None:
    """Return the parameters of a function, or those of a class and its attributes; None where it inherits them."""
    if not isinstance(node, ast.ClassDef):
        return parameters_of(node)
    methods = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    begins = [each for each in methods if each.name in ("__init__", "__new__")]
    inner = [part for each in (*begins, *node.body) for part in ast.walk(each)]
    fields = {each.id for each in inner if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    if node.bases and not begins and not fields:
        return None
    stored = {each.attr for each in inner if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}
    return fields | stored | {each.name for each in methods}.union(*map(parameters_of, begins))


def test_docstrings_describe_parameters_and_attributes_that_there_are() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Args:\n" in text or "Attributes:\n" in text else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names = documented(ast.get_docstring(node) or "")
                held = held_by(node) if names else None
                if held is not None and not names <= held:
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {sorted(names - held)}")
    assert wrong == []


ITS_OWN_CODE, TOOLS, THE_USERS = "ours", "tools", "the user's"
STARTS_PROGRAMS = {
    "assistant/commands.py": THE_USERS,  # torchferry, which may start one
    "core/command.py": THE_USERS,
    "core/process_tree.py": TOOLS,
    "core/reaper.py": ITS_OWN_CODE,
    "core/subprocesses.py": TOOLS,
    "deploy/fetching.py": TOOLS,
    "deploy/inventory.py": TOOLS,
    "doctor/symbols/names.py": TOOLS,
    "kernels/gates/compiling.py": TOOLS,
    "ops/child.py": TOOLS,
    "ops/codegen/building.py": TOOLS,
    "rehearsal/__main__.py": THE_USERS,  # torchferry, which starts one
    "rehearsal/build.py": TOOLS,
    "rehearsal/environments/cuda_free.py": TOOLS,
    "rehearsal/environments/entering.py": THE_USERS,  # torchferry, which starts one
    "rehearsal/environments/filling.py": TOOLS,
    "rehearsal/environments/package_installer.py": TOOLS,
    "rehearsal/environments/request.py": TOOLS,
    "source/git.py": TOOLS,
    "triton/compiling.py": TOOLS,
    # files that any Python runs without torchferry
    "deploy/remote/cluster_probe.py": ITS_OWN_CODE,
    "doctor/probes/live_probe.py": ITS_OWN_CODE,
    "kit/standalone.py": ITS_OWN_CODE,
}
"""The modules that start programs, and whose: tools get the variables of `tool_environment`, the user's get them as
they are. Code of ours sees to it by itself: in a Python that ignores them, or below a parent that was started so.
"""

NAMES_ITS_PYTHON = {
    "core/command.py",
    "core/own_python.py",
    "doctor/probes/live_probe.py",
    "deploy/remote/cluster_probe.py",
    "kit/standalone.py",
}
"""Where our Python may begin a command: for the user's program, in the one place for ours, in files that run alone."""

_STARTING = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)|pty\.\w+"
    r"|os\.(exec|spawn|posix_spawn|popen|system)\w*|(anyio|trio)\.\w+_process|asyncio\.create_subprocess_\w+"
)
_NEVER = re.compile(
    r"shutil\.which|(ctypes\.)?util\.find_library|(torch\.)?multiprocessing\.(Pool|Process|get_context|spawn)"
    r"|(concurrent\.futures\.)?ProcessPoolExecutor|(os\.)?get_exec_path"
)


def modules_that_mention(words: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield our modules with such a word; the vendors' simulated packages are part of the user's program."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if re.search(words, text) and not (VENDORS in path.parents and "plugin" in path.parts):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def test_programs_are_started_in_known_places_without_the_current_folder() -> None:
    starting, wrong = set(), []
    for path, tree in modules_that_mention(
        f"{_STARTING.pattern}|{_NEVER.pattern}|from (subprocess|shutil|os|pty) import"
    ):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("subprocess", "shutil", "os", "pty"):
                wrong.append(f"{path}:{node.lineno} names of {node.module} are to be written with it")
            if isinstance(node, ast.Attribute) and _NEVER.fullmatch(ast.unparse(node)):
                if path not in ("core/command.py", "core/tool_environment.py"):
                    wrong.append(f"{path}:{node.lineno} {ast.unparse(node)}")
            if isinstance(node, ast.Call) and _STARTING.fullmatch(ast.unparse(node.func)):
                starting.add(path)
                variables = next((ast.unparse(word.value) for word in node.keywords if word.arg == "env"), "")
                if STARTS_PROGRAMS.get(path) is TOOLS and not re.search(r"\b(tool_)?environment\(", variables):
                    wrong.append(f"{path}:{node.lineno} {ast.unparse(node.func)}(env={variables})")
    assert wrong == []
    assert starting == set(STARTS_PROGRAMS)


def test_one_module_makes_the_commands_that_start_our_python() -> None:
    wrong = []
    for path, tree in modules_that_mention(r"[\[(]\s*(sys\.executable|(self\.)?python\b)"):
        for node in ast.walk(tree):
            if isinstance(node, (ast.List, ast.Tuple)) and path not in NAMES_ITS_PYTHON:
                words = [ast.unparse(part) for part in node.elts[:2]]
                ours = words[:1] in (["sys.executable"], ["python or sys.executable"], ["self.python"], ["python"])
                if ours and not isinstance(node.ctx, ast.Store):
                    wrong.append(f"{path}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


OF_ONE_SYSTEM = {
    "core/forks.py",  # asks whether there are forks
    # what is refused elsewhere before it is imported
    *(
        "rehearsal/environments/store.py",
        "rehearsal/environments/made_once.py",
        "triton/compiling.py",
        "triton/environment.py",
        "triton/front_end_program.py",
    ),
    *("doctor/host.py", "kernels/gates/compiling.py"),
    # behind `IS_LINUX`, which a rehearsal asks first; on the simulated card's machine alone
    "rehearsal/build.py",
    # on servers, or the machine that drives them
    *(
        "deploy/fetching.py",
        "deploy/playing.py",
        "deploy/records.py",
        "deploy/remote/cluster_probe.py",
        "deploy/remote/fetch.py",
        "deploy/remote/offer.py",
    ),
}
"""Modules that use names which not every system has, and why; for all others `core/system.py` knows the system."""

_OF_ONE_SYSTEM = re.compile(
    r"^\s*import (?:fcntl|grp|msvcrt|pty|pwd|resource|termios|tty)\b|\b(?:src_|dst_)?dir_fd=|\bos\.(?:O_(?:CLOEXEC"
    r"|DIRECTORY|NOCTTY|NOFOLLOW|NONBLOCK)|killpg|fork|fchmod|fchown|get(?:e?uid|e?gid|pgid|pgrp)|setsid|uname|pread|mkfifo)\b"
    r"|\bsignal\.SIG(?:ALRM|CHLD|HUP|KILL|PIPE|QUIT|USR\d)\b",
    re.M,
)


def test_one_module_knows_the_system() -> None:
    users = {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        if VENDORS not in path.parents and _OF_ONE_SYSTEM.search(without_guarded(path.read_text(encoding="utf-8")))
    }
    assert users - {"core/system.py"} == OF_ONE_SYSTEM


def without_guarded(text: str) -> str:
    """Return code without the lines that ask whether the system has a name, and those that answer its lack."""
    lines = ["", *text.splitlines(), ""]
    return "\n".join(
        line
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False)
        if "hasattr(" not in before + line and "AttributeError" not in after
    )


PRINTS_OTHERWISE = {
    # the module itself
    "core/terminal.py": {"sys.stdout", "sys.stderr"},
    # one word of its own where even that cannot be imported, since it was interrupted
    "__main__.py": {"sys.stderr"},
    # programs that run by themselves: generated files, on hosts, in the examined Python, in a child of ours
    "deploy/remote/cluster_probe.py": {"print", "sys.stdout"},
    "deploy/remote/fetch.py": {"print"},
    "deploy/remote/offer.py": {"print"},
    "device/portable.py": {"print", "sys.stderr"},
    "device/manager.py": {"print"},
    "kit/standalone.py": {"print", "sys.stdout", "sys.stderr"},
    # a stream of the program's own is flushed, or given to a child
    "ops/child.py": {"sys.stdout", "sys.stderr"},
    "ops/predicting.py": {"sys.stdout", "sys.stderr", "traceback.print_exc"},
    "triton/front_end_program.py": {"print", "sys.stdout"},
    # tracebacks of a user's program
    "numerics/framework/launcher.py": {"traceback.print_exc"},
    "shim/no_device.py": {"traceback.print_exception"},
    # whether there is a terminal
    "cli/output.py": {"sys.stdout"},
    # what is written over again: the line that says how far a command is, a table of hosts; their texts are `visible`
    "core/progress.py": {"sys.stderr"},
    "deploy/progress.py": {"sys.stderr", "Console"},
    # questions, whose texts are `visible`
    "cli/deploy_options.py": {"click.prompt"},
}
"""What prints, or has a stream, besides `core/terminal.py`: by module, and why."""

_PRINTS = re.compile(
    r"print|pprint|Console|sys\.(__)?std(out|err)(__)?|traceback\.print_\w+"
    r"|click\.(echo|secho|echo_via_pager|style|prompt|confirm|pause|progressbar|get_\w+_stream|open_file)"
)


def printing(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in ("click", "sys", "builtins"):
            assert not any(_PRINTS.fullmatch(f"{node.module}.{alias.name}") for alias in node.names), path
        if _PRINTS.fullmatch(name):
            found.add(name)
    return found


def test_there_is_one_way_to_print() -> None:
    aside = (VENDORS, SOURCE / "doctor" / "probes", SOURCE / "core" / "site")
    found = {
        path.relative_to(SOURCE).as_posix(): names
        for path in MODULES
        if not any(folder in path.parents for folder in aside) and (names := printing(path))
    }
    assert found == PRINTS_OTHERWISE


REUSED = {
    # `english.py` stands in for `failures.py` in the small file
    *("DeviceError", "DeviceNotAvailableError", "DeviceWarning", "NotOnThisDeviceError"),
    # conditions of the programs, and what a rehearsal of a plugin can be switched to: rooms that never meet
    "Switches",
}


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if VENDORS not in path.parents and "class " in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and node.name not in REUSED:
                    places.setdefault(node.name, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_room_is_known() -> None:
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(MAY_IMPORT)


def vendor_words() -> re.Pattern[str]:
    words: set[str] = set()
    for name in registry.built_in():
        backend = registry.load(name)
        words |= {backend.NAME, backend.PLUGIN, backend.COLLECTIVE, backend.DEVICE_TYPE}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")


def strings(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield string constants that are not documentation, of a file that holds a match, if only behind a `\\n`."""
    text = path.read_text(encoding="utf-8")
    if not pattern.search(re.sub(r"\\.", " ", text)):
        return
    tree = ast.parse(text)
    documentation = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


ALLOWED = {
    # an example in an advice
    "migration/suffix.py",
}


def test_vendors_live_in_their_folders_alone() -> None:
    pattern = vendor_words()
    paths = [path for path in MODULES if VENDORS not in path.parents]
    named = [
        f"{path.relative_to(SOURCE)}:{line} names a vendor: {text!r}"
        for path in paths
        if path.relative_to(SOURCE).as_posix() not in ALLOWED and not path.name.startswith(("html", "pages"))
        for line, text in strings(path, pattern)
        if "CHINESE" not in text and pattern.search(text)
    ]
    assert len(paths) > 300
    assert named == []


def test_no_module_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert [f"{path}: {length}" for path, length in lengths.items() if length > 600] == []


def among(name: str, parts: tuple[str, ...]) -> bool:
    """Whether a module of `numerics` is one of these parts, or in one of them."""
    return f"{name}.".startswith(tuple(f"torchferry.numerics.{part}." for part in parts))


def test_nothing_here_imports_torch() -> None:
    names = [
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if VENDORS not in path.parents and path.name != "pytest_plugin.py"
    ]
    names = [name for name in names if not any(name == own or name.startswith(f"{own}.") for own in WITH_TORCH)]
    names = [name for name in names if not name.startswith("torchferry.numerics.") or among(name, NUMERICS_ON_FILES)]
    names = [name for name in names if not name.endswith("__main__")]
    numeric = [name for name in names if name.startswith("torchferry.numerics.")]
    heavy = [name for name in numeric if among(name, NUMERICS_WITH_NUMPY)]
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


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/zh/architecture.md"])
def test_the_map_names_places_that_exist_and_few_words(document: str) -> None:
    text = (SOURCE.parent.parent / document).read_text(encoding="utf-8")
    assert len(text.split()) < 1500, "two pages"
    glossary = text.partition("\n## Glossary" if "## Glossary" in text else "\n## 术语")[2]
    assert 0 < sum(line.startswith("|") for line in glossary.splitlines()) - 2 <= 25
    places = re.findall(r"`([a-z_]+/[\w./<>-]+)`", text)
    names = registry.built_in()
    gone = [
        place
        for place in places
        if not any((base / place.replace("<name>", name).replace("<名称>", name)).exists()
                   for base in (SOURCE, SOURCE.parent.parent) for name in names)
    ]  # fmt: skip
    assert len(places) > 20
    assert gone == []
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set(re.findall(r"^  (\w+)/", text.partition("src/torchferry/\n")[2].partition("```")[0], re.M))


OTHER_JSON_READERS = {
    "core/json_text.py": "is the one reader",
    "core/toml.py": "reads values of our own tables",
    "profiling/event_stream.py": "reads a gigabyte event by event, and checks each field",
    "source/jsontext.py": "keeps the places of values",
    "numerics/curves/text_log.py": "finds an object in a line of a log",
    "acceptance/metrics.py": "finds an object in a line of a log",
    "numerics/callfile/reading.py": "stands alone in each folder of a call",
    "migration/overlay_runtime.py": "stands alone in each overlay",
    "doctor/probes/python_side.py": "runs in another Python, without torchferry",
    "doctor/probes/live_probe.py": "runs in another Python, without torchferry",
    "deploy/remote/cluster_probe.py": "runs on another machine, without torchferry",
    "triton/front_end_program.py": "runs in another Python, without torchferry",
}
"""Modules that read JSON with Python's own reader, and why; all others use `parsed_json`."""


def test_json_and_toml_of_others_are_read_in_one_way() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        if VENDORS not in path.parents and re.search(r"\bjson\.(?:loads?|JSONDecoder)\(", path.read_text("utf-8"))
    }
    assert found == set(OTHER_JSON_READERS)
    readers_of_toml = [path for path in MODULES if re.search(r"import tom(?:llib|li)\b", path.read_text("utf-8"))]
    assert readers_of_toml == [SOURCE / "core" / "toml.py"]
