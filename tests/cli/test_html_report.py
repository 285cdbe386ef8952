"""The page that the commands write: for the paths that were named, with the code of the files that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.report.html_page import Element, page_of
from torchferry.cli import migrate, scan

PROGRAM = "import flash_attn\nx.cuda()\ntorch.cuda.cudart()\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(f"import torch\nx = torch.ones(2)\n{PROGRAM}", encoding="utf-8")
    return root


def page(command: object, *arguments: object, given: str | None = None) -> Element:
    words = [*map(str, arguments), "-t", "npu", "-f", "html"]
    done = CliRunner().invoke(command, words, input=given)  # type: ignore[arg-type]
    assert done.exit_code == 1, done.output
    return page_of(done.stdout)


def code_lines(page: Element) -> list[tuple[str, str]]:
    """Return the lines that are marked in the code at the places."""
    return [(each.attributes["data-n"] or "", each.raw) for each in page.all("div", "here")]


def commands(page: Element) -> list[str]:
    return [each.text for each in page.all("code") if each.text.startswith("torchferry ")]


def test_a_scan_shows_the_code_and_names_the_paths(tree: Path) -> None:
    written = page(scan.command, tree)
    assert code_lines(written) == [("3", "import flash_attn"), ("5", "torch.cuda.cudart()")]
    of_tree = (each for each in commands(written) if not each.startswith("torchferry doctor"))
    assert all(str(tree) in command for command in of_tree if " " in command.replace("torchferry migrate", ""))


def test_standard_input_has_its_code_too(tree: Path) -> None:
    written = page(scan.command, "-", "--stdin-filename", tree / "train.py", given=f"\n\nimport torch\n{PROGRAM}")
    assert code_lines(written) == [("4", "import flash_attn"), ("6", "torch.cuda.cudart()")]


def test_a_migrated_copy_shows_the_code_of_the_copy(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    written = page(migrate.command, tree, "--out", out)
    assert code_lines(written) == [("4", "import flash_attn"), ("6", "torch.cuda.cudart()")]
    assert all(str(out) in command for command in commands(written) if not command.startswith("torchferry doctor"))
    assert written.first("div", "change")


def test_a_check_shows_the_files_as_they_are(tree: Path) -> None:
    written = page(migrate.command, tree, "--check")
    assert code_lines(written) == [("3", "import flash_attn"), ("5", "torch.cuda.cudart()")]
    assert "safe fixes" in written.text


def test_of_a_patch_there_are_no_files_to_show(tree: Path, tmp_path: Path) -> None:
    written = page(migrate.command, tree, "--patch", tmp_path / "x.diff")
    assert code_lines(written) == []
    assert "flash_attn" in written.text
