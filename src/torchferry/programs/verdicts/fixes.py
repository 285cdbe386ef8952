"""What a migration changes in the code that a program comes to: each place is looked at once for all programs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from torchferry.core.finding import Finding, Location
from torchferry.core.record import NamedTuple
from torchferry.programs.call_paths.place_contexts import PlaceContexts
from torchferry.programs.imports.sources import Sources, current
from torchferry.programs.references.reachable_code import ReachableCode, ReferenceEdge, ReferenceGraph
from torchferry.programs.syntax.assignments import held_for_ever
from torchferry.rules.imports.plugin_import import PluginImport
from torchferry.rules.registry import rule_facts


class Fix(NamedTuple):
    """A place that a migration changes, and its number: what is at one place, of one rule, has the same."""

    number: int
    finding: Finding


class _FixedPlace(NamedTuple):
    """What the place of a fix is a part of, whichever program asks.

    Attributes:
        node: The statement or expression.
        edge: The function that holds it, or its file.
        may_be_dead: Whether a variable of its module may keep its condition from ever holding.
    """

    node: ast.AST
    edge: ReferenceEdge
    may_be_dead: bool


class Fixes:
    """Finds the fixes that programs come to.

    Args:
        sources: The project's files.
        references: The references to the functions and files of the project.
        contexts: The contexts of places.
    """

    def __init__(self, sources: Sources, references: ReferenceGraph, contexts: PlaceContexts) -> None:
        self._sources = sources
        self._references = references
        self._contexts = contexts
        self._numbers: dict[tuple[str, Location], int] = {}
        self._parts: dict[int, _FixedPlace | None] = {}
        self._with_global: dict[str, bool] = {}

    def of(self, finding: Finding) -> Fix:
        """Return a finding that a migration changes with its number."""
        return Fix(self._numbers.setdefault((finding.code, finding.location), len(self._numbers)), finding)

    def reached(
        self,
        live: ReachableCode,
        closure: Iterable[str],
        fixes: Callable[[str], Sequence[Fix]],
        without_torch: bool,
    ) -> frozenset[int]:
        """Return the numbers of those in the code that a program comes to, also behind an option.

        Args:
            live: What the program comes to.
            closure: The files that it reaches by imports.
            fixes: Returns the fixes of a file.
            without_torch: Whether the program uses no torch, and so keeps the versions that it has.
        """
        reached: set[int] = set()
        imports: list[Fix] = []
        are_others = False
        for path in closure:
            runs: bool | None = None
            for fix in fixes(path):
                code = fix.finding.code
                if without_torch and rule_facts(code).only_with_torch:
                    continue
                if code == PluginImport.CODE:
                    imports.append(fix)
                    continue
                are_others = True
                runs = live.runs(path) if runs is None else runs
                if runs and self._is_live(live, path, fix):
                    reached.add(fix.number)
        if reached or not are_others:  # the plugin is imported for the sake of what uses the device
            reached.update(fix.number for fix in imports if live.runs(fix.finding.location.path))
        return frozenset(reached)

    def _is_live(self, live: ReachableCode, path: str, fix: Fix) -> bool:
        """Whether a program reaches a place in a file that it runs; to what is no Python it does."""
        if fix.number not in self._parts:
            self._parts[fix.number] = self._part(path, fix)
        part = self._parts[fix.number]
        if part is None:
            return True
        return live.leads_here(part.edge) and not (part.may_be_dead and self._is_dead(live, path, part.node))

    def _part(self, path: str, fix: Fix) -> _FixedPlace | None:
        node = self._sources.node(fix.finding.location)
        if node is None:
            return None
        if path not in self._with_global:
            self._with_global[path] = "global " in self._sources.text(path)
        return _FixedPlace(node, self._references.of(path, node), self._with_global[path])

    def _is_dead(self, live: ReachableCode, path: str, node: ast.AST) -> bool:
        """Whether a condition around a place never holds in a program: nothing in it changes what is asked."""
        loaded = self._sources.file(path)
        if loaded is None:
            return False
        file, names = loaded
        return any(
            answer is not None and answer is not wanted
            for test, wanted in self._contexts.of(file, current(file, node)).tests
            for answer in [held_for_ever(file, names, test, lambda place: live.comes_to(path, place))]
        )
