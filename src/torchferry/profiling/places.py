"""Operators that one side fuses, matched by the place in which they stand: N of the base, M of the target.

A step is a tree: modules, optimizers and operators, each with what it calls. Two trees are laid on each other from the
top: what has the same name in the same order is the same, and the text between two that are the same, on both sides,
is a group. The backward has a sequence for each module. A group says that both sides do these operators at the same
place, and not that they compute the same.

Nothing is guessed. Without modules on both sides there are no groups. Where modules are on both sides of a group,
the programs differ in more than operators. Names that repeat those directly beside them could be the match instead of
these, and are in no group.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from torchferry.core.record import NamedTuple
from torchferry.profiling.linking import is_step
from torchferry.profiling.records import ANNOTATION, MODULE, OPERATOR, HostCall
from torchferry.profiling.summary import Summary

_ENGINE = "autograd::engine::evaluate_function: "
"""What autograd puts before the name of each node that it runs."""

_OPTIMIZER = "Optimizer."
"""How `torch.optim` marks `Optimizer.step#AdamW.step` and `Optimizer.zero_grad#AdamW.zero_grad`."""

_MOST_PAIRS = 1_000_000
"""Pairs of names that are looked at in all: `difflib` takes 0.4 CPU seconds for a million (an optimizer's loop)."""

_DEEPEST = 200
"""Levels of a tree that are looked at."""

Names = tuple[tuple[str, int], ...]
"""Names of operators, the one that takes longest first, and how often each is called at a place."""


class PlaceRow(NamedTuple):
    """Operators of both sides at the same places; nanoseconds and places of one step.

    Attributes:
        base_names: The operators of the base at one place.
        target_names: The operators of the target there.
        base: Time of the base's in all places, with all that they call.
        target: Time of the target's.
        base_calls: Places in a step of the base.
        target_calls: Places in a step of the target.
    """

    base_names: Names
    target_names: Names
    base: float
    target: float
    base_calls: float
    target_calls: float

    @property
    def difference(self) -> float:
        """Return how much more the target takes."""
        return self.target - self.base


@dataclass(frozen=True)
class Places:
    """The groups of two runs.

    Attributes:
        rows: The groups by the size of their difference.
        members: For base and target the indices of the calls that are in one of the groups.
        unfit: Places in all steps where both sides differ and no group was made.
        have_modules: Whether both traces have modules.
    """

    rows: tuple[PlaceRow, ...]
    members: tuple[frozenset[int], frozenset[int]]
    unfit: int
    have_modules: bool


@dataclass
class _TreeNode:
    """A module, an optimizer or an operator, and what it calls; `index` is that of the call."""

    index: int
    name: str
    is_operator: bool
    inside: list[_TreeNode] = field(default_factory=list)


@dataclass
class _StepTree:
    """A step: what is called outside of all, and for each module the nodes of its backward."""

    forward: list[_TreeNode] = field(default_factory=list)
    backward: dict[str, list[_TreeNode]] = field(default_factory=lambda: defaultdict(list))


_Block = tuple[int, int, int, int]
"""Start and end in the base, start and end in the target."""


@dataclass
class _SamePlace:
    """Operators of both sides at one place; a side is None where its step was laid on another one before."""

    base: list[_TreeNode] | None
    target: list[_TreeNode] | None


@dataclass
class _Groups:
    """Groups as they are found: for the names of both sides, the places.

    Attributes:
        found: The places of each group.
        counts: Whether the steps that are laid on each other now count for base and target.
        unfit: Places where both sides differ and no group was made.
    """

    found: dict[tuple[Names, Names], list[_SamePlace]] = field(default_factory=lambda: defaultdict(list))
    counts: tuple[bool, bool] = (True, True)
    unfit: int = 0
    _pairs: int = 0
    _known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[_Block]] = field(default_factory=dict)

    def blocks(self, base: tuple[str, ...], target: tuple[str, ...]) -> list[_Block]:
        """Return how two sequences are divided; nothing once there were too many. Layers and steps are often alike."""
        if (base, target) not in self._known:
            if self._pairs + len(base) * len(target) > _MOST_PAIRS:
                self.unfit += 1
                return []
            self._pairs += len(base) * len(target)
            self._known[base, target] = _blocks(base, target)
        return self._known[base, target]

    def add(self, base: Sequence[_TreeNode], target: Sequence[_TreeNode]) -> None:
        """Add a place, unless modules are on both sides."""
        first, second = list(_operators(base)), list(_operators(target))
        if not first or not second:
            return
        if all(any(not node.is_operator for node in nodes) for nodes in (base, target)):
            self.unfit += 1
            return
        place = _SamePlace(first if self.counts[0] else None, second if self.counts[1] else None)
        self.found[_names(first), _names(second)].append(place)


