"""Every message has its Chinese, with the same values in it; what counts has a form for one thing."""

from __future__ import annotations

import ast
import re
import struct
import sys
from pathlib import Path

import pytest

from torchferry.core.messages import (
    LOCALE,
    Bilingual,
    Message,
    catalogue,
    say,
    say_in,
    say_plural,
    translatable,
)
from torchferry.report.pages import page
from torchferry.rules.registry import rules

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "torchferry"
PLACE = re.compile(r"\{(\w+)(?:![rs])?\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")

MARKS = ("say", "_say", "say_in", "say_plural", "_say_plural", "translatable", "help_text", "unknown_name")


def said() -> dict[tuple[str, str], str]:
    """What the code marks, without the help of commands: context and English (singular) text, to the plural."""
    found: dict[tuple[str, str], str] = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "torchferry.core.messages import" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS and node.args:
                texts = [item.value if isinstance(item, ast.Constant) else "" for item in node.args[:2]]
                if not texts[0]:
                    continue
                if node.func.id == "say_in":
                    found[str(texts[0]), str(texts[1])] = ""
                elif node.func.id.endswith("say_plural"):
                    found["", str(texts[0])] = str(texts[1])
                else:
                    found.setdefault(("", str(texts[0])), "")
    return found


def compiled(domain: str) -> dict[tuple[str, str], tuple[str, str]]:
    """What a compiled catalogue holds: context and English (singular) text, to the plural and the Chinese."""
    data = (LOCALE / "zh" / "LC_MESSAGES" / f"{domain}.mo").read_bytes()
    count, english, chinese = struct.unpack("<3I", data[8:20])
    table = {}
    for number in range(count):
        texts = []
        for start in (english, chinese):
            length, at = struct.unpack_from("<2I", data, start + 8 * number)
            texts.append(data[at : at + length].decode("utf-8"))
        context, _, text = texts[0].rpartition("\4")
        singular, _, plural = text.partition("\0")
        if singular:
            table[context, singular] = (plural, texts[1])
    return table


MESSAGES = compiled("torchferry")


def test_every_message_has_its_chinese() -> None:
    wanted = said()
    assert len(wanted) > 1000
    assert [key for key in wanted if key not in MESSAGES] == [], "`make messages`, then fill in the .po"
    assert [key for key, plural in wanted.items() if MESSAGES[key][0] != plural] == []


OF_CLICK = {"{value!r} is not {choice}.", "Did you mean {possibility}?"}
"""Texts of click's, which gives one value under two names and does not name the number."""


def test_the_chinese_names_the_same_values() -> None:
    unlike = [
        text
        for (_, text), (plural, chinese) in MESSAGES.items()
        if text not in OF_CLICK
        if set(PLACE.findall(chinese)) != set(PLACE.findall(plural or text))
        or not set(PLACE.findall(text)) <= set(PLACE.findall(plural or text))
    ]
    assert unlike == []


def test_the_catalogues_are_as_the_code_needs_them() -> None:
    pytest.importorskip("babel")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import messages  # type: ignore[import-not-found, unused-ignore]
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert list(messages.problems()) == []


PLURALS = (
    "bytes|calls|cells|checks|decisions|devices|elements|failures|files|fixes|kernels|launches|levels|lines|metrics|"
    "operators|packages|places|programs|results|rows|steps|tensors|values|warnings"
)
SEVERAL = re.compile(rf"\{{(\w+)\}} (?:\w+ )?(?:{PLURALS})\b")

ALWAYS_SEVERAL = {
    "{decisions} in {count} places",
    "it has more than {limit} bytes",
    "larger than {limit} bytes: it was not read",
    "{count} programs on {target}: {parts}",
    "{verdict}, {count} after fixes",
    "The target's curve covers only {covered} of {all} values of the reference; there it agrees.",
    "more than {most} programs were found, and only the first {most} were judged",
    "keeps {found} % of {count} elements; {right} % are expected",
    "rank {ranks} has different tensors or is at a different step than the others ({counts} tensors by rank)",
    "the rule's source advises at least {wanted} steps; {count} was judged",
    "{name} calls other operators, which were not seen",
    "{name} opens files: torchferry does not replay it",
}
"""Texts that name things of which there are never fewer than two, or that count nothing."""


