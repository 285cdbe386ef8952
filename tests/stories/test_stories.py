"""The stories run as their pages show them, and the tool that runs them sees each difference."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import stories  # noqa: E402


@pytest.mark.rehearsal
@pytest.mark.parametrize("name", stories.stories())
def test_a_page_prints_what_it_shows(name: str) -> None:
    outcome = stories.run_page(name, "en")
    assert not outcome.differences, "\n".join(outcome.differences)


@pytest.mark.parametrize("name", stories.stories())
def test_the_pages_of_both_languages_run_the_same_commands(name: str) -> None:
    english, chinese = (
        [
            (block.code, block.where, block.needs, [command.text for command in block.commands])
            for block in stories.blocks(stories.page_path(name, language).read_text(encoding="utf-8"))
        ]
        for language in stories.LANGUAGES
    )
    assert english == chinese


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
    (example / "repository.toml").touch()
    page = stories.page_path("small", "en")
    page.parent.mkdir(parents=True)
    page.write_text(RUN.replace(old, new), encoding="utf-8")
    outcome = stories.run_page("small", "en")
    assert len(outcome.differences) == differences
    assert [line.rpartition(": ")[2] for line in outcome.skipped] == ["the public repository is for `make stories`"]
    if old == "kept in sub":
        assert "-lost\n+kept in sub" in outcome.differences[-1]
        assert outcome.text == RUN
