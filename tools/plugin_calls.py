"""Read from the sources of op-plugin which function of CANN each operator of torch ends in, and with which tensors.

An operator is served in one of two ways: `op_plugin_functions.yaml` names the function (`exec: aclnnExp`), or a C++
function of the operator's name calls it (`EXEC_NPU_CMD(aclnnIndex, self, indices, result)`). Of the C++ only what is
plain is taken: every way through the function that a tensor of the device with elements can go hands a parameter,
unconverted, to a function of CANN. Where a tensor is converted first, or one of the ways does without such a call,
nothing is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Handed(NamedTuple):
    """A tensor as a function of CANN gets it.

    Attributes:
        function: The function, such as `aclnnIndex`.
        position: Which of its arguments, from 0.
    """

    function: str
    position: int


Ways = frozenset[frozenset[Handed]]
"""What happens to one argument of an operator: for each way through the kernel, all that it is handed to."""


@dataclass(frozen=True)
class Schema:
    """A declaration of an operator.

    Attributes:
        name: With overload, without `aten::`.
        arguments: Their names, in order, with C++'s kinds: `tensor`, `scalar` or `other`.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]


def parse_schema(text: str) -> Schema | None:
    """Return what `name.overload(Tensor self, *, int dim=0) -> ...` declares; None for what is no declaration."""
    name, opened, rest = text.partition("(")
    if not opened or "->" not in rest:
        return None
    inside = rest[: rest.rindex("->")].rstrip()[:-1]
    arguments = []
    for part in split_arguments(inside):
        if part == "*":
            continue
        kind, _, named = part.partition("=")[0].strip().rpartition(" ")
        arguments.append((named, _kind_of_schema(kind)))
    return Schema(name.strip(), tuple(arguments))


def _kind_of_schema(kind: str) -> str:
    if kind.startswith("Tensor"):
        return "tensor"
    return "scalar" if kind in ("Scalar", "Scalar?") else "dimname" if "Dimname" in kind else "other"


def split_arguments(text: str) -> list[str]:
    """Split at the commas that stand in no bracket, and in no list of types such as `SmallVector<int64_t, 8>`."""
    text = re.sub(r"(?<=\w)<[\w:,\s]*>", lambda found: found[0].replace(",", " "), text)
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


@dataclass(frozen=True)
class Declared:
    """An operator as the settings of op-plugin have it.

    Attributes:
        schema: Its declaration.
        calls: The function of CANN that is named, with the names that it is handed; empty where C++ does it.
    """

    schema: Schema
    calls: tuple[str, ...] = ()


_FUNC = re.compile(r"^  - func: (?P<schema>\S.*)$")
_EXEC = re.compile(r"^      exec: (?P<call>aclnn\w+(?:, .*)?)$")
_INHERIT = re.compile(r"^ +structured_(?:inherit|delegate): (?P<other>\S+)$")


def read_functions(text: str) -> list[Declared]:
    """Return what `op_plugin_functions.yaml` declares, that which inherits with the call of what it inherits from."""
    rows: list[tuple[Schema, list[str], str]] = []
    for line in text.splitlines():
        if found := _FUNC.match(line):
            schema = parse_schema(found["schema"])
            if schema is not None:
                rows.append((schema, [], ""))
        elif rows and (found := _EXEC.match(line)):
            rows[-1][1].append(found["call"])
        elif rows and (found := _INHERIT.match(line)):
            rows[-1] = (rows[-1][0], rows[-1][1], found["other"])
    by_name = {schema.name: (schema, execs) for schema, execs, _ in rows}
    declared = []
    for schema, execs, other in rows:
        if other in by_name and not execs:
            execs = by_name[other][1]
        calls: tuple[str, ...] = ()
        if len(execs) == 1:
            function, *given = (part.strip() for part in execs[0].split(","))
            calls = (function, *(given or (name for name, _ in schema.arguments)))
        declared.append(Declared(schema, calls))
    return declared


def ways_of_declared(declared: Declared) -> dict[str, Ways]:
    """Return what happens to each tensor of an operator whose call is named in the settings."""
    function, *given = declared.calls
    tensors = {name for name, kind in declared.schema.arguments if kind == "tensor"}
    return {
        name: frozenset({frozenset({Handed(function, position)})})
        for position, name in enumerate(given)
        if name in tensors and given.count(name) == 1
    }


# --- C++ ---


