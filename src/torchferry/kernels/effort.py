"""How much of a port is done by renaming, and how much by people: by class of API, in percent, per file and whole.

A place is a token that the port renames, or one of its review list. It is `renamed` where nothing is left to do,
`to check` where a person has to compare, `by hand` where the code cannot be right before somebody has written it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.account import UNKNOWN
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.review import ReviewItem, kinds
from torchferry.kernels.tokens import decode
from torchferry.kernels.words import LIBRARIES


class ApiClass(str, Enum):
    """What a place belongs to."""

    RUNTIME = "runtime"
    """CUDA's runtime and driver."""

    LIBRARIES = "libraries"
    TORCH = "torch"
    """The CUDA side of libtorch."""

    DEVICE = "device"
    """Code for the device, and how it is started."""

    PTX = "ptx"
    HEADERS = "headers"
    VERSIONS = "versions"
    """Code that tests the version of CUDA or an architecture of NVIDIA's."""

    BUILD = "build"
    """Build files and tests."""

    PROJECT = "project"
    """Names of the project's own, and files that were not read as code."""


def class_titles() -> dict[ApiClass, Message]:
    """Return what the classes are called, in the order of the table."""
    return {
        ApiClass.RUNTIME: say("runtime and driver API"),
        ApiClass.LIBRARIES: say("CUDA libraries"),
        ApiClass.TORCH: say("libtorch's CUDA side"),
        ApiClass.DEVICE: say("device code and launches"),
        ApiClass.PTX: say("PTX"),
        ApiClass.HEADERS: say("headers"),
        ApiClass.VERSIONS: say("versions and architectures"),
        ApiClass.BUILD: say("build files and tests"),
        ApiClass.PROJECT: say("the project's own names and files"),
    }


_DEVICE_KINDS = (
    *(
        "tensor-core",
        "texture",
        "shared-memory-limit",
        "kernel-rewrite",
        "dynamic-parallelism",
        "cluster",
        "async-copy",
    ),
    *("integer-dot", "cache-hint", "device-clock", "launch-bounds", "kernel-parameter", "device-function", "warp-size"),
    *("warp-intrinsic", "cooperative-groups", "shared-memory", "atomic", "float64", "device-runtime"),
)
_BY_KIND = {
    **dict.fromkeys(_DEVICE_KINDS, ApiClass.DEVICE),
    **dict.fromkeys(("inline-assembly", "ptx-kernel"), ApiClass.PTX),
    **dict.fromkeys(("version-guard", "capability"), ApiClass.VERSIONS),
    **dict.fromkeys(("removed-torch", "dispatch", "torch-device", "device-name"), ApiClass.TORCH),
    **dict.fromkeys(("host-call", "stream-or-graph", "managed-memory"), ApiClass.RUNTIME),
    "library-call": ApiClass.LIBRARIES,
    "header": ApiClass.HEADERS,
    "test-device": ApiClass.BUILD,
    **dict.fromkeys(
        ("built-name", "string", "other-port", "unclosed", "unread", "not-read", "encoding", "unsafe-rule"),
        ApiClass.PROJECT,
    ),
}
"""The class of a kind of review item; those of `_BY_NAME` are told by the name that the item is about."""

_BY_NAME = (UNKNOWN, "no-counterpart")


class PlaceCounts(NamedTuple):
    """How many places need what."""

    renamed: int = 0
    to_check: int = 0
    by_hand: int = 0

    @property
    def all(self) -> int:
        """All of them."""
        return sum(self)

    def plus(self, other: PlaceCounts) -> PlaceCounts:
        """Return the sum of two."""
        return PlaceCounts(*(mine + its for mine, its in zip(self, other, strict=True)))

    def percent(self) -> tuple[float, float, float]:
        """Return the shares in percent, with one digit; three times 0 where there is no place."""
        whole = self.all or 1
        shares = [round(100 * part / whole, 1) for part in self]
        return shares[0], shares[1], shares[2]


@dataclass(frozen=True)
class PortEffort:
    """What a port leaves to people.

    Attributes:
        whole: Of the tree.
        classes: By class; those without a place are missing.
        files: By file and class, in order of path.
        unread: Files and folders that could not be read, and are in none of the numbers.
    """

    whole: PlaceCounts
    classes: dict[ApiClass, PlaceCounts]
    files: dict[str, dict[ApiClass, PlaceCounts]]
    unread: tuple[str, ...] = field(default=())

    def of_file(self, path: str) -> PlaceCounts:
        """Return the places of one file, of all classes."""
        return _sum(self.files[path].values())


