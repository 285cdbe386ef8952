"""What is compiled, and what came of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.triton.evaluating import Configuration

TENSOR, SCALAR, VALUE, DTYPE = "tensor", "scalar", "value", "dtype"
"""Kinds of arguments: a tensor, a number of which the type is known, what is known itself, a dtype of Triton."""


class KernelParameter(NamedTuple):
    """A parameter of a kernel.

    Attributes:
        name: Its name.
        is_constant: Whether it is a `tl.constexpr`.
        default: The expression that it has by default; None for none.
    """

    name: str
    is_constant: bool
    default: ast.expr | None = None


@dataclass(frozen=True)
class ProjectKernel:
    """A kernel of a project.

    Attributes:
        path: Its file.
        name: Its name.
        line: Where it is defined.
        function: The function.
        parameters: Its parameters.
        configurations: What its autotuner tries; empty where it has none.
        unread: Why the text does not tell what its autotuner tries; None where it tells, or there is none.
        heuristics: Expressions by which a constant is computed for each launch, with the parameter of the function.
        choices: Conditions of the configurations that the text does not tell, and of which both sides were taken.
        pointers: The parameters that are addresses, and other names of which addresses are computed.
    """

    path: str
    name: str
    line: int
    function: ast.FunctionDef
    parameters: tuple[KernelParameter, ...]
    configurations: tuple[Configuration, ...] = ()
    unread: Message | None = None
    heuristics: tuple[tuple[str, ast.expr], ...] = ()
    choices: tuple[str, ...] = ()
    pointers: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, str]:
        """Its file and name."""
        return self.path, self.name

    @property
    def place(self) -> tuple[str, str, int]:
        """What tells it from another of its name in the same file."""
        return self.path, self.name, self.line

    @property
    def tuned(self) -> frozenset[str]:
        """The constants that its autotuner chooses."""
        return frozenset(name for each in self.configurations for name, _ in each.constants)


class KernelArgument(NamedTuple):
    """An argument of a launch.

    Attributes:
        name: The parameter.
        kind: One of the kinds above.
        type: The dtype of a tensor (`fp32`; empty for one that nobody knows), the type of a scalar, or a dtype.
        value: What is known itself; of a scalar the number that it is in one of the launches, or None.
        is_aligned: Whether a tensor begins at a multiple of 16 bytes.
    """

    name: str
    kind: str
    type: str = ""
    value: Any = None
    is_aligned: bool = True

    @property
    def text(self) -> str:
        """The argument as `--signature` has it."""
        if self.kind == TENSOR:
            return f"*{self.type or '?'}"
        if self.kind == SCALAR and self.value is not None:
            return f"{self.type}:16" if self.value % 16 == 0 else self.type
        if self.kind in (SCALAR, DTYPE):
            return self.type
        return repr(self.value)


@dataclass(frozen=True)
class Signature:
    """The arguments that a kernel is launched with.

    Attributes:
        arguments: As far as they are known, without those that an autotuner chooses.
        options: Options of the launch, such as `num_warps`.
        origin: Where this is known from.
        unknown: The parameters of which nothing is known, and tensors without a dtype.
        is_assumed: Whether dtypes were assumed that the code does not say.
    """

    arguments: tuple[KernelArgument, ...]
    options: tuple[tuple[str, Any], ...]
    origin: Message
    unknown: tuple[str, ...] = ()
    is_assumed: bool = False


class CaseState(str, Enum):
    """What became of a kernel with one configuration."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    CRASHED = "crashed"
    """The compiler ended without a word of its own, twice: that says nothing of the kernel."""
    TIMEOUT = "timeout"
    NOT_COMPILED = "not compiled"


class ElementAccess(NamedTuple):
    """A line whose accesses are made one element at a time.

    Attributes:
        path: The file.
        line: The line.
        times: How many accesses.
    """

    path: str
    line: int
    times: int


