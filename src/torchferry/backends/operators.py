"""Which operators a plugin registers for its device, and what it does with those that it lacks.

A plugin's list is long and flat, so it has its own file, `ops.toml`, beside the backend's tables::

    version = "2.13.0"                  # plugin version that the list was read from
    torch = "2.13.0"                    # torch version that the plugin version is for
    source = "REG"                      # key of [sources]
    fallback = "warn"                   # one of FALLBACKS
    fallback_switch = "VENDOR_NO_CPU"   # environment variable that changes it, if there is one,
    fallback_switch_since = "1.1.0"     # the first plugin version that reads it, where not all do; as `since` of a row
    fallback_switch_value = "1"         # the value that does,
    fallback_switched = "error"         # and what the plugin does then
    fallback_operators = "VENDOR_ON_CPU" # variable with a list of operators that the plugin runs on the CPU, if any
    sparse_products = "dense"           # one of PRODUCTS: how sparse tensors are multiplied
    casts_double = true                 # a cast on the device to float64 gives float32
    fallback_ignored = "VENDOR_MODE"    # variables that circulate for this, and that nothing is known to read

    [sources]
    REG = "dispatcher registrations of the wheel"

    [operators]                         # absent where nobody knows the list, and where `registrations.toml` has it
    registered = ["add.Tensor", ...]    # dispatcher names without `aten::`
    autograd = ["softmax.int", ...]     # those registered for autograd on the device
    sparse = ["add.Tensor", ...]        # for sparse COO tensors; [] where there are none
    sparse_compressed = []              # for CSR, CSC, BSR and BSC
    nested = []                         # for nested tensors of strided layout

    [[forced_fallback]]                 # registered, and yet run on the CPU
    card = "X1"
    names = ["sinc.out"]
    when = "..."                        # only under this condition
    source = "REG"

    [[note]]                            # what else a user should know of an operator or a torch function
    names = ["torch.topk"]
    note = "..."
    note_zh = "..."
    source = "REG"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DATA, DataFile, data_file
from torchferry.backends.registrations import registrations
from torchferry.backends.tables import reached
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core import toml
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Bilingual

FALLBACKS = ("error", "warn", "silent", "unknown")
"""What a plugin does with an operator it lacks: raise, run it on the CPU with a warning or without a word."""

PRODUCTS = ("", "dense")
"""How a plugin multiplies sparse COO tensors element by element: as PyTorch does, or as dense tensors whose product is
made sparse again, which has fewer elements where some are zero."""

_NEW = DATA / "cuda" / "new_operators.toml"
_MUST_HAVE = DATA / "cuda" / "must_have_kernels.toml"

LAYOUTS = ("sparse", "sparse_compressed", "nested")
"""Kinds of tensors that are not dense."""

NAME = lazy_regex(r"[A-Za-z_]\w*(?:\.\w+)?")
"""An operator's name with its overload, as the dispatcher spells it without `aten::`."""


