"""The procedure for a symbol that nothing defines: who should have it, why it is missing, and the next step.

It follows the order of a vendor's manual: the readable name first; the sources of PyTorch, which tell a file that is
not built from a fault of the plugin; then the libraries of the toolkit, linked or not. Before that, what is more
common: a library that is not found or not linked, another version of torch, the other ABI of strings.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.library_owners import LibraryOwner, owner_of_function, owner_of_library
from torchferry.core.errors import TorchferryError
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.doctor.symbols.elf import SharedLibrary, read_library
from torchferry.doctor.symbols.names import qualified_name, readable_names
from torchferry.doctor.symbols.owners import TargetVersions, Versions, of_function, of_library
from torchferry.doctor.symbols.places import (
    Loaded,
    build_files,
    definitions,
    libraries_in,
    loaded_with,
    package_libraries,
)

_NEW_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_OLD_STRING = "Ss"
_TORCH_SPACES = ("at", "c10", "torch", "caffe2")
_CUDA = lazy_regex(
    r"(?:cuda|cublas|cudnn|cusparse|cusolver|curand|cufft|nccl|nvrtc|nvml)[A-Z]\w*\Z|cu[A-Z]\w+\Z|__cuda\w+\Z"
)
_PYTHON = lazy_regex(r"_?Py[A-Z_]\w+\Z")


class SymbolVerdict(NamedTuple):
    """The known facts about one symbol.

    Attributes:
        symbol: As the library has it.
        readable: As people read it.
        kind: A short word for programs, such as `not-linked`.
        owner: The library, file or project that should have it; empty where it is not known.
        cause: Why it is missing.
        advice: The next step.
    """

    symbol: str
    readable: str
    kind: str
    owner: str
    cause: Message
    advice: Message


@dataclass
class SymbolSearch:
    """Where is looked.

    Attributes:
        folders: The loader's folders.
        plugins: Modules of plugins whose libraries are looked through, beside torch's.
        toolkits: Folders of toolkits.
        pytorch: A checkout of PyTorch; None for none.
        sources: Folders with the sources of the library.
        torch_version: Of the installed torch; empty for none.
        versions: Returns what is installed of a target.
    """

    folders: Sequence[str]
    plugins: Sequence[str] = ()
    toolkits: Sequence[Path] = ()
    pytorch: Path | None = None
    sources: Sequence[Path] = ()
    torch_version: str = ""
    versions: Versions = field(default=lambda target: TargetVersions())
    _read: dict[Path, SharedLibrary | None] = field(default_factory=dict)

    def library(self, path: Path) -> SharedLibrary | None:
        """Return a library, read once; None where it cannot be read."""
        if path not in self._read:
            try:
                self._read[path] = read_library(path)
            except TorchferryError:
                self._read[path] = None
        return self._read[path]

    @cached_property
    def torch_libraries(self) -> list[Path]:
        """The libraries of the installed torch."""
        return [*package_libraries("torch")]

    @cached_property
    def others(self) -> list[Path]:
        """Libraries that may define a symbol and are not loaded with the one that is examined."""
        found = [*self.torch_libraries]
        for module in self.plugins:
            found += package_libraries(module)
        for folder in self.toolkits:
            found += libraries_in(folder)
        return list(dict.fromkeys(found))


_MakeVerdict = Callable[[str, str, Message, Message], SymbolVerdict]


def missing_library(name: str, search: SymbolSearch, needed_by: str = "") -> SymbolVerdict:
    """Explain a library that the loader does not find: which package brings it, and what of it is here."""
    owner = owner_of_library(name)
    folders = [*search.folders, *map(str, search.toolkits)]
    cause, advice = of_library(name, needed_by, owner, search.versions, folders)
    return SymbolVerdict(name, name, "library-missing", owner.package.en if owner is not None else "", cause, advice)


class Explanation(NamedTuple):
    """What was found about a library: its verdicts, and what the loader does not find."""

    library: SharedLibrary
    loaded: Loaded
    verdicts: tuple[SymbolVerdict, ...]


def explain_library(library: SharedLibrary, search: SymbolSearch, only: Iterable[str] = ()) -> Explanation:
    """Explain the symbols of a library that nothing defines, or some of them."""
    loaded = loaded_with(library, search.folders)
    defined = library.defined.union(*(each.defined for each in loaded.libraries))
    wanted = list(only) or [name for name in library.undefined if name not in defined]
    return Explanation(library, loaded, explain(wanted, search, library, loaded))


def explain(
    symbols: Sequence[str],
    search: SymbolSearch,
    library: SharedLibrary | None = None,
    loaded: Loaded | None = None,
) -> tuple[SymbolVerdict, ...]:
    """Explain symbols; `library` is where they are undefined, if it is known."""
    readable = readable_names(symbols)
    procedure = _SymbolProcedure(search, library, loaded)
    verdicts = (procedure.verdict(symbol, readable[symbol]) for symbol in dict.fromkeys(symbols))
    return tuple(each for each in verdicts if each is not None)


class _SymbolProcedure:
    def __init__(self, search: SymbolSearch, library: SharedLibrary | None, loaded: Loaded | None) -> None:
        self.search = search
        self.library = library
        self.loaded = loaded

    def verdict(self, symbol: str, readable: str) -> SymbolVerdict | None:
        """Return the first thing that explains a symbol; None where nothing is missing."""

        def found(kind: str, owner: str, cause: Message, advice: Message) -> SymbolVerdict:
            return SymbolVerdict(symbol, readable, kind, owner, cause, advice)

        name = qualified_name(symbol)
        if _PYTHON.match(name):
            if hasattr(ctypes.pythonapi, name):
                return None  # the interpreter defines it, for every library that it loads
            cause = say("the symbol belongs to another version of Python than the running one")
            return found("python", "python", cause, say("build the library with the Python that imports it"))
        linked = {each.path for each in self.loaded.libraries} if self.loaded is not None else set()
        owner = self._definer(symbol, linked)
        if owner is not None:
            cause = say("{library} defines it, but is not loaded with your library", library=owner)
            short = Path(owner).name.removeprefix("lib").partition(".so")[0]
            advice = say("link it: add -l{name} and its folder to the build (`libraries`, `library_dirs`)", name=short)
            return found("not-linked", owner, cause, advice)
        package = owner_of_function(name)
        if self.loaded is not None and self.loaded.missing and (package is None or self._misses(package)):
            missing = ", ".join(name for name, _ in self.loaded.missing)
            cause = say("needed libraries are not found: {names}", names=missing)
            advice = say("install them, or add their folder to LD_LIBRARY_PATH; then run this command again")
            return found("library-missing", missing, cause, advice)
        space = name.partition("::")[0]
        target = self._plugin_space(name)
        if space in _TORCH_SPACES and target is None:
            return self._of_torch(symbol, name, found)
        if target is not None:
            return self._of_plugin(name, target, found)
        in_sources = self._in_sources(name)
        if in_sources is not None:
            return found("source-not-built", *in_sources)
        if _CUDA.match(name):
            return self._of_cuda(name, found)
        if package is not None:
            return found("package", package.package.en, *of_function(package, self.search.versions))
        return found(
            "unknown", "", self._searched(), say("give more folders to search with --sdk, --sources or --pytorch-src")
        )

    def _definer(self, symbol: str, linked: set[str]) -> str | None:
        """Return a library that defines a symbol and is not among those that are loaded."""
        for path in self.search.others:
            library = self.search.library(path)
            if library is None or library.path in linked or (self.library and library.path == self.library.path):
                continue
            if self.library is not None and library.machine != self.library.machine:
                continue
            if symbol in library.defined:
                return library.path
        return None

    def _misses(self, package: LibraryOwner) -> bool:
        """Whether one of the libraries that are not found is of a package."""
        missing = self.loaded.missing if self.loaded is not None else ()
        return any(package.match_library(name) for name, _ in missing)

    def _of_torch(self, symbol: str, name: str, found: _MakeVerdict) -> SymbolVerdict:
        """Explain a symbol of libtorch that no library of the installed torch has."""
        if not self.search.torch_libraries:
            cause = say("it belongs to libtorch, and torch is not installed in this Python")
            return found("torch-missing", "libtorch", cause, say("run torchferry with the Python that has torch"))
        version = self.search.torch_version or "?"
        other = _other_string(symbol)
        if other and self._definer(other, set()) is not None:
            new = _NEW_STRING in symbol
            cause = say(
                "the library was compiled with _GLIBCXX_USE_CXX11_ABI={mine}, and torch {version} with {other}",
                mine=1 if new else 0,
                version=version,
                other=0 if new else 1,
            )
            advice = say(
                "compile it with -D_GLIBCXX_USE_CXX11_ABI={other}; torch.compiled_with_cxx11_abi() returns the "
                "value of torch",
                other=0 if new else 1,
            )
            return found("abi", "libtorch", cause, advice)
        if "cuda" in name.split("::"):
            cause = say(
                "it belongs to torch's CUDA part, which the installed torch {version} does not have", version=version
            )
            return found("cuda-build", "libtorch_cuda", cause, say("port the code: `torchferry port --target NAME`"))
        near = self._same_name(name)
        if near:
            cause = say("torch {version} has this function with other arguments: {near}", version=version, near=near)
        else:
            cause = say("the installed torch {version} does not have it", version=version)
        advice = say("build the library with the torch that it runs with, or install the torch that it was built with")
        return found("torch-version", "libtorch", cause, advice)

    def _same_name(self, name: str) -> str:
        """Return a symbol of torch that has a name, with other arguments."""
        parts = name.split("::")
        piece = "".join(f"{len(part)}{part}" for part in parts)
        for path in self.search.torch_libraries:
            library = self.search.library(path)
            if library is None or not path.name.startswith(("libc10", "libtorch")):
                continue
            near = next(
                (symbol for symbol in library.defined if piece in symbol and qualified_name(symbol) == name), ""
            )
            if near:
                return readable_names([near])[near]
        return ""

    def _plugin_space(self, name: str) -> str | None:
        """Return the target whose namespace a name is in."""
        spaces = _accelerator_spaces()
        return next((spaces[part] for part in name.split("::")[:-1] if part in spaces), None)

    def _of_plugin(self, name: str, target: str, found: _MakeVerdict) -> SymbolVerdict:
        """Explain a symbol of a plugin: a port of PyTorch's own code, as the manual has it."""
        function = name.rpartition("::")[2]
        in_sources = self._in_sources(name)
        if in_sources is not None:
            return found("source-not-built", *in_sources)
        if self.search.pytorch is None:
            cause = say("it is in the namespace of {target}, and no library that was searched has it", target=target)
            advice = say(
                "give a checkout of PyTorch with --pytorch-src: where it defines the function decides who must fix this"
            )
            return found("plugin", target, cause, advice)
        places = definitions(function, self.search.pytorch)
        whole = [place for place in places if place.whole]
        kernel = next((place for place in whole if place.path.endswith((".cu", ".cuh"))), None)
        host = next((place for place in whole if place.path.endswith((".cpp", ".cc"))), None)
        if kernel is not None:
            cause = say("PyTorch defines it in {path}:{line}", path=kernel.path, line=kernel.line)
            advice = say("its ported file is not built: add it to the sources of the plugin's build, and rebuild")
            return found("kernel-not-built", kernel.path, cause, advice)
        if host is not None:
            cause = say("PyTorch defines it in {path}:{line}, as host code", path=host.path, line=host.line)
            return found(
                "plugin-fault", host.path, cause, say("this is a fault of the plugin: report it to its vendor")
            )
        for folder in self.search.toolkits:
            declared = definitions(function, folder)
            if declared:
                place = declared[0]
                cause = say(
                    "a header of the toolkit declares it ({path}:{line}), but no library of the toolkit defines it",
                    path=place.path,
                    line=place.line,
                )
                advice = say(
                    "request it from the vendor; if it is never called, you can define an empty function meanwhile"
                )
                return found("declared-only", place.path, cause, advice)
        cause = say("neither PyTorch's sources nor the toolkit have it")
        advice = say("find where a build for CUDA defines it, and request it for that part of the target's software")
        return found("nowhere", target, cause, advice)

    def _in_sources(self, name: str) -> tuple[str, Message, Message] | None:
        """Return owner, cause and advice where the library's own sources define a function."""
        for folder in self.search.sources:
            whole = [place for place in definitions(name.rpartition("::")[2], folder) if place.whole]
            if not whole:
                continue
            place = whole[0]
            file = Path(place.path).name
            cause = say(
                "{path}:{line} defines it, but the library does not contain it", path=place.path, line=place.line
            )
            builds = list(build_files(folder))
            naming = next((path for path, text in builds if re.search(rf"\b{re.escape(file)}\b", text)), None)
            if naming is not None:
                advice = say(
                    "{build} names the file: look for a condition (#if) around the function, and rebuild from scratch",
                    build=naming,
                )
            elif builds:
                advice = say("{build} does not name the file: add it to the sources, and rebuild", build=builds[0][0])
            else:
                advice = say("add the file to the sources of the build, and rebuild")
            return place.path, cause, advice
        return None

    def _of_cuda(self, name: str, found: _MakeVerdict) -> SymbolVerdict:
        """Explain a function of CUDA, which no target has under this name."""
        counterparts = [
            f"{target}: {use}"
            for target in registry.built_in()
            if (table := kernel_table(registry.load(target))) is not None and (use := table.use_of(name))
        ]
        cause = say("it is a function of CUDA: the library was built from code that is not ported")
        if counterparts:
            listed = "; ".join(counterparts)
            return found("cuda", "CUDA", cause, say("port the code (`torchferry port`): {names}", names=listed))
        return found("cuda", "CUDA", cause, say("port the code: `torchferry port --target NAME`"))

    def _searched(self) -> Message:
        count = len(self.search.others) + (len(self.loaded.libraries) if self.loaded is not None else 0)
        return say("none of the {count} libraries that were searched has it", count=count)


def _other_string(symbol: str) -> str:
    """Return the symbol as the other ABI of strings spells it; empty where it has no string.

    A name with one string argument is covered; more of them are abbreviated in ways that only a compiler knows.
    """
    if _NEW_STRING in symbol:
        return symbol.replace(_NEW_STRING, _OLD_STRING, 1)
    at = symbol.rfind(_OLD_STRING)
    return symbol[:at] + _NEW_STRING + symbol[at + 2 :] if at > 0 else ""


def _accelerator_spaces() -> Mapping[str, str]:
    """Return the targets by the namespace that replaces CUDA's."""
    spaces = {}
    for target in registry.built_in():
        table = kernel_table(registry.load(target))
        row = table.contexts.get(("namespace", "cuda")) if table is not None else None
        if row is not None and row.use:
            spaces[row.use] = target
    return spaces