def places(base: Summary, target: Summary) -> Places:
    """Return the groups of two runs.

    The steps of both are laid on each other one by one; of a run with more steps, the further ones are laid on those
    of the other from its first on. A run whose trace has no modules has no groups.
    """
    sides = [_steps(summary) for summary in (base, target)]
    if not all(sides):
        return Places((), (frozenset(), frozenset()), 0, False)
    groups = _Groups()
    for number in range(max(map(len, sides))):
        groups.counts = number < len(sides[0]), number < len(sides[1])
        first, second = (steps[number % len(steps)] for steps in sides)
        if not _share_a_module(first.forward, second.forward):
            groups.unfit += 1
            continue
        _lay(first.forward, second.forward, groups, 0)
        for path, nodes in first.backward.items():
            if path in second.backward:
                _lay(nodes, second.backward[path], groups, 0)
    rows: list[PlaceRow] = []
    members: tuple[set[int], set[int]] = (set(), set())
    for key, found in groups.found.items():
        counts = (
            sum(place.base is not None for place in found) / len(base.steps),
            sum(place.target is not None for place in found) / len(target.steps),
        )
        if not all(counts):  # only in further steps of one side
            groups.unfit += len(found)
            continue
        roots = (
            [node for place in found for node in place.base or ()],
            [node for place in found for node in place.target or ()],
        )
        names, times = [], []
        for summary, side, found_in, those in zip((base, target), key, roots, members, strict=True):
            by_name: Counter[str] = Counter()
            for node in found_in:
                for index in _indices(summary, node):
                    by_name[_label(node)] += _own_time(summary, index)
                    those.add(index)
            order = sorted((-by_name[name], name, count) for name, count in side)
            names.append(tuple((name, count) for _, name, count in order))
            times.append(by_name.total() / len(summary.steps))
        rows.append(PlaceRow(names[0], names[1], times[0], times[1], *counts))
    rows.sort(key=lambda row: (-abs(row.difference), row.base_names, row.target_names))
    return Places(tuple(rows), (frozenset(members[0]), frozenset(members[1])), groups.unfit, True)


def _lay(base: list[_TreeNode], target: list[_TreeNode], groups: _Groups, depth: int) -> None:
    """Lay two sequences on each other: what is the same is looked into, what differs on both sides is a group."""
    if depth > _DEEPEST:
        groups.unfit += 1
        return
    names = [[node.name for node in nodes] for nodes in (base, target)]
    start, end, other = 0, len(base), len(target)
    while start < min(end, other) and names[0][start] == names[1][start]:
        start += 1
    while min(end, other) > start and names[0][end - 1] == names[1][other - 1]:
        end, other = end - 1, other - 1
    same = [*zip(base[:start], target[:start], strict=True), *zip(base[end:], target[other:], strict=True)]
    if end > start and other > start:
        blocks = groups.blocks(tuple(names[0][start:end]), tuple(names[1][start:other]))
        for i1, i2, j1, j2 in blocks:
            first, second = base[start + i1 : start + i2], target[start + j1 : start + j2]
            if names[0][start + i1 : start + i2] == names[1][start + j1 : start + j2]:
                same += zip(first, second, strict=True)
            else:
                groups.add(_clear(base, start + i1, start + i2), _clear(target, start + j1, start + j2))
    for one, other_one in same:
        if one.inside and other_one.inside:
            _lay(one.inside, other_one.inside, groups, depth + 1)


def _blocks(base: Sequence[str], target: Sequence[str]) -> list[_Block]:
    """Return how two sequences are divided into what is the same and what differs.

    `difflib` takes the earliest of equally long matches, so that it matters which sequence is the first. Of the two
    ways the one with fewer differences counts, then the one that matches more: base and target can be exchanged.
    """
    ways = []
    for exchanged in (False, True):
        first, second = (target, base) if exchanged else (base, target)
        codes = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
        blocks = [(j1, j2, i1, i2) if exchanged else (i1, i2, j1, j2) for _, i1, i2, j1, j2 in codes]
        matched = sum(code[2] - code[1] for code in codes if code[0] == "equal")
        ways.append(((len(codes), -matched, first), blocks))
    return min(ways)[1]