@dataclass(frozen=True)
class Function:
    """A function in C++.

    Attributes:
        name: Its name, without namespaces.
        parameters: Names and kinds, as `Schema.arguments`.
        body: What stands between its braces.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    body: str


_COMMENT = re.compile(r"^[ \t]*#[^\n]*|//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL | re.MULTILINE)
_NAME_BEFORE = re.compile(r"\b(?P<name>[A-Za-z_]\w*)$")
_OPENS_BODY = re.compile(r"\s*\{")


def without_comments(text: str) -> str:
    """Return C++ without comments, and with empty strings."""
    return _COMMENT.sub(lambda found: '""' if found[0].startswith('"') else " ", text)


def closing(text: str, at: int) -> int:
    """Return where the bracket closes that opens at `at`; -1 where it does not."""
    pairs = {"(": ")", "{": "}"}
    opened, closed, depth = text[at], pairs[text[at]], 0
    for place in range(at, len(text)):
        if text[place] == opened:
            depth += 1
        elif text[place] == closed:
            depth -= 1
            if depth == 0:
                return place
    return -1


def functions(text: str) -> Iterator[Function]:
    """Yield the functions that a C++ file defines outside of classes; `text` has no comments."""
    begin = 0
    while (opened := text.find("{", begin)) >= 0:
        head = text[begin:opened]
        last = max(head.rfind(";"), head.rfind("}"))
        head = head[last + 1 :].strip()
        if re.match(r"(?:inline )?namespace\b", head) or head.startswith(("extern", "#")):
            begin = opened + 1
            continue
        end = closing(text, opened)
        if end < 0:
            return
        bracket = head.find("(")
        name = _NAME_BEFORE.search(head[:bracket].rstrip()) if bracket > 0 and head.endswith(")") else None
        if name is not None and closing(head, bracket) == len(head) - 1:
            parameters = tuple(map(_parameter, split_arguments(head[bracket + 1 : -1])))
            yield Function(name["name"], parameters, text[opened + 1 : end])
        begin = end + 1


def _parameter(text: str) -> tuple[str, str]:
    declared = " ".join(text.partition("=")[0].split())
    name = declared.split(" ")[-1].lstrip("&*")
    kind = "other"
    if re.search(r"\bTensor\b|\bTensorList\b|ITensorListRef", declared):
        kind = "tensor"
    elif re.search(r"\bScalar\b", declared) and "Type" not in declared and "ArrayRef" not in declared:
        kind = "scalar"
    elif "Dimname" in declared:
        kind = "dimname"
    return name, kind


@dataclass
class Branch:
    """A statement: `if` with what it decides, a loop, or a plain one.

    Attributes:
        text: The statement, or the condition.
        then: What is done where the condition holds.
        otherwise: What is done where it does not.
        is_choice: Whether it decides.
        is_loop: Whether it repeats `then`, or not.
    """

    text: str
    then: list[Branch] = field(default_factory=list)
    otherwise: list[Branch] = field(default_factory=list)
    is_choice: bool = False
    is_loop: bool = False


class _UnclearError(Exception):
    """The C++ is not plain enough."""


def statements(text: str) -> list[Branch]:
    """Return the statements of a body.

    Raises:
        _UnclearError: it has a `switch`, `goto`, `try`, or cannot be read.
    """
    found: list[Branch] = []
    at = 0
    while at < len(text):
        if text[at] in " \t\n\r;":
            at += 1
            continue
        branch, at = _statement(text, at)
        found.append(branch)
    return found


def _statement(text: str, at: int) -> tuple[Branch, int]:
    start = re.compile(r"\s*").match(text, at)
    at = start.end() if start else at
    if at >= len(text):
        return Branch(""), at
    if text[at] == "{":
        end = closing(text, at)
        if end < 0:
            raise _UnclearError
        return Branch("true", statements(text[at + 1 : end]), [], is_choice=True), end + 1
    word = re.compile(r"\w*").match(text, at)
    name = word[0] if word else ""
    if name in ("switch", "goto", "try", "do", "case", "default", "else"):
        raise _UnclearError
    if name in ("if", "for", "while"):
        opened = text.find("(", at)
        closed = closing(text, opened)
        if closed < 0:
            raise _UnclearError
        then, after = _statement(text, closed + 1)
        branch = Branch(text[opened + 1 : closed], [then], is_choice=name == "if", is_loop=name != "if")
        rest = re.compile(r"\s*else\b").match(text, after)
        if name == "if" and rest:
            otherwise, after = _statement(text, rest.end())
            branch.otherwise = [otherwise]
        return branch, after
    depth, place = 0, at
    while place < len(text):
        letter = text[place]
        depth += (letter in "({[") - (letter in ")}]")
        if depth < 0:
            raise _UnclearError
        if letter == ";" and depth == 0:
            return Branch(text[at:place]), place + 1
        place += 1
    return Branch(text[at:]), place


class _Call(NamedTuple):
    function: str
    given: tuple[str, ...]


class _Way(NamedTuple):
    calls: tuple[_Call, ...]
    ended: bool
    host: frozenset[str] = frozenset()  # tensors that lie on the CPU, or have no elements, on this way


_MOST_WAYS = 128
_RETURNED = re.compile(r"\breturn\b([^;]*);")
_SEEN = re.compile(r"^\w+(?:\.(?:as_strided|contiguous|view|reshape)\(.*\))?$", re.DOTALL)
_EXEC_CALL = re.compile(r"\bEXEC_NPU(?:_NO_FORMAT_CHECK)?_CMD(?:_SYNC)?\s*\(")
_EMPTY = re.compile(r"^\s*(?P<name>\w+)\.numel\(\)\s*==\s*0\s*$")
_ON_HOST = re.compile(
    r"!\s*(?:torch_npu::utils::)?is_npu\((?P<name>\w+)\)"
    r"|(?:is_scalar_wrapped_to_tensor|IsCPUScalar)\((?P<other>\w+)\)"
    r"|(?P<third>\w+)\.device\(\)(?:\.type\(\) == at::kCPU|\.is_cpu\(\))"
)
_NEWEST = re.compile(r"^\s*(?P<other>!\s*)?(?:is_ascend950_path\(\)|c10_npu::IsAclnnOnly\(\))\s*$")
"""Asks for the newest cards alone, which may go another way: what is said of a kernel that asks is not said of them."""

_UNDEFINED = re.compile(r"^\s*!\s*(?P<name>\w+)\.(?:defined|has_value)\(\)\s*$")


class Kernels:
    """The C++ kernels of op-plugin.

    Args:
        functions: Those that were read, of all files.
    """

    def __init__(self, functions: Iterable[Function]) -> None:
        self._by_name: dict[str, list[Function]] = {}
        for each in functions:
            self._by_name.setdefault(each.name, []).append(each)
        self._known: dict[int, dict[str, Ways]] = {}

    def of(self, schema: Schema) -> list[Function]:
        """Return the kernels of an operator, by its name and the kinds of its parameters; one a version of torch."""
        base = schema.name.partition(".")[0]
        kinds = [kind for _, kind in schema.arguments]
        for name in (f"{base}_out_symint", f"{base}_out", f"{base}_symint", base):
            found = [each for each in self._by_name.get(name, ()) if [kind for _, kind in each.parameters] == kinds]
            if found:
                return found
        return []

    def ways(self, schema: Schema) -> dict[str, Ways]:
        """Return what happens to the tensors of an operator that C++ serves; empty where nothing is plain."""
        result: dict[str, Ways] | None = None
        for function in self.of(schema):
            names = [name for name, _ in schema.arguments]
            ways = self._ways_of(function)
            found = {
                name: ways[parameter]
                for name, (parameter, kind) in zip(names, function.parameters, strict=True)
                if kind == "tensor" and parameter in ways
            }
            result = (
                found if result is None else {name: result[name] | found[name] for name in result.keys() & found.keys()}
            )
        return result or {}

    def met(self, schema: Schema) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return the functions of CANN that a kernel may come to with something that is made of a tensor of its own.

        The kernel may convert the tensor first, or go another way: what such a function does not take may pass, and
        what it takes does. With each function are the places among its arguments, in order.
        """
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        names = [name for name, _ in schema.arguments]
        for function in self.of(schema):
            for name, (parameter, kind) in zip(names, function.parameters, strict=True):
                if kind == "tensor":
                    of_name = found.setdefault(name, {})
                    for aclnn, place in self._met(function, parameter, set()):
                        of_name[aclnn] = tuple(sorted({*of_name.get(aclnn, ()), place}))
        return found

    def _met(self, function: Function, parameter: str, seen: set[tuple[int, str]]) -> set[Handed]:
        if (id(function), parameter) in seen:
            return set()
        seen.add((id(function), parameter))
        made = _made_of(function.body, parameter)
        met: set[Handed] = set()
        for found in re.finditer(r"\b(?P<name>\w+)\s*\(", function.body):
            macro = _EXEC_CALL.match(function.body, found.start())
            callees = self._by_name.get(found["name"], ())
            before = function.body[: found.start()].rstrip()
            if macro is None and (not callees or before.endswith(_NOT_OURS)):
                continue
            closed = closing(function.body, found.end() - 1)
            given = split_arguments(function.body[found.end() : closed]) if closed > 0 else []
            if macro is not None and given:
                met |= {Handed(given[0], at) for at, value in enumerate(given[1:]) if _words(value) & made}
                continue
            for callee in callees:
                if len(callee.parameters) == len(given):
                    for (name, _), value in zip(callee.parameters, given, strict=True):
                        met |= self._met(callee, name, seen) if _words(value) & made else set()
        return met

    def asks_for_newest(self, schema: Schema) -> bool:
        """Return whether the kernel of an operator does something else on the newest cards, as far as it is plain."""
        return any(re.search(r"is_ascend950_path|IsAclnnOnly", each.body) for each in self.of(schema))

    def returned(self, name: str, count: int) -> int:
        """Return which of its `count` arguments a function returns, as it is or seen otherwise; -1 for none."""
        found = [each for each in self._by_name.get(name, ()) if len(each.parameters) == count]
        if len(found) != 1:
            return -1
        names = [parameter for parameter, kind in found[0].parameters if kind == "tensor"]
        given = {value.split(".")[0].strip() for value in _RETURNED.findall(found[0].body)}
        plain = all(_SEEN.match(value.strip()) for value in _RETURNED.findall(found[0].body))
        if not plain or len(given) != 1 or not given <= set(names):
            return -1
        return [parameter for parameter, _ in found[0].parameters].index(given.pop())

    def _ways_of(self, function: Function) -> dict[str, Ways]:
        """Return, for each parameter, what it is handed to; without those of which a way hands it to nothing."""
        if id(function) not in self._known:
            self._known[id(function)] = {}  # for a function that calls itself
            self._known[id(function)] = self._examine(function)
        return self._known[id(function)]

    def _examine(self, function: Function) -> dict[str, Ways]:
        tensors = [name for name, kind in function.parameters if kind == "tensor"]
        aliases = Aliases(function, self)
        result: dict[str, Ways] = {}
        try:
            ways = self._walk(statements(function.body), [_Way((), False)])
        except _UnclearError:
            return {}
        for tensor in tensors:
            of_tensor: set[frozenset[Handed]] = set()
            for way in ways:
                if tensor in way.host or any(aliases.of(name) == tensor for name in way.host):
                    continue
                options: set[frozenset[Handed]] = {frozenset()}
                for call in way.calls:
                    options = self._handed(call, tensor, aliases, options)
                of_tensor |= options
            if of_tensor and frozenset() not in of_tensor and len(of_tensor) <= _MOST_WAYS:
                result[tensor] = frozenset(of_tensor)
        return result

    def _handed(
        self, call: _Call, tensor: str, aliases: Aliases, options: set[frozenset[Handed]]
    ) -> set[frozenset[Handed]]:
        positions = [at for at, given in enumerate(call.given) if aliases.of(given) == tensor]
        if call.function.startswith("aclnn"):
            added = frozenset(Handed(call.function, at) for at in positions)
            return {option | added for option in options}
        callees = [each for each in self._by_name.get(call.function, ()) if len(each.parameters) == len(call.given)]
        if not callees or not positions:
            return options
        for at in positions:
            of_each = [self._ways_of(callee).get(callee.parameters[at][0]) for callee in callees]
            of_parameter = frozenset().union(*(ways for ways in of_each if ways)) if all(of_each) else None
            if of_parameter:
                options = {option | way for option in options for way in of_parameter}
                if len(options) > _MOST_WAYS:
                    return {frozenset()}
        return options

    def _walk(self, tree: list[Branch], ways: list[_Way]) -> list[_Way]:
        for branch in tree:
            ended = [way for way in ways if way.ended]
            going = [way for way in ways if not way.ended]
            if branch.is_choice or branch.is_loop:
                ways = ended + self._choose(branch, going)
            else:
                calls = tuple(self._calls(branch.text))
                # a check that fails ends the call for another reason
                ends = re.match(r"\s*return\b", branch.text) is not None
                ways = ended + [_Way((*way.calls, *calls), ends, way.host) for way in going]
            if len(ways) > _MOST_WAYS:
                raise _UnclearError
        return ways

    def _choose(self, branch: Branch, going: list[_Way]) -> list[_Way]:
        if branch.text == "true":
            return self._walk(branch.then, going)
        if newest := _NEWEST.match(branch.text):
            return self._walk(branch.then if newest["other"] else branch.otherwise, going)
        asked = tuple(self._calls(branch.text))
        going = [way._replace(calls=(*way.calls, *asked)) for way in going]
        host = {name for found in _ON_HOST.finditer(branch.text) for name in found.groups() if name}
        host |= {found["name"] for found in (_EMPTY.match(branch.text), _UNDEFINED.match(branch.text)) if found}
        if "||" in branch.text:
            host = set()
        then = self._walk(branch.then, [way._replace(host=way.host | host) for way in going])
        return then + (going if not branch.otherwise else self._walk(branch.otherwise, going))

    def _calls(self, text: str) -> Iterator[_Call]:
        if "DO_COMPATIBILITY" in text or "DO_MATMUL_COMPATIBILITY" in text:
            return
        for found in re.finditer(r"\b(?P<name>\w+)\s*\(", text):
            name = found["name"]
            macro = _EXEC_CALL.match(text, found.start())
            if macro is None and name not in self._by_name:
                continue
            before = text[: found.start()].rstrip()
            if macro is None and before.endswith(_NOT_OURS):
                continue
            closed = closing(text, found.end() - 1)
            if closed < 0:
                raise _UnclearError
            given = split_arguments(text[found.end() : closed])
            if macro is not None:
                yield _Call(given[0], tuple(given[1:]))
            else:
                yield _Call(name, tuple(given))


