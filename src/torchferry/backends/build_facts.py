"""How extensions for a target are built, kept as `build.toml` in the vendor's folder: what represents CUDA's words.

A file names its sources once; every table and row cites them::

    [sources]
    EXT = "the plugin's extension module"

    [build]
    kernels = "port"                    # "port": kernels keep CUDA's syntax; "rewrite": their language is another
    switch = "FORCE_ACME"               # the environment variable that chooses this target in a build script
    language = "Acme C"                 # of kernels that must be rewritten
    extension = "acme.AcmeExtension"    # where it is not the row of torch.utils.cpp_extension.CUDAExtension in api.toml
    builder = "acme.BuildExtension"     # likewise for BuildExtension
    compile_host = "force_acc"          # a flag of C++ sources that are to go through the kernels' compiler
    arch_macro = "ACME_ARCH"            # a macro with the card's generation, and the function that knows it
    arch_module = "torch_acme.testing"
    arch_function = "get_acme_arch"
    cmake_begin = ["find_package(ACME REQUIRED)"]   # what a CMake file needs before it can compile kernels
    source = "EXT"

    [[row]]
    kind = "suffix"                     # one of KINDS
    cuda = ".cu"
    use = ".acme"                       # empty: nothing replaces it
    note = "a remark"
    source = "EXT"
    value = true                        # of a flag: its value may be the next argument
    exact = true                        # of a flag: only where it is alone, as `-Xcompiler` before a host flag
    reported = true                         # of a flag: whoever builds has to know that it is left out

A vendor without the file builds nothing that is publicly known: every field is then empty, and `kernels` is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.backends.target import Target
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

KINDS = (
    "suffix",
    "name",
    "compiler",
    "variable",
    "keyword",
    "library",
    "flag",
    "package",
    "namespace",
    "command",
    "cmake_variable",
    "target",
)
"""What a row maps: endings of files; dotted Python names; keys of compiler arguments; environment variables; keywords
of functions that compile when they run; libraries; compiler flags, which are left out with a value behind `=` or a
blank, and, where the row ends in `-`, `=` or `_`, with whatever goes on so; packages of CMake, namespaces of its
targets, its commands, its variables and its targets."""

_BUILD_KEYS = frozenset(
    {
        "kernels",
        "switch",
        "language",
        "extension",
        "builder",
        "compile_host",
        "arch_macro",
        "arch_module",
        "arch_function",
        "cmake_begin",
        "source",
    }
)
_ROW_KEYS = frozenset({"kind", "cuda", "use", "note", "note_zh", "source", "value", "exact", "reported"})


class BuildRow(NamedTuple):
    """The replacement of one of CUDA's words in build scripts.

    Attributes:
        cuda: CUDA's word.
        use: The target's; empty where nothing replaces it.
        note: A remark; empty when there is none.
        source: Where this is known from, in full.
        value: Of a flag: whether its value may follow it, as its own argument.
        exact: Of a flag: whether it is left out only where it is alone.
        reported: Of a flag: whether a person has to know that it was left out, since results or the build depend on it.
    """

    cuda: str
    use: str
    note: Bilingual
    source: str
    value: bool = False
    exact: bool = False
    reported: bool = False


class BuildFacts(NamedTuple):
    """How extensions for one target are built; the fields are those of `[build]`, see the module."""

    kernels: str = ""
    switch: str = ""
    language: str = ""
    extension: str = ""
    builder: str = ""
    compile_host: str = ""
    arch_macro: str = ""
    arch_module: str = ""
    arch_function: str = ""
    cmake_begin: tuple[str, ...] = ()
    source: str = ""
    rows: Mapping[str, Mapping[str, BuildRow]] = {}

    def uses(self, kind: str) -> dict[str, str]:
        """Return the replacement of CUDA's words of a kind."""
        return {cuda: row.use for cuda, row in self.rows.get(kind, {}).items()}


def build_facts(backend: type[DataOwner]) -> BuildFacts:
    """Return how extensions for a backend's target are built.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "build.toml")
    return BuildFacts() if path is None else _load(path)


def extension_class(target: Target) -> str:
    """Return the name of the class that builds extensions with kernels for a target; empty where none is known."""
    named = build_facts(target.backend).extension or target.api("torch.utils.cpp_extension.CUDAExtension").use
    return named.rpartition(".")[2]


@lru_cache(maxsize=4)
def _load(path: Path) -> BuildFacts:
    file = DataFile(path)
    build = file.table("build")
    file.check_keys(build, _BUILD_KEYS, "[build]")
    kernels = file.text(build, "kernels", "[build]")
    if kernels not in ("port", "rewrite"):
        raise file.wrong("[build]: `kernels` is neither `port` nor `rewrite`")
    rows: dict[str, dict[str, BuildRow]] = {}
    for row in file.tables("row"):
        cuda = file.text(row, "cuda", "[[row]]")
        where = f"[[row]] {cuda}"
        file.check_keys(row, _ROW_KEYS, where)
        kind = file.text(row, "kind", where)
        if kind not in KINDS or not cuda:
            raise file.wrong(f"{where}: `kind` is none of {', '.join(KINDS)}, or `cuda` is empty")
        of_kind = rows.setdefault(kind, {})
        if cuda in of_kind:
            raise file.wrong(f"{where}: a second row of this kind")
        note = Bilingual(file.text(row, "note", where), file.text(row, "note_zh", where))
        marks = {key: row.get(key, False) for key in ("value", "exact", "reported")}
        if not all(isinstance(mark, bool) for mark in marks.values()):
            raise file.wrong(f"{where}: `value`, `exact` and `reported` are true or false")
        of_kind[cuda] = BuildRow(cuda, file.text(row, "use", where), note, file.cited(row, where), **marks)
    texts = {key: file.text(build, key, "[build]") for key in _BUILD_KEYS - {"kernels", "cmake_begin", "source"}}
    return BuildFacts(
        kernels,
        cmake_begin=file.texts(build, "cmake_begin", "[build]"),
        source=file.cited(build, "[build]"),
        rows=rows,
        **texts,
    )
