"""What a library needs is read from its bytes, whatever they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.installed.made import library
from torchferry.installed.elf import CompiledLibrary, NotElfError, open_library, read_library


def read(data: bytes, folder: Path) -> CompiledLibrary:
    path = folder / "lib.so"
    path.write_bytes(data)
    descriptor = open_library(str(path))
    try:
        return read_library(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("stripped", [True, False])
def test_needed_libraries_are_read_in_every_form(tmp_path: Path, wide: bool, order: str, stripped: bool) -> None:
    data = library(["libc.so.6", "libcudart.so.12"], wide=wide, order=order, stripped=stripped)
    found = read(data, tmp_path)
    assert found.needed == ("libc.so.6", "libcudart.so.12")
    assert found.cuda_libraries == ("libcudart.so.12",)


@pytest.mark.parametrize(
    ("name", "cuda"),
    [
        ("libcuda.so.1", True),
        ("libcublasLt.so.12", True),
        ("libcudart-9335f6a2.so.12.4.127", True),
        ("libtorch_cuda.so", True),
        ("libnccl.so.2", True),
        ("libnvrtc.so.12", True),
        ("libtorch_cpu.so", False),
        ("libcurl.so.4", False),
        ("libcudasomething.so", False),
        ("libnv.so", False),
    ],
)
def test_libraries_of_cuda_are_told_by_name(tmp_path: Path, name: str, cuda: bool) -> None:
    assert bool(read(library([name]), tmp_path).cuda_libraries) is cuda


def test_fat_binaries_symbols_and_machines(tmp_path: Path) -> None:
    plain = read(library(["libc.so.6"], machine=183), tmp_path)
    assert (plain.machine, plain.fat_binary, plain.cuda_symbol) == ("aarch64", False, "")
    assert read(library(sections=[".nv_fatbin"]), tmp_path).fat_binary
    assert read(library(symbols=["cudaLaunchKernel"]), tmp_path).cuda_symbol == "cudaLaunchKernel"
    assert not read(library(symbols=["_ZN5torch4cuda12is_availableEv"]), tmp_path).cuda_symbol


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(100), b"\x7fELF", b"\x7fELF" + bytes(60)])
def test_what_is_no_elf_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotElfError):
        read(data, tmp_path)


WHOLE = library(["libcudart.so.12"], [".nv_fatbin"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=12),
    st.integers(0, len(WHOLE)),
)
def test_no_bytes_make_it_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    try:
        found = read(bytes(data[:length]), tmp_path_factory.getbasetemp())
    except NotElfError:
        return
    assert all(name.isprintable() for name in (*found.needed, found.cuda_symbol))


def test_links_pipes_and_folders_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "real.so").write_bytes(WHOLE)
    (tmp_path / "link.so").symlink_to(tmp_path / "real.so")
    os.mkfifo(tmp_path / "pipe.so")
    for name in ("link.so", "pipe.so", "."):
        with pytest.raises(OSError, match=r"regular file|symbolic links"):
            open_library(str(tmp_path / name))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_library_that_a_compiler_made(tmp_path: Path) -> None:
    (tmp_path / "cudart.c").write_text("int cudaMalloc(void) { return 0; }\n")
    (tmp_path / "own.c").write_text("int cudaMalloc(void); int own(void) { return cudaMalloc(); }\n")
    runtime = tmp_path / "libcudart.so.12"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", runtime, "cudart.c"], cwd=tmp_path, check=True
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", "own.so", "own.c", runtime], cwd=tmp_path, check=True
    )
    found = read((tmp_path / "own.so").read_bytes(), tmp_path)
    assert found.cuda_libraries == ("libcudart.so.12",)
    assert found.cuda_symbol == "cudaMalloc"
