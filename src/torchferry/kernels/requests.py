"""One request for each kernel that has to be rewritten: what whoever writes it has to know, as far as the source tells.

What only a run tells, such as shapes, is said to be unknown, with the command that finds it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchferry import __version__
from torchferry.core.json_text import json_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.device_code import Kernel, Launch
from torchferry.kernels.ported_tree import PortedTree, accelerators

_DISPATCH = lazy_regex(
    rb"\b((?:AT|TORCH)_DISPATCH_\w+|(?:float|double|half|__half|__nv_bfloat16|int64_t|int)\b(?=\s*\*))"
)
_NOT_A_NAME = lazy_regex(r"[^a-z0-9]+")
_COMMON = frozenset({"cuda", "kernel", "forward", "backward", "cpu", "gpu", "impl", "csrc", "ops", "op", "common"})
_MOST = 12

TOLERANCES = (("float32", 1.3e-6, 1e-5), ("float16", 1e-3, 1e-5), ("bfloat16", 1.6e-2, 1e-5), ("float64", 1e-7, 1e-7))
"""Relative and absolute, by dtype: those of `torch.testing.assert_close`."""


class KernelRequest(NamedTuple):
    """One kernel that has to be rewritten.

    Attributes:
        kernel: The kernel.
        launches: Where it is started.
        dtypes: What tells its dtypes: macros of dispatch and types of pointers in its file.
        references: Files of the project that look like the same operator on the CPU.
        ports: Files of the project that look like the same operator on the target.
    """

    kernel: Kernel
    launches: tuple[Launch, ...]
    dtypes: tuple[str, ...]
    references: tuple[str, ...]
    ports: tuple[str, ...]


def kernel_requests(ported: PortedTree) -> list[KernelRequest]:
    """Return a request for each kernel of a tree, in order of place."""
    started: dict[str, list[Launch]] = {}
    for launches in ported.launches.values():
        for launch in launches:
            started.setdefault(launch.kernel, []).append(launch)
    paths = [file.path for file in ported.files]
    cpu = [path for path in paths if _is_in(path, ("cpu",))]
    names = (ported.target.name, ported.target.backend.DEVICE_TYPE)
    own = [path for path in paths if _is_in(path, names)]
    data = {file.path: file.before for file in ported.files if file.is_source}
    return [
        KernelRequest(
            kernel,
            tuple(started.get(kernel.name, ())),
            _dtypes(data[kernel.path]),
            tuple(_alike(kernel, cpu)),
            tuple(_alike(kernel, own)),
        )
        for kernel in ported.kernels
    ]


def requests_json(ported: PortedTree, lang: str) -> str:
    """Return the requests as JSON."""
    document = {
        "schema": 1,
        "torchferry": __version__,
        "target": str(ported.target),
        "requests": [_object(request, lang) for request in kernel_requests(ported)],
    }
    return json_text(document)


def requests_markdown(ported: PortedTree, lang: str) -> str:
    """Return the requests as Markdown, one section for each kernel."""
    requests = kernel_requests(ported)
    title = say("Requests for kernels: {root} on {target}", root=ported.root.name, target=ported.target.title)
    lines = [f"# {title.render(lang)}", "", "| # | kernel | place |", "|---|---|---|"]
    lines += [
        f"| {number} | `{_cell(each.kernel.name)}` | {_cell(each.kernel.path)}:{each.kernel.line} |"
        for number, each in enumerate(requests, 1)
    ]
    for number, request in enumerate(requests, 1):
        lines += ["", f"## {number}. `{_cell(request.kernel.name)}`", ""]
        lines += [f"- {name.render(lang)}: {_cell(value)}" for name, value in _rows(request, lang)]
    return "\n".join(lines) + "\n"


def _rows(request: KernelRequest, lang: str) -> Iterator[tuple[Message, str]]:
    """Yield what a request says, with what each is called."""
    unknown = "UNKNOWN"
    kernel = request.kernel
    yield say("place"), f"{kernel.path}:{kernel.line}-{kernel.last_line}"
    yield say("signature"), f"`{kernel.signature}`"
    for launch in request.launches[:_MOST]:
        yield say("launched"), f"{launch.path}:{launch.line} `<<<{launch.geometry}>>>`"
    if not request.launches:
        yield say("launched"), say("UNKNOWN: by a macro or through a variable").render(lang)
    yield say("has"), ", ".join(f"{kind} {count}" for kind, count in kernel.uses) or "-"
    yield say("dtypes"), ", ".join(request.dtypes) or unknown
    yield (
        say("shapes"),
        say("UNKNOWN: `torchferry ops trace -- COMMAND` records them").render(lang),
    )
    yield say("reference on the CPU"), ", ".join(request.references) or unknown
    yield (
        say("tolerance"),
        "; ".join(f"{dtype}: rtol {relative:g}, atol {absolute:g}" for dtype, relative, absolute in TOLERANCES)
        + " (torch.testing.assert_close)",
    )
    yield say("the project's own for the target"), ", ".join(request.ports) or unknown


def _object(request: KernelRequest, lang: str) -> dict[str, Any]:
    kernel = request.kernel
    return {
        "name": kernel.name,
        "path": kernel.path,
        "line": kernel.line,
        "last_line": kernel.last_line,
        "signature": kernel.signature,
        "launches": [
            {"path": launch.path, "line": launch.line, "geometry": launch.geometry} for launch in request.launches
        ],
        "uses": dict(kernel.uses),
        "dtypes": list(request.dtypes),
        "shapes": None,
        "references": list(request.references),
        "tolerances": {dtype: {"rtol": relative, "atol": absolute} for dtype, relative, absolute in TOLERANCES},
        "ports": list(request.ports),
    }


def _dtypes(data: bytes) -> tuple[str, ...]:
    return tuple(sorted({match.decode("ascii", "replace") for match in _DISPATCH.findall(data)}))


def _is_in(path: str, folders: Iterable[str]) -> bool:
    wanted = set(folders)
    return any(part.lower() in wanted for part in path.split("/")[:-1])


def _alike(kernel: Kernel, paths: Iterable[str]) -> Iterator[str]:
    """Yield the files that are called like a kernel or like its file: `cpu/nms.cpp` for `nms_cuda` in `nms_cuda.cu`."""
    wanted = _words(kernel.path.rpartition("/")[2].partition(".")[0]) or _words(kernel.name)
    for path in paths:
        if wanted and wanted == _words(path.rpartition("/")[2].partition(".")[0]) - accelerators():
            yield path


def _words(name: str) -> frozenset[str]:
    return frozenset(_NOT_A_NAME.sub(" ", name.lower()).split()) - _COMMON


def _cell(text: str) -> str:
    """Return a text on one line that breaks no table."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text).replace("|", "\\|")
