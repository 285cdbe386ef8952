"""From a list of operators to the files that register them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from torchferry.backends.kernel_libraries import KernelLibrary, kernel_libraries
from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen import sources
from torchferry.ops.codegen.classify import Classified, KernelKind, Planned, accepted_keys, classify, that_count
from torchferry.ops.codegen.defined import definitions_in
from torchferry.ops.codegen.document import read_document
from torchferry.ops.codegen.entries import Listed, OperatorEntry, Problem, entries_of
from torchferry.ops.codegen.registrations import BadPrecomputedError, DeclaredKernel, Writer, WrittenGroup
from torchferry.ops.codegen.skeletons import Filled, fill, filled_file, skeletons
from torchferry.ops.codegen.sources import FILLED, SKELETONS, FileNames, StubKernel
from torchferry.ops.codegen.stubs import Stubs
from torchferry.ops.codegen.upstream import ChosenOperators, Upstream, torch_folder
from torchferry.ops.codegen.written import signed

_NAMESPACE = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")


class CodegenOptions(NamedTuple):
    """What a run is asked for.

    Attributes:
        functions: The list of operators.
        key: Dispatch key: `PrivateUse1` or `XLA`.
        namespace: Of the kernels: `at::acme`.
        kernels: Folders with kernels that are written.
        shards: How many files of registrations; None for as many as g++ needs below 1 GB.
        card: The card that `when` is compared with.
        library: Library of kernels whose steps all skeletons list.
        headers: Further headers of the vendor's that the generated one includes.
        leave_out: Whether entries with a problem are left out, and the others generated.
        out: The folder of the generated files: what is there defines no kernel.
    """

    functions: Path
    key: str
    namespace: str
    kernels: tuple[Path, ...] = ()
    shards: int | None = None
    card: str = ""
    library: str = ""
    headers: tuple[str, ...] = ()
    leave_out: bool = False
    out: Path | None = None


class RegistrationRow(NamedTuple):
    """One line of the table: a registration, and the file that has it.

    Attributes:
        operator: Name with overload.
        key: Dispatch key.
        kind: How it gets its kernel.
        kernel: The function or class that calculates, with its namespace; empty for a fallback.
        file: The file that registers it.
        is_written: Whether the kernel is written, torch's own, or made from a template; False for a skeleton.
        line: Of the entry.
        needs_cuda_source: Whether the kernel is one of torch's own that only its CUDA sources have.
    """

    operator: str
    key: str
    kind: KernelKind
    kernel: str
    file: str
    is_written: bool
    line: int
    needs_cuda_source: bool


class Generated(NamedTuple):
    """What a list comes to.

    Attributes:
        names: What the files are called after.
        files: Their contents by name.
        rows: What is registered.
        problems: Entries that are left out, and why.
        set_aside: Entries for another torch or card.
        entries: How many there are.
        notes: What is worth knowing besides.
        skeletons: Kernels that only raise.
    """

    names: FileNames
    files: dict[str, bytes]
    rows: tuple[RegistrationRow, ...]
    problems: tuple[Problem, ...]
    set_aside: tuple[OperatorEntry, ...]
    entries: int
    notes: tuple[Message, ...]
    skeletons: frozenset[str]


class ProblemsError(TorchferryError):
    """Entries that cannot be generated; each is a line `file:line: operator: what; what to do`."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        super().__init__(
            say_plural("{count} entry cannot be generated; nothing was written",
                       "{count} entries cannot be generated; nothing was written", count=len(problems)),
            say("correct them, or leave them out with --leave-out"),
        )  # fmt: skip
        self.path = path
        self.problems = tuple(problems)

    def lines(self) -> list[str]:
        """Return the problems below the message."""
        first, *advice = super().lines()
        return [first, *(problem.render(self.path) for problem in self.problems), *advice]


def generate(options: CodegenOptions) -> Generated:
    """Generate the files for a list of operators; nothing is written.

    Raises:
        DocumentError: the list cannot be read.
        ProblemsError: entries cannot be generated, and `leave_out` is not set.
        UsageError: an option has a value that does not exist.
        TorchferryError: torch or PyYAML is not installed.
    """
    listed = entries_of(read_document(options.functions), options.functions)
    upstream = Upstream()
    names = _names(options)
    entries, set_aside, undecided = that_count(listed.entries, upstream.version, options.card)
    chosen = upstream.choose(entry.operator for entry in entries)
    classified = classify(entries, chosen, options.key, options.namespace)
    work = _Work(options, names, listed, chosen)
    groups = work.groups(classified)
    stubs = work.stub_kernels(groups)
    filled = work.filled(groups)
    problems = sorted([*listed.problems, *undecided, *classified.problems, *work.problems])
    if problems and not options.leave_out:
        raise ProblemsError(options.functions, problems)
    broken = {problem.operator for problem in work.problems}
    groups = [group for group in groups if not broken.intersection(row.operator for row in group.rows)]
    return work.generated(groups, stubs, filled, problems, set_aside, len(listed.entries) + len(listed.problems))


