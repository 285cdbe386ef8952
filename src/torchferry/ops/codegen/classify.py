"""What each entry of a list comes to: its kind, its kernels, and what is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from enum import Enum

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.entries import NONE, OperatorEntry, Problem
from torchferry.ops.codegen.upstream import ChosenOperators

NATIVE = "at::native"


class KernelKind(Enum):
    """How an operator gets its kernel; the names are those of torch_musa's manual."""

    LEGACY = "Legacy"
    LEGACY_META = "LegacyMeta"
    CUSTOMIZED = "Customized"
    OVERRIDE = "override"
    UNSTRUCTURED = "unstructured"
    SHARED = "shared"
    FALLBACK = "CPU fallback"
    OTHER_KEY = "other key"


STRUCTURED = frozenset({KernelKind.LEGACY, KernelKind.LEGACY_META, KernelKind.CUSTOMIZED})
"""Kinds whose in-place and functional forms are generated from the out form."""

_KEY_PREFIXES = ("Autograd", "Quantized", "Sparse", "SparseCsr", "NestedTensor")


class Planned(NamedTuple):
    """A registration.

    Attributes:
        operator: Name with overload.
        key: Dispatch key.
        kind: How it gets its kernel.
        namespace: Of the kernel.
        kernel: Name of the kernel; empty for a fallback.
        entry: What it comes from.
        is_cuda_name: Whether it takes a kernel of torch's own that only builds for CUDA have.
    """

    operator: str
    key: str
    kind: KernelKind
    namespace: str
    kernel: str
    entry: OperatorEntry
    is_cuda_name: bool = False


class Classified(NamedTuple):
    """The registrations of a list, what is wrong with it, and the entries that do not count here."""

    planned: list[Planned]
    problems: list[Problem]
    set_aside: list[OperatorEntry]


def accepted_keys(key: str) -> tuple[str, ...]:
    """Return the dispatch keys that a backend with this key may register kernels for."""
    from torchgen.model import DispatchKey

    return (key, *(name for prefix in _KEY_PREFIXES if (name := prefix + key) in DispatchKey.__members__))


def that_count(
    entries: Iterable[OperatorEntry], version: tuple[int, int], card: str
) -> tuple[list[OperatorEntry], list[OperatorEntry], list[Problem]]:
    """Return the entries for a torch version and a card, those that do not count, and what cannot be decided."""
    counting, set_aside, problems = [], [], []
    for entry in entries:
        first, last = entry.versions
        if (first is not None and version < first) or (last is not None and version > last):
            set_aside.append(entry)
        elif entry.cards and not card:
            message = say("`when` names a card, and none was chosen")
            problems.append(Problem(entry.line, entry.operator, message,
                                    say("choose one with --card: {names}", names=", ".join(entry.cards))))  # fmt: skip
        elif entry.cards and card not in entry.cards:
            set_aside.append(entry)
        else:
            counting.append(entry)
    return counting, set_aside, problems


def classify(entries: list[OperatorEntry], chosen: ChosenOperators, key: str, namespace: str) -> Classified:
    """Return what the entries come to.

    Args:
        entries: Those that count for this torch and card.
        chosen: Torch's operators, at least those of the entries.
        key: The backend's dispatch key.
        namespace: The namespace of its kernels, such as `at::acme`.
    """
    problems: list[Problem] = []
    by_operator: dict[str, OperatorEntry] = {}
    for entry in entries:
        problem = _name_problem(entry, chosen, by_operator.get(entry.operator))
        if problem is not None:
            problems.append(problem)
        else:
            by_operator[entry.operator] = entry
    keys = accepted_keys(key)
    planned: list[Planned] = []
    for entry in by_operator.values():
        operator_checks = _EntryChecks(entry, by_operator, chosen, key, keys, namespace)
        found = list(operator_checks.problems())
        problems += found
        if not found:
            planned += operator_checks.planned()
    broken = {name for problem in problems for name in _members(chosen, problem.operator)}
    return Classified([row for row in planned if row.operator not in broken], problems, [])


def _members(chosen: ChosenOperators, operator: str) -> list[str]:
    """Return the operators that stand and fall with this one."""
    if operator not in chosen.functions:
        return []
    return chosen.members(operator) if chosen.is_structured(operator) else [operator]


def _name_problem(entry: OperatorEntry, chosen: ChosenOperators, earlier: OperatorEntry | None) -> Problem | None:
    if earlier is not None:
        return Problem(
            entry.line,
            entry.operator,
            say("the operator is already in line {line}", line=earlier.line),
            say("remove one of the two, or tell them apart with `versions` or `when`"),
        )
    if entry.operator not in chosen.functions:
        names = chosen.upstream.names
        close = difflib.get_close_matches(entry.operator, names, n=1, cutoff=0.6)
        return Problem(
            entry.line,
            entry.operator,
            say("torch {version} has no such operator", version=chosen.upstream.full_version),
            say("did you mean `{close}`?", close=close[0])
            if close
            else say("if the operator is your own, define it in your own namespace with torch.library"),
        )
    own = str(chosen.functions[entry.operator].func)
    if entry.schema and "".join(entry.schema.split()) != "".join(own.split()):
        return Problem(
            entry.line,
            entry.operator,
            say(
                "the schema differs from that of torch {version}, which an entry cannot change",
                version=chosen.upstream.full_version,
            ),
            say("write the name alone; torch's schema is {schema}", schema=own),
        )
    return None


