"""`scan --since`: what a change brings is what it brings, and nothing of it is passed over."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from torchferry.cli import scan
from torchferry.core.finding import Anchor, Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.report.since import added_lines, brought, renames

TRAIN = """import torch


def main():
    model = torch.nn.Linear(2, 2).cuda()
    print(model)


main()
"""
OTHER = 'import torch\n\n\ndef device():\n    return torch.device("cuda")\n\n\ndef count():\n    return 1\n'
BEFORE = {
    "train.py": TRAIN,
    "lib/other.py": OTHER,
    "names.py": "",
    "user.py": "from names import *\n\n\ndef wait():\n    torch.cuda.synchronize()\n",
    "run.sh": "python train.py\n",
    "data.bin": "x",
}


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for path, text in BEFORE.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, newline="")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "checkout", "-q", "-b", "change")
    return folder


def since(*arguments: object, status: int, revision: str = "main") -> dict[str, Any]:
    words = [*map(str, arguments), "--since", revision, "-t", "npu", "--lang", "en", "-f", "json"]
    done = CliRunner().invoke(scan.command, words)
    assert done.exit_code == status, done.output
    return dict(json.loads(done.stdout))


def places(document: dict[str, Any]) -> set[tuple[str, int, str]]:
    return {(each["path"], each["line"], each["code"]) for each in document["findings"]}


def edit(project: Path, path: str, change: Callable[[str], str]) -> None:
    (project / path).write_text(change((project / path).read_text()), newline="")


def moved(project: Path) -> None:
    git(project, "mv", "lib/other.py", "lib/renamed.py")
    edit(project, "lib/renamed.py", lambda text: text.replace("return 1", "return 2"))


CHANGES: dict[str, tuple[Callable[[Path], object], set[tuple[str, int, str]], int]] = {
    "nothing": (lambda project: None, set(), 0),
    "lines that move": (lambda p: edit(p, "train.py", lambda text: "# one more\n\n" + text), set(), 0),
    "line ends of Windows": (lambda p: edit(p, "train.py", lambda text: text.replace("\n", "\r\n")), set(), 0),
    "a file with another name": (moved, set(), 0),
    "a second equal call before the first": (
        lambda p: edit(
            p, "train.py", lambda text: text.replace("    model", "    x = torch.ones(2).cuda()\n    model")
        ),
        {("train.py", 5, "DEV103")},
        0,
    ),
    "a new file that git does not know yet": (
        lambda p: (p / "新.py").write_text("import torch\ntorch.cuda.synchronize()\n"),
        {("新.py", 2, "CUD101")},
        0,
    ),
    "a name that another file gets its meaning from": (
        lambda p: edit(p, "names.py", lambda text: "import torch\n"),
        {("user.py", 5, "CUD101")},
        1,  # it could not be resolved before
    ),
    "a call that goes": (
        lambda p: edit(p, "train.py", lambda text: text.replace(".cuda()", "")),
        set(),
        1,
    ),
    "a file that goes": (lambda p: (p / "lib" / "other.py").unlink(), set(), 1),
    "a copy of a file that stays": (
        lambda p: (p / "copy.py").write_text(OTHER),
        {("copy.py", 5, "DEV101")},
        0,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_brings(project: Path, name: str) -> None:
    change, new, gone = CHANGES[name]
    change(project)
    document = since(project, status=int(bool(new)))
    work = {place for place in places(document) if place[2] not in ("IMP101", "IMP102")}  # a program's own imports
    assert work == new
    assert document["since"]["gone"] >= gone if gone else document["since"]["gone"] == 0
    assert document["verdict"] == ("something new" if new else "nothing new")
    assert document["programs"] == []
    git(project, "add", "-A")
    git(project, "commit", "-q", "--allow-empty", "-m", "two")
    assert places(since(project, status=int(bool(new)))) == places(document)
    assert since(project, status=0, revision="HEAD")["since"]["changed"] == []


def test_files_that_are_named_and_a_folder_of_the_repository(project: Path) -> None:
    edit(project, "train.py", lambda text: text.replace(".cuda()", ".cuda(0)"))
    edit(project, "lib/other.py", lambda text: text + "\n\ntorch.cuda.synchronize()\n")
    assert {path for path, *_ in places(since(project / "lib" / "other.py", status=1))} == {"lib/other.py"}
    assert {path for path, *_ in places(since(project / "lib", status=1))} == {"other.py"}
    (project / "lib" / "new.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    assert {path for path, *_ in places(since(project / "lib" / "new.py", status=1))} == {"lib/new.py"}


def test_a_file_that_cannot_be_read_is_never_nothing_new(project: Path) -> None:
    (project / "train.py").write_bytes(b"import torch\ntorch.cuda.synchronize()\n\xff")
    assert since(project, status=1)["verdict"] == "something new"


@pytest.mark.parametrize(("before", "now"), [("def f(:\n", "def f(:\n# cuda\n"), ("#" * 300, "#" * 299 + "!")])
def test_a_changed_file_that_could_not_be_examined_before_either_is_never_nothing_new(
    project: Path, before: str, now: str
) -> None:
    (project / "torchferry.toml").write_text("max-file-size = 250\n")
    (project / "broken.py").write_text(f"import torch\n{before}# torch.cuda\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "broken")
    assert since(project, status=0, revision="HEAD")["since"]["changed"] == []
    (project / "broken.py").write_text(f"import torch\n{now}# torch.cuda\n")
    document = since(project, status=1, revision="HEAD")
    assert document["since"]["changed"] == ["broken.py"]
    assert {each["path"] for each in document["findings"]} == {"broken.py"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "nowhere"], "git knows no commit that `nowhere` shares"),
        (["--since", "--output=x"], "git knows no commit"),
        (["--since", "main", "--plan"], "--since works only with"),
        (["--since", "main", "-f", "html"], "--since works only with"),
        (["--since", "main", "--style", "portable"], "--since works only with"),
    ],
)
def test_wrong_use(project: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(scan.command, [str(project), "-t", "npu", "--lang", "en", *words])
    assert said in str(getattr(done.exception, "message", done.output)) or said in done.output + repr(done.exception)
    assert not (project / "x").exists()


def test_outside_of_git_and_without_the_history(project: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text(TRAIN)
    done = CliRunner().invoke(scan.command, [str(plain), "-t", "npu", "--since", "main", "--isolated"])
    assert done.exit_code != 0
    shallow = tmp_path / "shallow"
    git(project, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{project}", str(shallow))
    done = CliRunner().invoke(scan.command, [str(shallow), "-t", "npu", "--since", "HEAD~1"])
    assert done.exit_code != 0


def finding(line: int, text: str) -> Finding:
    return Finding("DEV103", Location("a.py", line, 1, line, 2), say("x"), Grade.SAFE, anchor=Anchor("f", text, line))


TEXTS = st.lists(st.sampled_from("ab"), max_size=6)


@given(TEXTS, TEXTS)
def test_nothing_is_counted_twice_and_nothing_is_lost(before: list[str], now: list[str]) -> None:
    earlier = [finding(number, text) for number, text in enumerate(before, 1)]
    present = [finding(number, text) for number, text in enumerate(now, 1)]
    compared = brought(earlier, present, {}, {})
    for text in "ab":
        more = now.count(text) - before.count(text)
        assert sum(each.anchor.text == text for each in compared.new) == max(0, more)
        assert sum(each.anchor.text == text for each in compared.gone) == max(0, -more)


@given(st.lists(st.sampled_from(["a", "b", ""]), max_size=8), st.integers(0, 8))
def test_a_line_that_is_added_is_an_added_line(lines: list[str], at: int) -> None:
    text = "\n".join(lines)
    more = "\n".join([*lines[:at], "new", *lines[at:]])
    assert [more.splitlines()[number - 1] for number in added_lines(text, more)].count("new") == 1


def test_a_name_goes_to_one_file_alone() -> None:
    gone = {"a.py": "1\n2\n3\n4\n", "b.py": "1\n2\n3\n5\n"}
    assert renames(gone, {"c.py": "1\n2\n3\n4\n", "d.sh": "1\n2\n3\n5\n"}) == {"a.py": "c.py"}
    assert renames({"a.py": ""}, {"b.py": ""}) == {}
