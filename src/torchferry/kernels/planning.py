"""A port as a whole: the tree, where it is written, and the files outside of it that change with it.

`plan_port` reads and decides, `PortPlan.write` writes everything as one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.config import project_root
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.kernels.buildfiles.joining import PortedNeighbour, port_builds
from torchferry.kernels.output import PortOutput, is_written, original_contents, place_of, write_beside, write_over
from torchferry.kernels.ported_tree import PortedTree, port_tree


@dataclass(frozen=True)
class PortPlan:
    """What a port will write.

    Attributes:
        source: The folder or file that was named.
        ported: The tree, with what a person has to look at, in the neighbours too.
        place: The folder that it is written to; None where it is written over the tree.
        builds: The build files outside of the tree.
        tests: The tests that are extended.
        is_default_place: Whether nobody named the folder.
    """

    source: Path
    ported: PortedTree
    place: Path | None
    builds: tuple[PortedNeighbour, ...] = ()
    tests: tuple[PortedNeighbour, ...] = ()
    is_default_place: bool = False

    @property
    def neighbours(self) -> tuple[PortedNeighbour, ...]:
        """All files outside of the tree that change with it."""
        return self.builds + self.tests

    def is_written(self) -> bool:
        """Whether `write` would find all of it there already."""
        return self.place is not None and is_written(self.ported, self.place, self.neighbours)

    def write(self) -> PortOutput:
        """Write all of it, or nothing.

        Raises:
            UsageError: the default output of a whole project would lie outside of it.
            TorchferryError: as `write_beside` and `write_over` do.
        """
        if self.place is None:
            return write_over(self.ported, self.neighbours)
        if self.is_default_place:
            _refuse_outside(self.ported.root, self.place)
        return write_beside(self.ported, self.place, self.neighbours, self.source)


def plan_port(
    path: Path,
    target: Target,
    *,
    out: Path | None = None,
    in_place: bool = False,
    ignore: Iterable[str] = (),
    rules: Mapping[str, str] | None = None,
    drop_default_map: bool = False,
    unsafe: bool = False,
    builds: Iterable[Path] = (),
    build_style: str = "branch",
    tests: Iterable[Path] = (),
) -> PortPlan:
    """Return what a port will write.

    Args:
        path: The folder, or one file.
        target: Where to.
        out: Where to write; by default the folder with the name of the device behind it.
        in_place: Whether to write into the tree itself.
        ignore: Folders and files to leave out.
        rules: The user's own rules.
        drop_default_map: Whether the user's rules alone are applied.
        unsafe: Whether rules are applied that change more than names.
        builds: Build files outside of the tree that change with it. Those inside are ported with it: in a copy for the
            target alone, in place in `build_style`.
        build_style: One of `buildfiles.model.STYLES`.
        tests: Tests, and folders of them, whose lists of devices get the target.

    Raises:
        TorchferryError: something cannot be read.
        UsageError: a folder to be left out is not there, or a build file is none.
    """
    place = place_of(path, target.backend.DEVICE_TYPE, out, in_place)
    ported = port_tree(
        path,
        target,
        ignore=ignore,
        rules=rules,
        drop_default_map=drop_default_map,
        allow_unsafe=unsafe,
        skip=() if place is None else (place,),
        build_style=build_style if in_place else "replace",
    )
    builds, tests = list(builds), list(tests)
    named = [Path(os.path.abspath(file)) for file in (*builds, *tests)]
    earlier = original_contents(place, named) if place is not None and named else {}
    changed_builds = port_builds(ported, place, builds, build_style, earlier.get)
    changed_tests: list[PortedNeighbour] = []
    if tests:
        from torchferry.kernels.device_tests import port_tests  # imported late: it reads Python

        changed_tests = port_tests(tests, target, place, lambda paths: original_contents(place, paths) if place else {})
    items = tuple(item for each in (*changed_builds, *changed_tests) for item in each.items)
    return PortPlan(
        path,
        replace(ported, items=ported.items + items),
        place,
        tuple(changed_builds),
        tuple(changed_tests),
        is_default_place=out is None and not in_place,
    )


def _refuse_outside(root: Path, place: Path) -> None:
    """Refuse the default output of a tree that is a whole project: it would lie beside the project.

    Raises:
        UsageError: it is.
    """
    project = project_root(root)
    if project is None or Path(os.path.realpath(place)).is_relative_to(os.path.realpath(project)):
        return
    raise UsageError(
        say("{root} is the whole project: its port {place} would lie outside of it", root=root, place=place),
        say("name the folder of the sources, an output with --out, or --in-place; nothing was written"),
    )
