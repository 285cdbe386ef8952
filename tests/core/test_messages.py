"""Every message has its Chinese, with the same values in it."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from torchferry.core import toml
from torchferry.core.messages import Bilingual, _in_singular, say, singular_forms
from torchferry.report.text_format import GRADE_TITLES, STAGE_TITLES
from torchferry.rules.kept import Why
from torchferry.rules.registry import rules

SOURCE = Path(__file__).parent.parent.parent / "src" / "torchferry"
CATALOG = {row["en"]: row["zh"] for row in toml.load(SOURCE / "core" / "zh.toml")["message"]}
KINDS = ("rule", "target", "setting", "card", "dtype", "setting of a fault", "kind of fault")
"""What `unknown_name` is asked about."""

PLACE = re.compile(r"\{(\w+)\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def templates() -> list[str]:
    found = {*GRADE_TITLES.values(), *STAGE_TITLES.values(), *(why.value for why in Why), *KINDS}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "_say"):
                if node.args and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return sorted(found)


def test_every_message_has_its_chinese() -> None:
    wanted = templates()
    assert len(wanted) > 1000
    assert [template for template in wanted if not CATALOG.get(template)] == [], "core/zh.toml lacks them"
    assert [
        template for template in wanted if set(PLACE.findall(CATALOG[template])) != set(PLACE.findall(template))
    ] == [], "the Chinese names other values"


def test_the_catalog_has_nothing_else() -> None:
    assert sorted(CATALOG.keys() - set(templates())) == []


NEUTRAL = {
    "decisions that the code asks for, and this run did without: {count}",
    "it ended well on {card}: operators that ran there: {count}",
    "... and {count} more",
    "  ... and {count} more",
    "and {count} more, in the JSON report",
    "Left to do: {count}",
    "What would change: {count}",
    "Packages of the environment: {count} reached, {told} to look at",
    "asks libtorch for CUDA only where a switch asks for it (uses: {count}): leave the switch off on {target}",
    "asks libtorch for CUDA: on {target} the device is `{device}` and its dispatch key is `{key}`; port what uses "
    "CUDA's streams and kernels (uses: {count}; lines: {lines})",
    "{count} ({names})",
    "Too many indices (total {count}) to print",
    "WOULD FAIL on the card; findings: {count}, places: {places}",
    "Words of CUDA that stay as they are: {count}",
    "keeps {found} % of {count} elements, and {right} % are expected",
    "processes that ended before they could count: {count}; their lines are in {path}, each as used once",
    "processes that ended without their counts: {count}",
    "rank {ranks} has other tensors or is at another step than the others ({counts} tensors by rank)",
    "{count} on the PCI bus: {names}",
    "{count} rewritten by your table",
    "{count} would be written",
    "{count} written",
    "{file} speaks of line {line} of {path}, which has {count}",
    "{first} to {last} of {count} in the first dimension",
    "{name} names device {number}, and there are {count}",
}
"""Templates that say a number of things and read alike for one."""

COUNTS = re.compile(
    r"\{(count)\}|\{(\w+)\} (?:bytes|calls|devices|elements|failures|files|fixes|kernels|launches|operators|results|"
    r"steps|tensors|warnings)\b"
)


def test_what_is_counted_has_a_form_for_one_thing() -> None:
    unlike = {
        template
        for template in templates()
        for match in COUNTS.finditer(template)
        if template not in NEUTRAL and _in_singular(template, [match[1] or match[2]]) == template
    }
    assert sorted(unlike) == [], "add the form to core/singular.py"
    assert sorted(NEUTRAL - set(templates())) == []


def test_every_form_for_one_thing_is_said_somewhere() -> None:
    said = {PLACE.sub("{}", template) for template in templates()}
    plain = {form: PLACE.sub("{}", form) for form, _ in singular_forms()}
    assert [form for form, text in plain.items() if not any(text in template for template in said)] == []


EXAMINED = "{root}: {files} files examined for {target}"
FIXED = "{root}: {fixes} fixes applied in {files} files for {target}."
RANKS = "LOCAL_RANK is {rank}, and this process sees {count} devices"
BACK = "took back the migration to {target} of {created}: {count} files are as they were"


@pytest.mark.parametrize(
    ("template", "values", "english"),
    [
        (EXAMINED, {"root": "p", "files": 1, "target": "npu"}, "p: 1 file examined for npu"),
        (EXAMINED, {"root": "p", "files": 0, "target": "npu"}, "p: 0 files examined for npu"),
        (EXAMINED, {"root": "1", "files": 11, "target": "npu"}, "1: 11 files examined for npu"),
        (FIXED, {"root": "p", "fixes": 1, "files": 1, "target": "npu"}, "p: 1 fix applied in 1 file for npu."),
        (FIXED, {"root": "p", "fixes": 2, "files": 1, "target": "npu"}, "p: 2 fixes applied in 1 file for npu."),
        (RANKS, {"rank": 1, "count": 2}, "LOCAL_RANK is 1, and this process sees 2 devices"),
        (RANKS, {"rank": 3, "count": 1}, "LOCAL_RANK is 3, and this process sees 1 device"),
        (BACK, {"target": "t", "created": "c", "count": 1}, "took back the migration to t of c: 1 file is as it was"),
    ],
)
def test_one_thing_is_spoken_of_as_one(template: str, values: dict[str, object], english: str) -> None:
    message = say(template, **values)
    assert message.render("en") == english
    assert message.render("zh") == CATALOG[template].format(**values)


def test_every_rule_has_its_page_in_both_languages() -> None:
    for rule in rules():
        english = sys.modules[type(rule).__module__].__doc__ or ""
        for text in (english, rule.CHINESE):
            title, blank, body = text.strip().partition("\n\n")
            assert title, rule.CODE
            assert blank, f"{rule.CODE}: a page has a title, a blank line and a body"
            assert body.strip(), rule.CODE
        assert CHINESE.search(rule.CHINESE.partition("\n\n")[0]), rule.CODE


def test_values_are_rendered_in_the_language_of_the_message() -> None:
    message = say("{message}; {note}", message=say("note"), note=Bilingual("four", "四"))
    assert message.render("en") == "note; four"
    assert message.render("zh") == "说明；四"
