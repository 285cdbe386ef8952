"""What a person sees while a deployment runs: hosts by stages where it is a terminal, else one line a step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torchferry.core.messages import say
from torchferry.core.progress import doing, left_to_others, may_be_shown
from torchferry.core.terminal import unescaped, visible
from torchferry.deploy.plan import DeployPlan
from torchferry.deploy.playing import HostOutcome, StepOutcome
from torchferry.deploy.report import status_text, table_lines

if TYPE_CHECKING:
    from rich.live import Live


class DeployProgress:
    """Shows outcomes as they come.

    Args:
        plan: What is done.
        usual: Seconds that steps took in earlier runs, from which the time that is left is estimated.
        lang: The language.
        tell: Takes a line; it goes to standard error.
        mode: The mode of the playbook: in `verify` a step that has seconds ran again and passed.
    """

    def __init__(
        self, plan: DeployPlan, usual: Mapping[str, float], lang: str, tell: Callable[[str], None], mode: str
    ) -> None:
        self._plan, self._usual, self._lang, self._tell, self._mode = plan, usual, lang, tell, mode
        self._hosts: dict[str, dict[str, StepOutcome]] = {}
        self._begun = time.monotonic()
        self._live: Live | None = None
        self._ends = ExitStack()

    def __enter__(self) -> DeployProgress:
        self._ends.enter_context(doing(say("starting Ansible")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def take(self, outcome: StepOutcome) -> None:
        """Show how a step ended."""
        self._hosts.setdefault(outcome.host, {})[outcome.step] = outcome
        if self._live is None and may_be_shown():
            self._start()
        elif self._live is None and (outcome.seconds or outcome.status in ("failed", "unreachable")):
            ran_again = self._mode == "verify" and outcome.status == "ok"
            status = say("passed") if ran_again else status_text(outcome.status)
            self._tell(f"{outcome.host}  {outcome.step}: {status.render(self._lang)} ({outcome.seconds:.0f} s)")

    def _start(self) -> None:
        from rich.console import Console  # imported late: only a terminal needs it
        from rich.live import Live

        console = Console(file=unescaped(sys.stderr), highlight=False)
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._table)
        self._ends.close()
        self._ends.enter_context(left_to_others())
        self._ends.enter_context(self._live)

    def _table(self) -> Any:
        """Return what is shown now, for a thread of the table's own: outcomes come in meanwhile."""
        from rich.text import Text

        hosts = {name: HostOutcome(name, dict(steps)) for name, steps in list(self._hosts.items())}
        lines = list(table_lines(self._plan, hosts, self._lang))
        passed = say("{seconds} s passed", seconds=round(time.monotonic() - self._begun)).render(self._lang)
        left = self.seconds_left()
        if left is not None:
            more = say("about {seconds} s left, as in earlier runs", seconds=round(left)).render(self._lang)
            passed = f"{passed}; {more}"
        return Text("\n".join(map(visible, [*lines, passed])))

    def seconds_left(self) -> float | None:
        """Return how long the slowest host still needs; None where an earlier run tells nothing of a step."""
        longest = 0.0
        for steps in list(self._hosts.values()):
            waiting = [name for name, outcome in list(steps.items()) if outcome.status == "todo"]
            if any(name not in self._usual for name in waiting):
                return None
            longest = max(longest, sum(self._usual[name] for name in waiting))
        return longest
