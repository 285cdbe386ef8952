"""What settings need that the target does not have: packages whose classes they name, where a program makes objects."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from torchferry.core.finding import Finding
from torchferry.core.record import NamedTuple
from torchferry.programs.call_paths.path_search import CallPathSearch
from torchferry.programs.imports.instantiations import Instantiation, SettingsName
from torchferry.programs.model import CallPath, Obstacle, Reachability, Step
from torchferry.programs.references.uses import Uses


class SettingsRequirement(NamedTuple):
    """Something that the target does not have, or of which it needs another build, and what came of the search.

    Attributes:
        finding: Where settings name it.
        obstacle: What it is, with the way to it; None where the program does not come there.
    """

    finding: Finding
    obstacle: Obstacle | None


class SettingsRequirements:
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

    def of(self, reach: CallPathSearch) -> Iterator[SettingsRequirement]:
        """Yield what the settings of a program need; of those that it may have, where nobody can tell which."""
        for path in sorted(reach.settings or self._files.paths):
            for finding in self._findings(path):
                package = finding.lacks or finding.installs
                makings = [each for each in self._uses.makings if each[0] in reach.closure] if package else []
                if makings:
                    call_paths = [*self._ways(reach, makings, finding)]
                    best = min(
                        call_paths, key=lambda call_path: (call_path.reachability, len(call_path.steps)), default=None
                    )
                    obstacle = None
                    if best is not None:
                        obstacle = Obstacle(package, finding.code, finding.location, finding.message, best)
                    yield SettingsRequirement(finding, obstacle)

    def _ways(
        self, reach: CallPathSearch, makings: list[tuple[str, Instantiation]], finding: Finding
    ) -> Iterator[CallPath]:
        """Yield the ways on which an object may be made of what settings name at the place of a finding."""
        place = finding.location
        lines = self._files.text(place.path).split("\n")
        step = Step(place.path, place.line, " ".join(lines[place.line - 1].split()))
        for named in self._uses.names.at(place.path, place.line):
            for path, making in makings:
                if (making.node, named) not in self._tests:  # an answer is remembered with its condition
                    self._tests[making.node, named] = tuple(making.tests(named))
                for test in self._tests[making.node, named]:
                    call_path = reach.call_path(path, making.node, test)
                    if call_path is not None and test is None and place.path not in reach.settings:
                        condition = f"{step.text} ({place.path}:{place.line})"
                        call_path = call_path._replace(
                            reachability=max(call_path.reachability, Reachability.CHOSEN),
                            conditions=(*call_path.conditions, condition),
                        )
                    if call_path is not None:
                        yield call_path._replace(steps=(*call_path.steps, step))
