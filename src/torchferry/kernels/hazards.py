"""What device code takes for granted that another card does not have, and that no name says.

A warp of 32 is written as a number (`% 32`, `>> 5`, `constexpr int LANES = 32`, a loop from 16), a branch is taken by
NVIDIA's numbers of architectures, a kernel is started on the device, an atomic is one of a type that few cards have.
What depends on the thread is followed through the assignments of a function, and no further.
"""

from __future__ import annotations

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

_ASSIGNED = lazy_regex(r"(?<![=<>!+\-*/%&|^])=(?!=)([^;{}]{1,300})")
_INDEXED = lazy_regex(r"\[[^\[\]]*\]")
_WORD = lazy_regex(r"[A-Za-z_]\w*")
_BY_NUMBER = lazy_regex(r"(?P<operator>[%/&>]>?)[ \t]{0,8}(?P<number>\w+)(?![\w.(<])")
_WARP = {"%": 32, "/": 32, "&": 31, ">>": 5}
"""The operators that divide threads into warps, and what stands behind them where a warp has 32."""

_WARP_NAME = (
    r"\w{0,40}(?:[wW]arp|WARP|[lL]anes?|LANES?)(?:_?(?:[sS]ize|SIZE|[tT]hreads|THREADS|[lL]anes|LANES|[wW]idth|WIDTH|[mM]ask|MASK"
    r"|[cC]ount|COUNT|[bB]its|BITS|[sS]hift|SHIFT))?"
)
"""Names for the size of a warp, its mask, or the bits of it; the tile of a warp (`WARP_N`) is none."""

_ABOUT_WARPS = lazy_regex(_WARP_NAME + r"\Z")
_SIZED = lazy_regex(r"[ \t]{0,20}=?[ \t]{0,20}\(?(?P<value>32|31|5|0x1[fF]|0x20)[uU]?[lL]{0,2}\b")
_DEFINES = lazy_regex(
    r"(?:\#[ \t]{0,8}define[ \t]{1,8}|\b(?:constexpr|const)\s{1,8}(?:static\s{1,8})?(?:\w{1,40}\s{1,8}){1,2}"
    r"|\bstatic\s{1,8}const(?:expr)?\s{1,8}\w{1,40}\s{1,8}|\benum\b[^{};]{0,80}\{\s{0,80})\Z"
)
_BY_THEMSELVES = frozenset({"warpSize", "WARP_SIZE", "C10_WARP_SIZE", "kWarpSize"})
"""Names whose every use is listed."""

_TILE = lazy_regex(r"\b(?P<name>tiled_partition|thread_block_tile)\s{0,8}<\s{0,8}(?P<size>\w+)")
_HALVING = lazy_regex(r"=\s*16\s*;[^;{}]{0,60};[^;{}]{0,60}(?:>>=\s*1|/=\s*2|>>\s*1|/\s*2)\b")
_EXCHANGE = lazy_regex(r"shfl|SHFL|ballot|syncwarp")
_COMPARED = lazy_regex(r"(?P<operator>[<>=]=|<)[ \t]{0,8}(?P<number>32|31)\b(?![\w.])")
_OF_WARPS = lazy_regex(r"__shfl|__syncwarp|__ballot|__any_sync|__all_sync|__activemask|\bvolatile\b|(?i:warp)")
_FOLDED = lazy_regex(r"\[\s*\w+\s*\+\s*(?:32|16)\s*\]")

_ABOUT_ARCHITECTURES = lazy_regex(
    r"(?i:sm(?:_?(?:version|arch|ver|major))?(?:_?num)?|cc(?:_?(?:major|minor|version))?|compute_?cap\w{0,12}"
    r"|(?:cuda_?|device_?|gpu_?)arch\w{0,8}|(?:get_?)?(?:sm_?version(?:_?num)?|device_?cap\w{0,12})|capability)\Z"
)
_COMPARED_ARCHITECTURE = lazy_regex(
    r"[ \t]{0,4}(?:\([ \t]{0,4}\w{0,40}[ \t]{0,4}\)[ \t]{0,4})?(?:[<>]=?|==|!=)[ \t]{0,4}"
    r"(?P<number>[0-9]{1,4})\b(?![ \t]{0,4}\*)"
)
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
"""A type at the end of what stands before a name."""

