"""The comparison over a whole program: `torchferry compare -- COMMAND` begins it in each process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchferry.numerics.compare.tool import CompareWithCPU
from torchferry.numerics.framework.steps import Steps


class CompareProcessTool:
    """A comparison that stands from the import of torch to the end of the process."""

    def __init__(self, tool: CompareWithCPU, lang: str) -> None:
        self._tool = tool
        self._lang = lang
        self._steps = Steps()
        self._steps.after.append(tool.step)
        self._steps.start()
        tool.__enter__()

    def finish(self) -> dict[str, Any]:
        """End the examination."""
        self._steps.stop()
        self._tool.__exit__(None, None, None)
        return self._tool.document(self._lang)


def begin(options: dict[str, Any], folder: Path) -> CompareProcessTool:
    """Begin to compare in this process."""
    lang = options.pop("lang", "en")
    return CompareProcessTool(CompareWithCPU(**options), lang)
