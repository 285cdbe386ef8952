"""The account of a port: what becomes of every word of CUDA in code, and the hazards that no name says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.kernel_surface import kernel_surface
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.target import Target
from torchferry.kernels.account import PortAccount
from torchferry.kernels.declarations import is_declared
from torchferry.kernels.gates.audit import Audit
from torchferry.kernels.kernel_facts import KernelFacts
from torchferry.kernels.listing import summary, table
from torchferry.kernels.ported_tree import PortedTree, port_tree
from torchferry.kernels.porting import port_text
from torchferry.kernels.words import WordJudge

TABLE = kernel_table(registry.load("musa"))
assert TABLE is not None
JUDGE = WordJudge(TABLE, {})
MUSA = Target.named("musa")


def ported(root: Path, **files: str) -> PortedTree:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return port_tree(root, MUSA)


def shown(tree: PortedTree) -> str:
    return "\n".join(table(tree, "en"))


@pytest.mark.parametrize(
    ("text", "declares"),
    [
        ("void* cudaX(int a) {", True),
        ("x = a * cudaX(b);", False),
        ("} \n cudaX(1);", False),
        ("CHECK cudaX(a);", False),
        ("f(&cudaX);", False),
        ("f(Tensor& cudaX)", True),
        ("f(a, b * cudaX);", False),
        ("float *a = 0, *cudaX = 0;", True),
        ("enum E { A, cudaX, B };", True),
        ("struct cudaX* p;", False),
        ("struct cudaX { };", True),
        ("using foo::cudaX;", False),
        ("template <typename cudaX> f", True),
        ("g<cudaX>(1)", False),
        ("void Foo::cudaX(int a) {", True),
        ("Foo::cudaX(a);", False),
        ("#define A\ncudaX(a);", False),
        ("template <int C>\n__global__ void __launch_bounds__(C * 2)\ncudaX(int a) {", True),
        ("a ? cudaX : b;", False),
        ("int f(), cudaX();", False),
    ],
)
def test_what_declares_a_name(text: str, declares: bool) -> None:
    at = text.index("cudaX")
    assert is_declared(text, at, at + 5) is declares


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("void f() { cudaFree(0); }", ()),
        ("void f() { cudaFancy(0); cudaFancy(1); }", ("cudaFancy",)),
        ("// ends in a word\nvoid f() { g(); } // and this one\ncudaFancy(1);", ("cudaFancy",)),
        ('void f() { s = "cudaFancy"; } // cudaFancy', ()),
        ("int cudaFancy(int); void f() { cudaFancy(1); }", ()),
        ("#define RUN(x) { int cuda_mine = x; cuda_mine; }", ()),
        ("#ifdef WITH_CUDA\n#endif\n", ()),
        ("void f() { cuLibraryLoadData(0); CUtensorMap m; }", ("CUtensorMap", "cuLibraryLoadData")),
        ("void f() { mine::cuda::g(); }", ("cuda",)),
        ("namespace mine { namespace cuda { void g(); } } void f() { mine::cuda::g(); }", ()),
        ("void f() { is_cuda(x); }", ("is_cuda",)),
        ("#pragma nv_diag_suppress 20012\n", ()),
        ("TORCH_CUDA_CPP_API void f();", ()),
    ],
)
def test_what_nothing_explains_is_listed_with_every_place(tmp_path: Path, code: str, names: tuple[str, ...]) -> None:
    tree = ported(tmp_path, a__cu=code)
    assert tuple(sorted(tree.account.names)) == names
    for each in tree.account.unknown:
        assert code.split("\n")[each.line - 1][each.column - 1 :].startswith(each.name)
    assert ("names that were not understood  0" in shown(tree)) is (names == ())
    assert ("0 places" in str(summary(tree))) <= (not names)


def test_a_name_that_another_file_declares_is_the_projects(tmp_path: Path) -> None:
    use = "void f() { scale_cuda(1); }"
    assert ported(tmp_path, a__cpp=use).account.names == ("scale_cuda",)
    tree = ported(tmp_path, a__cpp=use, b__h="#pragma once\nvoid scale_cuda(int n);\n")
    assert tree.account.names == ()
    assert tree.account.reason("scale_cuda") == "project"


NAMES = [
    "cudaFree",
    "cudaZap",
    "mine_cuda",
    "cuZap",
    "CUzap_t",
    "nv_zap",
    "is_cuda",
    "__zap",
    "__ldg",
    "cublasZap",
    "ncclZap",
]
FRAMES = ["{};", "int {}(int);", "f({}, 1);", "at::cuda::{}();", "x.{}();", "#ifdef {}\n#endif\n", "// {}\n", '"{}";']


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.sampled_from(NAMES)), max_size=12))
def test_every_word_that_stays_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[str, str]]
) -> None:
    """An audit that shares no code with the port: comments and strings are taken out by hand."""
    root = tmp_path_factory.mktemp("tree")
    tree = ported(root, a__cu="\n".join(frame.format(name) for frame, name in pieces))
    code = re.sub(r'//[^\n]*|"[^"\n]*"', " ", tree.files[0].after.decode())
    listed = " ".join(str(item.message) for item in tree.items)
    for word in set(re.findall(r"\w+", code)) & set(NAMES):
        assert f"`{word}`" in listed or f"::{word}`" in listed or tree.account.reason(word), word


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("x.type().is_cuda();", "x.device().is_privateuseone();"),
        ("x->type( ) . is_cuda();", "x->device( ) . is_privateuseone();"),
        ("at::cuda::getCurrentCUDABlasHandle();", "at::musa::getCurrentMUSABlasHandle();"),
        ("c10::cuda::CUDACachingAllocator::emptyCache();", "c10::musa::MUSACachingAllocator::emptyCache();"),
        ("at::cuda::getCurrentCUDASolverDnHandle();", "at::cuda::getCurrentCUDASolverDnHandle();"),
        ("using namespace at::cuda;", "using namespace at::musa;"),
        (
            "namespace at { auto s = cuda::getCurrentCUDAStream(); }",
            "namespace at { auto s = musa::getCurrentMUSAStream(); }",
        ),
        ("F(a, QuantizedCUDA, b);", "F(a, QuantizedPrivateUse1, b);"),
        ("thrust::cuda::par.on(s);", "thrust::musa::par.on(s);"),
        ("k<float> << <1, dim3(2, 3) >> > (x);", "k<float> <<<1, dim3(2, 3) >>> (x);"),
        ("f<g<int> >(a << (b), c);", "f<g<int> >(a << (b), c);"),
        (
            'out << "cudaFree" << x << "b" << (y >> 1); k<<<1, 2>>>(x);',
            'out << "cudaFree" << x << "b" << (y >> 1); k<<<1, 2>>>(x);',
        ),
    ],
)
def test_a_new_name_is_one_that_the_target_has(line: str, result: str) -> None:
    done = port_text("a.cu", line, JUDGE, ())
    assert done.text == result
    assert TABLE is not None
    assert Audit(TABLE, {}, True, frozenset()).compare(line, done.text).problems == ()
    surface = kernel_surface(MUSA.backend)
    assert surface is not None
    for path in re.findall(r"\b(?:at|c10)::musa(?:::\w+)+", done.text):
        assert surface.has(tuple(path.split("::")))


def test_the_type_of_a_tensor_has_no_such_method() -> None:
    text = "const at::Type& t = x.type(); t.is_cuda(); auto u = y.type(); u.is_cuda(); z.is_cuda();"
    done = port_text("a.cpp", text, JUDGE, ())
    assert done.text == text.replace("z.is_cuda", "z.is_privateuseone")
    assert [item.kind for item in done.items] == ["no-counterpart"]


KERNEL = "__global__ void k(float* x, int tid) {{ {} }}"


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("x[threadIdx.x % 32] = 1;", {"warp-size"}),
        ("int w = threadIdx.x; int l = w & 0x1f;", {"warp-size"}),
        ("int w = (threadIdx.y * blockDim.x + threadIdx.x) >> 5;", {"warp-size"}),
        ("const int n = blockDim.x / 32u;", {"warp-size"}),
        ("for (int i = 16; i > 0; i >>= 1) x[0] += __shfl_xor_sync(~0u, x[0], i);", {"warp-size", "warp-intrinsic"}),
        ("auto t = cg::tiled_partition<32>(b);", {"warp-size"}),
        ("if (tid < 32) __syncwarp();", {"warp-size", "warp-intrinsic"}),
        ("if (tid < 32) x[tid] = 1;", set()),
        ("x[blockIdx.x * 32 + 5] = n / 32;", set()),
        ("x[tid % 16] = x[tid / 64];", set()),
        ("child<<<1, 1>>>(x);", {"dynamic-parallelism"}),
        ("grid.sync(); cg::this_grid();", {"cooperative-groups"}),
        ("__pipeline_memcpy_async(x, x, 4);", {"async-copy"}),
        ("x[0] = __ldcs(x) + __ldg(x);", {"cache-hint"}),
        ("x[0] = __dp4a(1, 2, 3) + clock64();", {"integer-dot", "device-clock"}),
        ("x[0] = __zapf(1);", {"device-function"}),
        ("__half2* h; atomicAdd(h, 1); atomicAdd(x, 1);", {"atomic", "device-function"}),
    ],
)
def test_hazards_of_device_code(body: str, kinds: set[str], tmp_path: Path) -> None:
    assert {item.kind for item in ported(tmp_path, a__cu=KERNEL.format(body)).items} == kinds


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("constexpr int LANES = 32;\n", ["warp-size"]),
        ("#define LOG_WARP 5\n", ["warp-size"]),
        ("enum { kWarpThreads = 32 };\n", ["warp-size"]),
        ("constexpr int WARP_N = 32, SIZE = 32;\n", []),
        ("cudaDeviceProp p; bool b = p.major >= 8;\n", ["capability"]),
        ("version v; bool b = v.major >= 8;\n", []),
        ("bool b = sm_version >= 90 && get_sm_version() == 80;\n", ["capability", "capability"]),
        ("bool b = cc > 4096;\n", []),
        ("void f() { cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0); }\n", ["capability"]),
        ("void f() { cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0); }\n", ["capability"]),
        ("void f() { cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0); }\n", []),
        ('const char* s = "__global__ void k(float* x) {}";\n', ["string"]),
        ('const char* s = R"x(extern "C" __global__ void f();)x";\n', ["string"]),
        ('// "__global__ void k() {}"\nint a;\n', []),
        ("constexpr unsigned WARP_SZ{32u};\n", []),
        ("constexpr unsigned LANES{32u};\n", ["warp-size"]),
        ("__global__ void __launch_bounds__(256) k() { }\n", ["launch-bounds"]),
        ("__global__ void __cluster_dims__(2) k(const __grid_constant__ int p) { }\n", ["cluster", "kernel-parameter"]),
        ("__device__ __managed__ int count;\n", ["managed-memory"]),
    ],
)
def test_hazards_of_the_host(code: str, kinds: list[str], tmp_path: Path) -> None:
    assert [item.kind for item in ported(tmp_path, a__cu=code).items] == kinds


GIVEN = (
    "template <int W> __device__ int lane() {{ return threadIdx.x % W; }}\n"
    "__global__ void k(float* x) {{ x[lane<{0}>()] = 1; }}\n"
)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (GIVEN.format(32), 1),
        (GIVEN.format(64), 0),
        (GIVEN.replace("int W", "int N, int W").format("32, 64"), 0),
        (GIVEN.replace("int W", "int N, int W").format("8, 32u"), 1),
        ("template <int W = 32> __global__ void k(float* x) { x[threadIdx.x / W] = 1; }\n", 1),
        ("constexpr int N{32};\n__global__ void k(float* x) { x[threadIdx.x & (N - 1)] = 1; }\n", 1),
        ("#define N 64\n__global__ void k(float* x) { x[threadIdx.x & (N - 1)] = 1; }\n", 0),
        ("__global__ void k(float* x, int N) { x[threadIdx.x & (N - 1)] = 1; }\n", 0),
        ("__global__ void k(float* x) { x[threadIdx.x & (32u - 1u)] = 1; }\n", 1),
    ],
)
def test_a_warp_by_another_name(code: str, count: int, tmp_path: Path) -> None:
    assert [item.kind for item in ported(tmp_path, a__cu=code).items] == ["warp-size"] * count


def test_atomics_are_told_apart_by_type(tmp_path: Path) -> None:
    code = KERNEL.format(
        "__half2* h; double d[4]; atomicAdd(x, 1); atomicAdd(x + 1, 1); atomicAdd(&h[1], v); atomicAdd(d, 1);"
    )
    messages = [str(item.message) for item in ported(tmp_path, a__cu=code).items if item.kind == "atomic"]
    assert [message.partition(" on ")[2] for message in messages] == [
        "`float` (uses: 2)",
        "`__half2` (uses: 1)",
        "`double` (uses: 1)",
    ]


def test_code_that_is_written_anew_is_no_riddle(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(
        KERNEL.format("x[threadIdx.x % 32] = __zapf(cudaZap);") + "\nvoid f() { cudaZap(0); }\n"
    )
    tree = port_tree(tmp_path, Target.named("npu"))
    assert [(each.name, each.line) for each in tree.account.unknown] == [("cudaZap", 2)]
    assert isinstance(tree.account, PortAccount)
    assert not {"warp-size", "device-function"} & {item.kind for item in tree.items}


def test_a_vector_of_cudas_is_no_dtype_of_four_bits(tmp_path: Path) -> None:
    code = "__global__ void k(const int4* __restrict__ a, half2* b, uchar4* c, float* d) { }"
    tree = ported(tmp_path, a__cu=code)
    assert KernelFacts(tree).dtypes(tree.kernels[0], ()) == (
        "int4 (4 x int32)",
        "half2 (2 x float16)",
        "uchar4 (4 x uint8)",
        "float",
    )
