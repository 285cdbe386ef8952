"""The replacement of CUDA's names in kernels and in the C++ around them (`kernels.toml`, `kernel_names.toml`).

The language comes first: `cuda` where the vendor's compiler takes CUDA's syntax, so that kernels are renamed; else the
name of the vendor's own, in which they are written anew and only the calls on the host are renamed::

    language = "cuda"                      # or "Acme C"
    kernel_suffix = ".acu"                 # of a file with kernels
    source = "ACME"

    [sources]
    ACME = "where"

    [[suffix]]
    name = ".cu"
    use = ".acu"
    source = "ACME"

    [[header]]                             # of an `#include`; `quote` where the target's is in quotes
    name = "c10/cuda/CUDAGuard.h"
    use = "torch_acme/csrc/Guard.h"
    quote = true
    source = "ACME"

    [[folder]]                             # headers below it that have no row of their own
    name = "ATen/cuda/"
    use = "ATen/acme/"
    source = "ACME"

    [[macro]]                              # what the compiler defines
    name = "__CUDACC__"
    use = "__ACME__"
    source = "ACME"

    [[name]]                               # of libtorch, which `kernel_names.toml` does not have
    name = "OptionalCUDAGuard"
    use = "OptionalAcmeGuard"
    source = "ACME"

    [[context]]                            # words that mean CUDA in one place alone; `where` is one of `CONTEXTS`
    where = "namespace"
    name = "cuda"
    use = "acme"
    source = "ACME"

    [[limit]]                              # of a card of one architecture
    architecture = "mp_10"
    cards = ["S3000"]
    shared_memory = 28672                  # bytes of a block
    warp = 128                             # threads that run in step
    source = "ACME"

`kernel_names.toml` has the names of CUDA itself, by prefix, and is written by a tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file
from torchferry.backends.kernel_surface import KernelSurface, surface_of
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

CUDA_SYNTAX = "cuda"
"""The `language` of a vendor whose compiler takes CUDA's."""

CONTEXTS = ("namespace", "key", "device", "method", "thrust", "type")
"""Where a word means CUDA: `::cuda::`; a dispatch key, `DispatchKey::CUDA` or `, CUDA,`; a type of device,
`DeviceType::CUDA`; a method, `.is_cuda()`; a namespace of Thrust, `thrust::cuda::`; `type` before a method that the
type of a tensor does not have, `x.type().is_cuda()`, which its device has."""

_TOP = frozenset(
    {
        *("language", "kernel_suffix", "source", "sources", "note", "note_zh"),
        *("suffix", "header", "folder", "macro", "name", "context", "limit"),
    }
)
_ROW = frozenset({"name", "names", "use", "source", "quote", "note", "note_zh"})


class Renamed(NamedTuple):
    """One name of CUDA's side and the target's.

    Attributes:
        name: CUDA's.
        use: The target's; empty where there is none, which is reported and not renamed.
        source: Where it is stated.
        quote: Whether the target's header is in quotes, whatever CUDA's stands in.
        note: What a person has to look at; None for nothing.
    """

    name: str
    use: str
    source: str
    quote: bool = False
    note: Bilingual | None = None


class Family(NamedTuple):
    """Names that differ from the target's by their prefix.

    Attributes:
        prefix: CUDA's.
        use: The target's.
        rests: The names of the family, without the prefix; None for all that begin so.
        source: Where it is stated.
    """

    prefix: str
    use: str
    rests: frozenset[str] | None
    source: str


class ArchitectureLimit(NamedTuple):
    """What the cards of one architecture allow.

    Attributes:
        architecture: As the compiler calls it.
        cards: Names of cards, as `cards.toml` or the vendor has them.
        shared_memory: Bytes of shared memory of one block; None where it is not known.
        warp: Threads that run in step; None where it is not known.
        source: Where it is stated.
    """

    architecture: str
    cards: tuple[str, ...]
    shared_memory: int | None
    warp: int | None
    source: str


