"""The modules of a model as a tree, each with how bad the worst of what it holds is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass
class Branch:
    """A module.

    Attributes:
        name: Its own part of the path.
        path: The whole path.
        level: How bad the worst below it is: 0 is well, 1 the worst there is.
        texts: What is said of this module itself.
        children: The modules in it.
    """

    name: str
    path: str
    level: float = 0.0
    texts: list[str] = field(default_factory=list)
    children: dict[str, Branch] = field(default_factory=dict)

    def sorted_children(self) -> Iterator[Branch]:
        """Yield children, numbered ones in the order of their numbers."""
        yield from sorted(
            self.children.values(), key=lambda one: (not one.name.isdigit(), int(one.name) if one.name.isdigit() else 0)
        )


@dataclass(frozen=True)
class Mark:
    """What is said of one module.

    Attributes:
        path: The module, `GPT.blocks.0.mlp`; empty outside of modules.
        level: From 0, well, to 1.
        text: What is shown at the module; empty shows nothing.
    """

    path: str
    level: float
    text: str = ""


def grown(marks: Iterable[Mark], outside: str) -> Branch:
    """Return the tree of all modules that are spoken of.

    Args:
        marks: What is said.
        outside: The name of what is in no module.
    """
    root = Branch("", "")
    for mark in marks:
        branch = root
        branch.level = max(branch.level, mark.level)
        for part in mark.path.split(".") if mark.path else [outside]:
            path = f"{branch.path}.{part}" if branch.path else part
            branch = branch.children.setdefault(part, Branch(part, path))
            branch.level = max(branch.level, mark.level)
        if mark.text and mark.text not in branch.texts:
            branch.texts.append(mark.text)
    return root
