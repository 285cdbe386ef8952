"""The call path from a program to a place in its code: the imports and calls on it, and their conditions.

The search runs backwards, from the place to the program, the surest path first. The body of a file runs when the file
is imported, so its predecessors are the importers. The predecessors of a function are the references to its name, in
the files that the program reaches. The predecessors of a method are the calls of a method of that name; if Python or
torch calls it (`__init__`, `forward`), they are the places that instantiate its class. The search over-approximates:
every reference to a name counts as a call.
"""

from __future__ import annotations

import ast
import heapq
import itertools
from collections.abc import Iterable, Iterator

from torchferry.programs.call_paths.place_contexts import PlaceContexts
from torchferry.programs.call_paths.program_uses import ProgramReferences
from torchferry.programs.call_paths.search_state import PassedUnit, PendingCondition, Search, SearchState, Unit
from torchferry.programs.call_paths.unmade_classes import UnmadeClasses
from torchferry.programs.evaluation.conditions import Conditions
from torchferry.programs.imports.module_graph import Edge, Modules
from torchferry.programs.imports.sources import Sources, current
from torchferry.programs.model import CallPath, Form, Program, Reachability, Step
from torchferry.programs.options.answers import Truth
from torchferry.programs.references.import_results import uses_of_attempt, uses_of_handed_out, uses_of_imported
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.assignments import is_stub
from torchferry.programs.syntax.definitions import Definition
from torchferry.programs.syntax.method_names import is_implicit
from torchferry.programs.syntax.parameters import Parameter
from torchferry.programs.syntax.place_context import FunctionNode, PlaceContext
from torchferry.programs.syntax.use_syntax import Place
from torchferry.source.import_calls import ImportTime
from torchferry.source.names import Names, assigned_value
from torchferry.source.python import PythonFile

_MOST_TESTS = 6
"""Conditions that are carried on to the calls that decide them; further ones depend on a choice."""

_MOST = 2_000
"""Places that are looked at for one way; beyond them it is taken to depend on a choice."""

_PATIENCE, _MOST_LATER = 3, 200
"""Searches of one program that may reach the limit; each later one examines fewer places.

In a project that registers its classes under names of settings, everything may call everything: 738 of 4,178 searches
in MMDetection3D's 49 programs reached the limit, with 93 % of all places. Where a path was found after 500 places, it
depended on a choice, with one exception.
"""

_MOST_NESTED = 20
"""Searches that go on as the search from another file; a longer chain of imports is walked by the last of them."""

_ABSENT = object()

_FAR = 1 << 60
"""More steps than any way has."""


