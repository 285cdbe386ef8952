"""The stages in their order, each judged by itself: one that breaks is red, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from torchferry.acceptance import documents, judging, outputs, project, soak
from torchferry.acceptance.gates import STAGES, Gate, GateMaker, GateStatus, reason_of
from torchferry.acceptance.needs import what_it_takes
from torchferry.acceptance.situation import Situation, UnjudgedError
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.progress import doing


def _stability(situation: Situation) -> list[Gate]:
    gates = soak.soak(situation)
    try:
        return [*judging.stability(situation), *gates]
    except UnjudgedError as error:
        return [GateMaker("stability").unjudged("run", error.reason), *gates]


_JUDGES: dict[str, Callable[[Situation], list[Gate]]] = {
    "environment": project.environment,
    "migration": project.migration,
    "syntax": project.syntax,
    "loads": judging.loads,
    "runs": judging.runs,
    "numbers": judging.numbers,
    "outputs": outputs.outputs,
    "memory": judging.memory,
    "speed": judging.speed,
    "stability": _stability,
    "errors": judging.errors,
    "logs": judging.logs,
    "documents": documents.documents,
}
assert tuple(_JUDGES) == STAGES


def judge(situation: Situation, stages: Iterable[str]) -> list[Gate]:
    """Judge stages.

    Raises:
        OSError: evidence could not be kept.
        KeyboardInterrupt: a run was interrupted.
    """
    return [_with_needs(situation, gate) for gate in _judged(situation, tuple(stages))]


def _with_needs(situation: Situation, gate: Gate) -> Gate:
    """Return a gate that says what it would take to judge it, where it was not judged."""
    if gate.status is not GateStatus.NOT_JUDGED or gate.needed is not None:
        return gate
    return replace(gate, needed=what_it_takes(gate, is_left_out=gate.stage in situation.file.left_out))


def _judged(situation: Situation, stages: tuple[str, ...]) -> list[Gate]:
    gates: list[Gate] = []
    for stage in stages:
        reason = situation.file.left_out.get(stage)
        if reason is not None:
            gates.append(GateMaker(stage).unjudged("", say("the accept file leaves it out: {reason}", reason=reason)))
            continue
        try:
            with doing(say("judging {stage}", stage=stage)):
                gates += _JUDGES[stage](situation)
        except UnjudgedError as error:
            gates.append(GateMaker(stage).unjudged("", error.reason))
        except TorchferryError as error:
            gates.append(GateMaker(stage).red("", say("-"), say("it can be judged"), reason_of(error)))
    run = situation.judged
    if run is not None and not run.finished:
        gates = [_of_a_part(gate) if gate.stage in _OF_THE_WHOLE and gate.run == run.name else gate for gate in gates]
        if "runs" not in stages:
            gates.append(judging.ended(run))
    return gates


_OF_THE_WHOLE = frozenset({"numbers", "outputs", "memory", "speed", "stability"})
"""Stages that are judged by what a whole run showed."""


def _of_a_part(gate: Gate) -> Gate:
    """Return a gate that is not green: what a run reached before it failed is not what the whole run reaches."""
    if gate.status is not GateStatus.GREEN:
        return gate
    return replace(
        gate,
        status=GateStatus.NOT_JUDGED,
        reason=say("the run did not end well, so this covers only a part of it"),
        needed=what_it_takes(gate, is_of_a_part=True),
    )
