"""The side we come from: what CUDA means in torch, and which names, packages and tools belong to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from torchferry.backends.datafile import DATA
from torchferry.backends.tables import normalised
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core import toml
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

DEVICE_TYPE = "cuda"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
COLLECTIVE = "nccl"
NAMESPACE = "torch.cuda"

_LIBRARY = lazy_regex(
    r"(?:lib)?(?P<name>cuda|nvcuda|cudart|cublas(?:Lt)?|cudnn(?:_\w+)?|cufftw?|cufft_\w+|curand|cusolver\w*|cusparse(?:Lt)?|"
    r"nccl|nvrtc(?:-builtins)?|nvJitLink|nvToolsExt|nvtx\w*|nvjpeg|nvinfer(?:_\w+)?|nvidia-\w+|nvml|npp[a-z]+|cupti|"
    r"nvcuvid|nvshmem\w*|cufile|c10_cuda|torch_cuda(?:_\w+)?)"
    r"(?:64)?(?:[-_][\d.]+|-[0-9a-f]{8,})?(?:\.so(?:\.[\d.]+)?|\.dll|\.dylib)?\Z"
)


class CudaGroup(NamedTuple):
    """Names of the CUDA side that belong together.

    Attributes:
        name: The group's name, unique in its table.
        about: What the names are for.
        names: The names, fully qualified where they are Python names.
        measures: Whether they return figures of the device.
    """

    name: str
    about: str
    names: frozenset[str]
    measures: bool = False


PACKAGE_KINDS = (
    "torch",
    "kernels",
    "library",
    "compiler",
    "tool",
    "driver",
    "runtime",
    "array",
    "data",
    "simulation",
    "framework",
    "plain",
    "other",
    "engine",
    "host",
)
"""Why a distribution matters.

torch: torch and its companions; kernels: CUDA kernels and what calls them; library: models or data structures of which
a part is compiled for CUDA; compiler: compiles kernels for the card; tool: drives the NVIDIA driver or toolkit, or
speaks of them; driver: calls the NVIDIA driver's own library; runtime: an inference engine; array: arrays on the card
beside torch; data: reads data on the card; simulation: simulates on the card; framework: chooses the device by itself,
or is told it by words of its own; plain: torch code that follows the device that it is given; other: another framework,
whose programs are not judged, and which programs of torch import as well, to read data or to draw curves; engine:
another framework, which is imported to compute with it and for nothing else; host: does not touch a card.
"""

COMPILED_KINDS = frozenset({"kernels", "library", "compiler"})
"""The kinds of what is compiled for CUDA: where its `torch.cuda.is_available()` is True, it starts its kernels."""

NEEDING_KINDS = COMPILED_KINDS | {"array", "data", "driver", "runtime", "simulation"}
"""The kinds without which a program does not run, where a target has nothing in their place."""

OTHER_FRAMEWORKS = frozenset({"other", "engine"})
"""The kinds of what computes beside torch, whose programs are not judged."""

QUIET_KINDS = frozenset({"torch", "plain", "host"}) | OTHER_FRAMEWORKS
"""The kinds whose import is no finding: nothing has to change, or torchferry does not judge it."""

PLAIN_PATHS = ("torch", "cpu", "none")
"""What a package does with its compiled parts left out.

