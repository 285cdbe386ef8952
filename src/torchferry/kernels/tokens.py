"""The tokens of C, C++ and CUDA files, exactly: what is a comment, a string, a header name, an identifier.

A file is read as its bytes are, one character each (`decode`), so that an offset is a byte, whatever the encoding, and
what is not changed is written back as it was. Bytes above 127 are parts of identifiers, as compilers have it. Nothing
is refused: a string without an end stops at the end of its line, a comment or raw string without one at the end of the
file, and `SourceTokens.unclosed` has them. The time is linear in the size, whatever is in the file.

Lines that end in a backslash go on, in comments, strings and directives, and inside identifiers. Trigraphs are not
read: compilers have them off, and C++17 has none.

    >>> [token.kind.value for token in tokens(SourceTokens('int a = 1; // one'))]
    ['identifier', 'identifier', 'punctuation', 'number', 'punctuation', 'comment']
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Container, Iterator
from enum import Enum
from functools import cached_property
from io import BytesIO
from itertools import accumulate

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple


class TokenKind(str, Enum):
    """What a token is."""

    COMMENT = "comment"
    STRING = "string"
    """With its quotes, without a prefix such as `u8`, which is an identifier before it."""
    RAW_STRING = "raw string"
    """From its first quote to its last; the `R` is an identifier before it."""
    CHARACTER = "character"
    HEADER = "header"
    """The name in an `#include`, with its quotes or angle brackets."""
    IDENTIFIER = "identifier"
    NUMBER = "number"
    PUNCTUATION = "punctuation"
    """One character, or one of `<<<`, `>>>`, `::`, `->`, `##`."""


OPAQUE = (TokenKind.COMMENT, TokenKind.STRING, TokenKind.RAW_STRING, TokenKind.CHARACTER, TokenKind.HEADER)
"""Kinds of token inside which nothing is an identifier."""


class Token(NamedTuple):
    """One token: its kind, and where it starts and ends in the text."""

    kind: TokenKind
    start: int
    end: int


class Directive(NamedTuple):
    """A line of the preprocessor, with the lines that continue it.

    Attributes:
        word: What follows the `#`, such as `if` or `define`; empty for a lone `#`.
        start: Offset of the `#`.
        body: Offset after the word.
        end: Offset of the end of the last line, without the line break.
    """

    word: str
    start: int
    body: int
    end: int


_WORD = r"0-9A-Za-z_\x80-\xff"
ALL_CHARACTERS = "".join(map(chr, range(128, 256))) + string.ascii_letters + string.digits + "_"
"""The characters of identifiers and numbers."""

_WORD_CHARACTERS = frozenset(ALL_CHARACTERS)
_OPAQUE = lazy_regex(
    r"""//[^\n]*|/\*|"(?:[^"\\\n]*")?|'(?:[^'\\\n]*')?"""
    r"""|\#[ \t]*(?:include(?:_next)?|import)[ \t]*(<[^>\n]{0,4096}>|"[^"\n]{0,4096}")"""
)
"""What is opaque, to its end where that is plain. Each alternative begins with a character, for which the engine looks
before it tries any of them.
"""

_STRING_STOP = lazy_regex(r'["\\\n]')
_CHARACTER_STOP = lazy_regex(r"['\\\n]")
_RAW_OPENING = lazy_regex(r'"([^()\\\s"]{0,16})\(')
_CODE = lazy_regex(
    rf"(?P<identifier>[A-Za-z_\x80-\xff][{_WORD}]*(?:\\\r?\n[{_WORD}]+)*)"
    rf"|(?P<number>\.?[0-9](?:[eEpP][+-]|'[{_WORD}]|[{_WORD}.])*)"
    r"|(?P<punctuation><<<|>>>|::|->|\#\#|[^\s\\]|\\(?!\r?\n))"
)
_WORD_REST = lazy_regex(rf"[{_WORD}]+")
_INDEXED = ("cuda", "CUDA", "Cuda")
"""What is in most words that are looked for."""

