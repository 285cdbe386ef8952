"""CUDA C++ in a scan and a migration: what is named, how it is handed over to the port, and judged after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from torchferry.cli import cli
from torchferry.core.errors import TorchferryError
from torchferry.migration.journal import known_journals

SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(name="pkg", ext_modules=[CUDAExtension("pkg._C", ["csrc/ops.cu"])], cmdclass={"build_ext": BuildExtension})
"""
OPS = """\
#include <cublas_v2.h>
#include <torch/extension.h>
__global__ void add(float* a) { a[threadIdx.x] += __shfl_down_sync(0xffffffff, a[0], 1); }
void run(at::Tensor t) { cublasSgemm(0); add<<<1, 32>>>(t.data_ptr<float>()); }
"""
PROJECT = {
    "setup.py": SETUP,
    "MANIFEST.in": "recursive-include csrc *.cu\n",
    "pkg/__init__.py": "",
    "train.py": "import torch\nfrom pkg import _C\n_C.run(torch.ones(4).cuda())\n",
    "plain.py": "import torch\nprint(torch.ones(4).cuda())\n",
    "csrc/ops.cu": OPS,
}
APP = {
    "CMakeLists.txt": "project(app LANGUAGES CXX CUDA)\nadd_executable(app src/main.cu src/util.cpp)\n",
    "src/main.cu": "#include <cuda_runtime.h>\n__global__ void f() {}\nint main() { cudaFree(0); f<<<1, 1>>>(); }\n",
    "src/util.cpp": "#ifdef WITH_CUDA\n#include <cuda_runtime.h>\nvoid g() { cudaFree(0); }\n#endif\n",
}


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def ran(*arguments: object) -> str:
    return CliRunner().invoke(cli, [*map(str, arguments), "--lang", "en"], catch_exceptions=False).output


