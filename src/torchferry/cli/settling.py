"""`scan --rehearse`: programs run on the simulated card, in a migrated copy of their tree, and are judged by that."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.cli.judging import Verdicts
from torchferry.cli.settings import RunSettings
from torchferry.core import supported_torch
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.folders import walk
from torchferry.core.messages import Message, say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.migration.copy import write_copy
from torchferry.migration.plan import plan
from torchferry.migration.transaction import Write
from torchferry.programs.model import JudgedProgram, RunEnding, RunOutcome, Start
from torchferry.programs.verdicts.after_rehearsal import after_rehearsal
from torchferry.rehearsal import ending
from torchferry.rehearsal.aggregate import Aggregate, collect
from torchferry.rehearsal.config import Rehearsal, prepare
from torchferry.rehearsal.ending import End, end_of
from torchferry.rehearsal.launcher import run_aside
from torchferry.rehearsal.summary import document
from torchferry.rules.analysis import analyse
from torchferry.rules.engine import Engine
from torchferry.source.kinds import Kind
from torchferry.source.tree import NEVER_ENTERED, Entry

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_PROCESSES = re.compile(r"--(?:nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus)(?:=(?P<number>\d+))?\Z")

_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "torchferry.run")
"""Modules that start the program that is named behind them."""

_SHARE = 0.5
"""Part of the free disk space that a copy may take."""

_MOST_DEVICES = 16


class Runs(NamedTuple):
    """What the user asks to be run: commands, and how long each may take."""

    commands: tuple[str, ...]
    seconds: float


class Asked(NamedTuple):
    """A command of the user's.

    Attributes:
        text: As the user wrote it.
        words: Its words, without the variables in front.
        entry: The file of the project that it starts, or the name of a console script.
        arguments: What stands behind the program.
    """

    text: str
    words: tuple[str, ...]
    entry: str
    arguments: tuple[str, ...]


class Run(NamedTuple):
    """A command that ran: the program, what was seen, and the summary of its rehearsal as JSON."""

    judged: JudgedProgram
    summary: str
    printed: str


def judged_by_runs(
    runs: Runs,
    static: Callable[[Mapping[str, Start]], Verdicts],
    is_whole: bool,
    choices: Choices,
    setting: RunSettings,
) -> tuple[Verdicts, list[Run]]:
    """Judge the programs of a project, those that are run by what is seen; return this and the runs.

    Args:
        runs: What is to be run.
        static: Judges by the code, given how programs are started.
        is_whole: Whether the whole project was asked for, with every rule.
        choices: What the user asked for.
        setting: It, with the settings.

    Raises:
        UsageError: a command starts no program of the project, or the options contradict each other.
        TorchferryError: no copy can be made.
    """
    if not runs.commands:
        raise UsageError(say("--reproduction saves what a rehearsal shows: add --rehearse COMMAND"))
    if not is_whole or choices.home is not None:
        raise UsageError(
            say("--rehearse needs the whole project"), say("name its folder, without --select and --ignore")
        )
    paths = [entry.path for entry in setting.request.listing.entries]
    asked = [_asked(text, setting.root, paths) for text in runs.commands]
    starts = _starts(reversed(asked))
    static_verdicts = static(starts)
    programs = list(static_verdicts.programs)
    numbers = [_program_of(item, programs) for item in asked]
    rehearsal = prepare(str(setting.target), "", _devices(asked), None, ())
    done: list[Run] = []
    with temporary_folder("torchferry-scan-") as name:
        copied = _Copy(setting, Path(os.path.realpath(name)) / (setting.root.resolve().name or "project"))
        for item, number in zip(asked, numbers, strict=True):
            seconds = f"{runs.seconds:g}"
            note = say("rehearsing `{command}`, time limit {seconds} s", command=item.text, seconds=seconds)
            print_notice(f"torchferry: {note.render(choices.lang)}")
            judged = programs[number]
            if judged.program.starts[0].command != item.text:  # another command of the same program
                others = static(_starts([item])).programs
                judged = others[_program_of(item, others)]
            elif judged.settled is not None:
                judged = judged.settled.static
            done.append(copied.run(item, judged, rehearsal, runs.seconds))
            if _says_more(done[-1].judged, programs[number]):
                programs[number] = done[-1].judged
    return static_verdicts._replace(programs=tuple(programs)), done


def _says_more(new: JudgedProgram, old: JudgedProgram) -> bool:
    """Whether a run says more than what is known of a program from an earlier one: a failure more than a good end."""
    order = (RunEnding.NOTHING, RunEnding.WELL, RunEnding.CARD)
    assert new.settled is not None
    return old.settled is None or order.index(new.settled.seen.ending) > order.index(old.settled.seen.ending)


# --- the command ---


def _starts(asked: Iterable[Asked]) -> dict[str, Start]:
    """Return how programs are started, the last command of each."""
    return {item.entry: Start(item.text, say("the command line").render(), item.arguments) for item in asked}


def _asked(text: str, root: Path, paths: list[str]) -> Asked:
    try:
        _, words = _split(text)
    except ValueError as error:
        raise UsageError(say("`{command}` is not a command: {error}", command=text, error=error)) from None
    if not words:
        raise _starts_nothing(text)
    for index, entry in _entries(words, root, frozenset(paths)):
        return Asked(text, tuple(words), entry, tuple(words[index + 1 :]))
    return Asked(text, tuple(words), words[0], tuple(words[1:]))


def _split(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a command sets in front of it, and its words.

    Raises:
        ValueError: a quote is left open.
    """
    words, variables = shlex.split(text), {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])) is not None:
        variables[match["name"]] = match["value"]
        del words[0]
    return variables, words


