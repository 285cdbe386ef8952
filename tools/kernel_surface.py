"""Write `vendors/musa/kernel_surface.toml`: the names that torch_musa's C++ has, as its public headers declare them.

    python tools/kernel_surface.py TORCH_MUSA TORCH_INCLUDE KERNELS...

TORCH_MUSA is a source tree of torch_musa; TORCH_INCLUDE the headers of the torch that it is built against, which its
build ports to MUSA by renaming (`tools/cuda_porting/cuda_porting.py`); KERNELS are trees with kernels that are written
for MUSA. Of a header that torch_musa replaces with one of its own, only its own counts.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.backends.datafile import DataFile
from torchferry.backends.kernel_table import KernelTable
from torchferry.kernels.gates.declared_names import declared_names
from torchferry.kernels.tokens import SourceTokens, decode

TABLE = Path(__file__).parent.parent / "src" / "torchferry" / "vendors" / "musa" / "kernel_surface.toml"
SOURCES = {
    "CSRC": "github.com/MooreThreads/torch_musa@8b583b3f2fd0 (2.7.1): headers below torch_musa/csrc",
    "PORTED": "headers of torch 2.7.1 below ATen/cuda, c10/cuda and torch/csrc/cuda, renamed as torch_musa's build "
    "does (tools/cuda_porting/cuda_porting.py); those that torch_musa replaces do not count",
    "KERNELS": "kernels of github.com/MooreThreads/torch_musa@8b583b3f2fd0 and "
    "github.com/MooreThreads/mate@3f58cc3ef034",
}
PORTED = ("ATen/cuda", "c10/cuda", "torch/csrc/cuda")
SCOPES = ("at::musa", "c10::musa", "torch::musa")

_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_MACRO = re.compile(r"(?:C10|AT|TORCH)_\w*(?:MUSA|CUDA)|CUDA_|MUSA_")
_KEYWORDS = frozenset(
    {"alignas", "class", "decltype", "double", "float", "int", "operator", "struct", "BFloat16", "Half"}
)
"""What a specialization of a template ends with, in place of a name."""

_OF_CUDA = re.compile(r"cuda|CUDA|Cuda")
_OF_MUSA = re.compile(r"__mt_|__musa|__MUSA|_mu[A-Z]")


def headers(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of a folder with some suffixes, in order."""
    yield from (path for path in sorted(folder.rglob("*")) if path.suffix in suffixes and path.is_file())


def ported(code: str, table: KernelTable) -> str:
    """Return a header of torch as torch_musa's build renames it."""

    def renamed(match: re.Match[str]) -> str:
        word = match[0]
        return table.use_of(word) or ("musa" if word == "cuda" else word)

    return _WORD.sub(renamed, code)


def read(path: Path) -> str:
    """Return the code of a file, without comments and strings."""
    return SourceTokens(decode(path.read_bytes())).code


def main() -> int:
    """Write the table."""
    musa, torch, *kernels = map(Path, sys.argv[1:])
    table = KernelTable(DataFile(TABLE.with_name("kernels.toml")), DataFile(TABLE.with_name("kernel_names.toml")))
    names: dict[str, set[str]] = {}
    macros: set[str] = set()
    own: dict[str, set[str]] = {}
    for path in headers(musa / "torch_musa" / "csrc", (".h", ".muh")):
        text = read(path)
        macros |= set(_DEFINE.findall(text))
        for scope, name in declared_names(text):
            names.setdefault(scope, set()).add(name)
    of_cuda: set[str] = set()
    for folder in PORTED:
        for path in headers(torch / folder, (".h", ".cuh")):
            text = read(path)
            for scope, name in declared_names(text):
                if "cuda" in scope.split("::"):
                    of_cuda.add(name)
            of_cuda |= {name for name in _DEFINE.findall(text) if _OF_CUDA.search(name)}
            row = table.headers.get(path.relative_to(torch).as_posix())
            if row is not None and row.use.startswith("torch_musa/"):
                continue
            text = ported(text, table)
            macros |= set(_DEFINE.findall(text))
            for scope, name in declared_names(text):
                names.setdefault(scope, set()).add(name)
    for scope, found in names.items():
        if scope.split("::")[:2] in [each.split("::") for each in SCOPES]:
            own.setdefault(scope, set()).update(found - _KEYWORDS)
    everything = set().union(*own.values()) | macros
    pairs = {}
    for name in sorted(of_cuda):
        use = name.replace("CUDA", "MUSA").replace("Cuda", "Musa").replace("cuda", "musa")
        use = use.replace("cublas", "mublas").replace("Cublas", "Mublas") if use not in everything else use
        if use != name and use in everything and name not in everything and not table.use_of(name):
            pairs[name] = use
    words: set[str] = set()
    for kernel_folder in kernels:
        for path in headers(kernel_folder, (".mu", ".muh", ".cuh", ".hpp", ".h")):
            text = read(path)
            if path.suffix in (".mu", ".muh") or "__global__" in text or "__device__" in text:
                words |= {word for word in _WORD.findall(text) if _is_of_devices(word)}
    lines = [
        "# Names that torch_musa's C++ has, as its public headers declare them; tools/kernel_surface.py wrote them.",
        "# The format is in backends/kernel_surface.py.",
        "",
        "[sources]",
        *(f'{key} = "{text}"' for key, text in SOURCES.items()),
    ]
    for scope in sorted(own):
        lines += ["", "[[scope]]", f'name = "{scope}"', 'source = "CSRC PORTED"', _block("names", own[scope])]
    kept = {name for name in macros if _MACRO.match(name) and not re.search(r"_H_?\Z|_MUH_?\Z", name)}
    lines += ["", "[macros]", 'source = "CSRC PORTED"', _block("names", kept)]
    lines += ["", "[words]", 'source = "KERNELS"', _block("names", words)]
    flat = "\n".join(f"{name} {use}" for name, use in pairs.items())
    lines += ["", "[pairs]", 'source = "CSRC PORTED"', f'names = """\n{flat}"""']
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{sum(map(len, own.values()))} names, {len(kept)} macros, {len(words)} words, {len(pairs)} pairs")
    return 0


def _is_of_devices(word: str) -> bool:
    """Whether a word may be of CUDA's device language."""
    if _OF_MUSA.match(word) or _OF_CUDA.search(word):
        return False
    return bool(re.match(r"__[a-z]|atomic[A-Z]|clock(?:64)?\Z", word)) and not word.startswith("__attribute")


def _block(key: str, names: Iterable[str]) -> str:
    text = "\n".join(textwrap.wrap(" ".join(sorted(names)), 118, break_long_words=False, break_on_hyphens=False))
    return f'{key} = """\n{text}"""'


if __name__ == "__main__":
    sys.exit(main())
