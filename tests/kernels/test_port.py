"""The port of trees: what changes, what never does, what is listed, and how it is written and taken back."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.warm_python import ferry
from torchferry.backends import registry
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.target import Target
from torchferry.cli import cli
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_with_mode
from torchferry.kernels import port, ported_tree
from torchferry.kernels.output import write_beside
from torchferry.kernels.ported_tree import port_tree
from torchferry.kernels.porting import port_text
from torchferry.kernels.proposal import proposal
from torchferry.kernels.rules import RuleVerdict, rule_set
from torchferry.kernels.simple_porting import SimplePorting
from torchferry.kernels.tokens import SourceTokens, TokenKind, tokens
from torchferry.kernels.words import WordJudge

TABLE = kernel_table(registry.load("musa"))
assert TABLE is not None
JUDGE = WordJudge(TABLE, {})

KERNEL = """// cudaMalloc stays in a comment
#include <ATen/cuda/CUDAContext.h>
#include "ops/helper.cuh"
#include <cub/cub.cuh>
#ifdef ACME_WITH_CUDA
template <typename T>
__global__ void scale(T* data, int count) {
  __shared__ float tile[64][128];
  atomicAdd(data, T(1));
}
void run(at::Tensor x) {
  AT_ASSERTM(x.is_cuda(), "cudaMalloc: must be a CUDA tensor");
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  auto y = at::empty({1}, x.options().device(at::kCUDA));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<1, 32, 0, stream>>>(x.data_ptr<scalar_t>(), 1);
  });
  cudaFancyNewThing(stream);
}
REGISTER_DEVICE_IMPL(scale_impl, CUDA, run);
#if CUDA_VERSION < 9000
#endif
#endif
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "csrc"
    (root / "ops").mkdir(parents=True)
    (root / "scale.cu").write_text(KERNEL)
    (root / "ops" / "helper.cuh").write_text("#pragma once\n#define OWN_CUDA 1\n")
    (root / "notes.txt").write_bytes(b"cudaMalloc \xff\x00")
    return root


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("cudaMalloc(&p, n);", "musaMalloc(&p, n);"),
        ("int Accumulate; int cudaMallocOfMine;", "int Accumulate; int cudaMallocOfMine;"),
        ('s = "cudaMalloc"; // cudaMalloc', 's = "cudaMalloc"; // cudaMalloc'),
        ("c10::cuda::CUDAGuard g; mine::cuda::f();", "c10::musa::MUSAGuard g; mine::cuda::f();"),
        ("F(a, CUDA, b); G(CUDA);", "F(a, PrivateUse1, b); G(CUDA);"),
        ("x->is_cuda(); bool is_cuda;", "x->is_privateuseone(); bool is_cuda;"),
        ("#ifdef __CUDA_ARCH__\n#endif", "#ifdef __MUSA_ARCH__\n#endif"),
        ("#if __CUDA_ARCH__ >= 700\n#endif", "#if __CUDA_ARCH__ >= 700\n#endif"),
        ("#include <cuda_runtime.h>", "#include <musa_runtime.h>"),
        ("#include <c10/cuda/CUDAGuard.h>", '#include "torch_musa/csrc/core/MUSAGuard.h"'),
        ("#include <thrust/sort.cuh>", "#include <thrust/sort.cuh>"),
        ("cu = 1; cuda = 2; int CUDA_VERSION_OF_MINE;", "cu = 1; cuda = 2; int CUDA_VERSION_OF_MINE;"),
        ("AT_DISPATCH_FLOATING_TYPES_AND_HALF(t)", "AT_DISPATCH_FLOATING_TYPES_AND_HALF(t)"),
    ],
)
def test_text(text: str, result: str) -> None:
    assert port_text("a.cu", text, JUDGE, ()).text == result


