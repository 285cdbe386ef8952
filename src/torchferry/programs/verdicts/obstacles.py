"""What stops a program: what the target does not have, with the way from the program to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from torchferry.core.finding import Location
from torchferry.programs.call_paths.path_search import CallPathSearch
from torchferry.programs.evaluation.conditions import assumed_condition
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import CallPath, MissingFeature, Obstacle, Reachability, Step
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.programs.syntax.use_syntax import derived_class
from torchferry.programs.verdicts.missing_features import MissingFeatures, raised_by
from torchferry.programs.verdicts.presence_checks import PresenceCheck, PresenceChecks
from torchferry.rules.library.package_part import PackagePart

LONGEST_NAME = 60
"""Characters of the code that represents a condition or a decision."""


class Obstacles:
    """Finds for each program what stops it, of what the files need.

    Args:
        sources: The project's files.
        features: The features that files need and the target lacks.
        demands: Where files end a program for lack of something.
    """

    def __init__(self, sources: Sources, features: MissingFeatures, demands: PresenceChecks) -> None:
        self._sources = sources
        self._features = features
        self._demands = demands

    def within(self, reach: CallPathSearch) -> Iterator[Obstacle]:
        """Yield what the files that a program reaches need, and the target does not have."""
        for path in reach.closure:
            for feature in self._features.of(path):
                obstacle = self.of(reach, feature)
                if obstacle is not None:
                    yield obstacle
            for demand in self._demands.of(path):
                obstacle = self._demanded(reach, demand)
                if obstacle is not None:
                    yield obstacle

    def of(
        self, reach: CallPathSearch, feature: MissingFeature, worst: Reachability = Reachability.GUARDED
    ) -> Obstacle | None:
        """Return what the target lacks with the way to it, or None where the program does not come there."""
        node = self.node(feature.place)
        if node is not None and feature.code == PackagePart.CODE:
            node = self._made(feature.place.path, node)
        if node is not None:
            error = raised_by(feature, node)
            loaded = self._sources.file(feature.place.path) if feature.when else None
            when = assumed_condition(node, feature.when, loaded[1]) if loaded is not None else None
            call_path = reach.call_path(feature.place.path, node, when, worst, error)
        else:  # the cells of a notebook run from the first to the last
            reachability = (
                Reachability.GUARDED if feature.noted else Reachability.CHOSEN if feature.when else Reachability.ALWAYS
            )
            call_path = CallPath(reachability, (Step(feature.place.path, feature.place.line),))
        if call_path is None:
            return None
        call_path = call_path._replace(steps=(*call_path.steps, *feature.beyond))
        if feature.unsure:
            condition = f"{' '.join(feature.unsure.split())[:LONGEST_NAME]} ({feature.place.path}:{feature.place.line})"
            call_path = call_path._replace(
                reachability=max(call_path.reachability, Reachability.CHOSEN),
                conditions=(*call_path.conditions, condition),
            )
        return Obstacle(feature.what, feature.code, feature.place, feature.message, call_path, feature.source)

    def _made(self, path: str, node: ast.AST) -> ast.AST:
        """Return where objects of a class are made whose base a part of a package is: there the part does its work."""
        loaded = self._sources.file(path)
        derived = derived_class(loaded[0], node) if loaded is not None else None
        methods = (part for part in derived.body if isinstance(part, FunctionNode)) if derived is not None else ()
        return next((part.body[0] for part in methods if part.name == "__init__"), node)

    def _demanded(self, reach: CallPathSearch, demand: PresenceCheck) -> Obstacle | None:
        """Return what a program ends for lack of, where it comes there."""
        feature, node = demand.feature, self.node(demand.place)
        if node is None:
            return None
        asserted = node if demand.is_assertion and isinstance(node, ast.expr) else None
        call_path = reach.call_path(
            demand.place.path, node, asserted, Reachability.OPTION, demand.error, wanted=asserted is None
        )
        if call_path is None:
            return None
        return Obstacle(feature.what, feature.code, feature.place, feature.message, call_path, feature.source)

    def node(self, place: Location) -> ast.AST | None:
        """Return the statement or expression at a place; None in notebooks and what is no Python."""
        return None if place.cell else self._sources.node(place)


def sorted_obstacles(obstacles: Sequence[Obstacle]) -> list[Obstacle]:
    """Return obstacles, one for each thing, the surest way first, then the shortest.

    Of several imports that are run in any case, the one is told at which the program stops first.
    """
    best: dict[str, Obstacle] = {}
    for obstacle in obstacles:
        nearest = best.get(obstacle.what)
        if nearest is None or _is_told_first(obstacle.call_path, nearest.call_path):
            best[obstacle.what] = obstacle
    return sorted(best.values(), key=lambda item: (item.call_path.reachability, len(item.call_path.steps), item.what))


def _is_told_first(call_path: CallPath, other: CallPath) -> bool:
    """Whether a way is told rather than another one: as the surer, the import that is run first, or the shorter one."""
    if (
        call_path.reachability is other.reachability is Reachability.ALWAYS
        and call_path.steps
        and other.steps
        and _imports(call_path)
        and _imports(other)
    ):
        return (call_path.steps[0].line, len(call_path.steps)) < (other.steps[0].line, len(other.steps))
    return (call_path.reachability, len(call_path.steps)) < (other.reachability, len(other.steps))


def _imports(call_path: CallPath) -> bool:
    """Whether a way leads through imports alone, which are run in the order in which they stand."""
    return all(step.text.startswith(("import ", "from ")) for step in call_path.steps)