class CallPathSearch:
    """Finds ways for one program.

    Args:
        program: The program.
        sources: The project's files.
        modules: Its imports.
        closure: The files that the program reaches by imports.
        conditions: Answers conditions for the program.
        contexts: The contexts of places.
        uses: Where functions and classes are used.
    """

    def __init__(
        self,
        program: Program,
        sources: Sources,
        modules: Modules,
        closure: dict[str, Edge | None],
        conditions: Conditions,
        contexts: PlaceContexts,
        uses: Uses,
    ) -> None:
        self.contexts = contexts
        self.uses = uses
        self.program = program
        self.sources = sources
        self.modules = modules
        self.closure = closure
        self.conditions = conditions
        self._ways: dict[Unit, CallPath] = {}
        """The surest ways to functions and files, as far as they were met."""
        self._taken: set[Unit] = set()
        """Those to which a way leads that may be taken."""
        self._without: dict[Reachability, set[Unit]] = {reachability: set() for reachability in Reachability}
        """Those to which no way leads that is as sure."""
        self._from_files: dict[tuple[str, str], tuple[CallPath | None, Reachability | None]] = {}
        """The surest paths to files, by the requested error, and the last reachability where the search gave up."""
        self._nested = 0  # searches from files that are under way
        self._cut = 0  # searches that looked at as many places as any may
        self._plain: set[str] | None = None
        self.settings = frozenset(conditions.facts.settings())
        """The settings files that the program is started with, or names itself, where that is known."""
        self._unmade = UnmadeClasses(sources, closure, conditions, contexts, uses)
        self._meant = ProgramReferences(program, sources, closure, contexts, uses, self.settings)

    def call_path(
        self,
        path: str,
        node: ast.AST,
        supposed: ast.expr | None = None,
        worst: Reachability = Reachability.GUARDED,
        error: str = "",
        *,
        wanted: bool = True,
    ) -> CallPath | None:
        """Return the surest path to a node of a file, or None when the program does not reach it.

        Args:
            path: The file.
            node: The node.
            supposed: A condition on values at the node that must hold too.
            worst: The least sure reachability of interest; `comes_to` accepts one that is merely possible.
            error: The name of the exception that is raised there; empty where it is not known.
            wanted: The required value of the condition.
        """
        return self._surest(_start(path, node, supposed, wanted=wanted), worst, error)

    def comes_to(self, path: str, node: ast.AST, supposed: ast.expr | None = None) -> bool:
        """Whether the program reaches a node of a file, or may: without an option, and no code handles its absence.

        This needs less than the whole path, so known facts about the functions and files on it answer at once.
        The arguments are those of `call_path`.
        """
        return self._surest(_start(path, node, supposed), Reachability.CHOSEN) is not None

    def call_path_to_file(self, path: str) -> CallPath | None:
        """Return the surest way to the import of a file, or None when the program does not come there."""
        call_path, cut_at = self._from_file(path, "") if path in self.closure else (None, None)
        return call_path if cut_at is None else CallPath(Reachability.CHOSEN, ())

    def _surest(self, begin: SearchState, worst: Reachability, error: str = "") -> CallPath | None:
        """Return the surest path to a place, None where none is as sure as requested.

        If any possible path is enough, the returned one need not list all of its steps.
        """
        if begin.place.path not in self.closure:
            return None
        search = Search(worst, error)
        call_path = self._found(begin, search)
        return CallPath(Reachability.CHOSEN, begin.steps) if search.is_cut else call_path

    def _found(self, begin: SearchState, search: Search) -> CallPath | None:
        """Return the surest way that a search finds."""
        counter = itertools.count()  # of ways that are as sure and as long, the one whose places were met first
        heap = search.waiting
        heap.append((begin.reachability, 0, 0, begin, None))
        met: set[object] = set()
        most = _MOST if self._cut < _PATIENCE else _MOST_LATER
        while heap and len(met) < most:
            search.last, _, _, state, passed = heapq.heappop(heap)
            if isinstance(state, CallPath):
                self._remember(state, passed, search)
                return state
            key = state.memo_key
            if key in met:
                continue
            met.add(key)
            for before in self._before(state, search):
                if before.reachability <= search.worst:
                    passed = before.passed if isinstance(before, SearchState) else state.passed
                    heapq.heappush(heap, (before.reachability, len(before.steps), next(counter), before, passed))
        if heap:
            self._cut += 1
        search.is_cut = search.is_cut or bool(heap)
        if search.is_cut:
            return None
        for reachability in Reachability:
            if reachability <= search.worst:
                self._without[reachability] |= search.passed
        return None

    def _remember(self, call_path: CallPath, passed: PassedUnit | None, search: Search) -> None:
        """Cache the facts that a found path proves about the functions and files on it."""
        while passed is not None:
            if call_path.may_be_taken:
                self._taken.add(passed.unit)
            # not those to files: where several are as long, the one is told whose import is met first
            if passed.is_free and passed.unit[1] and search.is_told:
                self._ways[passed.unit] = call_path._replace(
                    steps=call_path.steps[: len(call_path.steps) - passed.steps]
                )
            passed = passed.last

    def _is_known(self, unit: Unit, search: Search) -> bool:
        """Whether the cache has the path from a function or file to the program, as far as a search needs it."""
        is_known = unit in self._ways or unit in self._without[search.worst]
        return is_known or (not search.is_told and unit in self._taken)

    def _known(self, unit: Unit, state: SearchState, search: Search) -> Iterator[CallPath]:
        """Yield the cached path from a function or file to the program, if there is one."""
        if unit in self._without[search.worst]:
            return
        is_enough = not search.is_told and unit in self._taken
        yield CallPath(state.reachability, ()) if is_enough else state.behind(self._ways[unit])

    def _before(self, state: SearchState, search: Search) -> Iterator[SearchState | CallPath]:
        """Yield what leads to a place, or the way itself where the program begins there."""
        path, node, _ = state.place
        if node is None:
            yield from self._importers(path, state, search)
            return
        loaded = self.sources.file(path)
        if loaded is None:
            return
        file, names = loaded
        node = current(file, node)
        context = self.contexts.of(file, node).against(search.error)
        if context.typing or context.is_dead:
            return
        is_attempt = context.copes and isinstance(node, (ast.Import, ast.ImportFrom))
        if context.unit is not None and not is_attempt and self._is_never_entered(path, context.unit, search):
            return
        settled = self._settled(state, file, names, node, context)
        deferred = self.contexts.deferred(file, names, node)
        if is_attempt:
            assert isinstance(node, (ast.Import, ast.ImportFrom))
            yield from self._uses_of_attempt(state, file, names, node)
        is_handed_out = (
            (bool(context.attempts) or deferred is not None)
            and context.unit is not None
            and self.contexts.hands_out(file, names, node, context.unit)
        )
        if is_handed_out and context.unit is not None:
            yield from self._uses_of_handed_out(state, file, names, context.unit)
        is_returned = not is_handed_out and isinstance(file.parents.get(node), (ast.Return, ast.Tuple))
        if deferred is not None and not is_returned:
            yield from self._uses_of_deferred(state, file, names, node)
            if deferred is ImportTime.LAZILY:
                return
            settled = settled._replace(reachability=max(settled.reachability, Reachability.GUARDED))
        if context.tests and context.unit is None:
            yield from self._uses_of_stub(state, file, names, node)
        if settled.reachability > search.worst:
            return
        if context.unit is not None:
            yield from self._callers(file, names, context.unit, settled, search)
        elif context.imported and path == self.program.path and self.program.form is not Form.CONSOLE:
            return
        elif not context.main or (path == self.program.path and self.program.form is not Form.CONSOLE):
            yield from self._importers(path, settled.preceded_by(self.contexts.step(path, node)), search)

    def _is_never_entered(self, path: str, unit: FunctionNode, search: Search) -> bool:
        """Whether the cache proves that no path to a function is as sure as a search requires."""
        return (path, unit.lineno, unit.col_offset, search.error) in self._without[search.worst]

    def _uses_of_attempt(
        self, state: SearchState, file: PythonFile, names: Names, statement: ast.Import | ast.ImportFrom
    ) -> Iterator[SearchState]:
        """Yield the uses of a name that an import may fail to bind: they fail unless a check guards them."""
        steps = (self.contexts.step(state.place.path, state.place.node), *state.steps)
        places = uses_of_attempt(self.uses, file, names, statement)
        yield from (state._replace(place=each, steps=steps) for each in places if each.path in self.closure)

    def _uses_of_deferred(
        self, state: SearchState, file: PythonFile, names: Names, call: ast.AST
    ) -> Iterator[SearchState]:
        """Yield the uses of a call's result that imports on first use, or only if the module exists."""
        assert isinstance(call, ast.Call)
        led = self._led_here(state)
        for place, is_sure in uses_of_imported(self.uses, file, names, call):
            if place.path in self.closure:
                yield self._used_at(led, place, is_sure=is_sure)

    def _used_at(self, state: SearchState, place: Place, *, is_sure: bool) -> SearchState:
        """Return a search state at a use of a name that may be unbound: an unknown caller makes it a choice."""
        if is_sure:
            return state._replace(place=place)
        step = self.contexts.step(place.path, place.node)
        choices = _with(state.choices, f"{step.text} ({step.path}:{step.line})")
        return state._replace(place=place, reachability=max(state.reachability, Reachability.CHOSEN), choices=choices)

    def _uses_of_handed_out(
        self, state: SearchState, file: PythonFile, names: Names, unit: FunctionNode
    ) -> Iterator[SearchState]:
        """Yield the uses of the result of a function that tries an import, unless a check guards them."""
        for place, *_ in self.uses.of(file, names, unit):
            given = self.contexts.given_at(place.path, place.node, file, unit)
            led = self._led_here(state)._replace(given=(*state.given, *given))
            loaded = self.sources.file(place.path) if place.path in self.closure else None
            uses = uses_of_handed_out(self.uses, *loaded, place.node, self.conditions.is_absent) if loaded else ()
            yield from (self._used_at(led, use, is_sure=is_sure) for use, is_sure in uses)

    def _uses_of_stub(self, state: SearchState, file: PythonFile, names: Names, node: ast.AST) -> Iterator[SearchState]:
        """Yield the uses of a name that stays a stub because each alternative needs a feature that the target lacks.

        `matmul = not_implemented`, then `if cuda_is_there(): matmul = cuda_matmul`, and the same for Triton: where
        neither is available, every use of the name reaches a function that only raises.
        """
        statement = file.parents.get(node)
        if not isinstance(statement, ast.Assign) or statement.value is not node or len(statement.targets) != 1:
            return
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return
        bindings = names.module_bindings(target.id)
        plain = [binding for binding in bindings if not self._is_out_of_reach(file, names, binding)]
        if len(plain) != 1 or not is_stub(names, assigned_value(file, plain[0])):
            return
        steps = (self.contexts.step(state.place.path, state.place.node), *state.steps)
        for use in self.uses.of_binding(file, target):
            if use.place.path in self.closure:
                yield state._replace(place=use.place, steps=steps)

    def _is_out_of_reach(self, file: PythonFile, names: Names, binding: ast.AST) -> bool:
        """Whether a binding is conditional on a feature that the target does not have."""
        for test, wanted in self.contexts.of(file, binding).tests:
            answer, _ = self.conditions.evaluate(file, names, test)
            if answer.guard and answer.truth is not Truth.UNKNOWN and (answer.truth is Truth.YES) != wanted:
                return True
        return False

    def _settled(
        self, state: SearchState, file: PythonFile, names: Names, node: ast.AST, context: PlaceContext
    ) -> SearchState:
        """Return a search state with the conditions around its place, as far as they can be evaluated here."""
        through = state.place.through
        if through is None and context.is_plain and not state.tests:
            return state
        reachability, options, choices = state.reachability, state.options, state.choices
        if context.suppressed or any(not self.contexts.tries_twice(names, attempt) for attempt in context.attempts):
            reachability = max(reachability, Reachability.GUARDED)
        if any(self.contexts.fails(file, attempt) for attempt in context.after):
            reachability = max(reachability, Reachability.GUARDED)
        attempt = context.fallback
        if (
            attempt is not None
            and not self.contexts.fails(file, attempt)
            and not self.contexts.tries_twice(names, attempt)
        ):
            reachability = max(reachability, Reachability.CHOSEN)
            choices = (*choices, f"except ({file.path}:{getattr(node, 'lineno', 0)})")
        around_import = self.contexts.of(file, current(file, through)).tests if through is not None else ()
        tests = [
            *state.tests,
            *(
                PendingCondition(file.path, test, wanted)
                for test, wanted in dict.fromkeys((*context.tests, *around_import))
            ),
        ]
        bound = dict(state.given) if state.given else None
        still: list[PendingCondition] = []
        for test in tests:
            loaded = self.sources.file(test.path)
            assert loaded is not None
            expression = current(loaded[0], test.expression)
            answer, asked = self.conditions.evaluate(*loaded, expression, bound)
            if answer.truth is Truth.UNKNOWN and not state.steps and self.contexts.lacks_either_way(file, expression):
                continue
            if answer.truth is Truth.UNKNOWN:
                if asked and len(still) < _MOST_TESTS and self._may_be_given(file, context.unit, asked):
                    still.append(test)
                else:
                    reachability = max(reachability, Reachability.CHOSEN)
                    choices = (*choices, self._text(test))
            elif (answer.truth is Truth.YES) != test.wanted:
                reachability = max(reachability, Reachability.GUARDED if answer.guard else Reachability.OPTION)
                if not answer.guard:
                    options = (*options, answer.option or self._text(test))
        return SearchState(
            state.place,
            reachability,
            state.steps,
            tuple(dict.fromkeys(options)) if options else (),
            tuple(dict.fromkeys(choices)) if choices else (),
            tuple(still),
            state.given if still else (),
            state.passed,
        )

    @staticmethod
    def _may_be_given(file: PythonFile, unit: FunctionNode | None, asked: Iterable[Parameter]) -> bool:
        """Whether a parameter is one of the function that is left next, or of the class that it belongs to."""
        if unit is None:
            return False
        lines = {parameter.line for parameter in asked if parameter.path == file.path}
        if not lines or unit.lineno in lines:
            return bool(lines)
        owner = file.parents.get(unit)
        around_it = owner.body if isinstance(owner, ast.ClassDef) else ()
        return any(isinstance(part, FunctionNode) and part.lineno in lines for part in around_it)

    def _text(self, test: PendingCondition) -> str:
        return self.contexts.condition(test.path, test.expression, wanted=test.wanted)

    # --- files ---

    def _importers(self, path: str, state: SearchState, search: Search) -> Iterator[SearchState | CallPath]:
        """Yield the imports of a file, or the way where the program is the file."""
        if path == self.program.path or self.closure.get(path, _ABSENT) is None:
            yield state.call_path(self._text)
            return
        if not state.tests:
            whole = (path, 0, 0, search.error)
            if self._is_known(whole, search):
                yield from self._known(whole, state, search)
                return
            alone = state.is_free and state.steps and not search.waiting
            if search.is_told and alone and self._nested < _MOST_NESTED:
                before, cut_at = self._from_file(path, search.error)
                if cut_at is None:
                    if before is not None:
                        yield state.behind(before)
                    return
                if cut_at <= search.worst:  # this search would meet the same places, and end as that one did
                    search.is_cut = True
                    return
            search.passed.add(whole)
            state = state.passing(whole)
        key = (path, state.reachability, state.tests)
        if key in search.seen:
            return
        search.seen.add(key)
        if not search.is_told and path in self.imported_plainly():
            yield CallPath(Reachability.ALWAYS, ())
            return
        for edge in self.modules.importers.get(path, ()):
            if edge.importer not in self.closure:
                continue
            after = state
            if edge.chosen:
                choice = f"{self.contexts.line(edge.importer, edge.line)} ({edge.importer}:{edge.line})"
                after = after._replace(
                    reachability=max(after.reachability, Reachability.CHOSEN), choices=_with(after.choices, choice)
                )
            if edge.indented:
                # one statement may import hundreds of files that lead here
                place = (edge.importer, edge.line, after.reachability)
                if not after.tests and not search.is_nearer(place, len(after.steps)):
                    continue
                node = self.sources.statement(edge.importer, edge.line)
                if node is not None:  # else a text that looks like an import
                    yield after.at(Place(edge.importer, node))
            else:
                length = len(after.steps) + bool(edge.line)
                # most files are imported by the same ones: of arrivals there the nearest counts, and of these the first
                if not after.tests and not search.is_nearer((edge.importer, after.reachability), length):
                    continue
                steps = after.steps
                if edge.line:
                    steps = (Step(edge.importer, edge.line, self.contexts.line(edge.importer, edge.line)), *steps)
                yield SearchState(
                    Place(edge.importer, None),
                    after.reachability,
                    steps,
                    after.options,
                    after.choices,
                    after.tests,
                    after.given,
                    after.passed,
                )

    def _from_file(self, path: str, error: str) -> tuple[CallPath | None, Reachability | None]:
        """Return the surest path to a file, and the reachability of the last examined place where the search was cut.

        A search that has reached one file and nothing else continues from there like every other one.
        """
        if (path, error) not in self._from_files:
            search = Search(Reachability.GUARDED, error)
            self._nested += 1
            call_path = self._found(SearchState(Place(path, None)), search)
            self._nested -= 1
            self._from_files[path, error] = (call_path, search.last if search.is_cut else None)
        return self._from_files[path, error]

    def imported_plainly(self) -> set[str]:
        """Return the files that are run whenever the program is: imports at the left margin lead to them."""
        if self._plain is None:
            begins = (path for path, edge in self.closure.items() if edge is None)
            self._plain = {self.program.path, *begins}
            todo = list(self._plain)
            while todo:
                for edge in self.modules.edges.get(todo.pop(), ()):
                    if not edge.indented and edge.path in self.closure and edge.path not in self._plain:
                        self._plain.add(edge.path)
                        todo.append(edge.path)
        return self._plain

    # --- functions ---

    def _callers(
        self, file: PythonFile, names: Names, unit: FunctionNode, state: SearchState, search: Search
    ) -> Iterator[SearchState | CallPath]:
        """Yield what leads to a function."""
        program = self.program
        definitions, replaced = self.contexts.definitions(file, names, unit)
        state = self._as_defined(state, file, names, definitions)
        state = self._as_made(state, file, names, unit)
        if state.reachability > search.worst or replaced:
            return
        unit_key = (file.path, unit.lineno, unit.col_offset, search.error)
        if program.form is Form.CONSOLE and file.path == program.path and unit.name == program.function:
            if file.parents.get(unit) is file.tree:
                yield self._led_here(state).call_path(self._text)
                return
        if program.offers(file.path, unit.name):
            choice = f"{unit.name}() ({file.path}:{unit.lineno})"
            led = self._led_here(state)
            yield led._replace(
                reachability=max(led.reachability, Reachability.CHOSEN), choices=_with(led.choices, choice)
            ).call_path(self._text)
        if state.tests:
            led = self._led_here(state)
        else:  # what leads to the function is the same for everything in it
            if self._is_known(unit_key, search):
                yield from self._known(unit_key, self._led_here(state), search)
                return
            search.passed.add(unit_key)
            if (*unit_key, state.reachability) in search.seen:
                return
            search.seen.add((*unit_key, state.reachability))
            led = self._led_here(state).passing(unit_key)
        if self.uses.is_called_everywhere(file, unit):
            choice = f"{unit.name}() ({file.path}:{unit.lineno})"
            yield led._replace(
                reachability=max(led.reachability, Reachability.CHOSEN), choices=_with(led.choices, choice)
            ).call_path(self._text)
            return
        _, least, steps, options, choices, tests, given, passed = led
        length = len(steps)
        # what they ask is said where the object is called
        using = self._meant.of(file, names, unit, as_called=bool(tests) and unit.name == "forward")
        plain = search.nearest((*unit_key, least, tests) if tests else None)
        for use in using:
            place = use.place
            reachability = max(least, use.reachability)
            carried = (*tests, *use.tests) if use.tests else tests
            nearest = search.nearest((*unit_key, least, carried)) if use.tests else plain
            key = place.node if carried else (place, reachability)
            if nearest.get(key, _FAR) <= length:  # most places are met again and again
                continue
            nearest[key] = length
            yield SearchState(
                place,
                reachability,
                steps,
                _with(options, use.option) if use.option else options,
                _with(choices, use.choice) if use.choice else choices,
                carried,
                (*given, *self._meant.given_at(use, file, unit)) if carried else given,
                passed,
            )

    def _as_defined(
        self, state: SearchState, file: PythonFile, names: Names, definitions: Iterable[Definition]
    ) -> SearchState:
        """Return a search state in a function under the conditions that make its name mean it alone."""
        for defined in definitions:
            context = self.contexts.of(file, defined)
            failing = tuple(attempt for attempt in context.attempts if self.contexts.fails(file, attempt))
            at_definition = state._replace(place=Place(file.path, defined), tests=(), given=())
            _, reachability, _, options, choices, *_ = self._settled(
                at_definition, file, names, defined, context._replace(attempts=failing, suppressed=())
            )
            state = state._replace(reachability=reachability, options=options, choices=choices)
        return state

    def _as_made(self, state: SearchState, file: PythonFile, names: Names, unit: FunctionNode) -> SearchState:
        """Return a search state in a method of a class that is never instantiated, for want of a feature or a request.

        The search finds a method by its name: `(Fast if cupy else Slow)().run()` may call either one.
        """
        owner = file.parents.get(unit)
        if state.reachability >= Reachability.OPTION or not isinstance(owner, ast.ClassDef) or is_implicit(unit.name):
            return state
        answer = self._unmade.answer(file, names, owner)
        if answer is None:
            return state
        if answer.truth is Truth.UNKNOWN:
            return state._replace(
                reachability=max(state.reachability, Reachability.CHOSEN), choices=_with(state.choices, answer.option)
            )
        reachability = max(state.reachability, Reachability.GUARDED if answer.guard else Reachability.OPTION)
        options = state.options if answer.guard or not answer.option else _with(state.options, answer.option)
        return state._replace(reachability=reachability, options=options)

    def _led_here(self, state: SearchState) -> SearchState:
        """Return an arrival with its own place as one more step."""
        return state.preceded_by(self.contexts.step(state.place.path, state.place.node))


def _with(texts: tuple[str, ...], more: str) -> tuple[str, ...]:
    """Return a tuple with one more element, without duplicates."""
    return texts if more in texts else (*texts, more)


def _start(path: str, node: ast.AST, supposed: ast.expr | None, *, wanted: bool = True) -> SearchState:
    return SearchState(Place(path, node), tests=() if supposed is None else (PendingCondition(path, supposed, wanted),))
