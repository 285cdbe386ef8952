r"""What messages mean, why they come and what to do: `errors.toml` of each vendor, and `common/errors.toml`.

There is one table and one matcher: `torchferry explain` reads logs with it, `doctor` what an import or a tool printed,
`deploy` what a step printed. A file names its sources once; every entry cites them::

    [sources]
    HCCL = "https://www.hiascend.com/..., HCCL errors"

    [[error]]
    id = "ei0006"                       # unique in the file
    literals = ["EI0006"]               # one of them is in the text; asked first, since that is quick
    pattern = 'EI0006.{0,80}: (?P<reason>.+)'  # must be found, too; left out where the literals say all
    when = "memory-full"                # what else must hold of the text, of CONDITIONS; left out where nothing does
    code = "EI0006"                     # what users search for, a point for any letter; left out where there is none
    role = "consequence"                # one of ROLES; cause where it is left out
    where = ["log"]                     # in which texts it is looked for, of WHERE; log where it is left out
    steps = ["driver"]                  # where deploy: only of these steps
    first = true                        # where deploy: asked before those that have no `first`
    meaning = "..."                     # what the message says, in plain words
    causes = ["...", "..."]             # why it comes, the likeliest first
    remedy = "..."                      # what to do
    commands = ["npu-smi info"]         # what to type next; {python} is the interpreter that is examined
    explains = ["hccl-failed"]          # entries (`id`, or `owner/id`) of which this one is the cause
    source = "HCCL"

    [[family]]
    name = "ei-ej"                      # of its page in the documentation
    begins = ["EI", "EJ"]               # how the codes of the family begin; an entry without a code is of none
    title = "EI, EJ: HCCL"

A text has its Chinese beside it, in a key that ends in `_zh`. What a named group matched takes the place of `{name}`.
Patterns are searched with `re.MULTILINE`; those of logs see one line. Literals are compared letter by letter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.caught_imports import is_not_caught
from torchferry.backends.datafile import DATA, DataFile, DataOwner, data_file
from torchferry.backends.memory_numbers import is_elsewhere, is_fragmented, is_full, is_unsaid
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

FILE = "errors.toml"
COMMON = "common"
"""The owner of the entries that are of no vendor."""

ROLES = ("cause", "consequence", "general", "echo")
"""What a message tells of a failure: why it happened; that this process waits for one that failed elsewhere; that
something failed, with a hint at what; or only that something failed, as every failure makes it say. In this order a
message is the answer."""

WHERE = ("log", "machine", "tool", "deploy")
"""Texts in which entries are looked for: logs of programs, what an import or a library says on a machine that is
examined, what the vendor's tool prints, and the output of an installation's step."""

CONDITIONS: Mapping[str, Callable[[str], bool]] = {
    "memory-elsewhere": is_elsewhere,
    "memory-fragmented": is_fragmented,
    "memory-full": is_full,
    "memory-unsaid": is_unsaid,
    "not-caught": is_not_caught,
}
"""What an entry may ask of a text with `when`, besides its expression."""

_CODE = re.compile(r"[A-Z]{0,4}[0-9]{4,9}")
_CODE_GROUP = "number"
"""The group of an expression that has the code, where an entry is of several codes."""

_IDENTIFIER = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KEYS = frozenset(
    {
        *("id", "literals", "pattern", "when", "code", "role", "where", "steps", "first", "meaning", "meaning_zh"),
        *("causes", "causes_zh", "remedy", "remedy_zh", "commands", "explains", "source"),
    }
)


class KnownError(NamedTuple):
    """One message; the fields are those of `[[error]]`. `owner` is the target whose table has it, or `COMMON`."""

    owner: str
    id: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str] | None
    when: str
    code: str
    role: str
    where: tuple[str, ...]
    steps: tuple[str, ...]
    first: bool
    meaning: Bilingual
    causes: tuple[Bilingual, ...]
    remedy: Bilingual
    commands: tuple[str, ...]
    explains: tuple[str, ...]
    source: str

    @property
    def key(self) -> str:
        """What names the entry among those of all tables."""
        return f"{self.owner}/{self.id}"

    def has_code(self, text: str) -> bool:
        """Whether a code is this entry's, by itself or as one of several; a point represents any letter or digit."""
        if _CODE.fullmatch(text) and text in self.literals:
            return True
        return len(text) == len(self.code) and all(
            own in (letter, ".") for own, letter in zip(self.code, text, strict=True)
        )

    def without_text(self, code: str = "") -> ErrorMatch:
        """Return what the entry says where there is no message to take words from, but perhaps a code."""
        groups = dict.fromkeys(self.pattern.groupindex if self.pattern else (), "")
        return ErrorMatch(self, {name: code if name == _CODE_GROUP else text for name, text in groups.items()})

    def match(self, text: str) -> ErrorMatch | None:
        """Return what the text says of this entry; None where it is not its message."""
        if not any(literal in text for literal in self.literals):
            return None
        return self.match_expression(text)

    def match_expression(self, text: str) -> ErrorMatch | None:
        """As `match`, of a text that has one of the literals."""
        if self.when and not CONDITIONS[self.when](text):
            return None
        if self.pattern is None:
            return ErrorMatch(self, {})
        match = self.pattern.search(text)
        if match is None:
            return None
        return ErrorMatch(self, {name: value or "" for name, value in match.groupdict().items()})