WORDS = [
    *(
        "cudaMalloc",
        "cudaStream_t",
        "at::cuda::",
        "CUDA",
        ", CUDA,",
        "kCUDA",
        "x.is_cuda()",
        "cublasSgemm_v2",
        "own_cuda",
    ),
    *(
        "// cudaMalloc\n",
        '"cudaMalloc"',
        'R"(cudaMalloc)"',
        "#include <cuda.h>\n",
        '\n#include "a.cuh"\n',
        "cuda\\\nMalloc",
    ),
    *("#if __CUDA_ARCH__ > 1\n", "/*", "*/", "{", "}", "__global__ void f(", ")", ";", " ", "\n", "'", '"'),
]


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_only_licensed_tokens_change(text: str) -> None:
    """An audit that shares no code with the port but the tokens."""
    done = port_text("a.cu", text, JUDGE, {"a.cuh"})
    before, after = SourceTokens(text), SourceTokens(done.text)
    old, new = list(tokens(before)), list(tokens(after))
    assert [token.kind for token in old] == [token.kind for token in new]
    changed = 0
    for first, second in zip(old, new, strict=True):
        was, now = text[first.start : first.end], done.text[second.start : second.end]
        if was != now:
            changed += 1
            assert first.kind in (TokenKind.IDENTIFIER, TokenKind.HEADER)
            if first.kind is TokenKind.IDENTIFIER:
                assert TABLE is not None
                assert TABLE.use_of(was) == now or now in {row.use for row in TABLE.contexts.values()}
    assert changed == len(done.replacements)
    assert port_text("a.cu", done.text, JUDGE, {"a.cuh"}).text == done.text


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("at::globalContext().lazyInitCUDA();", ["torch-device"]),
        ("int x = 0xffffffff;", []),  # a mask of threads only beside what takes one
        ("x = __shfl_sync(0xffffffff, x, 1);", ["warp-intrinsic", "warp-intrinsic"]),
        ('void trap() { asm volatile("int $3" : : ); }', []),
        ('void trap() { asm("" : : "g"(p)); }', []),
        ('MINE void add() { asm volatile("{ add.f32 %0, %1; }" : : ); }', ["inline-assembly"]),
        ('__device__ void f() { asm("whatever"); }', ["inline-assembly"]),
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 600\n#endif", ["version-guard"]),
        ("using namespace nvcuda; wmma::fragment<wmma::a> x; wmma::load(x);", ["tensor-core", "tensor-core"]),
        ("cuda::std::move(cuda::std::x);\ncuda::barrier y;", ["no-counterpart"]),
        ("const int BYTES = 96 * 1024;\nvoid f() { k<<<dim3(1, 1), 32, BYTES, s>>>(); }", ["shared-memory-limit"]),
        ("void f() { k<<<1, 32, 256 * sizeof(float)>>>(); }", []),
        ("void f() { k<<<1, 32, 65536 * sizeof(float)>>>(); }", ["shared-memory-limit"]),
    ],
)
def test_list_has_what_matters_once(text: str, kinds: list[str]) -> None:
    assert [item.kind for item in port_text("a.cu", text, JUDGE, (), 28_672).items] == kinds


@pytest.mark.parametrize(
    ("content", "is_header"),
    [
        ("#pragma once\n#define HAS_CUDA_BARRIER\n", True),
        ("#ifndef GUARD\n#define GUARD\n#define HAS_CUDA_BARRIER\n#endif\n", True),
        ("# include the CUDA tests\nall: HAS_CUDA_BARRIER\n", False),
    ],
)
def test_a_header_without_a_suffix_is_read(tmp_path: Path, content: str, is_header: bool) -> None:
    (tmp_path / "config").write_text(content + "\n// cudaFree\n")
    (tmp_path / "a.cu").write_text("#include <config>\n#ifdef HAS_CUDA_BARRIER\n#endif\n")
    ported = port_tree(tmp_path, Target.named("musa"))
    assert ported.sources == 1 + is_header
    assert bool(ported.guards) is not is_header  # who defines the macro is found, or the build has to


def test_tree_is_ported_and_what_is_left_is_listed(tree: Path) -> None:
    ported = port_tree(tree, Target.named("musa"))
    kinds = {item.kind for item in ported.items}
    assert kinds >= {"version-guard", "shared-memory-limit", "atomic", "dispatch", "unknown-name"}
    assert [kernel.name for kernel in ported.kernels] == ["scale"]
    assert [(launch.kernel, launch.geometry) for launch in ported.launches["scale.cu"]] == [
        ("scale", "1, 32, 0, stream")
    ]
    assert "template <typename T> __global__ void scale(T* data, int count)" in ported.kernels[0].signature
    assert ported.by_hand == ["scale.cu"]
    assert list(ported.guards) == ["ACME_WITH_CUDA"]
    assert 'ACME_WITH_CUDA = "ACME_WITH_MUSA"' in proposal(ported, "en")
    unknown = [item for item in ported.items if item.kind == "unknown-name"]
    assert [(item.line, "cudaFancyNewThing" in str(item.message)) for item in unknown] == [(18, True)]


