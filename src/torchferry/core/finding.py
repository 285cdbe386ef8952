"""What a rule reports: a place, a message, and how the text there should change."""

from __future__ import annotations

from enum import Enum

from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple


class Grade(str, Enum):
    """How sure a finding's fix is, and who applies it."""

    SAFE = "safe"
    """The fix is what the user wants; applied by default."""

    UNSAFE = "unsafe"
    """The fix is likely right but rests on something not proven; applied with `--unsafe-fixes`."""

    MANUAL = "manual"
    """Nothing can be rewritten without a decision; the message says what to do."""

    NOTE = "note"
    """Left as it is on purpose, or worth knowing; never counts as work left to do."""


class Effect(str, Enum):
    """What happens at a place when it runs on the target as it is."""

    RAISES = "raises"
    """It ends with an error, or what it builds, installs or starts does."""

    WRONG = "silently wrong"
    """It goes on and does something else without an error: on the CPU, without the dtype, the branch or the switch."""

    SLOW = "slow"
    """The result is right, and takes longer or more memory."""

    NOTHING = "nothing"
    """It does what it is for, or nobody uses it."""

    UNKNOWN = "unknown"
    """Nobody has verified it."""


class Stage(str, Enum):
    """A step behind the rules that may change a finding's grade; `rules/pipeline.py` has their order."""

    REDIRECT = "redirect"
    """What the redirect does when the program runs needs no rewriting (`--style shim`)."""

    MACHINE = "machine"
    """What belongs to one machine is not written into code for every device (`--style portable`)."""

    ACCELERATOR = "accelerator"
    """torch's own words for a device are fewer (`--device-module torch`)."""

    TORCHSCRIPT = "torchscript"
    """TorchScript compiles no call of a portable name (`--style portable`)."""

    PATH = "path"
    """The project's own module cannot be imported above the lines that change `sys.path`."""

    GROUP = "group"
    """Findings that change together are as cautious as the most cautious of them, or stay together."""

    PORT = "port"
    """The file has been ported to the target's kernel language."""

    DECIDED = "decided"
    """A person has decided about the place (`torchferry decide`)."""


class Stays(str, Enum):
    """What makes code that speaks of CUDA stay as it is; the message has the words for it."""

    PATCHES = "patches"
    """The file replaces functions of `torch.cuda` itself."""

    BUILDS = "builds"
    """A build script decides there whether CUDA kernels are compiled."""

    TARGET_BESIDE = "target-beside"
    """The target is already named beside it."""

    CUDA_MODULE = "cuda-module"
    """A module that drives CUDA cards by itself is used around it."""

    KERNEL = "kernel"
    """It chooses a compiled CUDA kernel, which is right as long as the kernel is not ported."""

    METHODS = "methods"
    """A method is called that what replaces it on the target lacks: it stays, with its group, until decided."""


class Regrading(NamedTuple):
    """What a step behind the rules made of a finding.

    Attributes:
        stage: The step.
        before: The grade that the finding had before it.
    """

    stage: Stage
    before: Grade


class Anchor(NamedTuple):
    """What a finding is known by in its file and for its rule, whatever line it is on.

    Attributes:
        symbol: The function or class around the place, with those around it, such as `Trainer.fit`; empty at the top
            level, and outside of Python. In a file that a notebook writes, behind `NAME:N:`, where N says which cell
            of those that write a file of this name it is.
        text: Digits of a hash of the place's text, without spaces and with CUDA's words for the target's.
        ordinal: Which of the equal texts of the symbol it is, in CUDA's words, from 1; so a renamed one counts too.
    """

    symbol: str = ""
    text: str = ""
    ordinal: int = 1


class Edit(NamedTuple):
    """Replace the characters `start` to `end` of the decoded text by `text`."""

    start: int
    end: int
    text: str


class Location(NamedTuple):
    """A span in a file: a path relative to the root with `/`, lines and columns from 1, end exclusive.

    `cell` is the number of the notebook cell (from 1) that the lines count in; 0 outside notebooks.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0

    @property
    def order(self) -> tuple[str, int, int, int, int, int]:
        """What locations are sorted by: the cells of a notebook come one behind the other."""
        return self.path, self.cell, self.line, self.column, self.end_line, self.end_column

    def __str__(self) -> str:
        cell = f":cell {self.cell}" if self.cell else ""
        return f"{self.path}{cell}:{self.line}:{self.column}"


class Finding(NamedTuple):
    """One thing a rule found.

    Attributes:
        code: The rule's code, such as `DEV101`.
        location: Where it is.
        message: What it is, why on this target, and what to do.
        grade: How sure the fix is; `MANUAL` and `NOTE` have no edits.
        edits: What to change, in the file's decoded text.
        imports: Modules that the rewritten code needs imported, such as `ptex`.
        group: Findings of one file with the same non-empty group change together or not at all.
        needs: Groups that must change for this finding to change; they do not need this one.
        blocker: The project cannot run on the target before this is settled.
        snippet: The source text at the location, at most one line.
        lacks: What the target does not have and the place cannot run without, such as a package; empty for none.
        installs: Another build of a package, under the same name, with which the place runs; empty for none.
        when: What the expression at the place must be for the finding to hold, as the right side of a comparison in
            Python (`> 1`), or `true`; empty where it always holds.
        regradings: What the steps behind the rules changed, in their order; the message has the reasons.
        stays: What makes the place stay as it is; None where it may change, or where nothing around it decides.
        package: The package that the finding is about, where it is about the use of one.
        effect: What happens there as it is, whatever is known of a remedy.
        anchor: Its identity in later reports.
        origin: Where the place was before files were rewritten; None where nothing was, or where it is new.
        decided_by: Who has decided about the place, where somebody has.
    """

    code: str
    location: Location
    message: Message
    grade: Grade
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    group: str = ""
    needs: tuple[str, ...] = ()
    blocker: bool = False
    snippet: str = ""
    lacks: str = ""
    installs: str = ""
    when: str = ""
    regradings: tuple[Regrading, ...] = ()
    stays: Stays | None = None
    package: str = ""
    effect: Effect = Effect.UNKNOWN
    anchor: Anchor = Anchor()
    origin: Location | None = None
    decided_by: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether somebody has decided that the place stays as it is."""
        return bool(self.decided_by) and self.grade is Grade.NOTE

    @property
    def key(self) -> tuple[str, str, Anchor]:
        """What the finding is known by in its project: its file, its rule and its anchor there."""
        return self.location.path, self.code, self.anchor

    def regraded(self, stage: Stage, grade: Grade, message: Message, effect: Effect | None = None) -> Finding:
        """Return the finding with another grade, and its history; what nobody applies any more has no edits.

        Args:
            stage: The step that changes the grade.
            grade: The new grade.
            message: The message, with the reason.
            effect: What happens at the place, where the step changes that as well.
        """
        regradings = self.regradings if grade is self.grade else (*self.regradings, Regrading(stage, self.grade))
        changed = self._replace(grade=grade, message=message, regradings=regradings, effect=effect or self.effect)
        return changed if grade in (Grade.SAFE, Grade.UNSAFE) else changed._replace(edits=(), imports=())


LINK = Message("")
"""Message of a finding that only ties groups together and is not shown: a use that changes with its import."""
