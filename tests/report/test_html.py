"""The page: whole, self-contained, inert whatever a project calls its files, and usable without its script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from tests.report.reports import hostile, real
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.core.terminal import visible
from torchferry.report import html_data, html_format, html_words
from torchferry.report.headline import verdict_sentence
from torchferry.report.html_escape import json_in_html, marked, paragraphs
from torchferry.report.model import FileDiff, ProjectVerdict, Report
from torchferry.report.side_by_side import rows

FOLDER = Path(html_format.__file__).parent / "html"
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")
SCRIPT = (FOLDER / "script.js").read_text(encoding="utf-8")
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """A parsed page: its elements with their attributes, its texts, and what it holds in style, script and data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script", "template"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    @property
    def data(self) -> dict[str, object]:
        data: dict[str, object] = json.loads(self.raw["template"])
        return data

    def having(self, name: str) -> list[str | None]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def report_with(*findings: Finding, diffs: tuple[FileDiff, ...] = ()) -> Report:
    return Report("npu", real().target_title, "x", 1, findings, diffs=diffs)


REPORTS = [real(), real("ptex"), hostile(), report_with()]
NAMES = ["npu", "ptex", "hostile", "empty"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_page_is_balanced_and_asks_for_nothing(report: Report, lang: str) -> None:
    text = html_format.render(report, lang)
    page = Page(text)
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "link", "object", "embed", "form", "base", "video", "audio", "source")
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style", "action", "srcset")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"https?:|@import|url\(", STYLE + SCRIPT, re.IGNORECASE)


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_policy_allows_this_style_and_this_script_alone(report: Report) -> None:
    page = Page(html_format.render(report, "en"))
    (policy,) = [a["content"] or "" for _, a in page.elements if "http-equiv" in a]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.raw[kind].encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_what_is_referred_to_is_there_once(report: Report) -> None:
    page = Page(html_format.render(report, "en"))
    ids = Counter(page.having("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    for name in (*page.having("aria-labelledby"), *page.having("list")):
        assert name in ids
    for link in page.having("href"):
        assert (link or "")[1:] in ids


def test_hostile_texts_are_inert() -> None:
    text = html_format.render(hostile(), "en")
    assert text.count("<script") == text.count("</script>") == 1
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u2028" not in text
    assert "\\udce9" in text
    text.encode("utf-8")
    data = Page(text).raw["template"]
    assert not set("<>&\u2028\u2029") & set(data)
    strings = json.loads(data)["strings"]
    assert any("</script><img src=x onerror=alert(1)>" in string for string in strings)
    assert not any("\n" in string or "\r" in string for string in strings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("中文\u3000全角\u00a0", "中文\u3000全角\u00a0"),
        ("\ttab", "\ttab"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("\x1b[31m\n\udce9", "\\x1b[31m\\n\\udce9"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_markup_is_escaped_before_code_is_marked() -> None:
    assert marked("use `a<b>` & <i>") == "use <code>a&lt;b&gt;</code> &amp; &lt;i&gt;"
    assert marked("an ` alone") == "an ` alone"
    assert paragraphs("one\ntwo\n\n- `x`\n- <b>") == (
        '<p>one\ntwo</p><p class="kept">- <code>x</code>\n- &lt;b&gt;</p>'
    )
    assert json.loads(json_in_html(["</script>&\u2028"])) == ["</script>&\u2028"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("report", REPORTS[:2], ids=NAMES[:2])
def test_without_its_script_the_page_says_everything(report: Report, lang: str) -> None:
    page = Page(html_format.render(report, lang))
    text = page.text
    assert verdict_sentence(report).render(lang) in text
    for finding in report.findings:
        assert " ".join(visible(finding.message.render(lang)).replace("`", "").split()) in text
        assert f"{finding.location.line}:{finding.location.column}" in text
    for counts in report.by_family.values():
        assert all(f" {count} " in f" {text} " for count in counts.values())
    for diff in report.diffs:
        assert diff.path in text


def test_the_verdict_comes_first_and_says_how_bad_it_is() -> None:
    place = Location("a.py", 1, 1, 1, 2)
    for findings, verdict, css in (
        ((), ProjectVerdict.READY, "safe"),
        ((Finding("DEV101", place, say("x"), Grade.SAFE),), ProjectVerdict.AFTER_FIXES, "safe"),
        ((Finding("DEV101", place, say("x"), Grade.MANUAL),), ProjectVerdict.AFTER_WORK, "unsafe"),
        ((Finding("EXT102", place, say("x"), Grade.MANUAL, blocker=True),), ProjectVerdict.BLOCKED, "manual"),
    ):
        report = report_with(*findings)
        assert report.verdict is verdict
        text = html_format.render(report, "en")
        assert f'class="verdict {css}"' in text
        assert text.index("<h1") < text.index("<h2") if findings else "<h2" not in text
        assert ('id="blockers"' in text) == (verdict is ProjectVerdict.BLOCKED)


def test_alike_blockers_are_said_once_with_their_places() -> None:
    findings = [
        Finding("EXT102", Location(f"k{n}.cu", n, 1, n, 2), say(f"port {n % 6}"), Grade.MANUAL, blocker=True)
        for n in range(1, 61)
    ]
    text = html_format.render(report_with(*findings), "en")
    blocking = text[text.index('id="blockers"') : text.index('id="counts"')]
    for n in range(6):
        assert blocking.count(f"<p>port {n}</p>") == 1
    for n in range(1, 61):
        assert blocking.count(f"k{n}.cu:{n}:1") == 1


def test_the_data_holds_every_finding_and_change() -> None:
    report = real()
    data = Page(html_format.render(report, "en")).data
    strings, findings, diffs = data["strings"], data["findings"], data["diffs"]
    assert isinstance(strings, list)
    assert isinstance(findings, list)
    assert isinstance(diffs, list)
    read = [(strings[f[0]], f[1], f[2], strings[f[4]], f[5], strings[f[7]], strings[f[8]]) for f in findings]
    assert read == [
        (f.location.path, f.location.line, f.location.column, f.code, f.grade.value, f.message.render("en"), f.snippet)
        for f in report.findings
    ]
    assert [path for path, _ in diffs] == [diff.path for diff in report.diffs]
    assert diffs
    for (_, lines), diff in zip(diffs, report.diffs, strict=True):
        assert sides(lines) == (diff.before.splitlines(), diff.after.splitlines())


def sides(lines: list[list[object]]) -> tuple[list[str], list[str]]:
    """Return both versions of a file, put together again from the rows of the data; line numbers are checked."""
    before: list[str] = []
    after: list[str] = []
    for sign, left, right, *rest in lines:
        if sign == ".":
            count, held = rest
            assert isinstance(held, list)
            assert len(held) == count
            assert (left, right) == (len(before) + 1, len(after) + 1)
            before += held
            after += held
        elif sign == "=":
            before.append(str(rest[0]))
            after.append(str(rest[0]))
            assert (left, right) == (len(before), len(after))
        else:
            for number, parts, side in ((left, rest[0], before), (right, rest[1], after)):
                assert isinstance(parts, list)
                if number:
                    side.append("".join(parts))
                    assert number == len(side)
    return before, after


def test_long_lines_and_many_unchanged_lines_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x = '" + "a" * 500_000
    diff = FileDiff("a.py", f"{long}cuda{long}\n" + "same\n" * 900, f"{long}npu{long}\n" + "same\n" * 900)
    report = report_with(diffs=(diff,))
    text = html_format.render(report, "en")
    assert len(text) < 100_000
    assert "cud" in Page(text).raw["template"]
    monkeypatch.setattr(html_data, "FOLDED", 1000)
    data = Page(html_format.render(report, "en")).raw["template"]
    assert data.count("same") == 3
    assert '[".",5,5,897,null]' in data


def test_like_lines_stand_side_by_side() -> None:
    before = "import torch\nx = a.cuda()\n"
    after = "import torch\nimport plugin\n\nx = a.npu()\n"
    found = [(row.left, row.right) for row in rows(before, after)]
    assert found == [(1, 1), (0, 2), (0, 3), (2, 4)]
    (change,) = [row for row in rows(before, after) if row.left and row.changed]
    assert [part.text for part in change.before if part.changed] == ["cuda"]
    assert [part.text for part in change.after if part.changed] == ["npu"]


def test_lines_are_counted_as_editors_count_them() -> None:
    text = "a\x0cb\u2028c\r\nd\re\n"
    assert [row.left for row in rows(text, text + "f\n") if row.left] == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("0,\n" * 20_000, "1,\n" + "0,\n" * 9_000 + "1,\n" + "0,\n" * 10_999 + "2,\n"),
        ("0,\n" * 20_000, "1,\n" + "0,\n" * 9_000 + "1,\n" + "0,\n" * 10_000 + "2,\n"),
        ("x " * 500_000, "x " * 200_000 + "y" + "x " * 300_000),
    ],
    ids=["same length", "other length", "one line"],
)
def test_large_files_of_like_lines_are_compared_at_once(before: str, after: str) -> None:
    shown_rows = list(rows(before, after))
    last = [row for row in shown_rows if row.right][-1]
    assert last.right == after.count("\n") or last.right == 1


def test_a_large_report_stays_small() -> None:
    findings = [
        Finding("DEV101", Location(f"m{n // 50}.py", n % 50 + 1, 1, n % 50 + 1, 5), say("device string"), Grade.SAFE,
                snippet="'cuda'")
        for n in range(20_000)
    ]  # fmt: skip
    text = html_format.render(report_with(*findings), "en")
    assert len(text) / len(findings) < 400
    # What the browser builds before the script runs: the plain list is text to a browser that runs scripts.
    assert len(Page(re.sub(r"<noscript>.*?</noscript>", "", text, flags=re.DOTALL)).elements) < 300


def test_chinese_and_english_do_not_mix() -> None:
    chinese = re.compile(r"[\u4e00-\u9fff]")
    english = html_format.render(report_with(*real().findings[:3]), "en")
    assert not chinese.search(english)
    page = Page(html_format.render(real(), "zh"))
    assert ("html", {"lang": "zh-CN"}) in page.elements
    words = page.data["words"]
    assert isinstance(words, dict)
    assert all(chinese.search(word) for word in words.values())
    for word in vars(html_words).values():
        if isinstance(word, Message):
            assert chinese.search(word.render("zh"))


def test_the_script_writes_no_markup_and_knows_its_words() -> None:
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", SCRIPT)
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) - {"every", "length", "join", "map"}
    assert used == {*html_words.FOR_SCRIPT, "folded", "foldedOne"}


def test_every_control_can_be_reached_and_named() -> None:
    page = Page(html_format.render(real(), "en"))
    assert {"header", "main", "footer", "nav"} <= {tag for tag, _ in page.elements}
    for tag, attributes in page.elements:
        if tag == "button":
            assert attributes["type"] == "button"
            if attributes["class"] == "theme":  # not pressed or released: its word says what it does
                assert attributes["data-dark"] != attributes["data-light"]
            else:
                assert attributes["aria-pressed"] in ("true", "false")
        if tag in ("input", "select"):
            assert attributes["aria-label"]
        assert attributes.get("tabindex", "-1") == "-1"
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def colours() -> list[tuple[str, dict[str, str]]]:
    blocks = re.findall(r"{([^{}]*--paper:[^{}]*)}", STYLE)
    found = [dict(re.findall(r"--([\w-]+):\s*(#\w+)", block)) for block in blocks]
    return list(zip(("light", "dark by the system", "dark by the switch", "print"), found, strict=True))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("name", "palette"), colours(), ids=lambda value: value if isinstance(value, str) else "")
def test_contrast_is_enough_to_read(name: str, palette: dict[str, str]) -> None:
    inks = ("ink", "faint", "safe", "unsafe", "manual", "note", "link")
    pairs = [(ink, paper) for ink in inks for paper in ("paper", "panel")]
    pairs += [("ink", paper) for paper in ("gone", "gone-word", "new", "new-word")]
    for ink, paper in pairs:
        light, dark = sorted((luminance(palette[ink]), luminance(palette[paper])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name}: {ink} on {paper}"


def test_both_dark_palettes_are_the_same() -> None:
    palettes = dict(colours())
    assert palettes["dark by the system"] == palettes["dark by the switch"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed; it runs the page's script")
@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_button_says_what_a_click_gives(system: str) -> None:
    code = """
    const assert = require("node:assert");
    const button = { dataset: { dark: "Dark", light: "Light" }, addEventListener: (_, done) => (button.click = done) };
    const root = { dataset: {} };
    const matches = process.argv[2] === "dark";
    globalThis.matchMedia = () => ({ matches, addEventListener() {} });
    const { startTheme } = require(process.argv[1]);
    globalThis.document = { documentElement: root, querySelector: () => button };
    startTheme();
    const [other, own] = matches ? ["Light", "Dark"] : ["Dark", "Light"];
    assert.strictEqual(button.textContent, other);
    button.click();
    assert.strictEqual(root.dataset.theme, other.toLowerCase());
    assert.strictEqual(button.textContent, own);
    button.click();
    assert.strictEqual(root.dataset.theme, own.toLowerCase());
    assert.strictEqual(button.textContent, other);
    """
    command = ["node", "-e", code, str(FOLDER / "script.js"), system]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed; it runs the page's script")
def test_the_functions_of_the_script() -> None:
    code = """
    const page = require(process.argv[1]);
    const assert = require("node:assert");
    const { wanted, parseFilter, formatFilter, marked, unify, slice } = page;
    const finding = { grade: "safe", family: "DEV", file: "src/a.py", blocker: false, text: "1:2 DEV101 Device cuda" };
    const passes = (fragment, edit = {}) => wanted(finding, { ...parseFilter(fragment), ...edit });
    assert(passes("") && passes("#file=src/") && passes("#file=a.py") && passes("#find=dev101+DEVICE"));
    assert(!passes("#file=a.py", { exact: true }) && passes("#file=src/a.py", { exact: true }));
    assert(!passes("#blocking=1"));
    assert(wanted({ ...finding, blocker: true }, parseFilter("#blocking=1")));
    assert(!passes("#find=cuda+nccl") && !passes("#off=safe") && !passes("#family=AMP"));
    for (const text of ["", "off=note%2Csafe&family=DEV&file=%3C%26%3D.py&find=a+b&blocking=1&page=3"])
      assert.strictEqual(formatFilter(parseFilter("#" + text)), text);
    for (const text of ["#page=-4", "#page=x", "#%E0%A4%A", "#&&==", "#__proto__=1"])
      assert.strictEqual(parseFilter(text).page, 1);
    assert.deepStrictEqual(marked("a `b` c `<i>`"), ["a ", "b", " c ", "<i>", ""]);
    assert.deepStrictEqual(marked("a ` b"), ["a ` b"]);
    assert.deepStrictEqual(slice(0, 1), { number: 1, pages: 1, from: 0, to: 0 });
    assert.deepStrictEqual(slice(250, 9), { number: 3, pages: 3, from: 200, to: 250 });
    const same = ["=", 1, 1, "s"], end = ["=", 4, 5, "e"];
    assert.deepStrictEqual(
      unify([same, ["~", 2, 2, ["x"], ["y"]], ["~", 0, 3, [""], ["n"]], ["~", 3, 4, ["p"], ["q"]], end]),
      [same, ["-", 2, 0, ["x"]], ["-", 3, 0, ["p"]], ["+", 0, 2, ["y"]], ["+", 0, 3, ["n"]], ["+", 0, 4, ["q"]], end]);
    assert.deepStrictEqual(unify([["~", 1, 0, ["x"], [""]]]), [["-", 1, 0, ["x"]]]);
    """
    done = subprocess.run(["node", "-e", code, FOLDER / "script.js"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
