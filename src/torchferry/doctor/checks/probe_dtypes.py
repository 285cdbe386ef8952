"""Which dtypes work on the device?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.probe import parts
from torchferry.doctor.result import Result, passed, skipped, warned


@check("probe.dtypes", rank=4, side="probe", title=say_in("check", "dtypes"))
def probe_dtypes(context: CheckContext) -> Iterator[Result]:
    """List what works, and the known facts about what does not."""
    good, bad = parts(context, "dtype")
    backend = context.target.backend
    for name, error in bad.items():
        note = backend.DTYPE_NOTES.get(name)
        yield warned(
            say("{name} does not work on the device: {error}", name=name, error=error),
            note if note is not None else say("the card or the plugin does not support this dtype"),
            f"torchferry backend show {context.target.name}",
            source=backend.source_of("DTYPES") if note is not None else "",
        )
    if good:
        yield passed(say("these work: {names}", names=", ".join(good)))
    elif not bad:
        yield skipped(say("the probe did not get this far"))
