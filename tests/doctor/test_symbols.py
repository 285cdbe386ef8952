"""`doctor symbol`: real libraries made here by the compiler, each symbol with who should have it, and bad input."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.cli import doctor
from torchferry.core.errors import TorchferryError
from torchferry.doctor.symbols.elf import read_library
from torchferry.doctor.symbols.names import qualified_name
from torchferry.doctor.symbols.places import definitions

COMPILER = shutil.which("c++") or shutil.which("g++") or ""
pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler is installed")

SOURCE = """
#include <string>
namespace c10 { namespace detail { void torchCheckFail(const char*, const char*, unsigned, const std::string&);
                                   void gone(int); } }
namespace at { namespace cuda { void getStream(); }
               namespace musa { namespace cub { void sum(int*, long); void host(int); } } }
namespace mine { void helper(int); void linked(int); void beside(int); }
extern "C" { int cudaMalloc(void**, unsigned long); int nobodyHasIt(); void* PyList_New(long); void* PyGone_New(long);
             __attribute__((weak)) int mayBeMissing(); }
void use() {
  c10::detail::torchCheckFail("a", "b", 1, "c"); c10::detail::gone(1); at::cuda::getStream(); int n; void* p;
  at::musa::cub::sum(&n, 1); at::musa::cub::host(1); mine::helper(1); mine::linked(1); mine::beside(1);
  cudaMalloc(&p, 1); nobodyHasIt(); PyList_New(1); PyGone_New(1); if (mayBeMissing) mayBeMissing();
}
"""
EXPECTED = {
    "c10::detail::torchCheckFail": "not-linked",
    "c10::detail::gone": "torch-version",
    "at::cuda::getStream": "cuda-build",
    "at::musa::cub::sum": "kernel-not-built",
    "at::musa::cub::host": "plugin-fault",
    "mine::helper": "source-not-built",
    "mine::beside": "not-linked",
    "cudaMalloc": "cuda",
    "nobodyHasIt": "unknown",
    "PyGone_New": "python",
}


def compiled(text: str, output: Path, *flags: str) -> Path:
    source = output.with_suffix(".cpp")
    source.write_text(text)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(output), str(source), *flags], check=True)
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("symbols")
    for name in ("sdk", "pytorch", "csrc"):
        (root / name).mkdir()
    compiled("namespace mine { void linked(int) {} }", root / "liblinked.so")
    compiled("namespace mine { void beside(int) {} }", root / "sdk" / "libbeside.so")
    (root / "pytorch" / "cub.cu").write_text("template <class T> void sum(T* data, long count) {\n}\n")
    (root / "pytorch" / "host.cpp").write_text("void sum(int);\nvoid host(int x) noexcept { sum(x); }\n")
    (root / "csrc" / "helper.cu").write_text("\nvoid helper(int x) { x++; }\n")
    (root / "csrc" / "setup.py").write_text("sources = ['use.cpp']\n")
    compiled(SOURCE, root / "use.so", f"-L{root}", "-llinked", "-Wl,-rpath,$ORIGIN")
    compiled(SOURCE, root / "old.so", "-D_GLIBCXX_USE_CXX11_ABI=0")
    return root


def explained(*arguments: str, code: int = 1) -> dict[str, dict[str, str]]:
    done = CliRunner().invoke(doctor.command, ["symbol", *arguments, "-f", "json"])
    assert done.exit_code == code, done.output
    return {qualified_name(each["symbol"]): each for each in json.loads(done.stdout)["symbols"]}


def test_every_symbol_has_its_owner(folder: Path) -> None:
    places = ["--sdk", str(folder / "sdk"), "--sources", str(folder / "csrc"), "--pytorch-src", str(folder / "pytorch")]
    found = explained(str(folder / "use.so"), *places)
    assert {name: each["kind"] for name, each in found.items()} == EXPECTED
    assert found["mine::beside"]["owner"].endswith("libbeside.so")
    assert "-lbeside" in found["mine::beside"]["advice"]
    assert "cub.cu:1" in found["at::musa::cub::sum"]["cause"]
    assert "setup.py does not name the file" in found["mine::helper"]["advice"]
    assert "musaMalloc" in found["cudaMalloc"]["advice"]
    (folder / "csrc" / "setup.py").write_text("sources = ['use.cpp', 'helper.cu']\n")
    assert "condition" in explained(str(folder / "use.so"), *places)["mine::helper"]["advice"]


def test_other_abi_missing_library_and_message(folder: Path) -> None:
    message = "ImportError: /nowhere/mine.so: undefined symbol: _ZN2at4musa3cub3sumEPil"
    assert explained(message)["at::musa::cub::sum"]["kind"] == "plugin"
    abi = explained(str(folder / "old.so"), "--symbol", "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs")
    assert [each["kind"] for each in abi.values()] == ["abi"]
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(folder / "use.so", alone)
    assert explained(str(alone / "use.so"))["mine::linked"]["kind"] == "library-missing"
    text = CliRunner().invoke(doctor.command, ["symbol", str(alone / "use.so")]).stdout
    assert "liblinked.so: the loader does not find it; " in text
    with pytest.raises(TorchferryError, match="not an undefined symbol"):
        CliRunner().invoke(doctor.command, ["symbol", str(alone / "use.so"), "--symbol", "x"], catch_exceptions=False)
    assert explained(str(folder / "liblinked.so"), code=0) == {}


def test_stripped_huge_and_of_another_machine(folder: Path, tmp_path: Path) -> None:
    """A stripped library keeps what the loader reads; a huge one is not read whole."""
    library = shutil.copy(folder / "use.so", tmp_path / "use.so")
    before = read_library(library)
    if shutil.which("strip"):
        subprocess.run(["strip", str(library)], check=True)
        assert read_library(library)[:6] == before[:6]
    os.truncate(library, 1 << 33)
    assert read_library(library).undefined == before.undefined
    data = bytearray((folder / "use.so").read_bytes())
    data[18:20] = struct.pack("<H", 183 if before.machine != "aarch64" else 62)
    (tmp_path / "other.so").write_bytes(data)
    text = CliRunner().invoke(doctor.command, ["symbol", str(tmp_path / "other.so")]).stdout
    assert "but this machine is" in text
    assert "for another architecture" in text  # its neighbour, which is for this one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"not a library", "it is not an ELF file"),
        (b"!<arch>\n" + b"x" * 100, "static archive"),
        (b"MZ" + b"\0" * 100, "Windows"),
        (b"\xcf\xfa\xed\xfe" + b"\0" * 100, "macOS"),
        (b"PK\x03\x04" + b"\0" * 100, "wheel"),
        (b"/* GNU ld script */ GROUP ( libx.so.1 ) " + b" " * 60, "linker script"),
        (b"\x7fELF\x02\x01" + b"\0" * 10, "damaged|not an ELF file"),
        (b"\x7fELF\x02\x01" + b"\xff" * 100, "damaged"),
        (b"\x7fELF\x02\x01" + b"\0" * 100, "no dynamic symbol table"),
    ],
)
def test_what_is_no_library_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.so").write_bytes(content)
    with pytest.raises(TorchferryError, match=message):
        read_library(tmp_path / "x.so")


@settings(max_examples=60)
@given(st.data())
def test_damaged_libraries_are_read_or_refused(folder: Path, data: st.DataObject) -> None:
    content = bytearray((folder / "liblinked.so").read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[at] = data.draw(st.integers(0, 255))
    for at in data.draw(st.lists(st.integers(0, 63), max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    path = folder / "damaged.so"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(TorchferryError):
        read_library(path)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2at4musa3cub28exclusive_sum_in_common_typeIiiEEvPKT_PT0_l", "at::musa::cub::exclusive_sum_in_common_type"),
        ("_ZNK3c106Device3strB5cxx11Ev", "c10::Device::str"),
        ("_ZTVN3c105ErrorE", "c10::Error"),
        ("_Z3runv", "run"),
        ("cudaMalloc", "cudaMalloc"),
        ("_ZN99x", "_ZN99x"),
        ("_ZN", "_ZN"),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert qualified_name(symbol) == name


def test_definitions_are_told_from_calls(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int f(int);\nint g() { return f(1); }\nint f(int x) { return x; }\n")
    assert [(each.line, each.whole) for each in definitions("f", tmp_path)] == [(3, True), (1, False)]
