"""How kernels for a vendor's libraries are written, in steps.

A backend's `kernel_libraries.toml`::

    [sources]
    HEADER = "acmednn.h of the public SDK"

    [[libraries]]
    name = "acmednn"                    # as `library: acmednn` in a list of operators
    header = "acmednn.h"
    source = "HEADER"
    steps = [
      { text = "check device, dtype and that tensors are defined", calls = ["TORCH_CHECK(...)"] },
      { text = "make the result", calls = ["at::empty(...)"], result = true },
    ]

A step with `result` is left out of a kernel that gets its results: of a structured operator, of the out form, in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torchferry.backends import registry
from torchferry.backends.datafile import DataFile

_LIBRARY_KEYS = frozenset({"name", "header", "steps", "source"})
_STEP_KEYS = frozenset({"text", "calls", "result"})


@dataclass(frozen=True)
class KernelStep:
    """One step of a kernel: what is done, the calls that do it, and whether it makes the result."""

    text: str
    calls: tuple[str, ...] = ()
    is_for_result: bool = False


@dataclass(frozen=True)
class KernelLibrary:
    """A library of kernels of a vendor's.

    Attributes:
        name: As lists of operators call it.
        header: What is included.
        steps: How a kernel that uses it is written.
        source: Where its names are public.
    """

    name: str
    header: str
    steps: tuple[KernelStep, ...]
    source: str


@lru_cache(maxsize=1)
def kernel_libraries() -> dict[str, KernelLibrary]:
    """Return the libraries of all backends by name.

    Raises:
        ValueError: a file is wrong; says which and where.
    """
    libraries: dict[str, KernelLibrary] = {}
    for path in registry.data_files("kernel_libraries.toml"):
        data = DataFile(path)
        for row in data.document.get("libraries", []):
            data.check_keys(row, _LIBRARY_KEYS, "libraries")
            library = data.text(row, "name", "libraries")
            steps = tuple(_step(data, step, library) for step in row.get("steps", []))
            libraries[library] = KernelLibrary(
                library, data.text(row, "header", library), steps, data.cited(row, library)
            )
    return libraries


def _step(data: DataFile, step: dict[str, Any], library: str) -> KernelStep:
    data.check_keys(step, _STEP_KEYS, library)
    calls = step.get("calls", [])
    if not isinstance(calls, list) or not all(isinstance(call, str) and "\n" not in call for call in calls):
        raise data.wrong(f"{library}: calls are texts of one line")
    return KernelStep(data.text(step, "text", library), tuple(calls), step.get("result") is True)
