"""Reports for the tests: one of a real scan, one of hostile texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.report.model import FileDiff, Report, report_of
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.file_result import InternalFailure
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cuda-training"
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\u2028 \x1b[31m %s ::error::"


@cache
def real(target: str = "npu") -> Report:
    choice = registry.choose(target)
    chosen = Target(choice.backend, choice.version)
    request = Request(EXAMPLE, list_files(EXAMPLE), chosen, rules(), rewrite=True, account=True)
    return report_of(analyse(request), chosen, EXAMPLE.name)


def hostile() -> Report:
    path = f"{HOSTILE}\n=cmd.py\udce9"
    findings = tuple(
        Finding(code, Location(path, 1, 1, 1, 5, cell), say("{x}", x=f"={HOSTILE}\r\n::warning::"), grade,
                blocker=grade is Grade.MANUAL, snippet=f"@{HOSTILE}")
        for code, grade, cell in (("DEV101", Grade.SAFE, 0), ("EXT102", Grade.MANUAL, 3), ("DEV102", Grade.UNSAFE, 0))
    )  # fmt: skip
    return Report(
        "npu@1",
        Target(registry.load("npu")).title,
        HOSTILE,
        1,
        findings,
        failures=(InternalFailure(path, f"Traceback\n{HOSTILE}"),),
        remarks=(say("{x}", x=HOSTILE),),
        diffs=(FileDiff(path, f"a\n{HOSTILE}\n", f"b\n{HOSTILE}!\n"),),
    )
