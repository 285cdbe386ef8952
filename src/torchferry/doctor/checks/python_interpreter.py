"""Which Python is examined, and does it answer?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.masking import masked
from torchferry.doctor.result import Result, failed, passed


@check("python.interpreter", rank=1, side="python", title=say_in("check", "interpreter"))
def python_interpreter(context: CheckContext) -> Iterator[Result]:
    """Judge whether the program of ours ran in it."""
    python = context.python
    path = context.host.python
    if not python.version:
        lines = tuple(masked(line) for line in python.process.first_lines())
        explanation = context.explained(python.process.out + python.process.err)
        yield failed(
            say("{python} cannot be examined", python=path),
            explanation.cause
            if explanation
            else say("there is no such program, it is older than Python 3.8, or it does not start"),
            *(explanation.commands if explanation else ()),
            "torchferry doctor --python /path/to/python",
            f"{path} --version",
            source=explanation.source if explanation else "",
            evidence=lines,
        )
        return
    if python.bits != 64:
        yield failed(
            say("{python} is a 32-bit Python", python=path),
            say("torch has no build for it"),
            "torchferry doctor --python /path/to/python",
        )
        return
    yield passed(say("Python {version}, {path}", version=python.version, path=python.executable))
