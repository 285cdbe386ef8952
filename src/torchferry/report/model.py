"""What a report says, whatever it looks like: the verdict first, then counts, blockers and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from torchferry import __version__
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Bilingual, Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import RecordedDecision
from torchferry.installed.model import Inspected, State
from torchferry.programs.model import JudgedProgram, Unexamined
from torchferry.programs.model import Verdict as ProgramVerdict
from torchferry.programs.verdicts.blocking import blocking
from torchferry.report.decisions import Decisions, decisions_of
from torchferry.report.since import Since
from torchferry.rules.analysis import Analysis
from torchferry.rules.file.invalid_notebook import InvalidNotebook
from torchferry.rules.file.oversized_file import OversizedFile
from torchferry.rules.file.too_costly_file import TooCostlyFile
from torchferry.rules.file.undecodable_file import UndecodableFile
from torchferry.rules.file.unparsable_file import UnparsableFile
from torchferry.rules.file.unreadable_file import UnreadableFile
from torchferry.rules.file_result import InternalFailure
from torchferry.rules.mentions import MentionKind, WordAccount
from torchferry.rules.registry import family_name, rule_facts
from torchferry.source.kinds import Kind
from torchferry.source.roles import Role
from torchferry.source.text import UndecodableError, decode_python, decode_text

if TYPE_CHECKING:
    from torchferry.kernels.survey import NativeSurvey

_NOT_EXAMINED = frozenset(
    rule.CODE
    for rule in (UnreadableFile, UndecodableFile, OversizedFile, UnparsableFile, InvalidNotebook, TooCostlyFile)
)
"""Rules that say of a file that nothing is known of what it holds."""


class ProjectVerdict(str, Enum):
    """Whether a project can run on the target."""

    READY = "ready"
    """Nothing has to change."""

    AFTER_FIXES = "ready after fixes"
    """Everything that has to change can be changed by torchferry."""

    AFTER_WORK = "ready after work by hand"
    """Some places need a decision."""

    MAY_NEED = "may need"
    """Whether some programs come to something that does not exist on the target is in no file."""

    BLOCKED = "blocked"
    """Something the project needs does not exist on the target."""

    PARTLY_BLOCKED = "partly blocked"
    """Some of its programs are blocked, others are not."""

    NOTHING_NEW = "nothing new"
    """A change brings no work; whether the project can run was not asked."""

    SOMETHING_NEW = "something new"
    """A change brings work; whether the project can run was not asked."""

    INCOMPLETE = "incomplete"
    """Nothing that was examined blocks, but a file was not examined, or there was none, so that nobody knows."""


BEYOND_WORK = frozenset({ProjectVerdict.BLOCKED, ProjectVerdict.MAY_NEED, ProjectVerdict.INCOMPLETE})
"""Verdicts that stay when all work in the code is done."""


class FileDiff(NamedTuple):
    """How one file changes.

    Attributes:
        path: Path relative to the root.
        before: Its decoded text as it is; empty for a new file.
        after: Its decoded text as it is to be.
    """

    path: str
    before: str
    after: str


class Report(NamedTuple):
    """The result of a scan or a migration.

    Attributes:
        target: The target, as `NAME` or `NAME@VERSION`.
        target_title: Maker and family.
        root: Name of the project's folder.
        files: How many files were examined.
        findings: What was found, in order of place.
        failures: Faults of torchferry's own.
        entry_points: Files that are started and use the device, and the role of each.
        remarks: What there is to know about the target or the run, for the user.
        diffs: How files change; empty where nothing was rewritten.
        words: What becomes of the words of CUDA; empty where that was not asked for.
        changes: Files that the migration writes, or would write; empty for a scan.
        ignored: Files that a `.gitignore` hides in a tree that git does not know; they were left out.
        programs: The project's programs and their verdicts; empty where none was looked for.
        packages: The packages of an environment that the project reaches, where one was named.
        unexamined: The parts of the project that were not examined.
        partial: Whether findings were left out that the verdicts of the programs rest on.
        without_code: Whether a whole project was looked at, and none of its files holds code.
        native: The CUDA C++ of the project; None where there is none.
        style: How code is, or would be, written.
        since: The earlier state of which the findings are left out; None where there is none.
        torchferry: The version that made the report.
    """

    target: str
    target_title: Bilingual
    root: str
    files: int
    findings: tuple[Finding, ...]
    failures: tuple[InternalFailure, ...] = ()
    entry_points: Mapping[str, Role] = MappingProxyType({})
    remarks: tuple[Message, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    words: WordAccount = WordAccount()
    changes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    programs: tuple[JudgedProgram, ...] = ()
    packages: tuple[Inspected, ...] = ()
    unexamined: tuple[Unexamined, ...] = ()
    partial: bool = False
    without_code: bool = False
    native: NativeSurvey | None = None
    style: str = "native"
    since: Since | None = None
    torchferry: str = __version__

    @property
    def work(self) -> list[Finding]:
        """The findings that are work: all but notes."""
        return [finding for finding in self.findings if finding.grade is not Grade.NOTE]

    @property
    def decisions(self) -> Decisions:
        """What a person has to decide, each thing once."""
        return _LATEST.of(self)

    @property
    def accepted(self) -> tuple[Finding, ...]:
        """The places that somebody has accepted as they are."""
        return tuple(each for each in self.findings if each.is_accepted)

    @property
    def blockers(self) -> list[Finding]:
        """The findings without which the project cannot run on the target."""
        return [finding for finding in self.findings if finding.blocker]

    @property
    def verdict(self) -> ProjectVerdict:
        """Whether the project can run on the target; where programs are known, what holds for them."""
        if self.since is not None:
            if self.work:
                return ProjectVerdict.SOMETHING_NEW
            return ProjectVerdict.NOTHING_NEW if self.why_incomplete is None else ProjectVerdict.INCOMPLETE
        blocked = sum(judged.verdict is ProgramVerdict.BLOCKED for judged in self.programs)
        if blocked:
            return ProjectVerdict.BLOCKED if blocked == len(self.programs) else ProjectVerdict.PARTLY_BLOCKED
        if self.blockers:
            return ProjectVerdict.BLOCKED
        if self.why_incomplete is not None or any(
            judged.verdict is ProgramVerdict.NOT_JUDGED for judged in self.programs
        ):
            return ProjectVerdict.INCOMPLETE
        if self._undecided:
            return ProjectVerdict.MAY_NEED
        if any(finding.grade is Grade.MANUAL for finding in self.findings) or any(
            judged.decisions for judged in self.programs
        ):
            return ProjectVerdict.AFTER_WORK
        needed = self.work or (self.partial and any(judged.fixes for judged in self.programs))
        return ProjectVerdict.AFTER_FIXES if needed else ProjectVerdict.READY

    @property
    def _undecided(self) -> list[JudgedProgram]:
        """The programs that may need something that the target does not have."""
        return [judged for judged in self.programs if judged.verdict is ProgramVerdict.MAY_NEED]

    @property
    def unresolved(self) -> tuple[Location, ...]:
        """The places where nobody could tell what is there: of findings, and of imports by a computed name."""
        of_programs = (place for judged in self.programs for place in judged.unresolved)
        return tuple(dict.fromkeys((*(finding.location for finding in self._unresolved_findings), *of_programs)))

    @property
    def _unresolved_findings(self) -> list[Finding]:
        decisions = (finding for finding in self.findings if finding.grade is Grade.MANUAL)
        return [finding for finding in decisions if rule_facts(finding.code).unresolved]

    @property
    def why_incomplete(self) -> Message | None:
        """Why the project is not known whole; None where it is.

        A file that cannot be read, or that takes more than its budget, says nothing of itself, and may hold anything.
        One that can be read and is broken is work that is named, and leaves the verdict to the others, where there are
        any.
        """
        unread = {finding.location.path for finding in self.findings if finding.code == UnreadableFile.CODE}
        costly = {finding.location.path for finding in self.findings if finding.code == TooCostlyFile.CODE}
        if self.failures:
            return say("torchferry failed on {files}", files=_files(len(self.failures)))
        if self.files == 0:
            return say("no file here is of a kind that torchferry reads")
        if self.all_unexamined:
            return say("{files} could not be examined", files=_files(self.files))
        if self.without_code:
            return say("no file here holds code")
        if unread:
            return say("{files} could not be read", files=_files(len(unread)))
        if costly:
            return say("{files} could not be examined", files=_files(len(costly)))
        return None

    @property
    def not_examined(self) -> tuple[Finding, ...]:
        """The findings that say why a file was not examined."""
        return tuple(finding for finding in self.findings if finding.code in _NOT_EXAMINED)

    @property
    def of_examined_files(self) -> tuple[Finding, ...]:
        """The findings but those that say why a file was not examined."""
        return tuple(finding for finding in self.findings if finding.code not in _NOT_EXAMINED)

    @property
    def all_unexamined(self) -> bool:
        """Whether nothing is known of any file."""
        paths = {finding.location.path for finding in self.not_examined}
        return len(paths | {failure.path for failure in self.failures}) >= self.files

    @property
    def telling_packages(self) -> list[Inspected]:
        """The packages of the environment that need a look.

        Those that have kernels, choose CUDA, or could not be read; last those that forget the card's generators alone.
        """
        order = (State.KERNELS, State.CHOOSES, State.UNREAD)
        places = {state: index for index, state in enumerate(order)}
        telling = [package for package in self.packages if package.state in order or package.forgotten_generators]
        return sorted(telling, key=lambda package: (places.get(package.state, len(order)), package.package))

    @property
    def by_grade(self) -> Counter[Grade]:
        """How many findings have each grade."""
        return Counter(finding.grade for finding in self.findings)

    @property
    def mentions_by_kind(self) -> dict[MentionKind, int]:
        """How many words of CUDA stay without a finding, by what they are part of."""
        counts = Counter(mention.kind for mention in self.words.staying)
        return {kind: counts[kind] for kind in MentionKind if counts[kind]}

    @property
    def by_family(self) -> dict[str, Counter[Grade]]:
        """How many findings of each grade each family of rules has."""
        counts: dict[str, Counter[Grade]] = {}
        for finding in self.findings:
            counts.setdefault(family_name(finding.code), Counter())[finding.grade] += 1
        return dict(sorted(counts.items()))


def _files(count: int) -> Message:
    return say_plural("one file", "{count} files", count=count)


class _LatestDecisions:
    """Keeps the decisions of one report: each part of each form asks for them, and they take longer than the part."""

    def __init__(self) -> None:
        self._asked: tuple[str, tuple[Finding, ...], tuple[JudgedProgram, ...]] | None = None
        self._decisions = Decisions((), {})

    def of(self, report: Report) -> Decisions:
        """Return the decisions of a report."""
        asked = (report.target, report.findings, report.programs)
        if self._asked is None or any(new is not old for new, old in zip(asked, self._asked, strict=True)):
            self._decisions = decisions_of(*asked)
            self._asked = asked
        return self._decisions


_LATEST = _LatestDecisions()


def diffs_of(analysis: Analysis) -> Iterator[FileDiff]:
    """Yield how the files change that were rewritten (in memory)."""
    for item in analysis.examined:
        if item.before is not None and item.after is not None:
            yield FileDiff(item.path, decoded(item.before, item.kind), decoded(item.after, item.kind))


def decoded(data: bytes, kind: Kind) -> str:
    """Return a file's text for showing it."""
    try:
        return (decode_python(data) if kind is Kind.PYTHON else decode_text(data)).text
    except UndecodableError:
        return data.decode("utf-8", "replace")


def report_of(
    analysis: Analysis,
    target: Target,
    root: str,
    *,
    remaining: bool = False,
    remarks: tuple[Message, ...] = (),
    programs: tuple[JudgedProgram, ...] = (),
    decisions: tuple[RecordedDecision, ...] = (),
) -> Report:
    """Build the report of an analysis: of the project as it was, or of what remains."""
    return Report(
        target=str(target),
        target_title=target.title,
        root=root,
        files=len(analysis.examined),
        findings=tuple(blocking(analysis.remaining if remaining else analysis.findings, programs, decisions)),
        failures=tuple(analysis.failures),
        entry_points=analysis.entry_points,
        remarks=remarks,
        words=WordAccount.together([item.words for item in analysis.examined]),
        diffs=tuple(diffs_of(analysis)),
        ignored=analysis.ignored,
        programs=programs,
    )
