"""Advice on training with several processes: buckets of gradients, unused parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.advice.model import Advice, ProposedEdit
from torchferry.advice.question import WORTH, AdviceQuestion
from torchferry.advice.training_code import CodeCall, edited, place_of
from torchferry.core.messages import say

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)


def unused_parameters(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise against the search for unused parameters where nobody knows that there are any."""
    calls = []
    for call in asked.program.calls_of(*_WRAPPERS):
        given = call.keywords.get("find_unused_parameters")
        if isinstance(given, ast.Constant) and given.value is True:
            calls.append(call)
    if calls:
        yield Advice(
            "unused-parameters",
            say("leave out find_unused_parameters=True where all parameters are used"),
            say("it walks through the whole graph in every step, before the gradients are reduced"),
            tuple(place_of(call.file, call.node) for call in calls),
            None,
            asked.effect("unused_parameters"),
            tuple(_switched_off(call) for call in calls),
            say("torch warns in the first step when there are no unused parameters; with some, keep it"),
        )


def _switched_off(call: CodeCall) -> ProposedEdit:
    given = call.keywords["find_unused_parameters"]
    return edited(call.file, [(*call.file.span(given), "False")])


def bucket_size(asked: AdviceQuestion) -> Iterator[Advice]:
    """Advise another size of the buckets of gradients where communication is not hidden behind computing."""
    if asked.timed is None:
        return
    exposed = asked.timed.exposed_communication
    share = asked.timed.share(exposed)
    if share is None or share < WORTH:
        return
    calls = asked.program.calls_of(*_WRAPPERS)
    yield Advice(
        "bucket-size",
        say("overlap communication with computation: try other sizes of gradient buckets"),
        say(
            "the device only communicates in this time; larger buckets need fewer collectives, smaller ones begin "
            "earlier"
        ),
        tuple(place_of(call.file, call.node) for call in calls),
        asked.figure(exposed, say("collectives during which nothing is computed")),
        asked.effect("bucket_size"),
        (),
        say(
            "DistributedDataParallel(..., bucket_cap_mb=50, gradient_as_bucket_view=True); the default is 25 MB; "
            "`torchferry profile show` names the slowest rank, for which the others wait"
        ),
    )
