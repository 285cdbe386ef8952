"""The values of expressions when nothing is said on the command line."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable

from torchferry.programs.evaluation.members import Members
from torchferry.programs.evaluation.object_kinds import Member, ModuleObject, Object, OtherObject
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.evaluation.operations import Operations, Unordered
from torchferry.programs.evaluation.passed_values import PassedValues
from torchferry.programs.evaluation.path_values import PathValues
from torchferry.programs.evaluation.program_facts import ProgramFacts, agreed
from torchferry.programs.evaluation.returned_values import ReturnedValues
from torchferry.programs.evaluation.settings_parameters import SettingsParameters
from torchferry.programs.options.answers import UNKNOWN_VALUE, Answer, DefaultValue, Truth, alike
from torchferry.programs.options.option_libraries import docopt_default, docopt_flags, docopt_text
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.assignments import (
    in_handler,
    is_guarded,
    is_kind_of_device,
    may_be_passed_over,
    reads_only,
    stored_before,
)
from torchferry.programs.syntax.dynamic_lookups import executed_files, executes_files
from torchferry.programs.syntax.parameters import Expression
from torchferry.programs.syntax.place_context import place_context
from torchferry.rules.guarded import asks_availability
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import assigned_value
from torchferry.source.python import PythonFile

_DEPTH = 8
"""Variables, parameters and attributes that are followed to a value before giving up."""

_MOST_BRANCHES = 8
"""Places that set one variable; where there are more, nobody can tell what it holds."""

_MOST_WORDS = 4
"""Words of a command that are looked at for those without an option."""

_HOST = {"sys.platform": "linux", "os.name": "posix"}
_YES_ON_TARGET = frozenset(
    {"torch.accelerator.is_available", "torch.cuda.is_available", "torch.distributed.is_available"}
)
"""Questions that are yes on a target with its card: a migration asks for its device instead."""

_BY_LAUNCHERS = frozenset({"WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_NTASKS",
                          "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"})  # fmt: skip
"""Variables of the environment that `torchrun` and its like set: a default beside them says nothing."""


class Values(ABC):
    """Evaluates expressions for one program.

    Args:
        facts: What depends on the program.
    """

    def __init__(self, facts: ProgramFacts) -> None:
        self.facts = facts
        self._sources = facts.sources
        self._objects = Objects(facts)
        self._members = Members(facts, self._objects)
        self._by_settings = SettingsParameters(facts, self._objects, self._members)
        self._objects.by_settings = self._members.by_settings = self._by_settings.of
        self._objects.path = PathValues(facts, self.value).of
        self._members.answer = self._by_settings.answer = self.answer
        self._operations = Operations(self)
        self._returned = ReturnedValues(facts, self._objects, self._members, self)
        self._passed = PassedValues(facts, self._members, self._by_settings.of, self)

    @abstractmethod
    def answer(self, where: Expression, depth: int = 0) -> Answer:
        """Return the known facts about a condition."""

    @abstractmethod
    def is_present(self, module: str) -> bool | None:
        """Return whether the target has a module; None where nobody knows."""

    def value(self, where: Expression, depth: int) -> DefaultValue:
        """Return the value of an expression."""
        if not self.facts.goes_on(depth, _DEPTH):
            return UNKNOWN_VALUE
        node = where.node
        if isinstance(node, ast.Constant):
            return DefaultValue(node.value)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return self._elements(where, node.elts, depth, is_set=isinstance(node, ast.Set))
        if isinstance(node, (ast.Name, ast.Attribute)):
            qualified = where.names.qualified(node)
            if qualified in _HOST:
                return DefaultValue(_HOST[qualified])
            if qualified in ("torch.version.cuda", "torch.version.hip"):
                return DefaultValue(None, guard=True)
        if isinstance(node, ast.Name):
            return self._variable(where, node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(where, node, depth)
        if isinstance(node, ast.Subscript):
            return self._item(where, node, depth)
        if isinstance(node, ast.Call):
            return self._called(where, node, depth)
        if isinstance(node, ast.IfExp):
            return self._chosen(where, node, depth)
        if isinstance(node, ast.JoinedStr):
            return self._joined(where, node, depth)
        if isinstance(node, ast.BinOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)):
            return self._operations.of_operator(where, node, depth) or UNKNOWN_VALUE
        if isinstance(node, ast.BoolOp):
            return self._either(where, node, depth)
        if isinstance(node, (ast.UnaryOp, ast.Compare)):
            answer = self.answer(where, depth + 1)
            return (
                UNKNOWN_VALUE
                if answer.truth is Truth.UNKNOWN
                else DefaultValue(answer.truth is Truth.YES, answer.option, answer.guard)
            )
        return UNKNOWN_VALUE

    def _chosen(self, where: Expression, node: ast.IfExp, depth: int) -> DefaultValue:
        """Return the value of a conditional expression whose condition is known."""
        answer = self.answer(where.part(node.test), depth + 1)
        if answer.truth is Truth.UNKNOWN:
            return UNKNOWN_VALUE
        taken = node.body if answer.truth is Truth.YES else node.orelse
        chosen = self.value(where.part(taken), depth + 1)
        if chosen.value is UNDETERMINED:
            return chosen
        return chosen._replace(option=chosen.option or answer.option, guard=chosen.guard or answer.guard)

    def _elements(
        self, where: Expression, nodes: Iterable[ast.expr | None], depth: int, *, is_set: bool
    ) -> DefaultValue:
        """Return the elements that are written down, where all of them are known."""
        parts = [UNKNOWN_VALUE if part is None else self.value(where.part(part), depth + 1) for part in nodes]
        if any(part.value is UNDETERMINED for part in parts):
            return UNKNOWN_VALUE
        values = tuple(part.value for part in parts)
        return DefaultValue(Unordered(dict.fromkeys(values)) if is_set else values)

    def _joined(self, where: Expression, node: ast.JoinedStr, depth: int) -> DefaultValue:
        """Return the text that texts are put together to: `f"run_{mode}"`."""
        option, texts = "", []
        for part in node.values:
            if isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion > 0):
                return UNKNOWN_VALUE
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            joined_value = self.value(where.part(inner), depth + 1)
            if not isinstance(joined_value.value, str):
                return UNKNOWN_VALUE
            option = option or joined_value.option
            texts.append(joined_value.value)
        return DefaultValue("".join(texts), option)

    def _either(self, where: Expression, node: ast.BoolOp, depth: int) -> DefaultValue:
        """Return what `a or b` is: the first one that decides, or the last one."""
        option = ""
        for part in node.values:
            either = self.value(where.part(part), depth + 1)
            if either.value is UNDETERMINED:
                answer = self.answer(where.part(part), depth + 1)
                if answer.truth is Truth.UNKNOWN:
                    is_false = self.answer(where, depth + 1).truth is Truth.NO
                    return DefaultValue(False) if is_false else UNKNOWN_VALUE
                if answer.truth is Truth.NO or _is_boolean(part):
                    either = DefaultValue(answer.truth is Truth.YES, answer.option, answer.guard)
                elif isinstance(node.op, ast.Or) or part is node.values[-1]:
                    return UNKNOWN_VALUE  # it is true, and nobody can tell what it is
            option = either.option or option
            if either.value is not UNDETERMINED and bool(either.value) is isinstance(node.op, ast.Or):
                break
        return either if either.option else either._replace(option=option)

    # --- names ---

    def _variable(self, where: Expression, node: ast.Name, depth: int) -> DefaultValue:
        file, names = where.file, where.names
        bindings = names.reaching_bindings(node)
        if any(is_guarded(file, binding) for binding in bindings):
            values = (assigned_value(file, binding) for binding in bindings)
            imported = self._returned.imported([where.part(each) for each in values if each is not None], depth)
            if imported is not None:
                return imported
            absent = [binding for binding in bindings if not isinstance(binding, ast.alias)]
            handled = [value for binding in absent for value in [in_handler(file, binding)] if value is not None]
            if handled or len(bindings) == len([b for b in bindings if isinstance(b, ast.alias)]):
                return DefaultValue(
                    handled[0].value if handled and isinstance(handled[0], ast.Constant) else None, guard=True
                )
            before = [value for binding in absent if not is_guarded(file, binding)
                      for value in [assigned_value(file, binding)] if isinstance(value, ast.Constant)]  # fmt: skip
            return DefaultValue(before[0].value if before else None, guard=True)
        if len(bindings) == 1:
            binding = bindings[0]
            if isinstance(binding, ast.arg):
                return self._passed.parameter(where, binding, depth)
            value = assigned_value(file, binding)
            is_apart = isinstance(file.parents.get(binding), (ast.Tuple, ast.List))
            if isinstance(value, ast.Tuple) or (isinstance(value, ast.List) and is_apart):
                return self._several(where, value, binding, depth)
            is_global = file.scope(binding) is file.tree
            if isinstance(value, (ast.List, ast.Dict, ast.Set)):
                return self._listed(where.part(value), node.id, is_global, depth)
            executed = self._executed_over(file, node.id, depth) if value is not None and is_global else None
            if executed is not None:
                return executed
            if value is not None:
                evaluated = self.value(where.part(value), depth + 1)
                if evaluated.value is not UNDETERMINED and not evaluated.option and is_global:
                    return evaluated._replace(option=f"--{node.id}" if executes_files(file) else node.id)
                return evaluated
        if bindings and all(isinstance(binding, ast.alias) for binding in bindings):
            return self._imported(where, node, depth)
        if len(bindings) < 2:
            return self._returned.second(where, bindings[0], depth) if bindings else UNKNOWN_VALUE
        if where.given:
            return self._of_branches(where, node, bindings, depth)
        return self.facts.once(
            ("branches", where.place), lambda: self._of_branches(where, node, bindings, depth), depth
        )

    def _of_branches(self, where: Expression, node: ast.Name, bindings: list[ast.AST], depth: int) -> DefaultValue:
        """Return the value of a variable that several branches set, where the program takes one of them."""
        file = where.file
        if len(bindings) > _MOST_BRANCHES or len({file.scope(binding) for binding in bindings}) > 1:
            return UNKNOWN_VALUE
        shared = {test for test, _ in place_context(file, node).tests}
        held: list[DefaultValue] = []
        option = ""
        for binding in sorted(bindings, key=lambda each: (getattr(each, "lineno", 0), getattr(each, "col_offset", 0))):
            if isinstance(binding, ast.arg):
                held = [self._passed.parameter(where, binding, depth)]
                continue
            value = assigned_value(file, binding)
            if value is None or isinstance(value, (ast.List, ast.Dict, ast.Set, ast.Tuple)):
                return UNKNOWN_VALUE
            context = place_context(file, binding)
            outer = context._replace(tests=tuple(test for test in context.tests if test[0] not in shared))
            answer = self._members.runs(where, outer, depth + 1)
            option = option or answer.option
            if answer.truth is Truth.NO:
                continue
            agreed_value = self.value(where.part(value), depth + 1)
            is_certain = answer.truth is Truth.YES and not may_be_passed_over(file, binding, node)
            held = [agreed_value] if is_certain else [*held, agreed_value]
        agreed_value = alike(held) if held else UNKNOWN_VALUE
        return (
            agreed_value
            if agreed_value.value is UNDETERMINED
            else agreed_value._replace(option=agreed_value.option or option)
        )

    def _executed_over(self, file: PythonFile, name: str, depth: int) -> DefaultValue | None:
        """Return what the command, or a file that is executed, sets a constant of a module to; None where none does.

        `exec(open("configurator.py").read())` takes `--compile=False` and `config/train.py` from the command line.
        """
        if not executes_files(file):
            return None
        option = self.facts.option_value(name)
        if option is not None:
            return option._replace(option=f"--{name}")
        for path in (*self.facts.started_with(), *executed_files(file)):
            loaded = self._sources.file(path) if path in self._sources.project.paths else None
            if loaded is not None and loaded[1].module_bindings(name):
                return self._of_module(path, name, depth + 1)._replace(option=f"--{name}")
        return None

    def _several(self, where: Expression, value: ast.Tuple | ast.List, binding: ast.AST, depth: int) -> DefaultValue:
        """Return a tuple that is written down and whose name is bound once."""
        if not isinstance(value, ast.Tuple) or isinstance(where.file.parents.get(binding), (ast.Tuple, ast.List)):
            return UNKNOWN_VALUE
        return self.value(where.part(value), depth + 1)

    def _listed(self, where: Expression, name: str, is_global: bool, depth: int) -> DefaultValue:
        """Return what is in a list, a set, or the keys of a table, where nothing is ever added to it."""
        node = where.node
        parts = node.keys if isinstance(node, ast.Dict) else node.elts  # type: ignore[attr-defined]
        if not parts or not self._is_never_changed(where, name, is_global):
            return UNKNOWN_VALUE  # something is added to it: a queue, a table
        return self._elements(where, parts, depth, is_set=not isinstance(node, ast.List))

    def _is_never_changed(self, where: Expression, name: str, is_global: bool) -> bool:
        """Whether a list is only read by its name, in all files of the program where it is the module's."""
        return reads_only(where.file, name) and (not is_global or self.facts.reads_only(name))

    def _imported(self, where: Expression, node: ast.Name, depth: int) -> DefaultValue:
        origin = where.names.origin(node) or ""
        module, _, member = origin.rpartition(".")
        path = self._sources.project.module_path(module, where.file.path) if module.strip(".") else None
        return self._of_module(path, member, depth) if path is not None else UNKNOWN_VALUE

    def _of_module(self, path: str, member: str, depth: int) -> DefaultValue:
        """Return the value of a name of another module."""
        loaded = self._sources.file(path)
        if not self.facts.is_near(depth, _DEPTH) or loaded is None:
            return UNKNOWN_VALUE
        other, other_names = loaded
        bindings = other_names.module_bindings(member)
        if any(is_guarded(other, binding) for binding in bindings):
            handled = [value for binding in bindings for value in [in_handler(other, binding)] if value is not None]
            return DefaultValue(
                handled[0].value if handled and isinstance(handled[0], ast.Constant) else None, guard=True
            )
        if len(bindings) == 1 and isinstance(bindings[0], ast.alias):
            module, _, name = (other_names.binding_origin(bindings[0]) or "").rpartition(".")
            inner = self._sources.project.module_path(module, path) if module.strip(".") else None
            return self._of_module(inner, name, depth + 1) if inner is not None else UNKNOWN_VALUE
        if len(bindings) != 1:
            return UNKNOWN_VALUE
        value = assigned_value(other, bindings[0])
        if value is None:
            return self._returned.second(Expression(other, other_names, ast.Constant(None)), bindings[0], depth)
        if isinstance(value, (ast.List, ast.Dict, ast.Set)):
            return self._listed(Expression(other, other_names, value), member, True, depth)
        value_there = self.value(Expression(other, other_names, value), depth + 1)
        if value_there.value is UNDETERMINED and asks_availability(value):
            return DefaultValue(False, guard=True)
        return value_there

    # --- attributes and items ---

    def _attribute(self, where: Expression, node: ast.Attribute, depth: int) -> DefaultValue:
        of_path = self._operations.of_attribute(where, node, depth)
        if of_path is not None:
            return of_path
        stored = stored_before(where.file, node)
        if stored is not None:
            return self.value(where.part(stored), depth + 1)
        if node.attr == "value" and isinstance(node.value, ast.Name):  # FAST = flags.DEFINE_bool("fast", False, "...")
            bindings = where.names.bindings(node.value)
            declared = assigned_value(where.file, bindings[0]) if len(bindings) == 1 else None
            if isinstance(declared, ast.Call) and last_name(declared.func).startswith("DEFINE_") and declared.args:
                return self._by_option(string_value(declared.args[0]) or "")
        if is_kind_of_device(node):
            return UNKNOWN_VALUE
        member = self._member(where.part(node.value), node.attr, depth)
        return UNKNOWN_VALUE if member is None else member

    def _item(self, where: Expression, node: ast.Subscript, depth: int) -> DefaultValue:
        element = self._operations.of_item(where, node, depth)
        if element is not None:
            return element
        key = string_value(node.slice)
        doc = docopt_text(where.file, where.names, node.value) if key is not None and key.startswith("-") else None
        if key is not None and doc is not None:
            options = (self.facts.option_value(flag) for flag in docopt_flags(doc, key))
            return next((each for each in options if each is not None), DefaultValue(docopt_default(doc, key), key))
        if key is not None:
            member = self._member(where.part(node.value), key, depth)
            return UNKNOWN_VALUE if member is None else member
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(number, int) and where.names.qualified(node.value) == "sys.argv":
            word = self.facts.argument(number)
            return UNKNOWN_VALUE if word is None or "$" in word else DefaultValue(word)
        return UNKNOWN_VALUE

    def _member(self, of: Expression, name: str, depth: int) -> DefaultValue | None:
        """Return what an object has under a name; None where it is known to have nothing."""
        before, self.facts.asks = self.facts.asks, of
        try:
            return self._member_of(self._objects.of(of), name, depth)
        finally:
            self.facts.asks = before

    def _member_of(self, objects: tuple[Object, ...] | None, name: str, depth: int) -> DefaultValue | None:
        if objects is None:
            return self._by_option(name)
        values: list[DefaultValue | None] = []
        for each in objects:
            member = self._members.of(each, name)
            if isinstance(each, ModuleObject) and member.is_there:
                values.append(self._of_module_object(each, name, member, depth))
            elif not member.is_there and isinstance(each, OtherObject):
                values.append(UNKNOWN_VALUE)
            elif member.is_open and not member.values and self._members.is_filled(each):
                values.append(self._by_option(name))
            else:
                values.append(self.of_member(member, name, depth) if member.is_there else None)
        if not values or all(item is None for item in values):
            return None if values else UNKNOWN_VALUE
        settled = [item for item in values if item is not None]
        if len(settled) < len(values):
            return UNKNOWN_VALUE
        return alike(settled)

    def _of_module_object(self, of: ModuleObject, name: str, member: Member, depth: int) -> DefaultValue:
        value = self._of_module(of.path, name, depth + 1)
        is_own = value.guard and all(each.file.path == of.path for each in member.values)  # an attempt and its handler
        if len(member.values) > 1 and not is_own and self.of_member(member, name, depth).value != value.value:
            return UNKNOWN_VALUE  # another file stores in the module
        if value.value is not UNDETERMINED and not member.is_open:
            return value if value.option else value._replace(option=name)
        return value if value.guard else UNKNOWN_VALUE

    def of_member(self, member: Member, name: str, depth: int) -> DefaultValue:
        """Return the value of an attribute or item, where all that it may be agree."""
        if member.objects:
            return UNKNOWN_VALUE
        values = [member.value] if member.value is not None else []
        for value in member.values:
            evaluated = self.value(value, depth + 1)
            is_said = evaluated.option or evaluated.value is UNDETERMINED
            values.append(evaluated if is_said else evaluated._replace(option=member.option or name))
        return UNKNOWN_VALUE if member.is_open or not values else alike(values)

    def _by_option(self, name: str) -> DefaultValue:
        """Return what the options of the program say of a name, where nobody can tell whose it is."""
        return self.facts.option_value(name) or agreed(self.facts.options(name), self.facts) or UNKNOWN_VALUE

    # --- calls ---

    def _called(self, where: Expression, node: ast.Call, depth: int) -> DefaultValue:
        name = last_name(node.func)
        qualified = where.names.qualified(node.func) or ""
        if qualified == "platform.system":
            return DefaultValue("Linux")
        if qualified in _YES_ON_TARGET:
            return DefaultValue(True)
        if name in ("get", "getenv", "pop") and node.args:
            return self._got(where, node, qualified, depth)
        if name == "getattr" and len(node.args) > 1:
            key = string_value(node.args[1])
            member = self._member(where.part(node.args[0]), key, depth) if key is not None else UNKNOWN_VALUE
            if member is None and len(node.args) > 2 and key is not None:
                return self._default(where.part(node.args[2]), key, depth)
            return UNKNOWN_VALUE if member is None else member
        if name == "hasattr" and len(node.args) == 2:
            origin = where.names.qualified(node.args[0]) or ""
            return DefaultValue(True) if origin.partition(".")[0] == "torch" else UNKNOWN_VALUE
        if name == "find_spec":
            asked = self.text(where.part(node.args[0]), depth) if node.args else None
            return self._spec(asked) if asked is not None else UNKNOWN_VALUE
        computed = self._operations.of_call(where, node, depth)
        return self._returned.of(where, node, depth) if computed is None else computed

    def _got(self, where: Expression, node: ast.Call, qualified: str, depth: int) -> DefaultValue:
        key = self.text(where.part(node.args[0]), depth)
        if key is None:
            return UNKNOWN_VALUE
        default = where.part(node.args[1] if len(node.args) > 1 else ast.copy_location(ast.Constant(None), node))
        if qualified in ("os.environ.get", "os.environ.pop", "os.getenv"):
            return UNKNOWN_VALUE if key in _BY_LAUNCHERS else self._of_environment(default, key, depth)
        of = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        member = self._member(where.part(of), key, depth)
        return self._default(default, key, depth) if member is None else member

    def _of_environment(self, default: Expression, key: str, depth: int) -> DefaultValue:
        """Return the value of a variable: as the command sets it, else the default where no file sets it."""
        value = self.facts.variable(key)
        if value is not None:
            return value._replace(option=key)
        return UNKNOWN_VALUE if self.facts.sets_variable(key) else self._default(default, key, depth)

    def _default(self, where: Expression, key: str, depth: int) -> DefaultValue:
        return self.value(where, depth + 1)._replace(option=key)

    def text(self, where: Expression, depth: int) -> str | None:
        """Return a text that is written down, or held by what an expression represents."""
        text = string_value(where.node)
        value = self.value(where, depth + 1) if text is None else None
        return value.value if value is not None and isinstance(value.value, str) else text

    def _spec(self, module: str) -> DefaultValue:
        """Return whether the target has a module, as `find_spec` tells it."""
        present = self.is_present(module)
        return UNKNOWN_VALUE if present is None else DefaultValue(True) if present else DefaultValue(None, guard=True)


def _is_boolean(node: ast.expr) -> bool:
    """Whether an expression is true or false and nothing else: a comparison, a question whether something is there."""
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare) or (isinstance(node, ast.Call) and asks_availability(node.func))
