"""The known facts about a package of an environment: its state, and the places behind it."""

from __future__ import annotations

from enum import Enum

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple

EXTENSION = lazy_regex(r"\.(?:cpython-\w+(?:-[\w-]+)?|abi3|cp\w+-\w+|pypy\w*(?:-[\w-]+)?)?\.?(?:so|pyd)\Z")
"""How the name of a compiled module ends."""

MODULE_NAME = lazy_regex(r"[^\W\d]\w*\Z")
"""What one part of a module's name looks like."""


def module_of(path: str) -> str:
    """Return the dotted name of the module that a file below a folder of packages is, or an empty text."""
    if path.endswith(".py"):
        stem = path[:-3]
    else:
        match = EXTENSION.search(path)
        if match is None:
            return ""
        stem = path[: match.start()]
    parts = stem.split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) if parts and all(map(MODULE_NAME.match, parts)) else ""


class PlaceNeed(str, Enum):
    """What a place of a package needs or does."""

    COMPILED = "compiled"
    """A compiled library that loads CUDA's libraries or carries code for NVIDIA's cards."""

    SOURCE = "source"
    """CUDA code that is compiled when it is used."""

    TRITON = "triton"
    """A kernel in Triton."""

    IMPORT = "import"
    """CUDA is used when the module is imported."""

    DEFAULT = "default"
    """A parameter or setting is CUDA where the caller says nothing."""

    CALL = "call"
    """A function uses CUDA whatever it is given."""

    QUESTION = "question"
    """A function refuses what is not on CUDA."""

    COLLECTIVE = "collective"
    """NCCL by name."""

    CHOICE = "choice"
    """CUDA where it is available, else the CPU: on another card, the CPU without a word."""

    GENERATORS = "generators"
    """The states of random generators are kept for named devices, and not for the target's."""

    TARGET = "target"
    """The code names the target, or asks torch which accelerator there is."""


CHOOSING = (
    PlaceNeed.IMPORT,
    PlaceNeed.DEFAULT,
    PlaceNeed.CALL,
    PlaceNeed.QUESTION,
    PlaceNeed.COLLECTIVE,
    PlaceNeed.CHOICE,
)
"""What a package does that picks CUDA by itself."""


class Evidence(NamedTuple):
    """One place.

    Attributes:
        need: What it needs.
        path: The file, relative to its folder of packages, with `/`.
        line: The line, from 1; 0 for a file that has no lines.
        where: The function, class, parameter or setting, such as `Trainer.fit(device)`; empty for the module itself.
        what: What is there, such as `.cuda()`, a library's name, a kernel's.
        parameter: What a caller passes to decide otherwise; empty where nothing is known to serve.
        optional: Whether a kernel's own module copes with Triton being absent.
    """

    need: PlaceNeed
    path: str
    line: int
    where: str
    what: str
    parameter: str = ""
    optional: bool = False


class State(str, Enum):
    """What a package means for a program that is carried to another card."""

    HOST = "host"
    """It uses neither torch nor a card."""

    FOLLOWS = "follows"
    """It uses torch, and takes the device that it is given."""

    CHOOSES = "chooses"
    """It picks CUDA by itself somewhere."""

    KERNELS = "kernels"
    """It has compiled CUDA code, or is about kernels in Triton."""

    KNOWS = "knows"
    """Its code names the target."""

    UNREAD = "unread"
    """It could not be read."""


class ImportStep(NamedTuple):
    """An import on the way from a program to a package: the file below its folder of packages, and the line."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Inspected(NamedTuple):
    """The known facts about one package.

    Attributes:
        package: What is imported, such as `transformers`, or `nvidia.dali` in a namespace.
        distribution: The distribution that it belongs to.
        version: Its version; empty where nothing says it.
        state: What it means for a program.
        evidence: The places behind that, the weightiest first; those that run on import before others of their kind.
        counts: How many places of each kind the package has.
        run: The modules of the package that run when it is imported as the programs import it.
        chain: How it was reached over other packages; empty where a program imports it.
        import_fails: Why its import fails where there is no CUDA; None where that is not known.
        optional_kernels: Whether its kernels are in modules that the rest of it does without.
        python: Python files that were read.
        unread: What of it could not be read and why, with its path; the first.
        unread_count: How many of its files could not be read.
        problem: What is wrong with its metadata, or why it could not be opened.
        editable: Whether it lies in a tree that someone works on.
    """

    package: str
    distribution: str
    version: str
    state: State
    evidence: tuple[Evidence, ...] = ()
    counts: tuple[tuple[PlaceNeed, int], ...] = ()
    run: frozenset[str] = frozenset()
    chain: tuple[ImportStep, ...] = ()
    import_fails: Evidence | None = None
    optional_kernels: bool = False
    python: int = 0
    unread: tuple[tuple[str, Message], ...] = ()
    unread_count: int = 0
    problem: Message | None = None
    editable: bool = False

    @property
    def names_target(self) -> bool:
        """Whether its code names the target somewhere, whatever else it does."""
        return any(need is PlaceNeed.TARGET for need, _ in self.counts)

    @property
    def forgotten_generators(self) -> Evidence | None:
        """Where it keeps the states of random generators and leaves out the target's; None where it does not."""
        return next((item for item in self.evidence if item.need is PlaceNeed.GENERATORS), None)

    def runs(self, evidence: Evidence) -> bool:
        """Whether a place lies in a module that runs when the package is imported as the programs import it."""
        return module_of(evidence.path) in self.run

    def places(self, *needs: PlaceNeed) -> int:
        """Return how many places of these kinds it has."""
        return sum(number for need, number in self.counts if need in needs)
