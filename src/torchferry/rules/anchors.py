"""What a place is known by when the lines around it change, and when it is given the target's words."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from torchferry.backends.target import Target
from torchferry.core.finding import LINK, Anchor, Finding
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.target_words import target_words
from torchferry.source.python import PythonFile

_SPACE = re.compile(r"\s+")
_CUDA = re.compile("CUDA")
_CUDA_MODULE = re.compile(r"\btorch\.cuda\b")


def anchored(findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Return the findings of a file in order of position, each with its anchor.

    Findings that comments or settings silence have to be among them: an ordinal counts them too, so that it does not
    depend on what a user wants to hear of.
    """
    if not findings:
        return []
    symbols = _Symbols(context.file) if isinstance(context, PythonContext) else None
    ordinals: Counter[tuple[str, str, str]] = Counter()
    placed: list[Finding] = []
    for finding in sorted(findings, key=lambda each: (each.location.order, each.code)):
        if finding.message is not LINK and finding.location.path == context.path:
            start, end = context.source.span(finding.location)
            symbol = "" if symbols is None else symbols.around(start)
            text = _digest(_in_cuda_words(context.target, context.text[start:end]))
            ordinals[finding.code, symbol, text] += 1
            finding = finding._replace(anchor=Anchor(symbol, text, ordinals[finding.code, symbol, text]))
        placed.append(finding)
    return placed


def _in_cuda_words(target: Target, text: str) -> str:
    """Return a text without spaces, and with CUDA's words where it has those of the target: a rename keeps it."""
    backend = target.backend
    text = _SPACE.sub("", text)
    text = target_words(backend.COLLECTIVE).sub("nccl", text)
    text = target_words(backend.DEVICE_TYPE, *target.words).sub("cuda", text)
    if isinstance(backend.VISIBLE_DEVICES, str) and backend.VISIBLE_DEVICES:
        text = text.replace(backend.VISIBLE_DEVICES, "cuda_VISIBLE_DEVICES")
    if target.module:  # portable code
        text = re.sub(rf"(?<![\w.]){re.escape(target.module)}\b(?=\.)", "cuda", text)
    return _CUDA_MODULE.sub("cuda", _CUDA.sub("cuda", text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class _Symbols:
    """Names the function or class around a place, with those around it: `Trainer.fit`."""

    def __init__(self, file: PythonFile) -> None:
        self._starts: list[int] = []
        self._named: list[tuple[int, str, int]] = []  # where each ends, its name, and the number of the one around it
        definitions = sorted((file.span(node), node.name) for node in (*file.functions, *file.classes))
        around: list[int] = []
        for number, ((start, end), name) in enumerate(definitions):
            while around and self._named[around[-1]][0] <= start:
                around.pop()
            outer = around[-1] if around else -1
            self._starts.append(start)
            self._named.append((end, name if outer < 0 else f"{self._named[outer][1]}.{name}", outer))
            around.append(number)

    def around(self, offset: int) -> str:
        """Return the name of what holds an offset; empty for the file itself."""
        number = bisect_right(self._starts, offset) - 1
        while number >= 0:
            end, name, outer = self._named[number]
            if offset < end:
                return name
            number = outer
        return ""
