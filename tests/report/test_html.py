"""The page: whole, self-contained, inert whatever a project calls its files, and usable without its script."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.html_page import Element, page_of
from tests.report.reports import EXAMPLE, hostile, real
from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.core.terminal import visible
from torchferry.programs.model import CallPath, Form, JudgedProgram, Obstacle, Program, Reachability, Step, Verdict
from torchferry.report import html_decisions, html_format, html_lists, side_by_side
from torchferry.report.choices import choices_of
from torchferry.report.excerpts import CodeReader
from torchferry.report.headline import verdict_sentence
from torchferry.report.html_text import marked, paragraphs
from torchferry.report.model import FileDiff, ProjectVerdict, Report
from torchferry.report.side_by_side import rows

FOLDER = Path(html_format.__file__).parent / "html"
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")
SCRIPT = (FOLDER / "script.js").read_text(encoding="utf-8")


def report_with(*findings: Finding, diffs: tuple[FileDiff, ...] = ()) -> Report:
    return Report("npu", real().target_title, "x", 1, findings, diffs=diffs)


def place(path: str, line: int) -> Location:
    return Location(path, line, 1, line, 5)


def decision(line: int, grade: Grade = Grade.MANUAL, path: str = "a.py") -> Finding:
    return Finding("CUD110", place(path, line), say("decide"), grade, snippet="x", effect=Effect.RAISES)


def programs(count: int, blocked_at: Location) -> tuple[JudgedProgram, ...]:
    way = CallPath(Reachability.ALWAYS, (Step("run.py", 1), Step("a.py", 3)))
    lacking = Obstacle("xformers", "LIB101", blocked_at, say("`xformers` is missing"), way)
    names = (f"run{number}.py" for number in range(count))
    return tuple(JudgedProgram(Program(name, Form.SCRIPT), Verdict.BLOCKED, (lacking,)) for name in names)


BLOCKED = report_with(decision(1), decision(7, Grade.UNSAFE), decision(9, Grade.NOTE))._replace(
    programs=programs(3, place("a.py", 3))
)
REPORTS = [real(), real("ptex"), hostile(), report_with(), BLOCKED]
NAMES = ["npu", "ptex", "hostile", "empty", "blocked"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_page_is_balanced_and_asks_for_nothing(report: Report, lang: str) -> None:
    text = html_format.render(report, lang, ["."], CodeReader(EXAMPLE).around)
    for element in page_of(text).all():
        assert element.tag not in ("img", "iframe", "link", "object", "embed", "form", "base", "video", "audio")
        names = element.attributes
        assert not [name for name in names if name.startswith("on") or name in ("src", "style", "action", "srcset")]
        assert (names.get("href") or "#").startswith("#")
    assert not re.search(r"https?:|@import|url\(", STYLE + SCRIPT, re.IGNORECASE)
    assert text == html_format.render(report, lang, ["."], CodeReader(EXAMPLE).around)


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_policy_allows_this_style_and_this_script_alone(report: Report) -> None:
    page = page_of(html_format.render(report, "en"))
    (policy,) = [each.attributes["content"] or "" for each in page.all("meta") if "http-equiv" in each.attributes]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    for kind in ("style", "script"):
        (element,) = page.all(kind)
        digest = base64.b64encode(hashlib.sha256(element.raw.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_what_is_referred_to_is_there_once(report: Report) -> None:
    page = page_of(html_format.render(report, "en"))
    ids = Counter(page.having("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    assert {*page.having("aria-labelledby"), *page.having("list")} <= ids.keys()
    assert {link[1:] for link in page.having("href")} <= ids.keys()
    assert {each.id for each in report.decisions.all} <= ids.keys()
    assert {f"rule:{finding.code}" for finding in report.findings} <= ids.keys()


def test_no_part_of_the_page_has_the_name_of_a_decision() -> None:
    names = ("changes", "decisions", "programs", "rules", "program-1", "filter")
    findings = [decision(line)._replace(package=name) for line, name in enumerate(names, 1)]
    fix = decision(99, Grade.UNSAFE)._replace(code="PRC102")  # its id is the rule's
    page = page_of(html_format.render(report_with(*findings, fix)._replace(programs=BLOCKED.programs), "en"))
    assert [name for name, count in Counter(page.having("id")).items() if count > 1] == []
    assert {*names, "PRC102", "rule:PRC102"} <= {*page.having("id")}


def test_hostile_texts_are_inert() -> None:
    text = html_format.render(hostile(), "en", ["</script><b>"], lambda _: [(1, "</div><img src=x>\x1b")])
    assert text.count("<script") == text.count("</script>") == 1
    assert "<img" not in text
    assert "<b></" not in text
    assert "\x1b" not in text
    assert "\u2028" not in text
    assert "\\udce9" in text
    text.encode("utf-8")
    page = page_of(text)
    assert "</script><img src=x onerror=alert(1)>" in page.first("article").text
    assert not any("\r" in part for part in page.texts())


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


def test_the_verdict_comes_first_and_says_how_bad_it_is() -> None:
    for findings, verdict, css in (
        ((), ProjectVerdict.READY, "safe"),
        ((decision(1, Grade.SAFE),), ProjectVerdict.AFTER_FIXES, "safe"),
        ((decision(1),), ProjectVerdict.AFTER_WORK, "unsafe"),
        ((decision(1)._replace(blocker=True),), ProjectVerdict.BLOCKED, "manual"),
    ):
        report = report_with(*findings)
        assert report.verdict is verdict
        section = page_of(html_format.render(report, "en")).first("section")
        assert section.classes == ["verdict", css]
        assert section.first("h1").text == verdict_sentence(report).render("en").replace("`", "")


def test_the_first_screen_names_the_command_for_the_paths_that_were_named() -> None:
    page = page_of(html_format.render(real(), "en", ["my project"]))
    commands = [each.text for each in page.first("section", "next").all("code")]
    assert commands[0] == "torchferry migrate 'my project' -t npu"
    assert commands[1] == "torchferry migrate 'my project' -t npu --unsafe-fixes --diff"
    assert commands[2] == f"torchferry show {real().decisions.first(1)[0].id} 'my project' -t npu"
    assert page_of(html_format.render(report_with(), "en")).first("div", "screen").text == (
        "Next: nothing is to be done in the code."
    )


def test_a_decision_has_its_choices_and_its_code() -> None:
    report = real()
    page = page_of(html_format.render(report, "en", [str(EXAMPLE)], CodeReader(EXAMPLE).around))
    for each, article in zip(report.decisions.all, page.all("article"), strict=True):
        items = [item.text for item in article.first("div", "choices").all("li")]
        for choice, item in zip(choices_of(each, report.target), items, strict=True):
            assert item.startswith(choice.text.render("en").replace("`", ""))
            assert choice.cost.render("en") in item
            assert (f"torchferry decide {each.id} {choice.name} {EXAMPLE} -t npu" in item) == bool(choice.name)
        sources = [*article.all("div", "source")]
        assert len(sources) == len(each.places)
        for finding, source in zip(each.findings, sources, strict=True):
            (here,) = source.all("div", "here")
            assert here.attributes["data-n"] == str(finding.location.line)
            assert finding.snippet in here.raw


def test_code_is_not_shown_where_the_file_is_another_one() -> None:
    report = report_with(decision(1), decision(2))
    text = html_format.render(
        report, "en", ["."], lambda place: [(place.line, "x = 1" if place.line == 1 else "y = 1")]
    )
    (source,) = page_of(text).all("div", "source")
    assert source.text == "x = 1"


def test_what_has_no_room_is_said_to_be_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_decisions, "MOST_CODE", 2)
    monkeypatch.setattr(html_decisions, "MOST_PROGRAMS", 2)
    monkeypatch.setattr(html_lists, "CHANGES", 50)
    findings = [decision(line) for line in range(1, 10)]
    diffs = tuple(FileDiff(f"{name}.py", "cuda\n", "npu\n") for name in "abc")
    report = report_with(*findings, diffs=diffs)._replace(programs=programs(5, place("a.py", 3)))
    page = page_of(html_format.render(report, "en", ["."], lambda place: [(place.line, "x")]))
    xformers, other = page.all("article")
    name = other.attributes["id"]
    assert [each.text for each in xformers.all("p", "left")] == [
        "torchferry show xformers . -t npu -f json has the others."
    ]
    assert [each.text for each in other.all("p", "left")] == [
        f"Code is shown at 2 of these places; torchferry show {name} . -t npu shows it at each."
    ]
    assert len([*other.all("div", "source")]) == 2
    assert len([*other.first("div", "places").all("li")]) == 9
    assert ", +3" in xformers.first("details", "waiting").text
    (left,) = [each.text for each in page.all("p", "left") if "change" in each.text]
    assert left == "The changes of 2 files are not shown here."
    safe = report._replace(findings=(*findings, decision(20, Grade.SAFE)))
    (left,) = [each.text for each in page_of(html_format.render(safe, "en")).all("p", "left") if "change" in each.text]
    assert left == "The changes of 2 files are not shown here; torchferry migrate . -t npu --diff prints them."
    shim = page_of(html_format.render(report._replace(style="shim"), "en", ["."], lambda place: [(place.line, "x")]))
    assert "Code is shown at 2 of these places." in shim.text
    assert "torchferry show" not in shim.text


def test_places_of_which_other_things_are_said_are_folded_too() -> None:
    counted = [say("a source with {count} kernels", count=number) for number in range(1, 10)]
    findings = [decision(number)._replace(message=message) for number, message in enumerate(counted, 1)]
    (article,) = page_of(html_format.render(report_with(*findings), "en")).all("article")
    (more,) = article.all("details", "more")
    assert more.first("summary").text == "More places: 3"
    assert len([*more.all("li")]) == 3
    assert len([*article.first("div", "places").all("li")]) == 9


def test_a_page_without_room_for_any_code_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_decisions, "CODE", 0)
    page = page_of(html_format.render(report_with(decision(1)), "en", ["."], lambda place: [(place.line, "x")]))
    assert "Code is shown at 0 of these places" in page.text


def test_changed_lines_stand_side_by_side_and_whole() -> None:
    report = real()
    page = page_of(html_format.render(report, "en"))
    assert report.diffs
    shown = {}
    for change in page.all("div", "change"):
        file = change.around("details", "file")
        assert file is not None
        shown[file.first("span", "p").text] = change
    assert [*shown] == [diff.path for diff in report.diffs]
    for diff in report.diffs:
        change = shown[diff.path]
        assert lines_of(change, "gone") == changed(diff.before, diff.after)
        assert lines_of(change, "new") == changed(diff.after, diff.before)


def lines_of(change: Element, css: str) -> list[tuple[int, str]]:
    sides = (each for each in change.all("div", css) if "none" not in each.classes)
    return [(int(each.attributes["data-n"] or ""), "".join(each.texts())) for each in sides]


def changed(before: str, after: str) -> list[tuple[int, str]]:
    """Return the lines of one side that stand in a changed row, with their numbers."""
    sides = [row for row in rows(before, after) if row.changed and row.left]
    done = [(row.left, "".join(part.text for part in row.before)) for row in sides]
    text = before.splitlines()
    assert all(text[number - 1] == line for number, line in done)
    return done


def test_long_lines_and_unchanged_lines_are_left_out() -> None:
    long = "x = '" + "a" * 500_000
    diff = FileDiff("a.py", f"{long}cuda{long}\n" + "same\n" * 900, f"{long}npu{long}\n" + "same\n" * 900)
    text = html_format.render(report_with(diffs=(diff,)), "en")
    assert len(text) < 100_000
    assert "<del>cuda</del>" in text
    assert text.count(">same<") == 3
    assert "897 lines as they are" in text


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


@given(
    st.lists(st.sampled_from((*"],", "a", "b", *map(str, range(30)))), max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(("new", "]", None))), max_size=5),
)
def test_every_comparison_gives_both_versions_again(old: list[str], changes: list[tuple[int, str | None]]) -> None:
    new = list(old)
    for at, line in changes:
        new[at : at + (line is None)] = [] if line is None else [line]
    for largest in (0, side_by_side.LARGEST):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(side_by_side, "LARGEST", largest)
            shown = list(rows("\n".join(old), "\n".join(new)))
        for side, lines in (("before", old), ("after", new)):
            numbers = [row.left if side == "before" else row.right for row in shown]
            texts = {number: getattr(row, side) for number, row in zip(numbers, shown, strict=True) if number}
            for number, parts in texts.items():
                assert "".join(part.text for part in parts) == lines[number - 1]
            while lines and not lines[-1]:
                lines = lines[:-1]
            assert len(texts) + sum(row.folded for row in shown) >= len(lines)


def test_in_a_large_file_only_what_changes_is_a_change() -> None:
    before = [line for number in range(3_000) for line in (f'"{number}",', "],", "[")]
    after = list(before)
    after[4_000] = "changed"
    after.insert(6_001, "added")
    assert sum(row.changed for row in rows("\n".join(before), "\n".join(after))) == 2


def test_a_large_report_stays_small() -> None:
    findings = [
        Finding("DEV101", place(f"m{n // 50}.py", n % 50 + 1), say("device string"), Grade.SAFE, snippet="'cuda'")
        for n in range(20_000)
    ]
    text = html_format.render(report_with(*findings), "en")
    assert len(text) / len(findings) < 100
    assert len([*page_of(text).first("section", "findings").all("li")]) == 20_000


def test_english_holds_no_chinese() -> None:
    assert not re.search(r"[\u4e00-\u9fff]", html_format.render(real(), "en").replace("PingFang", ""))
    assert page_of(html_format.render(real(), "zh")).first("html").attributes == {"lang": "zh-CN"}


def test_the_script_writes_no_markup() -> None:
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", SCRIPT)


def test_every_control_can_be_reached_and_named() -> None:
    page = page_of(html_format.render(real(), "en"))
    tags = {element.tag for element in page.all()}
    assert {"header", "main", "footer", "nav"} <= tags
    for button in page.all("button"):
        assert button.attributes["type"] == "button"
        assert button.text
    for field in page.all("input"):
        assert field.attributes["aria-label"]
    assert {*page.having("tabindex")} == {"-1"}
    levels = [int(element.tag[1]) for element in page.all() if re.fullmatch(r"h[1-6]", element.tag)]
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
def test_the_filter_of_the_page() -> None:
    code = """
    const assert = require("node:assert");
    const { wanted, parseFilter, formatFilter } = require(process.argv[1]);
    const finding = { grade: "safe", file: "src/a.py", about: "dev101 device", text: "1:2 cuda" };
    const passes = (fragment) => wanted(finding, parseFilter(fragment));
    assert(passes("") && passes("#file=src/") && passes("#file=a.py") && passes("#find=dev101+CUDA"));
    assert(passes("#off=note") && !passes("#off=safe,note") && !passes("#find=cuda+nccl") && !passes("#file=b.py"));
    assert(!passes("#blocking=1"));
    assert(wanted({ ...finding, mark: "blocks" }, parseFilter("#blocking=1")));
    for (const text of ["", "off=note%2Csafe&file=%3C%26%3D.py&find=a+b&blocking=1"])
      assert.strictEqual(formatFilter(parseFilter("#" + text)), text);
    for (const text of ["#page=-4", "#%E0%A4%A", "#&&==", "#__proto__=1"])
      assert.strictEqual(formatFilter(parseFilter(text)), "");
    """
    done = subprocess.run(["node", "-e", code, FOLDER / "script.js"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
