"""Settings of configuration files: found by their keys, and where they say; texts and comments are none."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counted_calls import grows_linearly
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

YAML = [
    ("device: cuda\r\nb: 'cpu' # c\r\n", [("device", "cuda"), ("b", "cpu")]),
    ("- device: cuda\n  x: 1\n- cpu\n", [("device", "cuda"), ("x", "1"), ("", "cpu")]),
    ("devices:\n- cuda\n- cpu\nb: c\n", [("devices", "cuda"), ("devices", "cpu"), ("b", "c")]),
    ("devices: &d\n  - cuda\nother: *d\n", [("devices", "cuda")]),
    ("a: &x cuda\nb: !!str cuda\n", [("a", "cuda"), ("b", "cuda")]),
    ("device:\n  cuda\n", [("device", "cuda")]),
    ("text: |\n  device: cuda\n\n  x\nb: >-\n  cuda\nc: d\n", [("c", "d")]),
    ("- key: |\n    device: cuda\n  b: c\n", [("b", "c")]),
    ('text: "one\n  device: cuda\n  two"\nb: c\n', [("b", "c")]),
    ("text: one\n  cuda two\nb: c\n", [("b", "c")]),
    ("text: \"say \\\"cuda\\\"\"\nb: 'it''s'\n", [("text", 'say \\"cuda\\"'), ("b", "it''s")]),
    ("a: {b: 'x, y', \"c\":cuda, d: [cuda, {e: f}]}\n", [("b", "x, y"), ("c", "cuda"), ("d", "cuda"), ("e", "f")]),
    ("a: [1,\n # device: cuda\n  cuda]\nb: c\n", [("a", "1"), ("a", "cuda"), ("b", "c")]),
    ("--- {device: cuda}\n---\ndevice: cpu\n...\n", [("device", "cuda"), ("device", "cpu")]),
    ("%YAML 1.2\n---\n{% if x %}\ndevice: cuda\n", [("", "% if x %"), ("device", "cuda")]),
    ("url: http://x:80/#cuda\na:b: c\n", [("url", "http://x:80/#cuda"), ("a:b", "c")]),
    ("\tdevice: cuda\n<<: *x\n", [("device", "cuda")]),
    ('a: "unclosed\nb: cuda\n', [("b", "cuda")]),
    ("a: }\nb: ]\n", [("a", "}"), ("b", "]")]),
]
TOML = [
    ('[t]\nd = "cuda" # "x"\r\n', [("t.d", "cuda")]),
    ('d = """\ne = "cuda"\n"""\nf = "g"\n', [("f", "g")]),
    ("d = '''\n[x]\ne = \"cuda\"\n'''\n", []),
    ('a = { d = "cuda", l = ["x"] }\nb = "c"\n', [("a.d", "cuda"), ("a.l", "x"), ("b", "c")]),
    ('a = [\n "b", # ]\n { c = "d" },\n]\n[[t.u]]\ne = "f"\n', [("a", "b"), ("a.c", "d"), ("t.u.e", "f")]),
    ('a."b c" = "d"\n["x.y"]\nz = \'w\'\n', [("a.b c", "d"), ("x.y.z", "w")]),
    ('a = "x\\"y"\nb = "unclosed\nc = "d"\n', [("a", 'x\\"y'), ("c", "d")]),
]
JSON = [
    ('{"a": {"device": "cuda"}, "l": ["x", 1]}', [("a.device", "cuda"), ("l", "x")]),
    ('{"a": "b", // "c": "d"\n /* "e" */ "f": "//g",}', [("a", "b"), ("f", "//g")]),
    ('{"a": "b", "c": ', [("a", "b")]),
    ('{"a": "cu\\u0064a"}', []),
]
INI = [
    ("[t]\r\nd = cuda ; x\r\ne: 'a b' # c\r\n", [("t.d", "cuda"), ("t.e", "a b")]),
    ("# a = b\n; a = b\n// a = b\nexport A=b\nc=\n", [("A", "b")]),
    ('x.device = "cuda:0"\nlist = [1,\n  2]\nword\n', [("x.device", "cuda:0"), ("list", "[1")]),
    ("a = 'unclosed\nurl=http://x/#b\n", [("url", "http://x/#b")]),
]


@pytest.mark.parametrize(("text", "expected"), YAML)
def test_yaml(text: str, expected: list[tuple[str, str]]) -> None:
    found = list(settings(Kind.YAML, text))
    assert [(setting.key, setting.value) for setting in found] == expected
    assert all(text[setting.start : setting.end] == setting.value for setting in found)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(Kind.TOML, *case) for case in TOML] + [(Kind.JSON, *case) for case in JSON] + [(Kind.INI, *case) for case in INI],
)
def test_toml_json_and_ini(kind: Kind, text: str, expected: list[tuple[str, str]]) -> None:
    found = list(settings(kind, text))
    assert [(".".join(setting.path), setting.value) for setting in found] == expected
    assert all(text[setting.start : setting.end] == setting.value for setting in found)


WORDS = st.sampled_from(
    ["a", "device", "cuda", ":", ": ", " ", "  ", "\t", "\n", "\r\n", "- ", "---", "{", "}", "[", "]", ",", "=", " = "]
) | st.sampled_from(
    ['"', "'", '"""', "'''", "\\", "#", "//", "/*", "|", ">", "&x", "*x", "!t", "?", "%", "é", "\u2028", "\x0c"]
)