@dataclass(frozen=True)
class CheckedCase:
    """A kernel with one signature and one configuration, and what became of it.

    Attributes:
        configuration: What the autotuner chooses; None for a kernel without one.
        signature: The arguments; None where none is known.
        state: What became of it.
        message: The compiler's own words, or why nothing was compiled.
        path: The file that the message is about; empty where it names none.
        line: The line in it.
        stage: The stage that refused it.
        overflows: Whether it was refused for its size.
        memory: Bytes of each memory of a core, by the memory's scope.
        core: The kind of core that it needs.
        elements: Lines whose accesses are made one element at a time.
        seconds: Seconds of the compiler.
        warnings: What the compiler warned of.
        supposed: A condition at import that the text does not tell, as it was supposed to be.
        same_as: How many further configurations differ by options without effect alone.
        from_cache: Whether it was compiled by an earlier run.
        attempts: How often it was compiled; a crash is tried again.
    """

    configuration: Configuration | None
    signature: Signature | None
    state: CaseState
    message: Message | str = ""
    path: str = ""
    line: int = 0
    stage: str = ""
    overflows: bool = False
    memory: tuple[tuple[str, int], ...] = ()
    core: str = ""
    elements: tuple[ElementAccess, ...] = ()
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    same_as: int = 0
    supposed: str = ""
    from_cache: bool = False
    attempts: int = 1

    @property
    def is_struck_out(self) -> bool:
        """Whether it is one of several configurations that the autotuner leaves out for its size."""
        return self.state is CaseState.REFUSED and self.overflows and self.configuration is not None


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel, and what became of its cases.

    Attributes:
        path: Its file.
        name: Its name.
        line: Where it is defined.
        cases: What was compiled, or is known to be left.
        called_by: Kernels with which it was compiled, where it is not launched itself.
        remarks: What else is to be known.
        suggestion: A signature to fill in for `--signature`, where none is known.
        doubts: What the table of the target says against it although the front end accepts it: a stage that is not
            run refuses it, or it gives other numbers.
    """

    path: str
    name: str
    line: int
    cases: tuple[CheckedCase, ...]
    called_by: tuple[str, ...] = ()
    remarks: tuple[Message, ...] = ()
    suggestion: str = ""
    doubts: tuple[Message, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether it is accepted, and nothing else speaks against it."""
        return self.state is CaseState.ACCEPTED and not self.doubts

    @property
    def state(self) -> CaseState:
        """What becomes of it: each signature needs a configuration that fits, and none refused but for its size."""
        if not self.cases:
            return CaseState.ACCEPTED if self.called_by else CaseState.NOT_COMPILED
        worst = CaseState.ACCEPTED
        for signature, supposed in {(id(case.signature), case.supposed) for case in self.cases}:
            own = [case for case in self.cases if (id(case.signature), case.supposed) == (signature, supposed)]
            worst = max((worst, _of_signature(own)), key=_BY_WEIGHT.index)
        return worst


_BY_WEIGHT = [
    CaseState.ACCEPTED, CaseState.NOT_COMPILED, CaseState.TIMEOUT, CaseState.CRASHED, CaseState.REFUSED,
]  # fmt: skip


def _of_signature(cases: list[CheckedCase]) -> CaseState:
    fits = any(case.state is CaseState.ACCEPTED for case in cases)
    states = [case.state for case in cases if not (fits and case.is_struck_out)]
    return max(states, key=_BY_WEIGHT.index)


@dataclass(frozen=True)
class CheckedProject:
    """What a check found.

    Attributes:
        target: The target, as the user writes it.
        front_end: The packages of the front end.
        arch: The card that was compiled for.
        python: The Python that ran it.
        kernels: The kernels, by file and line.
        unread: Files that could not be read, with the reason.
        seconds: Seconds of the whole check.
        compiler_seconds: Seconds of the compiler, of all cases together, without those of the cache.
    """

    target: str
    front_end: str
    arch: str
    python: str
    kernels: tuple[CheckedKernel, ...]
    unread: tuple[Message, ...] = ()
    seconds: float = 0.0
    compiler_seconds: float = 0.0

    def counts(self) -> dict[CaseState, int]:
        """Return how many kernels there are of each state."""
        return {state: sum(kernel.state is state for kernel in self.kernels) for state in CaseState}

    @property
    def is_good(self) -> bool:
        """Whether there are kernels, each is good, and each file was read."""
        return bool(self.kernels) and not self.unread and all(kernel.is_good for kernel in self.kernels)
