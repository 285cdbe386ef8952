"""A list of requirements for the target beside the original, in which what is not known becomes a comment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Finding
from torchferry.source.requirements import in_lines, normalised

_CUDA_BUILD = re.compile(r"(torch(?:vision|audio)?[ \t]*==[ \t]*[\d.]+)\+cu\d+")
_CUDA_INDEX = re.compile(r"https?://download\.pytorch\.org/whl/(?:nightly/)?cu\d+")
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_FAMILY = "DEP"


def requirements_for(path: str, text: str, findings: Iterable[Finding], target: Target) -> str | None:
    """Return the list for the target; None where every requirement of the original holds there too.

    Args:
        path: The original's path.
        text: Its text.
        findings: What was found in the project.
        target: The target.
    """
    told: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.location.path == path and finding.code.startswith(_FAMILY):
            told.setdefault(finding.location.line, []).append(finding)
    if not told:
        return None
    lines = text.splitlines()
    newline = "\r\n" if "\r\n" in text else "\n"
    plugin, versions = target.backend.PLUGIN, {found.name: found.specifier for found in in_lines(text)}
    written = [
        f"# For {target.title.en}, from {path.rpartition('/')[2]}: lines that begin with `#` had no counterpart."
    ]
    if _CUDA_BUILD.search(text) and not _CUDA_INDEX.search(text):
        written.append(f"--extra-index-url {_CPU_INDEX}")
    for number, line in enumerate(lines, 1):
        changed = _CUDA_INDEX.sub(_CPU_INDEX, _CUDA_BUILD.sub(r"\1", line))
        names = {found.name for found in in_lines(line)}
        if changed == line and any(finding.code == "DEP101" for finding in told.get(number, ())):
            reasons = "; ".join(finding.message.render("en") for finding in told[number])
            written += [f"# {reasons}".replace("\n", " "), f"# {line}"]
            continue
        written.append(changed)
        if "torch" in names and normalised(plugin) not in versions:
            version = versions["torch"].lstrip("= ").partition("+")[0]
            row = target.row("versions", f"torch=={version}")
            written.append(row.use or f"# {target.install.en}")
    return newline.join(written) + newline
