"""The stories run as their pages show them, and the tool that runs them sees each difference."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.warm_python import ferry, python
from torchferry.core.toml import loads

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import pictures  # noqa: E402
import stories  # noqa: E402

WHOLE = "resnet50-sdaa"
"""The page that runs whole here: ranks, faults, a profile, an acceptance and a hand-over in the fewest commands."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `torchferry` and a `python` that have imported already what they need."""
    folder = tmp_path_factory.mktemp("bin")
    for name, command in (("torchferry", f"{ferry()} -m torchferry"), ("python", python())):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.rehearsal
@pytest.mark.parametrize("name", stories.stories())
def test_a_page_prints_what_it_shows(name: str, programs: Path) -> None:
    """The pages run to their first rehearsal, one of them whole; `make stories` and `make coverage` run all of them."""
    outcome = stories.run_page(name, "en", rehearsals=name == WHOLE, programs=programs)
    assert not outcome.differences, "\n".join(outcome.differences)


@pytest.mark.parametrize("name", stories.stories())
def test_the_pages_of_both_languages_run_the_same_commands(name: str) -> None:
    english, chinese = (
        [
            (block.code, block.where, block.needs, block.picture, [command.text for command in block.commands])
            for block in stories.blocks(stories.page_path(name, language).read_text(encoding="utf-8"))
        ]
        for language in stories.LANGUAGES
    )
    assert english == chinese


def test_make_stories_installs_the_versions_that_a_page_names() -> None:
    installed = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["stories"]
    pages = [stories.page_path(name, language) for name in stories.stories() for language in stories.LANGUAGES]
    named = {
        (path.stem, word)
        for path in pages
        for line in re.findall(r"^pip install (\w.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        for word in line.partition("#")[0].split()
        if "==" in word and not word.startswith("torch==")
    }
    assert {word for _, word in named} == {word for word in installed if isinstance(word, str) and "==" in word}


@pytest.mark.parametrize(
    ("shown", "printed", "written"),
    [
        ("a|b", "a|b", ""),
        ("took 3.2 s on 2026-01-01", "took 14.75 s on 2026-11-23", ""),
        ("  fast  1.5 ms   ok", "  fast  101.5 ms ok", ""),
        ("a|b", "a|c", "a|c"),
        ("a|b", "a|b|c", "a|b|c"),
        ("a|b|c", "a|c", "a|c"),
        ("3 of 4", "3 of 5", "3 of 5"),
        ("1 MiB", "2 MiB", "2 MiB"),
        ("a|...|z", "a|b|c|z", ""),
        ("a|...|z", "a|z", ""),
        ("...", "a|b", ""),
        ("...|a|b", "a|b|x|a|b", ""),
        ("a|...|z", "a|b|c", "a|...|c"),
        ("seed ... of run", "seed 17 of run", ""),
        ("seed ... of run|x", "seed 17 of run|y", "seed ... of run|y"),
        ("a|...|y|z", "a|b|c|Y|z", "a|...|Y|z"),
        ("a|x|...|z", "a|X|b|c|z", "a|X|...|z"),
        ("", "new", "new"),
    ],
)
def test_output_is_compared_line_by_line(shown: str, printed: str, written: str) -> None:
    """`written` is what --write makes of the page; empty: the output is as shown, and nothing changes."""
    before, now, after = (tuple(text.split("|")) if text else () for text in (shown, printed, written or shown))
    assert stories.matches(before, now) is not bool(written)
    assert stories.merged(before, now) == after
    assert stories.matches(after, now)


PAGE = """\
Text.

```console
$ one
out
$ two \\
  and more
```

1. In a list:
   <!-- exit 1 -->
   <!-- skip without: torch, torchvision.ops -->
   ```console
   $ three
     indented
   ```

```python
$ not a command
```

<!-- card -->

<!-- card -->
```console
$ four
```
"""


def test_a_page_is_taken_apart() -> None:
    first, second, third = stories.blocks(PAGE)
    assert first.commands == (stories.Command("one", ("out",)), stories.Command("two \\\n  and more", ()))
    assert (first.code, first.where, first.needs) == (0, "example", ())
    assert second.commands == (stories.Command("three", ("  indented",)),)
    assert (second.code, second.needs, second.indent) == (1, ("torch", "torchvision.ops"), "   ")
    assert third.where == "card"
    assert PAGE.splitlines()[third.last] == "```"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("```console\n$ a\n", "does not end"),
        ("```console\nout\n```", "begins with a command"),
        ("```console\n```", "no whole command"),
        ("```console\n$ a \\\n```", "no whole command"),
        ("<!-- exits 1 -->\n```console\n$ a\n```", "`exits 1` is not known"),
        ("<!-- picture: x.png -->\n```console\n$ a\n```", "not known"),
        ("<!-- picture: ../x.svg -->\n```console\n$ a\n```", "not known"),
    ],
)
def test_a_page_that_cannot_be_run_says_where(page: str, said: str) -> None:
    with pytest.raises(stories.PageError, match=said):
        stories.blocks(page)