def _names(options: CodegenOptions) -> FileNames:
    from torchgen.model import DispatchKey

    if options.key not in DispatchKey.__members__:
        raise unknown_name("dispatch key", options.key, ("PrivateUse1", "XLA"))
    if not _NAMESPACE.fullmatch(options.namespace):
        raise UsageError(
            say("--namespace: `{name}` is not a C++ namespace", name=options.namespace),
            say("write one such as {example}", example="at::acme"),
        )
    if options.library and options.library not in kernel_libraries():
        raise unknown_name("kernel library", options.library, kernel_libraries())
    return FileNames(options.namespace.rpartition("::")[2], options.namespace)


class _Work:
    """One run; `problems` collects what is found while code is written."""

    def __init__(self, options: CodegenOptions, names: FileNames, listed: Listed, chosen: ChosenOperators) -> None:
        self.options = options
        self.names = names
        self.listed = listed
        self.chosen = chosen
        self.writer = Writer(chosen, options.key, options.namespace)
        self.problems: list[Problem] = []

    def groups(self, classified: Classified) -> list[WrittenGroup]:
        """Write the registrations, those of a group together."""
        together: dict[tuple[int, str, bool], list[Planned]] = {}
        for row in classified.planned:
            fallback = row.kind is KernelKind.FALLBACK
            together.setdefault((id(self.chosen.group(row.operator)), row.key, fallback), []).append(row)
        return [written for rows in together.values() if (written := self._written(rows)) is not None]

    def _written(self, rows: list[Planned]) -> WrittenGroup | None:
        try:
            return self.writer.write(rows)
        except BadPrecomputedError as error:
            entry = error.planned.entry
            self.problems.append(Problem(
                entry.line, entry.operator, say("`precomputed` is not understood: {error}", error=str(error)),
                say("write lines such as `- diagonal -> int var`, and new values without an arrow in the last"),
            ))  # fmt: skip
            return None

    def stub_kernels(self, groups: list[WrittenGroup]) -> dict[int, list[StubKernel]]:
        """Return the kernels that are registered for stubs, by the place of their group."""
        stubs = Stubs(torch_folder() / "include")
        kernels: dict[int, list[StubKernel]] = {}
        for index, group in enumerate(groups):
            for row in group.rows:
                stub = row.entry.stub
                if stub is None:
                    continue
                declared = stubs.find(stub.name)
                if declared is None or not declared.returns:
                    close = stubs.nearest(stub.name)
                    self.problems.append(Problem(
                        row.entry.line, row.operator, say("torch's headers declare no stub `{name}`", name=stub.name),
                        say("did you mean `{close}`?", close=close) if close
                        else say("look for DECLARE_DISPATCH in ATen/native of torch's headers"),
                    ))  # fmt: skip
                else:
                    kernels.setdefault(index, []).append(StubKernel(declared, stub.kernel, row.operator))
        return {id(groups[index]): rows for index, rows in kernels.items()}

    def filled(self, groups: list[WrittenGroup]) -> list[Filled]:
        """Return the kernels that templates fill."""
        kernels = []
        for group in groups:
            entries = {row.operator: row.entry for row in group.rows}
            for kernel in group.declared:
                entry = entries[kernel.operator]
                if entry.body is None:
                    continue
                template = self.listed.templates.get(entry.body.template)
                if template is None:
                    self._body_problem(entry, say("`exec` names the template `{name}`, which the file "
                                                  "does not have", name=entry.body.template),
                                       say("add the template under `templates:`"))  # fmt: skip
                    continue
                try:
                    kernels.append(fill(kernel, entry.body, template))
                except ValueError as error:
                    self._body_problem(
                        entry, say("the template cannot be filled: {error}", error=str(error)),
                        say("known: {names}", names="$call, $inputs, $outputs, $result, $arguments; size, dtype"),
                    )  # fmt: skip
        return kernels

    def _body_problem(self, entry: OperatorEntry, message: Message, advice: Message) -> None:
        self.problems.append(Problem(entry.line, entry.operator, message, advice))

    def _library(self) -> Callable[[DeclaredKernel], KernelLibrary | None]:
        libraries = kernel_libraries()
        entries = {entry.operator: entry for entry in self.listed.entries}

        def of(kernel: DeclaredKernel) -> KernelLibrary | None:
            return libraries.get(entries[kernel.operator].library or self.options.library)

        return of

    def generated(
        self,
        groups: list[WrittenGroup],
        stubs: dict[int, list[StubKernel]],
        filled: list[Filled],
        problems: list[Problem],
        set_aside: list[OperatorEntry],
        count: int,
    ) -> Generated:
        """Return the files and the table."""
        kernels = list({kernel.declaration: kernel for group in groups for kernel in group.declared}.values())
        all_stubs = [stub for group in groups for stub in stubs.get(id(group), ())]
        definitions = definitions_in(self.options.kernels, self._is_generated)
        done = {kernel.kernel.declaration for kernel in filled}
        begun = skeletons(
            self.names, [kernel for kernel in kernels if kernel.declaration not in done], all_stubs, definitions,
            self._library(),
        )  # fmt: skip
        headers = [*self.listed.headers, *self.options.headers]
        files = {self.names.header: sources.header(self.names, groups, headers, all_stubs)}
        helpers = self.writer.helpers()
        rows: list[RegistrationRow] = []
        for index, part in enumerate(sources.shards(groups, self.options.shards)):
            name = self.names.shard(index)
            part_stubs = [stub for group in part for stub in stubs.get(id(group), ())]
            files[name] = sources.shard(self.names, part, helpers, part_stubs)
            rows += [_row(row, name, begun.kernels) for group in part for row in group.rows]
        if begun.text:
            files[SKELETONS] = begun.text
        if filled:
            roots = [
                group.root for group in groups if done.intersection(kernel.declaration for kernel in group.declared)
            ]
            files[FILLED] = filled_file(self.names, filled, roots)
        return Generated(
            self.names, {name: signed(self._headed(text)) for name, text in files.items()},
            tuple(sorted(rows, key=lambda row: (row.line, row.operator, row.key))), tuple(problems), tuple(set_aside),
            count, tuple(self._notes(rows, begun.kernels)), begun.kernels,
        )  # fmt: skip

    def _is_generated(self, path: Path) -> bool:
        out = self.options.out
        return out is not None and self.names.is_generated(path.name) and path.parent.resolve() == out.resolve()

    def _headed(self, text: str) -> str:
        version = self.chosen.upstream.full_version.partition("+")[0]
        return f"// from {self.options.functions.name}, for torch {version}\n{text}"

    def _notes(self, rows: list[RegistrationRow], absent: frozenset[str]) -> list[Message]:
        notes = []
        ported = [row.operator for row in rows if row.needs_cuda_source]
        if ported:
            notes.append(say_plural(
                "{count} operator takes a function that only torch's CUDA sources define; port those and build them in",
                "{count} operators take functions that only torch's CUDA sources define; port those and build them in",
                count=len(ported),
            ))  # fmt: skip
        if absent:
            notes.append(say_plural("{count} kernel is not written: it raises NotImplementedError ({file})",
                                    "{count} kernels are not written: they raise NotImplementedError ({file})",
                                    count=len(absent), file=SKELETONS))  # fmt: skip
        without = sorted({name for entry in self.listed.entries for name in entry.without_effect})
        if without:
            notes.append(say("no effect: {names}; torch's own definition is used",
                             names=", ".join(f"`{name}`" for name in without)))  # fmt: skip
        return notes


def _row(row: Planned, file: str, absent: frozenset[str]) -> RegistrationRow:
    if row.kind is KernelKind.FALLBACK:
        kernel = ""
    else:
        kernel = f"{row.namespace}::{row.kernel}"
    stub = row.entry.stub
    is_absent = row.namespace != "at::native" and row.kernel in absent
    if stub is not None:
        is_absent = stub.kernel in absent
    return RegistrationRow(
        row.operator, row.key, row.kind, kernel, file, not is_absent, row.entry.line, row.is_cuda_name
    )


__all__ = [
    "CodegenOptions",
    "Generated",
    "ProblemsError",
    "RegistrationRow",
    "accepted_keys",
    "generate",
]
