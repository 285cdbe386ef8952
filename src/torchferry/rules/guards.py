"""What a condition guards: condition and guarded code change together, or neither does.

Of `if torch.cuda.is_available(): torch.cuda.Stream()`, the condition rewritten alone lets the program fail where it
would have gone another way; the stream rewritten alone is skipped in silence. A condition need not be at the code
that it decides about: it is kept in a variable or attribute, returned by a function, left early from (`if not ...:
return`), or the first part of `a and b`.

Only what stands directly under a condition belongs to it. Code under a second condition of its own is held by that
one, which stays false on the target and so keeps it from being run; then the outer one is free.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from torchferry.backends import cuda
from torchferry.backends.counterpart import Decision, decide
from torchferry.core.budget import spend
from torchferry.core.finding import LINK, Effect, Finding, Grade, Stage
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.answers import AnswerEffect, KnownConsequences, consequence_of, not_all_followed
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import Condition, condition_of, followers, stored_uses
from torchferry.rules.cuda_api.asked_of_machine import AskedOfMachine
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.generations import CAPABILITY, NAME, PROPERTIES, readings
from torchferry.rules.target_words import target_words
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in


class Bound(NamedTuple):
    """Findings with their groups.

    Attributes:
        findings: What the rules found, in the same order.
        staying: Groups that stay on purpose, with the reason.
    """

    findings: list[Finding]
    staying: dict[str, Message]


def bind(context: PythonContext, findings: Sequence[Finding], binding: frozenset[str]) -> Bound:
    """Put each condition and what it guards into one group.

    Args:
        context: The file.
        findings: What the rules found in it.
        binding: Codes of the rules whose places fail, or answer no, where there is no CUDA.
    """
    return _Guards(context, findings, binding).bound()


class _Guards:
    def __init__(self, context: PythonContext, findings: Sequence[Finding], binding: frozenset[str]) -> None:
        self.context = context
        self.file = context.file
        self.findings = findings
        self.staying: dict[str, Message] = {}
        self._parents: dict[str, str] = {}  # group -> a group that it was united with
        self._united: dict[str, str] = {}  # the same, followed to the end
        self._needs: dict[str, set[str]] = {}  # group -> groups of conditions that it was made from
        self._needs_of: dict[str, list[str]] = {}  # the same, by what a group is united with
        self._roots: dict[ast.AST, list[str]] = {}  # what a condition guards -> its group, innermost last
        self._guarded: dict[str, list[ast.AST]] = {}
        self._named: set[str] = set()  # groups of conditions that are kept under a name
        self._conditions: dict[ast.AST, str] = {}
        self._marked: dict[ast.AST, list[str]] = {}  # what a condition guards -> groups of such conditions
        self._reached: dict[ast.AST, tuple[str, ...]] = {}  # a place -> groups of the conditions around it
        self._consequences: KnownConsequences = {}
        self._deciding: dict[int, tuple[Message, Effect]] = {}  # questions that stay CUDA's: what their answer does
        self.nodes: dict[int, ast.AST] = {}
        self.binding: set[int] = set()
        for index, finding in enumerate(findings):
            node = self.file.node_at(*context.source.span(finding.location))
            if node is not None:
                bound = finding.code in binding or context.names.qualified(node) in cuda.questions()
                if bound or finding.edits:
                    self.nodes[index] = node
                    if bound and not _includes_target(context, finding, node):
                        self.binding.add(index)

    def bound(self) -> Bound:
        """Return the findings with their groups."""
        for index in sorted(self.binding):
            self._conditional(self.nodes[index])
        asked = [(index, self._condition(index)) for index in sorted(self.binding)]
        conditions = [(index, condition) for index, condition in asked if condition is not None]
        for _, condition in conditions:
            self._conditions.setdefault(condition.top, _name("guard", condition.top))
        for _, condition in conditions:
            self._spread(condition, self._conditions[condition.top])
        for condition in {condition.top: condition for _, condition in conditions}.values():
            self._roots.setdefault(condition.top, []).append(self._conditions[condition.top])
        self._stay(dict(conditions))
        false = dict(self.staying)  # what stays by its generation does so because somebody has to decide about it
        self._stay_by_generation()
        self._unite_equal([condition for _, condition in conditions])
        self._unite_by_names()
        for name, of in self._needs.items():
            self._needs_of.setdefault(self._group(name), []).extend(sorted(of))
        findings = [self._grouped(index, finding) for index, finding in enumerate(self.findings)]
        for index, (message, effect) in self._deciding.items():
            findings[index] = findings[index].regraded(Stage.GROUP, Grade.MANUAL, message, effect)
        self._leave_idle({index for index, _ in conditions}, findings)
        staying = {self._group(name): why for name, why in self.staying.items()}
        false = {self._group(name): why for name, why in false.items()}
        asking = {self.nodes[index]: self._group(self._conditions[of.top]) for index, of in conditions}
        for index, _ in conditions:
            if self.findings[index].effect is Effect.UNKNOWN:  # such a condition may be true on the target
                false.pop(asking[self.nodes[index]], None)
        if false:
            findings = [self._never_run(finding, false, asking) for finding in findings]
        return Bound(_with_imports(findings), staying)

    def _condition(self, index: int) -> Condition | None:
        node = self.nodes[index]
        is_answer = self.findings[index].code == AskedOfMachine.CODE and isinstance(node, (ast.Name, ast.Call))
        return condition_of(self.context, node, answer=is_answer)  # a name may hold the answer of an attempt

    def _never_run(self, finding: Finding, false: dict[str, Message], asking: dict[ast.AST, str]) -> Finding:
        """Return a decision as a note where its code is reached only under a condition that stays, and so is false."""
        if finding.grade is not Grade.MANUAL or finding.edits or finding.message is LINK:
            return finding
        words = target_words(*self.context.target.words)
        child: ast.AST | None = self.file.node_at(*self.context.source.span(finding.location))
        while child is not None and (parent := self.file.parents.get(child)) is not None:
            if isinstance(parent, ast.If) and child in parent.body and words.search(self.file.text(parent.test)):
                return finding  # the target's own branch
            groups = [self._group(name) for name in self._marked.get(child, ())]
            if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And) and child in parent.values:
                earlier = parent.values[: parent.values.index(child)]
                groups += [asking[part] for value in earlier for part in nodes_in(value) if part in asking]
            reason = next((false[group] for group in groups if group in false), None)
            if reason is not None:
                message = say("{message} ({reason})", message=finding.message, reason=reason)
                return finding.regraded(Stage.GROUP, Grade.NOTE, message, Effect.NOTHING)._replace(blocker=False)
            child = parent
        return finding

    # --- what belongs together ---

    def _conditional(self, node: ast.AST) -> None:
        """Make a group of a conditional expression: of `"cuda" if available() else "cpu"` all parts change or none."""
        outermost = None
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            if isinstance(current, ast.IfExp):
                outermost = current
            current = self.file.parents.get(current)
        if outermost is not None and outermost not in self._roots:
            self._roots[outermost] = [_name("conditional", outermost)]

    def _spread(self, condition: Condition, group: str) -> None:
        """Follow a condition to the code that it decides about."""
        top, positive = condition.top, condition.positive
        expression = self._outermost(top)
        if expression is not None:
            self._unite(group, self._roots[expression][0])
        self._mark(followers(self.file, top, positive), group)
        for use in stored_uses(self.context, top):
            self._named.add(group)
            self._use(use, positive, group)

    def _use(self, use: ast.expr, positive: bool, group: str) -> None:
        """Follow one use of a name that holds the answer, and those of the names that keep it from there on."""
        waiting = [(use, positive)]
        met: set[tuple[ast.expr, bool]] = set()
        while waiting:
            state = waiting.pop()
            if state not in met:
                spend()
                met.add(state)
                waiting += reversed(self._used(*state, group))

    def _used(self, use: ast.expr, positive: bool, group: str) -> list[tuple[ast.expr, bool]]:
        """Take in one use of a name that holds the answer, and return the uses of names that keep it further."""
        condition = condition_of(self.context, use, answer=True)
        if condition is None:
            return []
        why = exemption_for(self.context, use)
        if why is not None and not why.included:
            self.staying.setdefault(group, _goes_with(use, why.reason))
        top = condition.top
        positive = positive == condition.positive
        own = self._conditions.get(top)
        if own is not None and condition.needed:
            self._needs.setdefault(own, set()).add(group)
            return []
        if own is not None:
            self._unite(own, group)
        expression = self._outermost(top)
        if expression is not None:
            self._unite(group, self._roots[expression][0])
        self._roots.setdefault(top, []).append(group)
        self._mark(followers(self.file, top, positive), group)
        further = stored_uses(self.context, top)
        if further:
            self._named.add(group)
        return [(each, positive) for each in further]

    def _outermost(self, node: ast.AST) -> ast.AST | None:
        """Return the outermost conditional expression around a condition, if it holds anything of CUDA's."""
        outermost = None
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            if current in self._roots and isinstance(current, ast.IfExp):
                outermost = current
            current = self.file.parents.get(current)
        return outermost

    def _mark(self, nodes: Sequence[ast.AST], group: str) -> None:
        if not nodes:
            return
        self._guarded.setdefault(group, []).extend(nodes)
        roots, marked, mark = self._roots, self._marked, [group]
        for node in nodes:
            for groups in (roots, marked):
                if node in groups:
                    groups[node] += mark
                else:
                    groups[node] = [*mark]

    def _unite(self, group: str, other_group: str) -> None:
        group, other_group = self._group(group), self._group(other_group)
        if group != other_group:
            self._parents[max(group, other_group)] = min(group, other_group)

    def _group(self, name: str) -> str:
        while name in self._parents:
            name = self._parents[name]
        return name

    # --- what stays ---

    def _stay(self, asking: dict[int, Condition]) -> None:
        """Find the groups of which a part stays on purpose."""
        branches = self.context.cuda_only_branches
        for group, nodes in self._guarded.items() if branches else ():
            for node in nodes:
                if node in branches:
                    reason = say("this branch uses `{module}`, which supports only CUDA cards", module=branches[node])
                    self.staying.setdefault(group, _goes_with(node, reason))
        taking = self._taking_device()
        for index in sorted(self.binding):
            finding, node = self.findings[index], self.nodes[index]
            if finding.edits or finding.grade is not Grade.NOTE:
                continue
            why = exemption_for(self.context, node)
            if why is not None:
                for group in self._chain(node, why.owner):
                    self.staying.setdefault(group, _goes_with(node, why.reason))
            elif index in asking and self._answers_no(node):
                decided = self._decided_by(index, asking[index], bool(taking.intersection(self._chain(node)[:1])))
                if decided is not None:
                    self._deciding[index] = decided
                    continue
                reason = say("without CUDA it is False")
                for group in self._chain(node)[:1]:
                    self.staying.setdefault(group, _goes_with(node, reason))

    def _stay_by_generation(self) -> None:
        """Let conditions stay that together do nothing but choose by the generation of an NVIDIA card.

        As they stand, they choose what was written for other devices. Renamed, they would compare numbers of another
        maker, or None.
        """
        compared = {
            reading.reference.node
            for reading in readings(self.context)
            if reading.asked is not None and reading.is_compared
        }
        if not compared:
            return
        members: dict[str, list[int]] = {}
        for index, node in self.nodes.items():
            for group in self._chain(node):
                members.setdefault(group, []).append(index)
        for group, indexes in members.items():
            about = [self.nodes[index] for index in indexes if self.nodes[index] in compared]
            if not about or not all(self._asks_about_card(index) for index in indexes):
                continue
            asking = [self.nodes[index] for index in indexes if self._is_question(self.nodes[index])]
            if all(self._answered_before(node, asking, group) for node in about):
                reason = say("it chooses by the generation of an NVIDIA card, so the code for other devices runs")
                self.staying.setdefault(group, _goes_with(about[0], reason))

    def _asks_about_card(self, index: int) -> bool:
        """Whether a finding is a question about the CUDA card, or the device that such a question is about."""
        node: ast.AST | None = self.nodes[index]
        if self._is_question(node) or (not self.findings[index].edits and self.findings[index].grade is Grade.NOTE):
            return True
        while node is not None and not isinstance(node, ast.stmt):
            name = self.context.names.qualified(node.func if isinstance(node, ast.Call) else node) or ""
            if name in _ABOUT_CARD or name.startswith("torch.backends."):
                return True
            node = self.file.parents.get(node)
        return False

    def _is_question(self, node: ast.AST | None) -> bool:
        if isinstance(node, ast.Attribute) and node.attr == "is_cuda":
            return True
        name = self.context.names.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        return name in cuda.questions() and name != "torch.cuda.is_bf16_supported"

    def _answered_before(self, node: ast.AST, asking: list[ast.AST], group: str) -> bool:
        """Whether a place is reached only where one of some questions, all of one group, was answered with yes."""
        child: ast.AST = node
        parent = self.file.parents.get(child)
        while parent is not None:
            if group in map(self._group, self._marked.get(child, ())):
                return True
            if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
                earlier = parent.values[: parent.values.index(child)]  # type: ignore[arg-type]
                if any(part in asking for value in earlier for part in nodes_in(value)):
                    return True
            child, parent = parent, self.file.parents.get(parent)
        return False

    # --- conditions that belong together although neither stands around the other ---

    def _unite_equal(self, conditions: Sequence[Condition]) -> None:
        """Unite equal conditions of a function: what one prepares, another uses.

        A condition that chooses a device, and nothing else, is by itself.
        """
        first: dict[tuple[ast.AST, str], str] = {}
        inside: dict[ast.AST, list[ast.AST]] = {}  # what a condition guards -> places of findings in it
        for node in self.nodes.values():
            for around in self._around(node):
                if around in self._marked:
                    inside.setdefault(around, []).append(node)
        frozen = {self._group(name) for name in self.staying}
        for condition in {condition.top: condition for condition in conditions}.values():
            group = self._group(self._conditions[condition.top])
            if group in frozen or self._chooses_device(condition, inside):
                continue
            scope = self.file.enclosing_function(condition.top) or self.file.tree
            other = first.setdefault((scope, ast.dump(condition.top)), group)
            self._unite(group, other)

    def _chooses_device(self, condition: Condition, inside: dict[ast.AST, list[ast.AST]]) -> bool:
        guarded = followers(self.file, condition.top, condition.positive)
        places = [place for node in guarded if node in inside for place in inside[node]]
        return bool(places) and all(isinstance(place, (ast.Constant, ast.JoinedStr)) for place in places)

    def _around(self, node: ast.AST) -> Iterable[ast.AST]:
        current: ast.AST | None = node
        while current is not None:
            yield current
            current = self.file.parents.get(current)

    def _unite_by_names(self) -> None:
        """Unite a condition under which a name gets its value with those under which the name is used."""
        if len({self._group(name) for name in self._guarded}) < 2:
            return
        stores: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        loads: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        for node in self._variables():
            place = loads if isinstance(node.ctx, ast.Load) else stores  # type: ignore[attr-defined]
            if place is loads and not self._guards_of(node):
                continue
            identifier = node.id if isinstance(node, ast.Name) else node.attr  # type: ignore[attr-defined]
            scope = (
                self.context.names.variable_scope(identifier, self.file.scope(node))
                if isinstance(node, ast.Name)
                else self.file.enclosing_class(node)
            )
            if scope is not None:
                place.setdefault((scope, identifier), []).append(node)
        for variable, uses in loads.items():
            chains = [
                self._groups(self._guards_of(store))
                for store in stores.get(variable, ())
                if not self._is_default(store)
            ]
            common = [group for group in chains[0] if all(group in chain for chain in chains)] if chains else []
            for use in uses:
                around = dict.fromkeys(self._groups(self._guards_of(use)))
                if common and self._group(common[0]) not in around:
                    self._unite(common[0], next(iter(around)))

    def _variables(self) -> Iterable[ast.expr]:
        """Yield where variables and attributes of `self` are set and read, of those that are set under a condition."""
        for names in self.file.names.values():
            if len(names) > 1 and any(not isinstance(name.ctx, ast.Load) and self._guards_of(name) for name in names):
                yield from names
        for nodes in self.file.attributes.values():
            own = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")]
            if len(own) > 1 and any(not isinstance(node.ctx, ast.Load) and self._guards_of(node) for node in own):
                yield from own

    def _guards_of(self, node: ast.AST) -> tuple[str, ...]:
        """Return the conditions, as their first groups, that decide whether a place is reached, innermost first."""
        path: list[ast.AST] = []
        current: ast.AST | None = node
        while current is not None and current not in self._reached:
            path.append(current)
            current = self.file.parents.get(current)
        guards = self._reached[current] if current is not None else ()
        for step in reversed(path):
            guards = self._reached[step] = (*reversed(self._marked.get(step, ())), *guards)
        return guards

    def _is_default(self, store: ast.expr) -> bool:
        """Whether an assignment only says that there is no value yet."""
        value = assigned_value(self.file, store)
        return isinstance(value, ast.Constant) and not value.value

    def _answers_no(self, node: ast.AST) -> bool:
        """Whether a question stays CUDA's own on the target."""
        name = self.context.names.qualified(node)
        return name in cuda.questions() and self.context.target.api(name).use == name

    def _decided_by(self, index: int, condition: Condition, takes_device: bool) -> tuple[Message, Effect] | None:
        """Return what is said of a question that stays CUDA's and is no on the target, by what comes of the answer."""
        message, target = self.findings[index].message, self.context.target.title
        if takes_device:
            return (
                say(
                    "{message}; it chooses the device here, so on {target} the program takes another one",
                    message=message,
                    target=target,
                ),
                Effect.WRONG,
            )
        consequence = consequence_of(self.context, condition, self._consequences)
        if consequence is None:
            return None
        place = f"{consequence.path}:{consequence.line}"
        if consequence.effect is AnswerEffect.REFUSES:
            refuses = say("{message}; the program then refuses to go on ({place})", message=message, place=place)
            return refuses, Effect.RAISES
        if consequence.effect is AnswerEffect.UNKNOWN:
            return not_all_followed(message, place), Effect.UNKNOWN
        chooses = say(
            "{message}; it chooses what runs ({place}): decide which of the two is right for {target}",
            message=message,
            place=place,
            target=target,
        )
        return chooses, Effect.WRONG

    def _taking_device(self) -> set[str]:
        """Return the groups that decide which device is taken, so that without CUDA it is another one."""
        taking: set[str] = set()
        for index, place in self.nodes.items():
            if not self.findings[index].edits:
                continue
            if self._moves(place):
                taking.update(self._chain(place)[:1])
                continue
            if not isinstance(place, (ast.Constant, ast.JoinedStr)):
                continue
            child: ast.AST | None = place
            while child is not None and child not in self._marked:
                parent = self.file.parents.get(child)
                is_device = isinstance(parent, ast.Call) and self.context.names.qualified(parent.func) == "torch.device"
                child = parent if is_device or isinstance(parent, _KEPT) else None
            if isinstance(child, _KEPT_BY) or isinstance(self.file.parents.get(child) if child else None, ast.IfExp):
                taking.update(self._groups(self._marked[child]))  # type: ignore[index]
        for name, needed in self._needs.items():
            if self._group(name) in taking:
                taking.update(map(self._group, needed))
        return taking

    def _moves(self, place: ast.AST) -> bool:
        """Whether a place moves something to the device, or makes it there: `x.cuda()`, `x.to("cuda")`."""
        parent = self.file.parents.get(place)
        if isinstance(place, ast.Call):
            return isinstance(place.func, ast.Attribute) and place.func.attr in ("cuda", "to")
        if not isinstance(place, (ast.Constant, ast.JoinedStr)):
            return False
        while isinstance(parent, ast.Call) and self.context.names.qualified(parent.func) == "torch.device":
            place, parent = parent, self.file.parents.get(parent)
        return isinstance(parent, ast.keyword) or (isinstance(parent, ast.Call) and place in parent.args)

    def _leave_idle(self, asking: set[int], findings: list[Finding]) -> None:
        """Let conditions stay that guard nothing but calls which do nothing without CUDA."""
        guarded: dict[str, list[ast.AST]] = {}
        for name, of_name in self._guarded.items():
            guarded.setdefault(self._group(name), []).extend(of_name)
        named = {self._group(name) for name in self._named}
        for group in {findings[index].group for index in asking}:
            nodes = guarded.get(group, ())
            if nodes and group not in named and all(map(self._is_idle, nodes)):
                self.staying.setdefault(group, say("the code behind it does nothing without CUDA"))

    def _is_idle(self, node: ast.AST) -> bool:
        value = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(value, ast.Call):
            return False
        name = self.context.names.qualified(value.func)
        target = self.context.target
        return name is not None and decide(target, target.api(name)).decision is Decision.STAY

    # --- the groups of a place ---

    def _chain(self, node: ast.AST, owner: ast.AST | None = None) -> list[str]:
        """Return the groups that a place belongs to, innermost first: those of conditions within `owner`, if given."""
        names: list[str] = []
        current: ast.AST | None = node
        while current is not None and not (current is owner and isinstance(current, ast.stmt)):
            names += reversed(self._roots.get(current, ()))
            if current is owner:
                break
            current = self.file.parents.get(current)
        return list(dict.fromkeys(self._groups(names)))

    def _groups(self, names: Sequence[str]) -> list[str]:
        """Return what `_group` does for each name: all are followed once, and again when groups were united since."""
        if len(self._united) != len(self._parents):
            self._united = {name: self._group(name) for name in self._parents}
        return list(map(self._united.get, names, names))

    def _grouped(self, index: int, finding: Finding) -> Finding:
        node = self.nodes.get(index)
        if node is None:
            return finding
        chain = self._chain(node)
        if not chain:
            return finding
        binds = index in self.binding and not finding.group
        if binds and len(chain) > 1 and chain[0].startswith("conditional:"):
            chain = chain[1:]  # its test asks for nothing of CUDA's: the condition around it decides
        needs = [*finding.needs, *(chain[1:] if binds else chain)]
        for group in chain:
            if group in self._needs_of:
                needs += self._groups(self._needs_of[group])
        first = chain[0] if binds else finding.group
        others = dict.fromkeys(needs)
        others.pop(first, None)
        return finding._replace(group=first, needs=tuple(others))


