"""What one vendor's rewriting is worth in code for every device (`--style portable`)."""

from __future__ import annotations

from torchferry.core.finding import LINK, Finding, Grade
from torchferry.core.messages import say
from torchferry.source.insertion import behind_path_changes, first_use_when_imported

_SERVED = (
    "AMP", "CUD", "DEV", "DST101", "DST102", "DST103", "DST106", "DST107", "ENV101", "IMP102", "MEM", "PRF", "PTH",
    "RNG", "STR",
)  # fmt: skip
"""The rules whose rewriting is portable where the target is; a user's own paths are as he wrote them."""

_DECIDING = ("CFG", "SHL101", "LIB", "ATT", "BKD")
"""What decides on the device of a run: left as it is, the run would take CUDA."""


def without_vendor(finding: Finding, python: bool) -> Finding:
    """Return a finding without edits that would write one vendor's words into code for every device.

    Args:
        finding: What a rule found.
        python: Whether the file is Python, or a notebook.
    """
    if not finding.edits or finding.message is LINK or (python and finding.code.startswith(_SERVED)):
        return finding
    if finding.code.startswith(("PTH", "DEP106")):
        return finding
    if finding.code.startswith(_DECIDING):
        grade = Grade.MANUAL
        message = say(
            "{message}; it names one device, which portable code takes from its machine: leave it out, or set it where "
            "the program is started",
            message=finding.message,
        )
    else:
        grade = Grade.NOTE
        message = say("{message}; it belongs to one machine and is left as it is", message=finding.message)
    return finding._replace(grade=grade, edits=(), imports=(), group="", needs=(), message=message)


def below_path_changes(findings: list[Finding], text: str) -> list[Finding]:
    """Leave what asks for the project's own module above the lines that put the project on Python's path.

    Args:
        findings: What the rules found in a file.
        text: The file's text.
    """
    behind = behind_path_changes(text)
    if not behind:
        return findings
    settled = []
    for finding in findings:
        above = [edit.start for edit in finding.edits if edit.start < behind] if finding.imports else []
        if above and (first := first_use_when_imported(text, above)) is not None and first < behind:
            message = say(
                "{message}; it stands above the lines that put the project on Python's path, where its module is "
                "not found: move it below them",
                message=finding.message,
            )
            finding = finding._replace(grade=Grade.MANUAL, edits=(), imports=(), message=message)
        settled.append(finding)
    return settled