def effort_of(ported: PortedTree) -> PortEffort:
    """Return what a port leaves to people."""
    by_file: dict[str, list[ReviewItem]] = {}
    for item in ported.items:
        by_file.setdefault(item.path, []).append(item)
    before = {file.path: file.before for file in ported.files}
    files: dict[str, dict[ApiClass, PlaceCounts]] = {}
    for path in sorted(by_file.keys() | ported.edits.keys()):
        text = decode(before.get(path, b""))
        written = [text[edit.start : edit.end] for edit in ported.edits.get(path, ())]
        files[path] = _of_file(written, by_file.get(path, ()))
    classes = {each: _sum(file[each] for file in files.values() if each in file) for each in ApiClass}
    classes = {each: places for each, places in classes.items() if places.all}
    return PortEffort(_sum(classes.values()), classes, files, ported.unread)


def class_of_kind(kind: str) -> ApiClass:
    """Return the class of a kind of place; of the kinds that a name decides, the runtime's."""
    return ApiClass.RUNTIME if kind in _BY_NAME else _BY_KIND.get(kind, ApiClass.BUILD)


def api_class(name: str) -> ApiClass:
    """Return the class of a name of CUDA that is in a file, or of the header in its quotes or brackets."""
    word = name.rpartition("::")[2] or name
    if name[:1] in ('"', "<") and name.strip("<> \t"):
        return ApiClass.HEADERS
    if word.lower().startswith((*LIBRARIES, "cupti")):
        return ApiClass.LIBRARIES
    if name[:1] == "<" or name[:1] == ">" or word.startswith("__"):
        return ApiClass.DEVICE
    if word.startswith(("CU_", "CUDA_", "CUDART_")) or (word[:4] == "cuda" and word[4:5].isupper()):
        return ApiClass.RUNTIME
    if (word[:2] == "cu" and word[2:3].isupper()) or (word[:2] == "CU" and word[2:3].islower()):
        return ApiClass.RUNTIME
    return ApiClass.TORCH


def _of_file(written: Iterable[str], items: Iterable[ReviewItem]) -> dict[ApiClass, PlaceCounts]:
    """Return the places of a file by class.

    An item about a name that is renamed says what the renamed places still need; it is no place more.
    """
    explained = kinds()
    needs: dict[str, bool] = {}  # by name, whether somebody has to write it
    listed: list[tuple[ReviewItem, str, int]] = []
    for item in items:
        name, uses = _about(item.message)
        blocks = explained[item.kind].blocks
        listed.append((item, name, uses))
        if name:
            needs[name] = needs.get(name, False) or blocks
    classes: dict[ApiClass, PlaceCounts] = {}

    def add(which: ApiClass, places: PlaceCounts) -> None:
        classes[which] = classes.get(which, PlaceCounts()).plus(places)

    renamed: set[str] = set()
    for name in written:
        renamed.add(name)
        needed = needs.get(name)
        add(api_class(name), PlaceCounts(1) if needed is None else PlaceCounts(0, int(not needed), int(needed)))
    for item, name, uses in listed:
        if name in renamed:
            continue
        which = _BY_KIND.get(item.kind, ApiClass.BUILD)
        if item.kind in _BY_NAME:
            which = api_class(name)
        blocks = explained[item.kind].blocks
        add(which, PlaceCounts(0, 0 if blocks else uses, uses if blocks else 0))
    return classes


def _about(message: Message) -> tuple[str, int]:
    """Return the name that an item is about, empty for none, and how many places it represents."""
    values: Mapping[str, object] = dict(message.values)
    inner = values.get("message")
    if isinstance(inner, Message):
        return _about(inner)  # with a remark behind it
    name, count = values.get("name"), values.get("count")
    uses = int(count) if isinstance(count, str) and count.isdecimal() else 1
    return name if isinstance(name, str) else "", max(1, uses)


def _sum(each: Iterable[PlaceCounts]) -> PlaceCounts:
    total = PlaceCounts()
    for places in each:
        total = total.plus(places)
    return total
