"""Decoding gives the same bytes back, and offsets agree with Python's own tokenizer and parser."""

from __future__ import annotations

import ast
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.finding import Edit
from torchferry.source.text import SourceText, UndecodableError, apply_edits, decode_python, decode_text

READABLE = [
    (b"x = 1\n", "utf-8", "x = 1\n"),
    (codecs.BOM_UTF8 + b"x = 1\r\n", "utf-8", "x = 1\r\n"),
    ("# -*- coding: gbk -*-\nx = '中'\n".encode("gbk"), "gbk", "# -*- coding: gbk -*-\nx = '中'\n"),
    ("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n'é'\n".encode("latin-1"), "iso8859-1", None),
    (b"\n# coding: cp1252\n'\x80'\n", "cp1252", None),
    (b"", "utf-8", ""),
]

UNREADABLE = [
    ("x = '中文'\n".encode("gbk"), "gb18030"),
    (b"# coding: no-such-encoding\n", "no-such-encoding"),
    (b"# coding: rot13\nk = 1\n", "rot-13"),
    (codecs.BOM_UTF16_LE + "x = 1".encode("utf-16-le"), "UTF-16"),
    (b"x = '\xff\xfe\x81'\n\x81", "0xff"),
    (b"x = 1\n# coding: latin-1 is the third line\n\xe9", "0xe9"),
]


@pytest.mark.parametrize(("data", "encoding", "text"), READABLE)
def test_python_is_decoded_as_python_does(data: bytes, encoding: str, text: str | None) -> None:
    source = decode_python(data)
    assert source.encoding == encoding
    assert source.encode(source.text) == data
    if text is not None:
        assert source.text == text


@pytest.mark.parametrize(("data", "said"), UNREADABLE)
def test_what_cannot_be_decoded_says_why(data: bytes, said: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        decode_python(data)
    assert said in caught.value.message.render("en")


def test_text_files_may_be_utf16() -> None:
    data = codecs.BOM_UTF16_BE + "device: cuda\r\n".encode("utf-16-be")
    source = decode_text(data)
    assert source.text == "device: cuda\r\n"
    assert source.encode(source.text) == data


@given(st.text(alphabet=st.sampled_from("ab é中𝕏\t\f\r\n#'\"=1")))
def test_decoded_text_encodes_to_the_same_bytes(text: str) -> None:
    data = text.encode("utf-8")
    source = decode_text(data)
    assert source.encode(source.text) == data


@given(st.lists(st.sampled_from(["x = 1", "s = 'é中𝕏'; t = f(a, 'b')", "", "\f", "# é", "if x:\n    y = 'é'; z = y"])))
def test_offsets_agree_with_the_parser(lines: list[str]) -> None:
    for newline in ("\n", "\r\n", "\r"):
        text = newline.join("\n".join(lines).split("\n")) + newline
        source = SourceText(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name):
                start = source.offset(node.lineno, node.col_offset)
                assert text[start : start + len(node.id)] == node.id
                assert source.position(start)[0] == node.lineno


@given(st.text(max_size=40), st.data())
def test_only_edited_spans_differ(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edits = [Edit(a, b, data.draw(st.text(max_size=3))) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    edits.sort()
    result = apply_edits(text, reversed(edits))
    at = 0
    rest = result
    for edit in edits:
        kept = text[at : edit.start]
        assert rest.startswith(kept + edit.text)
        rest = rest[len(kept) + len(edit.text) :]
        at = edit.end
    assert rest == text[at:]


@pytest.mark.parametrize("edits", [[Edit(0, 3, "a"), Edit(2, 4, "b")], [Edit(3, 2, "")], [Edit(0, 99, "")]])
def test_edits_that_overlap_or_leave_the_text_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits("abcdef", edits)