class KernelTable:
    """The tables of one vendor; see the module for what each says.

    Attributes:
        language: `CUDA_SYNTAX`, or the vendor's language for kernels.
        kernel_suffix: The suffix of its files.
        source: Where both are stated.
        note: What is to be known about the language.
        suffixes: By CUDA's suffix, with the dot.
        headers: By CUDA's header.
        folders: By CUDA's folder, which ends in `/`.
        macros: By the name of what CUDA's compiler defines.
        names: By the name: those of libtorch and of CUDA that no family has.
        contexts: By what of `CONTEXTS` and which word: `("namespace", "cuda")`.
        families: Of CUDA's own names, those of the longest prefix first.
        refused: Names that a vendor's map has and that are not renamed, with the reason.
        limits: By architecture.
        surface: The names that the plugin's public headers declare; None where nobody has listed them.
    """

    def __init__(self, rules: DataFile, names: DataFile | None, surface: KernelSurface | None = None) -> None:
        self._file = rules
        rules.check_keys(rules.document, _TOP, "top")
        self.language = rules.text(rules.document, "language", "top")
        if not self.language:
            raise rules.wrong("`language` is empty")
        self.kernel_suffix = rules.text(rules.document, "kernel_suffix", "top")
        self.source = rules.cited(rules.document, "top")
        self.note = _note(rules, rules.document, "top")
        self.suffixes = _rows(rules, "suffix")
        self.headers = _rows(rules, "header")
        self.folders = _rows(rules, "folder")
        self.macros = _rows(rules, "macro")
        self.names = _rows(rules, "name")
        self.contexts = dict(_contexts(rules))
        self.limits = tuple(_limits(rules))
        self.families: tuple[Family, ...] = ()
        self.refused: dict[str, str] = {}
        self._by_start: dict[str, list[Family]] = {}
        self.surface = surface
        if names is not None:
            self._read_names(names)
        if surface is not None:
            for name, use in surface.pairs.items():
                self.names.setdefault(name, Renamed(name, use, "kernel_surface.toml"))

    @property
    def takes_cuda_syntax(self) -> bool:
        """Whether kernels are renamed and stay what they are."""
        return self.language == CUDA_SYNTAX

    def use_of(self, name: str) -> str | None:
        """Return the replacement of an identifier, wherever it stands; None where no row has it."""
        row = self.names.get(name) or self.macros.get(name)
        if row is not None:
            return row.use or None
        if name in self.refused:
            return None
        for family in self._by_start.get(name[:3], ()):
            if name.startswith(family.prefix):
                rest = name[len(family.prefix) :]
                if rest and (family.rests is None or rest in family.rests):
                    return family.use + rest
                if family.rests is None:
                    return None
        return None

    def is_named(self, name: str) -> bool:
        """Whether a row speaks of an identifier, be it to say that nothing replaces it."""
        return name in self.names or name in self.macros or name in self.refused or self.use_of(name) is not None

    @cached_property
    def starts(self) -> frozenset[str]:
        """The first three characters of every name that `use_of` may answer for."""
        single = {name[:3] for table in (self.names, self.macros, self.refused) for name in table}
        return frozenset(single | self._by_start.keys())

    def listed_names(self) -> frozenset[str]:
        """Return all names that are listed, of the families without those that take every name."""
        return frozenset(self._listed())

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names and macros that `kernels.toml` states itself."""
        return frozenset(name for table in (_rows(self._file, "name"), self.macros) for name in table)

    def _listed(self) -> Iterator[str]:
        yield from self.names
        yield from self.macros
        for family in self.families:
            for rest in family.rests or ():
                yield family.prefix + rest

    def _read_names(self, file: DataFile) -> None:
        file.check_keys(file.document, frozenset({"sources", "family", "pairs", "refused"}), "top")
        families = []
        for entry in file.tables("family"):
            where = f"[[family]] {entry.get('prefix', '')}"
            file.check_keys(entry, frozenset({"prefix", "use", "all", "names", "source"}), where)
            prefix, use = file.text(entry, "prefix", where), file.text(entry, "use", where)
            if ("names" in entry) == (entry.get("all") is True) or len(prefix) < 2:
                raise file.wrong(f"{where}: has `names`, or `all = true`, and a prefix of two characters or more")
            rests = frozenset(file.text(entry, "names", where).split()) if "names" in entry else None
            families.append(Family(prefix, use, rests, file.cited(entry, where)))
        self.families = tuple(sorted(families, key=lambda family: -len(family.prefix)))
        for family in self.families:
            if len(family.prefix) >= 3:
                self._by_start.setdefault(family.prefix[:3], []).append(family)
            else:
                for start in {(family.prefix + rest)[:3] for rest in family.rests or ()}:
                    self._by_start.setdefault(start, []).append(family)
        for candidates in self._by_start.values():
            candidates.sort(key=lambda family: -len(family.prefix))
        for entry in file.tables("pairs"):
            source = file.cited(entry, "[[pairs]]")
            words = file.text(entry, "names", "[[pairs]]").split()
            for name, use in zip(words[::2], words[1::2], strict=True):
                self.names.setdefault(name, Renamed(name, use, source))
        for entry in file.tables("refused"):
            reason = file.text(entry, "reason", "[[refused]]")
            self.refused |= dict.fromkeys(file.texts(entry, "names", "[[refused]]"), reason)


def kernel_table(backend: type[Backend]) -> KernelTable | None:
    """Return a vendor's tables about kernels; None where it has none.

    Raises:
        ValueError: one is wrong; says where.
    """
    path = data_file(backend, "kernels.toml")
    return None if path is None else _load(path)


@lru_cache(maxsize=8)
def _load(path: Path) -> KernelTable:
    names, surface = path.with_name("kernel_names.toml"), path.with_name("kernel_surface.toml")
    return KernelTable(
        DataFile(path),
        DataFile(names) if names.is_file() else None,
        surface_of(surface) if surface.is_file() else None,
    )


def _note(file: DataFile, table: dict[str, Any], where: str) -> Bilingual | None:
    note = file.text(table, "note", where)
    return Bilingual(note, file.text(table, "note_zh", where)) if note else None


def _rows(file: DataFile, key: str) -> dict[str, Renamed]:
    rows: dict[str, Renamed] = {}
    for entry in file.tables(key):
        where = f"[[{key}]] {entry.get('name', entry.get('names', ''))}"
        file.check_keys(entry, _ROW, where)
        source, use, note = file.cited(entry, where), file.text(entry, "use", where), _note(file, entry, where)
        names = (file.text(entry, "name", where),) if "name" in entry else file.texts(entry, "names", where)
        for name in names:
            if not name or name in rows:
                raise file.wrong(f"{where}: a row has a name of its own")
            rows[name] = Renamed(name, use, source, entry.get("quote") is True, note)
    return rows


def _contexts(file: DataFile) -> Iterator[tuple[tuple[str, str], Renamed]]:
    for entry in file.tables("context"):
        where = f"[[context]] {entry.get('where', '')} {entry.get('name', '')}"
        file.check_keys(entry, frozenset({"where", "name", "use", "source"}), where)
        place, name = file.text(entry, "where", where), file.text(entry, "name", where)
        if place not in CONTEXTS or not name:
            raise file.wrong(f"{where}: `where` is one of {', '.join(CONTEXTS)}, and there is a `name`")
        yield (place, name), Renamed(name, file.text(entry, "use", where), file.cited(entry, where))


def _limits(file: DataFile) -> Iterator[ArchitectureLimit]:
    for entry in file.tables("limit"):
        where = f"[[limit]] {entry.get('architecture', '')}"
        file.check_keys(entry, frozenset({"architecture", "cards", "shared_memory", "warp", "source"}), where)
        for key in ("shared_memory", "warp"):
            if not (type(entry.get(key, 1)) is int and entry.get(key, 1) > 0):
                raise file.wrong(f"{where}: `{key}` is a number above 0")
        yield ArchitectureLimit(
            file.text(entry, "architecture", where),
            file.texts(entry, "cards", where),
            entry.get("shared_memory"),
            entry.get("warp"),
            file.cited(entry, where),
        )