@pytest.mark.parametrize(
    ("header", "used", "kernels", "launches"),
    [
        (
            "#define GLOBAL __global__",
            "template <bool B>\nGLOBAL void f(int* p) { }\nGLOBAL void declared(int* p);",
            ["f"],
            [],
        ),
        (
            "#define DEFINE(name, T) \\\n  __global__ void __launch_bounds__((128)) name##_kernel(T* p) { }",
            "DEFINE(add, float)\nDEFINE(sub, int)",
            ["add_kernel", "sub_kernel"],
            [],
        ),
        (
            "#define LAUNCH(f, g, ...) f<<<g, 32>>>(__VA_ARGS__)",
            "void run() { LAUNCH((scale<float, 2>), 1, p); LAUNCH(add, dim3(1, 2), p); } // LAUNCH(no, 1)",
            [],
            ["scale", "add"],
        ),
        ("#define ON(g) <<<g, 1>>>", "void run() { scale<float> ON(4)(p); }", [], ["scale"]),
        ("#define UNUSED __global__ void f(int* p) { }", "#ifdef UNUSED\n#endif", ["f"], []),
    ],
)
def test_macros_of_the_project(tmp_path: Path, header: str, used: str, kernels: list[str], launches: list[str]) -> None:
    """Kernels and launches that a macro of another file makes; its definition is none of its own where it is used."""
    (tmp_path / "macros.h").write_text(f"#pragma once\n{header}\n")
    (tmp_path / "use.cu").write_text(f'#include "macros.h"\n{used}\n')
    ported = port_tree(tmp_path, Target.named("musa"))
    assert [kernel.name for kernel in ported.kernels] == kernels
    assert [launch.kernel for launches in ported.launches.values() for launch in launches] == launches
    elsewhere = port_tree(tmp_path, Target.named("npu"))
    assert sum(item.kind == "kernel-rewrite" for item in elsewhere.items) == len(kernels)


def test_output_is_written_kept_refused_and_taken_back(tree: Path) -> None:
    original = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    port(tree, "musa")
    out = tree.with_name("csrc_musa")
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {path for path in files if not path.startswith(".torchferry/")} == {
        "scale.mu",
        "ops/helper.muh",
        "notes.txt",
    }
    assert '#include "ops/helper.muh"' in (out / "scale.mu").read_text()
    assert (out / "notes.txt").read_bytes() == b"cudaMalloc \xff\x00"
    port(tree, "musa")  # the same again
    (tree / "notes.txt").write_bytes(b"new")
    port(tree, "musa")  # ours and unedited: written anew
    assert (out / "notes.txt").read_bytes() == b"new"
    (out / "scale.mu").write_text("edited")
    with pytest.raises(TorchferryError, match="edited"):
        port(tree, "musa")
    assert (out / "scale.mu").read_text() == "edited"
    port(tree, "musa", out=tree.with_name("other"))
    (tree / "notes.txt").write_bytes(original[tree / "notes.txt"])
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == original