def scanned(root: Path, target: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(ran("scan", root, "-t", target, "-f", "json"))
    return report


@pytest.mark.parametrize("target", ["musa", "npu", "sdaa", "gcu", "ptex"])
@pytest.mark.parametrize(
    "files",
    [
        APP,
        {"util.cpp": APP["src/util.cpp"]},
        {"x.h": "#pragma once\n__host__ __device__ int f();\n"},
        {"a.inc": "cudaStream_t stream;\n"},
        {
            "a.cpp": '#include "lib/pool"\nCUdevice device;\n',
            "lib/pool": "#pragma once\n#include <cuda.h>\nCUstream stream;\n",
        },
        {"meson.build": "project('a', 'cuda')\n"},
        {"BUILD": 'cuda_library(name = "a")\n'},
        {"MANIFEST.in": "include *.cu\n"},
        {"cmake/x.cmake": "if(USE_CUDA)\nfind_package(CUDAToolkit)\nendif()\n"},
    ],
    ids=["app", "switch", "header", "include", "bare", "meson", "bazel", "manifest", "cmake"],
)
def test_a_tree_with_unported_cuda_is_never_ready(tmp_path: Path, target: str, files: dict[str, str]) -> None:
    report = scanned(made(tmp_path, files), target)
    assert report["verdict"] in ("blocked", "ready after work by hand")
    found = {finding["path"] for finding in report["findings"] if finding["grade"] == "manual"}
    assert found >= set(files) - {"CMakeLists.txt"}
    assert report["native"] is not None


def test_scan_names_what_there_is_to_port_and_how(tmp_path: Path) -> None:
    root = made(tmp_path / "project", PROJECT)
    report = scanned(root, "musa")
    native = report["native"]
    assert report["verdict"] == "partly blocked"
    assert [kernel["name"] for kernel in native["kernels"]] == ["add"]
    source = next(file for file in native["files"] if file["path"] == "csrc/ops.cu")
    assert (source["kernels"], source["launches"], source["libraries"]) == (1, 1, ["cublas"])
    assert source["kinds"]["warp-intrinsic"] == 2
    assert {item["path"] for item in native["review"]} == {"csrc/ops.cu"}
    command = native["command"]
    assert command.startswith(f"torchferry port {root}/csrc --target musa")
    assert all(f"--build {root}/{name}" in command for name in ("setup.py", "MANIFEST.in"))
    for form in ("text", "html"):
        assert f"torchferry port {root}/csrc" in ran("scan", root, "-t", "musa", "-f", form)
    assert command in ran("migrate", root, "-t", "musa", "--check")
    assert "warp-intrinsic (2)" in ran("scan", root, "-t", "musa", "-v")
    assert "--requests" in scanned(root, "npu")["native"]["command"]
    (root / "csrc" / "ops.cu").unlink()
    for name in ("setup.py", "MANIFEST.in", "train.py"):
        (root / name).unlink()
    assert scanned(root, "musa")["native"] is None


def test_after_a_port_the_project_is_judged_anew_and_undo_takes_all_back(tmp_path: Path) -> None:
    root = made(tmp_path / "project", PROJECT)
    test = "import pytest\n\n@pytest.mark.parametrize('device', ['cpu', 'cuda'])\ndef test_it(device):\n    pass\n"
    made(root, {"tests/test_it.py": test})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    arguments = ("port", root / "csrc", "-t", "musa", "--tests", root / "tests")
    builds = ("--build", root / "setup.py", "--build", root / "MANIFEST.in")
    written = ran(*arguments, *builds)
    assert "changed 3 files outside of it" in written
    assert "FORCE_MUSA=1 python setup.py" in written
    assert "-m pytest -k musa" in written
    assert len(known_journals(root)) == 1
    assert "is up to date: nothing was written" in ran(*arguments, *builds)
    made(root, {"csrc/ops.cu": OPS + "// more\n"})
    ran(*arguments, *builds)
    assert len(known_journals(root)) == 1
    report = scanned(root, "musa")
    assert report["verdict"] in ("ready after fixes", "ready after work by hand")
    assert {program["verdict"] for program in report["programs"]} == {"fixes"}
    assert report["native"]["command"] == ""
    copy = root / "csrc_musa" / "ops.mu"
    assert not any(file["differs"] for file in report["native"]["files"])
    ported = copy.read_bytes()
    copy.write_bytes(ported + b"#if CUDA_VERSION < 9000\n#endif\n")
    edited = scanned(root, "musa")
    (source,) = (file for file in edited["native"]["files"] if file["path"] == "csrc/ops.cu")
    assert (source["differs"], source["kinds"]["version-guard"]) == (True, 1)
    assert "version-guard" not in report["native"]["kinds"]
    (finding,) = (finding for finding in edited["findings"] if finding["code"] == "EXT102")
    assert (finding["grade"], finding["blocker"]) == ("manual", False)
    copy.write_bytes(ported)
    made(root, {"csrc/ops.cu": OPS})
    changed = scanned(root, "musa")
    assert [file["path"] for file in changed["native"]["files"] if file["differs"]] == ["csrc/ops.cu"]
    made(root, {"csrc_musa/left.cpp": "cudaFancyThing_t left;\n"})
    assert scanned(root, "musa")["native"]["command"] == ""  # a port is not ported again
    (root / "csrc_musa" / "left.cpp").unlink()
    assert b"mublasSgemm" in copy.read_bytes()
    ran("undo", root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert scanned(root, "musa")["verdict"] == "partly blocked"


@pytest.mark.parametrize("target", ["musa", "gcu", "ptex"])
def test_a_choice_of_a_kernel_is_for_a_person_once_the_kernel_is_ported(target: str, tmp_path: Path) -> None:
    """Unchanged it takes the plain branch on the card, and the ported kernel never runs."""
    chosen = "from pkg import _C\n\ndef run(x):\n    if x.is_cuda:\n        return _C.run(x)\n    return x + 1\n"
    root = made(tmp_path, {**PROJECT, "pkg/ops.py": chosen})
    grades = []
    for _ in range(2):
        found = [finding for finding in scanned(root, target)["findings"] if finding["code"] == "DEV104"]
        grades += [finding["grade"] for finding in found]
        ran("port", root / "csrc", "-t", target, "--build", root / "setup.py", "--build", root / "MANIFEST.in")
    assert grades == ["note", "manual"]


def test_build_files_of_a_tree_are_ported_with_it(tmp_path: Path) -> None:
    root = made(tmp_path / "app", APP)
    assert "cmake -S" in ran("port", root, "-t", "musa")
    text = (tmp_path / "app_musa" / "CMakeLists.txt").read_text()
    assert "musa_add_executable(app src/main.mu src/util.cpp)" in text
    assert "CUDA" not in text
    assert scanned(root, "musa")["verdict"] != "blocked"
    first_port = tmp_path / "app_musa" / "src" / "main.mu"
    content = first_port.read_bytes()
    assert b"musaFree" in content
    ran("undo", tmp_path / "app_musa")
    assert not (tmp_path / "app_musa").exists()


BUILT = "add_library(app src/main.cu)\n"


@pytest.mark.parametrize(
    ("files", "options", "switched"),
    [
        ({"CMakeLists.txt": BUILT}, (), True),
        ({"CMakeLists.txt": BUILT}, ("--build-style", "replace"), False),
        ({"CMakeLists.txt": "if(CUDA_FOUND)\nadd_subdirectory(src)\nendif()\n"}, (), False),  # one branch for both
        ({"CMakeLists.txt": "if(CUDA_FOUND)\ninclude(a.cmake)\nendif()\n", "a.cmake": BUILT}, (), True),
    ],
    ids=["branch", "replace", "condition", "included"],
)
def test_the_variable_is_set_only_where_a_build_asks_for_it(
    files: dict[str, str], options: tuple[str, ...], switched: bool, tmp_path: Path
) -> None:
    written = ran("port", made(tmp_path / "app", APP | files), "-t", "musa", "--in-place", *options)
    assert "cmake -S" in written
    assert ("FORCE_MUSA=1 cmake" in written) is switched


BUILD_FOLDER = {
    "CMakeCache.txt": "CMAKE_CUDA_COMPILER:STRING=nvcc\n",
    "CMakeFiles/3.28.0/CMakeCUDACompiler.cmake": 'set(CMAKE_CUDA_COMPILER "nvcc")\n',
    "_deps/CMakeLists.txt": "find_package(CUDAToolkit)\n",
}


def test_what_a_build_wrote_is_no_part_of_a_port(tmp_path: Path) -> None:
    """Neither where the project is built, nor where its port is: a port after a build is what it was before it."""
    root = made(tmp_path / "app", APP)
    ran("port", root, "-t", "musa")
    output = tmp_path / "app_musa"
    listed = ran("port", root, "-t", "musa", "--check", "-v")
    for folder in (root / "build", output / "build", root / "src" / "CMakeFiles"):
        made(folder, BUILD_FOLDER)
    shown = ran("port", root, "-t", "musa", "--check", "-v")
    assert shown.count("[build-cmake]") == listed.count("[build-cmake]")
    assert "build: is a folder that a build wrote" in shown
    assert not any("build/" in finding["path"] for finding in scanned(root, "musa")["findings"])
    assert "a folder that a build wrote" in ran("scan", root, "-t", "musa")
    assert "is up to date: nothing was written" in ran("port", root, "-t", "musa")
    made(root, {"src/main.cu": APP["src/main.cu"] + "// more\n"})
    assert "wrote 3 files" in ran("port", root, "-t", "musa")
    assert (output / "build" / "CMakeCache.txt").exists()
    made(output, {"src/main.mu": "edited\n"})
    with pytest.raises(TorchferryError, match="was edited since"):
        ran("port", root, "-t", "musa")
    made(root, {"CMakeCache.txt": ""})  # what is built beside its sources stays the project's
    assert "CMakeLists.txt" in ran("port", root, "-t", "musa", "--diff")


@pytest.mark.parametrize(
    ("target", "host", "left"),
    [
        ("npu", "aclrtSynchronizeDevice(); aclrtFree(p); cudaMalloc(&p, 4);", {"host-call", "no-counterpart"}),
        ("sdaa", "sdaaDeviceSynchronize(); sdaaFree(p); sdaaMalloc(&p, 4);", {"host-call"}),
        ("gcu", "topsDeviceSynchronize(); topsFree(p); topsMalloc(&p, 4);", {"host-call"}),
        ("ptex", "cudaDeviceSynchronize(); cudaFree(p); cudaMalloc(&p, 4);", {"unknown-name"}),
    ],
)
def test_kernels_in_another_language_are_requested_and_host_code_is_reviewed(
    tmp_path: Path, target: str, host: str, left: set[str]
) -> None:
    kernel = "template <typename T>\n__global__ void f(T* p) { atomicAdd(p, T(1)); __shared__ float s[4]; }\n"
    code = (
        "void g() { float* p; cudaDeviceSynchronize(); cudaFree(p); cudaMalloc(&p, 4);\n  f<float><<<2, 32>>>(p); }\n"
    )
    root = made(tmp_path / "csrc", {"cuda/nms_cuda.cu": kernel + code, "cpu/nms.cpp": "", f"{target}/nms.cpp": ""})
    requests = tmp_path / "requests.json"
    ran("port", root, "-t", target, "--requests", requests)
    ported = tmp_path / f"csrc_{'xla' if target == 'ptex' else target}" / "cuda" / "nms_cuda.cu"
    assert ported.read_text() == kernel + code.replace("cudaDeviceSynchronize(); cudaFree(p); cudaMalloc(&p, 4);", host)
    (request,) = json.loads(requests.read_text())["requests"]
    assert request["signature"] == "template <typename T> __global__ void f(T* p)"
    assert request["launches"] == [{"path": "cuda/nms_cuda.cu", "line": 4, "geometry": "2, 32", "names": []}]
    assert request["uses"] == {"atomic": 1, "shared-memory": 1}
    assert request["dtypes"] == ["float"]
    assert (request["references"], request["ports"]) == (["cpu/nms.cpp"], [f"{target}/nms.cpp"])
    assert (request["builtins"] is None) == (target in ("sdaa", "ptex"))
    assert not request["builtins"] or "npu_nms_v4" in request["builtins"]
    listed = json.loads(ran("port", root, "-t", target, "--check", "-f", "json"))["review"]
    kinds = {item["kind"] for item in listed}
    assert kinds >= {"kernel-rewrite"} | left
    assert not kinds & {"atomic", "shared-memory"}
    made(root, {"cuda/help.cuh": "__device__ float sum(float v) { return __shfl_down_sync(~0u, v, 1); }\n"})
    listed = json.loads(ran("port", root, "-t", target, "--check", "-f", "json"))["review"]
    assert "warp-intrinsic" in {item["kind"] for item in listed if item["path"] == "cuda/help.cuh"}


KERNEL_FILES = {
    "box/common.h": (
        "#define THREADS 64\n"
        "__device__ __forceinline__ float add(float* p, float v) { return atomicAdd(p, v); }\n"
    ),
    "other/common.hpp": "__device__ float add(float* p, float v) { return __shfl_down_sync(~0u, v, 1); }\n",
    "box/box_cuda.cu": (
        '#include "common.h"\n'
        "int const rows = sizeof(unsigned long long int) * 8;\n"
        "template <typename T> __device__ inline void both(T* p) { asm(\"\"); add(p, 1); both(p); }\n"
        "template <typename T, int N> __global__ void box_forward_kernel(const T* __restrict__ a, unsigned char *m,\n"
        "                                                                int64_t n) {\n"
        "  __shared__ double tile[rows][2]; both(a); atomicMin(p, 1); }\n"
        "__global__ void box_paint(box_params p) { }\n"
        "__global__ void box_unused(const int *a, __half* b) { double d = 1; atomicAdd(b, a);\n  atomicAdd(b, a); }\n"
        "__global__ void box_mask(float *a) { }\n"
        "#define START(f) f<<<count, THREADS, \\\n 0>>>\n"
        "void run(at::Tensor a) {\n"
        "  dim3 blocks(count, 2); int count = a.numel() / THREADS;\n"
        "  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::ScalarType::BFloat16, a.scalar_type(), \"box\", [&] {\n"
        "    box_forward_kernel<scalar_t, 4><<<blocks, THREADS>>>(a); });\n"
        "  AT_DISPATCH_ALL_TYPES(a.scalar_type(), \"other\", [&] { });\n"
        "  void* f = (void*)box_paint; START(box_mask)(a);\n"
        "}\n"
    ),
    "box/box_cpu.cpp": "at::Tensor box_forward_cpu(at::Tensor a) { return a; }\nvoid box_backward_cpu(int);\n",
}  # fmt: skip

BOX_FORWARD = {
    "launches": [{"path": "box/box_cuda.cu", "line": 16, "geometry": "blocks, THREADS", "names": [
        "dim3 blocks(count, 2)", "THREADS = 64", "int count = a.numel() / THREADS"]}],
    "uses": {"atomic": 1, "float64": 1, "shared-memory": 1},
    "calls": [
        {"name": "both", "path": "box/box_cuda.cu", "line": 3, "uses": {"inline-assembly": 1}},
        {"name": "add", "path": "box/common.h", "line": 2, "uses": {"atomic": 1}},
    ],
    "shared_memory": ["shared memory, 1024 B: `double tile[rows][2]`"],
    "dtypes": ["unsigned char", "AT_DISPATCH_FLOATING_TYPES_AND2(Half, BFloat16)"],
    "references": ["box/box_cpu.cpp:1 box_forward_cpu"],
}  # fmt: skip


def test_a_request_says_what_the_sources_say_of_a_kernel(tmp_path: Path) -> None:
    root = made(tmp_path / "csrc", KERNEL_FILES)
    requests = tmp_path / "requests.json"
    ran("port", root, "-t", "npu", "--check", "--requests", requests)
    found = {each["name"]: each for each in json.loads(requests.read_text())["requests"]}
    assert {key: found["box_forward_kernel"][key] for key in BOX_FORWARD} == BOX_FORWARD
    assert found["box_paint"]["launches"] == []
    assert found["box_paint"]["named"] == ["box/box_cuda.cu:18"]
    assert found["box_paint"]["dtypes"] == ["AT_DISPATCH_FLOATING_TYPES_AND2(Half, BFloat16)", "AT_DISPATCH_ALL_TYPES"]
    assert (found["box_unused"]["named"], found["box_unused"]["dtypes"]) == ([], ["int", "__half"])
    assert found["box_unused"]["uses"] == {"atomic": 2, "float64": 1}
    assert found["box_mask"]["launches"][0]["names"][0] == "<<<count, THREADS, 0>>>"
    ran("port", root, "-t", "npu", "--check", "--requests", requests.with_suffix(".md"))
    text = requests.with_suffix(".md").read_text()
    for words in (
        "- launched: box/box_cuda.cu:16 `<<<blocks, THREADS>>>` (dim3 blocks(count, 2), THREADS = 64, ",
        "no launch names it directly; it is mentioned at box/box_cuda.cu:18",
        "- launched: no other place in the tree mentions it",
        "- calls: `add` box/common.h:2 (atomic 1)", "- shared memory: shared memory, 1024 B",
        "operators of the plugin with a similar name: ",
    ):  # fmt: skip
        assert words in text, words
