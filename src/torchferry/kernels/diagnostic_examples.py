"""An example of each kind of place that a port lists: the code before, and after somebody has acted.

`after` is empty where only the one who knows the code can write it. Kinds of files that cannot be read have no example.
"""

from __future__ import annotations

from torchferry.core.record import NamedTuple

_SETUP = "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
_NAMED = "setup(name='x', cmdclass={'build_ext': BuildExtension},\n      ext_modules=[CUDAExtension('x', ['a.cu']"


class DiagnosticExample(NamedTuple):
    """One example.

    Attributes:
        before: The code in which a port finds the kind.
        after: The same when somebody has acted, in the original: a port no longer finds the kind; empty for none.
        file: What the file is called.
        rewritten: Whether it is listed where kernels are written anew; else where the compiler takes CUDA's syntax.
    """

    before: str
    after: str = ""
    file: str = "a.cu"
    rewritten: bool = False

    @property
    def language(self) -> str:
        """How the code is marked in a page."""
        if self.file.endswith((".cu", ".cpp")):
            return "cpp"
        return {"py": "python", "toml": "toml", "txt": "cmake"}.get(self.file.rpartition(".")[2], "text")


def _body(text: str, *, parameters: str = "float* a") -> str:
    return f"__global__ void k({parameters}) {{\n  {text}\n}}\n"


