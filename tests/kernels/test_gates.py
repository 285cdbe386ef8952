"""The gates of a port: what passes, what fails, and what says that nothing was proven."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_port import JUDGE, TABLE, WORDS
from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.kernels.gates.audit import Audit
from torchferry.kernels.gates.compiling import Toolchain
from torchferry.kernels.gates.result import GateRequest, GateResult, GateState
from torchferry.kernels.gates.running import run_gates
from torchferry.kernels.ported_tree import PortedTree, port_tree
from torchferry.kernels.porting import port_text

HOST = shutil.which("c++") or shutil.which("g++") or ""
GXX = Toolchain("", HOST, None)
needs_compiler = pytest.mark.skipif(not HOST, reason="no C++ compiler is installed")

assert TABLE is not None
AUDIT = Audit(TABLE, {"OWN": "MINE"}, True, frozenset({"a.muh"}))


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("cudaMalloc(&p);", "musaMalloc(&p);", ""),
        ("OWN x;", "MINE x;", ""),
        ("f(a, CUDA, b);", "f(a, PrivateUse1, b);", ""),
        ('#include "a.cuh"', '#include "a.muh"', ""),
        ('#include "b.cuh"', '#include "b.muh"', "which no rule allows"),
        ("#include <cuda_runtime.h>", "#include <musa_runtime.h>", ""),
        ("cudaMalloc(&p);", "cudaMalloc(&p);", "was not renamed"),
        ('"cudaMalloc" // cudaMalloc', '"cudaMalloc" // cudaMalloc', ""),
        ("a; // cudaMalloc", "a; // musaMalloc", "which no rule allows"),
        ("cuda::std::move(x); cuda y; CUDA z;", "cuda::std::move(x); cuda y; CUDA z;", ""),
        ('f("cuda");', 'f("musa");', "which no rule allows"),
        ('R"(cuda)";', 'R"(musa)";', "which no rule allows"),
        ("OWN x;", "OTHER x;", "which no rule allows"),
        ("int x;", "int  x;", "which no rule allows"),
        ("int x;", "int x;;", "differ from here"),
        ("1'000'000;", "1'000'00;", "which no rule allows"),
        ("a /* never closed", "a /* never closes", "which no rule allows"),
    ],
)
def test_audit(before: str, after: str, problem: str) -> None:
    found = AUDIT.compare(before, after).problems
    assert [problem in str(each) for each in found] == ([True] if problem else [])


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_audit_passes_every_port(text: str) -> None:
    """A reader that shares no code with the port finds nothing wrong with it."""
    assert TABLE is not None
    done = port_text("a.cu", text, JUDGE, {"a.cuh"})
    assert AUDIT.compare(text, done.text).problems == ()


CUDA = 'extern "C" int cudaMalloc(void**, unsigned long);\ntypedef int cudaStream_t;\n'
SOURCE = """#include <cuda_runtime.h>
#include "deep/own.h"
#include "../outside.h"
#ifdef WITH_OWN
int use(cudaStream_t s) { void* p; return cudaMalloc(&p, OWN_SIZE) + OUTSIDE; }
#endif
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "cuda_runtime.h").write_text(CUDA)
    (tmp_path / "outside.h").write_text("#define OUTSIDE 1\n")
    root = tmp_path / "csrc"
    (root / "inc" / "deep").mkdir(parents=True)
    (root / "inc" / "deep" / "own.h").write_text("#pragma once\n#define OWN_SIZE 8\n")
    (root / "use.cpp").write_text(SOURCE)
    return root


def gated(ported: PortedTree, *flags: str, tools: Toolchain = GXX, **more: object) -> list[GateResult]:
    cuda = f"-I{ported.root.parent / 'cuda'}"
    return list(run_gates(ported, replace(GateRequest("compile", (), (cuda, *flags)), **more), tools))  # type: ignore[arg-type]


def wrong(ported: PortedTree, old: bytes, new: bytes) -> PortedTree:
    files = tuple(file._replace(after=file.after.replace(old, new)) for file in ported.files)
    return replace(ported, files=files)


@needs_compiler
def test_port_passes_beside_its_original(tree: Path) -> None:
    ported = port_tree(tree, Target.named("musa"), rules={"WITH_OWN": "WITH_OURS"})
    assert [(gate.level, gate.state, gate.passed) for gate in gated(ported, "-DWITH_OWN")] == [
        ("tokens", GateState.PASSED, 2),
        ("preprocess", GateState.PASSED, 1),
        ("compile", GateState.PASSED, 1),
    ]


