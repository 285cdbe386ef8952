"""The pages that show a report, and a decision from the report to the commit, show what is printed now."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.report.reports import EXAMPLE
from torchferry.cli import cli

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import stories  # noqa: E402

SECTIONS = {
    "en": ("docs/en/migrating.md", "## One decision, from the report to the commit", "README.md"),
    "zh": ("docs/zh/migrating.md", "## 一项待决事项：从报告到提交", "README.zh-CN.md"),
}


def printed(command: str) -> tuple[str, ...]:
    """Return the lines that a command prints in the current folder, errors among them."""
    done = CliRunner().invoke(cli, shlex.split(command.removeprefix("torchferry ")))
    assert done.exit_code in (0, 1), f"{command}: {done.output} {done.exception}"
    return tuple(line.rstrip() for line in done.output.rstrip("\n").split("\n"))


def fences(text: str) -> list[list[str]]:
    """Return the lines of each block of a page."""
    return [block.split("\n")[1:-1] for block in re.findall(r"^```[\s\S]*?^```$", text, re.MULTILINE)]


@pytest.mark.parametrize("lang", SECTIONS)
def test_one_decision_goes_as_its_page_shows(lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, title, _ = SECTIONS[lang]
    section = (ROOT / name).read_text(encoding="utf-8").partition(f"{title}\n")[2].partition("\n## ")[0]
    program, *sessions = fences(section)
    project, example = tmp_path / "project", tmp_path / EXAMPLE.name
    project.mkdir()
    shutil.copytree(EXAMPLE, example)
    for path in ("train.py", "evaluate.py"):
        (project / path).write_text("\n".join((*program, "")), encoding="utf-8")
    for folder in (project, example):
        for words in (("init", "-q"), ("config", "user.name", "Ada Lin")):
            subprocess.run(["git", *words], cwd=folder, check=True)
    monkeypatch.chdir(project)
    for lines in sessions:
        if not lines[0].startswith("$ "):  # the file of decisions
            kept = (project / "torchferry-decisions.toml").read_text(encoding="utf-8")
            assert "\n".join(lines) in kept
            continue
        if lines[0].startswith("$ torchferry scan . -t musa -q"):  # an edit of the line
            changed = (project / "train.py").read_text(encoding="utf-8").replace(">= (8, 0)", ">= (9, 0)")
            (project / "train.py").write_text(changed, encoding="utf-8")
        if "PRC102" in lines[0]:
            monkeypatch.chdir(example)
        for command in stories._commands(lines, 0):
            shown = printed(command.text)
            assert stories.matches(command.printed, shown), "\n".join((command.text, *shown))


@pytest.mark.parametrize("lang", SECTIONS)
def test_the_read_me_shows_the_present_screen(lang: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / SECTIONS[lang][2]).read_text(encoding="utf-8")
    monkeypatch.chdir(shutil.copytree(EXAMPLE, tmp_path / EXAMPLE.name))
    shown = printed("torchferry scan . -t npu")
    screens = [tuple(lines) for lines in fences(page) if lines and lines[0] == shown[0]]
    assert len(screens) == 1, shown[0]
    assert stories.matches(screens[0], shown), "\n".join(shown)
