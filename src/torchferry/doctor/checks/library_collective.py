"""Is the collective library there? Training on several cards needs it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.checks.library_found import judged
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, unverified


@check("library.collective", rank=3, side="host", title=say_in("check", "collective library"), needs_card=True)
def library_collective(context: CheckContext) -> Iterator[Result]:
    """Judge the library behind the collective backend."""
    wanted = [library for library in context.requirements.libraries if library.role == "collective"]
    if not wanted:
        yield unverified(
            say("which library implements the collective backend {name}", name=context.target.backend.COLLECTIVE)
        )
    for library in wanted:
        yield judged(context, library)
