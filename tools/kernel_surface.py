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
_NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s+([\w:\s]*?)\s*\Z")
_NAMED = re.compile(
    r"\b(?:class|struct|enum(?:\s+class|\s+struct)?|union)\s+(?:[A-Z][A-Z0-9_]*\s+|alignas\([^)]*\)\s*)*(\w+)"
)
_USING = re.compile(r"\busing\s+(?:(\w+)\s*=|(?:[\w]+::)*(\w+)\s*\Z)")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\)*$", re.MULTILINE)
_OPERATOR = re.compile(r"[(=;{]")
_MACRO = re.compile(r"(?:C10|AT|TORCH)_\w*(?:MUSA|CUDA)|CUDA_|MUSA_")
_KEYWORDS = frozenset(
    {"alignas", "class", "decltype", "double", "float", "int", "operator", "struct", "BFloat16", "Half"}
)
"""What a specialization of a template ends with, in place of a name."""

_OF_CUDA = re.compile(r"cuda|CUDA|Cuda")
_OF_MUSA = re.compile(r"__mt_|__musa|__MUSA|_mu[A-Z]")


def declared(code: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a header declares, each with its namespace; `code` has no comments and strings."""
    code = _DIRECTIVE.sub("", code)
    yield from _in_scope(code, 0, len(code), "")


def _in_scope(code: str, at: int, end: int, scope: str) -> Iterator[tuple[str, str]]:
    begin = at
    while at < end:
        character = code[at]
        if character == ";":
            yield from _statement(code[begin:at], scope)
            begin = at = at + 1
        elif character == "{":
            closing = _closing(code, at, end)
            head = code[begin:at].strip()
            named = _NAMESPACE.search(head)
            if named or head.endswith('extern "C"') or re.search(r"\bextern\s*\Z", head):
                inner = "::".join(each for each in (scope, *(named[1].split("::") if named else ())) if each.strip())
                yield from _in_scope(code, at + 1, closing, "".join(inner.split()))
                begin = at = closing + 1
                continue
            yield from _statement(head, scope)
            if "enum" in head.split() and "class" not in head.split():
                for each in code[at + 1 : closing].split(","):
                    found = _WORD.search(each)
                    if found:
                        yield scope, found[0]
            at = closing + 1
            begin = at
        else:
            at += 1


def _closing(code: str, at: int, end: int) -> int:
    depth = 0
    for index in range(at, end):
        depth += (code[index] == "{") - (code[index] == "}")
        if not depth:
            return index
    return end


def _statement(text: str, scope: str) -> Iterator[tuple[str, str]]:
    text = " ".join(text.split())
    while text.startswith("template"):
        depth = index = 0
        for index in range(max(text.find("<"), 0), len(text)):
            depth += (text[index] == "<") - (text[index] == ">")
            if not depth:
                break
        text = text[index + 1 :].strip()
    if not text or text.startswith(("static_assert", "friend", "}")):
        return
    using = _USING.search(text)
    if using:
        yield scope, using[1] or using[2]
        return
    named = _NAMED.match(text)
    if named and "(" not in text.partition(named[1])[0]:
        yield scope, named[1]
        return
    words = _WORD.findall(_OPERATOR.split(text)[0])
    if len(words) > 1 or (words and text.startswith("typedef")):
        yield scope, words[-1]
    if text.startswith("typedef"):
        yield scope, _WORD.findall(text)[-1]


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
        for scope, name in declared(text):
            names.setdefault(scope, set()).add(name)
    of_cuda: set[str] = set()
    for folder in PORTED:
        for path in headers(torch / folder, (".h", ".cuh")):
            text = read(path)
            for scope, name in declared(text):
                if "cuda" in scope.split("::"):
                    of_cuda.add(name)
            of_cuda |= {name for name in _DEFINE.findall(text) if _OF_CUDA.search(name)}
            row = table.headers.get(path.relative_to(torch).as_posix())
            if row is not None and row.use.startswith("torch_musa/"):
                continue
            text = ported(text, table)
            macros |= set(_DEFINE.findall(text))
            for scope, name in declared(text):
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
