"""Build scripts ported for a target: what they say with and without its variable, and what is left to people."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.backends.build_facts import KINDS, build_facts
from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.kernels.buildfiles import is_build_file, port_build_data, port_build_file
from torchferry.kernels.buildfiles.cmake_syntax import commands
from torchferry.kernels.buildfiles.model import STYLES, BuildSettings
from torchferry.kernels.review import kinds
from torchferry.source.text import apply_edits

FOLDERS = {"pkg/csrc": "pkg/csrc_musa"}
MACROS = {"WITH_CUDA": "WITH_MUSA"}

ONE_CALL = """\
import os
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="pkg",
    ext_modules=[
        CUDAExtension(
            "pkg._C",
            ["pkg/csrc/a.cpp", "pkg/csrc/b.cu"],
            include_dirs=[os.path.join("pkg", "csrc")],
            define_macros=[("WITH_CUDA", None)],
            extra_compile_args={
                "cxx": ["-O3"],
                "nvcc": [
                    "-O3",
                    "--expt-relaxed-constexpr",
                    "-gencode", "arch=compute_80,code=sm_80",
                ],
            },
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""

ONE_ARM = """\
import os
import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension


def extensions():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(here, "pkg", "csrc")
    sources, macros, args = [os.path.join(folder, "a.cpp")], [], {"cxx": []}
    extension = CppExtension
    if (torch.cuda.is_available() and CUDA_HOME is not None) or os.getenv("FORCE_CUDA", "0") == "1":
        extension = CUDAExtension
        sources += [os.path.join(folder, "b.cu")]
        macros += [("WITH_CUDA", None)]
        args["nvcc"] = ["-O3", "-D__CUDA_NO_HALF_OPERATORS__"]
    elif os.getenv("FORCE_OTHER") == "1":
        raise SystemExit(3)
    return [extension("pkg._C", sources, define_macros=macros, extra_compile_args=args)]


setup(name="pkg", ext_modules=extensions(), cmdclass={"build_ext": BuildExtension})
"""

BY_MODULE = """\
'''Builds pkg.'''
from __future__ import annotations
import torch.utils.cpp_extension as builders
from setuptools import setup

flags = []
flags.append("-arch=sm_80")
setup(
    name="pkg",
    ext_modules=[builders.CUDAExtension("pkg._C", sources=[f"pkg/csrc/{n}.cu" for n in "b"], libraries=["cublas"])],
    cmdclass={"build_ext": builders.BuildExtension.with_options(use_ninja=False)},
)
"""

IMPORTED = "from torch.utils.cpp_extension import CUDAExtension\n"

SCRIPTS = {"one call": ONE_CALL, "one arm": ONE_ARM, "by module": BY_MODULE}

STUBS = {
    "setuptools.py": """
import json
def describe(value):
    return {key: describe(each) for key, each in value.items()} if isinstance(value, dict) else (
        [describe(each) for each in value] if isinstance(value, (list, tuple)) else value if isinstance(value, str)
        else None if value is None else getattr(value, "said", str(value)))
def setup(**kwargs):
    print(json.dumps(describe(kwargs), sort_keys=True))
""",
    "torch/__init__.py": "from torch import cuda, musa\n",
    "torch/cuda.py": "def is_available(): return False\n",
    "torch/musa.py": "def is_available(): return True\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": """
CUDA_HOME = None
def made(kind):
    class Extension:
        def __init__(self, name, sources, **kwargs):
            self.said = [kind, name, list(sources), {key: str(each) for key, each in sorted(kwargs.items())}]
    return Extension
CUDAExtension, CppExtension = made("cuda"), made("cpp")
class BuildExtension:
    said = "torch"
    @classmethod
    def with_options(cls, **options): return cls
""",
    "torch_musa/__init__.py": "",
    "torch_musa/testing.py": "def get_musa_arch(): return 22\n",
    "torch_musa/utils/__init__.py": "",
    "torch_musa/utils/musa_extension.py": """
from torch.utils.cpp_extension import made, BuildExtension as Base
MUSA_HOME = "/usr/local/musa"
MUSAExtension = made("musa")
class BuildExtension(Base):
    said = "torch_musa"
""",
}


def settings_for(style: str = "branch", target: str = "musa") -> BuildSettings:
    return BuildSettings(Target.named(target), style, FOLDERS, (), MACROS)


def ported(path: str, text: str, style: str = "branch", target: str = "musa") -> str:
    return apply_edits(text, port_build_file(path, text, settings_for(style, target)).edits)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def said(stubs: Path, folder: Path, text: str, **variables: str) -> str:
    """Run a setup script on modules that only note what they are told; return what it says of the extension."""
    (folder / "setup.py").write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(stubs), **variables}
    run = subprocess.run(
        [sys.executable, "-S", "setup.py", "--name"],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_branch_is_inactive_without_its_variable_and_builds_for_the_target_with_it(
    stubs: Path, tmp_path: Path, script: str
) -> None:
    beside = ported("setup.py", script)
    assert said(stubs, tmp_path, beside) == said(stubs, tmp_path, script)
    forced = said(stubs, tmp_path, beside, FORCE_MUSA="1")
    replaced = said(stubs, tmp_path, ported("setup.py", script, "replace"), FORCE_MUSA="1")
    assert forced == replaced
    (kind, name, sources, arguments), *_ = json.loads(forced)["ext_modules"]
    assert (kind, name) == ("musa", "pkg._C")
    assert all("csrc_musa" in source and not source.endswith(".cu") for source in sources)
    assert any(source.endswith("b.mu") for source in sources)
    assert json.loads(forced)["cmdclass"] == {"build_ext": "torch_musa"}
    text = str(arguments)
    assert not any(word in text for word in ("nvcc", "--expt", "gencode", "sm_80", "CUDA", "cublas"))
    if "WITH_CUDA" in script:
        assert "('WITH_MUSA', None), ('MUSA_ARCH', '22')" in text
        assert "'mcc': ['-O3']" in text


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_second_port_of_a_script_changes_nothing(script: str, style: str) -> None:
    once = ported("setup.py", script, style)
    assert once != script
    assert ast.parse(once)
    assert ported("setup.py", once, style) == once


OTHER_ARMS = """\
import os
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

include = "pkg/csrc/common"
if os.getenv("FORCE_OTHER") == "1":
    sources, extension = ["pkg/csrc/a.cpp", "pkg/csrc/other/b.cpp"], CppExtension
elif torch.cuda.is_available() or os.getenv("FORCE_CUDA") == "1":
    sources, extension = ["pkg/csrc/a.cpp", "pkg/csrc/b.cu"], CUDAExtension
elif os.getenv("FORCE_THIRD") == "1":
    sources, extension = ["pkg/csrc/a.cpp", "pkg/csrc/third/b.cpp"], CppExtension
else:
    sources, extension = ["pkg/csrc/a.cpp"], CppExtension
setup(name="pkg", ext_modules=[extension("pkg._C", sources)], cmdclass={"build_ext": BuildExtension})
"""


@pytest.mark.parametrize("style", STYLES)
def test_arms_for_other_cards_keep_their_sources(stubs: Path, tmp_path: Path, style: str) -> None:
    result = port_build_file("setup.py", OTHER_ARMS, settings_for(style))
    text = apply_edits(OTHER_ARMS, result.edits).replace("torch.musa.is_available()", "False")
    for variable, sources in (
        ("FORCE_OTHER", ["pkg/csrc/a.cpp", "pkg/csrc/other/b.cpp"]),
        ("FORCE_THIRD", ["pkg/csrc/a.cpp", "pkg/csrc/third/b.cpp"]),
        ("NONE", ["pkg/csrc/a.cpp"]),
        ("FORCE_MUSA", ["pkg/csrc_musa/a.cpp", "pkg/csrc_musa/b.mu"]),
    ):
        (extension, *_) = json.loads(said(stubs, tmp_path, text, **{variable: "1"}))["ext_modules"]
        assert extension[:3] == ["musa" if variable == "FORCE_MUSA" else "cpp", "pkg._C", sources]
    found = [(item.line, item.kind) for item in result.review if item.kind == "build-other-arms"]
    assert found == ([(9, "build-other-arms")] if style == "replace" else [])


def test_names_of_packages_are_no_folders() -> None:
    text = ONE_CALL.replace('name="pkg",', 'name="csrc", packages=["csrc", "csrc.sub"],')
    settings = settings_for("replace")._replace(folders={"csrc": "csrc_musa"})
    result = apply_edits(text, port_build_file("setup.py", text, settings).edits)
    assert 'name="csrc", packages=["csrc", "csrc.sub"]' in result


def test_half_types_in_cpp_go_through_the_kernels_compiler(stubs: Path, tmp_path: Path) -> None:
    result = port_build_file("setup.py", ONE_CALL, settings_for()._replace(half_sources=True))
    text = apply_edits(ONE_CALL, result.edits)
    assert "force_mcc" not in said(stubs, tmp_path, text)
    assert "'cxx': ['force_mcc', '-O3']" in said(stubs, tmp_path, text, FORCE_MUSA="1")


def test_jit_extensions_get_the_names_of_the_targets_arguments() -> None:
    text = (
        "from torch.utils.cpp_extension import load_inline\n"
        "module = load_inline('m', cpp_sources=[C], cuda_sources=[K], extra_cuda_cflags=['-O2'])\n"
    )
    result = port_build_file("ops.py", text, settings_for("replace"))
    new = apply_edits(text, result.edits)
    assert "from torch_musa.utils.musa_extension import load_inline" in new
    assert "musa_sources=[K], extra_musa_cflags=['-O2']" in new
    assert "build-jit" in {item.kind for item in result.review}
    assert ast.parse(ported("ops.py", text))
    assert '**{"musa_sources" if FORCE_MUSA else "cuda_sources": [K]}' in ported("ops.py", text)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (IMPORTED + "setup(", "build-extension", "MUSAExtension"),
        (IMPORTED + "make = globals()['CUDA' + name]\n", "build-extension", "MUSAExtension"),
        (IMPORTED + "from torch_musa import x\n", "build-extension", "already"),
        (ONE_CALL + "\nimport torch\ntorch.version.cuda\n", "build-condition", "torch.version.cuda"),
        (ONE_CALL.replace("WITH_CUDA", "OTHER_CUDA"), "build-macro", "OTHER_CUDA"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_on_the_review_list(text: str, kind: str, words: str) -> None:
    result = port_build_file("setup.py", text, settings_for())
    found = [item.message.render("en") for item in result.review if item.kind == kind]
    assert found
    assert any(words in message for message in found)
    assert all(1 <= item.line <= text.count("\n") + 1 for item in result.review)


@pytest.mark.parametrize("target", built_in())
def test_a_target_whose_kernels_are_rewritten_is_told_what_to_write_and_nothing_is_changed(target: str) -> None:
    facts = build_facts(Target.named(target).backend)
    assert set(facts.rows) <= set(KINDS)
    result = port_build_file("setup.py", ONE_CALL, settings_for(target=target))
    assert bool(result.edits) == (facts.kernels == "port")
    if not result.edits:
        (message,) = [item.message.render("en") for item in result.review if item.kind == "build-extension"]
        assert "Extension" in message or "not publicly known" in message


CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(app LANGUAGES CXX CUDA)
find_package(CUDAToolkit 11.8 REQUIRED) # CUDA
set(SOURCES main.cpp kernel.cu)
if(CUDAToolkit_FOUND)
  cuda_add_library(ops STATIC kernel.cu)
endif()
add_executable(app ${SOURCES})
target_link_libraries(app CUDA::cudart ops)
set(CMAKE_CUDA_ARCHITECTURES 80)
target_compile_options(app PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-O2>)
#[[ CUDA::cudart in a comment ]]
message(STATUS "CUDA")
"""


OTHER_CMAKE_ARMS = """\
if(WITH_NPU)
  add_library(x pkg/csrc/a.cpp pkg/csrc/npu/b.cpp)
elseif(WITH_CUDA)
  if(STATIC)
    cuda_add_library(x STATIC pkg/csrc/a.cpp)
  else()
    add_library(x pkg/csrc/a.cpp pkg/csrc/b.cu)
  endif()
else()
  add_library(x pkg/csrc/a.cpp)
endif()
if(SMALL)
  set(FILES pkg/csrc/a.cpp)
endif()
"""


def test_an_expression_of_cmake_is_told_with_what_was_renamed_in_it() -> None:
    text = "add_library(x $<$<BOOL:${X}>:pkg/csrc/b.cu>)\ntarget_link_libraries(x $<$<BOOL:${S}>:CUDA::cudart>)\n"
    result = port_build_file("CMakeLists.txt", text, settings_for("replace"))
    assert "$<$<BOOL:${X}>:pkg/csrc_musa/b.mu>" in apply_edits(text, result.edits)
    said = [item.message.render("en") for item in result.review]
    assert len(said) == 2
    assert "`pkg/csrc/b.cu` was renamed; check that `musa_add_library` compiles it" in said[0]
    assert "`CUDA` was renamed; check the expression" in said[1]


def test_arms_of_cmake_for_other_cards_keep_their_sources() -> None:
    result = port_build_file("CMakeLists.txt", OTHER_CMAKE_ARMS, settings_for("replace"))
    expected = OTHER_CMAKE_ARMS.replace("WITH_CUDA", "WITH_MUSA")
    for old, new in (
        ("cuda_add_library(x STATIC pkg/csrc", "musa_add_library(x STATIC pkg/csrc_musa"),
        ("add_library(x pkg/csrc/a.cpp pkg/csrc/b.cu", "musa_add_library(x pkg/csrc_musa/a.cpp pkg/csrc_musa/b.mu"),
        ("set(FILES pkg/csrc", "set(FILES pkg/csrc_musa"),
    ):
        expected = expected.replace(old, new)
    assert apply_edits(OTHER_CMAKE_ARMS, result.edits) == expected
    assert [item.line for item in result.review if item.kind == "build-other-arms"] == [2, 10]


def test_cmake_gets_the_targets_words_and_keeps_comments() -> None:
    result = port_build_file("CMakeLists.txt", CMAKE, settings_for("replace"))
    text = apply_edits(CMAKE, result.edits)
    for line in (
        "find_package(MUSA REQUIRED)",
        "find_package(MUSAToolkit",
        "musa_add_library(ops STATIC kernel.mu)",
        "musa_add_executable(app ${SOURCES})",
        "target_link_libraries(app MUSA::musart ops)",
        "if(MUSAToolkit_FOUND)",
        "#[[ CUDA::cudart in a comment ]]",
        'message(STATUS "CUDA")',
    ):
        assert line in text
    assert "LANGUAGES CXX)" in text
    messages = [item.message.render("en") for item in result.review]
    assert any("11.8" in each for each in messages)
    assert any("CMAKE_CUDA_ARCHITECTURES" in each for each in messages)
    assert any("COMPILE_LANGUAGE" in each and "MUSA_MCC_FLAGS" in each for each in messages)
    assert ported("CMakeLists.txt", text, "replace") == text


@pytest.mark.parametrize("variable", ["", "1"])
def test_cmake_beside_cuda_runs_the_commands_that_the_variable_asks_for(variable: str, tmp_path: Path) -> None:
    """CMake itself reads both, with the commands replaced by ones that note that they were called."""
    from shutil import which

    if which("cmake") is None:
        pytest.skip("no cmake")
    body = "\n".join(CMAKE.splitlines()[2:])
    names = ("find_package", "cuda_add_library", "musa_add_library", "musa_add_executable", "add_executable")
    stubs = "".join(f'function({each})\n  message("{each} ${{ARGV}}")\nendfunction()\n' for each in names)
    more = "".join(f"function({each})\nendfunction()\n" for each in ("target_link_libraries", "target_compile_options"))
    (tmp_path / "run.cmake").write_text(stubs + more + ported("CMakeLists.txt", body), encoding="utf-8")
    run = subprocess.run(
        ["cmake", "-P", "run.cmake"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], "FORCE_MUSA": variable},
    )  # fmt: skip
    called = run.stderr
    assert ("find_package CUDAToolkit" in called) == (not variable)
    assert ("find_package MUSAToolkit" in called) == bool(variable)
    assert ("musa_add_executable app" in called) == bool(variable)


def test_a_manifest_gets_the_ported_files_beside_the_others() -> None:
    text = "include LICENSE\nrecursive-include pkg/csrc *.cpp *.cu\n"
    new = ported("MANIFEST.in", text)
    assert new == text + "recursive-include pkg/csrc_musa *.cpp *.mu\n"
    assert ported("MANIFEST.in", new) == new


@pytest.mark.parametrize(
    ("path", "text", "kind", "line"),
    [
        ("meson.build", "# cuda\nadd_languages('cuda')\n", "build-meson", 2),
        ("BUILD.bazel", '\ncuda_library(name = "x", srcs = ["a.cu"])\n', "build-bazel", 2),
        ("tools/x.bzl", "nvcc = 1\n", "build-bazel", 1),
        ("pyproject.toml", '[build-system]\nrequires = ["torch"]\n', "build-requirement", 2),
        ("pyproject.toml", "[", "build-unread", 1),
        ("CMakeLists.txt", "add_library(x a.cu\n", "build-unread", 1),
    ],
)
def test_other_files_are_reviewed_by_line(path: str, text: str, kind: str, line: int) -> None:
    assert is_build_file(path)
    result = port_build_file(path, text, settings_for())
    assert (kind, line) in {(item.kind, item.line) for item in result.review}
    assert {item.kind for item in result.review} <= set(kinds())


def test_what_is_no_text_is_reported_and_stays() -> None:
    after, _ = port_build_data("setup.py", ONE_CALL.encode(), settings_for())
    assert after != ONE_CALL.encode()
    assert port_build_data("a.cpp", b"", settings_for()) == (b"", ())
    broken = b"\xff\xfe\xfd"
    kept, items = port_build_data("CMakeLists.txt", broken, settings_for())
    assert (kept, [item.kind for item in items]) == (broken, ["build-unread"])


PIECES = [
    "if(",
    ")",
    '"',
    "[[",
    "]]",
    "[=[",
    "#",
    "#[[",
    "\n",
    "$<CUDA:",
    ">",
    "${X}",
    "a.cu",
    "project(CUDA",
    " ",
    "\\",
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_broken_cmake_is_read_to_its_end(text: str) -> None:
    at = 0
    for command in commands(text):
        assert at <= command.start < command.end <= len(text)
        assert all(text[each.start : each.end] == each.text for each in command.arguments)
        at = command.end
    for style in STYLES:
        apply_edits(text, port_build_file("CMakeLists.txt", text, settings_for(style)).edits)


def test_the_port_of_a_folder_changes_the_build_files_that_are_named(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from torchferry.cli.port import command

    sources = tmp_path / "pkg" / "csrc"
    sources.mkdir(parents=True)
    (sources / "b.cu").write_text(
        "#include <cuda_runtime.h>\nvoid f() { cudaDeviceSynchronize(); }\n", encoding="utf-8"
    )
    (tmp_path / "setup.py").write_text(ONE_CALL, encoding="utf-8")
    (tmp_path / "MANIFEST.in").write_text("graft pkg/csrc\n", encoding="utf-8")
    named = [f"--build={tmp_path / name}" for name in ("setup.py", "MANIFEST.in")]
    run = CliRunner().invoke(command, [str(sources), "-t", "musa", *named, "--lang", "en"], catch_exceptions=False)
    assert "changed 2 files outside of it, which undo restores too" in run.output
    assert (tmp_path / "pkg" / "csrc_musa" / "b.mu").is_file()
    script = (tmp_path / "setup.py").read_text(encoding="utf-8")
    assert "MUSAExtension as CUDAExtension" in script
    assert "pkg/csrc_musa/b.mu" in script
    assert (tmp_path / "MANIFEST.in").read_text(encoding="utf-8") == "graft pkg/csrc\ngraft pkg/csrc_musa\n"


@pytest.mark.parametrize("style", STYLES)
def test_folders_that_are_left_out_of_a_port_stay_as_they_are_named(tmp_path: Path, style: str) -> None:
    """Branches for other makers read their own folders, of which the port has no copy."""
    from click.testing import CliRunner

    from torchferry.cli.port import command

    for name in ("a.cu", "npu/b.cpp"):
        (tmp_path / "pkg" / "csrc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pkg" / "csrc" / name).write_text("void f() { cudaDeviceSynchronize(); }\n", encoding="utf-8")
    lines = (
        'NPU = "pkg/csrc/npu/*.cpp"', 'JOINED = os.path.join("pkg", "csrc", "npu", "b.cpp")', 'ALL = "pkg/csrc/*.cpp"',
    )  # fmt: skip
    (tmp_path / "setup.py").write_text(ONE_CALL + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "MANIFEST.in").write_text("recursive-include pkg/csrc/npu *.cpp *.cu\n", encoding="utf-8")
    named = [f"--build={tmp_path / name}" for name in ("setup.py", "MANIFEST.in")]
    left_out = ["--ignore", "npu", "--build-style", style]
    CliRunner().invoke(command, [str(tmp_path / "pkg/csrc"), "-t", "musa", *named, *left_out], catch_exceptions=False)
    assert not (tmp_path / "pkg" / "csrc_musa" / "npu").exists()
    script = (tmp_path / "setup.py").read_text(encoding="utf-8")
    assert all(line in script.splitlines() for line in lines[:2])
    assert "pkg/csrc_musa/*.cpp" in script
    assert (tmp_path / "MANIFEST.in").read_text(encoding="utf-8") == "recursive-include pkg/csrc/npu *.cpp *.cu\n"
