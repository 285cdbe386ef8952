"""One request for each kernel that has to be rewritten: what whoever writes it has to know, as far as the source tells.

What only a run tells, such as shapes, is said to be unknown, with the command that finds it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torchferry import __version__
from torchferry.backends.operators import load_operators
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.json_text import json_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say, say_in
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.kernels.device_code import Kernel, Launch
from torchferry.kernels.kernel_facts import CalledFunction, KernelFacts
from torchferry.kernels.ported_tree import PortedTree, accelerators

_ON_CPU = lazy_regex(r"(?i)(?:^|[/_])[^/]*_cpu\.|/cpu_[^/]*\Z")
_NOT_A_NAME = lazy_regex(r"[^a-z0-9]+")
_SAYS_NO_OPERATOR = lazy_regex(r"[^a-z0-9]|cuda|kernel|forward|backward|gpu|cpu|impl")
_COMMON = frozenset({"cuda", "kernel", "forward", "backward", "cpu", "gpu", "impl", "csrc", "ops", "op", "common"})
_MOST = 12
_MOST_PLACES = 4
_MOST_OPERATORS = 6
_SHORT = 3
"""Letters of a word that is too short to be taken for the beginning of another."""

TOLERANCES = (("float32", 1.3e-6, 1e-5), ("float16", 1e-3, 1e-5), ("bfloat16", 1.6e-2, 1e-5), ("float64", 1e-7, 1e-7))
"""Relative and absolute, by dtype: those of `torch.testing.assert_close`."""


class KernelRequest(NamedTuple):
    """One kernel that has to be rewritten.

    Attributes:
        kernel: The kernel.
        uses: What its body has that whoever writes it must know: kinds of `review.kinds`, with how many places.
        launches: Where it is started.
        geometry: For each of these, what the names in its geometry represent.
        named: Where else it is named, `path:line`, where no launch is seen.
        called: The functions for the device that it calls.
        shared: What it and these declare as shared memory, with the bytes.
        dtypes: What tells its dtypes: types of its pointers, and the macros that choose its template's.
        references: Files and functions of the project that look like the same operator on the CPU.
        ports: Files of the project that look like the same operator on the target.
        builtins: Operators of the target's plugin that are called alike; None where no list says what it has.
    """

    kernel: Kernel
    uses: tuple[tuple[str, int], ...]
    launches: tuple[Launch, ...]
    geometry: tuple[tuple[str, ...], ...]
    named: tuple[str, ...]
    called: tuple[CalledFunction, ...]
    shared: tuple[Message, ...]
    dtypes: tuple[str, ...]
    references: tuple[str, ...]
    ports: tuple[str, ...]
    builtins: tuple[str, ...] | None


def kernel_requests(ported: PortedTree) -> list[KernelRequest]:
    """Return a request for each kernel of a tree, in order of place."""
    started: dict[str, list[Launch]] = {}
    for launches in ported.launches.values():
        for launch in launches:
            started.setdefault(launch.kernel, []).append(launch)
    paths = [file.path for file in ported.files]
    cpu = [path for path in paths if _is_in(path, ("cpu",)) or _ON_CPU.search(path) is not None]
    names = (ported.target.name, ported.target.backend.DEVICE_TYPE)
    own = [path for path in paths if _is_in(path, names)]
    facts = KernelFacts(ported)
    operators = _operators(ported.target)
    return [
        _request(kernel, tuple(started.get(kernel.name, ())), facts, cpu, own, operators) for kernel in ported.kernels
    ]


def _request(
    kernel: Kernel,
    launches: tuple[Launch, ...],
    facts: KernelFacts,
    cpu: list[str],
    own: list[str],
    operators: list[_Operator] | None,
) -> KernelRequest:
    called = facts.called(kernel)
    functions = list(_functions_alike(kernel, facts.functions_on_cpu))
    named = {place.partition(":")[0] for place in functions}
    references = [*functions, *(path for path in _alike(kernel, cpu) if path not in named)]
    return KernelRequest(
        kernel,
        facts.uses(kernel),
        launches,
        tuple(facts.geometry(launch) for launch in launches),
        () if launches else facts.named(kernel),
        called,
        facts.shared(kernel, called),
        facts.dtypes(kernel, launches),
        tuple(references),
        tuple(_alike(kernel, own)),
        None if operators is None else tuple(_candidates(kernel, operators))[:_MOST_OPERATORS],
    )


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
    places: dict[str, list[str]] = {}  # a kernel that is started for each size is started alike
    for launch, names in zip(request.launches, request.geometry, strict=True):
        meaning = f" ({', '.join(names)})" if names else ""
        places.setdefault(f"`<<<{launch.geometry}>>>`{meaning}", []).append(f"{launch.path}:{launch.line}")
    for geometry, lines in list(places.items())[:_MOST]:
        yield say("launched"), f"{_some(lines)} {geometry}"
    if request.named:
        named = say("UNKNOWN: no launch names it directly; it is mentioned at {places}", places=_some(request.named))
        yield say("launched"), named.render(lang)
    elif not request.launches:
        yield say("launched"), say("no other place in the tree mentions it").render(lang)
    yield say("contains"), _counted(request.uses) or "-"
    for callee in request.called[:_MOST]:
        uses = _counted(callee.uses)
        yield say_in("kernel", "calls"), f"`{callee.name}` {callee.path}:{callee.line}" + (f" ({uses})" if uses else "")
    for message in request.shared[:_MOST]:
        yield say("shared memory"), message.render(lang)
    yield say("dtypes"), ", ".join(request.dtypes) or unknown
    yield (
        say("shapes"),
        say(
            "UNKNOWN: take them from a run on CUDA; `torchferry ops trace` records the operators that are registered "
            "with torch, not the functions of an extension"
        ).render(lang),
    )
    yield say("reference on the CPU"), ", ".join(request.references) or unknown
    yield (
        say("tolerance"),
        "; ".join(f"{dtype}: rtol {relative:g}, atol {absolute:g}" for dtype, relative, absolute in TOLERANCES)
        + " (torch.testing.assert_close)",
    )
    yield say("the project's own implementation for the target"), ", ".join(request.ports) or unknown
    if request.builtins is None:
        builtins = say("UNKNOWN: no list says what the plugin has").render(lang)
    else:
        builtins = ", ".join(request.builtins) or say("none with a similar name").render(lang)
    yield say("operators of the plugin with a similar name"), builtins


def _some(places: Sequence[str]) -> str:
    return ", ".join(places[:_MOST_PLACES]) + (", ..." if len(places) > _MOST_PLACES else "")


def _counted(uses: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in uses)


def _object(request: KernelRequest, lang: str) -> dict[str, Any]:
    kernel = request.kernel
    return {
        "name": kernel.name,
        "path": kernel.path,
        "line": kernel.line,
        "last_line": kernel.last_line,
        "signature": kernel.signature,
        "launches": [
            {"path": launch.path, "line": launch.line, "geometry": launch.geometry, "names": list(names)}
            for launch, names in zip(request.launches, request.geometry, strict=True)
        ],
        "named": list(request.named),
        "uses": dict(request.uses),
        "calls": [{**callee._asdict(), "uses": dict(callee.uses)} for callee in request.called],
        "shared_memory": [message.render(lang) for message in request.shared],
        "dtypes": list(request.dtypes),
        "shapes": None,
        "references": list(request.references),
        "tolerances": {dtype: {"rtol": relative, "atol": absolute} for dtype, relative, absolute in TOLERANCES},
        "ports": list(request.ports),
        "builtins": None if request.builtins is None else list(request.builtins),
    }


def _is_in(path: str, folders: Iterable[str]) -> bool:
    wanted = set(folders)
    return any(part.lower() in wanted for part in path.split("/")[:-1])


def _alike(kernel: Kernel, paths: Iterable[str]) -> Iterator[str]:
    """Yield the files that are called like a kernel or like its file: `cpu/nms.cpp` for `nms_cuda` in `nms_cuda.cu`."""
    wanted = _words(kernel.path.rpartition("/")[2].partition(".")[0]) or _words(kernel.name)
    for path in paths:
        if wanted and wanted == _words(path.rpartition("/")[2].partition(".")[0]) - accelerators():
            yield path


def _functions_alike(kernel: Kernel, functions: Mapping[str, str]) -> Iterator[str]:
    """Yield the functions for the CPU that are called like a kernel, `path:line name`, of its direction."""
    wanted = _words(kernel.name)
    for name, place in functions.items():
        other = "forward" if "backward" in kernel.name.lower() else "backward"
        if wanted and wanted == _words(name) and other not in name.lower():
            yield f"{place} {name}"


class _Operator(NamedTuple):
    """An operator that the plugin has.

    Attributes:
        name: Without overload, and without the `_` of the form that works in place.
        words: Those of its name, without the plugin's own.
        joined: The letters of its name, without the plugin's own word.
        is_own: Whether it is the plugin's own, by its name.
    """

    name: str
    words: frozenset[str]
    joined: str
    is_own: bool


def _operators(target: Target) -> list[_Operator] | None:
    """Return the operators that a target's plugin has; None where no list says it."""
    registered = load_operators(target.backend, target.version).registered
    if isinstance(registered, Unknown):
        return None
    makers = accelerators()
    found = []
    for name in sorted({name.partition(".")[0].rstrip("_") for name in registered}):
        words = _words(name)
        joined = _joined("_".join(word for word in name.split("_") if word not in makers))
        found.append(_Operator(name, words - makers, joined, not makers.isdisjoint(words)))
    return sorted(found, key=lambda operator: len(operator.words))  # those that say little more come first


