"""Kernels of a file, where they are started, and the shared memory that they ask for."""

from __future__ import annotations

import string
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.device_macros import (
    DeviceMacro,
    MacroUse,
    arguments_at,
    defined_macro,
    launched,
    started_by,
    uses_of,
)
from torchferry.kernels.review import ReviewItem
from torchferry.kernels.tokens import SourceTokens, last_word

_LONGEST = 20_000
"""Characters of a signature that are read."""

_MOST_DIGITS = 20
"""Digits of a number in C++ that is read."""

_ARGUMENTS = lazy_regex(r"<[^<>(){};]*>\Z")
"""The arguments of a template, behind its name."""

_OPENING = lazy_regex(r"<[ \t]*<[ \t]*<(?![<=])")
_CLOSING = lazy_regex(r">[ \t]*>[ \t]*>(?=\s*\()|>>>")
_LOOSE_END = lazy_regex(r">(?:[ \t]+>[ \t]*>|>[ \t]+>)")
"""Around the geometry of a launch; CUDA's compiler takes them with blanks between, and others do not."""

_BRACE = lazy_regex(r"[{};]")
_EITHER_BRACE = lazy_regex(r"[{}]")
_SIZES = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t", "uchar"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"), 2),
    **dict.fromkeys(("int", "float", "unsigned", "int32_t", "uint32_t", "uint", "half2", "__half2"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "long", "float2", "int2", "size_t"), 8),
    **dict.fromkeys(("float3", "int3"), 12),
    **dict.fromkeys(("float4", "int4", "double2", "uint4"), 16),
}
_INTEGER = lazy_regex(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\Z")
_SIZEOF = lazy_regex(r"sizeof\s*\(\s*(\w[\w\s]*)\Z")
_INTEGERS = r"(?:int|unsigned(?:\s+int)?|size_t|u?int(?:32|64)_t|auto)"
_CONSTANT = lazy_regex(
    r"(?:^[ \t]*\#[ \t]*define[ \t]+(\w+)[ \t]+\(?([0-9]+(?:[ \t]*\*[ \t]*[0-9]+)*)\)?[ \t]*$)"
    rf"|(?:\b(?:(?:constexpr|const)\s+(?:static\s+)?{_INTEGERS}|{_INTEGERS}\s+const(?:expr)?)"
    r"\s+(\w+)\s*=\s*((?:[0-9]+|sizeof\s*\([\w\s]+\))(?:\s*\*\s*(?:[0-9]+|sizeof\s*\([\w\s]+\)))*)\s*;)",
    8,
)
_NAME = lazy_regex(r"[A-Za-z_]\w*\Z")
_NEAR = 120
_LONGEST_VALUE = 400
"""Characters in front of the name of a constant, and behind it, that are read with its definition."""

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
        geometry: The text between `<<<` and `>>>`, on one line: grid, block, bytes of shared memory, stream; the
            name of the project's macro that has it.
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
        macros: Those that it defines and that represent a kernel or a launch.
        bodies: Where the bodies of kernels and of functions for the device start and end.
        launch_offsets: Where kernels are started, by `<<<`.
        loose: What is written `<< <` and `>> >` in place of `<<<` and `>>>`: where each begins and ends.
    """

    kernels: tuple[Kernel, ...] = ()
    launches: tuple[Launch, ...] = ()
    items: list[ReviewItem] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    macros: tuple[DeviceMacro, ...] = ()
    bodies: list[tuple[int, int]] = field(default_factory=list)
    launch_offsets: list[int] = field(default_factory=list)
    loose: list[tuple[int, int]] = field(default_factory=list)

    def holds_line(self, line: int) -> bool:
        """Whether a line is in a function for the device."""
        index = bisect_right(self.spans, (line, 1 << 60)) - 1
        return index >= 0 and line <= self.spans[index][1]


def device_code(
    path: str, source: SourceTokens, shared_limit: int | None, macros: Mapping[str, DeviceMacro] | None = None
) -> DeviceCode:
    """Return the device code of a file.

    Args:
        path: Of the file, relative to the tree.
        source: The file.
        shared_limit: Bytes of shared memory that a block has on the card; None where it is not known.
        macros: Macros of the project that are used somewhere and represent a kernel or a launch: each use is one, and
            the content of their definitions is none.
    """
    return _Reader(path, source, shared_limit, macros or {}).read()


class _Reader:
    def __init__(
        self, path: str, source: SourceTokens, shared_limit: int | None, used: Mapping[str, DeviceMacro]
    ) -> None:
        self.path = path
        self.source = source
        self.used = used
        self.stop = (0, -1)  # from where the last one was looked for, and where it stands
        self.defined: dict[int, DeviceMacro | None] = {}
        self.constants: dict[str, int | None] = {}
        self.shared_limit = shared_limit
        self.code = source.code
        self.result = DeviceCode()

    def read(self) -> DeviceCode:
        result = self.result
        uses = list(uses_of(self.source, self.code, self.used))
        kernels = [
            kernel
            for at in self.source.places("__global__")
            if not self._is_of_used(at) and (kernel := self._kernel(at)) is not None
        ]
        kernels += [kernel for use in uses if use.macro.declares and (kernel := self._by_macro(use)) is not None]
        spans = [(kernel.line, kernel.last_line) for kernel in kernels]
        result.bodies += [kernel.body for kernel in kernels if kernel.body[1] > kernel.body[0]]
        for word in ("__device__", "CUDA_CALLABLE", "C10_DEVICE", "C10_HOST_DEVICE", "__host__"):
            behind = 0
            for at in self.source.places(word):
                if at < behind:
                    continue
                body = self._body(at)
                if body is not None:
                    behind = body[1]
                    if word != "__host__":
                        result.bodies.append(body)
                    spans.append((self.source.position(at)[0], self.source.position(body[1])[0]))
        result.kernels = tuple(kernels)
        result.spans = _merged(spans)
        result.launches = (*self._launches(), *(self._launch(use) for use in uses if use.macro.starts))
        for at in self.source.places("__shared__"):
            self._shared(at)
        result.macros = tuple(macro for macro in self.defined.values() if macro is not None)
        if uses:
            result.kernels = tuple(sorted(kernels, key=lambda kernel: kernel.line))
            result.launches = tuple(sorted(result.launches, key=lambda launch: launch.line))
        return result

    def _is_of_used(self, at: int) -> bool:
        """Whether a place is in the definition of a macro that is used; notes every macro that is met so."""
        directive = self.source.directive_at(at)
        if directive is None or directive.word != "define":
            return False
        if directive.start not in self.defined:
            self.defined[directive.start] = defined_macro(self.code, directive)
        macro = self.defined[directive.start]
        return macro is not None and macro.name in self.used

    def _launch(self, use: MacroUse) -> Launch:
        line = self.source.position(use.start)[0]
        return Launch(started_by(use, self.code), self.path, line, use.macro.name)

    def _by_macro(self, use: MacroUse) -> Kernel | None:
        """Return the kernel that the use of a macro defines, or begins to define."""
        if not use.macro.kernel:
            return self._kernel(use.start, use.end)
        line = self.source.position(use.start)[0]
        name = use.macro.filled(use.macro.kernel, use.arguments)
        text = " ".join(self.code[use.start : use.end].split())[:2000]
        return Kernel(name, self.path, line, text, (use.start, use.end), self.source.position(use.end)[0])

    def _launches(self) -> Iterator[Launch]:
        code, text, result = self.code, self.source.text, self.result
        for opening in _OPENING.finditer(code):
            at, begin = opening.span()
            if begin - at > 3 and _OPENING.fullmatch(text, at, begin) is None:
                continue  # what is blank in the code is a string: `out << "text" << x`
            closing = _CLOSING.search(code, begin, begin + _LONGEST)
            if begin - at > 3 and closing is None:
                continue
            geometry = " ".join(code[begin : closing.start()].split()) if closing is not None else ""
            if begin - at > 3:
                result.loose.append((at, begin))
            if closing is not None and _LOOSE_END.fullmatch(text, *closing.span()):
                result.loose.append(closing.span())
            self._dynamic(at, geometry)
            if self._is_of_used(at):
                continue
            result.launch_offsets.append(at)
            geometry = geometry[:400]
            yield Launch(launched(code[max(0, at - 400) : at]), self.path, self.source.position(at)[0], geometry)

    def _stop(self, at: int) -> int:
        """Return where the first of `{`, `}` and `;` follows an offset; the end of the file without one."""
        begin, stop = self.stop
        if not begin <= at <= stop:
            match = _BRACE.search(self.code, at)
            stop = len(self.code) if match is None else match.start()
            self.stop = at, stop
        return stop

    def _body(self, at: int) -> tuple[int, int] | None:
        """Return where the body of the function starts and ends that is declared behind an offset."""
        start = self._stop(at)
        return (start, self._closing.get(start, len(self.code))) if self.code[start : start + 1] == "{" else None

    @cached_property
    def _closing(self) -> dict[int, int]:
        """Where each brace is closed, behind the closing one; those without an end are missing."""
        closing: dict[int, int] = {}
        opened: list[int] = []
        for match in _EITHER_BRACE.finditer(self.code):
            if match.group() == "{":
                opened.append(match.start())
            elif opened:
                closing[opened.pop()] = match.end()
        return closing

    def _kernel(self, at: int, behind: int = 0) -> Kernel | None:
        """Return the kernel that is defined at `__global__`; None for a declaration, or what is none.

        Args:
            at: Of `__global__`, or of a macro in its place.
            behind: Where to read on, where that is not there.
        """
        code = self.code
        body = self._body(behind or at)
        if body is None or body[0] > at + _LONGEST:
            return None
        name, opening = "", behind or at
        while not name:
            opening = code.find("(", opening, body[0]) + 1
            if not opening:
                return None
            name = called_function(code[max(behind or at, opening - 1000) : opening - 1])
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

    def _dynamic(self, at: int, geometry: str) -> None:
        """Report shared memory that a launch asks for, where its bytes are constant and too many."""
        if self.shared_limit is None or geometry.count(",") < 2:
            return
        _, parts = arguments_at(f"({geometry})", 0)
        asked = parts[2] if len(parts) > 2 else "0"
        size = self._constant(asked) if asked != "0" else None
        if size is not None and size > self.shared_limit:
            self._above_limit(at, size, asked)

    def _above_limit(self, at: int, size: int, text: str) -> None:
        message = say(
            "shared memory, {size} B, above the limit of a card ({limit} B): `{text}`",
            size=size,
            limit=self.shared_limit or 0,
            text=text,
        )
        line, column = self.source.position(at)
        excerpt = self.source.line_text(at)
        self.result.items.append(ReviewItem(self.path, line, column, "shared-memory-limit", message, excerpt))

    def _shared(self, at: int) -> None:
        """Report shared memory: its bytes where they are constant."""
        end = self.code.find(";", at)
        declared = " ".join(self.code[at + len("__shared__") : end if 0 <= end < at + 500 else at + 500].split())
        dynamic = self.code[max(0, at - 10) : at].split()[-1:] == ["extern"] or declared.startswith("extern")
        if dynamic:
            message = say("shared memory whose size the launch gives: `{text}`", text=declared)
        else:
            size = self._bytes(declared)
            if size is None:
                message = say("shared memory whose size is not constant: `{text}`", text=declared)
            elif self.shared_limit is not None and size > self.shared_limit:
                self._above_limit(at, size, declared)
                return
            else:
                message = say("shared memory, {size} B: `{text}`", size=size, text=declared)
        line, column = self.source.position(at)
        excerpt = self.source.line_text(at)
        self.result.items.append(ReviewItem(self.path, line, column, "shared-memory", message, excerpt))

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
        if _INTEGER.match(text) and len(text) <= _MOST_DIGITS:
            return (
                int(text.rstrip("uUlL"), 0) if not text.startswith("0") or len(text) == 1 or text[1:2] in "xX" else None
            )
        sized = _SIZEOF.match(text)
        if sized is not None:
            return _size_of(sized[1])
        if text not in self.constants:
            self.constants[text] = self._value_of(text) if _NAME.match(text) else None
        return self.constants[text]

    def _is_defined(self, at: int) -> bool:
        """Whether a place is in a line of the preprocessor."""
        return "#" in self.code[self.code.rfind("\n", 0, at) + 1 : at]

    def _value_of(self, name: str) -> int | None:
        """Return the value of the last definition of a name that `constants` knows in the file."""
        for at in reversed(self.source.places(name)):
            if self.code[at + len(name) : at + len(name) + _NEAR].lstrip()[:1] != "=" and not self._is_defined(at):
                continue
            begin = self.code.rfind("\n", 0, max(0, at - _NEAR)) + 1
            value = dict(constants(self.code, begin, at + len(name) + _LONGEST_VALUE)).get(name)
            if value is not None:
                return value
        return None


def constants(code: str, start: int = 0, end: int = sys.maxsize) -> Iterator[tuple[str, int]]:
    """Yield the names that a file defines as a number or a product of numbers, by `#define` or `const`.

    Args:
        code: The file with blanks for what is no code.
        start: From where it is read; the beginning of a line.
        end: Up to where.
    """
    for match in _CONSTANT.finditer(code, start, end):
        factors = [each.strip(" ()") for each in (match[2] or match[4]).split("*")]
        sizes = [
            int(each) if each.isdecimal() and len(each) <= _MOST_DIGITS else _size_of(each.partition("(")[2])
            for each in factors
        ]
        if None not in sizes:
            yield match[1] or match[3], prod(filter(None, sizes))


def _size_of(kind: str) -> int | None:
    """Return the bytes of a type; None for one that is not known."""
    words = kind.split()
    if len(words) > 1:  # `unsigned long long int` and its like
        words = [word for word in words if word not in ("unsigned", "signed", "const") and (word != "int")]
        words = words[:1] or ["int"]
    return _SIZES.get(words[0]) if words else None


def function_name(code: str, body: int) -> str:
    """Return the name of the function whose body begins at an offset; empty if it is unknown."""
    start = max(code.rfind(mark, max(0, body - 2000), body) for mark in ";{}") + 1
    opening = start
    while (opening := code.find("(", opening, body) + 1) > 0:
        name = called_function(code[max(start, opening - 300) : opening - 1])
        if name:
            return name
    return ""


def called_function(before: str) -> str:
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
