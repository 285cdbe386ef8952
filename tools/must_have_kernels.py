"""Write `must_have_kernels.toml`: the operators that a device has to bring a kernel for, of the installed torch.

python tools/must_have_kernels.py           write the file
python tools/must_have_kernels.py --check   the file is as this program writes it

Which operators have no kernel that serves every device is asked of torch's dispatcher. Which of them CUDA has a kernel
for is read in the list that torch's generator has beside it (`torchgen/packaged`, which needs PyYAML).
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

from torchferry.ops.composition import must_have

PATH = Path(__file__).parent.parent / "src/torchferry/backends/data/cuda/must_have_kernels.toml"

SPECIAL = re.compile(
    "cudnn|miopen|mkldnn"  # other libraries' own
    "|sparse|sspaddmm|cslt"
    "|nested|jagged|padded_dense|transform_bias_rescale_qkv"
    "|quantiz|int4pack|int8pack|mixed_dtypes"
    "|_scaled_|_triton_"
)
"""What is left out of `gpu_core`: kernels of other libraries, and those for sparse, nested and quantised tensors."""

_HEAD = """\
# Operators of aten that have no kernel which serves every device: a plugin brings one, or they do not run there.
# Written by tools/must_have_kernels.py. `cuda` are those that CUDA has a kernel for, `gpu_core` those of them that are
# neither another library's own nor for sparse, nested or quantised tensors.
"""


def listed(key: str, names: list[str]) -> str:
    """Return an entry of the file."""
    text = ", ".join(f'"{name}"' for name in names)
    lines = textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"{key} = [", *(f"    {line}" for line in lines[:-1]), f"    {lines[-1]},", "]"])


def on_cuda(names: list[str]) -> list[str]:
    """Return those that have a dense kernel of CUDA's."""
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed: Any = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    index = parsed.backend_indices[DispatchKey.CUDA]
    having = {str(each.func.name) for each in parsed.native_functions if index.has_kernel(each)}
    return [name for name in names if name in having]


def rendered() -> str:
    """Return the text of the file for the installed torch."""
    names = must_have()
    cuda = on_cuda(names)
    parts = {
        "others": [name for name in names if name not in set(cuda)],
        "cuda": [name for name in cuda if SPECIAL.search(name)],
        "gpu_core": [name for name in cuda if not SPECIAL.search(name)],
    }
    version = json.dumps(str(torch.__version__).partition("+")[0])
    return "\n".join([_HEAD, f"torch = {version}", *(listed(key, part) for key, part in parts.items())]) + "\n"


if __name__ == "__main__":
    text = rendered()
    if "--check" in sys.argv:
        sys.exit(0 if PATH.read_text(encoding="utf-8") == text else f"{PATH} is not as this program writes it")
    PATH.write_text(text, encoding="utf-8")
