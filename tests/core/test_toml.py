"""The faster way of reading TOML gives what `tomllib` gives, or leaves the text to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchferry.core import toml

SOURCE = Path(toml.__file__).parent.parent

PLAIN = [
    "",
    "# only a comment",
    'a = "x" # said\nb = 1\nc = true\nd = ["x", "y"]\ne = []\n',
    'a = [\n    "x",\n    "y, ]",\n]\nb = 2\n',
    "a = [\n]\n",
    '[[row]]\nname = "x"\n[other]\nname = "y"\n[[row]]\nname = "z"\n',
    'keywords = { a = "b" }\nnumbers = [1, 2]\nd = -1\nf = 1.5\n',
    "literal = 'x\\y'\nescaped = \"\\u00e9\\\\ \\U0001F600\"\n",
    'a = [\n    { b = "x, }", c = [1, -2] },\n    { b = "\\"" }\n]\n',
    'a = []\nb = ["x", 1]\nc = "\\t\\n\\\\"\n',
    "day = 1979-05-27\nmany = 1_000\n",
    'long = """a"""\n',
    'chinese = "\u3000中文"\n',
    "a = 'x \"y\" # z'\nb = [true]\nc = ['x', 'y, \"z\"' ]\n",
    "a = [\n    'x\\y', '\"',\n    '',\n]\n",
    "a = [\n    'x'\n]\nb = ''\n",
    'a = { b = "x", c = [1] }\nd = { "e f" = 1, g = true }\n',
    'a = { "b" = 1, "" = 2 }\nc = { d = { e = 1 } }\nf = { g = 1 } # said\n',
    "a = [\"x\", 'y']\n",
]
LEFT = [
    "[a.b]\nc = 1\n",
    "a.b = 1\n",
    '"a" = 1\n',
    "a=1\n",
    "  a = 1\n",
    '[[row]]\nname = "x"\n[row.extra]\nb = 1\n',
    'long = """a\nb"""\n',
    'a = [\n    """x\ny""",\n]\n',
    'a = [\n    "x", # said\n    "y",\n]\n',
    "a = [\n    { b = 1, c = { d = 1 } },\n]\n",
    "a = [\n    { b = 1, c.d = 2 },\n]\n",
    "a = [\n    { b = 1.5, c = 1_0 },\n]\n",
    "a = [\n    { b = 1 }, { b = 2 },\n]\n",
    "a = [\n    { b = 1 }, # said\n]\n",
    "a = [\n    {},\n]\n",
    "a = [\n    1,\n]\n",
    'a = ["x",\n"y"]\n',
    "[a] # said\nb = 1\n",
]
OF_TOML_1_1 = ["a = [\n    { b = 1, },\n]\n", "a = { b = 1, }\n"]
"""Newer versions of tomli, which reads our settings on Python 3.10, know TOML 1.1; Python's own parser does not yet."""
WRONG = [
    'é = "x"\n',
    "[é]\n",
    'a = "x"\na = "y"\n',
    'a b = "x"\n',
    "a = [\n    { b = 1 }\n    { b = 2 }\n]\n",
    "a = [\n    { b = 1, b = 2 },\n]\n",
    "a = [\n    { b = 01 },\n]\n",
    "a = 1\na = 2\n",
    "[a]\n[a]\n",
    "a = 1\n[a]\n",
    "a = []\n[[a]]\n",
    "[[a]]\n[a]\n",
    "[a]]\n",
    "[[a]\n",
    'a = [\n    "x",\n',
    'a = ["x", null]\n',
    'a = [\n    "x",\n    null,\n]\n',
    'a = "x" y\n',
    'a = "\\/"\n',
    'a = "\\ud83d\\ude00"\n',
    'a = [\n    "\\/",\n]\n',
    "a = NaN\n",
    "a = 01\n",
    "a = tru\n",
    "a = 'x' y'\n",
    "a = ['x' 'y']\n",
    "a = [\n    'x',,\n]\n",
    'a = { b = 1, "b" = 2 }\n',
    'a = "\x07"\n',
    "# \x07\n",
    "a = \n",
    "a\n",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_read_the_faster_way(text: str) -> None:
    assert toml._plain(text) == toml.loads(text)


@pytest.mark.parametrize("text", LEFT)
def test_other_text_is_left_to_the_parser(text: str, tmp_path: Path) -> None:
    with pytest.raises(toml._NotPlainError):
        toml._plain(text)
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    assert toml.load_own(tmp_path / "a.toml") == toml.loads(text)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_toml_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    with pytest.raises(toml.TOMLDecodeError):
        toml.load_own(tmp_path / "a.toml")


@pytest.mark.parametrize("text", OF_TOML_1_1)
def test_what_newer_toml_allows_is_read_as_the_library_reads_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    try:
        expected = toml.loads(text)
    except toml.TOMLDecodeError:
        with pytest.raises(toml.TOMLDecodeError):
            toml.load_own(tmp_path / "a.toml")
    else:
        assert toml.load_own(tmp_path / "a.toml") == expected


def test_our_own_tables_read_the_same_both_ways() -> None:
    tables = sorted(SOURCE.rglob("*.toml"))
    assert len(tables) > 50
    for path in tables:
        text = path.read_text(encoding="utf-8")
        assert toml.load_own(path) == toml._parsed(path) == toml.loads(text), path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, of a process that may keep what it read."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path = tmp_path / "a.toml"
    path.write_text('[[row]]\nname = "x"\n', encoding="utf-8")
    return path


def _kept(table: Path) -> list[Path]:
    return sorted((table.parent / "__pycache__").glob("*"))


def test_what_was_read_of_a_table_is_kept(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = toml.load_own(table)
    assert [path.name for path in _kept(table)] == [f"a.toml.{sys.implementation.cache_tag}"]
    monkeypatch.setattr(toml, "_parsed", None)  # nobody parses it again
    assert toml.load_own(table) == first == {"row": [{"name": "x"}]}
    assert toml.load_own(table) is not toml.load_own(table)


def test_a_table_that_changed_is_read_again(table: Path) -> None:
    toml.load_own(table)
    table.write_text('[[row]]\nname = "longer"\n', encoding="utf-8")
    assert toml.load_own(table) == {"row": [{"name": "longer"}]}
    status = table.stat()
    table.write_text('[[row]]\nname = "LONGER"\n', encoding="utf-8")
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert toml.load_own(table) == {"row": [{"name": "LONGER"}]}


def test_what_another_version_kept_is_not_taken(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml.load_own(table)
    monkeypatch.setattr(toml, "_parsed", lambda path: {"read": "again"})
    monkeypatch.setattr(toml, "__version__", "0.0.0")
    assert toml.load_own(table) == {"read": "again"}


@pytest.mark.parametrize("cut", [0, 5, -1])
def test_what_is_cut_off_is_not_taken(table: Path, cut: int) -> None:
    wanted = toml.load_own(table)
    (kept,) = _kept(table)
    kept.write_bytes(kept.read_bytes()[:cut])
    assert toml.load_own(table) == wanted


@pytest.mark.parametrize(("setting", "value"), [("dont_write_bytecode", True), ("pycache_prefix", "/elsewhere")])
def test_a_process_that_keeps_no_modules_there_keeps_no_tables(
    table: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: object
) -> None:
    monkeypatch.setattr(sys, setting, value)
    toml.load_own(table)
    assert not _kept(table)


def test_where_nothing_can_be_kept_a_table_is_read_all_the_same(table: Path) -> None:
    (table.parent / "__pycache__").write_text("in the way")
    assert toml.load_own(table) == {"row": [{"name": "x"}]}
    table.write_text("day = 1979-05-27\n", encoding="utf-8")
    (table.parent / "__pycache__").unlink()
    assert toml.load_own(table) == toml.load_own(table) == toml.loads("day = 1979-05-27\n")
    assert not _kept(table)


@pytest.mark.parametrize(
    "name",
    [
        *(f"backends/data/{name}/api" for name in ("cuda", "common")),
        "vendors/npu/api",
        "vendors/ptex/api",
        "backends/data/cuda/native",
    ],
)
def test_the_largest_tables_are_plain(name: str) -> None:
    toml._plain((SOURCE / f"{name}.toml").read_text(encoding="utf-8"))


REFUSED = {
    "an integer of 30 digits": (
        "a = [{ b = 1" + "0" * 30 + " }]",
        "`a[0].b` is a number that does not fit into 64 bits",
    ),
    "an integer of 5,000 digits": ("a = " + "9" * 5000, "limit"),
    "a long integer in hexadecimal": ("a = 0x1_0000_0000_0000_0000", "64 bits"),
    "nested without end": ("a = " + "[" * 50_000, "nested too deeply"),
    "half a table": ("[a", ""),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_others_wrote_is_refused_in_one_way(text: str, message: str) -> None:
    with pytest.raises(toml.TOMLDecodeError) as caught:
        toml.loads(text)
    assert message in str(caught.value)


def test_the_largest_integers_and_long_names_are_read() -> None:
    text = f"a = [{-(2**63)}, {2**63 - 1}]\n{'a' * 40} = '{'f' * 40}'\n"
    assert toml.loads(text) == {"a": [-(2**63), 2**63 - 1], "a" * 40: "f" * 40}