EXAMPLES = {
    "inline-assembly": DiagnosticExample(
        _body(
            'asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));',
            parameters="int a, int b, int c",
        ),
        _body("int d = (a & b) | c;", parameters="int a, int b, int c"),
    ),
    "ptx-kernel": DiagnosticExample(
        _body('asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0};" : "+f"(a[0]));')
    ),
    "tensor-core": DiagnosticExample(_body("nvcuda::wmma::fill_fragment(c, 0.0f);")),
    "texture": DiagnosticExample(
        "texture<float, 1> t;\n" + _body("a[0] = tex1Dfetch(t, 0);"),
        _body("a[0] = t[0];", parameters="float* a, const float* t"),
    ),
    "shared-memory-limit": DiagnosticExample(
        _body("__shared__ float tile[16384];"), _body("__shared__ float tile[4096];")
    ),
    "kernel-rewrite": DiagnosticExample(_body("a[threadIdx.x] *= 2;"), rewritten=True),
    "dynamic-parallelism": DiagnosticExample(
        "__global__ void child() {}\n" + _body("child<<<1, 1>>>();"),
        "__global__ void child() {}\nvoid run(float* a) {\n  child<<<1, 1>>>();\n}\n",
    ),
    "cluster": DiagnosticExample(
        "__global__ void __cluster_dims__(2) k(float* a) {\n  a[0] = 1;\n}\n", _body("a[0] = 1;")
    ),
    "async-copy": DiagnosticExample(
        _body("__pipeline_memcpy_async(s, a, 16);"), _body("s[threadIdx.x] = a[threadIdx.x];\n  __syncthreads();")
    ),
    "integer-dot": DiagnosticExample(
        _body("c = __dp4a(x, y, c);", parameters="char4 x, char4 y, int c"),
        _body("c += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;", parameters="char4 x, char4 y, int c"),
    ),
    "cache-hint": DiagnosticExample(_body("float v = __ldcs(a);"), _body("float v = *a;")),
    "device-clock": DiagnosticExample(_body("long long begin = clock64();"), _body("")),
    "launch-bounds": DiagnosticExample(
        "__global__ void __launch_bounds__(256, 2) k(float* a) {\n  a[0] = 1;\n}\n", _body("a[0] = 1;")
    ),
    "kernel-parameter": DiagnosticExample(
        _body("a.data[0] = 1;", parameters="const __grid_constant__ Args a"),
        _body("a.data[0] = 1;", parameters="const Args a"),
    ),
    "device-function": DiagnosticExample(
        _body("__nobody_has_it(a);"), "__device__ void __nobody_has_it(float*);\n" + _body("__nobody_has_it(a);")
    ),
    "warp-size": DiagnosticExample(
        _body("int lane = threadIdx.x % 32;"),
        _body("int lane = threadIdx.x % width;", parameters="int width"),
    ),
    "warp-intrinsic": DiagnosticExample(_body("a[0] += __shfl_down_sync(0xffffffff, a[0], 16);")),
    "cooperative-groups": DiagnosticExample(_body("auto grid = cooperative_groups::this_grid();")),
    "shared-memory": DiagnosticExample(_body("__shared__ float tile[256];")),
    "atomic": DiagnosticExample(_body("atomicAdd(a, 1.0f);")),
    "float64": DiagnosticExample(_body("double x = a[0];"), _body("float x = a[0];")),
    "device-runtime": DiagnosticExample(_body('printf("%f", a[0]);'), _body("a[0] = 1;")),
    "unknown-name": DiagnosticExample(
        "void run() {\n  cudaNobodyKnows();\n}\n", "void cudaNobodyKnows();\nvoid run() {\n  cudaNobodyKnows();\n}\n"
    ),
    "no-counterpart": DiagnosticExample(
        "void run(at::Tensor x) {\n  x.type().is_cuda();\n}\n",
        "void run(at::Tensor x) {\n  x.is_cuda();\n}\n",
        "a.cpp",
        True,
    ),
    "removed-torch": DiagnosticExample(
        "void run() {\n  THCudaCheck(0);\n}\n", "void run() {\n  AT_CUDA_CHECK(0);\n}\n"
    ),
    "version-guard": DiagnosticExample(
        "#if CUDA_VERSION >= 11000\nint fast;\n#endif\n", "#if defined(ACME_FAST)\nint fast;\n#endif\n"
    ),
    "capability": DiagnosticExample(
        "void run(cudaDeviceProp p) {\n  if (p.major >= 8) fast();\n}\n",
        "void run(cudaDeviceProp p) {\n  if (has_fast) fast();\n}\n",
    ),
    "managed-memory": DiagnosticExample(
        "void run() {\n  cudaMallocManaged(&p, 4);\n}\n", "void run() {\n  cudaMalloc(&p, 4);\n}\n"
    ),
    "dispatch": DiagnosticExample('void run() {\n  AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, "f", [&] {});\n}\n'),
    "host-call": DiagnosticExample("void run() {\n  cudaFree(p);\n}\n", file="a.cpp", rewritten=True),
    "library-call": DiagnosticExample(
        "void run() {\n  cublasSgemm(h);\n}\n", "void run(at::Tensor a) {\n  at::mm(a, a);\n}\n"
    ),
    "stream-or-graph": DiagnosticExample("void run() {\n  cudaGraphLaunch(g, s);\n}\n"),
    "header": DiagnosticExample(
        "#include <cuda/nobody.h>\nvoid run() {\n  cudaMalloc(&p, 4);\n}\n",
        "#include <cuda_runtime.h>\nvoid run() {\n  cudaMalloc(&p, 4);\n}\n",
    ),
    "torch-device": DiagnosticExample(
        "void run(at::Tensor x) {\n  x.cuda();\n}\n", "void run(at::Tensor x, at::Device d) {\n  x.to(d);\n}\n", "a.cpp"
    ),
    "device-name": DiagnosticExample(
        '#include <cuda_runtime.h>\nvoid run() {\n  torch::jit::load("m.pt");\n  f(at::kCUDA);\n}\n', file="a.cpp"
    ),
    "built-name": DiagnosticExample(
        "#define CALL(name) cuda##name()\nvoid run() {\n  cudaMalloc(&p, 4);\n  CALL(Malloc);\n}\n",
        "void run() {\n  cudaMalloc(&p, 4);\n}\n",
    ),
    "string": DiagnosticExample(
        'void run() {\n  at::Device d("cuda:0");\n}\n', "void run() {\n  at::Device d(at::kCUDA);\n}\n", "a.cpp"
    ),
    "unclosed": DiagnosticExample(
        "void run() {\n  cudaMalloc(&p, 4);\n}\n/* never closed\n",
        "void run() {\n  cudaMalloc(&p, 4);\n}\n/* closed */\n",
    ),
    "build-extension": DiagnosticExample(
        _SETUP + "make = globals()['CUDA' + kind]\nsetup(name='x')\n", file="setup.py"
    ),
    "build-unread": DiagnosticExample("add_library(x a.cu\n", "add_library(x a.cu)\n", "CMakeLists.txt"),
    "build-flag": DiagnosticExample(
        _SETUP + _NAMED + ",\n                   extra_compile_args={'nvcc': ['--use_fast_math']})])\n", file="setup.py"
    ),
    "build-macro": DiagnosticExample(
        _SETUP + _NAMED + ",\n                   define_macros=[('OTHER_CUDA', None)])])\n", file="setup.py"
    ),
    "build-condition": DiagnosticExample(
        "import torch\n" + _SETUP + _NAMED + ")])\nif torch.version.cuda:\n    pass\n", file="setup.py"
    ),
    "build-jit": DiagnosticExample(
        "from torch.utils.cpp_extension import load_inline\n"
        "module = load_inline('m', cpp_sources=[C], cuda_sources=[K])\n",
        file="setup.py",
    ),
    "build-requirement": DiagnosticExample(
        '[build-system]\nrequires = ["setuptools", "torch"]\n',
        '[build-system]\nrequires = ["setuptools"]\n',
        "pyproject.toml",
    ),
    "build-cmake": DiagnosticExample(
        "find_package(CUDAToolkit REQUIRED)\ntarget_link_libraries(x CUDA::cupti)\n", file="CMakeLists.txt"
    ),
    "build-meson": DiagnosticExample("project('x')\nadd_languages('cuda')\n", "project('x')\n", "meson.build"),
    "build-bazel": DiagnosticExample(
        'cuda_library(name = "x", srcs = ["a.cu"])\n', 'cc_library(name = "x", srcs = ["a.cc"])\n', "BUILD.bazel"
    ),
}
"""By kind."""