class ErrorFamily(NamedTuple):
    """Codes that one part of a stack gives; the fields are those of `[[family]]`."""

    owner: str
    name: str
    begins: tuple[str, ...]
    title: Bilingual

    def has(self, entry: KnownError) -> bool:
        """Whether an entry's code is of the family."""
        return entry.owner == self.owner and entry.code.startswith(self.begins)


class ErrorMatch(NamedTuple):
    """An entry, and what its named groups matched."""

    entry: KnownError
    groups: Mapping[str, str]

    @property
    def meaning(self) -> Bilingual:
        """What the message says; empty where only its cause is written down."""
        return self._filled(self.entry.meaning)

    @property
    def causes(self) -> tuple[Bilingual, ...]:
        """Why it comes, the likeliest first."""
        return tuple(map(self._filled, self.entry.causes))

    @property
    def remedy(self) -> Bilingual:
        """What to do; empty where the commands say it."""
        return self._filled(self.entry.remedy)

    @property
    def advice(self) -> Bilingual:
        """What to do in one text, which names the commands where nothing else says it."""
        commands = "; ".join(self.commands())
        return self.remedy if self.remedy.en else Bilingual(commands, commands)

    def steps(self, python: str = "python") -> tuple[Bilingual, ...]:
        """Return what to do, one step each: the remedy, then what to type next."""
        typed = tuple(Bilingual(command, command) for command in self.commands(python))
        return (self.remedy, *typed) if self.remedy.en else typed

    def commands(self, python: str = "python") -> tuple[str, ...]:
        """Return what to type next; what the message named is in it as one word.

        Args:
            python: The interpreter that takes the place of `{python}`.
        """
        quoted = {
            "python": shlex.quote(python),
            **{key: shlex.quote(value or "?") for key, value in self.groups.items()},
        }
        return tuple(filled(line, quoted) for line in self.entry.commands)

    def _filled(self, text: Bilingual) -> Bilingual:
        values = {key: value or "?" for key, value in self.groups.items()}
        return Bilingual(filled(text.en, values), filled(text.zh, values))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of `{name}`; other braces are the shell's."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def errors_of(backend: type[DataOwner] | None) -> tuple[KnownError, ...]:
    """Return the entries that hold for a target, in the order in which they are asked: its own, then the common ones.

    Raises:
        ValueError: a table is wrong, which is a mistake of torchferry's or of the distribution that it belongs to.
    """
    path = None if backend is None else data_file(backend, FILE)
    own = () if backend is None or path is None else _read(path, _owner(backend, path))
    return (*own, *_read(DATA / COMMON / FILE, COMMON))


def families_of(backend: type[DataOwner] | None) -> tuple[ErrorFamily, ...]:
    """Return the families of codes of a target, or of the common table; errors are those of `errors_of`."""
    path = DATA / COMMON / FILE if backend is None else data_file(backend, FILE)
    owner = COMMON if backend is None or path is None else _owner(backend, path)
    return () if path is None else _read_families(path, owner)


def errors_of_all(backends: Iterable[type[DataOwner]]) -> tuple[KnownError, ...]:
    """Return the entries of several targets, each once, and the common ones; errors are those of `errors_of`."""
    entries = {entry.key: entry for backend in backends for entry in errors_of(backend) if entry.owner != COMMON}
    return (*entries.values(), *errors_of(None))


def first_match(entries: Iterable[KnownError], text: str, where: tuple[str, ...], step: str = "") -> ErrorMatch | None:
    """Return what a whole text means by the first entry that it matches; None where none does.

    Args:
        entries: The entries, in order.
        text: What was printed.
        where: Which entries are asked, of `WHERE`; those of the first are asked before those of the next.
        step: The step of an installation that printed it: entries of other steps are not asked.
    """
    asked = list(entries)
    for place in where:
        for entry in sorted(asked, key=lambda entry: not entry.first) if place == "deploy" else asked:
            if place in entry.where and (not entry.steps or step in entry.steps):
                match = entry.match(text)
                if match is not None:
                    return match
    return None