_MANY = 24
"""Words from which on one search for all costs less than one for each."""

_LONG_LINE = 2000
"""Characters in front of a place in which the start of its line is looked for, rather than in a list of all."""

_DIRECTIVE = lazy_regex(r"\#[ \t]*(?P<word>[A-Za-z_]*)")
_SPLICE = lazy_regex(r"\\\r?\n")
_BETWEEN_WORDS = bytes(byte if chr(byte) in _WORD_CHARACTERS else 32 for byte in range(256))


def decode(data: bytes) -> str:
    """Return the bytes of a file as text of one character a byte."""
    return data.decode("latin-1")


def encode(text: str) -> bytes:
    """Return the bytes of a text that `decode` made."""
    return text.encode("latin-1")


def words_of(data: bytes) -> set[bytes]:
    """Return the runs of characters of identifiers and numbers in a file, wherever they stand."""
    return set(data.translate(_BETWEEN_WORDS).split())


def readable(text: str) -> str:
    """Return a piece of such a text as a person reads it: as UTF-8, with a mark for each byte that is none."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("utf-8", "replace")


class SourceTokens:
    """The text of one file with the spans in which nothing is code.

    Attributes:
        text: One character a byte, as `decode` returns it.
        words: What `words_of` returns for it, where that is known: no place is looked for of other words.
        opaque: Comments, strings, characters and header names, in order.
        unclosed: Those that have no end, in order.
        is_divided: Whether a backslash at the end of a line continues it anywhere.
    """

    def __init__(self, text: str, words: Container[bytes] | None = None) -> None:
        self.text = text
        self.words = words
        self.opaque: list[Token] = []
        self.unclosed: list[Token] = []
        self._starts: list[int] | None = None
        self._index: dict[str, list[int]] | None = None
        self._directives: list[Directive] | None = None
        self._directive_starts: list[int] = []
        self._read()
        self._opaque_starts = [token.start for token in self.opaque]
        self.is_divided = "\\" in text and ("\\\n" in text or "\\\r\n" in text)
        self._is_ascii = text.isascii()

    @cached_property
    def code(self) -> str:
        """The text with blanks for what is no code, so that every offset and every line stays."""
        pieces: list[str] = []
        at = 0
        for token in self.opaque:
            hidden = self.text[token.start : token.end]
            pieces += (self.text[at : token.start], " " * len(hidden) if "\n" not in hidden else _lines_kept(hidden))
            at = token.end
        pieces.append(self.text[at:])
        return "".join(pieces)

    def is_code(self, offset: int) -> bool:
        """Whether the character at an offset is in no comment, string, character or header name."""
        return self.opaque_at(offset) is None

    def opaque_at(self, offset: int) -> Token | None:
        """Return the comment, string, character or header name that a character belongs to; None for code."""
        index = bisect_right(self._opaque_starts, offset) - 1
        return self.opaque[index] if index >= 0 and offset < self.opaque[index].end else None

    def opaque_between(self, start: int, end: int) -> list[Token]:
        """Return the comments, strings, characters and header names that begin between two offsets."""
        first = bisect_right(self._opaque_starts, start - 1)
        return self.opaque[first : bisect_right(self._opaque_starts, end - 1)]

    def may_have(self, word: str) -> bool:
        """Whether a word may stand anywhere, be it in a comment."""
        return self.words is None or word.encode("latin-1") in self.words

    def places(self, word: str) -> list[int]:
        """Return the offsets at which an identifier is in code, in order."""
        if not self.may_have(word):
            return []
        if self._index is not None and any(part in word for part in _INDEXED):
            return self._index.get(word, [])
        text, length, opaque, starts = self.text, len(word), self.opaque, self._opaque_starts
        size, last = len(text), 0
        find, characters, is_divided = text.find, _WORD_CHARACTERS, self.is_divided
        found: list[int] = []
        at = find(word)
        while at >= 0:
            end = at + length
            if (end < size and text[end] in characters) or (at and text[at - 1] in characters):
                pass  # a piece of a longer word
            elif not (is_divided and self._goes_on(at, end)):
                last = bisect_right(starts, at, last)
                if not last or at >= opaque[last - 1].end:
                    found.append(at)
            at = find(word, end)
        return found

    def expect(self, count: int) -> None:
        """Prepare for many words whose places will be asked for: then one search finds those of CUDA's names."""
        if count >= _MANY and self._index is None:
            self._index = self._indexed()

    def _indexed(self) -> dict[str, list[int]]:
        """Return the places of all words with one of `_INDEXED` in them."""
        text, rest, is_divided = self.text, _WORD_REST.match, self.is_divided
        index: dict[str, list[int]] = {}
        for number, part in enumerate(_INDEXED):
            at = text.find(part)
            while at >= 0:
                match = rest(text, at)
                assert match is not None
                begin, end = at, match.end()
                while begin and text[begin - 1] in _WORD_CHARACTERS:
                    ahead = text[max(0, begin - 64) : begin]
                    begin -= len(ahead) - len(ahead.rstrip(ALL_CHARACTERS))
                word = text[begin:end]
                is_new = not number or not any(earlier in word for earlier in _INDEXED[:number])
                if is_new and self.opaque_at(begin) is None and not (is_divided and self._goes_on(begin, end)):
                    index.setdefault(word, []).append(begin)
                at = text.find(part, end)
        return index

    def _goes_on(self, start: int, end: int) -> bool:
        """Whether what looks like a word is a piece of one that a backslash at the end of a line divides."""
        text = self.text
        if text[start - 1 : start] == "\n" and start > 1 and self._is_spliced(start - 1):
            at = start - 3 if text[start - 2] == "\\" else start - 4  # in front of the backslash
            if at >= 0 and is_word(text[at]):
                return True
        splice = _SPLICE.match(text, end) if text[end : end + 1] == "\\" else None
        return splice is not None and is_word(text[splice.end() : splice.end() + 1] or " ")

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, both from 1; columns count characters of UTF-8."""
        if self._starts is None:
            lines = BytesIO(self.text.encode("latin-1")).readlines()  # ends lines at "\n" alone
            self._starts = list(accumulate(map(len, lines), initial=0))
            if lines and not lines[-1].endswith(b"\n"):
                self._starts.pop()  # the end of the file begins no line
        line = bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        return line, (offset - start if self._is_ascii else len(readable(self.text[start:offset]))) + 1

    def line_text(self, offset: int) -> str:
        """Return the line at an offset as a person reads it, without the blanks around it, at most 160 characters."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        shown = self.text[max(start, offset - 2000) : min(len(self.text) if end < 0 else end, offset + 2000)]
        return readable(shown).strip()[:160]

    def directive_at(self, offset: int) -> Directive | None:
        """Return the line of the preprocessor that an offset of code is in; None for other lines."""
        if self._directives is None and not self.is_divided:
            text = self.text
            begin = text.rfind("\n", max(0, offset - _LONG_LINE), offset) + 1
            is_short = begin > 0 or offset <= _LONG_LINE
            index = bisect_right(self._opaque_starts, begin - 1) - 1
            if is_short and (index < 0 or begin > self.opaque[index].end):  # else one above may go on behind it
                if text.find("#", begin, offset + 1) < 0:
                    return None
                line = text[begin : offset + 1]
                code = line.lstrip(" \t")
                start = begin + len(line) - len(code)
                directive = self._directive(start) if code[:1] == "#" and self.is_code(start) else None
                return directive if directive is not None and offset < directive.end else None
        if self._directives is None:
            self._directives = list(self._read_directives())
            self._directive_starts = [directive.start for directive in self._directives]
        index = bisect_right(self._directive_starts, offset) - 1
        directive = self._directives[index] if index >= 0 else None
        return directive if directive is not None and offset < directive.end else None

    def _read_directives(self) -> Iterator[Directive]:
        text, start = self.text, self.text.find("#")
        while start >= 0:
            begin = start
            while begin and text[begin - 1] in " \t":
                begin -= 1
            if (begin == 0 or text[begin - 1] == "\n") and self.is_code(start):
                directive = self._directive(start)
                yield directive
                start = text.find("#", directive.end)
            else:
                start = text.find("#", start + 1)

    def _directive(self, start: int) -> Directive:
        """Return the directive whose `#` is at an offset."""
        match = _DIRECTIVE.match(self.text, start)
        assert match is not None
        return Directive(match["word"], start, match.end(), self._logical_end(start))

    def _logical_end(self, at: int) -> int:
        """Return the end of the line at an offset, with the lines that continue it and comments that go over lines."""
        while True:
            end = self.text.find("\n", at)
            if end < 0:
                return len(self.text)
            index = bisect_right(self._opaque_starts, end) - 1
            if index >= 0 and end < self.opaque[index].end:
                at = self.opaque[index].end
            elif self._is_spliced(end):
                at = end + 1
            else:
                return end - 1 if self.text[end - 1 : end] == "\r" else end

    def _is_spliced(self, newline: int) -> bool:
        """Whether the line that ends at a line break is continued."""
        before = newline - 1 if self.text[newline - 1 : newline] != "\r" else newline - 2
        return before >= 0 and self.text[before] == "\\"

    def _read(self) -> None:
        """Find what is opaque."""
        text, at, append = self.text, 0, self.opaque.append
        comment, plain_string = TokenKind.COMMENT, TokenKind.STRING
        new = tuple.__new__  # a record by its fields, in half of the time; most are made here
        separator = -1  # the last quote inside a number, such as 1'000'000
        while at >= 0:
            matches, at = _OPAQUE.finditer(text, at), -1
            for match in matches:
                start, end = match.span()
                opening = text[start]
                if opening == "/":
                    if text[start + 1] == "*":
                        end = text.find("*/", end)
                        at = self._add(TokenKind.COMMENT, start, end + 2 if end >= 0 else -1)
                        break
                    if text[end - 1] in "\\\r":
                        end = self._line_comment(start)
                        at = end if end > match.end() else -1
                    append(new(Token, (comment, start, end)))
                elif opening == '"':
                    if end == start + 1 or text[start - 1] == "R":
                        at = self._string(start, end)
                    else:
                        append(new(Token, (plain_string, start, end)))
                elif opening == "#":
                    at = self._include(match)
                elif text[start - 1] in _WORD_CHARACTERS and self._is_separator(start, separator):
                    separator, at = start, start + 1
                else:
                    end = end if end > start + 1 else self._quoted(start, _CHARACTER_STOP, "'")
                    at = self._add(TokenKind.CHARACTER, start, end)
                if at == match.end():
                    at = -1  # where the search goes on by itself
                elif at >= 0:
                    break

    def _add(self, kind: TokenKind, start: int, end: int) -> int:
        """Add what is opaque; an end below 0 is that of the file, and what has none is noted."""
        token = Token(kind, start, len(self.text) if end < 0 else end)
        self.opaque.append(token)
        if end < 0:
            self.unclosed.append(token)
        return token.end

    def _line_comment(self, start: int) -> int:
        end = self.text.find("\n", start)
        while end >= 0 and self._is_spliced(end):
            end = self.text.find("\n", end + 1)
        return len(self.text) if end < 0 else end

    def _string(self, start: int, plain: int) -> int:
        """Add a string that may be a raw one, and has no plain end where that is behind its first quote."""
        text = self.text
        if text[start - 1 : start] == "R" and _is_raw_prefix(text, start):
            opening = _RAW_OPENING.match(text, start)
            if opening is not None:
                closing = f'){opening[1]}"'
                end = text.find(closing, opening.end())
                return self._add(TokenKind.RAW_STRING, start, end + len(closing) if end >= 0 else -1)
        end = plain if plain > start + 1 else self._quoted(start, _STRING_STOP, '"')
        return self._add(TokenKind.STRING, start, end)

    def _quoted(self, start: int, stop: re.Pattern[str], quote: str) -> int:
        """Return the end of a string or character that holds a backslash, or has no end on its line."""
        text, at = self.text, start + 1
        while match := stop.search(text, at):
            at = match.end()
            character = text[match.start()]
            if character == quote:
                return at
            if character == "\n":
                self.unclosed.append(Token(TokenKind.STRING if quote == '"' else TokenKind.CHARACTER, start, at - 1))
                return at - 1
            at += 2 if text.startswith("\r\n", at) else 1
        self.unclosed.append(Token(TokenKind.STRING if quote == '"' else TokenKind.CHARACTER, start, len(text)))
        return len(text)

    def _include(self, match: re.Match[str]) -> int:
        """Add the header name of an `#include`, and return where to go on."""
        text, start = self.text, match.start()
        begin = start
        while begin and text[begin - 1] in " \t":
            begin -= 1
        behind_comment = bool(self.opaque) and self.opaque[-1].end == begin
        if begin and not behind_comment and (text[begin - 1] != "\n" or self._is_spliced(begin - 1)):
            return start + 1
        return self._add(TokenKind.HEADER, match.start(1), match.end(1))

    def _is_separator(self, start: int, last: int) -> bool:
        """Whether a quote separates digits of a number; `last` is the last one that did."""
        text = self.text
        if not (start and is_word(text[start - 1]) and is_word(text[start + 1 : start + 2])):
            return False
        behind = max(self.opaque[-1].end if self.opaque else 0, last + 1)
        begin = start
        while begin > behind and (is_word(text[begin - 1]) or text[begin - 1] == "."):
            begin -= 1
        if begin == last + 1 and last >= 0:
            return True  # it goes on with the same number
        run = text[begin:start].lstrip(".")
        return run[:1].isdigit() and run[:1].isascii()


