"""What the sources of a tree say of one kernel beyond its own lines: what it calls, how it is started, its dtypes.

Only requests ask for it, so it reads the files again that they are about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.kernels.device_code import DeviceCode, Kernel, Launch, called_function, constants, device_code
from torchferry.kernels.device_macros import arguments_at
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.tokens import SourceTokens, decode

_CALL = lazy_regex(r"\b([A-Za-z_]\w*)\s*(?:<[^;{}()]{0,200}>\s*)?\(")
_DISPATCH = lazy_regex(r"\b(?!NV_)(?:\w{1,200}_)?DISPATCH_[A-Z0-9_]+(?=\s*\()")
_SCALAR_TYPE = lazy_regex(r"(?:(?:at|c10|torch)::)?(?:ScalarType::|k)?([A-Z]\w*)")
_TEMPLATE_TYPE = lazy_regex(r"\b(?:typename|class)\s+(\w+)")
_QUALIFIER = lazy_regex(r"\b(?:const|volatile|__restrict__|__restrict|RESTRICT|struct|typename)\b")
_BRACE = lazy_regex(r"[{}]")
_WORD = lazy_regex(r"[A-Za-z_]\w*")
_INCLUDE = lazy_regex(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_ON_CPU = lazy_regex(
    r"\b(?:\w{0,200}_)?(?:cpu|CPU|Cpu)(?:_\w*)?(?=\s*(?:<[^<>;{}()]*>\s*)?\()|\b\w{1,200}(?:CPU|Cpu)\b(?=\s*\()"
)

_NUMBERS = frozenset({"int", "float", "double", "bool", "char", "short", "long", "unsigned", "half", "__half", "dim3"})

_SCALAR = lazy_regex(r"\b(?:float|double|half|__half|__nv_bfloat16|at::Half|at::BFloat16|c10::Half)\b")
_ALIAS = lazy_regex(r"\busing\s+(\w+)\s*=\s*([\w:]+)\s*;")
_OF_GEOMETRY = r"dim3|int|unsigned(?:\s+int)?|auto|u?int(?:32|64)_t|size_t|cudaStream_t"

_VECTOR = lazy_regex(r"(u?char|u?short|u?int|u?long|u?longlong|float|double|half|__half|__nv_bfloat16)([1-4])\Z")
_ELEMENTS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
}
"""CUDA's vector types and their elements (`vector_types.h`)."""

_MOST = 8
_BACK = 6000
"""Characters in front of a launch in which its dispatch and the variables of its geometry are looked for."""


class CalledFunction(NamedTuple):
    """A function for the device that a kernel calls, itself or by another one.

    Attributes:
        name: Its name.
        path: Of the file, relative to the tree.
        line: Where it is defined.
        uses: What its body has that a person has to look at, as of `Kernel.uses`.
    """

    name: str
    path: str
    line: int
    uses: tuple[tuple[str, int], ...]


class _Defined(NamedTuple):
    """A function in a file: where it begins, its body, and the lines of both ends."""

    name: str
    path: str
    body: tuple[int, int]
    lines: tuple[int, int]


