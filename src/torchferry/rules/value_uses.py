"""What becomes of a value that the target may answer with None: every use of it, through names, calls and modules.

A use is harmless only where that is proven: where the value is shown, compared with None, or asked whether it is there.
All others are listed. Those in other files are reported where the value leaves the examined one.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from torchferry.core.budget import spend
from torchferry.rules.none_guards import is_not_none
from torchferry.rules.value_calls import CONTAINERS, Passing, field_of, formats_none, parameters_of, passing
from torchferry.rules.value_steps import (
    Bears,
    FollowedValue,
    Hop,
    KeptAttribute,
    Relation,
    TracedExpression,
    ValueUse,
)
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_MOST_STEPS = 400
"""Expressions that one value is followed through; behind them its uses are open."""

MOST_AT_ONCE = 2_000
"""Expressions that a value is followed to from one, one more where some are left out; and owners of one value."""

_ANY = None
_PASSING_OWNERS = (
    ast.AnnAssign, ast.Assign, ast.Attribute, ast.BoolOp, ast.Call, ast.ClassDef, ast.IfExp, ast.Lambda, ast.NamedExpr,
    ast.Return, ast.arguments, ast.keyword,
)  # fmt: skip
"""What may be around an object or a class where what it has as an attribute is still to be had from the whole."""

_SEARCHES = frozenset(
    {"startswith", "endswith", "find", "rfind", "index", "count", "match", "fullmatch", "search", "findall", "fnmatch"}
)


class ValueFlow:
    """Follows the values of one file; what it has learnt of an expression serves all values that reach it.

    Args:
        file: The file that is examined.
        names: Name resolution there.
        project: The project that the file belongs to, or None.
    """

    def __init__(self, file: PythonFile, names: Names, project: Project | None) -> None:
        self._file = file
        self._names = names
        self._project = project
        self._learnt: dict[Hop, tuple[list[Hop], list[ValueUse]]] = {}
        self._of_holders: dict[tuple[object, ...], list[Hop]] = {}
        self._queue: list[Hop] = []
        self._uses: list[ValueUse] = []

    def of(self, expression: ast.expr) -> FollowedValue:
        """Return the uses of a value that is read in the file."""
        return self.follow(TracedExpression(expression, self._file, self._names))

    def follow(self, origin: TracedExpression) -> FollowedValue:
        """Return the uses of a value that begins at a place."""
        waiting = deque([Hop(origin)])
        seen: set[tuple[ast.AST, Relation, object]] = set()
        values: list[TracedExpression] = []
        uses: list[ValueUse] = []
        owners = 0
        while waiting:
            step = waiting.popleft()
            state = (step.at.node, step.relation, step.key if step.relation is Relation.OWNER else _ANY)
            if state in seen:
                continue
            if owners >= MOST_AT_ONCE or len(seen) - owners >= _MOST_STEPS:
                uses.append(ValueUse(origin.left_at or origin.node, None, Bears.OPEN))
                break
            spend()
            seen.add(state)
            owners += step.relation is Relation.OWNER
            if step.relation is Relation.VALUE:
                values.append(step.at)
            further, own = self.next(step)
            waiting += further
            uses += own
        return FollowedValue(tuple(values), tuple(dict.fromkeys(sorted(uses, key=_position))))

    def next(self, step: Hop) -> tuple[list[Hop], list[ValueUse]]:
        """Return where a value comes to from one expression, and what is done with it there."""
        if step not in self._learnt:
            self._queue, self._uses = [], []
            self._step(step)
            self._learnt[step] = self._queue[: MOST_AT_ONCE + 1], self._uses
        return self._learnt[step]

    # --- results ---

    def _report(
        self, at: TracedExpression, bears: Bears, node: ast.AST | None = None, question: ast.AST | None = None
    ) -> None:
        self._uses.append(ValueUse(at.left_at or node or at.node, question, bears))

    def _refused(self, step: Hop, node: ast.AST, bears: Bears = Bears.NO, question: ast.AST | None = None) -> None:
        """Report a use that does not take None, if the value may be None there."""
        if step.relation is Relation.OWNER:
            return
        if step.relation is Relation.MADE or is_not_none(step.at.file, step.at.node):
            bears = Bears.YES
        if bears is not Bears.YES or question is not None:
            self._report(step.at, bears, node, question)

    def _go(self, step: Hop, node: ast.AST | None, relation: Relation | None = None, key: object = _ANY) -> None:
        """Follow an expression of the same file."""
        if isinstance(node, ast.expr):
            relation = relation or step.relation
            key = key if relation in (Relation.HOLDER, Relation.OWNER) else _ANY
            self._queue.append(Hop(step.at._replace(node=node), relation, key))

    # --- one expression ---

    def _step(self, step: Hop) -> None:
        node, above = step.at.node, step.at.file.parents.get(step.at.node)
        if step.relation is Relation.OWNER and not isinstance(above, _PASSING_OWNERS):
            return
        if isinstance(above, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
            self._assigned(step, above)
        elif isinstance(above, ast.Compare):
            self._compared(step, above)
        elif isinstance(above, ast.BinOp):
            self._calculated(step, above)
        elif isinstance(above, ast.Subscript):
            self._subscripted(step, above)
        elif isinstance(above, ast.Attribute):
            self._attribute(step, above)
        elif isinstance(above, (ast.Call, ast.keyword)):
            self._passed(step, above)
        elif isinstance(above, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            self._displayed(step, above)
        elif isinstance(above, (ast.For, ast.AsyncFor, ast.comprehension)) and node is above.iter:
            self._iterated(step, above)
        elif isinstance(above, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            self._go(step, above, Relation.MADE if step.relation is Relation.MADE else Relation.HOLDER)
        elif isinstance(above, (ast.Return, ast.Lambda)):
            self._returned(step, above)
        elif isinstance(above, ast.arguments):
            self._default(step, above)
        elif isinstance(above, ast.ClassDef) and isinstance(step.key, KeptAttribute):  # objects of it have it, too
            inner = step._replace(relation=step.key.relation, key=step.key.key)
            self._attributes_of_class(inner, step.key.name, above, step.key.is_method)
        elif isinstance(above, ast.match_case) or (isinstance(above, ast.Match) and node is above.subject):
            self._refused(step, node, Bears.YES, question=above)
        else:
            self._other(step, above)

    def _other(self, step: Hop, above: ast.AST | None) -> None:
        node = step.at.node
        if isinstance(above, ast.IfExp):
            if node is not above.test:
                is_made = step.relation is Relation.VALUE and is_not_none(step.at.file, node)
                self._go(step, above, Relation.MADE if is_made else step.relation, step.key)
        elif isinstance(above, ast.BoolOp):
            last = above.values[-1]
            falls_back = isinstance(above.op, ast.Or) and node is not last and not _is_empty(last)
            self._go(
                step,
                above,
                Relation.MADE if falls_back and step.relation is Relation.VALUE else step.relation,
                step.key,
            )
        elif isinstance(above, ast.FormattedValue):
            if above.format_spec is not None and above.conversion == -1 and node is above.value:
                self._refused(step, above)
            self._go(step, step.at.file.parents.get(above), Relation.MADE)
        elif isinstance(above, ast.JoinedStr):
            self._go(step, above, Relation.MADE)
        elif isinstance(above, ast.Starred):
            self._refused(step, above)
            whole = step.at.file.parents.get(above)
            self._go(step, whole, Relation.MADE)
        elif isinstance(above, ast.UnaryOp):
            if not isinstance(above.op, ast.Not):
                self._refused(step, above)
                self._go(step, above, Relation.MADE)
        elif isinstance(above, ast.withitem):
            self._refused(step, node, Bears.OPEN)
            if above.optional_vars is not None and step.relation is Relation.VALUE:  # most give themselves
                self._given(step, above.optional_vars, above)
        elif not isinstance(above, (ast.Expr, ast.If, ast.While, ast.Assert, ast.comprehension)):
            self._refused(step, node, Bears.OPEN)  # yielded, awaited, raised, a slice, a decorator

    def _assigned(self, step: Hop, above: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) -> None:
        if above.value is not step.at.node:
            return
        if isinstance(above, ast.NamedExpr):
            self._go(step, above, step.relation, step.key)
        if isinstance(above, ast.AugAssign):
            if step.relation is Relation.VALUE:
                self._refused(step, above)
            step = step._replace(relation=Relation.MADE if step.relation is Relation.VALUE else step.relation)
        for target in above.targets if isinstance(above, ast.Assign) else [above.target]:
            self._given(step, target, above)

    def _given(self, step: Hop, target: ast.expr, statement: ast.AST) -> None:
        """Follow what a value is assigned to."""
        if isinstance(target, ast.Name):
            self._variable(step, target)
        elif isinstance(target, ast.Attribute):
            self._kept_as_attribute(step, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if step.relation is Relation.VALUE:
                self._refused(step, statement)
            inner = Relation.MADE if step.relation is not Relation.HOLDER else Relation.VALUE
            for number, each in enumerate(target.elts):
                if step.relation is not Relation.HOLDER or step.key in (_ANY, number):
                    self._given(step._replace(relation=inner), getattr(each, "value", each), statement)
        elif isinstance(target, ast.Subscript) and step.relation in (Relation.VALUE, Relation.HOLDER):
            key = target.slice.value if isinstance(target.slice, ast.Constant) else _ANY
            self._held_by(step, target.value, key)

    def _held_by(self, step: Hop, holder: ast.expr, key: object) -> None:
        """Follow a list or dictionary that is given the value: `info["cap"] = value`, `caps.append(value)`."""
        held = step._replace(relation=Relation.HOLDER, key=key)
        if isinstance(holder, (ast.Name, ast.Attribute)):
            self._given(held, holder, holder)
        else:
            self._refused(step, step.at.node, Bears.OPEN)

    def _variable(self, step: Hop, name: ast.Name) -> None:
        file, names = step.at.file, step.at.names
        scope = names.variable_scope(name.id, file.scope(name))
        binding = scope if isinstance(name.ctx, ast.Load) else name  # many statements may give a list the value
        self._once((binding, name.id), step, lambda: self._reads(step, name))
        if isinstance(scope, ast.ClassDef):
            self._attributes_of_class(step, name.id, scope)
        elif scope is file.tree:
            self._used_elsewhere(step, name.id, called=False)

    def _reads(self, step: Hop, name: ast.Name) -> None:
        reached = sorted(step.at.names.reached_uses(name), key=lambda use: (use.lineno, use.col_offset))
        for use in reached[: MOST_AT_ONCE + 1]:
            self._go(step, use, step.relation, step.key)

    def _once(self, holder: tuple[object, ...], step: Hop, follow: Callable[[], None]) -> None:
        """Follow what is kept under a name; other values that are kept under it are used at the same places."""
        learnt = *holder, step.relation, step.key, step.at.left_at
        if learnt in self._of_holders:
            self._queue += self._of_holders[learnt]
            return
        before = len(self._queue)
        follow()
        self._of_holders[learnt] = self._queue[before : before + MOST_AT_ONCE + 1]

    def _kept_as_attribute(self, step: Hop, target: ast.Attribute) -> None:
        owner = step.at.file.enclosing_class(target) if last_name(target.value) in ("self", "cls") else None
        if owner is not None:
            self._attributes_of_class(step, target.attr, owner)
            return
        for use in step.at.file.attributes.get(target.attr, ()):
            if isinstance(use.ctx, ast.Load):
                self._go(step, use, step.relation, step.key)
        self._owned(step, target.value, target.attr)

    def _owned(self, step: Hop, owner: ast.expr, name: str, *, is_method: bool = False) -> None:
        """Follow what has the value as an attribute: an object, a class, or a module."""
        if step.relation is Relation.MADE:
            return
        owning = step._replace(relation=Relation.OWNER, key=KeptAttribute(name, is_method, step.relation, step.key))
        if isinstance(owner, ast.Call):
            self._go(owning, owner, Relation.OWNER, owning.key)
        elif isinstance(owner, ast.Name):
            self._variable(owning, owner)
        imported = step.at.names.qualified(owner)
        if imported is not None and self._project is not None:
            path = self._project.module_path(imported, step.at.file.path)
            module, _, member = (f"{imported}.{name}" if path is not None else imported).rpartition(".")
            path = path or (self._project.module_path(module, step.at.file.path) if module.strip(".") else None)
            if path is not None:
                into = step if member == name and module == imported else owning
                self._queue += (into._replace(at=user) for user in self._users(step, member, path))

    def _attributes_of_class(self, step: Hop, name: str, owner: ast.ClassDef, called: bool = False) -> None:
        self._once((owner, name, called), step, lambda: self._reads_of_class(step, name, owner, called))

    def _reads_of_class(self, step: Hop, name: str, owner: ast.ClassDef, called: bool) -> None:
        """Follow the reads of an attribute of a class: by itself, and of any object that no other class is."""
        file = step.at.file
        sources = [step.at, *self._users(step, owner.name)]
        for at in {source.file: source for source in sources}.values():
            for use in sorted(at.file.attributes.get(name, ()), key=lambda read: (read.lineno, read.col_offset)):
                by_self = isinstance(use.value, ast.Name) and use.value.id in ("self", "cls")
                if not isinstance(use.ctx, ast.Load) or (by_self and at.file.enclosing_class(use) is not owner):
                    continue
                call = at.file.parents.get(use)
                is_call = called and isinstance(call, ast.Call) and call.func is use
                node = call if is_call and isinstance(call, ast.expr) else use
                left_at = step.at.left_at or (None if at.file is file else step.at.node)
                self._queue.append(step._replace(at=at._replace(node=node, left_at=left_at)))
        if step.relation is not Relation.MADE:
            key = KeptAttribute(name, called, step.relation, step.key)
            mentions = [step.at._replace(node=use) for use in step.at.names.uses(owner.name, file.scope(owner))]
            self._queue += (Hop(at, Relation.OWNER, key) for at in (*mentions, *sources[1:]))

    def _compared(self, step: Hop, above: ast.Compare) -> None:
        node = step.at.node
        sides = [above.left, *above.comparators]
        place = sides.index(node)
        around = [above.ops[number] for number in (place - 1, place) if 0 <= number < len(above.ops)]
        if all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in around):
            return
        if step.relation is Relation.HOLDER and all(isinstance(operator, (ast.In, ast.NotIn)) for operator in around):
            if isinstance(node, ast.Name) and isinstance(above.left, ast.Constant):
                return  # whether a dictionary has a key
        others = [side for side in sides if side is not node]
        if all(isinstance(side, ast.Constant) and side.value is None for side in others):
            return
        is_left = place == 0 and isinstance(above.ops[0], (ast.In, ast.NotIn))
        takes = is_left or all(isinstance(operator, (ast.Eq, ast.NotEq)) for operator in around)
        self._refused(step, above, Bears.YES if takes else Bears.NO, question=above)

    def _calculated(self, step: Hop, above: ast.BinOp) -> None:
        if step.relation is Relation.HOLDER and isinstance(above.op, (ast.Add, ast.Mult, ast.BitOr)):
            self._go(step, above, Relation.HOLDER)
            return
        if step.relation is Relation.VALUE:
            if isinstance(above.op, ast.Mod) and above.right is step.at.node and not _is_arithmetic(above):
                self._written(step, above, 0, 1)
            else:
                self._refused(step, above)
        self._go(step, above, Relation.MADE)

    def _written(self, step: Hop, formatted: ast.BinOp, index: int, count: int) -> None:
        """Report `form % values` where it does not write None."""
        writes = formats_none(string_value(formatted.left), index, count)
        if writes is not True:
            self._refused(step, formatted, Bears.OPEN if writes is None else Bears.NO)

    def _displayed(self, step: Hop, above: ast.Tuple | ast.List | ast.Set | ast.Dict) -> None:
        file, node = step.at.file, step.at.node
        outer = file.parents.get(above)
        if isinstance(above, ast.Tuple) and isinstance(outer, ast.BinOp) and outer.right is above:
            if isinstance(outer.op, ast.Mod):
                if step.relation is Relation.VALUE:
                    self._written(step, outer, above.elts.index(node), len(above.elts))
                self._go(step, outer, Relation.MADE)
                return
        if isinstance(above, ast.Dict):
            if node in above.keys:
                return
            key: object = file.keys_of(above).get(node)
            key = key.value if isinstance(key, ast.Constant) else _ANY
        else:
            starred = any(isinstance(each, ast.Starred) for each in above.elts)
            key = _ANY if starred or isinstance(above, ast.Set) else above.elts.index(node)
        if step.relation is Relation.MADE:
            targets = outer.targets if isinstance(outer, ast.Assign) and outer.value is above else ()
            alike = [
                each.elts[key] if isinstance(key, int) else each
                for each in targets
                if isinstance(each, (ast.Tuple, ast.List))
                and not isinstance(above, ast.Dict)
                and len(each.elts) == len(above.elts)
            ]
            for each in alike:
                self._given(step, each, above)
            if not alike:
                self._go(step, above, Relation.MADE)
            return
        self._go(step, above, Relation.HOLDER, key if step.relation is Relation.VALUE else _ANY)

    def _subscripted(self, step: Hop, above: ast.Subscript) -> None:
        if above.value is not step.at.node:  # it is the key of a table
            self._refused(step, above, Bears.YES, question=above)
            return
        if not isinstance(above.ctx, ast.Load):
            return
        if step.relation is Relation.HOLDER:
            key = above.slice.value if isinstance(above.slice, ast.Constant) else _ANY
            if isinstance(above.slice, ast.Slice):
                self._go(step, above, Relation.HOLDER)
            elif step.key in (_ANY, key) or key is _ANY or (isinstance(key, int) and key < 0):
                self._go(step, above, Relation.VALUE)
            return
        self._refused(step, above)
        self._go(step, above, Relation.MADE)

    def _attribute(self, step: Hop, above: ast.Attribute) -> None:
        call = step.at.file.parents.get(above)
        is_call = isinstance(call, ast.Call) and call.func is above
        if isinstance(step.key, KeptAttribute):
            if above.attr == step.key.name and isinstance(above.ctx, ast.Load):
                self._go(step, call if is_call and step.key.is_method else above, step.key.relation, step.key.key)
            return
        if step.relation is Relation.HOLDER:
            if is_call and above.attr in ("get", "pop") and isinstance(call, ast.Call) and call.args:
                asked = call.args[0]
                key = asked.value if isinstance(asked, ast.Constant) else _ANY
                if step.key in (_ANY, key) or key is _ANY:
                    self._go(step, call, Relation.VALUE)
            elif is_call and above.attr in ("values", "items", "copy"):
                self._go(step, call, Relation.HOLDER)
            elif not (is_call and above.attr in ("append", "add", "extend", "update", "keys", "clear", "remove")):
                self._refused(step, above, Bears.OPEN)
            return
        self._refused(step, above, Bears.OPEN)
        question = call if is_call and above.attr in _SEARCHES else None
        if question is not None:
            self._refused(step, above, Bears.YES, question=question)
        elif is_call:
            self._go(step, call, Relation.MADE)

    def _iterated(self, step: Hop, above: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        if step.relation is Relation.VALUE:
            self._refused(step, step.at.node)
        inner = Relation.VALUE if step.relation is Relation.HOLDER else Relation.MADE
        targets = above.target.elts if isinstance(above.target, (ast.Tuple, ast.List)) else [above.target]
        for target in targets:
            self._given(step._replace(relation=inner), target, above)

    # --- calls ---

    def _passed(self, step: Hop, above: ast.Call | ast.keyword) -> None:
        call = step.at.file.parents.get(above) if isinstance(above, ast.keyword) else above
        keyword = above.arg if isinstance(above, ast.keyword) else None
        if isinstance(step.key, KeptAttribute):
            self._passed_owner(step, call, keyword)
            return
        if not isinstance(call, ast.Call) or step.at.node is call.func:
            self._refused(step, step.at.node, Bears.OPEN)
            return
        name = last_name(call.func)
        if step.relation is not Relation.HOLDER and name in _SEARCHES:
            self._refused(step, call, Bears.OPEN, question=call)
            return
        if name in ("append", "add", "insert", "extend", "update") and isinstance(call.func, ast.Attribute):
            if step.relation is not Relation.MADE:
                self._held_by(step, call.func.value, _ANY)
            return
        if isinstance(call.func, ast.Name) and name == "dict" and keyword is not None:
            self._go(step, call, Relation.HOLDER if step.relation is Relation.VALUE else step.relation, keyword)
            return
        way = passing(step.at.names, call, step.at.node)
        if way is Passing.SHOWN:
            self._go(step, call, Relation.MADE)
        elif way is Passing.TAKEN_APART:
            if step.relation is Relation.VALUE:
                self._refused(step, call)
            held = step.relation is Relation.HOLDER
            picks = held and name in ("min", "max", "next")
            self._go(
                step,
                call,
                Relation.VALUE if picks else Relation.HOLDER if held and name in CONTAINERS else Relation.MADE,
            )
        elif not self._into_function(step, call, keyword) and not self._into_field(step, call, keyword):
            self._refused(step, step.at.node, Bears.OPEN)

    def _passed_owner(self, step: Hop, call: ast.AST | None, keyword: str | None) -> None:
        """Follow a class that is called, so that an object of it is made, and an object that is passed."""
        if not isinstance(call, ast.Call) or not isinstance(step.key, KeptAttribute):
            return
        if step.at.node is call.func:
            self._go(step, call, Relation.OWNER, step.key)
        elif last_name(call.func) == "getattr" and len(call.args) > 1 and string_value(call.args[1]) == step.key.name:
            self._go(step, call, step.key.relation, step.key.key)
        else:
            self._into_function(step, call, keyword)

    def _into_field(self, step: Hop, call: ast.Call, keyword: str | None) -> bool:
        """Follow an argument that becomes an attribute of the object made by a call: a field; False for others."""
        field = field_of(step.at.file, step.at.names, self._project, call, step.at.node, keyword)
        if field is None:
            return False
        self._owned(step, call, field.name)
        if field.owner is not None:
            left_at = step.at.left_at or (None if field.file is step.at.file else step.at.node)
            at = TracedExpression(call, field.file, field.names, left_at)
            self._attributes_of_class(step._replace(at=at), field.name, field.owner)
        return True

    def _into_function(self, step: Hop, call: ast.Call, keyword: str | None) -> bool:
        """Follow an argument into a function of the project; False where it is not one."""
        into = parameters_of(step.at.file, step.at.names, self._project, call, step.at.node, keyword)
        if into is None:
            return False
        left_at = step.at.left_at or (None if into.file is step.at.file else step.at.node)
        at = TracedExpression(call, into.file, into.names, left_at)
        if into.gathered and step.relation is Relation.OWNER:
            return True
        is_held = into.gathered and step.relation is Relation.VALUE
        held = Hop(at, Relation.HOLDER) if is_held else step._replace(at=at)
        self._parameter(held, into.parameter)
        return True

    def _parameter(self, step: Hop, parameter: ast.arg) -> None:
        function = step.at.file.scope(parameter)
        for use in step.at.names.uses(parameter.arg, function):
            if parameter in step.at.names.reaching_bindings(use):
                self._go(step, use, step.relation, step.key)

    def _default(self, step: Hop, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        if step.at.node in arguments.defaults:
            number = arguments.defaults.index(step.at.node) - len(arguments.defaults)
            self._parameter(step, positional[number])
        elif step.at.node in arguments.kw_defaults:
            self._parameter(step, arguments.kwonlyargs[arguments.kw_defaults.index(step.at.node)])

    def _returned(self, step: Hop, above: ast.Return | ast.Lambda) -> None:
        file, names = step.at.file, step.at.names
        if isinstance(above, ast.Lambda):
            statement = file.parents.get(above)
            if isinstance(statement, ast.keyword) and statement.arg == "default_factory":
                self._go(step, file.parents.get(statement), step.relation, step.key)  # `field(...)` of a dataclass
                return
            targets = statement.targets if isinstance(statement, ast.Assign) else ()
            for target in targets:
                if isinstance(target, ast.Name):
                    self._calls(step, names.uses_of(target))
                    if names.variable_scope(target.id, file.scope(target)) is file.tree:
                        self._used_elsewhere(step, target.id, called=True)
            if not targets:
                self._refused(step, step.at.node, Bears.OPEN)
            return
        function = file.enclosing_function(above)
        around = file.parents.get(function) if function is not None else None
        if function is None:
            return
        if isinstance(around, ast.ClassDef):
            self._attributes_of_class(step, function.name, around, called=True)
            return
        self._calls(step, [use for use in file.names.get(function.name, ()) if function in names.bindings(use)])
        if file.scope(function) is file.tree:
            self._used_elsewhere(step, function.name, called=True)

    def _calls(self, step: Hop, uses: Iterable[ast.expr]) -> None:
        for use in uses:
            call = step.at.file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use:
                self._go(step, call, step.relation, step.key)

    # --- other files ---

    def _used_elsewhere(self, step: Hop, identifier: str, called: bool) -> None:
        for user in self._users(step, identifier):
            call = user.file.parents.get(user.node)
            is_call = isinstance(call, ast.Call) and call.func is user.node
            if is_call == called:
                node = call if called and isinstance(call, ast.expr) else user.node
                self._queue.append(step._replace(at=user._replace(node=node)))

    def _users(self, step: Hop, identifier: str, path: str = "") -> Iterator[TracedExpression]:
        """Yield where other files use a name of a module: of the one that a step is in, where no path is given."""
        if self._project is not None:
            for file, names, node in self._project.users(path or step.at.file.path, identifier):
                yield TracedExpression(node, file, names, step.at.left_at or step.at.node)


def _position(use: ValueUse) -> tuple[int, int]:
    return getattr(use.node, "lineno", 0), getattr(use.node, "col_offset", 0)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_arithmetic(operation: ast.BinOp) -> bool:
    """Whether `a % value` is a remainder, and no text: what is a number is."""
    return isinstance(operation.left, ast.Constant) and isinstance(operation.left.value, (int, float))