def _lines_kept(hidden: str) -> str:
    return "\n".join(" " * len(line) for line in hidden.split("\n"))


def is_word(character: str) -> bool:
    """Whether a character may be in an identifier; an empty text is none."""
    return character in _WORD_CHARACTERS


def last_word(text: str) -> str:
    """Return the word that a text ends with; empty where it ends with none."""
    return text[len(text.rstrip(ALL_CHARACTERS)) :]


def before(text: str, at: int) -> str:
    """Return what precedes an offset, without blanks: `::`, `->`, a character, or a word."""
    ahead = text[max(0, at - 200) : at].rstrip()
    if ahead.endswith(("::", "->")):
        return ahead[-2:]
    return last_word(ahead) or ahead[-1:]


def _is_raw_prefix(text: str, quote: int) -> bool:
    """Whether what precedes a quote is `R`, `LR`, `uR`, `UR` or `u8R`, and no end of a longer word."""
    begin = quote
    while begin and quote - begin < 4 and is_word(text[begin - 1]):
        begin -= 1
    return text[begin:quote] in ("R", "LR", "uR", "UR", "u8R")


def tokens(source: SourceTokens) -> Iterator[Token]:
    """Yield all tokens of a file, in order; blanks and line breaks lie between them.

    An identifier that goes on behind a backslash at the end of a line is one token: `spelling` is what it means.
    """
    at = 0
    for opaque in source.opaque:
        yield from _code_tokens(source.text, at, opaque.start)
        yield opaque
        at = opaque.end
    yield from _code_tokens(source.text, at, len(source.text))


def spelling(source: SourceTokens, token: Token) -> str:
    """Return a token as the compiler reads it: without the backslashes and line breaks inside an identifier."""
    text = source.text[token.start : token.end]
    return _SPLICE.sub("", text) if token.kind is TokenKind.IDENTIFIER and "\\" in text else text


_BY_GROUP = {
    "identifier": TokenKind.IDENTIFIER,
    "number": TokenKind.NUMBER,
    "punctuation": TokenKind.PUNCTUATION,
}


def _code_tokens(text: str, start: int, end: int) -> Iterator[Token]:
    for match in _CODE.finditer(text, start, end):
        yield Token(_BY_GROUP[match.lastgroup or ""], match.start(), match.end())
