"""Words of CUDA's device language: which are its syntax, which belong to every C++ compiler, and which are a hazard.

A word that begins with two underscores and a small letter is CUDA's unless it is one of `OF_THE_COMPILER`, or the
project declares it: compilers reserve such names. Source: the headers of the CUDA 13.0 toolkit, `crt/` above all.
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex

SYNTAX = frozenset(
    {
        *("__global__", "__device__", "__host__", "__shared__", "__constant__", "__forceinline__", "__noinline__"),
        *("__restrict__", "__align__", "__syncthreads", "__inline__", "__tile_static__"),
        *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3"),
    }
)
"""What makes CUDA's syntax: a compiler that takes it has these."""

OF_THE_COMPILER = frozenset(
    {
        *("__func__", "__cplusplus", "__attribute__", "__attribute", "__declspec", "__extension__", "__restrict"),
        *("__inline", "__volatile__", "__volatile", "__asm__", "__asm", "__alignof__", "__alignof", "__typeof__"),
        *("__typeof", "__const", "__const__", "__signed__", "__int128", "__int128_t", "__uint128_t", "__has_include"),
        *("__has_attribute", "__has_cpp_attribute", "__has_feature", "__has_builtin", "__thread", "__label__"),
        *("__cdecl", "__stdcall", "__fastcall", "__vectorcall", "__forceinline", "__pragma", "__int64", "__int32"),
        *("__float128", "__linux__", "__unix__", "__aarch64__", "__arm__", "__i386__", "__clang__", "__unused__"),
        *("__always_inline__", "__noreturn__", "__aligned__", "__packed__", "__format__", "__nothrow__"),
        *("__may_alias__", "__deprecated__", "__visibility__", "__weak__", "__x86_64__", "__powerpc64__", "__amd64__"),
        *(
            "__hidden__",
            "__destructor__",
            "__constructor__",
            "__mips__",
            "__riscv",
            "__sparc__",
            "__apple_build_version__",
        ),
        *(
            "__host",
            "__gnu_inline__",
            "__used__",
            "__cxa_demangle",
            "__cpuid",
            "__cpuidex",
            "__rdtsc",
            "__m128",
            "__m256",
        ),
    }
)
"""Words of compilers for the host, and of GNU's attributes."""

COMPILER_BEGINNINGS = (
    "__builtin_",
    "__cpp_",
    "__is_",
    "__has_",
    "__gnu",
    "__atomic_",
    "__sync_",
    "__sanitizer_",
    "__glibc",
)
"""How further such words begin."""

HAZARDS = {
    **dict.fromkeys(("__launch_bounds__", "__maxnreg__"), "launch-bounds"),
    "__grid_constant__": "kernel-parameter",
    **dict.fromkeys(("__cluster_dims__", "__block_size__", "this_cluster", "cluster_group"), "cluster"),
    **dict.fromkeys(("__managed__", "cudaMallocManaged"), "managed-memory"),
    **dict.fromkeys(("__dp4a", "__dp2a_lo", "__dp2a_hi"), "integer-dot"),
    **dict.fromkeys(("memcpy_async", "make_pipeline", "pipeline_shared_state"), "async-copy"),
    **dict.fromkeys(("this_grid", "grid_group", "this_multi_grid", "multi_grid_group"), "cooperative-groups"),
    **dict.fromkeys(("coalesced_threads", "coalesced_group", "labeled_partition"), "cooperative-groups"),
    **dict.fromkeys(("clock", "clock64"), "device-clock"),
    **dict.fromkeys(("WarpReduce", "WarpScan", "WarpMergeSort", "WarpExchange"), "warp-size"),
}
"""Words whose place a person has to look at, with the kind."""

HAZARD_PATTERNS = (
    (lazy_regex(r"__ld(?:cs|cg|ca|lu|cv)\Z|__st(?:cs|cg|wb|wt)\Z"), "cache-hint"),
    (lazy_regex(r"__pipeline_\w+|__mbarrier_\w+"), "async-copy"),
    (lazy_regex(r"cudaMem(?:Advise|PrefetchAsync|RangeGetAttributes?)\w*\Z"), "managed-memory"),
    (lazy_regex(r"cuda(?:ClusterSchedulingPolicy|LaunchAttributeCluster)\w*|cudaOccupancyMax\w*Cluster\w*"), "cluster"),
    (
        lazy_regex(r"(?:atomic(?:Sub|Min|Max|Exch|Inc|Dec|And|Or|Xor|Add|CAS)(?:_block|_system)?|gpuAtomic[A-Z]\w*)\Z"),
        "atomic",
    ),
)
"""The same by pattern."""

BEGINNINGS = ("__", "atomic", "gpuAtomic", "cudaMem", "cudaCluster", "cudaLaunch", "cudaOccupancy")
"""How the words begin that `HAZARD_PATTERNS` may fit."""


def is_of_devices(word: str) -> bool:
    """Whether a word looks like one of CUDA's device language: a function, or a qualifier."""
    return (
        word[:2] == "__"
        and word[2:3].islower()
        and word not in OF_THE_COMPILER
        and not word.startswith(COMPILER_BEGINNINGS)
    )
