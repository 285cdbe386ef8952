"""The known facts about a program: how it is started, what it needs, and its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

from torchferry.core.finding import Location
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.source.roles import Role, is_of_integration


class Verdict(str, Enum):
    """Whether one program can run on the target; docs/*/verdict.md explains each word."""

    READY = "ready"
    """Nothing has to change in what it runs."""

    FIXES = "fixes"
    """Everything that has to change in what it runs can be changed by torchferry."""

    DECISIONS = "decisions"
    """A person must decide something in what it runs."""

    WITHOUT = "without"
    """It runs as it is started, without something that the target does not have: an optional kernel or tool."""

    MAY_NEED = "may need"
    """Whether it comes to something that the target does not have depends on what its files do not say."""

    BLOCKED = "blocked"
    """As it is started, it comes to something that the target does not have."""

    NOT_JUDGED = "not judged"
    """Something that it reaches was not read, so that nobody knows."""


class Start(NamedTuple):
    """One way in which a program is started.

    Attributes:
        command: The command, or the name of the script that an installation makes.
        place: Where it is written, as `file:line`.
        arguments: What follows the program in the command.
        assignments: What precedes it and is set for it alone, each as `NAME=value`.
        module: The module that it names, `python -m pkg.train`: Python runs the packages around that first. Empty where
            it names a file.
    """

    command: str
    place: str
    arguments: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    module: str = ""

    @property
    def is_of_service(self) -> bool:
        """Whether a service starts it so, on its own machine, to test the project."""
        return is_of_integration(self.place)


class Form(str, Enum):
    """What kind of program it is."""

    SCRIPT = "script"
    CONSOLE = "console script"
    NOTEBOOK = "notebook"
    LIBRARY = "library"


class Program(NamedTuple):
    """A program of the project.

    Attributes:
        path: The file that is started; for a library the file of its package.
        form: What kind of program it is.
        name: What it is called: its path, the name of the console script, or the package.
        function: The function that is called, for a console script.
        starts: Commands that start it.
        role: What its file is for; only those that the user names are tests or build scripts, or modules, which start
            nothing by themselves.
    """

    path: str
    form: Form = Form.SCRIPT
    name: str = ""
    function: str = ""
    starts: tuple[Start, ...] = ()
    role: Role = Role.SCRIPT

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or self.path

    def offers(self, path: str, name: str) -> bool:
        """Whether others call a function or class of a file: what is public in a library, or in a module by itself."""
        is_offered = self.form is Form.LIBRARY and not name.startswith("_")
        return is_offered and (self.role is not Role.MODULE or path == self.path)

    @property
    def own_starts(self) -> tuple[Start, ...]:
        """The commands by which people start it: what a service says to test it is no option of theirs."""
        return tuple(start for start in self.starts if not start.is_of_service)

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules by which its commands name it, each once."""
        return tuple(dict.fromkeys(start.module for start in self.own_starts if start.module))

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows it in the first command by which people start it."""
        return next((start.arguments for start in self.starts if not start.is_of_service), ())

    def start_with(self, options: Iterable[str]) -> Start | None:
        """Return the first of the other commands that says all of some options, with the values that these have."""
        asked = [*options]
        first = next((start.place for start in self.starts if not start.is_of_service), "")
        for start in self.starts if asked else ():
            if start.place != first and all(_says(start, option) for option in asked):
                return start
        return None


def _says(start: Start, option: str) -> bool:
    """Whether a command says an option: `--fast` without a value behind it, `--bits 4`, `FAST=1`."""
    words = (*start.assignments, *start.arguments)
    flag, _, value = option.partition(" ")
    for word, behind in zip(words, (*words[1:], "-"), strict=False):
        is_flag = word == flag and (behind == value if value else behind.startswith("-"))
        if is_flag or word == (f"{flag}={value}" if value else option if "=" in option else None):
            return True
    return False


class Reachability(IntEnum):
    """How surely a program reaches a place, the surest first."""

    ALWAYS = 0
    """Nothing is between its start and the place but what holds by default."""

    CHOSEN = 1
    """Whether it comes there depends on something that cannot be told from the code alone."""

    OPTION = 2
    """It comes there only with an option that is off by default."""

    GUARDED = 3
    """The code on the way copes with its absence."""


class Step(NamedTuple):
    """One place on the way from a program to what it needs: an import or a call.

    Attributes:
        path: The file.
        line: The line, from 1; 0 for a file without lines, such as a library.
        text: What is there, shortened.
    """

    path: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class CallPath(NamedTuple):
    """How a program reaches a place.

    Attributes:
        reachability: How surely.
        steps: From the program's file to the place; the place is the last.
        conditions: Texts of the conditions on the way that cannot be told, as `text (file:line)`.
        options: What must be said for the conditions that do not hold by default, such as `--use-flash`.
    """

    reachability: Reachability
    steps: tuple[Step, ...]
    conditions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def joined(self, then: CallPath) -> CallPath:
        """Return the way that goes on with another where it ends."""
        return CallPath(
            max(self.reachability, then.reachability),
            (*self.steps, *then.steps),
            tuple(dict.fromkeys((*self.conditions, *then.conditions))),
            tuple(dict.fromkeys((*self.options, *then.options))),
        )

    @property
    def may_be_taken(self) -> bool:
        """Whether a program comes there as it is started, or may: no option is asked for, and no code does without."""
        return self.reachability <= Reachability.CHOSEN


class Source(str, Enum):
    """Where it is known from that the target does not have something."""

    CODE = "code"
    """The project's own code: it compiles CUDA."""

    TABLE = "table"
    """The tables of the target."""

    ENVIRONMENT = "environment"
    """The package as it is installed."""


class Obstacle(NamedTuple):
    """Something that the target does not have, where a program reaches it.

    Attributes:
        what: Its name: a package, a compiled module.
        code: The rule that found it.
        place: Where.
        message: What it is, and what to do.
        call_path: The path from the program to it; the part in packages is its end.
        source: Where it is known from.
    """

    what: str
    code: str
    place: Location
    message: Message
    call_path: CallPath
    source: Source = Source.TABLE


def location_of(place: str) -> Location:
    """Return a place that is written as `FILE:LINE`; its first line where the text has none."""
    path, _, line = place.rpartition(":")
    number = int(line) if line.isdigit() else 1
    return Location(path, number, 1, number, 1)


class Unread(NamedTuple):
    """Something that a program reaches and that was not read.

    Attributes:
        place: The file, or the place of the import that leads to it.
        reason: Why it was not read.
        chain: How the program comes there, the place not among them.
    """

    place: str
    reason: Message
    chain: tuple[Step, ...] = ()


class Unverified(NamedTuple):
    """A package that nobody has verified on the target.

    Attributes:
        package: Its name.
        place: Where it is imported first, as `file:line`.
        carries: Whether the program computes with it: its model, trainer or pipeline is the package's.
    """

    package: str
    place: str
    carries: bool = False


class Unexamined(NamedTuple):
    """Something that was not looked at, or not as a program is.

    Attributes:
        place: The file, the folder, or the language.
        reason: Why.
        files: How many files it is.
        words: How many words of CUDA they hold; None where nobody counted them.
    """

    place: str
    reason: Message
    files: int = 1
    words: int | None = None


class RunEnding(str, Enum):
    """What the run of a program on the simulated card says of its verdict."""

    WELL = "ended well"
    """It ended well, and nothing was seen that would go wrong on the card."""

    CARD = "failed for the card"
    """It came to something that the card does not have, or that would go wrong there."""

    NOTHING = "settles nothing"
    """It ended for a reason that is not the card's: data that are missing, a wrong argument, a limit of time."""


class RunOutcome(NamedTuple):
    """What was seen when a program ran on the simulated card.

    Attributes:
        command: The command.
        ending: What the run says of the verdict.
        message: How it ended, in one sentence.
        what: What stopped it: an operator, a name, a package; empty where nothing did.
        kind: What kind of thing that is, as a rehearsal calls it, or `package`.
        place: Where, as `file:line` of the project as it is; empty where no line of it was told.
        package: The installed package in which it failed; empty for the project's own code.
        exit_code: The exit code; None where the time limit ended it.
        on_card: Whether anything ran on the simulated card.
        imported: The modules outside of the project that were imported, by their first name, and compiled ones whole.
        notes: What else is worth knowing.
        could_not_begin: Whether what a rehearsal needs is missing, torch or the command itself.
    """

    command: str
    ending: RunEnding
    message: Message
    what: str = ""
    kind: str = ""
    place: str = ""
    package: str = ""
    exit_code: int | None = 0
    on_card: bool = True
    imported: frozenset[str] = frozenset()
    notes: tuple[Message, ...] = ()
    could_not_begin: bool = False


class RehearsedVerdict(NamedTuple):
    """A verdict that a run on the simulated card replaced, or could not.

    Attributes:
        seen: What was seen.
        static: The verdict that the code alone gave, for the same command.
        fault: Why both cannot be true, which is a fault of torchferry's; None where they agree.
    """

    seen: RunOutcome
    static: JudgedProgram
    fault: Message | None = None

    @property
    def decides(self) -> bool:
        """Whether the run says something about the verdict."""
        return self.seen.ending is not RunEnding.NOTHING


class AcceptedPlace(NamedTuple):
    """A place that somebody has decided to leave as it is, and who it was."""

    place: Location
    by: str


class JudgedProgram(NamedTuple):
    """A program and the known facts about it.

    Attributes:
        program: The program.
        verdict: Whether it can run on the target.
        blockers: What stops it.
        optional: What it runs without, and what depends on a choice.
        fixes: How many places torchferry changes in what it reaches.
        decisions: The places that need a person.
        unverified: Packages that nobody has verified on the target.
        unread: What it reaches and was not read, with the reason.
        files: How many files of the project it reaches.
        builds: Other builds of packages, by the same names, that must be installed for it.
        doubts: What packages of the environment need, where a person must look: their places are among `decisions`.
        reached: The files of the project that it reaches.
        settled: The run that the verdict is from, or that settled nothing; None where it was not run.
        alternatives: What only another word of the command asks for: what a person decides then, and other builds.
        unresolved: Those of `decisions` where nobody could tell what is there.
        accepted: The places that would be among `decisions`, had nobody decided that they stay.
    """

    program: Program
    verdict: Verdict
    blockers: tuple[Obstacle, ...] = ()
    optional: tuple[Obstacle, ...] = ()
    fixes: int = 0
    decisions: tuple[Location, ...] = ()
    unverified: tuple[Unverified, ...] = ()
    unread: tuple[Unread, ...] = ()
    files: int = 0
    builds: tuple[Obstacle, ...] = ()
    doubts: tuple[Obstacle, ...] = ()
    reached: tuple[str, ...] = ()
    settled: RehearsedVerdict | None = None
    alternatives: tuple[Obstacle, ...] = ()
    unresolved: tuple[Location, ...] = ()
    accepted: tuple[AcceptedPlace, ...] = ()

    @property
    def undecided(self) -> tuple[Obstacle, ...]:
        """What the target does not have and of which the code does not say whether the program reaches it."""
        return tuple(obstacle for obstacle in self.optional if obstacle.call_path.reachability is Reachability.CHOSEN)

    @property
    def carriers(self) -> tuple[str, ...]:
        """The packages that it computes with and that nobody has verified on the target."""
        return tuple(item.package for item in self.unverified if item.carries)

    @property
    def has_reservations(self) -> bool:
        """Whether its verdict leaves out unresolved places, unverified packages or places that somebody accepted."""
        return bool(self.unresolved or self.carriers or self.accepted)


class MissingFeature(NamedTuple):
    """Something that the target does not have, where a file needs it.

    Attributes:
        what: Its name.
        code: The rule that found it.
        place: Where.
        message: What it is, and what to do.
        noted: Whether its rule saw a guard.
        when: A condition on values at the place.
        source: Where it is known from.
        beyond: What leads on from the place, in packages.
        unsure: What cannot be told and decides whether it is needed; empty where it surely is.
    """

    what: str
    code: str
    place: Location
    message: Message
    noted: bool = False
    when: str = ""
    source: Source = Source.TABLE
    beyond: tuple[Step, ...] = ()
    unsure: str = ""
