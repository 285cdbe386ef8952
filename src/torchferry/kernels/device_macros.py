"""Macros of a project that represent `__global__`, or for a launch: what their uses define and start.

A kernel is defined, and started, where such a macro is used, which may be in another file than its definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.kernels.tokens import Directive, SourceTokens, last_word

_DEFINED = lazy_regex(r"\s*(\w+)(?:\(([^()]*)\))?")
_SPLICE = lazy_regex(r"\\\r?\n")
_ATTRIBUTE = lazy_regex(r"\b(?:__launch_bounds__|__attribute__)\s*\((?:[^()]|\([^()]*\))*\)")
_PASTED = lazy_regex(r"(?<!\w)(\w+(?:\s*\#\#\s*\w+)*)\s*(?:<[^<>()]*>\s*)?\(")
"""A name in a macro, which `##` may join of pieces, before its parameters."""

_ARGUMENT_MARK = lazy_regex(r"[()\[\]{},]")
_LONGEST = 20_000
"""Characters of a macro, and of the arguments of a use, that are read."""


class DeviceMacro(NamedTuple):
    """One macro with `__global__` or `<<<` in what it represents.

    Attributes:
        name: Its name.
        parameters: Their names; None for a macro without parentheses.
        declares: Whether its uses precede, or are, the definition of a kernel.
        kernel: The name of the kernel that a use is, of pieces that `##` joins; empty where a use precedes one.
        starts: Whether its uses start a kernel.
        started: The name of that kernel, of such pieces; empty where it is in front of the use.
    """

    name: str
    parameters: tuple[str, ...] | None
    declares: bool
    kernel: str
    starts: bool
    started: str

    def filled(self, pasted: str, arguments: list[str]) -> str:
        """Return a name of its body as a use makes it, of pieces that `##` joins."""
        given = dict(zip(self.parameters or (), arguments, strict=False))
        return "".join(given.get(piece.strip(), piece.strip()) for piece in pasted.split("##"))


class MacroUse(NamedTuple):
    """One use of a macro: where it begins and ends, with its arguments."""

    macro: DeviceMacro
    start: int
    end: int
    arguments: list[str]


def defined_macro(code: str, directive: Directive) -> DeviceMacro | None:
    """Return the macro that a `#define` defines; `code` is the text with blanks for what is no code."""
    match = _DEFINED.match(code, directive.body, directive.end)
    if match is None or match.end() > directive.end:
        return None
    body = " ".join(_SPLICE.sub(" ", code[match.end() : min(directive.end, match.end() + _LONGEST)]).split())
    parameters = None if match[2] is None else tuple(each.strip() for each in match[2].replace("\\", " ").split(","))
    _, declares, behind = body.partition("__global__")
    behind = _ATTRIBUTE.sub("", behind[:1000])
    pasted = _PASTED.search(behind) if "(" in behind else None
    before, starts, _ = body.partition("<<<")
    started = launched(before[-1000:])
    return DeviceMacro(match[1], parameters, bool(declares), pasted[1] if pasted else "", bool(starts), started)


def uses_of(source: SourceTokens, code: str, macros: Mapping[str, DeviceMacro]) -> Iterator[MacroUse]:
    """Yield the uses of some macros in a file, macro by macro; a condition or a definition of the name is none."""
    for name, macro in macros.items():
        behind = 0
        for at in source.places(name):
            if at < behind:
                continue  # in the arguments of another use
            directive = source.directive_at(at)
            if directive is not None:
                named = _DEFINED.match(code, directive.body) if directive.word == "define" else None
                if named is None or named.start(1) == at:
                    continue
            end = at + len(name)
            arguments: list[str] = []
            if macro.parameters is not None:
                opening = end + len(code[end : end + 200]) - len(code[end : end + 200].lstrip())
                if code[opening : opening + 1] != "(":
                    continue
                end, arguments = arguments_at(code, opening)
                behind = end
            yield MacroUse(macro, at, end, arguments)


def arguments_at(code: str, opening: int) -> tuple[int, list[str]]:
    """Return where the parentheses end that begin at an offset, and the text between their commas."""
    depth, begin, found = 0, opening + 1, []
    stop = min(len(code), opening + _LONGEST)
    for mark in _ARGUMENT_MARK.finditer(code, opening, stop):
        character = mark.group()
        if character in "([{":
            depth += 1
        elif character != ",":
            depth -= 1
        if not depth or (depth == 1 and character == ","):
            found.append(code[begin : mark.start()].strip())
            begin = mark.end()
        if not depth:
            return mark.end(), found
    return stop, found


def launched(before: str) -> str:
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


def started_by(use: MacroUse, code: str) -> str:
    """Return the name of the kernel that a use starts; empty where the macro does not tell.

    It is in the macro, in an argument, or in front of the use.
    """
    name = use.macro.started
    if not name:
        return launched(code[max(0, use.start - 400) : use.start])
    filled = use.macro.filled(name, use.arguments)
    if filled.startswith("(") and filled.endswith(")"):  # so that commas in it are none of the macro's
        filled = filled[1:-1]
    return launched(filled) if filled != name else name
