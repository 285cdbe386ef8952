"""What stops a program: what the target does not have, with the way from the program to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.finding import Location
from torchferry.programs.around import FunctionNode
from torchferry.programs.conditions import supposed
from torchferry.programs.demands import Demand, Demands
from torchferry.programs.lacks import Lack, Lacks, raised_by
from torchferry.programs.model import Need, Obstacle, Step, Way
from torchferry.programs.reach import Reach
from torchferry.programs.sources import Sources
from torchferry.programs.use_syntax import derived_class
from torchferry.rules.library.package_part import PackagePart

LONGEST_NAME = 60
"""Characters of the code that stands for a condition or a decision."""


class Obstacles:
    """Finds for each program what stops it, of what the files need.

    Args:
        sources: The project's files.
        lacks: What each file needs that the target does not have.
        demands: Where files end a program for lack of something.
    """

    def __init__(self, sources: Sources, lacks: Lacks, demands: Demands) -> None:
        self._sources = sources
        self._lacks = lacks
        self._demands = demands

    def within(self, reach: Reach) -> Iterator[Obstacle]:
        """Yield what the files that a program reaches need, and the target does not have."""
        for path in reach.closure:
            for lack in self._lacks.of(path):
                obstacle = self.of(reach, lack)
                if obstacle is not None:
                    yield obstacle
            for demand in self._demands.of(path):
                obstacle = self._demanded(reach, demand)
                if obstacle is not None:
                    yield obstacle

    def of(self, reach: Reach, lack: Lack, worst: Need = Need.GUARDED) -> Obstacle | None:
        """Return what the target lacks with the way to it, or None where the program does not come there."""
        node = self.node(lack.place)
        if node is not None and lack.code == PackagePart.CODE:
            node = self._made(lack.place.path, node)
        if node is not None:
            error = raised_by(lack, node)
            loaded = self._sources.file(lack.place.path) if lack.when else None
            when = supposed(node, lack.when, loaded[1]) if loaded is not None else None
            way = reach.way(lack.place.path, node, when, worst, error)
        else:  # the cells of a notebook run from the first to the last
            need = Need.GUARDED if lack.noted else Need.CHOSEN if lack.when else Need.ALWAYS
            way = Way(need, (Step(lack.place.path, lack.place.line),))
        if way is None:
            return None
        way = way._replace(steps=(*way.steps, *lack.beyond))
        if lack.unsure:
            condition = f"{' '.join(lack.unsure.split())[:LONGEST_NAME]} ({lack.place.path}:{lack.place.line})"
            way = way._replace(need=max(way.need, Need.CHOSEN), conditions=(*way.conditions, condition))
        return Obstacle(lack.what, lack.code, lack.place, lack.message, way, lack.source)

    def _made(self, path: str, node: ast.AST) -> ast.AST:
        """Return where objects of a class are made whose base a part of a package is: there the part does its work."""
        loaded = self._sources.file(path)
        derived = derived_class(loaded[0], node) if loaded is not None else None
        methods = (part for part in derived.body if isinstance(part, FunctionNode)) if derived is not None else ()
        return next((part.body[0] for part in methods if part.name == "__init__"), node)

    def _demanded(self, reach: Reach, demand: Demand) -> Obstacle | None:
        """Return what a program ends for lack of, where it comes there."""
        lack, node = demand.lack, self.node(demand.place)
        if node is None:
            return None
        asserted = node if demand.is_assertion and isinstance(node, ast.expr) else None
        way = reach.way(demand.place.path, node, asserted, Need.OPTION, demand.error, wanted=asserted is None)
        if way is None:
            return None
        return Obstacle(lack.what, lack.code, lack.place, lack.message, way, lack.source)

    def node(self, place: Location) -> ast.AST | None:
        """Return the statement or expression at a place; None in notebooks and what is no Python."""
        return None if place.cell else self._sources.node(place)