_NOT_TYPES = frozenset(
    {"return", "else", "const", "volatile", "static", "case", "new", "restrict", "delete", "__device__"}
)


class Hazard(NamedTuple):
    """One place: where it is, its kind as of `review.kinds`, and what stands there."""

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
    for match in _TILE.finditer(code) if "tiled_partition" in code or "thread_block_tile" in code else ():
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
    """Yield the places that compare a number of an architecture."""
    code = source.code
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
    depends: set[str] | None = None
    for match in _BY_NUMBER.finditer(body):
        number = match["number"]
        wanted = _WARP.get(match["operator"], -2)
        value = _value(number)
        if wanted < 0 or value not in (None, wanted) or (value is None and not _is_constant(number)):
            continue
        if match["operator"] == "&" and body[match.start() - 1 : match.start()] == "&":
            continue
        operand = _operand(body, match.start())
        depends = _dependent(body) if depends is None else depends
        if not any(word in depends or _THREAD.match(word) for word in _WORD.findall(operand)):
            continue
        if value is None:
            value = _value_of(source, number)
        if value == wanted or (value is None and wanted != 5 and is_about_warps(number)):
            text = f"{operand} {match['operator']} {number}"
            yield _warp(begin + match.start() - len(operand.rstrip()), text, warps)
    for match in _HALVING.finditer(body) if "16" in body else ():
        if _EXCHANGE.search(body, match.end(), match.end() + 300):
            yield _warp(begin + match.start(), match.group().lstrip("= "), warps)
    if ("32" in body or "31" in body) and _OF_WARPS.search(body) is not None:
        depends = _dependent(body) if depends is None else depends
        for match in _COMPARED.finditer(body):
            if int(match["number"]) != (31 if match["operator"] == "<=" else 32):
                continue
            left = _operand(body, match.start())
            if any(word in depends or _THREAD.match(word) for word in _WORD.findall(left)):
                yield _warp(begin + match.start() - len(left), f"{left} {match.group()}", warps)
    if "volatile" in code[max(0, begin - 300) : end] and (folded := _FOLDED.search(body)) is not None:
        yield _warp(begin + folded.start(), f"volatile {folded.group()}", warps)


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


def _value(text: str) -> int | None:
    """Return the value of a number in C++; None for a name."""
    if not text[:1].isdigit():
        return None
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:
        return -1


def _dependent(body: str) -> set[str]:
    """Return the variables of a function whose value comes from the number of the thread in its block."""
    assigned: list[tuple[str, list[str]]] = []
    for match in _ASSIGNED.finditer(body):
        name = last_word(body[max(0, match.start() - 60) : match.start()].rstrip())
        words = _WORD.findall(_INDEXED.sub("", match[1])) if name else []
        if words and "blockIdx" not in words:
            assigned.append((name, words))
    found: set[str] = set()
    for _ in range(4):
        before = len(found)
        found |= {name for name, words in assigned if any(word in found or _THREAD.match(word) for word in words)}
        if len(found) == before:
            break
    return found


def _operand(body: str, at: int) -> str:
    """Return what stands in front of an operator: a name with its members, or what is in parentheses."""
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
    for match in _ATOMIC.finditer(code):
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
        match = _DECLARED_TYPE.search(code, max(begin, end - 120), end)
        if match is None or code[end + len(name) : end + len(name) + 40].lstrip()[:1] == "(":
            continue
        kind = " ".join(match["type"].split())
        if "Accessor" in kind and match["arguments"]:
            kind = match["arguments"].strip("<> ").partition(",")[0].strip()
        if kind not in _NOT_TYPES and not kind[:1].isdigit():
            return kind
    return ""