_NOT_OURS = (".", "at::", "acl_op::", "at::native::")
"""What stands before a name that is no kernel of op-plugin's."""

_ADDED = re.compile(r"\b(?P<name>\w+)\.(?:push_back|emplace_back|append)\((?P<value>[^;]*)\);")
_EACH = re.compile(r"\bfor\s*\([^;()]*?(?P<name>\w+)\s*:(?!:)(?P<value>[^;{]*)\)")
_MADE = re.compile(r"\b(?P<name>\w+)\((?P<value>[^;{}]*)\);")


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _made_of(body: str, parameter: str) -> set[str]:
    """Return the names in a function that are given something in which a parameter stands, itself among them."""
    given = [(found["name"], _words(found["value"])) for form in (_ASSIGNED, _ADDED, _EACH, _MADE)
             for found in form.finditer(body)]  # fmt: skip
    made, before = {parameter}, 0
    while len(made) != before:
        before = len(made)
        made |= {name for name, words in given if words & made}
    return made


_ASSIGNED = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<value>[^;]*);")
_UNCHANGED = (
    re.compile(r"^(?P<name>\w+)$"),
    re.compile(r"^(?P<name>\w+)\.(?:contiguous|clone)\(\)$"),
    re.compile(r"^(?P<name>\w+)\.resize_\([^()]*\)$"),
    re.compile(r"^c10::value_or_else\((?P<name>\w+),\s*\[\]\s*\(?\)?\s*\{.*\}\)$", re.DOTALL),
    re.compile(r"^(?:self_tensor_to_device)\((?P<name>\w+),.*\)$", re.DOTALL),
    re.compile(r"^(?P<name>\w+)\.has_value\(\) \? (?:\*(?P=name)|(?P=name)\.value\(\)) : at::Tensor\(\)$"),
)
_CALLED = re.compile(r"^(?P<name>\w+)\((?P<given>.*)\)$", re.DOTALL)
_NOTHING = re.compile(r"^(?:at::Tensor\(\)|c10::nullopt|std::nullopt)$")


