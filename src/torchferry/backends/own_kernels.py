"""How a kernel of one's own begins in a vendor's kernel language, kept as `own_kernels.toml` in the vendor's folder.

A file::

    [sources]
    EX = "the vendor's examples"

    [kernel]
    suffix = ".acme"                    # of the file that the vendor's compiler builds
    includes = ["acme_runtime.h"]
    qualifiers = "__global__ void"
    pointer = "float*"                  # how the kernel takes the memory of a float32 tensor
    launch = "<<<1, 1, 0, stream>>>"    # between the kernel's name and its arguments
    hints = ["copy to the core's memory first"]
    stream_header = "torch_acme/stream.h"           # both empty where it is not public
    stream = "acme::current_stream().handle()"
    compile = "acmecc -shared -fPIC {kernel} -o {library}"   # where the extension class does not take the file itself
    source = "EX"
"""

from __future__ import annotations

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.core.record import NamedTuple


class OwnKernels(NamedTuple):
    """How a kernel begins; the fields are those of `[kernel]`, see the module."""

    suffix: str
    includes: tuple[str, ...]
    qualifiers: str
    pointer: str
    launch: str
    hints: tuple[str, ...]
    stream_header: str
    stream: str
    compile: str
    source: str


def own_kernels(backend: type[DataOwner]) -> OwnKernels | None:
    """Return how a kernel begins on a backend's cards; None where that is not public.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "own_kernels.toml")
    if path is None:
        return None
    file = DataFile(path)
    kernel = file.table("kernel")
    file.check_keys(kernel, frozenset(OwnKernels._fields), "[kernel]")
    apart = ("includes", "hints", "source")
    texts = {key: file.text(kernel, key, "[kernel]") for key in OwnKernels._fields if key not in apart}
    if not (texts["suffix"].startswith(".") and texts["qualifiers"] and texts["pointer"] and texts["launch"]):
        raise file.wrong("[kernel]: `suffix`, `qualifiers`, `pointer` and `launch` are needed")
    return OwnKernels(
        includes=file.texts(kernel, "includes", "[kernel]"),
        hints=file.texts(kernel, "hints", "[kernel]"),
        source=file.cited(kernel, "[kernel]"),
        **texts,
    )
