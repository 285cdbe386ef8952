"""What device code takes for granted that another card does not have, and that no name says.

A warp of 32 is written as a number (`% 32`, `>> 5`, `constexpr int LANES = 32`, a loop from 16), a branch is taken by
NVIDIA's numbers of architectures, a kernel is started on the device, an atomic is one of a type that few cards have.
What depends on the thread is followed through the assignments of a function, and no further.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels.declarations import is_declared
from torchferry.kernels.device_code import DeviceCode
from torchferry.kernels.device_macros import arguments_at
from torchferry.kernels.tokens import SourceTokens, is_word, last_word

_THREAD = lazy_regex(
    r"(?:threadIdx|blockDim|laneid|getLaneId|thread_rank|(?i:t(?:hread_?)?idx?|lane(?:_?idx?)?|thread_?id(?:_\w+)?"
    r"|local_?tid|tx))\Z"
)
"""Words for the number of a thread in its block, or for how many there are."""

_ASSIGNED = lazy_regex(r"=(?!=)([^;{}]{1,300})")
_AHEAD_OF_EQUALS = frozenset("=<>!+-*/%&|^")
"""Characters with which `=` is no plain assignment."""

_INDEXED = lazy_regex(r"\[[^\[\]]*\]")
_WORD = lazy_regex(r"[A-Za-z_]\w*")
_BY_NUMBER = lazy_regex(
    r"(?P<operator>%|/|&|>>)[ \t]{0,8}(?:(?P<number>\w+)(?![\w.(<])"
    r"|\([ \t]{0,8}(?P<less>\w+)[ \t]{0,8}-[ \t]{0,8}1[uU]?[lL]{0,2}[ \t]{0,8}\))"
)
_WARP = {"%": 32, "/": 32, "&": 31, ">>": 5}
"""The operators that divide threads into warps, and what follows them where a warp has 32."""

_WARP_NAME = (
    r"\w{0,40}(?:[wW]arp|WARP|[lL]anes?|LANES?)(?:_?(?:[sS]ize|SIZE|[tT]hreads|THREADS|[lL]anes|LANES|[wW]idth|WIDTH|[mM]ask|MASK"
    r"|[cC]ount|COUNT|[bB]its|BITS|[sS]hift|SHIFT))?"
)
"""Names for the size of a warp, its mask, or the bits of it; the tile of a warp (`WARP_N`) is none."""

_ABOUT_WARPS = lazy_regex(_WARP_NAME + r"\Z")
_SIZED = lazy_regex(r"[ \t]{0,20}[={]?[ \t]{0,20}\(?(?P<value>32|31|5|0x1[fF]|0x20)[uU]?[lL]{0,2}\b")
_DEFINES = lazy_regex(
    r"(?:\#[ \t]{0,8}define[ \t]{1,8}|\b(?:constexpr|const)\s{1,8}(?:static\s{1,8})?(?:\w{1,40}\s{1,8}){1,2}"
    r"|\bstatic\s{1,8}const(?:expr)?\s{1,8}\w{1,40}\s{1,8}|\benum\b[^{};]{0,80}\{\s{0,80})\Z"
)
_OF_TEMPLATES = lazy_regex(r"\btemplate\s{0,8}<(?P<parameters>[^<>;{}]{1,400})>")
_PARAMETER = lazy_regex(r"(?P<name>[A-Za-z_]\w{0,60})\s{0,8}(?:=\s{0,8}(?P<value>\w{1,20})\s{0,8})?\Z")
_DECLARED_BY = lazy_regex(r"[^;{}()]{0,300}?(?P<name>[A-Za-z_]\w{0,80})\s{0,8}[({:]")
"""What a template declares: its name precedes the parameters of a function, or before the body of a class."""

_BY_THEMSELVES = frozenset({"warpSize", "WARP_SIZE", "C10_WARP_SIZE", "kWarpSize"})
"""Names whose every use is listed."""

TILES = ("tiled_partition", "thread_block_tile")
"""Words of which each file has one that divides a block into tiles."""

_TILE = lazy_regex(r"\b(?P<name>tiled_partition|thread_block_tile)\s{0,8}<\s{0,8}(?P<size>\w+)")
_HALVING = lazy_regex(r"=\s*16\s*;[^;{}]{0,60};[^;{}]{0,60}(?:>>=\s*1|/=\s*2|>>\s*1|/\s*2)\b")
_EXCHANGE = lazy_regex(r"shfl|SHFL|ballot|syncwarp")
_OF_A_WARP = lazy_regex(r"3[12]\b(?![\w.])")
_COMPARISON = lazy_regex(r"(?:[<>=]=|<)[ \t]{0,8}\Z")
_OF_WARPS = ("__shfl", "__syncwarp", "__ballot", "__any_sync", "__all_sync", "__activemask", "warp")
_VOLATILE = lazy_regex(r"\bvolatile\b")
_FOLDED = lazy_regex(r"\[\s*\w+\s*\+\s*(?:32|16)\s*\]")

_ABOUT_ARCHITECTURES = lazy_regex(
    r"(?i:sm(?:_?(?:version|arch|ver|major))?(?:_?num)?|cc(?:_?(?:major|minor|version))?|compute_?cap\w{0,12}"
    r"|(?:cuda_?|device_?|gpu_?)arch\w{0,8}|(?:get_?)?(?:sm_?version(?:_?num)?|device_?cap\w{0,12})|capability)\Z"
)
_COMPARED_ARCHITECTURE = lazy_regex(
    r"[ \t]{0,4}(?:\([ \t]{0,4}\w{0,40}[ \t]{0,4}\)[ \t]{0,4})?(?:[<>]=?|==|!=)[ \t]{0,4}"
    r"(?P<number>[0-9]{1,4})\b(?![ \t]{0,4}\*)"
)
CAPABILITY_ATTRIBUTES = tuple(
    f"{prefix}{side}"
    for prefix, sides in (
        ("cudaDevAttrComputeCapability", ("Major", "Minor")),
        ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_", ("MAJOR", "MINOR")),
    )
    for side in sides
)
"""Attributes of a device that are a number of its architecture: the runtime's and the driver's."""

_KNOWN_ARCHITECTURES = frozenset((*range(3, 13), *range(30, 131), *range(300, 1301, 10)))

_ATOMIC = lazy_regex(r"\b(?:gpuAtomic[A-Z]\w*|atomic[A-Z][A-Za-z]*(?:_block|_system)?)(?=\s*\()")
_BACK = 12_000
"""Characters above an atomic in which the declaration of its pointer is looked for."""

_MOST_USES = 200
"""Uses of a pointer among which its declaration is looked for."""

_CAST = lazy_regex(r"(?:reinterpret_cast|static_cast)\s{0,8}<([\w: ]{1,80})\*|\(([\w: ]{1,80})\*\s{0,8}\)")
_DECLARED_TYPE = lazy_regex(
    r"(?P<type>(?:\bunsigned\s{1,4})?(?:\blong\s{1,4})?(?<![\w:])[\w:]{1,80})\s{0,4}(?P<arguments><[^<>;]{0,80}>\s{0,4})?"
    r"(?:[*&]|__restrict__|__restrict|const|\s)+\Z"
)
"""A type at the end of what precedes a name."""

_END_OF_A_TYPE = frozenset(f"{string.ascii_letters}{string.digits}_:>")
"""What a type, or a word behind it such as `const`, ends with."""

_NOT_TYPES = frozenset(
    {"return", "else", "const", "volatile", "static", "case", "new", "restrict", "delete", "__device__"}
)


class Hazard(NamedTuple):
    """One place: where it is, its kind as of `review.kinds`, and what is there."""

    offset: int
    kind: str
    message: Message


def hazards(source: SourceTokens, device: DeviceCode, names: Iterable[str], warps: str) -> Iterator[Hazard]:
    """Yield the places of a file with device code, and of the host's code in it.

    Args:
        source: The file.
        device: Its device code.
        names: Its words that `is_about_warps` or `is_about_architectures` is true of.
        warps: How many threads a warp has on the target's cards, in words; empty where that is not known.
    """
    code = source.code
    names = list(names)
    yield from _definitions(source, filter(is_about_warps, names), warps)
    yield from _architecture_branches(source, filter(is_about_architectures, names))
    if device.bodies:
        for begin, end in _outermost(device.bodies):
            yield from _in_body(source, begin, end, warps)
        yield from _started_inside(source, device)
        yield from _atomics(code)
    for match in _TILE.finditer(code) if any(map(source.may_have, TILES)) else ():
        size = match["size"]
        if size.isdigit() and int(size) < 32:
            continue
        yield _warp(match.start(), f"{match['name']}<{size}>", warps)


def is_about_warps(word: str) -> bool:
    """Whether a name is one of the size of a warp, of its mask or of its bits."""
    return _ABOUT_WARPS.match(word) is not None and word not in _BY_THEMSELVES


def is_about_architectures(word: str) -> bool:
    """Whether a name may be one of the number of an architecture."""
    return _ABOUT_ARCHITECTURES.match(word) is not None


def _architecture_branches(source: SourceTokens, names: Iterable[str]) -> Iterator[Hazard]:
    """Yield the places that ask for a number of an architecture, or compare one."""
    code = source.code
    for attribute in CAPABILITY_ATTRIBUTES:
        for at in source.places(attribute):
            yield Hazard(at, "capability", say("`{name}` is a number of NVIDIA's architectures", name=attribute))
    for name in names:
        for at in source.places(name):
            match = _COMPARED_ARCHITECTURE.match(code, at + len(name))
            if match is not None and int(match["number"]) in _KNOWN_ARCHITECTURES:
                text = " ".join(code[at : match.end()].split())
                message = say("`{text}` asks for an architecture by NVIDIA's numbers", text=text)
                yield Hazard(at, "capability", message)


def _warp(offset: int, text: str, warps: str) -> Hazard:
    text = " ".join(text.split())[:80]
    if not warps:
        return Hazard(offset, "warp-size", say("`{text}` stands for a warp of 32 threads", text=text))
    message = say("`{text}` stands for a warp of 32 threads; threads of a warp: {known}", text=text, known=warps)
    return Hazard(offset, "warp-size", message)


def _outermost(bodies: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    behind = -1
    for begin, end in sorted(bodies):
        if begin > behind:
            yield begin, end
            behind = end


def _definitions(source: SourceTokens, names: Iterable[str], warps: str) -> Iterator[Hazard]:
    """Yield constants that are called after a warp and have its size, its mask, or the bits of it."""
    code = source.code
    for name in names:
        for at in source.places(name):
            sized = _SIZED.match(code, at + len(name))
            if sized is not None and _DEFINES.search(code, max(0, at - 120), at):
                yield _warp(at, f"{name} = {sized['value']}", warps)


def _in_body(source: SourceTokens, begin: int, end: int, warps: str) -> Iterator[Hazard]:
    code = source.code
    body = code[begin:end]
    depends = _Dependences(body)
    for match in _by_number(body):
        number = match["number"] or match["less"]
        wanted = _WARP[match["operator"]] + (match["number"] is None)
        value = _value(number)
        if value not in (None, wanted) or (value is None and not _is_constant(number)):
            continue
        if match["operator"] == "&" and body[match.start() - 1 : match.start()] == "&":
            continue
        operand = _operand(body, match.start())
        if not depends.any_of(_WORD.findall(operand)):
            continue
        if value is None:
            value = _value_of(source, number)
        may_be = value is None and wanted != 5 and (is_about_warps(number) or _is_given_a_warp(source, number))
        if value == wanted or may_be:
            text = f"{operand} {' '.join(match.group().split())}"
            yield _warp(begin + match.start() - len(operand.rstrip()), text, warps)
    for match in _HALVING.finditer(body) if "16" in body else ():
        if _EXCHANGE.search(body, match.end(), match.end() + 300):
            yield _warp(begin + match.start(), match.group().lstrip("= "), warps)
    for start, compared in _comparisons(body):
        left = _operand(body, start)
        if depends.any_of(_WORD.findall(left)):
            yield _warp(begin + start - len(left), f"{left} {compared}", warps)
    if "volatile" in code[max(0, begin - 300) : end] and (folded := _FOLDED.search(body)) is not None:
        yield _warp(begin + folded.start(), f"volatile {folded.group()}", warps)


def _by_number(body: str) -> list[re.Match[str]]:
    """Return the operators that may divide threads into warps, each with the word behind it, in order."""
    matches = []
    for operator in _WARP:
        at = body.find(operator)
        while at >= 0:
            match = _BY_NUMBER.match(body, at)
            if match is not None:
                matches.append(match)
            at = body.find(operator, at + 1)
    return sorted(matches, key=lambda match: match.start())


def _comparisons(body: str) -> Iterator[tuple[int, str]]:
    """Yield the comparisons of something with a warp's size, in a function that is about warps: offset and text."""
    if not ("32" in body or "31" in body):
        return
    lower = body.lower()
    if not any(mark in lower for mark in _OF_WARPS) and _VOLATILE.search(body) is None:
        return
    for match in _OF_A_WARP.finditer(body):
        ahead = _COMPARISON.search(body, max(0, match.start() - 10), match.start())
        if ahead is not None and match.group() == ("31" if ahead.group()[:2] == "<=" else "32"):
            yield ahead.start(), ahead.group() + match.group()