torch: the same by torch's operators, on any device; cpu: the same on tensors of the CPU alone; none: nothing.
"""


class Package(NamedTuple):
    """A distribution that programs import, and what it has to do with CUDA.

    Attributes:
        name: Normalised distribution name; for what is on no index, the name of its repository or its setup script.
        modules: Modules it installs, dotted where the top-level one is shared with others (`nvidia.dali`).
        kind: One of `PACKAGE_KINDS`.
        names: The names of its modules that need CUDA; None for all of them.
        called: Beginnings of names that can be imported anywhere, and raise where they are called without CUDA.
        error: The exception that they raise.
        imports_without_cuda: Whether its modules can be imported on a machine without CUDA.
        plain_path: One of `PLAIN_PATHS`.
        source: Where these facts come from.
    """

    name: str
    modules: tuple[str, ...]
    kind: str
    names: tuple[str, ...] | None
    called: tuple[str, ...]
    error: str
    imports_without_cuda: bool | Unknown
    plain_path: str | Unknown
    source: str


@lru_cache(maxsize=16)
def _document(table: str) -> dict[str, Any]:
    return toml.load_own(DATA / "cuda" / f"{table}.toml")


@lru_cache(maxsize=8)
def groups(table: str) -> dict[str, CudaGroup]:
    """Return the groups of a CUDA-side table (`api`, `env`, `tools`, `frameworks`, `images`) by name."""
    return {
        entry["name"]: CudaGroup(entry["name"], entry["about"], frozenset(entry["names"]), entry.get("measures", False))
        for entry in _document(table)["group"]
    }


@lru_cache(maxsize=1)
def modules() -> frozenset[str]:
    """Return the names of `torch.cuda` that are modules."""
    return frozenset(_document("api")["modules"])


@lru_cache(maxsize=1)
def questions() -> frozenset[str]:
    """Return the names that check whether there is CUDA, and answer no rather than raise where there is none."""
    return frozenset(_document("api")["questions"])


@lru_cache(maxsize=1)
def idle() -> frozenset[str]:
    """Return the functions that do nothing, and return nothing, where there is no CUDA."""
    return frozenset(_document("api")["idle"])


@lru_cache(maxsize=1)
def _star_imports() -> dict[str, dict[str, str]]:
    document = _document("star_imports")
    names = {module: {name: f"{module}.{name}" for name in listed} for module, listed in document["public"].items()}
    for group in document["passes_on"]:
        for module in group["modules"]:
            names.setdefault(module, {}).update(group["names"])
    return names


def star_names(module: str) -> Mapping[str, str]:
    """Return what `from module import *` binds, with what each name represents; empty where that is not known."""
    return _star_imports().get(module, {})


@lru_cache(maxsize=1)
def packages_passing_on() -> frozenset[str]:
    """Return the packages beside torch that pass on names of others, and are known to: `fastai.vision.all.torch`."""
    return frozenset(module.partition(".")[0] for module in _star_imports()) - {NAMESPACE.partition(".")[0]}


@lru_cache(maxsize=1)
def asks_for_nvidia() -> tuple[str, ...]:
    """Return functions of libraries that check whether the device is a certain card of NVIDIA's."""
    return tuple(_document("api")["asks_for_nvidia"])


@lru_cache(maxsize=1)
def keeps_generators() -> tuple[str, ...]:
    """Return questions for CUDA behind which a library keeps the states of CUDA's random generators."""
    return tuple(_document("api")["keeps_generators"])


@lru_cache(maxsize=1)
def asked_of_libraries() -> frozenset[str]:
    """Return names of libraries that ask for CUDA, by themselves or of torch."""
    return frozenset(_document("api")["asked_of_libraries"])


@lru_cache(maxsize=1)
def packages() -> dict[str, Package]:
    """Return the distributions for which each target has a row in `packages.toml`, by normalised name."""
    return {package.name: package for package in _packages_of("packages")}


@lru_cache(maxsize=1)
def hosts() -> dict[str, Package]:
    """Return distributions that do not touch a card, by normalised name: on every target they are the same."""
    return {package.name: package for package in _packages_of("hosts")}


_IMPORTABLE: dict[str, bool | Unknown] = {"yes": True, "no": False, "": UNKNOWN}


def _packages_of(table: str) -> Iterator[Package]:
    """Yield the packages of a table whose entries are `NAME`, `NAME:` (no module) or `NAME: MODULE...`."""
    document = _document(table)
    sources: dict[str, str] = document["sources"]
    for group in document["group"]:
        importable = _IMPORTABLE[group.get("imports", "")]
        source = "; ".join(sources[key] for key in group["source"].split())
        for entry in group["packages"]:
            name, listed, modules = entry.partition(":")
            yield Package(
                name,
                tuple(modules.split()) if listed else (name.replace("-", "_"),),
                group["kind"],
                tuple(group["names"]) if "names" in group else None,
                tuple(group.get("called", ())),
                group.get("error", ""),
                importable,
                group.get("plain", UNKNOWN),
                source,
            )


@lru_cache(maxsize=1)
def _packages_by_module() -> dict[str, Package]:
    return {
        module: package for table in (hosts(), packages()) for package in table.values() for module in package.modules
    }