def test_what_is_counted_has_a_form_for_one_thing() -> None:
    unlike = sorted(text for (_, text) in MESSAGES if SEVERAL.search(text))
    assert [text for text in unlike if text not in ALWAYS_SEVERAL] == [], "say_plural"
    assert sorted(ALWAYS_SEVERAL - set(unlike)) == []


def test_what_counts_names_the_count() -> None:
    assert [
        plural
        for (_, text), (plural, _) in MESSAGES.items()
        if plural and text not in OF_CLICK and "{count}" not in plural
    ] == []


BANNED = (
    (r"\bunsafe\b(?!-fixes)", "fix to read"),
    (r"(?:cannot|could not) be determined", "could not be resolved"),
    (r"\bnot (?:been )?looked (?:at|into)\b", "not examined"),
    (r"\bpackages? of others\b", "third-party package"),
    (r"\bheld against\b", "compared with"),
    (r"\btaken as a value\b", "used as a value"),
    (r"^Not known for\b", "Not judged for"),
    (r"\bstops (?:one|\{count\}) programs?\b", "blocks"),
    (r"\bbut for unresolved\b", "except for"),
    (r"\bgraphics cards?\b", "card"),
    (r"(?<!there )\bis no (?:folder|file)\b", "is not a folder; is not a file"),
    (r"\bcoding cookie\b", "encoding declaration"),
    ("你", "您"),
    ("待定|待决定|需要?决定的|一项决定", "待决事项"),
    ("不安全", "需过目的修复"),
    ("未能判定", "无法判定"),
    ("未查看", "未检查"),
    ("修复后可用(?!于)", "修复后可运行"),
    ("安全修改", "安全修复"),
    ("第三方库", "第三方软件包"),
    ("显卡", "卡；加速卡"),
    ("归档", "压缩包"),
    ("手动", "手工"),
    ("类似的(?:内容|设置|东西)", "对应物"),
    ("文件夹", "目录"),
    ("被杀死", "被终止"),
    ("撤回", "撤销"),
    ("数据类型", "dtype"),
    ("排练", "演练"),
    ("英伟达", "NVIDIA"),
    (r"\bneeds? hands\b", "to edit by hand"),
    (r"\bmend(?:s|ed)?\b", "correct"),
    (r"\bsince you insist\b", "because of --include"),
    (r"\bwhat rounding explains\b", "the rounding bound"),
    (r"\bmet by rule\b", "meets the rule"),
    (r"\ball the same\b", "anyway"),
    (r"\bnot whole\b", "incomplete"),
    (r"\bcannot be told\b", "it is unknown whether"),
    (r"[\u4e00-\u9fff] ?[,:;?] ?[\u4e00-\u9fff]", "，：；？"),
)
"""Words for which messages have another one, as users meet them: a pattern, and what is said instead."""

NOT_BANNED = {
    "rules of --unsafe replace text anywhere: tokens cannot be compared": "the name of an option",
    "read the rule; without `--unsafe` it was not applied": "the name of an option",
}
"""Messages that have such a word all the same, and why."""


def test_one_thing_has_one_word() -> None:
    unlike = {
        text: f"{text or chinese!r} has {found.group()!r}: {instead}"
        for (_, text), (plural, chinese) in MESSAGES.items()
        for pattern, instead in BANNED
        for found in [re.search(pattern, "\n".join((text, plural, chinese)), re.MULTILINE)]
        if found is not None
    }
    assert [why for text, why in unlike.items() if text not in NOT_BANNED] == []
    assert sorted(NOT_BANNED.keys() - unlike.keys()) == [], "no longer needed"


EXAMINED = ("{root}: {count} file examined for {target}", "{root}: {count} files examined for {target}")
RANKS = (
    "LOCAL_RANK is {rank}, and this process sees {count} device",
    "LOCAL_RANK is {rank}, and this process sees {count} devices",
)
BACK = (
    "undid the migration to {target} of {created}: {count} file restored",
    "undid the migration to {target} of {created}: {count} files restored",
)


