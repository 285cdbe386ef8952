"""The account of a port: what became of every word of CUDA that is in code.

Each is renamed, or on the review list, or explained by one of `reasons`; what is left was not understood, and stands
here with each of its places. So "0 places to look at" is said of a tree whose words are all accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchferry.backends.kernel_table import KernelTable
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kernels import cuda_words
from torchferry.kernels.review import ReviewItem
from torchferry.kernels.tokens import SourceTokens
from torchferry.kernels.words import STAY

UNKNOWN = "unknown-name"
"""The kind of review item of a name that was not understood."""

LIBRARY_NAMESPACE = "cuda::"
"""The name of the namespace that is libcu++'s or libtorch's, where the file does not tell which."""


class Unexplained(NamedTuple):
    """A name that nothing in a file explains.

    Most are declared by another file, and never shown: lines and messages are made of those alone that are left.

    Attributes:
        name: The name; with its namespaces where they make it unknown.
        declared_as: The word that a declaration has to have for the name to be the project's own.
        kind: The kind of review item that it is if no file declares it.
        offsets: Where it is in the file, in order.
        uses: How often the file has it.
        source: The file.
    """

    name: str
    declared_as: str
    kind: str
    offsets: tuple[int, ...]
    uses: int
    source: SourceTokens

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield line and column of each place."""
        return map(self.source.position, self.offsets)

    def item(self, path: str) -> ReviewItem:
        """Return the item for a person: of the first place, with the number of all."""
        line, column = self.source.position(self.offsets[0])
        return ReviewItem(path, line, column, self.kind, self.message(), self.source.line_text(self.offsets[0]))

    def message(self) -> Message:
        """Say what is there."""
        name, count = self.name, str(self.uses)
        if name == LIBRARY_NAMESPACE:
            return say(
                "`cuda::` is libcu++, or libtorch's namespace inside `at` or `c10`: it was not renamed (uses: {count})",
                count=count,
            )
        if self.kind == UNKNOWN:
            return say(
                "nothing explains `{name}`: no table has it, and no file here declares it (uses: {count})",
                name=name,
                count=count,
            )
        if self.kind == "device-function":
            return say(
                "`{name}` looks like CUDA's device language: no public source shows that the target has it "
                "(uses: {count})",
                name=name,
                count=count,
            )
        return say(
            "`{name}` stays: the headers of the target's plugin do not declare its counterpart (uses: {count})",
            name=name,
            count=count,
        )


class UnknownName(NamedTuple):
    """One place of a name that was not understood: line and column from 1."""

    name: str
    path: str
    line: int
    column: int


class PortAccount(NamedTuple):
    """What became of the words of CUDA in the code of a tree.

    Attributes:
        unknown: The places of names that were not understood, in order.
        declared: Names with CUDA's in them that a file of the tree declares: the project's own.
        guards: Names that a condition of the preprocessor asks for and no file defines: the build does.
        keeps_words: Whether the target's compiler takes CUDA's device language.
        words: Words of that language that the vendor's own kernels use.
    """

    unknown: tuple[UnknownName, ...] = ()
    declared: frozenset[str] = frozenset()
    guards: frozenset[str] = frozenset()
    keeps_words: bool = True
    words: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that were not understood, each once, in order of their first place."""
        return tuple(dict.fromkeys(each.name for each in self.unknown))

    def reason(self, word: str) -> str:
        """Return the key in `reasons` of why a word may stay as it is; empty where none is known."""
        if word in self.declared:
            return "project"
        if word in self.guards:
            return "build"
        if word in STAY:
            return "torch"
        if word in self.words:
            return "kernels"
        if word in cuda_words.SYNTAX and self.keeps_words:
            return "syntax"
        return ""

    def document(self) -> dict[str, Any]:
        """Return the account as JSON holds it."""
        return {
            "not_understood": len(self.names),
            "places": [each._asdict() for each in self.unknown],
            "declared_by_the_project": sorted(self.declared),
            "set_by_the_build": sorted(self.guards),
        }


def account_of(
    unknown: Iterable[UnknownName], declared: frozenset[str], guards: Mapping[str, object], table: KernelTable
) -> PortAccount:
    """Return the account of a tree, from what its files say."""
    words = table.surface.words if table.surface is not None else frozenset[str]()
    return PortAccount(
        tuple(sorted(unknown, key=lambda each: each[1:])), declared, frozenset(guards), table.takes_cuda_syntax, words
    )


def reasons() -> dict[str, Message]:
    """Return why words may stay as they are, by the keys that `PortAccount.reason` returns."""
    return {
        "project": say("a file of the tree declares it"),
        "build": say("the build sets it"),
        "torch": say("every build of torch has it"),
        "kernels": say("the vendor's own kernels use it"),
        "syntax": say("the target's compiler takes CUDA's syntax"),
    }
