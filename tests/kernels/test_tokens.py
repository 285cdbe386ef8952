"""Tokens of C++: what is code, and that every character belongs to exactly one place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.kernels.tokens import OPAQUE, SourceTokens, decode, encode, spelling, tokens


@pytest.mark.parametrize(
    ("text", "opaque"),
    [
        ("a = 1'000'000; b = 'x'; // c'", ["'x'", "// c'"]),
        (r'f("a\"b", L"c") /* "d */', [r'"a\"b"', '"c"', '/* "d */']),
        ('R"x(a"b)x" u8R"(c\nd)" FOOR"(e)"', ['"x(a"b)x"', '"(c\nd)"', '"(e)"']),
        ('#include <a/b.h> // c\n  # include "d.cuh"\nx < y > z', ["<a/b.h>", "// c", '"d.cuh"']),
        ("// a \\\n still a\nb", ["// a \\\n still a"]),
        ('"open\nx', ['"open']),
        ("/* open", ["/* open"]),
        ("#define S(x) \\\n #include <a.h>", []),
    ],
)
def test_opaque_spans(text: str, opaque: list[str]) -> None:
    source = SourceTokens(text)
    assert [text[token.start : token.end] for token in source.opaque] == opaque


def test_identifier_goes_on_behind_a_line_break() -> None:
    source = SourceTokens("cuda\\\nMalloc(p)")
    assert [spelling(source, token) for token in tokens(source)] == ["cudaMalloc", "(", "p", ")"]


PIECES = [
    "cudaMalloc",
    "x",
    "1'0",
    "'",
    '"',
    "\\",
    "\n",
    "\r\n",
    "/*",
    "*/",
    "//",
    'R"a(',
    ')a"',
    "#include <",
    ">",
    " ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_tokens_cover_the_text_once(text: str) -> None:
    source = SourceTokens(text)
    behind = 0
    for token in tokens(source):
        assert behind <= token.start < token.end
        between = text[behind : token.start].replace("\\\r\n", "").replace("\\\n", "")
        assert not between.strip()
        assert (token.kind in OPAQUE) == (not source.is_code(token.start))
        behind = token.end
    assert not text[behind:].replace("\\\r\n", "").replace("\\\n", "").strip()


@given(st.binary(max_size=200))
def test_bytes_come_back(data: bytes) -> None:
    assert encode(decode(data)) == data
    SourceTokens(decode(data))


WORDS = ("cuda", "CUDA", "Cuda", "cuda_CUDA", "mycuda", "cudaCuda", "x", "\xe9cuda", "_" * 70 + "cuda")


@given(
    st.lists(
        st.sampled_from((*WORDS, " ", "::", "(", '"', "//", "/*", "*/", "\n", "\\\n", "#include <", "'", 'R"('))
    ).map("".join)
)
def test_one_search_for_all_names_finds_what_one_for_each_finds(text: str) -> None:
    one, each = SourceTokens(text), SourceTokens(text)
    one.expect(1 << 30)
    for word in WORDS:
        assert one.places(word) == each.places(word)


@pytest.mark.parametrize("piece", ["'\\", '"\\', "1'", "a'b", 'R"x(', "/*", "#include <", "\\\n", "\n#"])
def test_hostile_text_is_read(piece: str) -> None:
    source = SourceTokens(piece * 6_000)
    assert sum(1 for _ in tokens(source)) <= len(source.text)
