"""Write `vendors/musa/kernel_names.toml` from the mapping that torch_musa ships, or check that it says the same.

    python tools/kernel_names.py FOLDER            # torch_musa/utils/mapping of a source tree
    python tools/kernel_names.py FOLDER --check    # exit code 1 unless both agree on every name

The mapping has 24,000 rows, most of which replace a prefix. The table keeps the prefixes: for those of libraries whose
names nobody else uses, for all names that begin so; for the others with the names that the mapping lists, so that a
name of the project that only looks alike is not taken for CUDA's. Rows that are not taken over are listed with the
reason.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

FILES = ("general.json", "dnn-naming.json", "extra.json", "include.json")
TABLE = Path(__file__).parent.parent / "src" / "torchferry" / "vendors" / "musa" / "kernel_names.toml"
SOURCE = "github.com/MooreThreads/torch_musa@8b583b3f2fd0 (2.7.1): torch_musa/utils/mapping"

OPEN = {
    "nppi": "mtppi",
    "npps": "mtpps",
    "Nppi": "Mtppi",
    "CUPTI_DRIVER_TRACE_CBID_cu": "MUPTI_DRIVER_TRACE_CBID_mu",
    "CUPTI_RUNTIME_TRACE_CBID_cuda": "MUPTI_RUNTIME_TRACE_CBID_musa",
    "CUPTI_CBID_NVTX_nvtx": "MUPTI_CBID_MTTX_mttx",
    "CUPTI_": "MUPTI_",
    "CUpti_": "MUpti_",
    "cupti": "mupti",
    "PFN_cu": "PFN_mu",
}
"""Prefixes that are replaced in every name that begins so."""

LISTED = {
    "cudaError": "musaError",
    "cuda": "musa",
    "cudnn": "mudnn",
    "cublas": "mublas",
    "cusparse": "musparse",
    "cusolver": "musolver",
    "curand": "murand",
    "cufft": "mufft",
    "cu": "mu",
    "CUDNN_": "MUDNN_",
    "CUBLAS": "MUBLAS",
    "CUSPARSE": "MUSPARSE",
    "CUSOLVER": "MUSOLVER",
    "CURAND": "MURAND",
    "CUFFT": "MUFFT",
    "CUDA": "MUSA",
    "CU_": "MU_",
    "CU": "MU",
    "NPP": "MTPP",
    "__nv_": "__mt_",
    "__CUDA": "__MUSA",
    "__cuda": "__musa",
    "_CUDA": "_MUSA",
}
"""Prefixes that are replaced in the names that are listed."""

REFUSED = {
    "a word that other code has too": (
        *("cu", "cubin", "cubinCrc", "cubinOut", "cubinSize", "fatCubin", "fatCubinHandle", "funcComputeCubinCrc"),
        *("pCubin", "nvlinkVersion", "nvswitchConnected", "physicalNvLinkCount", "nCutoffValue", "HGPUNV"),
        *("nvcuda", "nvstd", "cupti"),
    ),
    "its value is a version, and the target counts otherwise": (
        *("CUDA_VERSION", "CUDART_VERSION", "__CUDACC_VER_MAJOR__", "__CUDACC_VER_MINOR__", "__CUDACC_VER_BUILD__"),
        *("__CUDACC_VER__", "__CUDA_API_VERSION", "__CUDART_API_VERSION", "__CUDA_API_VER_MAJOR__"),
        *("__CUDA_API_VER_MINOR__", "__CUDA_ARCH_LIST__", "__CUDA_ARCH__"),
    ),
}
"""Rows that are not taken over, by the reason; what stands there is reported instead."""

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def mapping(folder: Path) -> dict[str, str]:
    """Return the rows of all files that map one identifier to another."""
    rows: dict[str, str] = {}
    for name in FILES:
        rows |= json.loads((folder / name).read_text(encoding="utf-8"))
    refused = {name for names in REFUSED.values() for name in names}
    return {name: use for name, use in rows.items() if _NAME.match(name) and name not in refused}


def table(rows: dict[str, str]) -> str:
    """Return the text of the table."""
    listed: dict[str, list[str]] = {prefix: [] for prefix in LISTED}
    single: list[tuple[str, str]] = []
    for name, use in sorted(rows.items()):
        opened = _longest(name, OPEN)
        if opened and use == OPEN[opened] + name[len(opened) :]:
            continue
        prefix = _longest(name, LISTED)
        if not opened and prefix and use == LISTED[prefix] + name[len(prefix) :] and name != prefix:
            listed[prefix].append(name[len(prefix) :])
        else:
            single.append((name, use))
    lines = [
        "# Names of CUDA and of its libraries, and what Moore Threads calls them. Written by tools/kernel_names.py.",
        "# `all` says that every name with the prefix is renamed; else those of `names`, which stand without it.",
        "",
        "[sources]",
        f'MAP = "{SOURCE}"',
    ]
    for prefix, use in OPEN.items():
        lines += ["", "[[family]]", f'prefix = "{prefix}"', f'use = "{use}"', "all = true", 'source = "MAP"']
    for prefix, rests in listed.items():
        if rests:
            names = "\n".join(textwrap.wrap(" ".join(rests), 118, break_long_words=False, break_on_hyphens=False))
            lines += ["", "[[family]]", f'prefix = "{prefix}"', f'use = "{LISTED[prefix]}"', 'source = "MAP"']
            lines += [f'names = """\n{names}"""']
    pairs = "\n".join(f"{name} {use}" for name, use in single)
    lines += ["", "[[pairs]]", 'source = "MAP"', f'names = """\n{pairs}"""']
    for reason, refused_names in REFUSED.items():
        quoted = ", ".join(f'"{name}"' for name in refused_names)
        refused = textwrap.fill(quoted, 116, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
        lines += ["", "[[refused]]", f'reason = "{reason}"', f"names = [\n{refused},\n]", 'source = "MAP"']
    return "\n".join(lines) + "\n"


def _longest(name: str, prefixes: dict[str, str]) -> str:
    return max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default="")


def differences(rows: dict[str, str]) -> list[str]:
    """Return the names on which the table and the mapping disagree, with what each says."""
    from torchferry.backends import registry
    from torchferry.backends.kernel_table import kernel_table

    known = kernel_table(registry.load("musa"))
    assert known is not None
    wrong = [f"{name}: {known.use_of(name)}, not {use}" for name, use in rows.items() if known.use_of(name) != use]
    more = sorted(known.listed_names() - rows.keys() - known.own_names)
    return [*wrong, *(f"{name}: not in the mapping" for name in more)]


def main() -> int:
    """Write the table, or compare it."""
    rows = mapping(Path(sys.argv[1]))
    if "--check" not in sys.argv:
        TABLE.write_text(table(rows), encoding="utf-8")
    wrong = differences(rows)
    print("\n".join(wrong[:40]))
    print(f"{len(rows)} names compared, {len(wrong)} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
