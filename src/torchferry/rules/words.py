"""Which rules a text may interest: those of which it holds a word.

Many words share a part. A text without the part holds none of them, which one search finds; in a text with it, they are
looked for around the part alone. Other words are looked for among the names of the text, each taken once, which are a
fifth of it.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from torchferry.backends.target import Target
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Options, Rule
from torchferry.source.kinds import Kind

_PARTS = (
    b"cuda", b"CU", b"Cuda", b"nccl", b"NCCL", b"nvidia", b"NVIDIA", b"torch", b"att", b"autocast", b"reduce",
    b"istributed", b"arallel", b"get_device", b"channels_last", b"rofile", b"equire", b"nv", b"import ", b"device",
    b"gather", b"scatter", b"Tensor", b"ensorrt", b"sparse", b"float", b"bit", b"np.", b"numpy.", b"compile",
    b"xformers", b"scipy", b"utils.",
)  # fmt: skip


_PART = lazy_regex(b"|".join(map(re.escape, _PARTS)))


BETWEEN_NAMES = bytes(byte if byte == ord("_") or (chr(byte).isalnum() and byte < 128) else 32 for byte in range(256))
"""Translates a text so that nothing but spaces is between its names."""

_MANY = 50
"""Words for which it pays to take a text apart into its names."""

_LARGE = 1 << 20
"""Bytes above which a text is not taken apart: its names would need many times its room."""


@lru_cache(maxsize=4096)
def _encoded(word: str) -> tuple[bytes, bytes]:
    """Return a word as it is in files, and the part by which it is looked for; empty for its own word."""
    encoded = word.encode()
    part = _PART.search(encoded)
    return encoded, b"" if part is None else part.group()


class _WordGroup:
    """The words that share a part.

    Attributes:
        part: What they share.
        words: Each word with its rules.
    """

    def __init__(self, part: bytes) -> None:
        self.part = part
        self.words: dict[bytes, list[Rule]] = {}
        self._ahead = self._behind = 0

    def add(self, word: bytes, rule: Rule) -> None:
        """Let a rule have a word."""
        self.words.setdefault(word, []).append(rule)
        first, last = word.find(self.part), word.rfind(self.part)
        self._ahead = max(self._ahead, last)
        self._behind = max(self._behind, len(word) - first)

    def around(self, data: bytes) -> bytes:
        """Return the context of the part wherever it is, far enough for every word; what overlaps is one piece.

        A word holds the part, so it is in the text exactly where it is in this: pieces are kept apart by a byte that
        no word has.
        """
        ahead, behind, part = self._ahead, self._behind, self.part
        pieces: list[bytes] = []
        start = end = 0
        at = data.find(part)
        while at >= 0:
            if at - ahead > end:
                pieces.append(data[start:end])
                start = at - ahead
            end = at + behind
            at = data.find(part, at + 1)
        pieces.append(data[start:end])
        return b"\0".join(pieces)


def names_in(data: bytes) -> bytes | None:
    """Return the names of a text, each once, with blanks between them; None for a text that is too large for that."""
    return b" ".join(set(data.translate(BETWEEN_NAMES).split())) if len(data) <= _LARGE else None


class RuleWords:
    """The words of rules for one kind of file."""

    def __init__(self) -> None:
        self._alone: dict[tuple[bytes, bytes], list[Rule]] = {}
        """The rules that have a word which shares no part, by the longest name in it and by itself."""
        self._sharing: dict[bytes, _WordGroup] = {}

    def add(self, word: str, rule: Rule) -> None:
        """Let a rule have a word."""
        encoded, part = _encoded(word)
        if not part:
            name = max(encoded.translate(BETWEEN_NAMES).split(), key=len, default=b"")
            self._alone.setdefault((name, encoded), []).append(rule)
            return
        if part not in self._sharing:
            self._sharing[part] = _WordGroup(part)
        self._sharing[part].add(encoded, rule)

    def rules(self) -> Iterator[Rule]:
        """Yield the rules that have a word, as often as they have one."""
        for rules in self._alone.values():
            yield from rules
        for sharing in self._sharing.values():
            for rules in sharing.words.values():
                yield from rules

    def rules_in(self, data: bytes, names: bytes | None = None, only_whether: bool = False) -> set[Rule]:
        """Return the rules that have a word in a text.

        Args:
            data: The text.
            names: Its names, as `names_in` has them, where they are known.
            only_whether: Whether it is enough to know that there are some: a large text has many.
        """
        rules_met: set[Rule] = set()
        for part, sharing in self._sharing.items():
            if part in data:
                around = sharing.around(data)
                for word, rules in sharing.words.items():
                    if word in around:
                        rules_met.update(rules)
                if rules_met and only_whether:
                    return rules_met
        if names is None:
            names = (names_in(data) if len(self._alone) >= _MANY else None) or data
        for (name, word), rules in self._alone.items():
            if not rules_met.issuperset(rules) and name in names and (word == name or word in data):
                rules_met.update(rules)
        return rules_met


class Interests(NamedTuple):
    """By what rules are asked: their words in each kind of file, and the modules that a file may import.

    Attributes:
        words: The words, by the kind of file.
        modules: The rules that a top-level module interests.
    """

    words: Mapping[Kind, RuleWords]
    modules: Mapping[str, Sequence[Rule]]

    @classmethod
    def of(cls, rules: Sequence[Rule], target: Target, options: Options) -> Interests:
        """Return what these rules are asked by for a target.

        The last ones are kept: to gather them takes as long as some small files, and an editor has every change of
        a file examined anew.
        """
        asked = (tuple(rules), target.parts, options)
        for earlier, interests in _LATEST:
            if earlier == asked:
                return interests
        interests = cls._gathered(rules, target, options)
        _LATEST.appendleft((asked, interests))
        return interests

    @classmethod
    def _gathered(cls, rules: Sequence[Rule], target: Target, options: Options) -> Interests:
        words: defaultdict[Kind, RuleWords] = defaultdict(RuleWords)
        modules: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            for module in rule.modules(target):
                modules[module].append(rule)
            for word in rule.words(target, options):
                for kind in rule.KINDS:
                    words[kind].add(word, rule)
        return cls(dict(words), dict(modules))


_LATEST: deque[tuple[tuple[object, ...], Interests]] = deque(maxlen=16)
