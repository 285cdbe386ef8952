"""Where one Python file of a package chooses CUDA, asks for it, or needs a compiled kernel of its own.

A project's own files are examined by the rules, which say what to write in their place. A package is not rewritten:
what counts is whether it takes the device that it is given, and what a caller can do where it does not. So a place is
nothing here where the caller has decided, as below `if device.type == "cuda"`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property

from torchferry.backends import cuda
from torchferry.installed.generators import device_lists
from torchferry.installed.model import Evidence, PlaceNeed
from torchferry.rules.guarded import Guard, guard_of
from torchferry.rules.target_words import target_words
from torchferry.source.flow.syntax import callee, last_name
from torchferry.source.lexicon import lexicon
from torchferry.source.names import DEFINITIONS, Names, assigned_value
from torchferry.source.python import PythonFile


class _RunCondition(Enum):
    """What decides whether a place is run."""

    NOTHING = "nothing"
    ASKED = "asked"  # whether CUDA is available
    CALLER = "caller"  # the device, or a switch, that was given
    ASIDE = "aside"  # the program part of the file, or code that copes by itself


_CUDA = re.compile(r"cuda(?::.*)?\Z")
_SPEAKS = re.compile(r"cuda|gpu|nccl|nvidia|device|accelerat|backend|capability|hip", re.IGNORECASE)
_ASKS = frozenset({"is_available", "device_count", "is_cuda_available", "is_torch_cuda_available", "cuda_is_available"})
_HARMLESS = re.compile(
    r"torch\.cuda\.(?:is_available|device_count|empty_cache|ipc_collect|manual_seed\w*|seed\w*|is_initialized|"
    r"is_current_stream_capturing|is_bf16_supported|amp\b.*|(?:max_)?memory_(?:allocated|reserved|cached)|"
    r"get_rng_state_all|set_rng_state\w*|_lazy_call|OutOfMemoryError|CudaError|AcceleratorError|init_is_default)"
)
"""Names of `torch.cuda` that do nothing, or answer no, where there is no CUDA."""

_NAMED = re.compile(r"cuda|nvidia|nccl|(?<![a-z])gpus?(?![a-z])", re.IGNORECASE)
"""Names of functions, classes and settings that say themselves that they are for CUDA."""

_PLACES = frozenset({"to", "device", "autocast", "Generator", "set_default_device", "load", "_apply"})
_GETTERS = frozenset({"get", "pop", "getattr", "setdefault", "getenv"})
_DEVICE_WORDS = re.compile(r"device|map_location|accelerator|backend|platform", re.IGNORECASE)
_COLLECTIVE_CALLS = frozenset({"init_device_mesh", *(name.rpartition(".")[2] for name in cuda.group_makers())})
_BUILDERS = frozenset({"load", "load_inline", "CUDAExtension"})
_OWN = frozenset({"cuda", "to", "_apply"})
"""Methods by which a caller moves an object: what they do inside, the caller asked for."""

_LONGEST = 200


def places(file: PythonFile, words: tuple[str, ...]) -> Iterator[Evidence]:
    """Yield the places of a file, in no order; `words` are those by which code speaks of the target."""
    yield from _Places(file, words).all()


class _Places:
    def __init__(self, file: PythonFile, words: tuple[str, ...]) -> None:
        self.file = file
        self.names = Names(file)
        self.words = target_words(*words)
        self.exact = frozenset(words)
        self._asked: dict[str, bool] = {}
        self._tests: dict[ast.expr, _RunCondition] = {}
        self._exits: dict[ast.stmt, _RunCondition] = {}
        self._known_bodies: set[ast.AST] = set()
        self._knowing: dict[ast.AST, bool] = {}

    def all(self) -> Iterator[Evidence]:
        yield from self.targets()
        yield from self.kernels()
        for constant in self.file.strings:
            value = str(constant.value)
            if value == "nccl":
                yield from self.string(constant, PlaceNeed.COLLECTIVE)
            elif value.startswith("cuda") and _CUDA.match(value):
                yield from self.string(constant, PlaceNeed.CALL)
        for attribute in self.file.attributes.get("cuda", ()):
            call = self.file.parents.get(attribute)
            if isinstance(call, ast.Call) and call.func is attribute:
                yield from self.method(call)
        yield from self.namespace()
        for attribute in self.file.attributes.get("is_cuda", ()):
            if self.refuses(attribute):
                yield self.evidence(PlaceNeed.QUESTION, attribute, ".is_cuda")
        for node, devices in device_lists(self.file, self.names, self.exact):
            yield self.evidence(PlaceNeed.GENERATORS, node, ", ".join(devices))

    def evidence(self, need: PlaceNeed, node: ast.AST, subject: str, where: str = "", parameter: str = "") -> Evidence:
        line = getattr(node, "lineno", 0)
        place = where or self.qualified(node)
        return Evidence(need, self.file.path, line, place[:_LONGEST], subject[:_LONGEST], parameter[:_LONGEST])

    def qualified(self, node: ast.AST) -> str:
        """Return the dotted name of the function or class that holds a place; empty for the module."""
        parts = []
        parent = self.file.parents.get(node)
        while parent is not None:
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                parts.append(parent.name)
            parent = self.file.parents.get(parent)
        return ".".join(reversed(parts))

    # --- the target and kernels ---

    def targets(self) -> Iterator[Evidence]:
        """Yield the first place that names the target in code: a module, a name, an attribute; not a string alone."""
        for reference in self.names.references("torch"):
            if reference.name.startswith("torch.accelerator."):
                yield self.evidence(PlaceNeed.TARGET, reference.node, "torch.accelerator")
                break
        if not self.words.search(self.file.source.text):
            return
        named: list[tuple[int, ast.AST, str]] = []
        for statement in self.file.imports:
            module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
            for alias in statement.names:
                named += [
                    (statement.lineno, statement, name) for name in (module, alias.name) if self.words.search(name)
                ]
        for table in (self.file.names, self.file.attributes):
            for name, nodes in table.items():
                if self.words.search(name):
                    named += [(node.lineno, node, name) for node in nodes[:1]]
        named += [
            (constant.lineno, constant, str(constant.value))
            for constant in self.file.strings
            if constant.value in self.exact
            and isinstance(self.file.parents.get(constant), (ast.Compare, ast.List, ast.Tuple, ast.Set, ast.Dict))
        ]
        if named:
            _, node, name = min(named, key=lambda item: item[0])
            yield self.evidence(PlaceNeed.TARGET, node, name)

    def kernels(self) -> Iterator[Evidence]:
        for function in self.file.functions:
            for decorator in function.decorator_list:
                named = callee(decorator)
                if self.names.qualified(named) in ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit"):
                    kernel = self.evidence(PlaceNeed.TRITON, function, function.name)
                    yield kernel._replace(optional=self.without_triton or guard_of(self.file, function) is Guard.COPES)
                    break
        for reference in self.names.references("torch"):
            call = self.file.parents.get(reference.node)
            if not (isinstance(call, ast.Call) and call.func is reference.node):
                continue
            head, _, last = reference.name.rpartition(".")
            if head == "torch.utils.cpp_extension" and last in _BUILDERS and self.builds_cuda(call):
                yield self.evidence(PlaceNeed.SOURCE, call, f"cpp_extension.{last}")

    @cached_property
    def without_triton(self) -> bool:
        """Whether the module can be imported where there is no Triton."""
        imports = [
            statement
            for statement in self.file.imports
            if any(alias.name.partition(".")[0] == "triton" for alias in statement.names)
            or (isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "triton")
        ]
        return bool(imports) and all(guard_of(self.file, statement) is Guard.COPES for statement in imports)

    def builds_cuda(self, call: ast.Call) -> bool:
        return any(
            (isinstance(node, ast.keyword) and node.arg in ("cuda_sources", "extra_cuda_cflags"))
            or (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith((".cu", "cuda")))
            for node in ast.walk(call)
        )

    # --- strings ---

    def string(self, constant: ast.Constant, need: PlaceNeed) -> Iterator[Evidence]:
        """Yield what a string that names CUDA, or NCCL, does where it stands."""
        value = str(constant.value)
        shown = f'"{value}"'
        node: ast.AST = constant
        parent = self.file.parents.get(node)
        while isinstance(parent, (ast.JoinedStr, ast.Call)) and (
            isinstance(parent, ast.JoinedStr) or last_name(parent.func) == "device"
        ):  # "cuda" as torch.device("cuda"), or as the beginning of f"cuda:{rank}"
            node, parent = parent, self.file.parents.get(parent)
        collective = need is PlaceNeed.COLLECTIVE
        if isinstance(parent, ast.arguments):
            name = _parameter_of(parent, node)
            function = self.file.parents.get(parent)
            if name and not isinstance(function, ast.Lambda):
                where = f"{self.qualified(node)}({name})"
                yield self.evidence(need if collective else PlaceNeed.DEFAULT, constant, shown, where, name)
            return
        if isinstance(parent, ast.Compare):
            if self.refuses(parent) and not collective:
                yield self.evidence(PlaceNeed.QUESTION, constant, self.shown(parent))
            return
        condition = self.condition_of(node)
        if condition in (_RunCondition.CALLER, _RunCondition.ASIDE):
            return
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.Or) and parent.values[-1] is node:
            first = self.shown(parent.values[0])
            parameter = first if self.is_parameter(parent.values[0]) else ""
            where = f"{self.qualified(node)}({parameter})" if parameter else ""
            yield self.evidence(need if collective else PlaceNeed.DEFAULT, constant, shown, where, parameter)
            return
        if condition is _RunCondition.ASKED:
            if self.is_chosen(node) and not self.knows(node):
                parameter = self.overriding(node)
                where = f"{self.qualified(node)}({parameter})" if parameter else ""
                yield self.evidence(PlaceNeed.CHOICE, constant, shown, where, parameter)
            return
        place = self.unconditional(constant, node, parent, shown, need)
        if place is not None:
            yield place

    def unconditional(
        self, constant: ast.Constant, node: ast.AST, parent: ast.AST | None, shown: str, need: PlaceNeed
    ) -> Evidence | None:
        """Return what a string does that nothing decides about."""
        collective = need is PlaceNeed.COLLECTIVE
        default = need if collective else PlaceNeed.DEFAULT
        if isinstance(parent, ast.keyword):
            call = self.file.parents.get(parent)
            called = last_name(call.func) if isinstance(call, ast.Call) else ""
            if parent.arg == "default":
                option = self.option(call) if isinstance(call, ast.Call) else ""
                return self.evidence(default, constant, shown, option, option)
            if parent.arg and _DEVICE_WORDS.search(parent.arg) and not self.is_switched_off(call):
                return self.placed(need, constant, f"{called}({parent.arg}={shown})")
            return None
        if isinstance(parent, ast.Call) and node in parent.args:
            called = last_name(parent.func) or ""
            if called in _GETTERS and len(parent.args) > 1 and parent.args[-1] is node:
                key = parent.args[-2]
                option = str(key.value) if isinstance(key, ast.Constant) else self.shown(key)
                return self.evidence(default, constant, shown, option, option)
            if called in (_COLLECTIVE_CALLS if collective else _PLACES) and not self.is_switched_off(parent):
                return self.placed(need, constant, f"{called}({shown})")
            return None
        if isinstance(parent, ast.Call):  # torch.device("cuda") by itself
            return None
        if node is not constant and isinstance(parent, ast.Attribute):
            return None
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            names = [last_name(target) or "" for target in targets]
            if not any(map(_DEVICE_WORDS.search, names)) or any(map(_NAMED.search, names)):
                return None
            holder = self.file.parents.get(parent)
            if isinstance(holder, ast.ClassDef):
                return self.evidence(default, constant, shown, f"{self.qualified(parent)}.{names[0]}", names[0])
            return self.placed(need, constant, f"{names[0]} = {shown}")
        if isinstance(parent, ast.Return) and not collective and isinstance(self.file.parents.get(parent), DEFINITIONS):
            return self.placed(need, constant, f"return {shown}")
        return None

    def is_switched_off(self, call: ast.AST | None) -> bool:
        """Whether a call only switches CUDA's autocast off: `autocast("cuda", enabled=False)`."""
        return isinstance(call, ast.Call) and any(
            keyword.arg == "enabled" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            for keyword in call.keywords
        )

    def placed(self, need: PlaceNeed, node: ast.AST, subject: str) -> Evidence:
        """Return a place that uses CUDA; at import where no function is around it."""
        decorates = isinstance(self.file.statement(node), DEFINITIONS)
        if need is PlaceNeed.CALL and self.file.enclosing_function(node) is None and not decorates:
            # A name that is set when the module is imported is a choice; it fails only where it is used.
            return self.evidence(PlaceNeed.DEFAULT if " = " in subject else PlaceNeed.IMPORT, node, subject)
        return self.evidence(need, node, subject)

    def option(self, call: ast.Call) -> str:
        """Return the name of an option or setting that a call declares."""
        first = next((argument for argument in call.args if isinstance(argument, ast.Constant)), None)
        if first is not None and isinstance(first.value, str):
            return first.value
        statement = self.file.parents.get(call)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            name = last_name(target) or ""
            holder = self.file.parents.get(statement)
            return f"{self.qualified(statement)}.{name}" if isinstance(holder, ast.ClassDef) else name
        return ""

    def is_chosen(self, node: ast.AST) -> bool:
        """Whether a string below a question is what the code goes on with: assigned, returned or passed."""
        parent = self.file.parents.get(node)
        while isinstance(parent, (ast.IfExp, ast.BoolOp, ast.FormattedValue, ast.JoinedStr)):
            node, parent = parent, self.file.parents.get(parent)
        if isinstance(parent, ast.keyword):
            return bool(parent.arg and (_DEVICE_WORDS.search(parent.arg) or parent.arg == "default"))
        if isinstance(parent, ast.Call):
            return (last_name(parent.func) or "") in (*_PLACES, *_GETTERS, *_COLLECTIVE_CALLS)
        return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Return, ast.arguments))

    def overriding(self, node: ast.AST) -> str:
        """Return the parameter of the function around a choice that decides in its place, as `device=None` does."""
        function = self.file.enclosing_function(node)
        if function is None:
            return ""
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if _DEVICE_WORDS.search(argument.arg) or argument.arg in ("cuda", "use_cuda", "gpu"):
                return argument.arg
        return ""

    # --- calls ---

    def method(self, call: ast.Call) -> Iterator[Evidence]:
        function = self.file.enclosing_function(call)
        if function is not None and function.name in _OWN:
            return
        condition = self.condition_of(call)
        if condition is _RunCondition.NOTHING:
            need = PlaceNeed.CALL if function is not None else PlaceNeed.IMPORT
            yield self.evidence(need, call, ".cuda()")
        elif condition is _RunCondition.ASKED and not self.knows(call):
            yield self.evidence(PlaceNeed.CHOICE, call, ".cuda()")

    def namespace(self) -> Iterator[Evidence]:
        """Yield uses of `torch.cuda` that fail where there is no CUDA, and refusals to go on without it."""
        for reference in self.names.references("torch"):
            name = reference.name
            if reference.is_import or not name.startswith("torch.cuda."):
                continue
            parent = self.file.parents.get(reference.node)
            called = isinstance(parent, ast.Call) and parent.func is reference.node
            if name in ("torch.cuda.is_available", "torch.cuda.device_count"):
                if called and parent is not None and self.refuses(parent):
                    yield self.evidence(PlaceNeed.QUESTION, reference.node, f"{name}()")
                continue
            if _HARMLESS.match(name) or not (called or name.endswith("Tensor")) or "nvtx" in name:
                continue
            if self.condition_of(reference.node) is _RunCondition.NOTHING:
                function = self.file.enclosing_function(reference.node)
                if function is None and not called:
                    continue  # a type that is only named
                yield self.evidence(PlaceNeed.CALL if function is not None else PlaceNeed.IMPORT, reference.node, name)

    # --- what decides ---

    def refuses(self, question: ast.AST) -> bool:
        """Whether code raises where the answer to a question is no, and nothing else is tried."""
        negated = False
        child, parent = question, self.file.parents.get(question)
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
                negated = not negated
            if isinstance(parent, ast.IfExp):
                return False
            child, parent = parent, self.file.parents.get(parent)
        if isinstance(question, ast.Compare) and isinstance(question.ops[0], (ast.NotEq, ast.NotIn)):
            negated = not negated
        if isinstance(parent, ast.Assert):
            refused = child is parent.test and not negated and not self.also_cpu(parent.test)
            return refused and self.condition_of(parent) in (_RunCondition.NOTHING, _RunCondition.ASKED)
        if not isinstance(parent, ast.If) or child is not parent.test or self.also_cpu(parent.test):
            return False
        branch = parent.body if negated else parent.orelse
        return (
            bool(branch)
            and isinstance(branch[-1], ast.Raise)
            and guard_of(self.file, parent) is not Guard.COPES
            and self.condition_of(parent) in (_RunCondition.NOTHING, _RunCondition.ASKED)
        )

    def also_cpu(self, test: ast.expr) -> bool:
        """Whether a test lets something beside CUDA pass, or asks about more than the device."""
        others = lexicon("device").known_values - {"auto", "meta"}
        for node in ast.walk(test):
            if isinstance(node, ast.Constant) and (node.value in self.exact or node.value in others):
                return True
            if isinstance(node, (ast.Attribute, ast.Name)):
                name = (last_name(node) or "").lower()
                if name.removeprefix("is_") in others or self.words.search(name):
                    return True
        return isinstance(test, ast.BoolOp) and any(not _SPEAKS.search(self.shown(value)) for value in test.values)

    def condition_of(self, node: ast.AST) -> _RunCondition:
        """Return what decides whether a place is run, the nearest first."""
        child, parent = node, self.file.parents.get(node)
        condition = _RunCondition.NOTHING
        while parent is not None:
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
                condition = _first(condition, self.test(parent.test))
            elif isinstance(parent, ast.BoolOp) and child is not parent.values[0] and isinstance(parent.op, ast.And):
                for value in parent.values[: parent.values.index(child)]:  # type: ignore[arg-type]
                    condition = _first(condition, self.test(value))
            elif isinstance(parent, ast.Try) and child in parent.body and guard_of(self.file, child) is Guard.COPES:
                condition = _first(condition, _RunCondition.ASIDE)
            elif isinstance(parent, DEFINITIONS) and _NAMED.search(parent.name):
                condition = _RunCondition.ASIDE  # who uses it asks for CUDA by name
            if isinstance(child, ast.stmt) and condition is _RunCondition.NOTHING:
                condition = _first(condition, self.left_before(parent, child))
            if condition in (_RunCondition.CALLER, _RunCondition.ASIDE):
                return condition
            child, parent = parent, self.file.parents.get(parent)
        return condition

    def left_before(self, parent: ast.AST, statement: ast.stmt) -> _RunCondition:
        """Return what a statement before this one asks that leaves the function: `if not is_available(): return`."""
        if parent not in self._known_bodies:  # each body is gone through once: functions can be very long
            self._known_bodies.add(parent)
            for field in ("body", "orelse"):
                body = getattr(parent, field, None)
                if isinstance(body, list):
                    self._exits_of(body)
        return self._exits.get(statement, _RunCondition.NOTHING)

    def _exits_of(self, body: list[ast.stmt]) -> None:
        condition = _RunCondition.NOTHING
        for statement in body:
            if condition is not _RunCondition.NOTHING:
                self._exits[statement] = condition
                continue
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], (ast.Return, ast.Raise, ast.Continue)):
                condition = self.test(statement.test)
                if condition is _RunCondition.ASKED and isinstance(statement.body[-1], ast.Raise):
                    condition = _RunCondition.CALLER  # it is reported where it raises
            elif isinstance(statement, ast.Assert) and self.test(statement.test) is not _RunCondition.NOTHING:
                condition = _RunCondition.CALLER

    def test(self, test: ast.expr) -> _RunCondition:
        """Return what a condition asks."""
        condition = self._tests.get(test)
        if condition is None:
            condition = self._tests[test] = self._test(test)
        return condition

    def _test(self, test: ast.expr) -> _RunCondition:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return _RunCondition.NOTHING  # whether something was given at all: what follows is the default
        condition, other = _RunCondition.NOTHING, False
        for node in ast.walk(test):
            if isinstance(node, (ast.Name, ast.Attribute)):
                name = last_name(node) or ""
                if name == "__name__":
                    return _RunCondition.ASIDE
                if name in _ASKS:
                    if not self.other_card(node):
                        return _RunCondition.ASKED
                    other = True
                if isinstance(node, ast.Name) and self.was_asked(node):
                    return _RunCondition.ASKED
                if _NAMED.search(name) and name not in ("is_cuda", "cuda"):
                    return _RunCondition.ASKED  # a switch: CUDA or the CPU, whatever other card there is
                if name == "cuda" and isinstance(node, ast.Name):
                    return _RunCondition.ASKED
                if _SPEAKS.search(name) or self.words.search(name):
                    condition = _RunCondition.CALLER
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _SPEAKS.search(node.value[:200]):
                condition = _RunCondition.CALLER
        return _RunCondition.NOTHING if other else condition

    def other_card(self, node: ast.Name | ast.Attribute) -> bool:
        """Whether a question is about another kind of card: `torch.backends.mps.is_available`."""
        return isinstance(node, ast.Attribute) and last_name(node.value) not in ("cuda", "accelerator", None, "self")

    def was_asked(self, name: ast.Name) -> bool:
        """Whether a variable holds the answer whether CUDA is available, and no caller's word."""
        if name.id not in self._asked:
            self._asked[name.id] = False
            for binding in self.names.bindings(name)[:8]:
                value = assigned_value(self.file, binding)
                if value is not None and any(
                    isinstance(node, (ast.Name, ast.Attribute))
                    and last_name(node) in _ASKS
                    and not self.other_card(node)
                    for node in ast.walk(value)
                ):
                    self._asked[name.id] = True
        return self._asked[name.id]

    def is_parameter(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and any(isinstance(binding, ast.arg) for binding in self.names.bindings(node))

    def knows(self, node: ast.AST) -> bool:
        """Whether the function or statement around a choice names the target too, or asks torch for its accelerator."""
        around: ast.AST | None = self.file.enclosing_function(node)
        if around is None:
            around = self.file.statement(node)
            while isinstance(parent := self.file.parents.get(around), ast.stmt):
                around = parent
        if around not in self._knowing:
            self._knowing[around] = any(map(self.names_target, ast.walk(around)))
        return self._knowing[around]

    def names_target(self, node: ast.AST) -> bool:
        """Whether one node names the target, or torch's accelerator."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = last_name(node) or ""
            return name == "accelerator" or self.words.search(name) is not None
        return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in self.exact

    def shown(self, node: ast.AST) -> str:
        """Return the first line of a place's text."""
        try:
            text = self.file.text(node)
        except ValueError:  # in an f-string whose parts could not be told apart
            return ""
        return " ".join(text.split())[:80]


def _first(condition: _RunCondition, other: _RunCondition) -> _RunCondition:
    """Return what decides of two conditions: the caller's word before the question, the question before nothing."""
    order = (_RunCondition.ASIDE, _RunCondition.CALLER, _RunCondition.ASKED, _RunCondition.NOTHING)
    return min(condition, other, key=order.index)


def _parameter_of(arguments: ast.arguments, default: ast.AST) -> str:
    """Return the name of the parameter that has this default value."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs: Iterable[tuple[ast.arg, ast.AST | None]] = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((argument.arg for argument, value in pairs if value is default), "")