def package_of_module(module: str) -> Package | None:
    """Return the distribution that a dotted module, or a name below it, belongs to; None where no table has it.

    The longest module that is known decides: `nvidia.dali.fn` is of nvidia-dali, and `nvidia.cublas` of none. A package
    with `names` needs CUDA for those alone, whatever else of it is imported.
    """
    by_module = _packages_by_module()
    while module:
        package = by_module.get(module)
        if package is not None:
            return package
        module = module.rpartition(".")[0]
    return None


def package_named(name: str) -> Package | None:
    """Return the distribution of a name in any spelling; None where no table has it."""
    spelled = normalised(name)
    return packages().get(spelled) or hosts().get(spelled)


class DefaultDevice(NamedTuple):
    """Callables of another library that use CUDA when their caller names no device.

    Attributes:
        names: Canonical names, or `.method` for a method of any object.
        library: The package that is imported.
        package: The distribution.
        argument: The keyword that names the device.
        position: Its index among the positional arguments; -1 where it has none.
        until: First version that no longer does it; empty for none.
        unless: A keyword that, given as False, switches the use of the device off; may be empty.
        note: What it does and what to do.
    """

    names: tuple[str, ...]
    library: str
    package: str
    argument: str
    position: int
    until: str
    unless: str
    note: Bilingual


@lru_cache(maxsize=1)
def default_devices() -> tuple[DefaultDevice, ...]:
    """Return the callables of other libraries that use CUDA when their caller names no device."""
    return tuple(
        DefaultDevice(
            tuple(entry["names"]),
            entry["library"],
            entry["package"],
            entry["argument"],
            entry["position"],
            entry["until"],
            entry.get("unless", ""),
            Bilingual(entry["note"], entry["note_zh"]),
        )
        for entry in _document("defaults")["callable"]
    )


class DeviceChoice(NamedTuple):
    """Callables of another library that choose between CUDA and the CPU when their caller leaves the device to them.

    Attributes:
        names: Canonical names, or `Class().method` for a method of what the class makes.
        library: The package that is imported.
        package: The distribution.
        argument: The keyword that names the device; empty for none.
        position: Its index among the positional arguments; -1 where it has none.
        values: Values of the argument that leave the choice to the library.
        absent: Whether leaving the argument out does.
        since: First version of which that is so; empty for all.
        row: The row of `frameworks.toml` that speaks of the library's devices; empty where it takes their names.
        excludes: Keywords with which nothing is chosen.
        note: What else there is to know; None for nothing.
    """

    names: tuple[str, ...]
    library: str
    package: str
    argument: str
    position: int
    values: tuple[str | bool, ...]
    absent: bool
    since: str
    row: str
    excludes: tuple[str, ...]
    note: Bilingual | None


@lru_cache(maxsize=1)
def device_choices() -> tuple[DeviceChoice, ...]:
    """Return the callables of other libraries that take CUDA where it is there, and the CPU everywhere else."""
    return tuple(
        DeviceChoice(
            tuple(entry["names"]),
            entry["library"],
            entry["package"],
            entry["argument"],
            entry["position"],
            tuple(entry.get("values", ())),
            entry["absent"],
            entry.get("since", ""),
            entry.get("row", ""),
            tuple(entry.get("excludes", ())),
            Bilingual(entry["note"], entry["note_zh"]) if "note" in entry else None,
        )
        for entry in _document("defaults")["choice"]
    )


class CudaSetting(NamedTuple):
    """A setting by which a program is told to use something that CUDA has.

    Attributes:
        role: Which rule speaks of it.
        keys: Names of the setting, with `_` for `-`.
        values: The texts that ask for it.
        on: Whether every spelling of yes asks for it.
        modules: Modules of which a Python file must import one for its own settings to be meant; none for any file.
        table: The table that says what a target has in its place: `frameworks`, `packages` or `api`.
        row: The name of the row there.
        takes: What the row may name and the setting takes; another value is not written.
    """

    role: str
    keys: frozenset[str]
    values: frozenset[str]
    on: bool
    modules: tuple[str, ...]
    table: str
    row: str
    takes: frozenset[str]


@lru_cache(maxsize=1)
def switches() -> tuple[CudaSetting, ...]:
    """Return the settings by which programs are told to use something that CUDA has."""
    tables = {"row": "frameworks", "package": "packages", "api": "api"}
    return tuple(
        CudaSetting(
            entry["role"],
            frozenset(entry["keys"]),
            frozenset(value for value in entry["values"] if isinstance(value, str)),
            True in entry["values"],
            tuple(entry.get("with", ())),
            *next((table, entry[key]) for key, table in tables.items() if key in entry),
            frozenset(entry.get("takes", ())),
        )
        for entry in _document("settings")["setting"]
    )