_ABOUT_CARD = frozenset({CAPABILITY, NAME, PROPERTIES, f"{cuda.NAMESPACE}.current_device"})
"""Functions that tell about the card and do nothing with it."""

_KEPT_BY = (ast.Assign, ast.AnnAssign, ast.Return)
_KEPT = (*_KEPT_BY, ast.JoinedStr, ast.BinOp)
"""What may be between a device and the code that a condition guards, where nothing is done but keep the device."""


def _includes_target(context: PythonContext, finding: Finding, node: ast.AST) -> bool:
    """Whether a place stays because the target is named beside it, so that it holds for the target too."""
    if finding.edits or finding.grade is not Grade.NOTE:
        return False
    why = exemption_for(context, node)
    return why is not None and why.included


def _goes_with(node: ast.AST, reason: Message) -> Message:
    line = node.lineno  # type: ignore[attr-defined]
    return say("line {line} belongs to it and stays: {reason}", line=line, reason=reason)


def _name(kind: str, node: ast.AST) -> str:
    return f"{kind}:{node.lineno}:{node.col_offset}"  # type: ignore[attr-defined]


def _with_imports(findings: list[Finding]) -> list[Finding]:
    """Let an import need the groups of what it binds: a use that stays would otherwise mean something else."""
    wanted: dict[str, set[str]] = {}
    imports = {finding.group for finding in findings if finding.group.startswith(("alias:", "Import"))}
    for finding in findings:
        if finding.group.startswith(("guard:", "conditional:")):
            for need in imports.intersection(finding.needs):
                wanted.setdefault(need, set()).add(finding.group)
    return [
        finding._replace(needs=(*finding.needs, *sorted(wanted[finding.group] - {finding.group})))
        if finding.group in imports and finding.group in wanted
        else finding
        for finding in findings
    ]