def _entries(words: list[str], root: Path, paths: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the files of the project that the words of a command name, with their places, the first first."""
    inside = _inside(Path.cwd(), root) or ""
    for index, word in enumerate(words):
        if index and words[index - 1] in ("-m", "--module") and word not in _LAUNCHERS:
            name = word.replace(".", "/")
            candidates = [f"{name}/__main__.py", f"{name}.py", f"src/{name}/__main__.py", f"src/{name}.py"]
        elif word.endswith(".py"):
            candidates = [(_inside(Path(word), root) if os.path.isabs(word) else None) or word]
        else:
            continue
        for candidate in candidates:
            below = os.path.normpath(os.path.join(inside, candidate)), os.path.normpath(candidate)
            yield from ((index, path) for path in below if path in paths)


def _inside(path: Path, root: Path) -> str | None:
    """Return where a path is below the root, empty for the root itself; None where it is not."""
    try:
        relative = Path(os.path.realpath(path)).relative_to(os.path.realpath(root)).as_posix()
    except ValueError:
        return None
    return "" if relative == "." else relative


def _program_of(asked: Asked, programs: Sequence[JudgedProgram]) -> int:
    for number, judged in enumerate(programs):
        if asked.entry == (judged.program.name or judged.program.path) and judged.program.starts:
            return number
    raise _starts_nothing(asked.text)


def _starts_nothing(command: str) -> UsageError:
    return UsageError(
        say("`{command}` does not start a program of the project", command=command),
        say("name the file from the project's folder: python tools/train.py"),
    )


def _devices(asked: list[Asked]) -> int:
    """Return how many devices the commands start processes for; 0 for as many as one card has."""
    most = 0
    for item in asked:
        for word, following in zip(item.words, [*item.words[1:], ""], strict=True):
            match = _PROCESSES.match(word)
            number = (match["number"] or following) if match is not None else ""
            most = max(most, int(number) if number.isdigit() else 0)
    return min(most, _MOST_DEVICES) if most > 1 else 0


# --- the copy ---


class _Copy:
    """A migrated copy of a tree, in which commands run; the tree itself is only read.

    Args:
        setting: The project and the target.
        folder: Where the copy is made.

    Raises:
        TorchferryError: it cannot be made.
    """

    def __init__(self, setting: RunSettings, folder: Path) -> None:
        self.root = Path(os.path.realpath(setting.root))
        self.folder = folder
        request = setting.request
        selection = request.selection._replace(unsafe=True)  # all fixes that a verdict counts
        planned = plan(setting.root, analyse(request._replace(rewrite=True, account=False, selection=selection)))
        self.writes = {write.path: write for write in planned.writes}
        self.setting = setting
        refuse_large(self.root, folder.parent)
        write_copy(setting.root, folder, planned.writes, NEVER_ENTERED)
        mend_links(self.root, folder)

    def run(self, asked: Asked, static: JudgedProgram, rehearsal: Rehearsal, seconds: float) -> Run:
        """Run a command in the copy and judge its program by what was seen."""
        inside = _inside(Path.cwd(), self.root) or ""
        where = self.folder / inside
        variables, words = self._migrated(asked)
        words = [self._moved(word) for word in words]
        named = [word for word in words if word.endswith(".py")]
        if not where.is_dir() or any(not os.path.isabs(word) and not (where / word).exists() for word in named[:1]):
            where = self.folder
        with temporary_folder("torchferry-rehearsal-") as session:
            try:
                with doing(say("rehearsing `{command}`", command=asked.text)):
                    code, printed = run_aside(words, rehearsal, session, where, seconds, self._variables(variables))
            except UsageError as error:  # no such command
                seen = RunOutcome(
                    asked.text, RunEnding.NOTHING, error.message, exit_code=None, on_card=False, could_not_begin=True
                )
                return Run(after_rehearsal(static, seen), "", "")
            aggregate = collect(session)
        end = end_of(aggregate, code, printed, self.folder)
        seen = self._seen(asked, end, aggregate, code, seconds, static, rehearsal)
        summary = document(rehearsal, aggregate, -1 if code is None else code, list(asked.words))
        return Run(after_rehearsal(static, seen), summary, printed)

    def _migrated(self, asked: Asked) -> tuple[dict[str, str], list[str]]:
        """Return a command as it is in a migrated script: `--device cuda` is a name of CUDA too."""
        request = self.setting.request
        with temporary_folder("torchferry-scan-") as name:
            file = name / "command.sh"
            file.write_text(f"{asked.text}\n", encoding="utf-8")
            engine = Engine(file.parent, request.target, request.rules, options=request.options)
            after = engine.examine(Entry(file.name, Kind.SHELL), rewrite=True).after
        return _split(asked.text if after is None else after.decode("utf-8"))

    def _variables(self, variables: dict[str, str]) -> dict[str, str]:
        """Return what the command gets in its environment beside ours."""
        given = variables.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        path = [self._moved(part) for part in given.split(os.pathsep) if part]
        if any((self.folder / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
            # an editable installation leads to the tree; what is behind it in the search is the copy
            path += [str(place) for place in (self.folder / "src", self.folder) if place.is_dir()]
        return {
            **variables,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYDRA_FULL_ERROR": "1",  # else its errors have no place
        }

    def _moved(self, word: str) -> str:
        """Return a word of the command with the tree's path replaced by the copy's."""
        head, sign, tail = word.rpartition("=") if word.startswith("-") else ("", "", word)
        if os.path.isabs(tail):
            below = _inside(Path(tail), self.root)
            if below is not None:
                tail = str(self.folder / below)
        return f"{head}{sign}{tail}"

    # --- what was seen ---

    def _seen(
        self,
        asked: Asked,
        end: End,
        aggregate: Aggregate,
        code: int | None,
        seconds: float,
        static: JudgedProgram,
        rehearsal: Rehearsal,
    ) -> RunOutcome:
        place = self.place(end.file, end.line)
        at: object = place or _unknown()
        ends = RunEnding.NOTHING
        if end.why == ending.WELL:
            ends = RunEnding.WELL
            count = sum(aggregate.operators.values())
            card = rehearsal.profile.card or rehearsal.resolved().title
            message = say("it ended normally, but nothing ran on the card")
            if count:
                message = say("it ended normally on {card}; operator calls there: {count}", card=card, count=count)
        elif end.why == ending.CARD:
            ends = RunEnding.CARD
            message = _failure(end, place)
        elif end.why == ending.PACKAGE and _lacking(static, end.subject):
            ends = RunEnding.CARD
            message = say("it stopped at {place}: {what} does not exist for the card", place=at, what=end.subject)
        elif end.why == ending.PACKAGE and aggregate.without_torch:
            message = supported_torch.not_in(aggregate.without_torch)
        elif end.why == ending.PACKAGE:
            message = say("{what} is not installed here; install it and run it again", what=end.subject)
        elif end.why == ending.TIME:
            message = say(
                "the time limit ended it ({seconds} s); --rehearse-seconds sets another one", seconds=f"{seconds:g}"
            )
        elif end.why == ending.NOT_REHEARSED:
            message = say(
                "it stopped at {place}: {what} exists on the card but is not rehearsed", place=at, what=end.subject
            )
        else:
            message = say(
                "it failed at {place}, but not because of the card; exit code {code}: {error}",
                place=at,
                code=code,
                error=self.shown(end.error),
            )
        return RunOutcome(
            asked.text,
            ends,
            message,
            end.subject,
            end.kind,
            place,
            end.package,
            code,
            bool(aggregate.on_device and aggregate.used),
            aggregate.imported,
            tuple(self._notes(end, aggregate)),
            aggregate.could_not_begin,
        )

    def _notes(self, end: End, aggregate: Aggregate) -> Iterator[Message]:
        for event in dict.fromkeys((event.subject, self.place(event.file, event.line)) for event in end.caught[:5]):
            place = event[1] or _unknown()
            yield say("it continued after a failure that it caught: {what} at {place}", what=event[0], place=place)
        if aggregate.mostly_on_host:
            yield say("the CPU did more of the models' work than the device")

    def place(self, file: str, line: int) -> str:
        """Return a line of the copy as the line of the tree that it was made from."""
        if not file:
            return ""
        below = _inside(Path(file) if os.path.isabs(file) else self.folder / file, self.folder)
        if below is None:
            return f"{file}:{line}"
        write = self.writes.get(below)
        return f"{below}:{_line_before(write, line) if write is not None else line}"

    def shown(self, text: str) -> str:
        """Return a text with the path of the copy as the tree's."""
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), ".")


