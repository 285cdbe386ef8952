"""What a rule is, and what it may ask about the file and the target."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade, Location, Stays
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.rules.family import Portability, UnderRedirect, WhenPorted
from torchferry.rules.kernel_reach import KernelReach
from torchferry.rules.target_words import names_target
from torchferry.rules.value_uses import ValueFlow
from torchferry.source.flow import Flow
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind
from torchferry.source.lexicon import lexicon
from torchferry.source.names import Names, Reference
from torchferry.source.parameters import ParameterList, parameter_lists
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.source.settings import Setting
from torchferry.source.shell import Command
from torchferry.source.text import SourceText

CUDA_ONLY_MODULES = frozenset({"cuda", "cupy", "pycuda", "tensorrt", "torch2trt", "torch_tensorrt", "nvidia"})
"""Modules that drive a CUDA card by themselves: a branch that uses one runs nowhere else."""


class Options(NamedTuple):
    """The user's settings that rules ask for.

    Attributes:
        paths: Path prefixes to replace, from `[tool.torchferry.paths]`, longest first.
        rewrite_documents: Whether commands in README files are rewritten rather than reported.
        max_file_size: Larger files (in bytes) are reported, not read.
        dtype: `auto` where portable code takes the best dtype of the device in place of bfloat16.
        status_line: Whether programs are to print the status of the device when they end.
    """

    paths: Mapping[str, str] = {}
    rewrite_documents: bool = False
    max_file_size: int = 5_000_000
    dtype: str = ""
    status_line: bool = False


class Context:
    """One file of any kind as rules see it, the target it is to run on, and the project, where there is one."""

    def __init__(self, path: str, kind: Kind, source: SourceText, target: Target, options: Options) -> None:
        self.path = path
        self.kind = kind
        self.source = source
        self.target = target
        self.options = options
        self.commands: list[Command] | None = None  # filled by rules/commands.py
        self.settings: tuple[Setting, ...] | None = None  # filled by rules/config/device_setting.py
        self.project: Project | None = None

    @property
    def text(self) -> str:
        """The decoded text."""
        return self.source.text

    @property
    def as_written(self) -> str:
        """The text with nothing masked: in a notebook also the commands and magics, at the same offsets."""
        return self.text

    def location(self, start: int, end: int) -> Location:
        """Return the location of a span of offsets."""
        return Location(self.path, *self.source.position(start), *self.source.position(end))

    def snippet(self, start: int, end: int) -> str:
        """Return the text of a span, its first line at most, for showing it."""
        return self.as_written[start:end].split("\n", 1)[0].rstrip("\r")[:120]


_IN_SETTINGS = (ast.Dict, ast.List, ast.Tuple, ast.keyword)
"""What settings that are written in code are made of."""


class PythonContext(Context):
    """One Python file as rules see it.

    Attributes:
        file: The parsed file and its index.
        names: Name resolution.
        project: The project that the file belongs to, or None.
        shell: The shell commands of a notebook, at the same offsets; None for other files.
        script: The cells of a notebook as they are written, at the same offsets; None for other files.
    """

    shell: Context | None = None
    script: str | None = None

    def __init__(
        self,
        file: PythonFile,
        names: Names,
        target: Target,
        options: Options,
        project: Project | None = None,
    ) -> None:
        super().__init__(file.path, Kind.PYTHON, file.source, target, options)
        self.file = file
        self.names = names
        self.project = project

    @property
    def as_written(self) -> str:
        """The text with nothing masked."""
        return self.text if self.script is None else self.script

    @cached_property
    def references(self) -> dict[str, list[Reference]]:
        """Imports and uses of torch names that mean CUDA, by their group in `cuda/api.toml`."""
        by_group: dict[str, list[Reference]] = {}
        for reference in self.names.references("torch"):
            group = cuda.api_group(reference.name)
            if group:
                by_group.setdefault(group, []).append(reference)
        return by_group

    @cached_property
    def named_imports(self) -> list[tuple[str, ast.expr]]:
        """The modules that are imported by a name which is written down, such as `import_module("apex")`.

        Settings that code hands on name them with a class: `instantiate({"_target_": "apex.optimizers.FusedAdam"})`.
        """
        named = [(imported.module, imported.call) for imported in self.names.import_calls() if imported.module]
        return [*named, *sorted(self._in_settings(), key=lambda item: (item[1].lineno, item[1].col_offset))]

    def _in_settings(self) -> Iterator[tuple[str, ast.expr]]:
        for constant in self.file.strings if "_target_" in self.text else ():
            parent, name = self.file.parents.get(constant), str(constant.value)
            if isinstance(parent, ast.Dict) and constant in parent.values:
                key = string_value(parent.keys[parent.values.index(constant)])
            else:
                key = parent.arg if isinstance(parent, ast.keyword) else None
            if key == "_target_" and all(part.isidentifier() for part in name.split(".")):
                while parent is not None and (isinstance(parent, _IN_SETTINGS) or last_name(parent) == "dict"):
                    parent = self.file.parents.get(parent)
                if isinstance(parent, ast.Call) and last_name(parent.func) in ("instantiate", "call"):
                    yield name, constant

    @property
    def imported_packages(self) -> set[str]:
        """The top-level packages that the file imports from, by statements or by their names."""
        return {*self.names.imported_packages(), *(module.partition(".")[0] for module, _ in self.named_imports)}

    @cached_property
    def mentions_target(self) -> bool:
        """Whether the file speaks of the target anywhere."""
        return names_target(self.target, self.text)

    @cached_property
    def patches_cuda(self) -> bool:
        """Whether the file assigns to names below `torch.cuda`, standing in for them."""
        return any(
            isinstance(reference.node, ast.Attribute) and not isinstance(reference.node.ctx, ast.Load)
            for group, references in self.references.items()
            if group not in ("backends", "version", "accelerator")
            for reference in references
        )

    @cached_property
    def builds_extensions(self) -> bool:
        """Whether the file is a build script of C++ or CUDA extensions."""
        if "create_extension" in self.text and any(
            reference.name.startswith("torch.utils.ffi.") for reference in self.names.references("torch")
        ):
            return True
        return "extension" in self.references and any(
            last_name(call) == "setup"
            for package in ("setuptools", "distutils")
            for reference in self.names.references(package)
            if isinstance(call := self.file.parents.get(reference.node), ast.Call)
        )

    @cached_property
    def cuda_only_branches(self) -> dict[ast.AST, str]:
        """Statements of branches that use a module which drives CUDA cards by itself, with that module."""
        branches: dict[ast.AST, str] = {}
        for module in sorted(CUDA_ONLY_MODULES):
            for reference in self.names.references(module):
                for statement in self._branch(reference.node):
                    branches.setdefault(statement, module)
        return branches

    def _branch(self, node: ast.AST) -> list[ast.stmt]:
        """Return the innermost body around a node that belongs to a condition or a function; else nothing."""
        child: ast.AST = node
        parent = self.file.parents.get(child)
        while parent is not None:
            if isinstance(parent, (ast.If, ast.FunctionDef, ast.AsyncFunctionDef)):
                for body in (parent.body, getattr(parent, "orelse", [])):
                    if child in body:
                        return body
            child, parent = parent, self.file.parents.get(parent)
        return []

    @cached_property
    def parameter_lists(self) -> dict[ast.AST, list[ParameterList]]:
        """What says which parameters tests have, each such expression with the lists that it is a part of."""
        holding: dict[ast.AST, list[ParameterList]] = {}
        for given in parameter_lists(self.file):
            for part in given.parts:
                holding.setdefault(part, []).append(given)
        return holding

    @cached_property
    def kernel_reach(self) -> KernelReach:
        """Tells what code reaches a compiled extension."""
        return KernelReach(self.file, self.names, self.project)

    @cached_property
    def values(self) -> ValueFlow:
        """Follows what the target may answer with None."""
        return ValueFlow(self.file, self.names, self.project)

    @cached_property
    def devices(self) -> Flow:
        """Follows device strings."""
        return Flow(self.file, self.names, lexicon("device", self.target.backend.DEVICE_TYPE), self.project)

    @cached_property
    def collectives(self) -> Flow:
        """Follows names of collective backends."""
        return Flow(self.file, self.names, lexicon("collective", self.target.backend.COLLECTIVE), self.project)


class Rule:
    """Finds one kind of CUDA dependence.

    A subclass lives in its own module, whose docstring is the rule's page: the first line says what is
    found, the rest why it matters and what to do. Its Chinese is in `locale/zh/LC_MESSAGES/rules.po`.
    """

    CODE: ClassVar[str]
    """Family and number, such as `DEV101`; never reused."""

    EFFECT: ClassVar[Effect] = Effect.UNKNOWN
    """What happens at its places when they run on the target as they are, where a finding does not say otherwise."""

    ANSWERS: ClassVar[tuple[Message, ...]] = ()
    """What a person may do about its places, each in few words, the recommended one first; none: change the code."""

    NEEDS_COUNTERPART: ClassVar[bool] = False
    """Whether the first answer takes something of the target's, which not every finding has."""

    WORDS: ClassVar[tuple[str, ...]] = ()
    """A file that holds none of these words cannot interest the rule, and is not shown to it; see `words`."""

    MODULES: ClassVar[tuple[str, ...]] = ()
    """Top-level modules: a Python file that imports one interests the rule too; see `modules`."""

    KINDS: ClassVar[tuple[Kind, ...]] = (Kind.PYTHON,)
    """Kinds of file that the rule looks at. Python rules see the cells of notebooks too."""

    BINDS: ClassVar[bool] = False
    """Whether what the rule finds fails, or answers no, where there is no CUDA: conditions around it go with it."""

    UNDER_REDIRECT: ClassVar[UnderRedirect | None] = None
    """What the redirect leaves of its findings; None: as its family has it."""

    PORTABILITY: ClassVar[Portability | None] = None
    """What its edits are worth in code for every device; None: as its family has it."""

    WITH_TORCH_ALONE: ClassVar[bool] = True
    """Whether it applies where portable code has torch's own words alone (`--device-module torch`)."""

    RUNS_ON_DEVICE: ClassVar[bool] = True
    """Whether code at its places runs something on the device, where its family uses the device, or only names it."""

    ONLY_WITH_TORCH: ClassVar[bool] = False
    """Whether it finds what versions refuse that come with a plugin's torch: a program without torch keeps its own."""

    UNRESOLVED: ClassVar[bool] = False
    """Whether nobody could tell what is at its places: verdicts count them apart from decisions."""

    WHEN_PORTED: ClassVar[WhenPorted] = WhenPorted.STAYS
    """What becomes of a finding about a file that `torchferry port` has ported."""

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Return the words without which a file cannot interest the rule; none when it has nothing to do."""
        return self.WORDS

    def modules(self, target: Target) -> tuple[str, ...]:
        """Return the top-level modules whose import makes a Python file interesting to the rule."""
        return self.MODULES

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield what the rule finds in a file that is not Python."""
        raise NotImplementedError

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield what the rule finds in a Python file or in the cells of a notebook."""
        raise NotImplementedError

    def check_rest(self, context: PythonContext, findings: Sequence[Finding]) -> Iterable[Finding]:
        """Yield what the rule finds in a Python file where no other has found anything.

        Args:
            context: The file.
            findings: What all rules have found.
        """
        return ()

    def finding(
        self,
        context: Context,
        span: tuple[int, int],
        message: Message,
        grade: Grade,
        edits: Iterable[Edit] = (),
        *,
        effect: Effect | None = None,
        imports: tuple[str, ...] = (),
        group: str = "",
        needs: tuple[str, ...] = (),
        blocker: bool = False,
        lacks: str = "",
        installs: str = "",
        when: str = "",
        stays: Stays | None = None,
    ) -> Finding:
        """Build a finding of this rule at a span of offsets; `effect` where it is not the rule's."""
        start, end = span
        return Finding(
            self.CODE,
            context.location(start, end),
            message,
            grade,
            tuple(sorted(edits)),
            imports,
            group,
            needs,
            blocker,
            context.snippet(start, end),
            lacks,
            installs,
            when,
            stays=stays,
            effect=effect or (self.EFFECT if stays is None else Effect.NOTHING),
        )


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    """Return the keyword argument `name` of a call, or None."""
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def argument_removal(context: PythonContext, call: ast.Call, keyword: ast.keyword) -> Edit | None:
    """Return the edit that leaves out an argument with its comma; None where a comment would go with it."""
    start, end = context.file.span(keyword)
    spans = sorted(context.file.span(argument) for argument in (*call.args, *call.keywords))
    before = [span for span in spans if span[1] <= start]
    behind = [span for span in spans if span[0] >= end]
    if before:
        start = before[-1][1]
    elif behind:
        end = behind[0][0]
    elif context.text[end:].lstrip().startswith(","):
        end = context.text.index(",", end) + 1
    return None if "#" in context.text[start:end] else Edit(start, end, "")


