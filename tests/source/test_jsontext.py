"""JSON values and their places agree with the `json` module, and any other text is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.jsontext import NotJsonError, RawString, values

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def flat(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from flat(inner, (*path, index))
    else:
        yield path, value


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_values_and_places(document: object, ascii_only: bool, indent: int | str | None) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    found = list(values(text))
    assert [(v.path, v.value if v.is_string else json.loads(v.value)) for v in found] == list(flat(document))
    for value in found:
        assert json.loads(text[value.start : value.end]) == (
            value.value if value.is_string else json.loads(value.value)
        )
        for index in range(len(value.value) + 1) if value.is_string else ():
            at = RawString(text, value.start).offset(index)
            assert json.loads(text[value.start : at] + '"') == value.value[:index]


@given(st.text(alphabet='{}[]",:\\u0 1ae\n'))
def test_whatever_json_refuses_is_refused(text: str) -> None:
    try:
        json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(NotJsonError):
            list(values(text))
    else:
        list(values(text))


def test_duplicate_keys_are_all_seen() -> None:
    assert [v.value for v in values('{"device": "cpu", "device": "cuda"}')] == ["cpu", "cuda"]


def test_hostile_depth_ends_soon() -> None:
    with pytest.raises(NotJsonError, match="deep"):
        list(values("[" * 10_000_000))


@given(DOCUMENTS, st.booleans())
def test_what_is_not_wanted_is_left_out(document: object, ascii_only: bool) -> None:
    text = json.dumps({"a": document, "b": [document]}, ensure_ascii=ascii_only)
    wanted = [value for value in values(text) if value.path[0] == "a" or len(value.path) == 1]
    assert list(values(text, lambda path: path[:1] != ["b"])) == wanted


@pytest.mark.parametrize("inner", ['{"a" 1}', "[1,]", "[" * 600 + "]" * 600, '["\\x"]', "[tru]", "[1", "{'a': 1}"])
def test_what_is_not_wanted_is_refused_in_the_same_words(inner: str) -> None:
    said = []
    for wanted in (None, lambda path: path != ["b"]):
        with pytest.raises(NotJsonError) as error:
            list(values(f'{{"b": {inner}}}', wanted))
        said.append((str(error.value), error.value.offset))
    assert said[0] == said[1]