RUN = """\
```console
$ cd sub && export WORD=kept
$ echo $WORD in $(basename $PWD); git -C .. log --oneline --format=%s; ls -A ..
kept in sub
small
.git
sub
```

<!-- repository -->
```console
$ false
```

<!-- exit 3 -->
```console
$ echo 7; exit 3
...
$ echo $PWD 1>&2; exit 3
/home/you/small/sub
```
"""


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [("", "", 1), ("exit 3\n...", "true\n...", 0), ("kept in sub", "lost", 2), ("echo 7; exit 3", "echo 7; exit 4", 1)],
)
def test_a_page_runs_as_in_one_terminal(
    old: str, new: str, differences: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that ends with another code, and other output, is each a difference; the rest still runs."""
    monkeypatch.setattr(stories, "ROOT", tmp_path)
    example = tmp_path / "examples" / "small"
    (example / "sub").mkdir(parents=True)
    (example / "sub" / "file").touch()
    page = stories.page_path("small", "en")
    page.parent.mkdir(parents=True)
    page.write_text(RUN.replace(old, new), encoding="utf-8")
    outcome = stories.run_page("small", "en")
    assert len(outcome.differences) == differences
    assert [line.rpartition(": ")[2] for line in outcome.skipped] == ["the public repository is for `make stories`"]
    if old == "kept in sub":
        assert "-lost\n+kept in sub" in outcome.differences[-1]
        assert outcome.text == RUN


def test_a_page_can_end_before_its_first_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "ROOT", tmp_path)
    (tmp_path / "examples" / "small").mkdir(parents=True)
    (tmp_path / "examples" / "small" / "file").touch()
    page = stories.page_path("small", "en")
    page.parent.mkdir(parents=True)
    ran, not_run = (
        "```console\n$ exit 1\n```\n",
        "```console\n$ torchferry rehearse -- false\n```\n```console\n$ exit 2\n```\n",
    )
    page.write_text(ran + not_run, encoding="utf-8")
    (difference,) = stories.run_page("small", "en", rehearsals=False).differences
    assert "ended with 1" in difference
    assert len(stories.run_page("small", "en").differences) > 2


@pytest.mark.parametrize("language", stories.LANGUAGES)
def test_pictures_are_small_and_shown_with_a_text_and_terminals_say_what_the_page_says(language: str) -> None:
    folder = stories.page_path("", language).parent / "img"
    drawn = set()
    for name in stories.stories():
        page = stories.page_path(name, language).read_text(encoding="utf-8")
        for block in stories.blocks(page):
            if not block.picture:
                continue
            drawn.add(block.picture)
            assert re.search(rf"!\[[^\]]+\]\(img/{re.escape(block.picture)}\)", page), block.picture
            kept = (folder / block.picture).read_bytes()
            assert len(kept) <= pictures.LARGEST, block.picture
            if not block.drawing:
                now = pictures.terminal(page.splitlines()[block.first : block.last], block.picture)
                assert not pictures.difference(block.picture, kept, now, of_a_terminal=True), block.picture
    assert {path.name for path in folder.iterdir()} == drawn


FLAME = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><title>{}: 1 ms, {} %</title></svg>'
CURVE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 9"><text>{}</text><path d="{}"/></svg>'


@pytest.mark.parametrize(
    ("kept", "drawn", "said"),
    [
        (FLAME.format("Block", 19.0), FLAME.format("Block", 50.0), ""),
        (FLAME.format("Block", 19.0), FLAME.format("Layer", 1.0), "no longer there: Block"),
        (FLAME.format("Block", 1.0), FLAME.format("Layer", 19.0), "new: Layer"),
        (FLAME.format("aten::mm", 19.0), FLAME.format("aten::bmm", 19.0), ""),
        (FLAME.format("MmBackward0", 19.0), FLAME.format("MulBackward0", 19.0), ""),
        (CURVE.format("loss 0.51", "M1 2L3 4"), CURVE.format("loss 0.52", "M1 2L4 4"), ""),
        (CURVE.format("loss", "M1 2L3 4"), CURVE.format("mIoU", "M1 2L3 4"), "`loss` is `mIoU` now"),
        (CURVE.format("loss", "M1 2L3 4"), CURVE.format("loss", "M1 2L9 4"), "runs elsewhere"),
        (CURVE.format("loss", "M1 2L3 4"), CURVE.format("loss", "M1 2"), "4 numbers, now 2"),
    ],
)
def test_a_picture_whose_content_changed_is_seen(kept: str, drawn: str, said: str) -> None:
    problem = pictures.difference("x.svg", kept.encode(), drawn.encode(), of_a_terminal=False)
    assert said in problem
    assert bool(problem) is bool(said)


PICTURE = """\
<!-- picture: made.svg from drawing.svg -->
```console
$ echo '<svg xmlns="http://www.w3.org/2000/svg"><text>WORD</text></svg>' >drawing.svg
```
"""


def test_a_run_compares_the_picture_that_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "ROOT", tmp_path)
    (tmp_path / "examples" / "small").mkdir(parents=True)
    (tmp_path / "examples" / "small" / "file").touch()
    page = stories.page_path("small", "en")
    page.parent.mkdir(parents=True)
    page.write_text(PICTURE, encoding="utf-8")
    first = stories.run_page("small", "en")
    assert first.differences == ["made.svg: is not there"]
    (page.parent / "img").mkdir()
    (page.parent / "img" / "made.svg").write_bytes(first.pictures["made.svg"])
    assert not stories.run_page("small", "en").differences
    page.write_text(PICTURE.replace("WORD", "other"), encoding="utf-8")
    assert stories.run_page("small", "en").differences == ["made.svg: `WORD` is `other` now"]


def test_what_only_the_first_command_on_a_machine_says_is_on_no_page(tmp_path: Path) -> None:
    said = "torchferry: building the library of the simulated card for torch 2\\ntorchferry: built in 3 s\\nout"
    assert stories.Terminal(tmp_path, tmp_path, "en").run(f"printf '{said}'") == (("out",), 0)
