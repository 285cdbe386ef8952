"""Where settings are looked for, by a user who may not look everywhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core import config
from torchferry.core.errors import UsageError
from torchferry.core.pathmap import PathMap

NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user may enter; those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def as_nobody(question: Callable[[], str]) -> str:
    """Return the answer of a process that belongs to a user without rights."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(send, question().encode())
        except BaseException as error:
            os.write(send, repr(error).encode())
        finally:
            os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with open(receive, encoding="utf-8") as answer:
        return answer.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [(0o700, 0o644), (0o755, 0o600)])
def test_what_may_not_be_read_is_said(mode: tuple[int, int], open_folder: Path) -> None:
    place = open_folder / "private"
    place.mkdir()
    file = place / "pyproject.toml"
    file.write_text("[tool.torchferry]\n", encoding="utf-8")
    file.chmod(mode[1])
    place.chmod(mode[0])

    def question() -> str:
        try:
            return str(config.load(place))
        except UsageError as error:
            return " | ".join(error.lines())

    said = as_nobody(question)
    assert said.startswith(str(place)), said
    assert said.endswith("cannot be read: Permission denied | run the command in a folder that you may read"), said


PATHS = {
    "a pair that undoes itself": ('"/a/" = "/b/"\n"/b/" = "/a/"', "maps '/a/' to '/b/', which it maps again to '/a/'"),
    "a chain": ('"/a" = "/b/x"\n"/b" = "/c"', "maps '/a' to '/b/x', which it maps again to '/c'"),
    "a chain through a longer prefix": ('"/a/" = "/a/b/"\n"/a/b/" = "/c/"', "which it maps again to '/c/'"),
    "a quote": ('"/a/" = "/b\\"/"', "quotes and control characters"),
    "a line break": ('"/a/" = "/b\\n/"', "quotes and control characters"),
    "a pattern in a folder's name": ('"/a*/b/" = "/c/"', "not a folder with a pattern of file names"),
    "a pattern of no folder": ('"*.pth" = "/c/"', "not a folder with a pattern of file names"),
    "a pattern of the root": ('"/*.pth" = "/c/"', "not a folder with a pattern of file names"),
    "a pattern to a pattern": ('"/a/*.pth" = "/c/*.pth"', "not a folder with a pattern of file names"),
    "a pattern longer than a name": (f'"/a/*{"x" * 255}" = "/c/"', "not a folder with a pattern of file names"),
    "a pattern to what is no folder": ('"/a/*.pth" = "/c"', "join the next name"),
    "two patterns for one file": (
        '"/a/best*" = "/b/"\n"/a/*.pth" = "/c/"',
        "some files by '/a/best*' and by '/a/*.pth', to different folders",
    ),
    "a chain through a pattern": (
        '"/a/" = "/b/"\n"/b/*.pth" = "/c/"',
        "maps '/a/' to '/b/', which it maps again to '/c/'",
    ),
    "a chain of patterns": ('"/a/*.pth" = "/b/"\n"/b/best*" = "/c/"', "which it maps again to '/c/'"),
    "two patterns of different files": ('"/a/*.pth" = "/b/"\n"/a/*.csv" = "/c/"', ""),
    "two patterns, one narrower": ('"/a/*.pth" = "/b/"\n"/a/best*.pth" = "/c/"', ""),
    "two patterns to one folder": ('"/a/*.pth" = "/b/"\n"/a/best*" = "/b/"', ""),
    "patterns of other folders": ('"/a/*.pth" = "/b/"\n"/b/*.csv" = "/c/"', ""),
    "a pattern into the folder's own": ('"/a/*.pth" = "/a/weights/"\n"/a/" = "/a/results/"', ""),
    "begins with itself": ('"/data/" = "/data/npu/"', ""),
    "holds itself": ('"/data/" = "file:/data/"', ""),
    "kept as it is": ('"/data/" = "/mnt/"\n"/data/keep/" = "/data/keep/"', ""),
    "a slash on one side": ('"/b/" = "/b/a"', "join the next name"),
    "nothing in its place": ('"/data/" = ""', ""),
    "two to one place": ('"/a/" = "/c/"\n"/b/" = "/c/"', ""),
}


@pytest.mark.parametrize(("table", "problem"), PATHS.values(), ids=PATHS)
def test_a_table_of_paths_that_no_run_would_end_is_refused(tmp_path: Path, table: str, problem: str) -> None:
    (tmp_path / "torchferry.toml").write_text(f"[paths]\n{table}\n", encoding="utf-8")
    if not problem:
        assert config.load(tmp_path).paths
        return
    with pytest.raises(UsageError) as caught:
        config.load(tmp_path)
    assert problem in caught.value.message.render("en")


NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
PREFIXES = st.builds(str.__add__, NAMES, st.sampled_from(["", "/", "/*b", "/a*"]))
NEW = st.builds(str.__add__, NAMES, st.sampled_from(["", "/"]))


@given(st.dictionaries(PREFIXES, NEW, min_size=1, max_size=4), NAMES)
def test_a_text_is_mapped_once(table: dict[str, str], text: str) -> None:
    try:
        config.check_paths("x", table)
    except UsageError:
        return
    mapping = PathMap(table)
    for found in mapping.replacements(text):
        if found.new is None:
            continue
        after = text[: found.start] + found.new + text[found.end :]
        shortened = [old for old in table if old.startswith(found.new.rstrip("/"))]  # the rest may complete a prefix
        assert shortened or list(mapping.replacements(after)) == []


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "tool = 3 # [tool.torchferry]",
        "[[tool.torchferry]]\na = 1",
        "\ufeff[tool.torchferry",
        "a",
    ],
    ids=["deep", "no table", "a list", "a mark", "no TOML"],
)
def test_hostile_settings_are_an_error_of_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "torchferry.toml").write_text(text if "tool" not in text else "", encoding="utf-8")
    if "tool" in text:
        (tmp_path / "torchferry.toml").unlink()
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        config.load(tmp_path)


@given(
    st.dictionaries(st.text("ab*", max_size=4).map("/d/{}".format), st.sampled_from(["/x/", "/y/"]), max_size=4),
    st.text("ab", min_size=1, max_size=4),
)
def test_the_narrowest_pattern_decides(table: dict[str, str], name: str) -> None:
    try:
        config.check_paths("x", table)
    except UsageError:
        return
    fitting = {key: new for key, new in table.items() if "*" in key and fnmatchcase(name, key[3:])}
    narrowest = {
        new
        for key, new in fitting.items()
        if not any(fnmatchcase(other[3:], key[3:]) for other in fitting if other != key)
    }
    if not fitting:
        return
    (found,) = PathMap(table).replacements(f"/d/{name}")
    longer = [key for key in table if "*" not in key and f"/d/{name}" == key]
    assert longer or found.new in narrowest or len(narrowest) != 1
