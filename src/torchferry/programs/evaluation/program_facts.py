"""What conditions ask of one program: its options, the words of its command, which of its files call a function."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

from torchferry.programs.evaluation.config_files import GROUP, NO_KEY, ConfigFiles
from torchferry.programs.evaluation.factory_methods import is_unasked, maker_of
from torchferry.programs.evaluation.shared_results import Dependencies, Question, SearchResult, SharedResults
from torchferry.programs.imports.instantiations import IMPORTS_BY_NAME, WORDS
from torchferry.programs.imports.settings_classes import ComposedFile
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Program
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.argument_lists import CHANGES_WORDS, GivenWords, added_words
from torchferry.programs.options.command_line import CommandWords
from torchferry.programs.options.switches import UNDETERMINED, Switch, SwitchIndex
from torchferry.programs.references.calls import FunctionPlace, calls_in
from torchferry.programs.references.escapes import Escape
from torchferry.programs.references.unnamed_arguments import may_be_given, may_be_looked_up
from torchferry.programs.syntax.assignments import computed_members, merges_settings, reads_only, speaks_of_class
from torchferry.programs.syntax.parameters import MOST_CALLS, BoundArgument, Expression, Parameter, called_as, mandatory
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_UNDER_WAY = object()
"""What is said to who asks for something while it is being worked out, or too far behind other parameters."""

_MOST_NESTED = 12
"""Parameters behind parameters that are followed."""

COMMAND_LIBRARIES = frozenset({"fire", "click", "typer", "tyro", "jsonargparse", "defopt", "simple_parsing"})
"""Libraries that make options of the parameters of a function."""

MAKING_WORDS = WORDS | IMPORTS_BY_NAME
"""Identifiers of which a file that makes objects of what settings name holds one."""

MOST_STEPS = 3_000
"""Expressions and members that are looked at for one condition."""


_MOST_SLACK = 1 << 30

GIN_READERS = ("parse_config_file", "parse_config_files_and_bindings", "parse_config")
"""Functions that read what gin gives to parameters."""


class OncePerProgram(Generic[K, T]):
    """Works out something once for a program, whatever the calls on a way give: other answers depend on its result.

    Args:
        facts: The facts of the program.
        kind: What is asked, a name of its own.
        find: Works it out.
        unknown: The result for who asks while it is being worked out.
    """

    def __init__(self, facts: ProgramFacts, kind: str, find: Callable[[K], T], unknown: T) -> None:
        self._facts = facts
        self._kind = kind
        self._find = find
        self._unknown = unknown
        self._kept: dict[K, T] = {}
        self._under_way: set[K] = set()
        facts.answers(kind, self._result, is_kept=False)

    def of(self, key: K) -> T:
        """Return what is kept, or what is worked out now."""
        result = self._facts.ask(self._kind, key)
        return self._unknown if result is _UNDER_WAY else cast("T", result)

    def _result(self, key: K) -> object:
        if key in self._under_way or len(self._under_way) > _MOST_NESTED:
            return _UNDER_WAY
        if key not in self._kept:
            self._under_way.add(key)
            self._kept[key] = self._facts.shared((self._kind, key), lambda: self._find(key))
            self._under_way.discard(key)
        return self._kept[key]


class ProgramFacts:
    """Answers what depends on the program, and takes down what was asked.

    Args:
        program: The program.
        sources: The project's files.
        paths: The files that the program reaches, its own first.
        board: The options that files declare.
        config: The project's settings files.
        results: What was found for other programs.
    """

    def __init__(
        self,
        program: Program,
        sources: Sources,
        paths: Iterable[str],
        board: SwitchIndex,
        config: ConfigFiles,
        results: SharedResults,
    ) -> None:
        self.program = program
        self.sources = sources
        self.config = config
        self.paths = tuple(paths)
        self._order = {path: number for number, path in enumerate(self.paths)}
        self._board = board
        self._results = results
        reads_files = bool(self._ordered(sources.words.holding("fromfile_prefix_chars")))
        commands = CommandWords(program.own_starts, self._added_words(), reads_files)
        self._joined: tuple[str, ...] | None = None
        self._known: dict[Question, tuple[object, int]] = {}
        self._not_kept: set[str] = set()
        self._dependencies: list[Dependencies] = [Dependencies()]
        words = sources.words
        self._kinds: dict[str, Callable[[Any], object]] = {
            "calls": lambda key: tuple(islice(self._calls(key), MOST_CALLS + 1)),
            "given unnamed": lambda key: may_be_given(sources, results.calls, self._ordered, *key),
            "looked up": lambda path: may_be_looked_up(sources, results.calls, self._ordered, path),
            "calling": lambda name: self._ordered(words.as_call(name) | words.as_argument(name)),
            "mentioning": lambda name: self._ordered(words.holding(name)),
            "deriving": lambda name: self._ordered(words.as_base(name)),
            "making": lambda _: self._ordered(words.holding_any(MAKING_WORDS)),
            "makes": lambda _: bool(self.making()),
            "names class": self._names_class,
            "reads only": self._reads_only,
            "unasked": lambda maker: is_unasked(sources, self.mentioning(maker[1]), maker),
            "makes commands": self._makes_commands,
            "variable": commands.variable,
            "environment": self._may_set_variable,
            "settings": lambda _: config.files.of_program(program.path, sources.text(program.path), program.arguments),
            "started": lambda path: path == program.path,
            "storing": lambda name: self._ordered(words.storing(name)),
            "naming": lambda _: tuple(filter(self._computes_members, self._ordered(words.naming()))),
            "options": self._options,
            "said": lambda name: self._said_by(commands, name),
            "started with": lambda _: tuple(
                path for path in map(posixpath.normpath, program.arguments) if path in sources.project.paths
            ),
            "argument": lambda number: next(iter(program.arguments[int(number) - 1 : int(number)]), None),
            "file": lambda word: config.files.opened(word, program.path),
            "composed": lambda path: (
                config.files.composed(program.path, sources.text(program.path), program.arguments)
                if path in ("", program.path)
                else ()
            ),
        }
        self.steps = MOST_STEPS
        """Expressions that may still be looked at for the condition that is asked."""
        self._slack = _MOST_SLACK
        """How many expressions more could have been followed to what was looked at: who begins as far goes as far."""
        self.bound: Mapping[Parameter, BoundArgument] = {}
        """What the calls on a way give to parameters."""
        self.consulted: dict[Parameter, BoundArgument | None] = {}
        self.found: dict[Hashable, SearchResult] = {}
        """What was found for the condition that is asked, with what it depends on."""
        self.asks: Expression | None = None
        """Where an object is asked: what is stored later does not count."""
        self.asked: set[Parameter] = set()
        """Parameters on which an answer has depended and which the way gives nothing."""

    def _may_set_variable(self, name: str) -> bool:
        path = self.program.path
        is_set = bool(self._ordered(self.sources.words.setting_variable(name)))
        return is_set or (path in self.sources.notebooks and self.sources.sets_by_magic(path, name))

    def _added_words(self) -> GivenWords:
        """Return the words that the program itself may add to what it is started with."""
        words = GivenWords()
        for path in self._ordered(self.sources.words.saying("argv", CHANGES_WORDS)):
            loaded = self.sources.file(path)
            if loaded is not None:
                words = words.with_more(added_words(*loaded, is_started=path == self.program.path))
        return words

    # --- what depends on the program ---

    def answers(self, kind: str, answer: Callable[[Any], object], *, is_kept: bool = True) -> None:
        """Let something else of the program answer a kind of question, which may keep the answers itself."""
        self._kinds[kind] = answer
        if is_kept:
            self._not_kept.discard(kind)
        else:
            self._not_kept.add(kind)

    def ask(self, kind: str, name: Hashable) -> object:
        """Return what the program says to a question, and take it down."""
        question = self._results.question(kind, name)
        answer, number = self._answered(question)
        self._dependencies[-1].facts[question] = number
        return answer

    def number(self, question: Question) -> int:
        """Return the number of what the program says to a question."""
        answered = self._known.get(question)  # what was asked already is asked again and again
        return (self._answered(question) if answered is None else answered)[1]

    def _answered(self, question: Question) -> tuple[object, int]:
        """Return what the program says to a question; what is asked to find that out is a part of it."""
        answered = self._known.get(question)
        if answered is None:
            kind, name = question.kind, question.name
            self._dependencies.append(Dependencies())
            try:
                answer = self._kinds[kind](name)
            finally:
                self._dependencies.pop()
            answered = answer, question.number(answer)
            if kind not in self._not_kept:
                self._known[question] = answered
        return answered

    def shared(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what is found by itself, once for all programs that say the same."""
        tree = self._results.tree(key)
        held = tree.find(self.number)
        if held is None:
            with self.by_itself() as dependencies:
                held = SearchResult(find(), dependencies)
            if not dependencies.is_met:
                tree.keep(dependencies.facts, held)
        return cast("T", held.result)

    @contextmanager
    def _taken_down(self) -> Iterator[Dependencies]:
        """Take down what is asked from here on."""
        dependencies = Dependencies()
        self._dependencies.append(dependencies)
        try:
            yield dependencies
        finally:
            self._dependencies.pop()

    @contextmanager
    def dependencies(self) -> Iterator[Dependencies]:
        """Do the same; what is being answered around it depends on that too."""
        try:
            with self._taken_down() as dependencies:
                yield dependencies
        finally:
            self._dependencies[-1].add(dependencies)

    @contextmanager
    def by_itself(self) -> Iterator[Dependencies]:
        """Take down what is asked for something that holds for all ways, and wherever the search comes from.

        What the calls on one way give does not count, nor where an object is asked; there are as many steps as for a
        condition.
        """
        before = self.bound, self.asked, self.consulted, self.found, self.steps, self.asks, self._slack
        self.bound, self.asked, self.consulted, self.found, self.steps, self.asks = {}, set(), {}, {}, MOST_STEPS, None
        try:
            with self._taken_down() as dependencies:
                yield dependencies
        finally:
            self.bound, self.asked, self.consulted, self.found, self.steps, self.asks, self._slack = before

    def once(self, key: Hashable, find: Callable[[], T], depth: int = 0, *, by_asker: bool = False) -> T:
        """Return what `find` does, and keep it: for all programs that say the same, and are given the same.

        Where the search gives up, it is kept for the condition that is asked: else what gives up is searched again on
        each way to it.

        Args:
            key: What is searched.
            find: Searches.
            depth: How many expressions were followed to it.
            by_asker: Whether it counts where an object is asked: what is stored behind that place is left out.
        """
        asks = self.asks if by_asker else None
        own = (key, None if asks is None else asks.node) if by_asker else key
        tree = self._results.tree(own)
        held = tree.find(self.number) or self.found.get(own)
        if held is None:
            held = self._given_before(own, depth)
        if held is None and by_asker:
            held = self._given_before((key,), depth)
            if held is not None and asks is not None and asks.file.path in held.dependencies.storing:
                held = None  # another place stood before all that is stored in its own file, or behind it
        if held is None:
            held = self._searched(find, depth)
            self._keep(key, own, held, asks, by_asker=by_asker)
        else:
            self.rests_on(held.dependencies)
            self._slack = min(self._slack, held.deepest - depth)
        self.asked |= held.asked
        self.consulted |= held.consulted
        return cast("T", held.result)

    def _given_before(self, key: Hashable, depth: int) -> SearchResult | None:
        """Return what was found where the same was given, if a search from here came as far."""
        held = self._results.given(key).find(self.bound, self.number)
        if held is None or depth > held.deepest or held.steps >= self.steps:
            return None
        self.steps -= held.steps
        return held

    def _searched(self, find: Callable[[], object], depth: int) -> SearchResult:
        asked, consulted, slack, steps = self.asked, self.consulted, self._slack, self.steps
        self.asked, self.consulted, self._slack = set(), {}, _MOST_SLACK
        with self.dependencies() as dependencies:
            result = find()
        deepest = depth + self._slack
        held = SearchResult(result, dependencies, frozenset(self.asked), self.consulted, deepest, steps - self.steps)
        self.asked, self.consulted, self._slack = asked, consulted, min(slack, self._slack)
        return held

    def _keep(
        self, key: Hashable, own: Hashable, held: SearchResult, asks: Expression | None, *, by_asker: bool
    ) -> None:
        dependencies = held.dependencies
        if not dependencies.is_whole:
            self.found[own] = held
            return
        if not held.depends:
            self._results.tree(own).keep(dependencies.facts, held)
        if by_asker and not dependencies.is_behind:
            self._results.given((key,)).keep(held.consulted, dependencies.facts, held)
            is_alone = asks is None or asks.file.path not in dependencies.storing
        else:
            is_alone = False
        if held.depends and not is_alone:
            self._results.given(own).keep(held.consulted, dependencies.facts, held)

    def rests_on(self, dependencies: Dependencies) -> None:
        """Take down all that a remembered answer depends on."""
        self._dependencies[-1].add(dependencies)

    def give_up(self, *, is_met: bool = False) -> None:
        """Note that the answer depends on where the search came from, and whether it met what is under way there."""
        dependencies = self._dependencies[-1]
        dependencies.is_whole = False
        dependencies.is_met = dependencies.is_met or is_met

    def left_out(self, path: str, *, is_behind: bool) -> None:
        """Note that a file stores what was requested, and whether it is left out as it does so behind what asks."""
        dependencies = self._dependencies[-1]
        if path not in dependencies.storing:
            dependencies.storing |= {path}
        dependencies.is_behind = dependencies.is_behind or is_behind

    def goes_on(self, depth: int, deepest: int) -> bool:
        """Whether one more expression is looked at."""
        self.steps -= 1
        return self.is_near(depth, deepest if self.steps > 0 else -1)

    def is_near(self, depth: int, deepest: int) -> bool:
        """Whether an expression lies near enough after the first one to be looked at."""
        self._slack = min(self._slack, deepest - depth)
        if depth <= deepest:
            return True
        self.give_up()
        return False

    def option_value(self, name: str) -> DefaultValue | None:
        """Return the value of an option or a key in the command: None for none, `UNDETERMINED` for an unknown one."""
        return cast("DefaultValue | None", self.ask("said", name))

    def settings_say(self, name: str) -> DefaultValue | None:
        """Return what the settings file behind the program says of an option, `python train.py args.json`, or None."""
        word = self.argument(1) or ""
        path = self.opened(word) if word.endswith((".json", ".yaml", ".yml")) else None
        value = self.config.value(path, (name,)) if path is not None else NO_KEY
        return None if value is NO_KEY else DefaultValue(value if value is not GROUP else UNDETERMINED, name)

    def started_with(self) -> tuple[str, ...]:
        """Return the Python files of the project that the command names behind the program."""
        return cast("tuple[str, ...]", self.ask("started with", ""))

    def argument(self, number: int) -> str | None:
        """Return a word of the command: `sys.argv[1]` is the first one behind the program."""
        return cast("str | None", self.ask("argument", str(number))) if number > 0 else None

    def is_started(self, path: str) -> bool:
        """Whether a file is the one that is started."""
        return bool(self.ask("started", path))

    def variable(self, name: str) -> DefaultValue | None:
        """Return what a variable of the environment is set to before the program starts, as `said` does."""
        return cast("DefaultValue | None", self.ask("variable", name))

    def sets_variable(self, name: str) -> bool:
        """Whether a file of the program may set a variable of the environment."""
        return bool(self.ask("environment", name))

    def reads_gin(self) -> bool:
        """Whether a file of the program reads files of gin, or what binds its parameters."""
        return any(self.calling(name) for name in GIN_READERS)

    def settings(self) -> tuple[str, ...]:
        """Return the settings files that the program is started with, or names itself."""
        return cast("tuple[str, ...]", self.ask("settings", ""))

    def options(self, name: str) -> tuple[Switch, ...]:
        """Return the options of a name that the program's files declare."""
        return cast("tuple[Switch, ...]", self.ask("options", name))

    def calling(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that may call a function or method of a name, or hand it on."""
        return cast("tuple[str, ...]", self.ask("calling", name))

    def storing(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that may store something in an object under a name."""
        return cast("tuple[str, ...]", self.ask("storing", name))

    def _computes_members(self, path: str) -> bool:
        loaded = self.sources.file(path)
        return loaded is not None and bool(computed_members(loaded[0]) or merges_settings(loaded[0]))

    def naming(self) -> tuple[str, ...]:
        """Return the files of the program that may give objects attributes by names which they compute."""
        return cast("tuple[str, ...]", self.ask("naming", ""))

    def mentioning(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that hold a name."""
        return cast("tuple[str, ...]", self.ask("mentioning", name))

    def deriving(self, name: str) -> tuple[str, ...]:
        """Return the files of the program that may derive a class from one of a name."""
        return cast("tuple[str, ...]", self.ask("deriving", name))

    def opened(self, word: str) -> str | None:
        """Return the settings file that a program opens by a name, or None."""
        return cast("str | None", self.ask("file", word))

    def composed(self, path: str) -> tuple[ComposedFile, ...]:
        """Return the files that hydra puts together for the program of a file."""
        return cast("tuple[ComposedFile, ...]", self.ask("composed", path))

    def composed_by_program(self) -> tuple[ComposedFile, ...]:
        """Return the files that hydra puts together for the program, whichever file asks."""
        return self.composed("")

    def making(self) -> tuple[str, ...]:
        """Return the files of the program that may make objects of what settings name."""
        return cast("tuple[str, ...]", self.ask("making", ""))

    def makes(self) -> bool:
        """Whether a file of the program may make objects of what settings name: programs seldom differ in that."""
        return bool(self.ask("makes", ""))

    # where a question is narrow, programs of other files answer it alike, and what rests on it holds for them

    def names_class(self, name: str) -> bool:
        """Whether the program speaks of a class other than as the base of another, also as a text."""
        return bool(self.ask("names class", name))

    def _names_class(self, name: str) -> bool:
        loaded = map(self.sources.file, self.mentioning(name))
        return any(each is not None and speaks_of_class(each[0], name) for each in loaded)

    def reads_only(self, name: str) -> bool:
        """Whether the program only reads what a name represents."""
        return bool(self.ask("reads only", name))

    def _reads_only(self, name: str) -> bool:
        loaded = map(self.sources.file, self.mentioning(name))
        return all(each is None or reads_only(each[0], name) for each in loaded)

    def makes_commands(self, name: str) -> tuple[bool, bool]:
        """Whether files that speak of a function speak of a library which makes options of parameters, and of Fire."""
        return cast("tuple[bool, bool]", self.ask("makes commands", name))

    def _makes_commands(self, name: str) -> tuple[bool, bool]:
        using, words = {*self.mentioning(name)}, self.sources.words
        return not using.isdisjoint(words.holding_any(COMMAND_LIBRARIES)), not using.isdisjoint(words.holding("Fire"))

    def _ordered(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted((path for path in paths if path in self._order), key=self._order.__getitem__))

    def _options(self, name: str) -> tuple[Switch, ...]:
        switches: list[Switch] = []
        defining = self._board.defining(name)
        for path in self.paths if defining else ():
            if path in defining:
                switches += (switch for switch in self._board.of(path).get(name, ()) if self._is_own(switch))
        return tuple(switches)

    def _said_by(self, commands: CommandWords, name: str) -> DefaultValue | None:
        """Return what commands say of an option, by themselves or by a variable of the environment."""
        switches = self._options(name) if name.isidentifier() else ()
        if self._joined is None:
            declared = self._flags() if commands.joined() else frozenset()
            self._joined = tuple(word for word in commands.joined() if word not in declared)
        value = commands.option(name, switches, self._joined)
        if any(commands.option(each.name, (each,)) is not None for each in self._setting(name)):
            return DefaultValue(UNDETERMINED)
        for switch in switches if value is None else ():
            said_before = commands.variable(switch.variable) if switch.variable else None
            if said_before is not None:
                return DefaultValue(
                    switch.parsed(str(said_before.value)) if said_before.value is not UNDETERMINED else UNDETERMINED
                )
        return value

    def _flags(self) -> frozenset[str]:
        """Return all options that the program declares, as they are said."""
        boards = map(self._board.of, self.paths)
        return frozenset(
            flag for board in boards for each in board.values() for switch in each for flag in switch.flags
        )

    def _setting(self, name: str) -> Iterator[Switch]:
        """Yield the options whose own actions store something under another name."""
        for path in self._ordered(self.sources.words.holding("Action")):
            for switches in self._board.of(path).values():
                yield from (each for each in switches if name in each.sets or "*" in each.sets)

    def _is_own(self, switch: Switch) -> bool:
        return not switch.when_started or switch.path == self.program.path

    # --- calls ---

    def given(self, parameter: Parameter) -> Expression | None:
        """Return what the calls on the way give to a parameter; None where it is for all callers to say."""
        given = self.consulted[parameter] = self.bound.get(parameter)
        loaded = self.sources.file(given.path) if given is not None else None
        if given is None or loaded is None:
            self.asked.add(parameter)
            return None
        return Expression(*loaded, given.value)

    def calls_of(self, file: PythonFile, function: FunctionNode) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
        """Yield the calls of a function in the files of the program, also those of what it is handed to."""
        of = file.path, called_as(file, function), function.lineno
        places = cast("tuple[tuple[str, int, int], ...]", self.ask("calls", of))
        for path, group in groupby(places, key=itemgetter(0)):
            loaded = self.sources.file(path)
            if loaded is not None:
                counted = set(group)
                for callee, call, _ in calls_in(loaded[0], (of[1], function)):
                    if (path, callee.lineno, callee.col_offset) in counted:
                        maker = maker_of(loaded[0], call)
                        if maker is None or not self.ask("unasked", maker):
                            yield *loaded, call

    def may_be_given_unnamed(
        self, file: PythonFile, function: FunctionNode, name: str, index: int, called: str = ""
    ) -> bool:
        """Whether a call that does not name a function may give a parameter something.

        Args:
            file: The file of the function.
            function: The function.
            name: The parameter.
            index: Its position; -1 for none.
            called: What it is called by: a class that is derived from its own; empty for its own.
        """
        of = file.path, called or called_as(file, function), function.lineno
        given = mandatory(file, function)
        is_mandatory = name in given and not isinstance(file.parents.get(function), ast.ClassDef)
        return bool(self.ask("given unnamed", (of, name, index, bool(given), is_mandatory)))

    def may_be_looked_up(self, path: str) -> bool:
        """Whether the program may look up, by a text, what a file defines: `getattr(models, name)`."""
        return bool(self.ask("looked up", path))

    def escapes(self, path: str, of: FunctionPlace) -> tuple[Escape, ...]:
        """Return where a file speaks of a function and does not call it, whichever program asks."""
        return self._results.calls.escapes(path, of)

    def _calls(self, of: FunctionPlace) -> Iterator[tuple[str, int, int]]:
        """Yield where a function is called in the files of the program."""
        calls = self._results.calls
        for path in self._ordered(calls.paths(of)):
            for line, column, when_started in calls.within(path, of):
                if path == self.program.path or not when_started:
                    yield path, line, column


def agreed(switches: tuple[Switch, ...], facts: ProgramFacts) -> DefaultValue | None:
    """Return what options of one name say by default; None where there is none. Those of the program's file win."""
    own = [each for each in switches if facts.is_started(each.path)] or switches
    if not own:
        return None
    defaults = [DefaultValue(each.value, each.flag) for each in own]
    return (
        defaults[0] if all(each.agrees(defaults[0]) for each in defaults) else defaults[0]._replace(value=UNDETERMINED)
    )
