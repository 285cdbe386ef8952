"""Kernels of a file, where they are started, and the shared memory that they ask for."""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.review import ReviewItem
from torchferry.kernels.tokens import SourceTokens, last_word

_LONGEST = 20_000
"""Characters of a signature that are read."""

_ARGUMENTS = lazy_regex(r"<[^<>(){};]*>\Z")
"""The arguments of a template, behind its name."""

_BRACE = lazy_regex(r"[{};]")
_BRACES = lazy_regex(r"[{}]")
_SHARED = lazy_regex(r"([\w:\s]*?)\b(\w+)\s*((?:\[[^\]\n]*\]\s*)*)(?=[;=,])")
_SIZES = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t", "uchar"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"), 2),
    **dict.fromkeys(("int", "float", "unsigned", "int32_t", "uint32_t", "uint", "half2", "__half2"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "long", "float2", "int2", "size_t"), 8),
    **dict.fromkeys(("float3", "int3"), 12),
    **dict.fromkeys(("float4", "int4", "double2", "uint4"), 16),
}
_INTEGER = lazy_regex(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\Z")
_CONSTANT = lazy_regex(
    r"(?:^[ \t]*\#[ \t]*define[ \t]+(\w+)[ \t]+\(?([0-9]+)\)?[ \t]*$)"
    r"|(?:\b(?:constexpr|const)\s+(?:static\s+)?(?:int|unsigned|size_t|int32_t|uint32_t|auto)\s+(\w+)\s*=\s*([0-9]+)\s*;)",
    8,
)
_NOT_NAMES = frozenset({"__launch_bounds__", "__attribute__", "if", "for", "while", "__align__"})


class Kernel(NamedTuple):
    """One kernel.

    Attributes:
        name: Its name.
        path: Of the file, relative to the tree.
        line: Of `__global__`.
        signature: From the template, if it is one, to the closing parenthesis, on one line.
        body: Where the body starts and ends; the same offset twice for a declaration.
        last_line: Of the body.
        uses: What its body has that a person has to look at: kinds of `review.kinds`, with how many places.
    """

    name: str
    path: str
    line: int
    signature: str
    body: tuple[int, int]
    last_line: int = 0
    uses: tuple[tuple[str, int], ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the kernel as JSON holds it."""
        return {
            "name": self.name,
            "path": self.path,
            "line": self.line,
            "signature": self.signature,
            "uses": dict(self.uses),
        }


class Launch(NamedTuple):
    """One place that starts a kernel.

    Attributes:
        kernel: The kernel's name; empty where the launch is built by a macro or through a variable.
        path: Of the file, relative to the tree.
        line: Of `<<<`.
        geometry: What stands between `<<<` and `>>>`, on one line: grid, block, bytes of shared memory, stream.
    """

    kernel: str
    path: str
    line: int
    geometry: str


@dataclass
class DeviceCode:
    """The device code of a file.

    Attributes:
        kernels: Those that are defined in it.
        launches: Where they, and those of other files, are started.
        items: What is to be looked at in them.
        spans: Of the lines of functions for the device: first and last.
    """

    kernels: tuple[Kernel, ...] = ()
    launches: tuple[Launch, ...] = ()
    items: list[ReviewItem] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def holds_line(self, line: int) -> bool:
        """Whether a line is in a function for the device."""
        index = bisect_right(self.spans, (line, 1 << 60)) - 1
        return index >= 0 and line <= self.spans[index][1]


def device_code(path: str, source: SourceTokens, shared_limit: int | None) -> DeviceCode:
    """Return the device code of a file."""
    return _Reader(path, source, shared_limit).read()


class _Reader:
    def __init__(self, path: str, source: SourceTokens, shared_limit: int | None) -> None:
        self.path = path
        self.source = source
        self.shared_limit = shared_limit
        self.code = _blanked(source)
        self.result = DeviceCode()

    def read(self) -> DeviceCode:
        result = self.result
        kernels = [kernel for at in self.source.places("__global__") if (kernel := self._kernel(at)) is not None]
        spans = [(kernel.line, kernel.last_line) for kernel in kernels]
        for word in ("__device__", "CUDA_CALLABLE", "C10_DEVICE", "C10_HOST_DEVICE", "__host__"):
            behind = 0
            for at in self.source.places(word):
                if at < behind:
                    continue
                body = self._body(at)
                if body is not None:
                    behind = body[1]
                    spans.append((self.source.position(at)[0], self.source.position(body[1])[0]))
        result.kernels = tuple(kernels)
        result.spans = _merged(spans)
        result.launches = tuple(self._launches())
        for at in self.source.places("__shared__"):
            self._shared(at)
        return result

    def _launches(self) -> Iterator[Launch]:
        code, at = self.code, self.code.find("<<<")
        while at >= 0:
            end = code.find(">>>", at, at + _LONGEST)
            geometry = " ".join(code[at + 3 : end].split())[:400] if end >= 0 else ""
            yield Launch(_launched(code[max(0, at - 400) : at]), self.path, self.source.position(at)[0], geometry)
            at = code.find("<<<", at + 3)

    def _body(self, at: int) -> tuple[int, int] | None:
        """Return where the body of the function starts and ends that is declared behind an offset."""
        match = _BRACE.search(self.code, at)
        if match is None or match.group() != "{":
            return None
        depth, start = 0, match.start()
        for brace in _BRACES.finditer(self.code, start):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return start, brace.end()
        return start, len(self.code)

    def _kernel(self, at: int) -> Kernel | None:
        """Return the kernel that is defined at `__global__`; None for a declaration, or what is none."""
        code = self.code
        stop = _BRACE.search(code, at)
        if stop is None or stop.group() != "{":
            return None
        name, opening = "", at
        while not name:
            opening = code.find("(", opening, min(stop.start(), at + _LONGEST)) + 1
            if not opening:
                return None
            name = _called(code[max(at, opening - 1000) : opening - 1])
        body = self._body(at) or (stop.start(), stop.start())
        end = code.rfind(")", opening, body[0]) + 1
        begin = at
        line_start = code.rfind("\n", 0, at) + 1
        above = code[max(0, line_start - 2000) : at]
        template = above.rfind("template")
        if template >= 0 and not any(mark in above[template:] for mark in ";{}"):
            begin = max(0, line_start - 2000) + template
        signature = " ".join(code[begin : max(end, opening)].split())[:2000]
        lines = self.source.position(at)[0], self.source.position(body[1])[0]
        return Kernel(name, self.path, lines[0], signature, body, lines[1])

    def _shared(self, at: int) -> None:
        """Report shared memory: its bytes where they are constant."""
        end = self.code.find(";", at)
        declared = " ".join(self.code[at + len("__shared__") : end if 0 <= end < at + 500 else at + 500].split())
        dynamic = self.code[max(0, at - 10) : at].split()[-1:] == ["extern"] or declared.startswith("extern")
        line, column = self.source.position(at)
        excerpt = self.source.line_text(at)
        kind = "shared-memory"
        if dynamic:
            message = say("shared memory whose size the launch gives: `{text}`", text=declared)
        else:
            size = self._bytes(declared)
            if size is None:
                message = say("shared memory whose size no constant gives: `{text}`", text=declared)
            elif self.shared_limit is not None and size > self.shared_limit:
                kind = "shared-memory-limit"
                message = say(
                    "shared memory, {size} B, above the limit of a card ({limit} B): `{text}`",
                    size=size,
                    limit=self.shared_limit,
                    text=declared,
                )
            else:
                message = say("shared memory, {size} B: `{text}`", size=size, text=declared)
        self.result.items.append(ReviewItem(self.path, line, column, kind, message, excerpt))

    def _bytes(self, declared: str) -> int | None:
        """Return the bytes of what is declared, where its type and its sizes are known."""
        head, bracket, _ = declared.partition("[")
        names = [
            word
            for word in head.replace("*", " * ").split()
            if word not in ("volatile", "const", "static", "unsigned", "long")
        ]
        if "*" in names or not names:
            return None
        if len(names) == 1:
            names.insert(0, "long" if "long" in head.split() else "unsigned")
        size = _SIZES.get(names[0])
        if size is None:
            return None
        rest = declared[len(head) :] if bracket else ""
        while rest.startswith("["):
            inside, _, rest = rest[1:].partition("]")
            count = self._constant(inside)
            if count is None:
                return None
            size *= count
            rest = rest.strip()
        return size

    def _constant(self, text: str) -> int | None:
        """Return the value of a product or sum of numbers and of constants that the file defines."""
        total = 0
        for addend in text.split("+"):
            product = 1
            for factor in addend.split("*"):
                value = self._number(factor.strip(" ()"))
                if value is None:
                    return None
                product *= value
            total += product
        return total

    def _number(self, text: str) -> int | None:
        if _INTEGER.match(text):
            return (
                int(text.rstrip("uUlL"), 0) if not text.startswith("0") or len(text) == 1 or text[1:2] in "xX" else None
            )
        return self._constants.get(text)

    @cached_property
    def _constants(self) -> dict[str, int]:
        return {match[1] or match[3]: int(match[2] or match[4]) for match in _CONSTANT.finditer(self.code)}


def _launched(before: str) -> str:
    """Return the name of the kernel whose launch a text ends with: `scale` of `scale<float, 4> `."""
    at = len(before.rstrip())
    if before[:at].endswith(">"):
        depth = 0
        while at:
            at -= 1
            depth += (before[at] == ">") - (before[at] == "<")
            if not depth:
                break
    name = last_word(before[:at].rstrip())
    return name if not name[:1].isdigit() else ""


def _called(before: str) -> str:
    """Return the name of the function whose parameters begin behind a text; empty where it ends with none."""
    before = before.rstrip()
    if before.endswith(">") and (arguments := _ARGUMENTS.search(before, before.rfind("<"))) is not None:
        before = before[: arguments.start()].rstrip()
    name = last_word(before).lstrip(string.digits)
    return name if name not in _NOT_NAMES else ""


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _blanked(source: SourceTokens) -> str:
    """Return the text with blanks for what is no code, so that every offset and every line stays."""
    pieces: list[str] = []
    at = 0
    for token in source.opaque:
        hidden = source.text[token.start : token.end]
        pieces += (source.text[at : token.start], " " * len(hidden) if "\n" not in hidden else _lines_kept(hidden))
        at = token.end
    pieces.append(source.text[at:])
    return "".join(pieces)


def _lines_kept(hidden: str) -> str:
    return "\n".join(" " * len(line) for line in hidden.split("\n"))
