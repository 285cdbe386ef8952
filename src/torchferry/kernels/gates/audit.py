"""The gate of tokens: an independent reader compares each ported file with its original.

It shares no code with the port. Every token has to be there, in order, with the same blanks between; only identifiers
and names of headers may differ, and each difference needs a rule that says so. A launch that is written `<< <` is
joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from torchferry.backends.kernel_table import KernelTable, Renamed
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

_LEXEMES = lazy_regex(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*(?:[^*]|\*(?!/))*(?:\*/)?)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z))
    |(?P<string>"(?:\\(?:\r\n|[\s\S])|[^"\\\n])*"?)
    |(?P<include>\#[ \t]*(?:include(?:_next)?|import)[ \t]*(?:<[^<>\n]*>|"[^"\n]*"))
    |(?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[0-9A-Za-z_.\x80-\xff])*)
    |(?P<character>'(?:\\(?:\r\n|[\s\S])|[^'\\\n])*'?)
    |(?P<identifier>[A-Za-z_\x80-\xff][0-9A-Za-z_\x80-\xff]*(?:\\\r?\n[0-9A-Za-z_\x80-\xff]+)*)
    |(?P<blank>\s+)
    |(?P<other>[\s\S])""",
    re.VERBOSE,
)
_HEADER = lazy_regex(r"""[<"]([^<>"]*)[>"]\Z""")
_MOST = 20
"""Problems of one file that are reported."""


class Lexeme(NamedTuple):
    """A piece of a file: its group in the expression, its text, and its offset."""

    group: str
    text: str
    start: int


class TokenChange(NamedTuple):
    """An identifier or a header that the port changed."""

    before: str
    after: str
    is_header: bool


class AuditedFile(NamedTuple):
    """What the reader found in one file: what is wrong, and what was renamed."""

    problems: tuple[Message, ...]
    renamed: frozenset[TokenChange]


class Audit:
    """Compares files of one port.

    Args:
        table: The target's.
        own: The user's rules that were applied, by the identifier, or `#include ` and the header.
        default: Whether the target's rules were applied.
        paths: All paths of the ported tree: a header of the tree may change its suffix where its file did.
        contexts: The user's rules about words in one place, where the target's were not applied.
    """

    def __init__(
        self,
        table: KernelTable,
        own: Mapping[str, str],
        default: bool,
        paths: frozenset[str],
        contexts: Mapping[tuple[str, str], Renamed] = {},
    ) -> None:
        self.table = table
        self.own = own
        self.default = default
        self.names = frozenset(path.rpartition("/")[2] for path in paths)
        self.contexts = {(word, row.use) for (_, word), row in (table.contexts if default else contexts).items()}
        self.by_place = {word for _, word in table.contexts} | {"__CUDA_ARCH__"}

    def compare(self, before: str, after: str) -> AuditedFile:
        """Compare two texts of one character a byte."""
        problems: list[Message] = []
        renamed: set[TokenChange] = set()
        owned = False
        for old, new in zip_longest(_joined(_lexemes(before)), _joined(_lexemes(after))):
            if old is None or new is None or old.group != new.group:
                where = _line(before, old.start if old is not None else len(before))
                problems.append(say("line {line}: the tokens differ from here on", line=where))
                break
            if old.text != new.text:
                change = self._change(old, new)
                if change is not None and self._licensed(change):
                    renamed.add(change)
                else:
                    problems.append(
                        say(
                            "line {line}: `{before}` became `{after}`, which no rule allows",
                            line=_line(before, old.start),
                            before=old.text[:80],
                            after=new.text[:80],
                        )
                    )
            elif (
                new.group == "identifier"
                and self.default
                and new.text not in self.own
                and not owned
                and self._is_left(new.text)
            ):
                problems.append(
                    say("line {line}: `{name}` was not renamed", line=_line(after, new.start), name=new.text[:80])
                )
            if new.group not in ("blank", "comment"):
                owned = new.text == ":"  # a member of a namespace, as of `at::cuda`, may stay: the plugin may lack it
            if len(problems) >= _MOST:
                break
        return AuditedFile(tuple(problems), frozenset(renamed))

    def _is_left(self, name: str) -> bool:
        """Whether a name is one that the target's table renames wherever it stands."""
        if name in self.by_place:
            return False
        use = self.table.use_of(name)
        return use is not None and use != name

    def _change(self, old: Lexeme, new: Lexeme) -> TokenChange | None:
        if old.group == "identifier":
            return TokenChange(old.text, new.text, is_header=False)
        if old.group == "include":
            first, second = _HEADER.search(old.text), _HEADER.search(new.text)
            if first and second and old.text[: first.start()] == new.text[: second.start()]:
                return TokenChange(first[1], second[1], is_header=True)
        return None

    def _licensed(self, change: TokenChange) -> bool:
        before, after = change.before, change.after
        if not change.is_header:
            if before in self.own:
                return self.own[before] == after
            if before == "cuda" and self.own.get("::cuda::") == after:
                return True
            return (self.default and self.table.use_of(before) == after) or (before, after) in self.contexts
        own = self.own.get(f"#include {before}")
        if own is not None:
            return own.strip('<>"') == after
        row = self.table.headers.get(before)
        if row is not None and row.use == after:
            return True
        if any(before.startswith(name) and after.startswith(row.use) for name, row in self.table.folders.items()):
            return True
        stem, _, suffix = before.rpartition(".")
        row = self.table.suffixes.get(f".{suffix}")
        return row is not None and after == stem + row.use and after.rpartition("/")[2] in self.names


def _lexemes(text: str) -> Iterator[Lexeme]:
    for match in _LEXEMES.finditer(text):
        yield Lexeme(match.lastgroup or "", match.group(), match.start())


def _joined(lexemes: Iterator[Lexeme]) -> Iterator[Lexeme]:
    """Leave out blanks between angle brackets: `<< <` of a launch is joined."""
    last: Lexeme | None = None
    blank: Lexeme | None = None
    for lexeme in lexemes:
        if lexeme.group == "blank" and last is not None and last.text in "<>" and "\n" not in lexeme.text:
            blank = lexeme
            continue
        if blank is not None and not (last is not None and lexeme.text == last.text):
            yield blank
        blank = None
        yield lexeme
        last = lexeme
    if blank is not None:
        yield blank


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