def cause_of_exception(backend: type[DataOwner] | None, kind: str, text: str) -> ErrorMatch | None:
    """Return what an exception that ended a program means; None where no entry names a cause.

    Args:
        backend: The target that the program ran on.
        kind: The exception's class.
        text: What it says.
    """
    causes = [entry for entry in errors_of(backend) if entry.role == "cause"]
    return first_match(causes, f"{kind}: {text}", ("machine", "log"))


def _owner(backend: type[DataOwner], path: Path) -> str:
    """Return the target whose own file it is: one that inherits the table of another has the other's entries."""
    bases = [base for base in backend.__mro__ if issubclass(base, DataOwner) and hasattr(base, "NAME")]
    return next((base.NAME for base in reversed(bases) if data_file(base, FILE) == path), backend.NAME)


@lru_cache(maxsize=16)
def _read(path: Path, owner: str) -> tuple[KnownError, ...]:
    file = DataFile(path)
    file.check_keys(file.document, frozenset({"sources", "error", "family"}), "top")
    entries = tuple(_entry(file, table, owner) for table in file.tables("error"))
    if len({entry.id for entry in entries}) < len(entries):
        raise file.wrong("two [[error]] have one `id`")
    return entries


@lru_cache(maxsize=16)
def _read_families(path: Path, owner: str) -> tuple[ErrorFamily, ...]:
    file, families = DataFile(path), []
    for table in file.tables("family"):
        place = f"[[family]] {table.get('name', '')}"
        file.check_keys(table, frozenset({"name", "begins", "title", "title_zh"}), place)
        family = ErrorFamily(
            owner,
            file.text(table, "name", place),
            file.texts(table, "begins", place),
            file.bilingual(table, "title", place),
        )
        if not _IDENTIFIER.fullmatch(family.name) or not family.begins or not (family.title.en and family.title.zh):
            raise file.wrong(f"{place}: needs `name`, `begins`, `title` and `title_zh`")
        families.append(family)
    return tuple(families)


def _entry(file: DataFile, table: dict[str, Any], owner: str) -> KnownError:
    identifier = file.text(table, "id", "[[error]]")
    place = f"[[error]] {identifier}"
    file.check_keys(table, _KEYS, place)
    entry = KnownError(
        owner,
        identifier,
        file.texts(table, "literals", place),
        _pattern(file, file.text(table, "pattern", place), place),
        file.text(table, "when", place),
        file.text(table, "code", place),
        file.text(table, "role", place, "cause"),
        file.texts(table, "where", place) or ("log",),
        file.texts(table, "steps", place),
        file.truth(table, "first", place),
        file.bilingual(table, "meaning", place),
        _causes(file, table, place),
        file.bilingual(table, "remedy", place),
        file.texts(table, "commands", place),
        tuple(key if "/" in key else f"{owner}/{key}" for key in file.texts(table, "explains", place)),
        file.cited(table, place),
    )
    if not _IDENTIFIER.fullmatch(identifier):
        raise file.wrong(f"{place}: `id` is made of small letters, digits and -")
    if not entry.literals or any(len(literal) < _SHORTEST for literal in entry.literals):
        raise file.wrong(f"{place}: `literals` has texts of at least {_SHORTEST} letters")
    if entry.role not in ROLES or not set(entry.where) <= set(WHERE):
        raise file.wrong(f"{place}: `role` is one of {', '.join(ROLES)}, `where` has some of {', '.join(WHERE)}")
    if entry.when and entry.when not in CONDITIONS:
        raise file.wrong(f"{place}: `when` is one of {', '.join(CONDITIONS)}")
    if not entry.causes or not (entry.remedy.en or entry.commands):
        raise file.wrong(f"{place}: `causes` and `remedy` or `commands` are needed")
    if any(bool(text.en) != bool(text.zh) for text in (entry.meaning, entry.remedy)):
        raise file.wrong(f"{place}: a text needs its Chinese")
    return entry


_SHORTEST = 4


def _causes(file: DataFile, table: dict[str, Any], place: str) -> tuple[Bilingual, ...]:
    english, chinese = file.texts(table, "causes", place), file.texts(table, "causes_zh", place)
    if len(english) != len(chinese):
        raise file.wrong(f"{place}: `causes` and `causes_zh` have one text for each other")
    return tuple(map(Bilingual, english, chinese))


def _pattern(file: DataFile, text: str, place: str) -> re.Pattern[str] | None:
    """Return the expression, compiled when it is first used: a table has hundreds, and a log meets few."""
    return lazy_regex(text, re.MULTILINE) if text else None