def test_foreign_output_is_refused(tree: Path) -> None:
    out = tree.with_name("csrc_musa")
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(TorchferryError, match="did not write"):
        write_beside(port_tree(tree, Target.named("musa")), out)
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_command(tree: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [ferry(), "-m", "torchferry", *arguments]
        return subprocess.run(command, cwd=tree.parent, capture_output=True, text=True, check=False)

    review = tree.parent / "review.json"
    done = run("port", "csrc", "-t", "musa", "--in-place", "--review", str(review))
    assert done.returncode == 1, done.stderr
    assert (tree / "scale.mu").is_file()
    assert (tree / "scale.cu").read_text() == KERNEL
    assert {item["kind"] for item in json.loads(review.read_text())["review"]} >= {"version-guard", "dispatch"}
    assert run("undo", "csrc").returncode == 0
    assert not (tree / "scale.mu").exists()
    for form in ("sarif", "html"):
        assert run("port", "csrc", "-t", "musa", "--check", "-f", form).returncode == 1
    assert "diff --git" in run("port", "csrc", "-t", "musa", "--diff").stdout
    assert not (tree.parent / "csrc_musa").exists()
    assert run("port", "csrc", "-t", "musa", "--check", "--names", "names.toml").returncode == 1
    assert 'ACME_WITH_CUDA = "ACME_WITH_MUSA"' in (tree.parent / "names.toml").read_text()
    done = run("port", "csrc", "-t", "musa", "--map", "names.toml", "--ignore", "ops")
    assert (done.returncode, (tree.parent / "csrc_musa" / "ops").exists()) == (1, False), done.stderr
    assert "#ifdef ACME_WITH_MUSA" in (tree.parent / "csrc_musa" / "scale.mu").read_text()


def test_check_is_about_the_output_that_is_there(tmp_path: Path) -> None:
    def run(*arguments: str) -> int:
        command = [ferry(), "-m", "torchferry", "port", "csrc", "-t", "musa", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode

    (tmp_path / "csrc").mkdir()
    kernel = tmp_path / "csrc" / "add.cu"
    kernel.write_text("#include <cuda_runtime.h>\n__global__ void add(float* x) { x[threadIdx.x] += 1; }\n")
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        "setup(name='x', ext_modules=[CUDAExtension('x', ['csrc/add.cu'])], cmdclass={'build_ext': BuildExtension})\n"
    )
    build = ("--build", "setup.py")
    assert run(*build, "--check") == 1  # nothing is there yet
    assert not (tmp_path / "csrc_musa").exists()
    assert run() == 0
    assert run(*build, "--check") == 1  # the tree is there, the build file is not
    assert run(*build) == 0
    assert run(*build, "--check") == 0
    assert run("--check") == 0
    before = kernel.read_text()
    kernel.write_text(before.replace("+= 1", "+= 2"))
    assert run("--check") == 1  # the original went on
    kernel.write_text(before)
    (tmp_path / "csrc_musa" / "add.mu").write_text("edited")
    assert run("--check") == 1


RECIPE = {
    "_CU_H_": "_MU_H_",
    "_CUH": "_MUH",
    "__NVCC__": "__MUSACC__",
    "MMCV_WITH_CUDA": "MMCV_WITH_MUSA",
    "AT_DISPATCH_FLOATING_TYPES_AND_HALF": "AT_DISPATCH_FLOATING_TYPES",
    "#include <ATen/cuda/CUDAContext.h>": '#include "torch_musa/csrc/aten/musa/MUSAContext.h"',
    "#include <c10/cuda/CUDAGuard.h>": '#include "torch_musa/csrc/core/MUSAGuard.h"',
    "::cuda::": "::musa::",
    "/cuda/": "/musa/",
    ", CUDA,": ", PrivateUse1,",
    ".cuh": ".muh",
    ".is_cuda()": ".is_privateuseone()",
}


def test_recipe_of_the_manual() -> None:
    assert TABLE is not None
    rules = rule_set(RECIPE, TABLE, allow_unsafe=False)
    unsafe = {rule.name for rule in rules.rules if rule.verdict is RuleVerdict.UNSAFE}
    assert unsafe == {"AT_DISPATCH_FLOATING_TYPES_AND_HALF", "/cuda/"}
    assert rules.names == {"MMCV_WITH_CUDA": "MMCV_WITH_MUSA"}


def test_simple_porting(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SimplePorting(tree, '["ops"]', json.dumps({**RECIPE, "ACME_WITH_CUDA": "ACME_WITH_MUSA"})).run()
    text = (tree.with_name("csrc_musa") / "scale.mu").read_text()
    assert "#ifdef ACME_WITH_MUSA" in text
    assert "AT_DISPATCH_FLOATING_TYPES_AND_HALF" in text
    assert "AND_HALF" in capsys.readouterr().err
    assert not (tree.with_name("csrc_musa") / "ops").exists()
    with pytest.raises(UsageError):
        SimplePorting(tree, mapping_rule="[1]")


def test_simple_porting_with_rules_of_a_folder_alone(tree: Path, tmp_path: Path) -> None:
    """`general.json` holds the vendor's own rules, which a port without the default ones does not take."""
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "own.json").write_text(json.dumps({"ACME_WITH_CUDA": "ACME_WITH_MUSA"}))
    (maps / "general.json").write_text(json.dumps({"cudaMalloc": "wrong"}))
    SimplePorting(tree, drop_default_mapping=True, mapping_dir_path=maps).run()
    text = (tree.with_name("csrc_musa") / "scale.mu").read_text()
    assert "#ifdef ACME_WITH_MUSA" in text
    assert '#include "ops/helper.muh"' in text
    assert (tree.with_name("csrc_musa") / "ops" / "helper.muh").is_file()
    assert "cudaStream_t stream = at::cuda::getCurrentCUDAStream();" in text


def test_what_cannot_be_read_is_named_and_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.cu", "b.cu"):
        (tmp_path / name).write_text("void f() { cudaFree(0); }\n")

    def read(path: str) -> tuple[bytes, int]:
        if path.endswith("b.cu"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read_with_mode(path)

    monkeypatch.setattr(ported_tree, "read_with_mode", read)
    for way in ("--check", "--diff", "--out"):
        done = CliRunner().invoke(
            cli, ["port", str(tmp_path), "-t", "musa", way, *[str(tmp_path / "out")] * (way == "--out")]
        )
        assert done.exit_code == 1
        assert "b.cu: cannot be read: Permission denied" in done.output