@pytest.mark.parametrize(
    ("forms", "values", "english"),
    [
        (EXAMINED, {"root": "p", "count": 1, "target": "npu"}, "p: 1 file examined for npu"),
        (EXAMINED, {"root": "p", "count": 0, "target": "npu"}, "p: 0 files examined for npu"),
        (EXAMINED, {"root": "1", "count": 11, "target": "npu"}, "1: 11 files examined for npu"),
        (EXAMINED, {"root": "p", "count": "?", "target": "npu"}, "p: ? files examined for npu"),
        (RANKS, {"rank": 1, "count": 2}, "LOCAL_RANK is 1, and this process sees 2 devices"),
        (RANKS, {"rank": 3, "count": 1}, "LOCAL_RANK is 3, and this process sees 1 device"),
        (BACK, {"target": "t", "created": "c", "count": 1}, "undid the migration to t of c: 1 file restored"),
    ],
)
def test_one_thing_is_spoken_of_as_one(forms: tuple[str, str], values: dict[str, object], english: str) -> None:
    message = say_plural(*forms, **values)
    assert message.render("en") == english
    assert message.render("zh") == MESSAGES["", forms[0]][1].format(**values)
    assert message.template == forms[1], "what messages are grouped by is the same for one and several"


@pytest.mark.parametrize(
    ("fixes", "files", "english", "chinese"),
    [
        (1, 1, "p: 1 fix applied in 1 file for npu.", "p：已为npu在 1 个文件中应用 1 处修复。"),
        (2, 1, "p: 2 fixes applied in 1 file for npu.", "p：已为npu在 1 个文件中应用 2 处修复。"),
        (1, 2, "p: 1 fix applied in 2 files for npu.", "p：已为npu在 2 个文件中应用 1 处修复。"),
    ],
)
def test_what_counts_twice_is_made_of_phrases(fixes: int, files: int, english: str, chinese: str) -> None:
    message = say(
        "{root}: {fixes} applied in {files} for {target}.",
        root="p",
        fixes=say_plural("{count} fix", "{count} fixes", count=fixes),
        files=say_plural("{count} file", "{count} files", count=files),
        target="npu",
    )
    assert message.render("en") == english
    assert message.render("zh") == chinese


def test_a_context_tells_two_meanings_of_a_word_apart() -> None:
    assert say_in("check", "memory").render("zh") != say_in("family of rules", "memory").render("zh")
    assert say_in("check", "memory").render("en") == "memory"


def test_what_the_catalogue_lacks_is_said_in_english() -> None:
    assert say("no such message").render("zh") == "no such message"
    assert say_in("check", "no such message").render("zh") == "no such message"
    assert say_plural("{count} wug", "{count} wugs", count=1).render("zh") == "1 wug"
    assert say_plural("{count} wug", "{count} wugs", count=2).render("zh") == "2 wugs"
    assert translatable("no such message") == "no such message"
    assert Message("{name}", (("name", "n"),)).render("zh") == "n"


def test_every_rule_has_its_page_in_both_languages() -> None:
    for rule in rules():
        english = sys.modules[type(rule).__module__].__doc__ or ""
        title, blank, body = english.strip().partition("\n\n")
        assert title, rule.CODE
        assert blank, f"{rule.CODE}: a page has a title, a blank line and a body"
        assert body.strip(), rule.CODE
        chinese = page(rule.CODE, "zh")
        assert CHINESE.search(chinese.title), rule.CODE
        assert chinese.body.strip(), rule.CODE
    assert len(compiled("rules")) > len(rules()), "the text of each, and its reason"


def test_values_are_rendered_in_the_language_of_the_message() -> None:
    message = say("{message}; {note}", message=say("note"), note=Bilingual("four", "四"))
    assert message.render("en") == "note; four"
    assert message.render("zh") == "说明；四"


def test_an_english_run_reads_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.core.messages.LOCALE", Path("/nonexistent"))
    catalogue.cache_clear()
    assert say_plural("{count} file", "{count} files", count=1).render("en") == "1 file"
    assert say_in("check", "memory").render("en") == "memory"
    catalogue.cache_clear()
