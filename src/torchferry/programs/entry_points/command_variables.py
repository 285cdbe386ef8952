"""Command lines that a variable holds before they are run: `CMD="python train.py"`, `CMD+=" --fast"`, `eval $CMD`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.shell import Command, Word, assigned_name

_VARIABLE = lazy_regex(r"[\"']?\$[({]?(?P<name>[A-Za-z_]\w*)")
_RUNNERS = frozenset({"eval", "exec", "srun", "mpirun", "nohup", "time", "sudo", "env", "then", "do", "else", "bash",
                      "sh", "zsh", "timeout", "nice", "stdbuf", "run", "command", "mpiexec", "ssh"})  # fmt: skip
"""Words that run the words that follow them."""

_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})

_MOST_BEFORE = 10
"""Words of a command among which its program is looked for."""

_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})


class HeldCommands:
    """Finds the commands of a file that a variable holds, and the commands that run them.

    Args:
        text: The file.
        commands: Its commands, nested ones included, in their order.
    """

    def __init__(self, text: str, commands: Sequence[Command]) -> None:
        run_names: set[str] = set()
        for command in commands:
            run_names.update(_run_in(command))
        self._spans: list[tuple[int, int, str]] = []
        self._arrays: dict[int, str] = {}
        for command in commands if run_names else ():
            declared = command.words[1:] if command.words and command.words[0].value in _DECLARES else ()
            for word in (*command.assignments, *declared):
                name = assigned_name(word)
                if name in run_names:
                    self._spans.append((word.start, word.end, name))
                    if text[word.end : word.end + 1] == "(":
                        self._arrays[word.start] = name

    def _name(self, command: Command) -> str:
        """Return the variable that holds a command which runs later; empty where the command runs in place."""
        first = (*command.assignments, *command.words)[0]
        inside = next((name for start, end, name in self._spans if start < first.start < end), "")
        return inside or self._arrays.get(first.start, "")

    def expanded(self, command: Command, meaning: Command) -> Command:
        """Return the words of the command that is run: a variable that holds a whole command line is split."""
        if not self._spans or not meaning.words or not _is_taken_apart(command):
            return meaning
        words = [Word(text, word.start, word.end) for word in meaning.words for text in _split(word.value)]
        return meaning._replace(words=tuple(words))

    def followed(self, pairs: Sequence[tuple[Command, Command]]) -> Iterator[Command]:
        """Yield the meanings of commands; a command in a variable is left out if a command that runs it is in the list.

        Where the run command cannot be read, the held one takes its place, with unreadable words.

        Args:
            pairs: Commands as they are written, each with its meaning.
        """
        names = [self._name(command) for command, _ in pairs] if self._spans else [""] * len(pairs)
        run = {name for (command, _), own in zip(pairs, names, strict=True) if not own for name in _run_in(command)}
        for (_, meaning), own in zip(pairs, names, strict=True):
            if not own:
                yield meaning
            elif own not in run:
                last = meaning.words[-1]
                yield meaning._replace(words=(*meaning.words, Word(f"$({own})", last.end, last.end)))


def _run_in(command: Command) -> Iterator[str]:
    """Yield the variables that make up a command before its program: `eval "$CMD"`, `srun $CMD`."""
    for word in command.words[:_MOST_BEFORE]:
        variable = _VARIABLE.match(word.text)
        if variable is not None:
            yield variable["name"]
        elif not (word.text.startswith("-") or "=" in word.text or word.text.isdigit()):
            if word.value.rpartition("/")[2] not in _RUNNERS:
                return


def _is_taken_apart(command: Command) -> bool:
    """Whether a shell reads the words of a command as a command line."""
    first = command.words[0]
    values = [word.value for word in command.words[:_MOST_BEFORE]]
    return first.value in ("eval", "exec") or first.text.lstrip("\"'").startswith("$") or (
        "-c" in values and not _SHELLS.isdisjoint(value.rpartition("/")[2] for value in values)
    )  # fmt: skip


def _split(text: str) -> list[str]:
    return text.split() if " " in text and not text.startswith(("$(", "`")) else [text]


_MAKE = frozenset({"make", "gmake", "$(MAKE)", "${MAKE}"})


NAMES = ("Makefile", "makefile", "GNUmakefile")
"""Files that `make` reads in a folder."""


_RULE = lazy_regex(r"(?m)^(?P<targets>[^\s:#=][^:#=\n]{0,400}):(?!=)(?P<needs>[^#\n=]*)(?:#[^\n]*)?$")


_MOST_TARGETS = 200


class MakeCall(NamedTuple):
    """A command that runs `make`.

    Attributes:
        targets: The targets that it names; none for the first one of the file.
        variables: The variables that it sets.
        folder: The folder of `-C`; empty for none.
        place: Its place.
        document: Whether the place is in a document for people.
    """

    targets: tuple[str, ...]
    variables: Mapping[str, str]
    folder: str
    place: str
    document: bool


def is_make_with_variables(command: Command) -> bool:
    """Whether a command runs `make` and sets variables for it."""
    if not command.words or command.words[0].value not in _MAKE:
        return False
    return bool(command.assignments) or any(assigned_name(word) for word in command.words[1:])


def make_call(command: Command, place: str, document: bool) -> MakeCall | None:
    """Return the `make` call of a command that sets variables for it; else None."""
    if not is_make_with_variables(command):
        return None
    targets: list[str] = []
    variables: dict[str, str] = {}
    folder, before = "", ""
    for word in (*command.assignments, *command.words[1:]):
        value = word.value
        if before == "-C":
            folder = value
        elif assigned_name(word):
            variables[assigned_name(word)] = value.partition("=")[2]
        elif not value.startswith("-") and before not in ("-f", "-j", "-o"):
            targets.append(value)
        before = value
    return MakeCall(tuple(targets), variables, folder, place, document)


def lines_of(text: str, targets: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the lines of a Makefile that are run for some targets, with what these need: from a line to a line."""
    rules = [(text.count("\n", 0, rule.start()) + 1, rule) for rule in _RULE.finditer(text)]
    ends = [line for line, _ in rules[1:]] + [text.count("\n") + 2]
    plain = [rule["targets"].split() for _, rule in rules]
    first = next((names[:1] for names in plain if names and not names[0].startswith(".")), [])
    todo = [*(targets or first)]
    wanted: set[str] = set()
    while todo and len(wanted) < _MOST_TARGETS:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += (each for (_, rule), names in zip(rules, plain, strict=True) if name in names
                     for each in rule["needs"].split())  # fmt: skip
    return [
        (line, end) for (line, _), end, names in zip(rules, ends, plain, strict=True) if not wanted.isdisjoint(names)
    ]
