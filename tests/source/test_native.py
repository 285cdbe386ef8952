"""C, C++ and CMake read lexically: comments are blanked, every offset stays, and nothing takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.kinds import Kind, kind_of
from torchferry.source.native import NATIVE_KINDS, OptionalParts, code_of, comments

PIECES = st.sampled_from(
    [
        "//",
        "/*",
        "*/",
        '"',
        "'",
        "\\",
        "\n",
        'R"x(',
        ')x"',
        "#",
        "#[[",
        "]]",
        "#if CUDA",
        "#else",
        "#endif",
        "x",
        " ",
        "é",
    ]
)


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        (Kind.CPP, "a // b\nc", "a     \nc"),
        (Kind.CPP, "a /* b\nc */ d", "a     \n     d"),
        (Kind.CPP, 'a "//b" c', 'a "//b" c'),
        (Kind.CPP, "a '\"' // b", "a '\"'     "),
        (Kind.CPP, 'R"(// a)" b // c', 'R"(// a)" b     '),
        (Kind.CPP, "// a \\\nb\nc", "      \n \nc"),
        (Kind.CPP, "1'000 // a", "1'000     "),
        (Kind.CPP, "a /* b", "a     "),
        (Kind.CMAKE, 'set(A "# no") # yes', 'set(A "# no")      '),
        (Kind.CMAKE, "#[==[ a\n]] b ]==] c", "       \n          c"),
    ],
)
def test_comments_are_blanked(kind: Kind, text: str, code: str) -> None:
    assert code_of(kind, text) == code


@given(st.lists(PIECES).map("".join), st.sampled_from(NATIVE_KINDS))
def test_offsets_stay_in_any_text(text: str, kind: Kind) -> None:
    code = code_of(kind, text)
    assert len(code) == len(text)
    assert [i for i, char in enumerate(code) if char == "\n"] == [i for i, char in enumerate(text) if char == "\n"]
    spans = comments(kind, text)
    assert spans == sorted(spans)
    assert all(kept == char for i, (kept, char) in enumerate(zip(code, text, strict=True)) if kept != " ")
    parts = OptionalParts(kind, code)
    assert not parts.holds(-1)
    for offset in range(len(text)):
        parts.holds(offset)


@pytest.mark.parametrize("piece", ["/*", '"', "'\\", 'R"(', "//\\\n", "#if CUDA\n", "project("])
def test_hostile_texts_are_read_once(piece: str) -> None:
    for kind in NATIVE_KINDS:
        code_of(kind, piece * 200_000)  # in the square of the length this would take hours


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.cpp", Kind.CPP), ("a.cc", Kind.CPP), ("a.cxx", Kind.CPP), ("a.c", Kind.CPP), ("a.h", Kind.CPP),
        ("a.hpp", Kind.CPP), ("a.cuh", Kind.KERNEL), ("x/CMakeLists.txt", Kind.CMAKE), ("x/find.cmake", Kind.CMAKE),
    ],
)  # fmt: skip
def test_kinds(path: str, kind: Kind) -> None:
    assert kind_of(path) is kind