@given(st.lists(WORDS).map("".join) | st.text(), st.sampled_from([Kind.YAML, Kind.TOML, Kind.JSON, Kind.INI]))
def test_any_text_is_survived_and_values_are_where_they_say(text: str, kind: Kind) -> None:
    last = 0
    for setting in settings(kind, text):
        assert last <= setting.start <= setting.end <= len(text)
        assert text[setting.start : setting.end] == setting.value
        assert "\n" not in setting.value
        last = setting.end


KEYS = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
PLAIN = st.from_regex(r"[a-z][a-z0-9:./ -]{0,8}[a-z0-9]", fullmatch=True).filter(lambda text: ": " not in text)


@given(st.dictionaries(KEYS, st.lists(PLAIN, min_size=1, max_size=3) | PLAIN, max_size=4), st.booleans())
def test_a_yaml_document_gives_what_was_written(document: dict[str, list[str] | str], flow: bool) -> None:
    lines = []
    for key, value in document.items():
        if isinstance(value, str):
            lines.append(f"{key}: {value}  # note: x")
        elif flow:
            lines.append(f"{key}: [{', '.join(repr(item) for item in value)}]")
        else:
            lines += [f"{key}:", *(f"- {item}" for item in value)]
    expected = [
        (key, item) for key, value in document.items() for item in ([value] if isinstance(value, str) else value)
    ]
    found = settings(Kind.YAML, "\n".join(lines))
    assert [(setting.key, setting.value) for setting in found] == expected


@given(st.lists(WORDS).map("".join))
def test_toml_strings_agree_with_the_standard_library(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = {setting.value for setting in settings(Kind.TOML, text) if "\\" not in setting.value}
    assert found <= set(_strings(document)) | {""}


def _strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [found for inner in value.values() for found in _strings(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in _strings(inner)]
    return [value] if isinstance(value, str) else []


HOSTILE = [
    (Kind.YAML, "a" + " " * 300_000),
    (Kind.YAML, "a: [" + "x," * 100_000),
    (Kind.YAML, "a: '" + "''" * 100_000),
    (Kind.YAML, "[" * 300_000),
    (Kind.YAML, "a: [\n" * 50_000),
    (Kind.YAML, ("- x" + "\n" * 40) * 5_000),
    (Kind.TOML, "a" + " " * 300_000),
    (Kind.TOML, 'a = "' + '\\"' * 100_000),
    (Kind.TOML, 'a = """' + '\\"""' * 50_000),
    (Kind.TOML, "[" * 300_000),
    (Kind.JSON, '{"a": ["x",]' + "/*" * 100_000),
    (Kind.JSON, "[1," + ", " * 100_000),
    (Kind.INI, "a" * 300_000),
    (Kind.INI, "a = " + " # " * 100_000),
    (Kind.INI, "a = '\n" * 100_000),
]


@pytest.mark.parametrize(("kind", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_take_linear_time(kind: Kind, text: str) -> None:
    assert grows_linearly(lambda part: list(settings(kind, part)), text)
