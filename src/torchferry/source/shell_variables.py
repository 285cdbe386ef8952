"""The variables of a script: what represents `$NAME` in a command, by what the commands before it set.

`ARGS="--fp16"` and `python train.py $ARGS` start `python train.py --fp16`. Where a branch, a loop or `&&` decides what
a variable holds, a command has alternatives, of which the first one is what holds without the branch. What cannot be
read, such as the output of another command, is written `$(NAME)`; a variable that the script does not set stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, product
from types import MappingProxyType

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.shell import Command, Word, assigned_name

MOST_ALTERNATIVES = 8
"""Commands that one line may represent; where there are more, the variables of the line are not read."""

_MOST_PROGRAMS = 400
"""Programs that one line may start, each with the same words: as many as are judged of a project."""

_LONGEST = 4_000
"""Characters of the value of a variable."""

_VARIABLE = lazy_regex(
    r"\$\{(?P<braced>[A-Za-z_]\w*)(?:\[[@*]\])?(?::?[-=](?P<default>[^{}$`]*))?\}|\$(?P<plain>[A-Za-z_]\w*)"
)
_MAKE_VARIABLE = lazy_regex(r"\$[({](?P<braced>[A-Za-z_]\w*)(?P<default>(?!))?[)}](?P<plain>(?!))?")
_MAKE_LINE = lazy_regex(
    r"(?m)^(?P<export>export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*(?P<add>\+)?[:?!]{0,2}=[ \t]*(?P<value>[^\n#]*)"
)
_UNREADABLE = lazy_regex(r"\$\(|`")

_FUNCTION = lazy_regex(
    r"(?m)^[ \t]{0,40}(?:function[ \t]{1,20}([\w-]{1,80})[ \t]{0,20}(?:\(\))?|([\w-]{1,80})[ \t]{0,20}\(\))\s{0,20}\{"
)
_FUNCTION_END = lazy_regex(r"(?m)^[ \t]*\}")
_ALL_ARGUMENTS = lazy_regex(r"\$(?:[@*]|\{[@*](?::(?P<first>\d+))?\})")
_ONE_ARGUMENT = lazy_regex(r"\$(?:(\d)|\{(\d+)\})")

_MODULES = frozenset({"-m", "--module"})
"""Options behind which the name of a module stands."""

_MODULE_IS = "--module="
_MODULE = lazy_regex(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
_PREFIXES = frozenset({"then", "do", "else", "elif", "{", "!", "eval", "exec"})
_OPENS = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSES = frozenset({"fi", "done", "esac"})

Alternatives = tuple["str | None", ...]
"""What a variable may hold, the first one where no branch is taken; None for what cannot be read."""

_Values = Callable[[str], "Alternatives | None"]
"""Returns what a variable of a name may hold; None where nothing is known of it."""

_Part = tuple[Word, list[tuple[str, ...]]]
"""A word of a command, and the words that each of its meanings is."""


class _Block:
    """A branch or a loop that is being read: what its present arm sets, and what its arms before that have set."""

    __slots__ = ("before", "has_else", "is_case", "values")

    def __init__(self, is_case: bool = False) -> None:
        self.values: dict[str, Alternatives] = {}
        self.before: list[dict[str, Alternatives]] = []
        self.has_else = False
        self.is_case = is_case


class ShellVariables:
    """Follows the variables of a script from one command to the next.

    Args:
        text: The script.
        is_makefile: Whether it is a Makefile, whose variables are `$(NAME)` and hold for all its lines.
        commands: Its commands, of which some call its functions.
        given: Variables that are set for it, whatever it sets itself.
    """

    def __init__(
        self,
        text: str,
        is_makefile: bool = False,
        commands: Sequence[Command] = (),
        given: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._text = text
        self._functions = () if is_makefile else tuple(_functions(text))
        self._calls: dict[str, list[tuple[str, ...]]] = {name: [] for name, _, _ in self._functions}
        for command in commands if self._functions else ():
            called = command.words[0] if command.words else Word("", 0, 0)
            if called.value in self._calls and text[called.end : called.end + 1] != "(":
                self._calls[called.value].append(tuple(word.text for word in command.words[1:]))
        self._arguments: tuple[str, ...] | None = None
        self._is_makefile = is_makefile
        self._blocks = [_Block()]
        self._exported: dict[str, None] = {}
        for name, value in given.items():
            self.set(name, value)
        for line in _MAKE_LINE.finditer(text) if is_makefile else ():
            if line["name"] in given:
                continue
            before = self._held(line["name"]) if line["add"] else None
            value = " ".join((*(map(str, before or ())), line["value"].strip()))
            self.set(line["name"], value, exports=line["export"] is not None)

    def begin_example(self) -> None:
        """Begin another example of a document: its reader may or may not have exported what those before it do."""
        for name in self._exported:
            self._assign(name, (None,))

    def set(self, name: str, value: str, exports: bool = False) -> None:
        """Set a variable to a text in which variables may stand."""
        self._assign(name, self._values_of(Word(value, 0, 0)))
        if exports:
            self._exported[name] = None

    def unset(self, name: str) -> None:
        """Take a variable away."""
        self._assign(name, ("",))
        self._exported.pop(name, None)

    def texts_of(self, text: str) -> Iterator[str]:
        """Yield what a text of a command may be with the variables that hold there: at most four, without quotes."""
        yield from self._texts_of(text)

    def read(self, command: Command) -> None:
        """Take in what a command sets, and where branches begin and end."""
        words = list(command.words)
        while words and words[0].text in _PREFIXES | _OPENS | _CLOSES:
            keyword = words.pop(0).text
            if keyword in _OPENS:
                self._blocks.append(_Block(keyword == "case"))
                if keyword in ("for", "select") and words:
                    self._loop(words)
                    return
            elif keyword in ("else", "elif") and len(self._blocks) > 1:
                self._blocks[-1].before.append(self._blocks[-1].values)
                self._blocks[-1].values = {}
                self._blocks[-1].has_else = keyword == "else"
            elif keyword in _CLOSES and len(self._blocks) > 1:
                self._close(self._blocks.pop())
        assignments = list(command.assignments)
        while words and assigned_name(words[0]):
            assignments.append(words.pop(0))
        if assignments and self._is_array(assignments[-1]):
            self._assign_word(assignments[-1], command, " ".join(word.text for word in words))
        elif words and words[0].value in _DECLARES:
            self._declare(words[0].value, words[1:], command)
        elif words and words[0].value in ("read", "mapfile", "readarray"):
            for word in words[1:]:
                if word.value.isidentifier():
                    self._assign(word.value, (None,))
        elif len(words) > 1 and words[0].value == "set" and words[1].value == "--":
            self._arguments = tuple(word.text for word in words[2:])
        elif words and words[0].value == "unset":
            for word in words[1:]:
                self.unset(word.value)
        elif not words:
            for word in assignments:
                self._assign_word(word, command)

    def expanded(self, command: Command) -> list[Command]:
        """Return the commands that a command may be, at most eight, with the exported variables set before it.

        In a function, what its calls give represents `$1` and `$@`; what is given to the script itself stays.
        """
        start = command.words[0].start if command.words else 0
        name = next((name for name, begin, end in self._functions if begin <= start < end), None)
        given = [self._arguments] if name is None else self._calls[name]
        called = dict.fromkeys(command if each is None else with_arguments(command, each) for each in given)
        meanings = [meaning for each in called or [command] for meaning in self._meanings(each)]
        if len(meanings) <= MOST_ALTERNATIVES:
            return meanings
        programs = Counter(_program(meaning) for meaning in meanings)
        if "" not in programs and max(programs.values()) <= MOST_ALTERNATIVES and len(meanings) <= _MOST_PROGRAMS:
            return meanings
        return self._meanings(with_arguments(command, ("$(arguments)",)))[:1]  # nobody can tell which of them

    def _meanings(self, command: Command) -> list[Command]:
        own = {assigned_name(word) for word in command.assignments}
        own_words = dropwhile(lambda word: word.text in _PREFIXES, command.words)
        parts = [(word, [*self._words_of(word)]) for word in own_words]
        before = [(Word(name, 0, 0), self._exported_as(name)) for name in self._exported if name not in own]
        count = 1
        for _, alternatives in (*before, *parts):
            count *= len(alternatives)
        if count > MOST_ALTERNATIVES:
            parts = [(word, each if len(each) == 1 else [(f"$({word.value.strip('${}')})",)]) for word, each in parts]
            parts = self._with_programs(parts)
            before = [(word, each if len(each) == 1 else [(f"{word.text}=$(.)",)]) for word, each in before]
        elif any("$" in word.text for word, _ in parts):
            parts = self._with_programs(parts)
        meanings: dict[tuple[str, ...], Command] = {}
        for chosen in product(*(each for _, each in (*before, *parts))):
            words = [
                [Word(text, word.start, word.end) for text in texts]
                for (word, _), texts in zip((*before, *parts), chosen, strict=True)
            ]
            set_before = [word for each in words[: len(before)] for word in each]
            arguments = [word for each in words[len(before) :] for word in each]
            meaning = Command((*set_before, *command.assignments), tuple(arguments))
            meanings.setdefault(tuple(word.text for word in (*set_before, *arguments)), meaning)
        return list(meanings.values())

    def _with_programs(self, parts: list[_Part]) -> list[_Part]:
        """Return the parts of a command, of which the first that is one of many programs is each of them."""
        before = ""
        for number, (word, each) in enumerate(parts):
            every = [*self._words_of(word, self._every)] if "$" in word.text else []
            is_module = before in _MODULES or word.text.startswith(_MODULE_IS)
            before = word.text
            if len(every) > len(each) and all(map(_names_module if is_module else _names_program, every)):
                return [*parts[:number], (word, every), *parts[number + 1 :]]
        return parts

    # --- what is set ---

    def _declare(self, keyword: str, words: Iterable[Word], command: Command) -> None:
        is_exported = keyword == "export"
        for word in words:
            if word.text.startswith("-"):
                is_exported = is_exported or "x" in word.text
                continue
            name = assigned_name(word) or word.value
            if assigned_name(word):
                self._assign_word(word, command)
            if is_exported and name.isidentifier():
                self._exported[name] = None

    def _assign_word(self, word: Word, command: Command, value: str | None = None) -> None:
        name, _, text = word.text.partition("=")
        if value is None and text.startswith("("):
            return  # an array, whose items have been read
        values = self._values_of(Word(text if value is None else value, word.start, word.end))
        if name.endswith("+"):
            before = self._held(name[:-1]) or ("",)
            between = " " if value is not None else ""
            values = tuple(
                None if first is None or more is None else (first + between + more).strip()
                for first in before
                for more in values
            )
        first_word = (*command.assignments, *command.words)[0]
        is_chosen = self._text[max(0, first_word.start - 200) : first_word.start].rstrip().endswith(("&&", "||"))
        if is_chosen or self._blocks[-1].is_case:
            values = (*(self._held(assigned_name(word)) or ("",)), *values)
        self._assign(assigned_name(word), values)

    def _assign(self, name: str, values: Alternatives) -> None:
        unique = tuple(dict.fromkeys(values))
        if len(unique) > _MOST_PROGRAMS or any(len(value or "") > _LONGEST for value in unique):
            unique = (None,)
        self._blocks[-1].values[name] = unique

    def _loop(self, words: list[Word]) -> None:
        name, *items = words
        is_list = len(items) > 1 and items[0].text == "in"
        values: list[str | None] = [None]
        if is_list:
            held = [(word, value) for word in items[1:] for value in self._values_of(word)]
            values = [part for word, value in held for part in (_items(value) if "[@]" in word.text else (value,))]
        self._assign(name.value, tuple(None if value is None or "*" in value else value for value in values))

    def _close(self, block: _Block) -> None:
        arms = [*block.before, block.values]
        for name in dict.fromkeys(name for arm in arms for name in arm):
            is_always_set = block.has_else and all(name in arm for arm in arms)
            before = () if is_always_set else self._held(name) or ("",)
            self._assign(name, (*before, *(value for arm in arms for value in _few(arm.get(name, ())))))

    def _every(self, name: str) -> Alternatives | None:
        return next((block.values[name] for block in reversed(self._blocks) if name in block.values), None)

    def _held(self, name: str) -> Alternatives | None:
        held = self._every(name)
        return held if held is None else _few(held)

    def _is_array(self, word: Word) -> bool:
        return word.text.endswith("=") and self._text[word.end : word.end + 1] == "("

    # --- what stands for a word ---

    def _values_of(self, word: Word) -> Alternatives:
        """Return the texts that a value may be."""
        if word.text.startswith("'"):
            return (word.value,)
        return tuple(None if _UNREADABLE.search(text) else text for text in self._texts_of(word.text))

    def _texts_of(self, text: str, values: _Values | None = None) -> Iterator[str]:
        """Yield what a text may be with its variables, without quotes."""
        most = MOST_ALTERNATIVES if values is None else _MOST_PROGRAMS
        pieces: list[Alternatives] = []
        at = 0
        for match in (_MAKE_VARIABLE if self._is_makefile else _VARIABLE).finditer(text):
            pieces.append((text[at : match.start()],))
            pieces.append(self._stands_for(match, values or self._held))
            at = match.end()
        pieces.append((text[at:],))
        count = 1
        for piece in pieces:
            count *= len(piece)
        if count > most:
            yield "$(" + text + ")"
            return
        for chosen in product(*pieces):
            yield re.sub(r"[\"']", "", "".join(str(part) for part in chosen))

    def _stands_for(self, match: re.Match[str], values: _Values) -> tuple[str, ...]:
        name = match["braced"] or match["plain"]
        held = values(name)
        default = match["default"]
        if held is None:
            unset = f"${{{name}}}" if self._is_makefile else match[0]
            return (unset if default is None else default,)
        return tuple(f"$({name})" if value is None else value or default or "" for value in held)

    def _words_of(self, word: Word, values: _Values | None = None) -> Iterator[tuple[str, ...]]:
        """Yield the words that a word may be."""
        if "$" not in word.text or word.text.startswith("'"):
            yield (word.text,)
            return
        is_one = word.text.startswith('"') and "[@]" not in word.text
        for text in self._texts_of(word.text, values):
            if text == word.value:
                yield (word.text,)
            else:
                yield (text,) if is_one or _UNREADABLE.search(text) else tuple(text.split())

    def _exported_as(self, name: str) -> list[tuple[str, ...]]:
        held = self._held(name)
        return [(f"{name}=$({name})" if value is None else f"{name}={value}",) for value in held or ()] or [()]


def _few(values: Alternatives) -> Alternatives:
    """Return the values of a variable where all are looked at together with those of others; None for too many."""
    return values if len(values) <= MOST_ALTERNATIVES else (None,)


def _names_program(texts: Sequence[str]) -> bool:
    return bool(texts) and texts[-1].strip("\"'").endswith(".py") and _UNREADABLE.search(texts[-1]) is None


def _names_module(texts: Sequence[str]) -> bool:
    return bool(texts) and _MODULE.fullmatch(texts[-1].strip("\"'").removeprefix(_MODULE_IS)) is not None


def _items(value: str | None) -> tuple[str | None, ...]:
    """Return the items of an array."""
    return (None,) if value is None else tuple(value.split())


def _program(command: Command) -> str:
    """Return the program or module of a command; empty where no word names one."""
    before = ""
    for word in command.words:
        is_module = before in _MODULES or word.text.startswith(_MODULE_IS)
        if (_names_module if is_module else _names_program)((word.text,)):
            return word.text
        before = word.text
    return ""


def _functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the functions of a script, each with where its body begins and ends."""
    at = 0
    while (begin := _FUNCTION.search(text, at)) is not None:
        end = _FUNCTION_END.search(text, begin.end())
        at = len(text) if end is None else end.end()
        yield begin[1] or begin[2], begin.end(), at


def with_arguments(command: Command, arguments: Sequence[str]) -> Command:
    """Return a command with what is given to its script or function in the place of `$1`, `$@` and `${@:3}`."""
    if not any("$" in word.text for word in command.words):
        return command
    words: list[Word] = []
    for word in command.words:
        every = _ALL_ARGUMENTS.fullmatch(word.value)
        if every is not None:
            first = max(int(every["first"] or 1) - 1, 0)
            words += [Word(text, word.start, word.end) for text in arguments[first:]]
            continue
        text = _ALL_ARGUMENTS.sub(lambda match: " ".join(arguments[max(int(match["first"] or 1) - 1, 0) :]), word.text)
        text = _ONE_ARGUMENT.sub(lambda match: "".join(arguments[int(match[1] or match[2]) - 1 :][:1]), text)
        if text or not word.text:
            words.append(Word(text, word.start, word.end))
    return command._replace(words=tuple(words))