@dataclass(frozen=True)
class OperatorTable:
    """What one plugin version registers.

    Attributes:
        version: Plugin version that the list was read from; empty when there is no list.
        torch: torch version that this plugin version is for. Operators newer than it are in no list.
        source: Where the facts come from, in full.
        fallback: One of `FALLBACKS`.
        fallback_switch: Environment variable that changes the fallback; empty when none is known.
        fallback_switch_since: First plugin version that reads it, or several, as those of a row; empty for all.
        fallback_switch_value: The value of it that does.
        fallback_switched: What the plugin does then, one of `FALLBACKS`.
        fallback_operators: Environment variable with names, separated by commas, that the plugin runs on the CPU.
        sparse_products: One of `PRODUCTS`.
        casts_double: Whether a cast on the device to float64 gives float32.
        fallback_ignored: Variables that guides name for the fallback, and that nothing is known to read.
        registered: Names registered for the device, the plugin's own among them; UNKNOWN without a list.
        autograd: Names registered for autograd on the device.
        sparse: Names registered for sparse COO tensors. Without a list for such tensors, what the plugin registers
            for them is UNKNOWN; where it is known, what is not in it raises: no plugin has a fallback for them.
        sparse_compressed: Names registered for CSR and its relatives.
        nested: Names registered for nested tensors of strided layout.
        forced_fallback: By card (as in `cards.toml`), the names that run on the CPU although they are
            registered, each with the condition under which they do; an empty condition means always.
        notes: Limits of single operators or torch functions.
    """

    version: str = ""
    torch: str = ""
    source: str = ""
    fallback: str = "unknown"
    fallback_switch: str = ""
    fallback_switch_since: str = ""
    fallback_switch_value: str = ""
    fallback_switched: str = "unknown"
    fallback_operators: str = ""
    fallback_ignored: tuple[str, ...] = ()
    sparse_products: str = ""
    casts_double: bool = False
    registered: frozenset[str] | Unknown = UNKNOWN
    autograd: frozenset[str] | Unknown = UNKNOWN
    sparse: frozenset[str] | Unknown = UNKNOWN
    sparse_compressed: frozenset[str] | Unknown = UNKNOWN
    nested: frozenset[str] | Unknown = UNKNOWN
    forced_fallback: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Mapping[str, Bilingual] = field(default_factory=dict)

    @property
    def layouts(self) -> Mapping[str, frozenset[str] | Unknown]:
        """What is registered for tensors that are not dense, by kind."""
        return {name: getattr(self, name) for name in LAYOUTS}

    def switch_for(self, version: str) -> str:
        """Return the variable that changes the fallback of a plugin version; empty where there is none."""
        since = self.fallback_switch_since
        return self.fallback_switch if not since or not version or reached(since, version) else ""

    def forced_on(self, card: str) -> frozenset[str]:
        """Return the registered names that always run on the CPU on `card`."""
        return frozenset(name for name, when in self.forced_fallback.get(card, {}).items() if not when)

    def sometimes_forced_on(self, card: str) -> Mapping[str, str]:
        """Return the registered names that run on the CPU under a condition on `card`, with the condition."""
        return {name: when for name, when in self.forced_fallback.get(card, {}).items() if when}


def load_operators(backend: type[Backend], version: str = "") -> OperatorTable:
    """Return the known facts about a backend's operators; without an `ops.toml`, everything in it is unknown.

    Args:
        backend: The backend.
        version: Plugin version; empty for the newest. Where lists of several versions are known, the table has those
            of the version that was read and says most of it; `OperatorTable.version` is that one.

    Raises:
        ValueError: the file lacks a field, has one it should not have, or cites a source it does not name.
    """
    path = data_file(backend, "ops.toml")
    if path is None:
        return OperatorTable()
    return _of_version(_read(path), backend, version or backend.DEFAULT_VERSION)


def fallback_of(backend: type[Backend]) -> str:
    """Return what a plugin does with an operator that it lacks, one of `FALLBACKS`; no list is read for it."""
    path = data_file(backend, "ops.toml")
    return "unknown" if path is None else _read(path).fallback


def must_have_kernels() -> dict[str, Any]:
    """Return the table of the operators that no kernel of torch serves on every device, as its file describes it."""
    return toml.load_own(_MUST_HAVE)


@lru_cache(maxsize=1)
def kernels_of_cuda() -> frozenset[str]:
    """Return those of these operators that CUDA has a kernel for."""
    table = must_have_kernels()
    return frozenset([*table["cuda"], *table["gpu_core"]])


@lru_cache(maxsize=8)
def newer_than(version: str) -> frozenset[str]:
    """Return the operators, without overload, that came to torch after `version`; none for an unknown one."""
    if not version:
        return frozenset()
    from packaging.version import Version  # imported late, as everywhere in torchferry

    made_for = Version(version)
    return frozenset(
        name for group in toml.load_own(_NEW)["new"] if made_for < Version(group["up_to"]) for name in group["names"]
    )


def _of_version(table: OperatorTable, backend: type[Backend], version: str) -> OperatorTable:
    of_versions = registrations(backend)
    if of_versions is None:
        return table
    read = of_versions.nearest(version)
    key = (backend, read)
    if key not in _tables:
        lists: dict[str, Any] = of_versions.of(read)
        source = "; ".join(filter(None, (of_versions.source, table.source)))
        _tables[key] = replace(table, version=read, torch=of_versions.torch[read], source=source, **lists)
    return _tables[key]


_tables: dict[tuple[type[Backend], str], OperatorTable] = {}