def _candidates(kernel: Kernel, operators: Iterable[_Operator]) -> Iterator[str]:
    """Yield the operators whose name has all words of the kernel's, or of its file's; of torch's only equal ones."""
    names = kernel.name, kernel.path.rpartition("/")[2].partition(".")[0]
    wanted = {_words(name) for name in names} - {frozenset()}
    joined = {_joined(name) for name in names}
    for operator in operators:
        words = operator.words
        if (
            operator.joined in joined
            or any(words == each for each in wanted)
            or (
                operator.is_own
                and any(_are_in(each, words) or (len(words) > 1 and _are_in(words, each)) for each in wanted)
            )
        ):
            yield operator.name


def _joined(name: str) -> str:
    """Return the letters of a name without what says nothing of the operator: `roialign` of `RoIAlignForward`."""
    return _SAYS_NO_OPERATOR.sub("", name.lower())


def _are_in(some: frozenset[str], words: frozenset[str]) -> bool:
    """Whether each of some words is among others, or begins one of them or begins with it: `deform`, `deformable`."""
    return all(
        each in words
        or any(len(word) > _SHORT < len(each) and (word.startswith(each) or each.startswith(word)) for word in words)
        for each in some
    )


def _words(name: str) -> frozenset[str]:
    return frozenset(_NOT_A_NAME.sub(" ", name.lower()).split()) - _COMMON


def _cell(text: str) -> str:
    """Return a text on one line that breaks no table."""
    return visible(text).replace("|", "\\|")