def _is_constant(name: str) -> bool:
    """Whether a name may be that of a constant of 32, 31 or 5: in capitals, with a `k`, or called after a warp."""
    if name in _BY_THEMSELVES or name[:1].isdigit():
        return False
    return name.isupper() or (name[:1] == "k" and name[1:2].isupper()) or is_about_warps(name)


def _value_of(source: SourceTokens, name: str) -> int | None:
    """Return the value of a constant that the file defines as 32, 31 or 5; None for others."""
    for at in source.places(name):
        sized = _SIZED.match(source.code, at + len(name))
        if sized is not None and _DEFINES.search(source.code, max(0, at - 120), at):
            return _value(sized["value"])
    return None


def _is_given_a_warp(source: SourceTokens, name: str) -> bool:
    """Whether a name is a parameter of a template of the file that has 32 by default, or is given it in the file."""
    code = source.code
    for header in _OF_TEMPLATES.finditer(code) if source.may_have("template") else ():
        parameters = [_PARAMETER.search(each.strip()) for each in header["parameters"].split(",")]
        for index, parameter in enumerate(parameters):
            if parameter is None or parameter["name"] != name:
                continue
            if _value(parameter["value"] or "") == _WARP["%"]:
                return True
            declared = _DECLARED_BY.match(code, header.end())
            if declared is not None and _is_argument(code, declared["name"], index):
                return True
    return False


