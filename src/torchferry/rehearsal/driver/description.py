"""What a vendor's folder says of the driver that its plugin needs: `driver/driver.toml`, with C files beside it.

The file has four tables::

    [driver]
    libraries = ["libxrt.so"]        # what the plugin links or opens: each is made under this name
    files = ["xrt.c"]                # C files of this folder: the functions that do something
    header = "xrt.h"                 # the one of them that declares the next
    refuse = "xrt_refuse"            # int xrt_refuse(const char* name): answers for what is not simulated
    maker = "Xenon"                  # who ships the plugin, in the first line of a rehearsal; else the target's title
    maker_zh = "氙"
    namespace = "xpu"                # of the plugin's own operators, where it has some
    homes = ["XRT_HOME"]             # variables that name a folder of the vendor's software, which its plugin wants
    folders = ["runtime"]            # what it looks for in there
    library = "libtorch_xrt.so"      # the plugin's own, in which the next functions are looked for
    default_generator = "_Z10GeneratorOfa"
    stream = "_ZNK8XpuStream6streamEv"  # void* (const c10::Stream&), or a method of what is a c10::Stream alone
    beside_cuda_until = "2.9"        # the last torch of which the plugin loads beside a build for CUDA
    queue = { variable = "XRT_QUEUE", off = "0", asks = "_Z10QueueIsOnv", empties = "_Z5Emptyb" }
    source = "WHEEL"

    [operators]                      # of that namespace: names without overload; this table may be left out
    kept = ["get_format"]            # looks at a tensor and computes nothing: stays as the plugin has it
    format_casts = ["format_cast"]   # to the storage format in the second argument; numbers stay in their order
    format_of = "get_format"         # of a tensor, as a number
    with_format = "empty_format"     # makes a tensor: sizes, dtype, layout, device, pin_memory, storage format
    casts = ["dtype_cast"]           # converts its first argument to the dtype in the second
    zeros = { overflow = 8 }         # gives so many zeros
    status_reads = ["overflow"]      # of those: the first number says whether something infinite or no number arose
    status_clears = ["reset"]        # of those: forgets it, and lets it be looked for from then on
    source = "WHEEL"

    [accepted]                       # settings that change nothing here: they succeed; this table may be left out
    names = ["xrtSetTimeout"]
    source = "WHEEL"

    [refused]                        # what exists and is not simulated; this table may be left out
    names = ["xrtLaunchKernel"]
    source = "WHEEL"

Where `beside_cuda_until` is not said, a plugin whose metadata asks for `torch==VERSION+cpu` is not loaded beside
another build. `default_generator` serves torch before 2.6, which does not ask every plugin for its generators. `stream`
gives the driver's stream of one of torch's: a plugin that records work into graphs needs it. `queue` is for a plugin
that hands work to a thread of its own: the variable that turns this off, and the function by which the plugin reads
that variable, once and for all. The simulated driver does work at once; a queue only costs time. In a version without
that function the variable stays as it is in `off`, and the function in `empties` waits until the queue is empty. `queue
= "none"` says that the plugin has no such thread; where nothing is said, the plugin is made to wait for the whole
device before each operator.

What is in none of these is looked up by the plugin in vain, and it says so itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_file
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.messages import Bilingual

_FILE = "driver/driver.toml"
_NO_QUEUE = "none"
_KEYS = {
    "driver": frozenset(
        {"libraries", "files", "namespace", "homes", "folders", "library", "default_generator", "queue", "stream"}
        | {"refuse", "header", "maker", "maker_zh", "beside_cuda_until", "source"}
    ),
    "operators": frozenset(
        {
            "kept",
            "format_casts",
            "format_of",
            "with_format",
            "casts",
            "zeros",
            "status_reads",
            "status_clears",
            "source",
        }
    ),
    "accepted": frozenset({"names", "source"}),
    "refused": frozenset({"names", "source"}),
}
_NEEDED = ("libraries", "files", "header", "refuse")
_OPTIONAL = ("operators", "accepted", "refused")


@dataclass(frozen=True)
class Queue:
    """The thread of a plugin's own that does what it is handed.

    Attributes:
        variable: The environment variable that turns it off.
        off: Its value then.
        asks: A function of the plugin's library, without arguments, that reads it and returns 0 when it is off.
        empties: A function of the plugin's library, `void (bool)`, that waits until all is done.
    """

    variable: str
    off: str
    asks: str
    empties: str


@dataclass(frozen=True)
class SimulatedDriver:
    """A driver that can be simulated.

    Attributes:
        backend: Name of the vendor's backend.
        folder: Where the vendor's C files are.
        libraries: Names under which the plugin opens them.
        files: The C files, by name.
        header: The one of them that declares `refuse`.
        refuse: The function that answers for an entry point that is not simulated, given its name.
        maker: Who ships the plugin; None where the target's title says it.
        namespace: Namespace of the plugin's own operators; empty where it has none.
        homes: Environment variables that must name a folder of the vendor's software when the plugin is imported.
        folders: Folders that it looks for in there.
        library: The plugin's own library, which has the functions that are named here.
        default_generator: Its function, `const at::Generator& (int8_t)`, for the generator of a device.
        stream: Its function, `void* (const c10::Stream&)`, for the driver's stream of one of torch's.
        beside_cuda_until: The last torch, by its first two numbers, of which the plugin loads beside a build for CUDA;
            empty where nobody knows.
        queue: How the plugin's own queue is turned off; None where it has none.
        kept: Operators that stay as the plugin has them.
        format_casts: Operators that convert their first argument to a storage format.
        format_of: The operator that tells a tensor's.
        with_format: The operator that makes a tensor with one.
        casts: Operators that convert their first argument to a dtype.
        zeros: Operators that give zeros, and how many.
        status_reads: Those of them that tell of an overflow.
        status_clears: Those of them that forget it.
        accepted: Entry points that succeed and do nothing.
        refused: Entry points that are refused by their name.
    """

    backend: str
    folder: Path
    libraries: tuple[str, ...]
    files: tuple[str, ...]
    header: str
    refuse: str
    maker: Bilingual | None
    namespace: str
    homes: tuple[str, ...]
    folders: tuple[str, ...]
    library: str
    default_generator: str
    stream: str
    beside_cuda_until: str
    queue: Queue | Unknown | None
    kept: tuple[str, ...]
    format_casts: tuple[str, ...]
    format_of: str
    with_format: str
    casts: tuple[str, ...]
    zeros: Mapping[str, int]
    status_reads: tuple[str, ...]
    status_clears: tuple[str, ...]
    accepted: tuple[str, ...]
    refused: tuple[str, ...]


def load_driver(backend: type[Backend]) -> SimulatedDriver | None:
    """Return the description of a backend's driver; None where its vendor's folder has none.

    Raises:
        ValueError: the file is wrong.
    """
    path = data_file(backend, _FILE)
    if path is None:
        return None
    data = DataFile(path)
    tables = {name: _table(data, name) for name in _KEYS}
    driver, operators = tables["driver"], tables["operators"]
    absent = [key for key in _NEEDED if not driver.get(key)]
    if absent:
        raise data.wrong(f"[driver]: nothing is said of {', '.join(absent)}")
    description = SimulatedDriver(
        backend.NAME,
        path.parent,
        _names(data, driver, "libraries"),
        _names(data, driver, "files"),
        data.text(driver, "header", "[driver]"),
        data.text(driver, "refuse", "[driver]"),
        _maker(data, driver),
        data.text(driver, "namespace", "[driver]"),
        _names(data, driver, "homes"),
        _names(data, driver, "folders"),
        data.text(driver, "library", "[driver]"),
        data.text(driver, "default_generator", "[driver]"),
        data.text(driver, "stream", "[driver]"),
        data.text(driver, "beside_cuda_until", "[driver]"),
        _queue(data, driver),
        _names(data, operators, "kept"),
        _names(data, operators, "format_casts"),
        data.text(operators, "format_of", "[operators]"),
        data.text(operators, "with_format", "[operators]"),
        _names(data, operators, "casts"),
        {str(name): int(count) for name, count in operators.get("zeros", {}).items()},
        _names(data, operators, "status_reads"),
        _names(data, operators, "status_clears"),
        _names(data, tables["accepted"], "names"),
        _names(data, tables["refused"], "names"),
    )
    twice = set(description.accepted) & set(description.refused)
    if twice:
        raise data.wrong(f"both accepted and refused: {', '.join(sorted(twice))}")
    if description.format_casts and not (description.format_of and description.with_format):
        raise data.wrong("[operators]: `format_casts` needs `format_of` and `with_format`")
    return description


def _table(data: DataFile, name: str) -> dict[str, Any]:
    table = data.document.get(name)
    if table is None and name in _OPTIONAL:
        return {}
    if not isinstance(table, dict):
        raise data.wrong(f"[{name}] is missing")
    data.check_keys(table, _KEYS[name], f"[{name}]")
    data.cited(table, f"[{name}]")
    return table


def _maker(data: DataFile, driver: dict[str, Any]) -> Bilingual | None:
    maker = data.text(driver, "maker", "[driver]")
    return Bilingual(maker, data.text(driver, "maker_zh", "[driver]")) if maker else None


def _queue(data: DataFile, driver: dict[str, Any]) -> Queue | Unknown | None:
    table = driver.get("queue")
    if table is None:
        return UNKNOWN
    if table == _NO_QUEUE:
        return None
    try:
        return Queue(**{key: str(value) for key, value in table.items()})
    except (AttributeError, TypeError) as error:
        raise data.wrong(f"`queue`: {error}") from None


def _names(data: DataFile, table: dict[str, Any], key: str) -> tuple[str, ...]:
    names = table.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise data.wrong(f"`{key}` is {names!r}, not a list of names")
    return tuple(names)
