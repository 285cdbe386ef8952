"""Do torchvision and torchaudio belong to this torch? Scripts of projects replace one of them and leave the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchferry.backends.tables import Row
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, unknown, warned

_NAMES = ("torchvision", "torchaudio")
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of CPU builds; from PyPI some would be built for CUDA, and not load beside a CPU torch."""


@check(
    "python.companions",
    rank=11,
    side="python",
    title=say_in("check", "torchvision and torchaudio"),
)
def python_companions(context: CheckContext) -> Iterator[Result]:
    """Compare the release for which each was compiled with torch's own; a number after it changes nothing."""
    if not context.torch:
        yield skipped(say("there is no torch; see python.torch"))
        return
    installed = {name: version for name in _NAMES if (version := context.python.installed(name))}
    if not installed:
        yield skipped(say("neither torchvision nor torchaudio is installed"))
        return
    rows = list(context.target.backend.table("companions"))
    of_torch = [row for row in rows if _minor(row.name.partition("==")[2]) == _minor(context.torch)]
    row = next((row for row in of_torch if row.name == f"torch=={context.torch}"), next(iter(of_torch), None))
    for name, version in installed.items():
        yield _judged(context, name, version, row, rows)


def _judged(context: CheckContext, name: str, version: str, row: Row | None, rows: Sequence[Row]) -> Result:
    values = {"name": name, "version": version, "torch": context.torch}
    if row is None:
        return unknown(say("it is unknown which {name} belongs to torch {torch}; {version} is installed", **values))
    wanted = _wanted(row, name)
    if _minor(version) == _minor(wanted):
        return passed(say("{name} {version} belongs to torch {torch}", **values), source=row.source)
    if not any(_minor(version) == _minor(_wanted(other, name)) for other in rows):
        return unknown(
            say(
                "torchferry's table does not have {name} {version}; for torch {torch} it has {wanted}",
                wanted=wanted,
                **values,
            ),
            source=row.source,
        )
    index = f" --index-url {_CPU_INDEX}" if context.requirements.python.build == "cpu" else ""
    return warned(
        say("{name} {version} is installed, but torch {torch} needs {wanted}", wanted=wanted, **values),
        say(
            "one of the two was replaced alone, for example by a project's script; the operators of {name} "
            "then do not load",
            name=name,
        ),
        f"{context.host.python} -m pip install {name}=={wanted} --no-deps{index}",
        advice=say(
            "without --no-deps pip replaces torch too; if torch is the one that was replaced, see python.versions"
        ),
        source=row.source,
    )


def _wanted(row: Row, name: str) -> str:
    return row.use.partition("==")[2] if name == _NAMES[0] else str(row.extra[name])


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
