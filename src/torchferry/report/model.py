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
from torchferry.programs.blocking import blocking
from torchferry.programs.model import Judged, Unlooked
from torchferry.programs.model import Verdict as ProgramVerdict
from torchferry.report.decisions import Decisions, decisions_of
from torchferry.report.programs import accepted_places, if_they_work, names_of, unresolved_places, work_of
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

_MOST_NAMES = 3
"""Things that block which the verdict names; more are counted."""


class ProjectVerdict(str, Enum):
    """Whether a project can run on the target."""

    READY = "ready"
    """Nothing has to change."""

    AFTER_FIXES = "ready after fixes"
    """Everything that has to change can be changed by torchferry."""

    AFTER_WORK = "ready after work by hand"
    """Some places need a decision."""

    MAY_NEED = "may need"
    """Whether some programs come to something that does not exist on the target stands in no file."""

    BLOCKED = "blocked"
    """Something the project needs does not exist on the target."""

    PARTLY_BLOCKED = "partly blocked"
    """Some of its programs are blocked, others are not."""

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
        unlooked: What of the project was not looked at.
        partial: Whether findings were left out that the verdicts of the programs rest on.
        native: The CUDA C++ of the project; None where there is none.
        style: How code is, or would be, written.
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
    programs: tuple[Judged, ...] = ()
    packages: tuple[Inspected, ...] = ()
    unlooked: tuple[Unlooked, ...] = ()
    partial: bool = False
    native: NativeSurvey | None = None
    style: str = "native"
    torchferry: str = __version__

    @property
    def work(self) -> list[Finding]:
        """The findings that are work: all but notes."""
        return [finding for finding in self.findings if finding.grade is not Grade.NOTE]

    @property
    def decisions(self) -> Decisions:
        """What a person has to decide, each thing once."""
        return decisions_of(self.target, self.findings, self.programs)

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
        blocked = sum(judged.verdict is ProgramVerdict.BLOCKED for judged in self.programs)
        if blocked:
            return ProjectVerdict.BLOCKED if blocked == len(self.programs) else ProjectVerdict.PARTLY_BLOCKED
        if self.blockers:
            return ProjectVerdict.BLOCKED
        if self._why_incomplete is not None or any(
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
    def verdict_message(self) -> Message:
        """The verdict as a sentence."""
        target, work = self.target_title, self._work_and_unresolved()
        if self._why_incomplete is not None:
            return self._incomplete(self._why_incomplete, work)
        if self.verdict is ProjectVerdict.PARTLY_BLOCKED:
            return self._partly_blocked(work)
        if self.verdict is ProjectVerdict.INCOMPLETE:
            unknown = self._programs_unknown()
            return (
                say("{verdict}.", verdict=unknown)
                if work is None
                else say("{verdict}; also {work}.", verdict=unknown, work=work)
            )
        if self.verdict is ProjectVerdict.MAY_NEED:
            return self._may_need(work)
        if self.verdict is ProjectVerdict.BLOCKED and work is None:
            return say("Blocked on {target} by {blockers}.", target=target, blockers=self._blockers())
        if self.verdict is ProjectVerdict.BLOCKED:
            return say(
                "Blocked on {target} by {blockers}; also {work}.",
                target=target,
                blockers=self._blockers(),
                work=work,
            )
        return self._ready()

    def _programs_unknown(self) -> Message:
        """Return that programs reach what was not read, as a phrase."""
        if len(self.programs) == 1:
            title = self.programs[0].program.title
            return say(
                "Not known for {target}: {program} reaches what was not read", target=self.target_title, program=title
            )
        return say_plural(
            "Not known for {target}: of {programs} programs, {count} reaches what was not read",
            "Not known for {target}: of {programs} programs, {count} reach what was not read",
            target=self.target_title,
            programs=len(self.programs),
            count=len(self._not_judged),
        )

    def _ready(self) -> Message:
        """Return the verdict where nothing blocks, with what it rests on and what it leaves out."""
        target, work = self.target_title, self._work()
        carriers = list(dict.fromkeys(name for judged in self.programs for name in judged.carriers))
        accepted = self.accepted
        if work is None and not self.unresolved and not carriers and not accepted:
            return say("Ready for {target}: nothing has to change.", target=target)
        ready = (
            say("Ready for {target}", target=target)
            if work is None
            else say("Ready for {target} after {work}", target=target, work=work)
        )
        if self.unresolved:
            places = unresolved_places(len(self.unresolved))
            ready = say("{verdict}, except for {places}", verdict=ready, places=places)
        if carriers:
            ready = say("{verdict}, if {packages}", verdict=ready, packages=if_they_work(carriers))
        if accepted:
            places = accepted_places([each.decided_by for each in accepted])
            ready = say("{verdict}, with {places}", verdict=ready, places=places)
        return say("{verdict}.", verdict=ready)

    @property
    def _undecided(self) -> list[Judged]:
        """The programs that may need something that the target does not have."""
        return [judged for judged in self.programs if judged.verdict is ProgramVerdict.MAY_NEED]

    def _may_need(self, work: Message | None) -> Message:
        """Return the verdict where the files do not say whether a program needs something that the target lacks."""
        undecided = self._undecided
        names = names_of([obstacle.what for judged in undecided for obstacle in judged.undecided])
        if len(self.programs) == 1:
            needing = say(
                "{program} may need {names}, which {target} lacks",
                program=undecided[0].program.title,
                names=names,
                target=self.target_title,
            )
        else:
            needing = say_plural(
                "Of {programs} programs, {count} is undecided: it may need {names}, which {target} lacks",
                "Of {programs} programs, {count} are undecided: they may need {names}, which {target} lacks",
                programs=len(self.programs),
                count=len(undecided),
                names=names,
                target=self.target_title,
            )
        if work is None:
            return say("{verdict}.", verdict=needing)
        return say("{verdict}; also {work}.", verdict=needing, work=work)

    def _work_and_unresolved(self) -> Message | None:
        """Return what is to be done with the places that could not be resolved among it."""
        work, unresolved = self._work(), unresolved_places(len(self.unresolved))
        if not self.unresolved:
            return work
        return unresolved if work is None else say("{first} and {second}", first=work, second=unresolved)

    @property
    def unresolved(self) -> tuple[Location, ...]:
        """The places where nobody could tell what stands there: of findings, and of imports by a computed name."""
        of_programs = (place for judged in self.programs for place in judged.unresolved)
        return tuple(dict.fromkeys((*(finding.location for finding in self._unresolved_findings), *of_programs)))

    @property
    def _unresolved_findings(self) -> list[Finding]:
        decisions = (finding for finding in self.findings if finding.grade is Grade.MANUAL)
        return [finding for finding in decisions if rule_facts(finding.code).unresolved]

    @property
    def _why_incomplete(self) -> Message | None:
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
        if self._all_unexamined:
            return say("{files} could not be examined", files=_files(self.files))
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
    def _all_unexamined(self) -> bool:
        """Whether nothing is known of any file."""
        paths = {finding.location.path for finding in self.not_examined}
        return len(paths | {failure.path for failure in self.failures}) >= self.files

    def _incomplete(self, why: Message, work: Message | None) -> Message:
        """Return the verdict where a file was not examined: what is known of the rest, and that it is not all."""
        target = self.target_title
        if self.blockers:
            return say(
                "Blocked on {target} by {blockers}; {why}, where there may be more.",
                target=target,
                blockers=self._blockers(),
                why=why,
            )
        if self._all_unexamined:
            return say("Not known for {target}: {why}.", target=target, why=why)
        if work is None:
            return say("Not known for {target}: {why}; the rest needs no change.", target=target, why=why)
        return say("Not known for {target}: {why}; the rest needs {work}.", target=target, why=why, work=work)

    def _partly_blocked(self, work: Message | None) -> Message:
        """Return the verdict where some programs are blocked."""
        blocked = [judged for judged in self.programs if judged.verdict is ProgramVerdict.BLOCKED]
        values = {
            "target": self.target_title,
            "count": len(blocked),
            "programs": len(self.programs),
            "blockers": self._blockers(),
        }
        unknown = say_plural(
            "{count} reaches what was not read", "{count} reach what was not read", count=len(self._not_judged)
        )
        if self._not_judged and work is not None:
            return say_plural(
                "Of {programs} programs, {count} is blocked on {target} by {blockers}, and {unknown}; also {work}.",
                "Of {programs} programs, {count} are blocked on {target} by {blockers}, and {unknown}; also {work}.",
                **values,
                unknown=unknown,
                work=work,
            )
        if self._not_judged:
            return say_plural(
                "Of {programs} programs, {count} is blocked on {target} by {blockers}, and {unknown}.",
                "Of {programs} programs, {count} are blocked on {target} by {blockers}, and {unknown}.",
                **values,
                unknown=unknown,
            )
        if work is None:
            return say_plural(
                "Of {programs} programs, {count} is blocked on {target} by {blockers}; the others need no change.",
                "Of {programs} programs, {count} are blocked on {target} by {blockers}; the others need no change.",
                **values,
            )
        return say_plural(
            "Of {programs} programs, {count} is blocked on {target} by {blockers}; also {work}.",
            "Of {programs} programs, {count} are blocked on {target} by {blockers}; also {work}.",
            **values,
            work=work,
        )

    @property
    def _not_judged(self) -> list[Judged]:
        return [judged for judged in self.programs if judged.verdict is ProgramVerdict.NOT_JUDGED]

    def _blockers(self) -> Message:
        names = list(dict.fromkeys(obstacle.what for judged in self.programs for obstacle in judged.blockers))
        if 0 < len(names) <= _MOST_NAMES:
            return say("{names}, which it lacks", names=", ".join(f"`{name}`" for name in names))
        count = len(names) or sum(each.blocks for each in self.decisions.all)
        return say_plural("one thing that it lacks", "{count} things that it lacks", count=count)

    @property
    def work_message(self) -> Message:
        """What is left to be done, of which something is."""
        blocking = sum(each.blocks for each in self.decisions.to_decide)
        work = self._work_and_unresolved()
        if not blocking:
            return work if work is not None else say("nothing")
        blockers = say_plural("one thing that blocks", "{count} things that block", count=blocking)
        return blockers if work is None else say("{first} and {second}", first=blockers, second=work)

    def _work(self) -> Message | None:
        """Return what is to be done as one phrase; where findings were left out, what the programs need."""
        needing = [judged for judged in self.programs if judged.fixes or judged.decisions] if self.partial else []
        if not needing:
            return self._work_by_grade()
        if len(self.programs) == 1:
            return work_of(needing[0])
        return say_plural(
            "changes in what {count} program reaches", "changes in what {count} programs reach", count=len(needing)
        )

    def _work_by_grade(self) -> Message | None:
        """Return what is to be done, blockers left out, as one phrase; None when there is nothing."""
        grades = Counter(finding.grade for finding in self.findings)
        open_ones = [each for each in self.decisions.to_decide if not (each.blocks or each.is_unresolved)]
        open_ones = [each for each in open_ones if each.code != UnreadableFile.CODE]  # it is said by itself
        safe, unsafe, decided = grades[Grade.SAFE], grades[Grade.UNSAFE], len(open_ones)
        parts = []
        if safe:
            parts.append(say_plural("one safe fix", "{count} safe fixes", count=safe))
        if unsafe:
            parts.append(say_plural("one fix to read", "{count} fixes to read", count=unsafe))
        if decided:
            phrase = say_plural("one decision", "{count} decisions", count=decided)
            places = sum(len(each.places) for each in open_ones)
            if places > decided:
                phrase = say("{decisions} in {count} places", decisions=phrase, count=places)
            parts.append(phrase)
        if len(parts) == 3:
            return say("{first}, {second} and {third}", first=parts[0], second=parts[1], third=parts[2])
        if len(parts) == 2:
            return say("{first} and {second}", first=parts[0], second=parts[1])
        return parts[0] if parts else None

    @property
    def telling_packages(self) -> list[Inspected]:
        """The packages of the environment that need a look: that choose CUDA, have kernels, or could not be read."""
        order = (State.KERNELS, State.CHOOSES, State.UNREAD)
        telling = [package for package in self.packages if package.state in order]
        return sorted(telling, key=lambda package: (order.index(package.state), package.package))

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
    programs: tuple[Judged, ...] = (),
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