def _clear(nodes: list[_TreeNode], start: int, end: int) -> list[_TreeNode]:
    """Return what differs without what repeats the names directly beside it: either of the two could be the match.

    Of three linear layers against one and a `chunk`, which are the same is not known. Modules of a class are alike.
    """
    kinds = [node.name if node.is_operator else node.name.rpartition("_")[0] or node.name for node in nodes]
    while repeated := _repeated(kinds, start, end, -1):
        start += repeated
    while repeated := _repeated(kinds, start, end, 1):
        end -= repeated
    return nodes[start:end]


def _repeated(kinds: list[str], start: int, end: int, side: int) -> int:
    """Return how many names at the start of what differs repeat those before it, or at its end those behind it."""
    for length in range(min(end - start, start if side < 0 else len(kinds) - end), 0, -1):
        at = start if side < 0 else end
        inside = kinds[at : at + length] if side < 0 else kinds[at - length : at]
        outside = kinds[at - length : at] if side < 0 else kinds[at : at + length]
        if inside == outside:
            return length
    return 0


def _share_a_module(base: list[_TreeNode], target: list[_TreeNode]) -> bool:
    sides = [{node.name for node in nodes if not node.is_operator} for nodes in (base, target)]
    return not sides[0].isdisjoint(sides[1])


def _operators(nodes: Sequence[_TreeNode]) -> Iterator[_TreeNode]:
    """Yield the outermost operators of nodes in order."""
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if node.is_operator:
            yield node
        else:
            waiting += reversed(node.inside)


def _label(node: _TreeNode) -> str:
    return node.name.removeprefix(_ENGINE)


def _names(nodes: list[_TreeNode]) -> Names:
    return tuple(sorted(Counter(map(_label, nodes)).items()))


def _indices(summary: Summary, root: _TreeNode) -> Iterator[int]:
    """Yield an operator and those inside of it."""
    calls = summary.trace.calls
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.inside
        if calls[node.index].kind == OPERATOR:
            yield node.index


def _own_time(summary: Summary, index: int) -> int:
    call = summary.trace.calls[index]
    return summary.links.device_self[index] if summary.on_device else call.end - call.start - summary.links.inner[index]


def _steps(summary: Summary) -> list[_StepTree]:
    """Return the steps of a trace as trees; none where the trace has no modules."""
    calls, modules = summary.trace.calls, summary.links.module
    main = next((call.thread for call in calls if call.kind == MODULE), -1)
    if main < 0:
        return []
    starts = sorted(call.start for call in calls if is_step(call)) or [summary.window[0]]
    steps = [_StepTree() for _ in starts]
    nodes = [index for index, call in enumerate(calls) if _is_node(call) and call.start < summary.window[1]]
    nodes.sort(key=lambda index: (calls[index].thread, calls[index].start, -calls[index].end))
    opened: list[_TreeNode] = []
    operators = 0  # how many of those that are open
    thread = -1
    for index in nodes:
        call = calls[index]
        if call.thread != thread:
            opened, operators, thread = [], 0, call.thread
        while opened and calls[opened[-1].index].end <= call.start:
            operators -= opened.pop().is_operator
        is_operator = call.kind == OPERATOR and not call.name.startswith(_OPTIMIZER)
        name = call.name.partition("#")[0] if call.name.startswith(_OPTIMIZER) else call.name
        node = _TreeNode(index, name, is_operator)
        number = bisect_right(starts, call.start) - 1
        if not operators and name.startswith(_ENGINE):
            if number >= 0 and modules.get(index):
                steps[number].backward[modules[index]].append(node)
        elif opened:
            opened[-1].inside.append(node)
        elif number >= 0 and thread == main:
            steps[number].forward.append(node)
        opened.append(node)
        operators += is_operator
    return steps


def _is_node(call: HostCall) -> bool:
    if call.kind == ANNOTATION:
        return call.name.startswith(_OPTIMIZER)
    return call.kind in (MODULE, OPERATOR) and not is_step(call)