def _is_argument(code: str, template: str, index: int) -> bool:
    """Whether a template is given 32 at a place of its arguments."""
    for match in re.finditer(rf"\b{re.escape(template)}\s{{0,4}}<([^<>;{{}}()]{{1,400}})>", code):
        arguments = match[1].split(",")
        if index < len(arguments) and _value(arguments[index].strip()) == _WARP["%"]:
            return True
    return False


def _value(text: str) -> int | None:
    """Return the value of a number in C++; None for a name."""
    if not text[:1].isdigit():
        return None
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:
        return -1


class _Dependences:
    """Which variables of a function have a value that comes from the number of the thread in its block."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.threads: dict[str, bool] = {}
        self.names: set[str] | None = None

    def any_of(self, words: Iterable[str]) -> bool:
        """Whether one of some words is such a variable, or that number itself."""
        return any(self._is_one(word) for word in words)

    def _is_one(self, word: str) -> bool:
        is_one = self.threads.get(word)
        if is_one is None:
            is_one = self.threads[word] = _THREAD.match(word) is not None
        if is_one:
            return True
        if self.names is None:
            self.names = self._assigned()
        return word in self.names

    def _assigned(self) -> set[str]:
        """Return the variables that such a value is assigned to, directly or through three others at most."""
        body, at = self.body, self.body.find("=")
        assigned: list[tuple[str, set[str]]] = []
        while at >= 0:
            match = None if body[at - 1 : at] in _AHEAD_OF_EQUALS else _ASSIGNED.match(body, at)
            if match is not None:
                name = last_word(body[max(0, at - 60) : at].rstrip())
                value = _INDEXED.sub("", match[1]) if "[" in match[1] else match[1]
                words = set(_WORD.findall(value)) if name else set()
                if words and "blockIdx" not in words:
                    assigned.append((name, words))
            at = body.find("=", at + 1 if match is None else match.end())
        words = set[str]().union(*(words for _, words in assigned))
        sources = {word for word in words if _THREAD.match(word)}
        names: set[str] = set()
        for _ in range(4):
            before = len(names)
            names |= {name for name, words in assigned if not words.isdisjoint(sources)}
            sources |= names
            if len(names) == before:
                break
        return names


def _operand(body: str, at: int) -> str:
    """Return what is in front of an operator: a name with its members, or what is in parentheses."""
    text = body[max(0, at - 300) : at]
    stripped = text.rstrip()
    if stripped.endswith(")"):
        depth = 0
        for index in range(len(stripped) - 1, -1, -1):
            depth += (stripped[index] == ")") - (stripped[index] == "(")
            if not depth:
                return stripped[index:]
        return ""
    start = len(stripped)
    while start and (stripped[start - 1].isalnum() or stripped[start - 1] in "_."):
        start -= 1
    return stripped[start:]


def _started_inside(source: SourceTokens, device: DeviceCode) -> Iterator[Hazard]:
    """Yield what device code starts, or waits for."""
    spans = list(_outermost(device.bodies))

    def is_inside(offset: int) -> bool:
        index = bisect_right(spans, (offset, 0)) - 1
        return index >= 0 and offset < spans[index][1]

    for offset in device.launch_offsets:
        if is_inside(offset):
            message = say("a kernel is started on the device")
            yield Hazard(offset, "dynamic-parallelism", message)
    for word in ("cudaDeviceSynchronize", "cudaLaunchDevice", "cudaStreamTailLaunch", "cudaStreamFireAndForget"):
        for offset in source.places(word):
            if is_inside(offset):
                yield Hazard(offset, "dynamic-parallelism", say("`{name}` is called on the device", name=word))


def _atomics(code: str) -> Iterator[Hazard]:
    """Yield the atomic functions, those of one name and type with one message, as far as the file says the type."""
    if "tomic" not in code:
        return
    first: dict[tuple[str, str], list[int]] = {}
    for match in _atomic_calls(code):
        if is_declared(code, *match.span()):
            continue
        opening = code.index("(", match.end())
        _, arguments = arguments_at(code, opening)
        first.setdefault((match.group(), _type_of(code, match.start(), arguments[0] if arguments else "")), []).append(
            match.start()
        )
    for (name, kind), offsets in first.items():
        count = str(len(offsets))
        if kind:
            message = say("`{name}` on `{type}` (uses: {count})", name=name, type=kind, count=count)
        else:
            message = say("`{name}` on a type that this file does not say (uses: {count})", name=name, count=count)
        yield from (Hazard(offset, "atomic", message) for offset in offsets)


def _atomic_calls(code: str) -> Iterator[re.Match[str]]:
    """Yield the names of atomic functions that parentheses follow, in order."""
    at = code.find("tomic")
    while at >= 0:
        match = _ATOMIC.match(code, at - (1 if code[at - 1 : at] == "a" else 4)) if at else None
        if match is not None:
            yield match
        at = code.find("tomic", at + 5)


def _type_of(code: str, at: int, argument: str) -> str:
    """Return the type that the pointer in an argument points to, where a cast or a declaration above says it."""
    cast = _CAST.search(argument)
    if cast is not None:
        return " ".join((cast[1] or cast[2]).split())
    word = _WORD.search(argument)
    if word is None or argument[word.end() :].lstrip()[:1] == "." or argument[word.end() :].lstrip()[:2] == "->":
        return ""
    name, begin, end = word.group(), max(0, at - _BACK), at
    for _ in range(_MOST_USES):
        end = code.rfind(name, begin, end)
        if end < 0:
            break
        if is_word(code[end - 1 : end]) or is_word(code[end + len(name) : end + len(name) + 1]):
            continue
        if code[max(begin, end - 120) : end].rstrip(" \t\n*&")[-1:] not in _END_OF_A_TYPE:
            continue
        match = _DECLARED_TYPE.search(code, max(begin, end - 120), end)
        if match is None or code[end + len(name) : end + len(name) + 40].lstrip()[:1] == "(":
            continue
        kind = " ".join(match["type"].split())
        if "Accessor" in kind and match["arguments"]:
            kind = match["arguments"].strip("<> ").partition(",")[0].strip()
        if kind not in _NOT_TYPES and not kind[:1].isdigit():
            return kind
    return ""
