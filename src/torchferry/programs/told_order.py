"""In which order the obstacles of a program are told, and of which way to each."""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.programs.model import Need, Obstacle, Way


def in_order(obstacles: Sequence[Obstacle]) -> list[Obstacle]:
    """Return obstacles, one for each thing, the surest way first, then the shortest.

    Of several imports that are run in any case, the one is told at which the program stops first.
    """
    best: dict[str, Obstacle] = {}
    for obstacle in obstacles:
        known = best.get(obstacle.what)
        if known is None or _is_told_first(obstacle.way, known.way):
            best[obstacle.what] = obstacle
    return sorted(best.values(), key=lambda item: (item.way.need, len(item.way.steps), item.what))


def _is_told_first(way: Way, other: Way) -> bool:
    """Whether a way is told rather than another one: as the surer, the import that is run first, or the shorter one."""
    if way.need is other.need is Need.ALWAYS and way.steps and other.steps and _imports(way) and _imports(other):
        return (way.steps[0].line, len(way.steps)) < (other.steps[0].line, len(other.steps))
    return (way.need, len(way.steps)) < (other.need, len(other.steps))


def _imports(way: Way) -> bool:
    """Whether a way leads through imports alone, which are run in the order in which they stand."""
    return all(step.text.startswith(("import ", "from ")) for step in way.steps)