class _EntryChecks:
    """One entry within its group."""

    def __init__(
        self,
        entry: OperatorEntry,
        entries: dict[str, OperatorEntry],
        chosen: ChosenOperators,
        key: str,
        keys: tuple[str, ...],
        namespace: str,
    ) -> None:
        self.entry = entry
        self.entries = entries
        self.chosen = chosen
        self.key = key
        self.keys = keys
        self.namespace = namespace
        self.members = chosen.members(entry.operator)
        self.upstream_structured = chosen.is_structured(entry.operator)
        group = chosen.group(entry.operator)
        self.out = str(group.out.func.name) if self.upstream_structured else entry.operator
        self.primary = entries.get(self.out)
        self.is_override = self.upstream_structured and self.primary is not None and self.primary.resets

    @property
    def own_kernel(self) -> str:
        return self.entry.dispatch.get(self.key, "")

    @property
    def is_out(self) -> bool:
        return self.entry.operator == self.out

    def _problem(self, message: Message, advice: Message) -> Problem:
        return Problem(self.entry.line, self.entry.operator, message, advice)

    def problems(self) -> Iterator[Problem]:
        entry = self.entry
        unknown = [key for key in entry.dispatch if key not in self.keys]
        if unknown:
            yield self._problem(
                say("`dispatch` names the key {key}, which does not fit --key", key=unknown[0]),
                say("with --key {key} use one of these: {keys}", key=self.key, keys=", ".join(self.keys)),
            )
        ways = [name for name, given in (("dispatch", self.own_kernel), ("shared", entry.shared),
                                         ("fallback", entry.is_fallback), ("stub", entry.stub)) if given]  # fmt: skip
        if len(ways) > 1:
            yield self._problem(
                say("`{first}` and `{second}` exclude each other", first=ways[0], second=ways[1]),
                say("keep one of them"),
            )
        if not self._only_other_keys:
            yield from self._structured_problems() if self.upstream_structured else self._plain_problems(ways)
        if entry.body is not None and not (self.own_kernel and (self.is_out or self._is_own_function)):
            yield self._problem(say("`exec` fills in a kernel, but the entry names no kernel"),
                                say("add `dispatch: {key}: NAME`", key=self.key))  # fmt: skip

    @property
    def _is_own_function(self) -> bool:
        return not self.upstream_structured or self.is_override

    @property
    def _only_other_keys(self) -> bool:
        """Whether it says nothing of the backend's own key."""
        entry = self.entry
        return (
            bool(entry.dispatch or entry.autograd)
            and not self.own_kernel
            and not (entry.shared or entry.is_fallback or entry.stub or entry.resets)
            and (not self.upstream_structured or self.primary is None)
        )

    def _plain_problems(self, ways: list[str]) -> Iterator[Problem]:
        if not ways:
            yield self._problem(
                say("the entry names no kernel, and torch has no structured kernel to use instead"),
                say("add `dispatch: {key}: NAME`, `shared: at::native::NAME` or `fallback: cpu`", key=self.key),
            )
        elif ways == ["stub"]:
            yield self._problem(
                say("a `stub` needs an operator that torch has in structured form"),
                say("add `dispatch: {key}: NAME` instead", key=self.key),
            )
        if self.entry.structured or self.entry.precomputed or self.entry.inherits:
            yield self._problem(
                say("torch does not have this operator in structured form, and it cannot become structured"),
                say("remove `structured`, `structured_inherits` and `precomputed`"),
            )

    def _structured_problems(self) -> Iterator[Problem]:
        absent = [name for name in self.members if name not in self.entries]
        if absent:
            yield self._problem(
                say(
                    "the operator's group is incomplete; missing: {names}",
                    names=", ".join(f"`{name}`" for name in absent),
                ),
                say("add: {entries}", entries="; ".join(f"- func: {name}" for name in absent)),
            )
            return
        entry, out = self.entry, self.primary
        assert out is not None
        if self.is_override:
            yield from self._override_problems()
            return
        if entry.shared:
            yield self._problem(
                say("torch has this operator in structured form, so `shared` is not possible"),
                say("remove `shared`: without a kernel, the entry uses torch's own (Legacy)"),
            )
        if not self.is_out:
            if self.own_kernel or entry.delegate == NONE or entry.is_fallback or entry.structured:
                yield self._problem(
                    say("`{out}` in line {line} is structured, so this form cannot have its own kernel, `fallback` or "
                        "`structured`",
                        out=self.out, line=out.line),
                    say("remove them here, or write `structured: false` at `{out}` and name a kernel for each "
                        "of {names}",
                        out=self.out, names=", ".join(f"`{name}`" for name in self.members)),
                )  # fmt: skip
            elif entry.delegate and entry.delegate != self.out:
                yield self._problem(
                    say(
                        "`structured_delegate` names `{name}`, which is not the one that torch has", name=entry.delegate
                    ),
                    say("write `{out}`", out=self.out),
                )
            elif entry.stub or entry.precomputed or entry.inherits or entry.body:
                yield self._problem(
                    say("`stub`, `exec`, `precomputed` and `structured_inherits` belong to the out form"),
                    say("write them at `{out}`", out=self.out),
                )
            return
        yield from self._primary_problems()

    def _override_problems(self) -> Iterator[Problem]:
        entry = self.entry
        if not (self.own_kernel or entry.is_fallback or entry.shared):
            yield self._problem(
                say("`{out}` is not structured here, so each form needs a kernel; this one has none", out=self.out),
                say("add `dispatch: {key}: NAME`", key=self.key),
            )  # fmt: skip
        kept = [name for name in (entry.inherits, *entry.precomputed) if name and name != NONE]
        if kept or entry.stub:
            yield self._problem(
                say("an operator that is not structured cannot have `stub`, `precomputed` or `structured_inherits`"),
                say("remove it, or write `none` there"),
            )

    def _primary_problems(self) -> Iterator[Problem]:
        entry = self.entry
        is_customized = bool(entry.inherits or entry.precomputed)
        if is_customized and not self.own_kernel:
            yield self._problem(
                say("`structured_inherits` and `precomputed` need a kernel"),
                say("add `dispatch: {key}: NAME`", key=self.key),
            )
        if is_customized and self.own_kernel == self._class_name:
            yield self._problem(
                say("the kernel and its preparation would both be the class structured_{name}", name=self.own_kernel),
                say("give the kernel another name"),
            )
        if self.own_kernel or entry.is_fallback:
            return
        on_cpu, on_cuda = (self.chosen.kernel(self.out, key) for key in ("CPU", "CUDA"))
        if self.key != "PrivateUse1":
            yield self._problem(
                say("torch lets only PrivateUse1 register a kernel for its stubs"),
                say("add `dispatch: {key}: NAME` at `{out}`", key=self.key, out=self.out),
            )
        elif not on_cpu or on_cpu != on_cuda:
            yield self._problem(
                say("torch's own kernel cannot be used: it differs between CPU ({cpu}) and CUDA ({cuda})",
                    cpu=on_cpu or "-", cuda=on_cuda or "-"),
                say("add `dispatch: {key}: NAME` at `{out}`", key=self.key, out=self.out),
            )  # fmt: skip

    @property
    def _class_name(self) -> str:
        function = self.chosen.group(self.out).functional.func.name
        return str(function.name) + (f"_{function.overload_name}" if function.overload_name else "")

    def planned(self) -> Iterator[Planned]:
        entry = self.entry
        for key, kernel in entry.dispatch.items():
            if key != self.key:
                yield self._registration(key, KernelKind.OTHER_KEY, kernel)
        if entry.autograd:
            yield Planned(
                entry.operator, f"Autograd{self.key}", KernelKind.OTHER_KEY, self.namespace, entry.autograd, entry
            )
        if self._only_other_keys:
            return
        out = self.primary
        if self.upstream_structured and not self.is_override:
            assert out is not None
            yield self._structured(out)
        elif entry.is_fallback:
            yield Planned(entry.operator, self.key, KernelKind.FALLBACK, "", "", entry)
        elif entry.shared:
            namespace, _, kernel = entry.shared.rpartition("::")
            yield Planned(entry.operator, self.key, KernelKind.SHARED, namespace, kernel, entry)
        else:
            kind = KernelKind.OVERRIDE if self.upstream_structured else KernelKind.UNSTRUCTURED
            yield self._registration(self.key, kind, self.own_kernel)

    def _structured(self, out: OperatorEntry) -> Planned:
        operator, kernel = self.entry.operator, out.dispatch.get(self.key, "")
        if out.is_fallback:
            return Planned(operator, self.key, KernelKind.FALLBACK, "", "", self.entry)
        if not kernel:
            own = self.chosen.kernel(self.out, "CPU")
            return Planned(operator, self.key, KernelKind.LEGACY, NATIVE, own, self.entry)
        kind = KernelKind.CUSTOMIZED if out.inherits or out.precomputed else KernelKind.LEGACY_META
        return Planned(operator, self.key, kind, self.namespace, kernel, self.entry)

    def _registration(self, key: str, kind: KernelKind, kernel: str) -> Planned:
        """Return a function of the vendor's, or torch's own where both have one name."""
        entry = self.entry
        related = key.replace(self.key, "")
        own = [self.chosen.kernel(entry.operator, related + name) for name in ("CPU", "CUDA") if related != "Autograd"]
        if kernel in own and not self.is_override:
            kind = KernelKind.SHARED if kind is KernelKind.UNSTRUCTURED else kind
            return Planned(entry.operator, key, kind, NATIVE, kernel, entry, own[0] != kernel)
        return Planned(entry.operator, key, kind, self.namespace, kernel, entry)
