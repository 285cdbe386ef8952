"""What settings need that the target does not have: packages whose classes they name, where a program makes objects."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from torchferry.core.finding import Finding
from torchferry.core.record import NamedTuple
from torchferry.programs.made_objects import Making, SettingsName
from torchferry.programs.model import Need, Obstacle, Step, Way
from torchferry.programs.reach import Reach
from torchferry.programs.uses import Uses


class SettingsNeed(NamedTuple):
    """Something that the target does not have, or of which it needs another build, and what came of the search.

    Attributes:
        finding: Where settings name it.
        obstacle: What it is, with the way to it; None where the program does not come there.
    """

    finding: Finding
    obstacle: Obstacle | None


class SettingsNeeds:
    """Finds the packages that the settings of a program name, and where it imports them.

    Args:
        uses: Where objects are made of what settings name.
        findings: What was found in a file.
    """

    def __init__(self, uses: Uses, findings: Callable[[str], Sequence[Finding]]) -> None:
        self._uses = uses.settings
        self._findings = findings
        self._files = uses.modules.settings
        self._tests: dict[tuple[ast.expr, SettingsName], tuple[ast.Compare | None, ...]] = {}

    def of(self, reach: Reach) -> Iterator[SettingsNeed]:
        """Yield what the settings of a program need; of those that it may have, where nobody can tell which."""
        for path in sorted(reach.settings or self._files.paths):
            for finding in self._findings(path):
                what = finding.lacks or finding.installs
                makings = [each for each in self._uses.makings if each[0] in reach.closure] if what else []
                if makings:
                    ways = [*self._ways(reach, makings, finding)]
                    best = min(ways, key=lambda way: (way.need, len(way.steps)), default=None)
                    obstacle = None
                    if best is not None:
                        obstacle = Obstacle(what, finding.code, finding.location, finding.message, best)
                    yield SettingsNeed(finding, obstacle)

    def _ways(self, reach: Reach, makings: list[tuple[str, Making]], finding: Finding) -> Iterator[Way]:
        """Yield the ways on which an object may be made of what settings name at the place of a finding."""
        place = finding.location
        lines = self._files.text(place.path).split("\n")
        step = Step(place.path, place.line, " ".join(lines[place.line - 1].split()))
        for named in self._uses.names.at(place.path, place.line):
            for path, making in makings:
                if (making.node, named) not in self._tests:  # an answer is remembered with its condition
                    self._tests[making.node, named] = tuple(making.tests(named))
                for test in self._tests[making.node, named]:
                    way = reach.way(path, making.node, test)
                    if way is not None and test is None and place.path not in reach.settings:
                        condition = f"{step.text} ({place.path}:{place.line})"
                        way = way._replace(need=max(way.need, Need.CHOSEN), conditions=(*way.conditions, condition))
                    if way is not None:
                        yield way._replace(steps=(*way.steps, step))
