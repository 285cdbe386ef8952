"""What must hold for a place to be run, and what is known of it when nothing is said on the command line."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from torchferry.backends import cuda
from torchferry.programs.answers import Answer, Answers, Known, Question, SharedAnswers, Told, Truth
from torchferry.programs.around import FunctionNode
from torchferry.programs.asked import is_there
from torchferry.programs.class_values import ClassValues, Expression
from torchferry.programs.constants import OwnConstants
from torchferry.programs.parameters import MOST_CALLS, Given, Parameter, called_as, default_of, function_of
from torchferry.programs.sources import Sources
from torchferry.programs.stored import (
    COMPARED,
    calls_of_base,
    in_handler,
    in_handler_of,
    is_changed,
    is_guarded,
    is_kind_of_device,
    is_namespace,
    one_parameter,
    stored_before,
    stores_in,
)
from torchferry.programs.switches import RECORDS, UNSAID, Switches, said_value
from torchferry.rules.guarded import asks_availability
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_DEPTH = 8
"""Variables, parameters and attributes that are followed to a value before giving up."""

OPEN = Answer(Truth.OPEN)
_UNKNOWN = Known(UNSAID)

_YES = frozenset({"torch.distributed.is_available", "torch.distributed.is_nccl_available"})
_PYTHONS = ((3, 8), (3, 99))
_CLI = frozenset({"fire", "click", "typer", "tyro", "jsonargparse", "defopt", "simple_parsing"})
"""Libraries that make options of the parameters of a function."""

_HOST = {"sys.platform": "linux", "os.name": "posix"}
_BY_LAUNCHERS = frozenset({"WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_NTASKS",
                          "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"})  # fmt: skip
"""Variables of the environment that `torchrun` and its like set: a default beside them says nothing."""

_CONVERTS = frozenset({"bool", "str", "int", "float", "lower", "upper", "strip", "strtobool"})


class Conditions:
    """Answers conditions for one program.

    Args:
        sources: The project's files.
        paths: The files that the program reaches.
        switches: Options, settings and constants.
        own_constants: What objects of the project keep in attributes.
        said: The options that the program is started with, by name.
        shared: What was answered to other programs.
    """

    def __init__(
        self,
        sources: Sources,
        paths: Iterable[str],
        switches: Switches,
        own_constants: OwnConstants,
        said: Mapping[str, str],
        shared: SharedAnswers,
    ) -> None:
        self._sources = sources
        self._paths = tuple(paths)
        self._order = {path: number for number, path in enumerate(self._paths)}
        self._switches = switches
        self._own_constants = own_constants
        self._class_values = ClassValues(sources)
        self._said = said
        self._shared = shared
        self._parameters: dict[Parameter, Known] = {}
        self._begun: set[Parameter] = set()
        self._constants: dict[str, Known] = {}
        self._switched: dict[str, Known] = {}
        self._callers: dict[str, tuple[str, ...]] = {}
        self._deriving: dict[str, tuple[str, ...]] = {}
        self._bound: Mapping[Parameter, Given] = {}
        self._answers: defaultdict[ast.expr, Answers] = defaultdict(Answers)
        self._consulted: dict[Parameter, Given | None] = {}
        self._question = Question()
        self._asked: set[Parameter] = set()
        """Parameters on which an answer has depended and whose value could not be told."""

    def within(self, bound: Mapping[Parameter, Given]) -> Conditions:
        """Return the answers where some parameters are given by the calls on a way."""
        other = Conditions.__new__(Conditions)
        other.__dict__.update(self.__dict__)  # what is known is the same, and goes on to be
        other._bound = bound
        other._asked = set()
        return other

    def told(self, file: PythonFile, names: Names, test: ast.expr) -> tuple[Answer, frozenset[Parameter]]:
        """Return what is known of a condition, and the parameters on which it depends that could not be told.

        The same conditions are met on many ways: an answer holds wherever the same is given to what it asks for.
        """
        answers = self._answers[test]
        known = answers.find(self._bound)
        if known is not None:
            return known.answer, known.asked
        for question, known in self._shared.of(test):
            if self._is_given(known.consulted) and self._says(question):
                self._parameters |= question.made
                if not question.made:
                    answers.keep(known)
                return known.answer, known.asked
        self._asked.clear()
        self._consulted = {}
        self._question = question = Question()
        told = Told(self.answer(file, names, test), frozenset(self._asked), self._consulted)
        if not question.made:  # an answer that looks into calls for the first time asks for more
            answers.keep(told)
        self._shared.keep(test, question, told)
        return told.answer, told.asked

    def _is_given(self, consulted: Mapping[Parameter, Given | None]) -> bool:
        """Whether the same is given to some parameters here."""
        return all(self._bound.get(parameter) == given for parameter, given in consulted.items())

    def _says(self, question: Question) -> bool:
        """Whether this program says to all that was asked of another one what that one has said."""
        parameters = self._parameters
        return (
            question.made.keys().isdisjoint(parameters)
            and all(key in parameters and known.is_same(parameters[key]) for key, known in question.before.items())
            and all(known.is_same(self._switch_of(name)) for name, known in question.switches.items())
            and all(known.is_same(self._constant(name)) for name, known in question.constants.items())
            and all(paths == self._calling(name) for name, paths in question.callers.items())
            and all(paths == self._bases_of(name) for name, paths in question.deriving.items())
        )

    def _calling(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that may call something of a name."""
        if name not in self._callers:
            self._callers[name] = self._ordered(self._sources.words.as_call(name))
        return self._callers[name]

    def _bases_of(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that may derive a class from one of a name."""
        if name not in self._deriving:
            self._deriving[name] = self._ordered(self._sources.words.as_base(name))
        return self._deriving[name]

    def _ordered(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted((path for path in paths if path in self._order), key=self._order.__getitem__))

    def answer(self, file: PythonFile, names: Names, test: ast.expr, depth: int = 0) -> Answer:
        """Return what is known of a condition."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.answer(file, names, test.operand, depth).turned()
        if isinstance(test, ast.BoolOp):
            parts = [self.answer(file, names, value, depth) for value in test.values]
            decisive = Truth.NO if isinstance(test.op, ast.And) else Truth.YES
            deciding = [part for part in parts if part.truth is decisive]
            if deciding:
                return min(deciding, key=lambda part: (not part.guard, not part.option))
            if any(part.truth is Truth.OPEN for part in parts):
                return OPEN
            return next((part for part in parts if part.option), parts[0])
        if isinstance(test, ast.NamedExpr):
            return self.answer(file, names, test.value, depth)
        if isinstance(test, ast.Compare):
            return self._compared(file, names, test, depth)
        known = self._value(file, names, test, depth)
        if known.value is UNSAID:
            return self._by_name(file, names, test)
        return Answer(Truth.YES if known.value else Truth.NO, known.option, known.guard)

    def _by_name(self, file: PythonFile, names: Names, test: ast.expr) -> Answer:
        name = names.qualified(test.func if isinstance(test, ast.Call) else test) or ""
        if last_name(test) == "TYPE_CHECKING":
            return Answer(Truth.NO, guard=True)
        if name in cuda.questions() or name in _YES:
            return Answer(Truth.YES)
        if name.startswith("torch.backends.mps."):
            return Answer(Truth.NO)
        if isinstance(test, (ast.Name, ast.Attribute, ast.Call)) and asks_availability(test):
            present = is_there(test, self._switches.is_there)
            if present is not None:
                return Answer(Truth.YES) if present else Answer(Truth.NO, guard=True)
        return OPEN

    def _compared(self, file: PythonFile, names: Names, test: ast.Compare, depth: int) -> Answer:
        if len(test.ops) != 1:
            return OPEN
        asked = string_value(test.left)
        if names.qualified(test.comparators[0]) == "os.environ" and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            return Answer(Truth.NO if isinstance(test.ops[0], ast.In) else Truth.YES, asked or "")
        if is_namespace(test.comparators[0]) and asked is not None and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            bindings = names.module_bindings(asked)
            if bindings and not all(is_guarded(file, binding) for binding in bindings):
                return OPEN
            return Answer(Truth.NO if isinstance(test.ops[0], ast.In) else Truth.YES, guard=bool(bindings))
        if names.qualified(test.left) == "sys.version_info":
            return self._of_version(file, names, test, depth)
        left = self._value(file, names, test.left, depth)
        right = self._value(file, names, test.comparators[0], depth)
        known = left if left.option or left.guard else right
        if left.value is UNSAID or right.value is UNSAID:
            return OPEN
        compare = COMPARED.get(type(test.ops[0]))
        if compare is None:
            return OPEN
        try:
            held = compare(left.value, right.value)
        except TypeError:
            return OPEN
        option = known.option
        other = right if known is left else left
        if option and isinstance(other.value, (str, int)) and not held and isinstance(test.ops[0], (ast.Eq, ast.In)):
            if not option.startswith("-"):
                option = f"{option}={other.value}"
            elif other.value not in (True, 1):
                option = f"{option} {other.value}"
        return Answer(Truth.YES if held else Truth.NO, option, known.guard)

    def _of_version(self, file: PythonFile, names: Names, test: ast.Compare, depth: int) -> Answer:
        """Return what a comparison with Python's version says where all versions that people use agree."""
        right = self._value(file, names, test.comparators[0], depth).value
        compare = COMPARED.get(type(test.ops[0]))
        if not isinstance(right, tuple) or compare is None:
            return OPEN
        try:
            oldest, newest = (compare(version, right) for version in _PYTHONS)
        except TypeError:
            return OPEN
        return OPEN if oldest != newest else Answer(Truth.YES if oldest else Truth.NO)

    # --- values ---

    def _value(self, file: PythonFile, names: Names, node: ast.expr, depth: int) -> Known:
        if depth > _DEPTH:
            self._question.is_whole = False
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            return Known(node.value)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            parts = [self._value(file, names, part, depth + 1) for part in node.elts]
            return _UNKNOWN if any(part.value is UNSAID for part in parts) else Known(tuple(p.value for p in parts))
        if isinstance(node, (ast.Name, ast.Attribute)):
            qualified = names.qualified(node)
            if qualified in _HOST:
                return Known(_HOST[qualified])
            if qualified in ("torch.version.cuda", "torch.version.hip"):
                return Known(None, guard=True)
        if isinstance(node, ast.Name):
            return self._variable(file, names, node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(file, names, node, depth)
        if isinstance(node, ast.Subscript):
            key = string_value(node.slice)
            return self._item(file, names, node.value, key, depth) if key is not None else _UNKNOWN
        if isinstance(node, ast.Call):
            return self._called(file, names, node, depth)
        if isinstance(node, (ast.UnaryOp, ast.BoolOp, ast.Compare)):
            answer = self.answer(file, names, node, depth + 1)
            return (
                _UNKNOWN
                if answer.truth is Truth.OPEN
                else Known(answer.truth is Truth.YES, answer.option, answer.guard)
            )
        return _UNKNOWN

    def _variable(self, file: PythonFile, names: Names, node: ast.Name, depth: int) -> Known:
        bindings = names.reaching_bindings(node)
        if any(is_guarded(file, binding) for binding in bindings):
            absent = [binding for binding in bindings if not isinstance(binding, ast.alias)]
            handled = [value for binding in absent for value in [in_handler(file, binding)] if value is not None]
            if handled or len(bindings) == len([b for b in bindings if isinstance(b, ast.alias)]):
                return Known(handled[0].value if handled and isinstance(handled[0], ast.Constant) else None, guard=True)
            before = [value for binding in absent if not is_guarded(file, binding)
                      for value in [assigned_value(file, binding)] if isinstance(value, ast.Constant)]  # fmt: skip
            return Known(before[0].value if before else None, guard=True)
        if len(bindings) == 1:
            binding = bindings[0]
            if isinstance(binding, ast.arg):
                return self._parameter(file, names, binding, depth)
            value = assigned_value(file, binding)
            if value is not None and not (isinstance(value, (ast.Tuple, ast.List)) and value.elts):
                known = self._value(file, names, value, depth + 1)
                if known.value is not UNSAID and not known.option and names.file.scope(binding) is file.tree:
                    return known._replace(option=self._command_line(file, node.id))
                return known
        if bindings and all(isinstance(binding, ast.alias) for binding in bindings):
            return self._imported(file, names, node, depth)
        return _UNKNOWN

    def _command_line(self, file: PythonFile, name: str) -> str:
        """Return how a constant of a module is said, where the file takes constants from the command line."""
        return f"--{name}" if "globals()" in file.source.text or "exec(open(" in file.source.text else name

    def _imported(self, file: PythonFile, names: Names, node: ast.Name, depth: int) -> Known:
        origin = names.origin(node) or ""
        module, _, member = origin.rpartition(".")
        path = self._sources.project.module_path(module, file.path) if module.strip(".") else None
        return self._member(path, member, depth) if path is not None else _UNKNOWN

    def _member(self, path: str, member: str, depth: int) -> Known:
        """Return the value of a name of another module."""
        loaded = self._sources.file(path)
        if depth > _DEPTH:
            self._question.is_whole = False
        if loaded is None or depth > _DEPTH:
            return _UNKNOWN
        other, other_names = loaded
        bindings = other_names.module_bindings(member)
        if any(is_guarded(other, binding) for binding in bindings):
            handled = [value for binding in bindings for value in [in_handler(other, binding)] if value is not None]
            return Known(handled[0].value if handled and isinstance(handled[0], ast.Constant) else None, guard=True)
        if len(bindings) != 1:
            return _UNKNOWN
        value = assigned_value(other, bindings[0])
        if value is None:
            return _UNKNOWN
        known = self._value(other, other_names, value, depth + 1)
        if known.value is UNSAID and asks_availability(value):
            return Known(False, guard=True)
        return known

    def _attribute(self, file: PythonFile, names: Names, node: ast.Attribute, depth: int) -> Known:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            owner = file.enclosing_class(node)
            values = [
                value
                for store in stores_in(file, node.value.id, node.attr)
                if file.enclosing_class(store) is owner
                for value in [assigned_value(file, store)]
            ]
            if values and values[0] is not None and (len(values) == 1 or one_parameter(names, values)):
                return self._value(file, names, values[0], depth + 1)
            if values:
                return _UNKNOWN
            shared = [
                statement.value
                for statement in (owner.body if owner is not None else ())
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None
                for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
                if isinstance(target, ast.Name) and target.id == node.attr
            ]
            if len(shared) == 1:
                return self._value(file, names, shared[0], depth + 1)
        stored = stored_before(file, node)
        if stored is not None:
            return self._value(file, names, stored, depth + 1)
        if node.attr == "value" and isinstance(node.value, ast.Name):  # FAST = flags.DEFINE_bool("fast", False, "...")
            bindings = names.bindings(node.value)
            declared = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
            if isinstance(declared, ast.Call) and last_name(declared.func).startswith("DEFINE_") and declared.args:
                return self._switch(string_value(declared.args[0]) or "")
        if is_kind_of_device(node):
            return _UNKNOWN
        owned = self._class_values.value(Expression(file, names, node.value), node.attr, self)
        if owned is not None:
            known = self._value(*owned, depth + 1)
            return known if known.value is UNSAID or known.option else known._replace(option=node.attr)
        if names.origin(node.value) is None if isinstance(node.value, ast.Name) else True:
            known = self._switch(node.attr)
            return known if known is not _UNKNOWN else self._stored(node.attr)
        return self._of_module(file, names, node, depth)

    def given(self, parameter: Parameter) -> Expression | None:
        """Return what the calls on the way give to a parameter; None where it is for the callers to say."""
        given = self._given_on_way(parameter)
        if given is None:
            self._asked.add(parameter)
        return given

    def _given_on_way(self, parameter: Parameter) -> Expression | None:
        given = self._consulted[parameter] = self._bound.get(parameter)
        loaded = self._sources.file(given.path) if given is not None else None
        return Expression(*loaded, given.value) if given is not None and loaded is not None else None

    def calling(self, called: str) -> tuple[str, ...]:
        """Return the files of the program that may call something of a name; the answer depends on them."""
        calling = self._question.callers[called] = self._calling(called)
        return calling

    def calls_of(self, called: str) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
        """Yield the calls of what is called by a name, in the files of the program."""
        for path in self.calling(called):
            loaded = self._sources.file(path)
            for callee in (*loaded[0].names.get(called, ()), *loaded[0].attributes.get(called, ())) if loaded else ():
                call = loaded[0].parents.get(callee) if loaded is not None else None
                if loaded is not None and isinstance(call, ast.Call) and call.func is callee:
                    yield (*loaded, call)

    def _stored(self, name: str) -> Known:
        """Return the constant that objects give an attribute themselves, where all that the program reaches agree."""
        known = self._question.constants[name] = self._constant(name)
        return known

    def _constant(self, name: str) -> Known:
        if name not in self._constants:
            self._constants[name] = Known(self._own_constants.agreed(name, self._paths))
        return self._constants[name]

    def _of_module(self, file: PythonFile, names: Names, node: ast.Attribute, depth: int) -> Known:
        assert isinstance(node.value, ast.Name)
        module = names.origin(node.value) or ""
        path = self._sources.project.module_path(module, file.path)
        loaded = self._sources.file(path) if path is not None else None
        if loaded is None:
            return _UNKNOWN if module.startswith("torch") else self._switch(node.attr)
        other, other_names = loaded
        bindings = other_names.module_bindings(node.attr)
        value = assigned_value(other, bindings[0]) if len(bindings) == 1 else None
        return self._value(other, other_names, value, depth + 1) if value is not None else _UNKNOWN

    def _switch(self, name: str) -> Known:
        known = self._question.switches[name] = self._switch_of(name)
        return known

    def _switch_of(self, name: str) -> Known:
        known = self._switched.get(name)
        if known is None:
            said = self._said.get(name)
            switch = self._switches.get(name) if said is None else None
            known = Known(switch.value, switch.flag) if switch is not None else _UNKNOWN
            self._switched[name] = known = known if said is None else Known(said_value(said))
        return known

    def _item(self, file: PythonFile, names: Names, of: ast.expr, key: str, depth: int) -> Known:
        """Return an item of a table: one that is written down and never changed, or a setting."""
        bindings = names.bindings(of) if isinstance(of, ast.Name) else []
        table = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
        items: dict[str, ast.expr] = {}
        if isinstance(table, ast.Dict):
            pairs = zip(table.keys, table.values, strict=True)
            items = {text: value for part, value in pairs for text in [string_value(part)] if text is not None}
        elif isinstance(table, ast.Call) and last_name(table.func) in ("dict", *RECORDS):
            items = {keyword.arg: keyword.value for keyword in table.keywords if keyword.arg is not None}
        if key in items and isinstance(of, ast.Name) and not is_changed(file, names, of, key):
            known = self._value(file, names, items[key], depth + 1)
            return known if known.value is UNSAID or known.option else known._replace(option=key)
        return self._switch(key)

    def _called(self, file: PythonFile, names: Names, node: ast.Call, depth: int) -> Known:
        name = last_name(node.func)
        qualified = names.qualified(node.func) or ""
        if qualified == "platform.system":
            return Known("Linux")
        if name in ("get", "getenv") and node.args:
            key = string_value(node.args[0])
            if key is None:
                return _UNKNOWN
            default = self._value(file, names, node.args[1], depth + 1) if len(node.args) > 1 else Known(None)
            if qualified in ("os.environ.get", "os.getenv"):
                if key in _BY_LAUNCHERS:
                    return _UNKNOWN
                return default._replace(option=key)
            of = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            item = self._item(file, names, of, key, depth)
            return item if item.value is not UNSAID else default._replace(option=key)
        if name == "getattr" and len(node.args) > 1:
            key = string_value(node.args[1])
            switch = self._switch(key) if key is not None else _UNKNOWN
            if switch.value is UNSAID and len(node.args) > 2:
                return self._value(file, names, node.args[2], depth + 1)
            return switch
        if name == "hasattr" and len(node.args) == 2:
            origin = names.qualified(node.args[0]) or ""
            return Known(True) if origin.partition(".")[0] == "torch" else _UNKNOWN
        if name == "find_spec":
            asked = string_value(node.args[0]) if node.args else None
            is_torch = asked is not None and asked.partition(".")[0] in ("torch", "torchvision", "numpy")
            return Known(True) if is_torch else Known(None, guard=True)
        if name in _CONVERTS:
            inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
            return self._value(file, names, inner, depth + 1) if inner is not None else _UNKNOWN
        return self._returned(file, names, node, depth)

    def _returned(self, file: PythonFile, names: Names, node: ast.Call, depth: int) -> Known:
        """Return what a function of the project without parameters returns, where it can be told."""
        defined: tuple[PythonFile, Names, ast.stmt] | None = None
        if isinstance(node.func, ast.Name):
            own = [binding for binding in names.bindings(node.func) if isinstance(binding, ast.FunctionDef)]
            defined = (file, names, own[0]) if len(own) == 1 else None
        qualified = names.qualified(node.func)
        if defined is None and qualified is not None:
            defined = self._sources.project.definition(qualified, file.path)
        if defined is None or node.args or node.keywords:
            return _UNKNOWN
        other, other_names, function = defined
        if not isinstance(function, ast.FunctionDef):
            return _UNKNOWN
        returns = [part for statement in function.body for part in ast.walk(statement) if isinstance(part, ast.Return)]
        guarded = [part for part in returns if is_guarded(other, part)]
        if guarded:
            handled = next((part.value for part in guarded if in_handler_of(other, part)), None)
            return Known(handled.value if isinstance(handled, ast.Constant) else None, guard=True)
        value = returns[0].value if len(returns) == 1 else None
        return self._value(other, other_names, value, depth + 1) if value is not None else _UNKNOWN

    # --- parameters ---

    def _parameter(self, file: PythonFile, names: Names, argument: ast.arg, depth: int) -> Known:
        function = function_of(file, argument)
        if function is None:
            return _UNKNOWN
        key = Parameter(file.path, function.lineno, argument.arg)
        given = self._given_on_way(key)
        if given is not None:
            return self._value(*given, depth + 1)
        question = self._question
        if key not in self._parameters:
            self._parameters[key] = _UNKNOWN  # ends recursion
            self._begun.add(key)
            known = self._passed(file, names, function, argument, depth)
            self._begun.discard(key)
            self._parameters[key] = question.made[key] = known
        elif key in self._begun:
            question.is_whole = False
        elif key not in question.made:
            question.before[key] = self._parameters[key]
        if self._parameters[key].value is UNSAID:
            self._asked.add(key)
        return self._parameters[key]

    def _passed(
        self,
        file: PythonFile,
        names: Names,
        function: FunctionNode,
        argument: ast.arg,
        depth: int,
    ) -> Known:
        arguments = function.args
        default_node = default_of(arguments, argument)
        default = self._value(file, names, default_node, depth + 1) if default_node is not None else _UNKNOWN
        owner = file.parents.get(function)
        called = called_as(file, function)
        positions = [*arguments.posonlyargs, *arguments.args]
        index = positions.index(argument) - isinstance(owner, ast.ClassDef) if argument in positions else -1
        values: list[Known] = []
        for other, other_names, call in self.calls_of(called):
            if len(values) >= MOST_CALLS:
                return _UNKNOWN
            values.append(self._given(other, other_names, call, argument.arg, index, default, depth))
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            for other, other_names, call in self._from_derived(owner):
                values.append(self._given(other, other_names, call, argument.arg, index, default, depth))
        if not values:
            if default_node is None:
                return self._switch(argument.arg)
            is_fixed = default.value is UNSAID or default.option
            if is_fixed or file.path not in self._sources.words.holding_any(_CLI):
                return default
            return default._replace(option="--" + argument.arg.replace("_", "-"))
        first = values[0]
        if all(type(known.value) is type(first.value) and known.value == first.value for known in values):
            return next((known for known in values if known.option), first)
        return _UNKNOWN

    def _from_derived(self, owner: ast.ClassDef) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
        """Yield what classes derived from one hand on to it: `super().__init__(...)`."""
        deriving = self._question.deriving[owner.name] = self._bases_of(owner.name)
        for path in deriving:
            loaded = self._sources.file(path)
            if loaded is not None:
                yield from ((*loaded, call) for call in calls_of_base(loaded[0], owner.name))

    def _given(
        self, file: PythonFile, names: Names, call: ast.Call, name: str, index: int, default: Known, depth: int
    ) -> Known:
        for keyword in call.keywords:
            if keyword.arg == name:
                return self._value(file, names, keyword.value, depth + 1)
        if 0 <= index < len(call.args) and not any(isinstance(part, ast.Starred) for part in call.args[: index + 1]):
            return self._value(file, names, call.args[index], depth + 1)
        if default.value is UNSAID and not call.args and not call.keywords:  # an option: @click.option("--fast")
            return self._switch(name)
        if any(keyword.arg is None for keyword in call.keywords):
            switch = self._switch(name)
            return switch if switch.value is not UNSAID or switch.option else default
        return default
