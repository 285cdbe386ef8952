"""Which distribution of the CUDA side a requirement names."""

from __future__ import annotations

from torchferry.backends import cuda
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.kinds import Kind

_FAMILIES = (
    (lazy_regex(r"nvidia-dali-cuda\d+\Z"), "nvidia-dali"),
    (lazy_regex(r"cupy-cuda\d+x?\Z"), "cupy"),
    (lazy_regex(r"spconv-cu\d+\Z"), "spconv"),
    (lazy_regex(r"faiss-gpu-cu\d+\Z"), "faiss-gpu"),
    (lazy_regex(r"dgl-cu\d+\Z"), "dgl"),
    (lazy_regex(r"(cudf|cuml|cugraph|cucim)-cu\d+\Z"), r"\1"),
    (lazy_regex(r"flash-attention\Z"), "flash-attn"),
    (lazy_regex(r"nvidia-apex\Z"), "apex"),
    (lazy_regex(r"tensorrt-cu\d+\Z"), "tensorrt"),
    (lazy_regex(r"fused-ssim.*\Z"), "fused-ssim"),
    (
        lazy_regex(
            r"cuda-(?:toolkit|runtime|compiler|cudart|nvcc|nvrtc|nvtx|cccl|cupti|libraries|profiler|version|gdb|nsight|nvml"
            r"|nvprof|nvvp|nvprune|nvdisasm|cuobjdump|cuxxfilt|driver|documentation|demo-suite|memcheck|sanitizer|opencl"
            r"|tools|visual-tools|command-line-tools|crt|minimal-build|samples|thrust|gpu-library-advisor)[a-z-]*\Z"
        ),
        "cudatoolkit",
    ),
    (lazy_regex(r"lib(?:cublas|cufft|curand|cusolver|cusparse|npp|nvjpeg)(?:-dev)?\Z"), "cudatoolkit"),
)
"""Names that carry a CUDA version, and names of repositories, with the distribution that they are."""

LIBRARY_WHEEL = lazy_regex(
    r"nvidia-(?:[a-z0-9-]+-cu\d+|cublas|cuda-[a-z]+|cufft|cufile|curand|cusolver|cusparse|nvjitlink|nvtx)\Z"
)
"""A wheel of CUDA's own libraries, such as `nvidia-cublas-cu12`, which torch's CUDA build needs."""


def known_package(name: str, kind: Kind) -> str | None:
    """Return the distribution of `cuda/packages.toml` that a normalised name in a kind of file means, or None."""
    if name in cuda.packages():
        return name
    if name == "cuda" and kind is Kind.CONDA:
        return "cudatoolkit"  # elsewhere the word is a device more often than a package
    for pattern, replacement in _FAMILIES:
        match = pattern.match(name)
        if match is not None:
            return match.expand(replacement)
    return None