@lru_cache(maxsize=64)
def _read(path: Path) -> OperatorTable:
    file = DataFile(path)
    top = file.document
    file.check_keys(top, _TOP, "top")
    operators = file.table("operators")
    file.check_keys(operators, frozenset({"registered", "autograd", *LAYOUTS}), "[operators]")
    version, torch = file.text(top, "version", "top"), file.text(top, "torch", "top")
    if "registered" in operators and not (version and torch):
        raise file.wrong("a list of operators needs `version` and `torch`: the versions it was made for")
    switch = file.text(top, "fallback_switch", "top")
    if bool(switch) != ("fallback_switch_value" in top and "fallback_switched" in top):
        raise file.wrong("`fallback_switch`, `fallback_switch_value` and `fallback_switched` go together")
    products = file.text(top, "sparse_products", "top")
    if products not in PRODUCTS:
        raise file.wrong(f"`sparse_products` is `{products}`, which is not known")
    return OperatorTable(
        version=version,
        torch=torch,
        source=file.cited(top, "top"),
        fallback=_fallback(file, "fallback"),
        fallback_switch=switch,
        fallback_switch_since=file.text(top, "fallback_switch_since", "top"),
        fallback_switch_value=file.text(top, "fallback_switch_value", "top"),
        fallback_switched=_fallback(file, "fallback_switched") if switch else "unknown",
        fallback_operators=file.text(top, "fallback_operators", "top"),
        fallback_ignored=tuple(file.text(top, "fallback_ignored", "top").split()),
        sparse_products=products,
        casts_double=top.get("casts_double") is True,
        registered=_names(file, operators, "registered"),
        autograd=_names(file, operators, "autograd"),
        **{name: _names(file, operators, name) for name in LAYOUTS},
        forced_fallback=_forced(file),
        notes=_notes(file),
    )


_TOP = frozenset(
    {
        "version",
        "torch",
        "source",
        "fallback",
        "fallback_switch",
        "fallback_switch_since",
        "fallback_switch_value",
        "fallback_switched",
        "fallback_operators",
        "fallback_ignored",
        "sparse_products",
        "casts_double",
        "sources",
        "operators",
        "forced_fallback",
        "note",
    }
)


def _fallback(file: DataFile, key: str) -> str:
    value = file.text(file.document, key, "top")
    if value not in FALLBACKS:
        raise file.wrong(f"`{key}` is `{value}`, none of {', '.join(FALLBACKS)}")
    return value


def _names(file: DataFile, operators: dict[str, Any], key: str) -> frozenset[str] | Unknown:
    if key not in operators:
        return UNKNOWN
    names = file.texts(operators, key, "[operators]")
    _check(file, names, f"[operators] {key}")
    return frozenset(names)


def _check(file: DataFile, names: tuple[str, ...], where: str) -> None:
    for name in names:
        if NAME.fullmatch(name) is None:
            raise file.wrong(f"{where}: `{name}` is not an operator's name such as `add.Tensor`")
    if len(set(names)) != len(names):
        raise file.wrong(f"{where}: a name stands twice")


def _forced(file: DataFile) -> dict[str, dict[str, str]]:
    forced: dict[str, dict[str, str]] = {}
    for entry in file.tables("forced_fallback"):
        where = f"[[forced_fallback]] {entry.get('card', '')}"
        file.check_keys(entry, frozenset({"card", "names", "when", "source"}), where)
        file.cited(entry, where)
        card = file.text(entry, "card", where)
        names = file.texts(entry, "names", where)
        if not card or not names:
            raise file.wrong(f"{where}: `card` and `names` say which operators of which card")
        _check(file, names, where)
        of_card = forced.setdefault(card, {})
        for name in names:
            if name in of_card:
                raise file.wrong(f"{where}: `{name}` stands twice")
            of_card[name] = file.text(entry, "when", where)
    return forced


def _notes(file: DataFile) -> dict[str, Bilingual]:
    notes: dict[str, Bilingual] = {}
    for entry in file.tables("note"):
        names = file.texts(entry, "names", "[[note]]")
        where = f"[[note]] {', '.join(names)}"
        file.check_keys(entry, frozenset({"names", "note", "note_zh", "source"}), where)
        file.cited(entry, where)
        note = Bilingual(file.text(entry, "note", where), file.text(entry, "note_zh", where))
        if not names or not note.en or not note.zh:
            raise file.wrong(f"{where}: `names`, `note` and `note_zh` go together")
        for name in names:
            if name in notes:
                raise file.wrong(f"{where}: `{name}` has a note already")
            notes[name] = note
    return notes
