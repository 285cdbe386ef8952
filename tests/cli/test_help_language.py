"""`--help` speaks the user's language, and an English run pays nothing for it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from tests.cli.process import torchferry
from torchferry.cli import cli, speaking
from torchferry.cli.chinese_help import _wrapped, click_in_chinese
from torchferry.core.messages import display_width

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def commands(command: click.Command, parent: click.Context | None = None) -> Iterator[tuple[str, click.Context]]:
    """Yield every command with its context, from the root."""
    context = command.context_class(command, parent, command.name if parent else "torchferry", terminal_width=78)
    yield context.command_path, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, context)


def test_every_help_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHFERRY_LANG", "zh")
    with click_in_chinese():
        shown = {path: context.get_help() for path, context in commands(speaking(cli))}
    assert len(shown) > 20
    assert [path for path, text in shown.items() if not text.startswith("用法：") or "选项：" not in text] == []
    english = [
        (path, text[:30])
        for path, context in commands(cli)
        for text in (context.command.help, *(getattr(option, "help", None) for option in context.command.params))
        if text
    ]
    assert len(english) > 150
    assert [(path, text) for path, text in english if text in shown[path]] == []
    words = ("[OPTIONS]", "COMMAND [ARGS]", "Usage", "INTEGER", "FLOAT", "TEXT")
    assert [(path, word) for path, text in shown.items() for word in words if word in text] == []
    assert "环境变量：" in shown["torchferry"]
    assert "退出码：" in shown["torchferry"]
    too_long = [
        line for text in shown.values() for line in text.split("\n") if display_width(line) > 78 and "。" in line
    ]
    assert too_long == []


def test_english_help_is_as_before_after_a_chinese_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: context.get_help() for path, context in commands(cli)}
    monkeypatch.setenv("TORCHFERRY_LANG", "zh")
    with click_in_chinese():
        assert all(CHINESE.search(context.get_help()) for _, context in commands(speaking(cli)))
    monkeypatch.setenv("TORCHFERRY_LANG", "en")
    assert {path: context.get_help() for path, context in commands(speaking(cli))} == before
    assert not any(CHINESE.search(text) for text in before.values())


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, []),
        ("短句。", 10, ["短句。"]),
        ("恢复上一次迁移", 8, ["恢复上一", "次迁移"]),
        ("恢复上一次，迁移", 10, ["恢复上一", "次，迁移"]),
        ("写入 train.py 文件", 12, ["写入", "train.py 文", "件"]),
        ("a word that is not broken", 10, ["a word", "that is", "not broken"]),
    ],
)
def test_lines_are_broken_where_chinese_may_be(text: str, width: int, lines: list[str]) -> None:
    assert _wrapped(text, width) == lines
    assert all(display_width(line) <= width for line in lines)


def test_wrong_use_is_told_in_the_users_language() -> None:
    chinese = torchferry("scan", "--bogus", env={"TORCHFERRY_LANG": "zh"})
    assert chinese.returncode == 2
    assert chinese.stderr.startswith("用法：torchferry scan")
    assert "错误：没有选项" in chinese.stderr
    assert "是否想用 '--target'？" in torchferry("scan", "--tarrget", "x", env={"TORCHFERRY_LANG": "zh"}).stderr
    assert "不是以下取值之一：'text', " in torchferry("scan", "-f", "x", env={"TORCHFERRY_LANG": "zh"}).stderr
    assert "'x' 不是有效的整数" in torchferry("scan", "-j", "x", env={"TORCHFERRY_LANG": "zh"}).stderr
    assert "是否想用 `scan`？" in torchferry("scna", env={"TORCHFERRY_LANG": "zh"}).stderr
    english = torchferry("scna", env={"LC_ALL": "C.UTF-8"})
    assert "Did you mean `scan`?" in english.stderr
    assert not CHINESE.search(english.stderr)


def test_an_english_help_reads_no_catalogue() -> None:
    show = "import sys, torchferry.cli as it; sys.argv = ['torchferry', '--help']\n"
    show += "try:\n    it.main()\nfinally:\n    print(sorted(name for name in sys.modules if 'chinese' in name))\n"
    show += "    print('reads', it.say.__globals__['catalogue'].cache_info().currsize)\n"
    done = subprocess.run(
        [sys.executable, "-c", show], env={"LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False
    )
    assert "Usage: torchferry" in done.stdout
    assert "[]\nreads 0\n" in done.stdout