class KernelFacts:
    """What the sources of a tree say of its kernels.

    Args:
        ported: The tree.
    """

    def __init__(self, ported: PortedTree) -> None:
        self._data = {file.path: file.before for file in ported.files if file.is_source}
        self._items: dict[str, list[tuple[int, str]]] = {}
        for item in ported.items:
            self._items.setdefault(item.path, []).append((item.line, item.kind))
        for path, places in ported.further.items():
            self._items.setdefault(path, []).extend(places)
        self._tokens: dict[str, SourceTokens] = {}
        self._device: dict[str, DeviceCode] = {}
        self._ends: dict[str, list[int]] = {}
        self._near: dict[str, set[str]] = {}

    def _source(self, path: str) -> SourceTokens:
        if path not in self._tokens:
            self._tokens[path] = SourceTokens(decode(self._data[path]))
        return self._tokens[path]

    def called(self, kernel: Kernel) -> tuple[CalledFunction, ...]:
        """Return the functions for the device that a kernel calls, in order of place.

        They are those of its own file and of the headers that this one includes, itself or by others of the tree.
        """
        near = self._included(kernel.path)
        reached: dict[_Defined, None] = {}
        level = [_Defined(kernel.name, kernel.path, kernel.body, (kernel.line, kernel.last_line))]
        while level:
            callees = [each for function in level for each in self._callees(function, near)]
            level = [each for each in dict.fromkeys(callees) if each not in reached]
            reached.update(dict.fromkeys(level))
        return tuple(
            CalledFunction(each.name, each.path, each.lines[0], self._uses(each))
            for each in sorted(reached, key=lambda each: (each.path, each.lines))
        )

    def _callees(self, function: _Defined, near: set[str]) -> Iterator[_Defined]:
        body = self._source(function.path).code[slice(*function.body)]
        for name in {match[1] for match in _CALL.finditer(body)}:
            found = self._functions.get(name, ())
            own = [each for each in found if each.path == function.path]
            yield from own or (each for each in found if each.path in near)

    def _included(self, path: str) -> set[str]:
        """Return the files of the tree that a file includes, itself or by others; by their names alone."""
        if path not in self._near:
            reached, level = {path}, [path]
            while level:
                names = {
                    each.rpartition("/")[2] for file in level for each in _INCLUDE.findall(self._source(file).text)
                }
                level = [each for each in self._data if each not in reached and each.rpartition("/")[2] in names]
                reached.update(level)
            self._near[path] = reached
        return self._near[path]

    @cached_property
    def _functions(self) -> dict[str, list[_Defined]]:
        """The functions for the device that the tree defines, by name."""
        found: dict[str, list[_Defined]] = {}
        for path, data in self._data.items():
            if b"__device__" in data:
                source = self._source(path)
                for name, body in device_functions(source):
                    lines = source.position(body[0])[0], source.position(body[1])[0]
                    found.setdefault(name, []).append(_Defined(name, path, body, lines))
        return found

    def _uses(self, function: _Defined) -> tuple[tuple[str, int], ...]:
        first, last = function.lines
        counts = Counter(kind for line, kind in self._items.get(function.path, ()) if first <= line <= last)
        counts.pop("kernel-rewrite", None)
        return tuple(sorted(counts.items()))

    def uses(self, kernel: Kernel) -> tuple[tuple[str, int], ...]:
        """Return what a kernel's body has that whoever writes it must know, by kind, with how many places."""
        return kernel.uses

    def shared(self, kernel: Kernel, called: tuple[CalledFunction, ...]) -> tuple[Message, ...]:
        """Return what a kernel and the functions that it calls declare as shared memory, with its bytes."""
        own = [(kernel.path, kernel.line, kernel.last_line)]
        for callee in called:
            own += [
                (each.path, *each.lines)
                for each in self._functions[callee.name]
                if (each.path, each.lines[0]) == (callee.path, callee.line)
            ]
        found: list[Message] = []
        for path, first, last in own:
            if path not in self._device:
                self._device[path] = device_code(path, self._source(path), None)
            found += [item.message for item in self._device[path].items if first <= item.line <= last]
        return tuple(found)

    def geometry(self, launch: Launch) -> tuple[str, ...]:
        """Return what names in a launch's geometry represent, as the lines in front of it or constants say."""
        at = self._launch_offset(launch)
        before = self._source(launch.path).code[max(0, at - _BACK) : at]
        found: dict[str, str] = {}
        names = list(dict.fromkeys(_WORD.findall(launch.geometry)))
        if names == [launch.geometry] and launch.geometry in self._launching:
            found[launch.geometry] = self._launching[launch.geometry]
            names = _WORD.findall(found[launch.geometry])
        for name in names:  # grows by those that definitions name
            if name in found or len(found) == _MOST:
                continue
            value = r"(?:[(=][^;{}]*|\{[^;{}]*\})(?=;)"
            declared = list(re.finditer(rf"\b(?:{_OF_GEOMETRY})\s+{name}\s*{value}", before))
            if declared:
                found[name] = " ".join(declared[-1][0].split())[:200]
                names += _WORD.findall(found[name])
            elif len(values := self._numbers.get(name, set())) == 1:
                found[name] = f"{name} = {next(iter(values))}"
        return tuple(found.values())

    @cached_property
    def _launching(self) -> dict[str, str]:
        """The geometry that each macro of the tree has which starts a kernel."""
        found: dict[str, str] = {}
        for path, data in self._data.items():
            if b"<<<" in data and b"define" in data:
                source, at = self._source(path), -1
                while (at := source.code.find("<<<", at + 1)) >= 0:
                    directive = source.directive_at(at)
                    if directive is not None and directive.word == "define":
                        name = _WORD.search(source.code, directive.body)
                        text = source.code[at : source.code.find(">>>", at) + 3].replace("\\", " ")
                        if name is not None:
                            found.setdefault(name[0], " ".join(text.split())[:400])
        return found

    @cached_property
    def _numbers(self) -> dict[str, set[int]]:
        """What each constant of the tree is; several values where files differ."""
        found: dict[str, set[int]] = {}
        for path in self._data:
            for name, value in constants(self._source(path).code):
                found.setdefault(name, set()).add(value)
        return found

    def _launch_offset(self, launch: Launch) -> int:
        """Return where the line of a launch ends."""
        if launch.path not in self._ends:
            lines = self._source(launch.path).text.split("\n")
            self._ends[launch.path] = [end - 1 for end in accumulate(len(line) + 1 for line in lines)]
        return self._ends[launch.path][launch.line - 1]

    def dtypes(self, kernel: Kernel, launches: tuple[Launch, ...]) -> tuple[str, ...]:
        """Return what tells a kernel's dtypes: types of its pointers, and macros that choose its template's."""
        opening = kernel.signature.find("(", max(kernel.signature.rfind("__global__"), 0))
        while opening > 0 and called_function(kernel.signature[:opening]) != kernel.name:
            opening = kernel.signature.find("(", opening + 1)
        template = set(_TEMPLATE_TYPE.findall(kernel.signature[: max(opening, 0)]))
        _, parameters = arguments_at(kernel.signature, opening) if opening > 0 else (0, [])
        found: dict[str, None] = {}
        is_open = not parameters
        for parameter in _whole(parameters):
            is_open = is_open or not template.isdisjoint(_WORD.findall(parameter))
            pointed, star, _ = parameter.partition("*")
            kind = " ".join(_QUALIFIER.sub(" ", pointed).split())
            if star and template.isdisjoint(_WORD.findall(kind)):
                found[_as_vector(kind)] = None
            elif not star and kind.count(" ") == 1 and _is_struct(kind.partition(" ")[0]):
                is_open = True  # pointers are in what is passed
        if is_open:
            found.update(dict.fromkeys(self._dispatches(kernel, launches)))
        return tuple(found)

    def _dispatches(self, kernel: Kernel, launches: tuple[Launch, ...]) -> Iterator[str]:
        """Yield the macros of dispatch around the launches of a kernel; all of these files where none is around one."""
        around = []
        for launch in launches:
            code = self._source(launch.path).code
            at = self._launch_offset(launch)
            begin = max(0, at - _BACK)
            before = code[begin:at]
            written = list(re.finditer(rf"\b{kernel.name}\s*<([^;{{}}]{{0,400}}?)>\s*<<<", before))
            given = written[-1][1] if written else ""
            for alias, kind in _ALIAS.findall(before):
                given = re.sub(rf"\b{alias}\b", kind, given)
            if scalars := _SCALAR.findall(given):
                around += scalars  # written out: `scale<float><<<...>>>`
                continue
            for match in _DISPATCH.finditer(code, begin, at):
                end, arguments = arguments_at(code, code.index("(", match.end()))
                if end > at - len(launch.geometry):
                    around.append(_dispatch(match[0], arguments))
        if around:
            yield from around
            return
        for path in dict.fromkeys((*(launch.path for launch in launches), kernel.path)):
            code = self._source(path).code
            for match in _DISPATCH.finditer(code):
                if self._source(path).directive_at(match.start()) is None:
                    yield _dispatch(match[0], arguments_at(code, code.index("(", match.end()))[1])

    def named(self, kernel: Kernel) -> tuple[str, ...]:
        """Return where else a kernel is named: a launch through a pointer takes it from there."""
        found = []
        word = kernel.name.encode("latin-1", "replace")
        for path, data in self._data.items():
            if word in data:
                source = self._source(path)
                lines = [source.position(at)[0] for at in source.places(kernel.name)]
                found += [f"{path}:{line}" for line in lines if not _is_declared_at(kernel, path, line)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def functions_on_cpu(self) -> dict[str, str]:
        """Functions of the tree that are called like the CPU's side of an operator, with `path:line` of each."""
        found: dict[str, str] = {}
        for path, data in self._data.items():
            if b"cpu" in data or b"CPU" in data or b"Cpu" in data:
                source = self._source(path)
                for match in _ON_CPU.finditer(source.code):
                    end, _ = arguments_at(source.code, source.code.index("(", match.end()))
                    if source.code[end : end + 20].lstrip()[:1] == "{" and source.directive_at(match.start()) is None:
                        found.setdefault(match[0], f"{path}:{source.position(match.start())[0]}")
        return found


def device_functions(source: SourceTokens) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name and the extent of each function that is marked `__device__` and has a body."""
    code, behind = source.code, 0
    for at in source.places("__device__"):
        if at < behind:
            continue
        opening = code.find("(", at, at + 2000)
        while opening > 0 and not called_function(code[at + len("__device__") : opening]):
            opening = code.find("(", opening + 1, at + 2000)
        if opening < 0:
            continue
        name = called_function(code[at + len("__device__") : opening])
        end, _ = arguments_at(code, opening)
        start = code.find("{", end, end + 400)
        if start < 0 or ";" in code[end:start]:
            continue
        depth, stop = 0, start
        for match in _BRACE.finditer(code, start):
            depth += 1 if match[0] == "{" else -1
            stop = match.end()
            if not depth:
                break
        behind = stop
        yield name, (at, stop)


def _whole(parameters: list[str]) -> Iterator[str]:
    """Yield parameters with what a comma between `<` and `>` has divided in one piece again."""
    text = ""
    for parameter in parameters:
        text += f", {parameter}" if text else parameter
        if text.count("<") == text.count(">"):
            yield text
            text = ""


def _is_struct(kind: str) -> bool:
    return kind not in _NUMBERS and not kind.endswith("_t")


def _is_declared_at(kernel: Kernel, path: str, line: int) -> bool:
    return path == kernel.path and kernel.line <= line <= kernel.last_line


def _as_vector(kind: str) -> str:
    """Return a type, and of CUDA's vectors what they hold: `int4` are four 32-bit integers, and none of 4 bits."""
    match = _VECTOR.match(kind)
    return kind if match is None else f"{kind} ({match[2]} x {_ELEMENTS[match[1]]})"


def _dispatch(macro: str, arguments: list[str]) -> str:
    """Return a macro of dispatch with the dtypes that it is given beside its own."""
    added = []
    for argument in arguments:
        match = _SCALAR_TYPE.fullmatch(argument)
        if match is None:
            break
        added.append(match[1])
    return f"{macro}({', '.join(added)})" if added else macro