@needs_compiler
def test_new_errors_fail(tree: Path) -> None:
    target = Target.named("musa")
    gates = gated(wrong(port_tree(tree, target), b"&p, OWN", b"&q, OWN"), "-DWITH_OWN")
    assert gates[0].state is GateState.FAILED
    assert "which no rule allows" in str(gates[0].files[0].problems[0])
    # the new name is another thing in the project: the tokens are right, and the code is not
    (tree / "use.cpp").write_text("#include <cuda_runtime.h>\nstruct musaStream_t {};\ncudaStream_t y = 1;\n")
    gates = gated(port_tree(tree, target))
    assert [gate.state for gate in gates] == [GateState.PASSED, GateState.PASSED, GateState.FAILED]
    assert str(gates[2].files[0].problems[0]).startswith("use.cpp:")
    # an error of the original's own is none of the port's, and proves nothing either
    (tree / "use.cpp").write_text("#include <cuda_runtime.h>\ncudaStream_t y = undeclared;\n")
    assert gated(port_tree(tree, target))[2].state is GateState.NOT_RUN


@needs_compiler
def test_what_says_nothing_is_never_green(tree: Path) -> None:
    target = Target.named("musa")

    def second(**more: object) -> tuple[GateState, str]:
        gate = gated(port_tree(tree, target), **more)[1]  # type: ignore[arg-type]
        return gate.state, str(gate.files[0].problems[0] if gate.files else gate.reason)

    assert second(timeout=0.0001) == (GateState.NOT_RUN, "the compiler did not finish within 0 s")
    assert second(tools=Toolchain("", "", None)) == (GateState.NOT_RUN, "no C++ compiler is installed")
    (tree / "use.cpp").write_text('#include "nowhere.h"\n')
    state, reason = second()
    assert state is GateState.NOT_RUN
    assert "the original does not compile here either" in reason
    assert "nowhere.h" in reason
    (tree / "use.cpp").write_text("#include <torch/extension.h>\n")
    assert "torch/extension.h: No such file or directory: torch is not installed in " in second()[1]
    (tree / "use.cpp").rename(tree / "use.cu")
    assert "nvcc is not installed" in second()[1]
    (tree / "use.cu").unlink()
    (tree / "inc" / "deep" / "own.h").unlink()
    (tree / "notes.txt").write_text("nothing")
    assert second() == (GateState.NOT_RUN, "no file of the tree can be examined at this level")
    with pytest.raises(UsageError):
        gated(port_tree(tree, target), only=("../outside.h",))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_kernel_with_nvcc(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "#include <cuda_runtime.h>\n#ifdef __CUDACC__\n__global__ void k(float* p) { *p = 1; }\n#endif\n"
        "void go(float* p, cudaStream_t s) { k<<<1, 32, 0, s>>>(p); }\n"
    )
    tools = Toolchain(shutil.which("nvcc") or "", HOST, None)
    ported = port_tree(tmp_path, Target.named("musa"))
    assert [gate.state for gate in run_gates(ported, GateRequest("compile"), tools)] == [GateState.PASSED] * 3


CONTEXT = """#pragma once
namespace at { namespace cuda {
int warp_size();
struct Handle { int number; };
Handle getCurrentCUDABlasHandle();
Handle getCurrentCUDASolverDnHandle();
enum class Kind { A };
} }
namespace c10 { namespace cuda { namespace CUDACachingAllocator { inline void emptyCache() {} void zap(); } } }
"""


@needs_compiler
@pytest.mark.parametrize(
    ("call", "rules", "state"),
    [
        ("at::cuda::warp_size();", {}, GateState.PASSED),
        ("at::cuda::getCurrentCUDABlasHandle().number;", {}, GateState.PASSED),
        ("c10::cuda::CUDACachingAllocator::emptyCache();", {}, GateState.PASSED),
        ("at::cuda::getCurrentCUDASolverDnHandle();", {}, GateState.PASSED),  # stays, and so is no invention
        ("at::cuda::getCurrentCUDASolverDnHandle();", {"getCurrentCUDASolverDnHandle": "getSolver"}, GateState.FAILED),
        ("c10::cuda::CUDACachingAllocator::zap();", {"zap": "zap2"}, GateState.FAILED),
        ("using namespace at::cuda; warp_size();", {}, GateState.PASSED),
        ("using namespace at::cuda; getCurrentCUDASolverDnHandle();", {}, GateState.FAILED),
    ],
)
def test_a_name_that_the_plugin_does_not_declare_fails(
    tmp_path: Path, call: str, rules: dict[str, str], state: GateState
) -> None:
    torch = tmp_path / "torch" / "ATen" / "cuda"
    torch.mkdir(parents=True)
    (torch / "CUDAContext.h").write_text(CONTEXT)
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.cpp").write_text(f"#include <ATen/cuda/CUDAContext.h>\nvoid f() {{ {call} }}\n")
    ported = port_tree(tmp_path / "csrc", Target.named("musa"), rules=rules)
    gates = run_gates(ported, GateRequest("compile"), Toolchain("", HOST, tmp_path / "torch"))
    assert [gate.state for gate in gates] == [GateState.PASSED, GateState.PASSED, state]