class NativePart(NamedTuple):
    """How a part of CUDA is known in C, C++ and CMake.

    Attributes:
        name: What it is called: `cuBLAS`, `CUDA runtime`.
        role: `device` for what computes with CUDA, `torch` for libtorch's CUDA side, `build` for CMake.
        words: Texts of which each use holds one.
        patterns: Regular expressions over a text without its comments.
    """

    name: str
    role: str
    words: tuple[str, ...]
    patterns: tuple[str, ...]


@lru_cache(maxsize=1)
def native() -> tuple[NativePart, ...]:
    """Return the parts of CUDA that C, C++ and CMake files use, what is more special first."""
    return tuple(
        NativePart(group["name"], group["role"], tuple(group["words"]), tuple(group["patterns"]))
        for group in _document("native")["group"]
    )


def library(path: str) -> str:
    """Return the name of a library that comes with CUDA, its toolkit or its driver; empty for any other.

    Args:
        path: Its file, also as a wheel names its copy, or the name that a linker takes: `libcudart.so.12`, `cudart`.
    """
    match = _LIBRARY.match(path.replace("\\", "/").rpartition("/")[2])
    return match["name"] if match is not None else ""


@lru_cache(maxsize=1)
def _group_by_name() -> dict[str, str]:
    return {name: group.name for group in groups("api").values() for name in group.names}


_DEFINED_IN = {
    **{f"{NAMESPACE}.amp.{module}": f"{NAMESPACE}.amp" for module in ("autocast_mode", "common", "grad_scaler")},
    "torch.distributed.distributed_c10d": "torch.distributed",
    "torch._C._distributed_c10d": "torch.distributed",
}
"""Modules in which torch defines what a package offers, with the package."""


def offered_as(name: str) -> str:
    """Return the name by which torch's package offers what one of its own modules defines; other names as they are."""
    for module, package in _DEFINED_IN.items():
        if name.startswith(f"{module}."):
            return package + name[len(module) :]
    return name


@lru_cache(maxsize=4096)
def api_group(name: str) -> str:
    """Return the group of `api.toml` that a canonical torch name belongs to; empty when it does not mean CUDA.

    A name below a known one is in its group (`torch.cuda.Event.record` in that of `torch.cuda.Event`).
    `torch.cuda` itself is in `namespace`; what is below it and is not known is in `unlisted`.
    """
    by_name = _group_by_name()
    part = name
    while part and part != NAMESPACE:
        group = by_name.get(part) or by_name.get(offered_as(part))
        if group is not None and not (part != name and part in modules()):
            return group
        part = part.rpartition(".")[0]
    if part != NAMESPACE:
        return ""
    return "namespace" if name == NAMESPACE else "unlisted"


def is_measured(name: str) -> bool:
    """Whether a name returns a figure of the device, which a torch without CUDA answers with 0."""
    group = groups("api").get(api_group(name))
    return group is not None and group.measures


def changes_nothing(name: str) -> bool:
    """Whether a function returns nothing and changes no result, so that a call of it may be left out."""
    if not name.startswith(f"{NAMESPACE}."):
        return False
    public = name.removeprefix(f"{NAMESPACE}.").removeprefix("memory.")  # where torch defines some of them
    return portable().get(public) == "nothing"


@lru_cache(maxsize=1)
def portable() -> dict[str, str]:
    """Return the names below `torch.cuda` that portable code may use, and what happens where a plugin lacks one.

    That is `nothing`, `untold` (a figure is 0, with a warning), `raises` (when it is used) or `served` (never).
    """
    document = _document("portable")
    return {name: group["without"] for group in document["group"] for name in group["names"]}


@lru_cache(maxsize=1)
def group_makers() -> Mapping[str, int]:
    """Return the functions that make a process group over a backend, with the position of the parameter for it."""
    return {
        entry["name"]: entry["position"]
        for group in _document("parameters")["group"]
        for entry in group["parameters"]
        if entry.get("makes_group", False)
    }


def group_makers_of(module: str) -> Mapping[str, int]:
    """Return those of one module, by their last names."""
    below = f"{module}."
    return {name.removeprefix(below): at for name, at in group_makers().items() if name.startswith(below)}
