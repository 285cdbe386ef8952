"""JSON that others wrote: what is one error, what is read, and that nothing else reads it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.json_text import JSONError, json_text, parsed_json

READ: dict[str, tuple[str | bytes, Any]] = {
    "text": ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
    "bytes": ('{"ä": "𝄞"}'.encode(), {"ä": "𝄞"}),
    "a mark of the encoding": ("\ufeff[1]".encode(), [1]),
    "UTF-16": ("[1]".encode("utf-16"), [1]),
    "a character in two escapes": (r'["\ud834\udd1e"]', ["𝄞"]),
    "a byte of a file name": (r'["a\udcffb"]', ["a\udcffb"]),
    "the largest numbers": (f"[{-(2**63)}, {2**64 - 1}, 1.7e308]", [-(2**63), 2**64 - 1, 1.7e308]),
    "many digits behind the point": ("[0.12345678901234567890123]", [0.12345678901234567890123]),
    "digits in a text": (f'["{"9" * 40}"]', ["9" * 40]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_what_is_read(text: str | bytes, expected: object) -> None:
    assert parsed_json(text) == expected


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "Expecting value"),
    "half": ('{"a": ', "Expecting value"),
    "no text": (b"\xff\xfe\xff", "truncated data"),
    "a surrogate as bytes": (b'["\xed\xa0\x80"]', "can't decode byte"),
    "nested without end": ("[" * 100_000, "nested too deeply"),
    "a number of 30 digits": ('{"a": 1' + "0" * 30 + "}", "64 bits: 1000000000000000000000000000000"),
    "a number of 5,000 digits": ("[" + "9" * 5000 + "]", "64 bits: 9999999999"),
    "a number just too large": (f"[{2**64}]", "64 bits"),
    "a number just too small": (f"[{-(2**63) - 1}]", "64 bits"),
    "a real number too large": ("[1e999]", "64 bits: 1e999"),
    "half a character": (r'{"a": [{"b": "\ud800"}]}', "half a character (a lone surrogate) in $.a[0].b"),
    "half a character in a name": (r'{"\udfff": 1}', "half a character (a lone surrogate) in $"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(JSONError) as caught:
        parsed_json(text)
    assert message in str(caught.value)


def test_hooks_of_a_reader_are_asked() -> None:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no number")

    with pytest.raises(JSONError, match="NaN is no number"):
        parsed_json("[NaN]", parse_constant=refuse)
    assert parsed_json('{"a": 1, "a": 2}', object_pairs_hook=list) == [("a", 1), ("a", 2)]


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


@given(st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12))
def test_what_is_written_is_read(document: Any) -> None:
    assert parsed_json(json_text({"it": document})) == {"it": document}
    assert parsed_json(json.dumps(document).encode()) == document


@given(st.binary() | st.text(st.characters()).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(JSONError):
        parsed_json(data)
