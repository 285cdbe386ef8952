"""Folders that are nested more deeply than Python calls itself, or than the system takes a path."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from torchferry.core.folders import copy_tree, remove_tree, walk

pytestmark = pytest.mark.pure

LEVELS = 1100
LONG = 300
"""Folders with names of 20 bytes: 6 kB of path, which has 4 kB at most."""


def nested(top: Path, levels: int, name: str, every: int, data: str) -> None:
    """Make folders in each other, with a file in every `every`-th of them, and in the last one."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for level in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
        if level % every == 0 or level == levels - 1:
            with open(os.open("a.py", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w", encoding="utf-8") as file:
                file.write(data)
    os.close(here)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for made in tmp_path.iterdir():  # pytest removes its folders by calling itself, too
        remove_tree(made)
    assert list(tmp_path.iterdir()) == []


USES = "import torch\n\nx = torch.zeros(1).cuda()\n"


def texts(root: Path) -> list[str]:
    return [Path(folder, name).read_text() for folder, _, names in walk(root) for name in names if name == "a.py"]


def test_every_level_is_examined_migrated_copied_and_restored(place: Path) -> None:
    root = place / "deep"
    nested(root, LEVELS, "d", LEVELS, USES)
    files = 2
    found = torchferry("scan", root, "-t", "npu", "-f", "json")
    assert (found.returncode, found.stderr) == (1, "")
    report = json.loads(found.stdout)
    assert report["files"] == files
    assert len({finding["path"] for finding in report["findings"]}) == files
    copied = torchferry("migrate", root, "-t", "npu", "--out", place / "copy", "-q")
    assert (copied.returncode, copied.stderr) == (0, "")
    assert texts(place / "copy") == [USES.replace("cuda", "npu")] * files
    migrated = torchferry("migrate", root, "-t", "npu", "-q", "--allow-dirty")
    assert (migrated.returncode, migrated.stderr) == (0, "")
    undone = torchferry("undo", root)
    assert (undone.returncode, undone.stderr) == (0, "")
    assert texts(root) == [USES] * files


def test_what_no_path_reaches_is_named_and_costs_the_verdict(place: Path) -> None:
    root = place / "long"
    nested(root, LONG, "n" * 20, LONG, USES)
    found = torchferry("scan", root, "-t", "npu", "-f", "json")
    report = json.loads(found.stdout)
    unread = [finding for finding in report["findings"] if "File name too long" in finding["message"]]
    assert found.returncode == 1
    assert len(unread) == 1
    assert unread[0]["grade"] == "manual"
    assert "READY" not in report["verdict"].upper() or "decision" in report["summary"]
    copied = torchferry("migrate", root, "-t", "npu", "--out", place / "copy")
    assert copied.returncode == 2
    assert "File name too long" in copied.stderr
    assert sorted(path.name for path in place.iterdir()) == ["long"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("port", "{root}", "-t", "musa", "--check"),
        ("advise", "{root}", "-t", "npu"),
        ("handover", "prepare", "{root}", "-t", "npu", "--for", "generic", "--out", "{place}/out"),
        ("handover", "check", "{root}", "--for", "generic"),
        ("profile", "show", "{root}"),
        ("setup-test", "{root}", "-t", "npu"),
        ("scan", "{root}", "-t", "npu", "--plan"),
        ("scan", "{root}", "-t", "npu", "--rehearse", "python a.py"),
    ],
)
def test_no_command_ends_by_an_error_of_its_own(place: Path, arguments: tuple[str, ...]) -> None:
    root = place / "deep"
    nested(root, LEVELS, "d", LEVELS, USES)
    done = torchferry(*(word.format(root=root, place=place) for word in arguments), cwd=place)
    assert not any(words in done.stderr for words in ("internal error", "Usage:")), done.stderr
    assert "RecursionError" not in done.stdout + done.stderr


def test_a_tree_is_copied_with_its_links_and_modes_and_removed_without_following_them(place: Path) -> None:
    source, outside = place / "source", place / "outside"
    for folder in (source / "closed", outside):
        folder.mkdir(parents=True)
    (outside / "keep").write_text("x")
    (source / "closed" / "file").write_text("y")
    (source / "link").symlink_to(outside)
    (source / "broken").symlink_to("nowhere")
    (source / "left").write_text("z")
    (source / "closed").chmod(0o500)
    goal = place / "goal"
    goal.mkdir()
    copy_tree(source, goal, lambda folder, names: {"left"})
    assert sorted(os.listdir(goal)) == ["broken", "closed", "link"]
    assert os.readlink(goal / "link") == str(outside)
    assert (goal / "closed").stat().st_mode & 0o777 == 0o500
    remove_tree(goal)
    remove_tree(source)
    remove_tree(place / "outside" / "keep")
    assert sorted(os.listdir(place)) == ["outside"]
    assert (outside / "keep").read_text() == "x"