class Aliases:
    """Which names in a function stand for a parameter, unconverted."""

    def __init__(self, function: Function, kernels: Kernels) -> None:
        self._kernels = kernels
        self._parameters = {name for name, _ in function.parameters}
        self._values: dict[str, list[str]] = {}
        for found in _ASSIGNED.finditer(function.body):
            self._values.setdefault(found["name"], []).append(" ".join(found["value"].split()))

    def of(self, name: str, depth: int = 0) -> str:
        """Return the parameter that a name stands for; empty for what is none, or may be something else."""
        values = [value for value in self._values.get(name, ()) if not _NOTHING.match(value)]
        if name in self._parameters:
            return "" if values else name
        if not values or depth > 4:
            return ""
        parameters = {self._of_value(value, depth) for value in values}
        return parameters.pop() if len(parameters) == 1 else ""

    def _of_value(self, value: str, depth: int) -> str:
        for form in _UNCHANGED:
            if found := form.match(value):
                return self.of(found["name"], depth + 1)
        if found := _CALLED.match(value):
            given = split_arguments(found["given"])
            at = self._kernels.returned(found["name"], len(given))
            return self.of(given[at], depth + 1) if at >= 0 else ""
        return ""


def all_ways(declared: Iterable[Declared], kernels: Kernels) -> Mapping[str, dict[str, Ways]]:
    """Return, for each operator, what happens to those of its tensors of which it is plain."""
    found: dict[str, dict[str, Ways]] = {}
    for each in declared:
        ways = ways_of_declared(each) if each.calls else kernels.ways(each.schema)
        if not ways:
            continue
        name = each.schema.name
        if name in found and found[name] != ways:
            found[name] = {}
        else:
            found[name] = ways
    return {name: ways for name, ways in found.items() if ways}
