"""What a place is known by when the lines around it change, and when it is given the target's words."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from torchferry.backends.target import Target
from torchferry.core.finding import LINK, Anchor, Finding
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.target_words import may_have, target_words
from torchferry.source.python import PythonFile

_SPACE = re.compile(r"\s+")
_CUDA = re.compile("CUDA")
_CUDA_MODULE = re.compile(r"\btorch\.cuda\b")
_PORTABLE = re.compile(
    r"(?<![\w.])cuda\.(?:ACCELERATOR_TYPE\b|(?:device_string|load_location)\((?P<index>\d*)\)"
    r"|(?P<variable>visible_devices_variable)\(\)|(?P<module>accelerator_namespace|whole_module)\b)"
)
_MOVED = re.compile(
    r"\.to\((?:[\"']cuda[\"']|cuda\.(?:this_device|device_string|device)\((?:[\"']cuda[\"']|([^()\"']*))\))\)"
)
"""What `.cuda()` becomes where the target adds no such method, in CUDA's words."""

_MOST_SEARCHED = 32
"""How often a file may be looked through, as many times its length, for ordinals that renames do not change."""


def anchored(findings: Sequence[Finding], context: Context) -> list[Finding]:
    """Return the findings of a file in order of position, each with its anchor.

    Findings that comments or settings silence have to be among them: an ordinal counts them too, so that it does not
    depend on what a user wants to hear of.
    """
    if not findings:
        return []
    symbols = _Symbols(context.file) if isinstance(context, PythonContext) else None
    ordered = sorted(findings, key=lambda each: (each.location.order, each.code))
    spans = [
        context.source.span(finding.location)
        if finding.message is not LINK and finding.location.path == context.path
        else None
        for finding in ordered
    ]
    around = {span[0]: ("", 0) if symbols is None else symbols.around(span[0]) for span in spans if span is not None}
    occurrences = _Occurrences(context, {*around, *(begin for _, begin in around.values())})
    ordinals: Counter[tuple[str, str, str]] = Counter()
    placed: list[Finding] = []
    for finding, span in zip(ordered, spans, strict=True):
        if span is not None:
            symbol, begin = around[span[0]]
            text = in_cuda_words(context.target, context.as_written[span[0] : span[1]])
            key = (finding.code, symbol, _digest(text))
            ordinals[key] = max(ordinals[key], occurrences.before(text, begin, span[0])) + 1
            finding = finding._replace(anchor=Anchor(*key[1:], ordinals[key]))
        placed.append(finding)
    return placed


class _Occurrences:
    """Counts how often a text is in a file, in CUDA's words, so that a renamed place counts as it did before.

    Args:
        context: The file.
        offsets: The places in it between which is counted.
    """

    def __init__(self, context: Context, offsets: Iterable[int]) -> None:
        cuts = sorted({0, *offsets})
        parts = [
            in_cuda_words(context.target, context.as_written[start:end])
            for start, end in zip(cuts, (*cuts[1:], None), strict=True)
        ]
        self._moved = dict(zip(cuts, accumulate(map(len, parts), initial=0), strict=False))  # its last one is the end
        self._text = "".join(parts)
        self._budget = _MOST_SEARCHED * len(self._text)
        self._counted: dict[tuple[str, int], tuple[int, int]] = {}

    def before(self, text: str, start: int, end: int) -> int:
        """Return how often a text is between two offsets; `end` never goes back for a text.

        It is 0 in a file with so many different places that looking for each of them takes too long.
        """
        until, count = self._counted.get((text, start), (self._moved[start], 0))
        self._budget -= self._moved[end] - until
        if self._budget < 0 or not text:
            return 0
        while (at := self._text.find(text, until, self._moved[end])) >= 0:
            until, count = at + len(text), count + 1
        self._counted[text, start] = (until, count)
        return count


def in_cuda_words(target: Target, text: str) -> str:
    """Return a text without spaces, and with CUDA's words where it has those of the target: a rename keeps it."""
    backend = target.backend
    text = _SPACE.sub("", text)
    if "." in backend.IMPORT_NAMESPACE and not target.module:
        text = text.replace(backend.IMPORT_NAMESPACE, "cuda")
    for words, of_cuda in (
        ((backend.COLLECTIVE,), "nccl"),
        ((backend.DEVICE_TYPE, *target.words, *target.packages_of_names), "cuda"),
    ):
        if may_have(text, words):
            text = target_words(*words).sub(of_cuda, text)
    if isinstance(backend.VISIBLE_DEVICES, str) and backend.VISIBLE_DEVICES:
        text = text.replace(backend.VISIBLE_DEVICES, "cuda_VISIBLE_DEVICES")
    if target.module:  # portable code
        text = re.sub(rf"(?<![\w.]){re.escape(target.module)}\b(?=\.)", "cuda", text)
    text = _CUDA_MODULE.sub("cuda", _CUDA.sub("cuda", text))
    if target.module:
        text = _PORTABLE.sub(_in_place_of_call, text.replace("'", '"'))
    if target.replaced_last_names:  # of the plugin's own modules: `nn.DataParallel` and `torch_gcu.nn.parallel...`
        text = _dotted(target.replaced_last_names).sub(r"\1", text)
    return _MOVED.sub(lambda match: f".cuda({match[1] or ''})", text) if ".to(" in text else text


def _in_place_of_call(match: re.Match[str]) -> str:
    """Return what a portable name replaces: `torch.cuda` itself, or a literal."""
    if match["module"]:
        return "cuda"
    if match["variable"]:
        return '"cuda_VISIBLE_DEVICES"'
    return f'"cuda:{match["index"]}"' if match["index"] else '"cuda"'


@lru_cache(maxsize=16)
def _dotted(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for names behind any others: `a.b.name`."""
    return re.compile(rf"(?<![\w.])[\w.]*\.({'|'.join(map(re.escape, names))})\b")


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

    def around(self, offset: int) -> tuple[str, int]:
        """Return the name of what holds an offset, and where that begins; an empty name for the file itself."""
        number = bisect_right(self._starts, offset) - 1
        while number >= 0:
            end, name, outer = self._named[number]
            if offset < end:
                return name, self._starts[number]
            number = outer
        return "", 0