def _line_before(write: Write, line: int) -> int:
    """Return the line of the old content that a line of the new one was made from."""
    if write.before is None:
        return line
    before, after = write.before.splitlines(), write.after.splitlines()
    for tag, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if new_start < line <= new_end:
            offset = line - new_start - 1
            return start + 1 + (offset if tag == "equal" else min(offset, max(0, end - start - 1)))
    return line


def _lacking(static: JudgedProgram, module: str) -> bool:
    """Whether the verdict says that the target lacks a module that is not installed here."""
    names = {item.what.lower().replace("-", "_") for item in (*static.blockers, *static.optional)}
    wanted = module.lower()
    return any(name in (wanted, wanted.rpartition(".")[2]) or wanted.startswith(f"{name}.") for name in names)


def _unknown() -> Message:
    return say("an unknown place")


def _failure(end: End, place: str) -> Message:
    """Return what was seen to fail for the card, and what to do."""
    at: object = place or _unknown()
    if end.kind == "missing-operator":
        return say("it stopped at {place}: the plugin lacks the operator {what}", place=at, what=end.subject)
    if end.kind == "missing-api":
        return say("it stopped at {place}: the plugin lacks the name {what}", place=at, what=end.subject)
    if end.kind == "missing-dtype":
        return say("it stopped at {place}: the card or its collective library lacks {what}", place=at, what=end.subject)
    if end.kind == "out-of-memory":
        return say("it stopped at {place}: it needs more memory than a device has", place=at)
    if end.kind == "cuda-remnant":
        return say("CUDA remains at {place}: {what}", place=at, what=end.subject)
    if end.kind == "rank":
        return say("it stopped at {place}: more processes than devices", place=at)
    return say("it would go wrong at {place}: {kind} ({what})", place=at, kind=end.kind, what=end.subject)


