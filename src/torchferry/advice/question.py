"""What every piece of advice is asked with: the code, the trace, the target, and what is published about it."""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.advice.measured import MeasuredRun
from torchferry.advice.model import Figure, PublishedEffect
from torchferry.advice.training_code import TrainingProgram
from torchferry.backends.kernel_limits import kernel_limits
from torchferry.backends.performance import PerformanceFact, performance_facts
from torchferry.backends.target import Target
from torchferry.core.finding import Finding
from torchferry.core.messages import Bilingual, Message, say
from torchferry.profiling.formatting import milliseconds

WORTH = 0.05
"""Share of a step below which nothing is advised that was measured: less is within the noise of most runs."""


class AdviceQuestion:
    """One program that is asked about.

    Attributes:
        program: Its code; without steps where only a trace is known.
        measured: What a trace says of it; None without one.
        target: Where it is to run.
        findings: What the rules found about attention and packages.
        limits: What the vendor publishes of the kernels; None where it publishes nothing.
    """

    def __init__(
        self,
        program: TrainingProgram,
        measured: MeasuredRun | None,
        target: Target,
        findings: Sequence[Finding] = (),
    ) -> None:
        self.program = program
        self.measured = measured
        self.target = target
        self.findings = tuple(findings)
        self.facts = performance_facts(target.backend)
        self.limits = kernel_limits(target.backend)

    @property
    def timed(self) -> MeasuredRun | None:
        """Return the trace where its times say something; None elsewhere."""
        return self.measured if self.measured is not None and self.measured.has_times else None

    def facts_about(self, about: str) -> list[PerformanceFact]:
        """Return what is published about a subject, the target's own facts first."""
        return [fact for fact in self.facts if fact.about == about]

    def own_fact(self, about: str) -> PerformanceFact | None:
        """Return the target's first fact about a subject that names what to write; None without one."""
        return next((fact for fact in self.facts_about(about) if fact.use), None)

    def is_of_no_use(self, about: str) -> bool:
        """Return whether something is known to be of no use on the target."""
        return any(not fact.helps for fact in self.facts_about(about))

    def effect(self, about: str, fact: PerformanceFact | None = None) -> PublishedEffect:
        """Return what is published about the effect: a figure of the target, else one of other cards, else none."""
        facts = self.facts_about(about)
        own = fact or next(iter(facts), None)
        if own is None:
            return PublishedEffect()
        if own.speed is not None or len(facts) < 2:
            return PublishedEffect(own.speed, own.measured, own.source, own.speed is not None and not own.use)
        other = next((each for each in facts if each.speed is not None and not each.use), None)
        if other is None:
            return PublishedEffect(None, Bilingual(""), own.source)
        return PublishedEffect(other.speed, other.measured, f"{own.source}; {other.source}", True)

    def figure(self, time: float, said: Message) -> Figure | None:
        """Return a time of a step as a figure; None where times say nothing.

        Args:
            time: Nanoseconds of a step.
            said: What takes the time.
        """
        if self.timed is None:
            return None
        share = self.timed.share(time)
        assert share is not None
        return Figure(
            say(
                "{what} take {time} ms of a step of {step} ms ({share} %)",
                what=said,
                time=milliseconds(time),
                step=milliseconds(self.timed.step),
                share=f"{100 * share:.0f}",
            ),
            share,
        )