def calls_of(context: PythonContext, method: str) -> Iterator[ast.Call]:
    """Yield the calls of a method or attribute called `method`, in source order."""
    for attribute in sorted(context.file.attributes.get(method, ()), key=lambda n: (n.lineno, n.col_offset)):
        parent = context.file.parents.get(attribute)
        if isinstance(parent, ast.Call) and parent.func is attribute:
            yield parent


def calls_to(context: PythonContext, package: str = "torch") -> Iterator[tuple[str, ast.Call]]:
    """Return the calls of what a package has, however it is imported, each with the full name of what is called."""
    return calls_by(context, context.names.references(package))


def calls_by(context: PythonContext, references: Iterable[Reference]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of what is named at some places, each with the full name of what is called."""
    for reference in references:
        call = context.file.parents.get(reference.node)
        if isinstance(call, ast.Call) and call.func is reference.node:
            yield reference.name, call


class OncePerBlock:
    """Leaves out findings that say again what one in the same block of statements says: they are one decision.

    A program may come to any block, so that what another one says is its own finding.
    """

    def __init__(self, file: PythonFile) -> None:
        self._file = file
        self._reported: set[tuple[ast.AST | None, str, Message, Grade, bool]] = set()

    def first(self, node: ast.AST, finding: Finding) -> Iterator[Finding]:
        """Yield the finding at a node, unless its block has one that says the same."""
        statement = self._file.statement(node)
        parent = self._file.parents.get(statement)
        lists = ((name, part) for name, part in ast.iter_fields(parent) if isinstance(part, list)) if parent else ()
        block = next((name for name, part in lists if statement in part), "")
        if finding.grade is Grade.NOTE and not finding.lacks:  # nobody has to do anything about it
            parent, block = None, ""
        key = parent, block, finding.message, finding.grade, finding.blocker
        if key not in self._reported:
            self._reported.add(key)
            yield finding