def refuse_large(root: Path, place: Path) -> None:
    """Refuse a tree whose copy would fill the disk."""
    size = 0
    for folder, names, files in walk(root, lenient=True):
        names[:] = [name for name in names if name not in NEVER_ENTERED]
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    free = shutil.disk_usage(place).free
    if size > _SHARE * free:
        raise TorchferryError(
            say(
                "a rehearsal runs in a copy, and {root} has {size} GiB, more than half of the free space in {place}",
                root=root,
                size=f"{size / 2**30:.1f}",
                place=place,
            ),
            say("move data out of the project and leave a link, or set TMPDIR to a larger disk"),
        )


def mend_links(root: Path, folder: Path) -> None:
    """Let links of a copy that led out of the tree lead where they led, and those into the tree into the copy."""
    for place, names, files in walk(folder, lenient=True):
        for name in (*names, *files):
            path = os.path.join(place, name)
            if not os.path.islink(path):
                continue
            original = os.path.normpath(os.path.join(root, os.path.relpath(place, folder), os.readlink(path)))
            below = os.path.relpath(original, root)
            is_outside = below.startswith("..")
            if is_outside is os.path.isabs(os.readlink(path)):
                continue
            os.unlink(path)
            os.symlink(original if is_outside else os.path.join(folder, below), path)
