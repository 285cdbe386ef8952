"""Does attention take masks as the CPU does, boolean and additive ones, and rows in which everything is masked?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import parts
from torchferry.doctor.result import Result, failed, passed, skipped, warned

_EMPTY_ROW = " with an empty row"
"""How the forms end whose result is a convention: a row of the mask in which nothing is attended to."""


@check("probe.masks", rank=6, side="probe", title=say_in("check", "attention masks"))
def probe_masks(context: CheckContext) -> Iterator[Result]:
    """Judge each form of mask."""
    good, bad = parts(context, "masks")
    for form, error in bad.items():
        if form.endswith(_EMPTY_ROW):
            yield warned(
                say("mask `{form}`: {error}", form=form, error=error),
                say(
                    "a row in which everything is masked has no result that is right: the card and the CPU have "
                    "another convention, and NaN spreads from it"
                ),
                "torchferry nan -- python YOUR_PROGRAM.py  # says whether one comes of it",
                advice=say("leave something to attend to in each row, or set the rows of the result to 0 yourself"),
            )
        else:
            yield failed(
                say("mask `{form}`: {error}", form=form, error=error),
                say("scaled_dot_product_attention takes this form of mask otherwise than the CPU does"),
                f"torchferry compare cpu -- python YOUR_PROGRAM.py  # says whether it differs on {context.target}",
                advice=say("give the mask in the other form, or upgrade the plugin"),
            )
    if good:
        yield passed(say("same results as on the CPU: {names}", names=", ".join(good)))
    elif not bad:
        yield skipped(say("the probe did not get this far"))
