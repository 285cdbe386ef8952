"""Which distribution of the CUDA side a requirement names."""

from __future__ import annotations

import re

from torchferry.backends import cuda
from torchferry.source.kinds import Kind

_FAMILIES = (
    (re.compile(r"nvidia-dali-cuda\d+\Z"), "nvidia-dali"),
    (re.compile(r"cupy-cuda\d+x?\Z"), "cupy"),
    (re.compile(r"spconv-cu\d+\Z"), "spconv"),
    (re.compile(r"faiss-gpu-cu\d+\Z"), "faiss-gpu"),
    (re.compile(r"dgl-cu\d+\Z"), "dgl"),
    (re.compile(r"(cudf|cuml|cugraph|cucim)-cu\d+\Z"), r"\1"),
    (re.compile(r"flash-attention\Z"), "flash-attn"),
    (re.compile(r"nvidia-apex\Z"), "apex"),
    (re.compile(r"tensorrt-cu\d+\Z"), "tensorrt"),
    (re.compile(r"fused-ssim.*\Z"), "fused-ssim"),
    (
        re.compile(
            r"cuda-(?:toolkit|runtime|compiler|cudart|nvcc|nvrtc|nvtx|cccl|cupti|libraries|profiler|version|gdb|nsight|nvml"
            r"|nvprof|nvvp|nvprune|nvdisasm|cuobjdump|cuxxfilt|driver|documentation|demo-suite|memcheck|sanitizer|opencl"
            r"|tools|visual-tools|command-line-tools|crt|minimal-build|samples|thrust|gpu-library-advisor)[a-z-]*\Z"
        ),
        "cudatoolkit",
    ),
    (re.compile(r"lib(?:cublas|cufft|curand|cusolver|cusparse|npp|nvjpeg)(?:-dev)?\Z"), "cudatoolkit"),
)
"""Names that carry a CUDA version, and names of repositories, with the distribution that they are."""

LIBRARY_WHEEL = re.compile(
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
