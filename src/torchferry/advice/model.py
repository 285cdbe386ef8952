"""What a piece of advice is: its evidence, its expected effect, and the edit."""

from __future__ import annotations

from torchferry.core.messages import Bilingual, Message
from torchferry.core.record import NamedTuple


class CodePlace(NamedTuple):
    """A place in the code.

    Attributes:
        path: The file, relative to the project.
        line: The line, from 1.
        text: The line's text, without the blanks around it.
    """

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class ProposedEdit(NamedTuple):
    """Lines of a file and what replaces them.

    Attributes:
        path: The file, relative to the project.
        line: The first of the lines, from 1.
        before: The lines as they are.
        after: The lines as they are proposed.
    """

    path: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class Figure(NamedTuple):
    """What a trace says.

    Attributes:
        message: The figure in a sentence.
        share: The part of a step that is spent with it, 0 to 1, which is the most that can be saved; None for a count.
    """

    message: Message
    share: float | None = None


class PublishedEffect(NamedTuple):
    """What somebody has published about the effect.

    Attributes:
        speed: The least and the most that was measured, as a factor of the speed before; the least is None where
            only the most is published, and all where nobody has published a figure.
        measured: What was measured.
        source: Where it is published; empty where nothing is.
        elsewhere: Whether it was measured on cards of another maker.
    """

    speed: tuple[float | None, float] | None = None
    measured: Bilingual = Bilingual("")
    source: str = ""
    elsewhere: bool = False


class Advice(NamedTuple):
    """One piece of advice.

    Attributes:
        kind: What it is about: `loader-workers`. Machines read this.
        title: What to do, in a few words.
        reason: Why.
        places: Where in the code.
        figure: What the trace says; None without one: the advice is then from the code alone.
        effect: What is published about it.
        edits: What to change, where it can be said line by line.
        todo: What to do by hand.
    """

    kind: str
    title: Message
    reason: Message
    places: tuple[CodePlace, ...] = ()
    figure: Figure | None = None
    effect: PublishedEffect = PublishedEffect()
    edits: tuple[ProposedEdit, ...] = ()
    todo: Message | None = None

    @property
    def share(self) -> float:
        """Return the part of a step that it is about; 0 where that was not measured."""
        return (self.figure.share or 0.0) if self.figure is not None else 0.0


class Counsel(NamedTuple):
    """All advice for a project.

    Attributes:
        advice: The pieces, the one with the largest share of the step first.
        steps: Where the training steps are.
        remarks: What a reader must know: what was not looked at, and what a trace cannot say.
        measured: Whether times of a trace were used.
    """

    advice: tuple[Advice, ...]
    steps: tuple[CodePlace, ...]
    remarks: tuple[Message, ...] = ()
    measured: bool = False
