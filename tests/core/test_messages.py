"""Every message has its Chinese, with the same values in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from torchferry.core import toml
from torchferry.core.messages import Bilingual, say
from torchferry.report.text_format import GRADE_TITLES
from torchferry.rules.kept import Why
from torchferry.rules.registry import rules

SOURCE = Path(__file__).parent.parent.parent / "src" / "torchferry"
CATALOG = {row["en"]: row["zh"] for row in toml.load(SOURCE / "core" / "zh.toml")["message"]}
KINDS = ("rule", "target", "setting", "card", "dtype", "setting of a fault", "kind of fault")
"""What `unknown_name` is asked about."""

PLACE = re.compile(r"\{(\w+)\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def templates() -> list[str]:
    found = {*GRADE_TITLES.values(), *(why.value for why in Why), *KINDS}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "_say"):
                if node.args and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return sorted(found)


@pytest.mark.parametrize("template", templates())
def test_every_message_has_its_chinese(template: str) -> None:
    chinese = CATALOG.get(template)
    assert chinese, f"core/zh.toml lacks: {template}"
    assert set(PLACE.findall(chinese)) == set(PLACE.findall(template))


def test_the_catalog_has_nothing_else() -> None:
    assert sorted(CATALOG.keys() - set(templates())) == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.CODE)
def test_every_rule_has_its_page_in_both_languages(rule: object) -> None:
    import sys

    english = sys.modules[type(rule).__module__].__doc__ or ""
    chinese = rule.CHINESE  # type: ignore[attr-defined]
    for text in (english, chinese):
        title, blank, body = text.strip().partition("\n\n")
        assert title, text
        assert blank, "a page has a title, a blank line and a body"
        assert body.strip()
    assert CHINESE.search(chinese.partition("\n\n")[0])


def test_values_are_rendered_in_the_language_of_the_message() -> None:
    message = say("{message}; {note}", message=say("note"), note=Bilingual("four", "四"))
    assert message.render("en") == "note; four"
    assert message.render("zh") == "说明；四"
