"""Every finding, decision and program of a report is in the text, in JSON and on the page, in the same words."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.html_page import Element, page_of
from tests.report.reports import EXAMPLE, hostile, real
from torchferry.cli import scan
from torchferry.core.finding import Effect, Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.core.terminal import visible
from torchferry.programs.model import CallPath, Form, JudgedProgram, Obstacle, Program, Reachability, Step, Verdict
from torchferry.report import full_format, html_format, json_format, text_format
from torchferry.report.choices import choices_of
from torchferry.report.decision_lines import in_a_row, waiting_words
from torchferry.report.decisions import ReportedDecision, effect_words, without_subject
from torchferry.report.first_screen import program_classes
from torchferry.report.full_format import GRADE_TITLES
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import verdict_of
from torchferry.report.text_layout import TextLayout

LANGUAGES = ("en", "zh")
CODES = ("DEV101", "CUD110", "LIB101", "PRC102", "CUD113", "EXT102")
MESSAGES = (
    say("`{name}` has no counterpart on {target}", name="torch.cuda.x", target="T"),
    say("`{name}` has no counterpart on {target}", name="torch.cuda.y", target="T"),
    say("decide what is <intended>, or leave it"),
)


class Held(NamedTuple):
    """What one form of a report holds.

    Attributes:
        findings: The findings: place, rule and grade.
        decisions: The places of each decision, by its id.
        programs: The verdict of each program, in words.
        grades: How many findings of each grade it says that there are.
    """

    findings: Counter[tuple[str, str, str]]
    decisions: dict[str, list[str]]
    programs: dict[str, str]
    grades: dict[str, int]


def in_order(report: Report) -> tuple[ReportedDecision, ...]:
    """Return the decisions as text and pages have them: what could not be resolved first, fixes to read last."""
    return (*report.decisions.unresolved, *report.decisions.to_decide, *report.decisions.to_read)


def model(report: Report, lang: str) -> Held:
    """Return what a report holds, as its forms show it."""
    return Held(
        Counter((visible(str(each.location)), each.code, each.grade.value) for each in report.findings),
        {each.id: [visible(str(place)) for place in each.places] for each in in_order(report)},
        {visible(judged.program.title): visible(verdict_of(judged).render(lang)) for judged in report.programs},
        {grade.value: report.by_grade[grade] for grade in Grade},
    )


def in_json(report: Report, lang: str) -> Held:
    return of_document(json.loads(json_format.render(report, lang)))


def of_document(document: dict[str, Any]) -> Held:
    findings: Counter[tuple[str, str, str]] = Counter()
    for each in document["findings"]:
        place = Location(each["path"], each["line"], each["column"], 0, 0, each.get("cell", 0))
        findings[visible(str(place)), each["code"], each["grade"]] += 1
    return Held(
        findings,
        {each["id"]: [visible(place) for place in each["places"]] for each in document["decisions"]},
        {visible(each["name"]): visible(each["summary"]) for each in document["programs"]},
        {grade.value: document["counts"].get(grade.value, 0) for grade in Grade},
    )


def in_html(report: Report, lang: str) -> Held:
    return of_page(page_of(html_format.render(report, lang)))


def of_page(page: Element) -> Held:
    findings: Counter[tuple[str, str, str]] = Counter()
    for item in page.all("li"):
        group = item.around("div", "group")
        if group is None or "other" in item.classes:
            continue
        code = next(group.all("a", "code"), None) or item.first("code")
        findings[place_of(item), code.text, item.classes[0]] += 1
    decisions = {}
    for article in page.all("article"):
        places = (place_of(item) for item in article.first("div", "places").all("li"))
        decisions[article.attributes["id"] or ""] = [*dict.fromkeys(places)]
    programs = {}
    for group in page.all("div", "programs"):
        for line in group.all("p"):
            programs[line.first("b").text] = line.first("span").text
    grades = {grade.value: 0 for grade in Grade}
    for button in page.all("button"):
        if "data-grade" in button.attributes:
            grades[button.attributes["data-grade"] or ""] = int(button.first("span").text)
    return Held(findings, decisions, programs, grades)


def place_of(item: Element) -> str:
    """Return the place of a finding, as `str(Location)` has it; of a file the path stands above its findings."""
    line = next(item.all("summary"), item)
    card = item.around("details", "file")
    path = (card or line).first("span", "p")
    behind = line.children[1] if card is None else line.children[0]
    assert isinstance(behind, str)
    numbers = re.match(r":?((?:cell \d+:)?\d+:\d+)", behind)
    assert numbers is not None, behind
    return f"{''.join(path.texts())}:{numbers[1]}"


def in_full(report: Report, lang: str) -> Held:
    """Read `-f full`: the findings file by file, the programs, the counts of the table."""
    return Held(listed(full_format.render(report, lang), lang), {}, {}, counted(full_format.render(report, lang), lang))


def listed(text: str, lang: str) -> Counter[tuple[str, str, str]]:
    """Read findings below the names of their files."""
    grades = {say(GRADE_TITLES[grade]).render(lang): grade.value for grade in Grade}
    findings: Counter[tuple[str, str, str]] = Counter()
    path = ""
    for line in rejoined(text, lang).split("\n"):
        found = re.fullmatch(r"  ((?:cell \d+:)?\d+:\d+) ([A-Z]{3}\d+) .*\[([^\[\]]*)\]", line)
        if found is not None:
            findings[f"{path}:{found[1]}", found[2], grades[found[3]]] += 1
        elif not line.startswith("  "):
            path = line
    return findings


def rejoined(text: str, lang: str) -> str:
    """Return a text in which a finding is one line again: those that were too wide go on further to the right."""
    lines: list[str] = []
    for line in text.split("\n"):
        is_open = lines and re.match(r"  (?:cell \d+:)?\d+:\d+ [A-Z]{3}\d+ ", lines[-1]) and not lines[-1].endswith("]")
        if is_open and line.startswith("      "):
            lines[-1] += ("" if lang == "zh" else " ") + line.strip()
        else:
            lines.append(line)
    return "\n".join(lines)


def counted(text: str, lang: str) -> dict[str, int]:
    """Read the table of the counts, and add them up."""
    heads = [say(GRADE_TITLES[grade]).render(lang) for grade in (Grade.SAFE, Grade.UNSAFE, Grade.MANUAL, Grade.NOTE)]
    lines = iter(text.split("\n"))
    sums = dict.fromkeys((grade.value for grade in Grade), 0)
    if not any(line.split("  ") and all(head in line for head in heads) and line.lstrip() != line for line in lines):
        return sums
    for line in lines:
        found = re.match(r"(.{10}) (.{10}) (.{10}) (.{10})  [A-Z]{3} ", line)
        if found is None:
            break
        for grade, count in zip((Grade.SAFE, Grade.UNSAFE, Grade.MANUAL, Grade.NOTE), found.groups(), strict=True):
            sums[grade.value] += int(count.strip() or 0)
    return sums


def verbose(report: Report, lang: str) -> str:
    return "\n".join(text_format.lines(report, TextLayout(lang, verbose=True)))


def said_of_programs(text: str) -> dict[str, str]:
    """Read the verdicts of programs from text: names in a line, and what they share in the next one."""
    done = {}
    for names, words in re.findall(r"^  ((?:run\d+\.py(?:, )?)+)\n      (.*)$", text, re.MULTILINE):
        done.update(dict.fromkeys(names.split(", "), words))
    return done


def without_blanks(text: str) -> str:
    return "".join(text.split())


def check(report: Report, lang: str) -> None:
    """Compare the forms of a report with the report, and so with each other."""
    expected = model(report, lang)
    assert in_json(report, lang) == expected  # its decisions are in another order
    page = in_html(report, lang)
    assert page == expected._replace(decisions=page.decisions)
    assert [*page.decisions] == [*expected.decisions]
    for name, places in expected.decisions.items():
        assert Counter(page.decisions[name]) == Counter(places)
    full = in_full(report, lang)
    assert (full.findings, full.grades) == (expected.findings, expected.grades)
    short = text_format.render(report, lang)
    for each in in_order(report):  # `torchferry show` has all of what the short text names
        assert re.search(rf"(?<![\w.+-]){re.escape(each.id)}(?![\w.+-])", short)
    text = verbose(report, lang)
    assert listed(text, lang) == expected.findings
    solid = without_blanks(text)
    at = 0
    for each in in_order(report):  # in their order: the heading, and all places behind it
        heading = without_blanks(f"{each.id} {in_a_row(waiting_words(each), lang) if not each.is_fix else ''}")
        at = solid.index(heading, at)
        at = solid.index(without_blanks(", ".join(expected.decisions[each.id])), at)
    full_text, said = full_format.render(report, lang), said_of_programs(text)
    for judged in report.programs:
        name = visible(judged.program.title)
        assert re.search(rf"^  {re.escape(name)} +{re.escape(expected.programs[name])}$", full_text, re.MULTILINE)
        alike = (each for each in report.programs if each.verdict is judged.verdict)
        phrases = (verdict_of(each) for each in alike)  # that of the one with most fixes stands for all that share it
        words = {form.render(lang) for each in phrases for form in (each, say("at most: {verdict}", verdict=each))}
        assert said[name] in words


@st.composite
def findings_of(draw: st.DrawFn) -> Finding:
    path = draw(st.sampled_from(("a.py", "b c.py", "pkg/<i>.py", "n.ipynb", "&amp;.py")))
    line, cell = draw(st.integers(1, 9)), draw(st.sampled_from((0, 0, 2)))
    return Finding(
        draw(st.sampled_from(CODES)),
        Location(path, line, 2, line, 5, cell),
        draw(st.sampled_from(MESSAGES)),
        draw(st.sampled_from((*Grade, Grade.MANUAL))),
        blocker=draw(st.sampled_from((False, False, True))),
        snippet=draw(st.sampled_from(("", "x.cuda()", "<b>&amp;</b>"))),
        package=draw(st.sampled_from(("", "", "flash-attn", "nvidia.dali"))),
        effect=draw(st.sampled_from(Effect)),
        decided_by=draw(st.sampled_from(("", "", "", "Ada"))),
    )


FINDINGS = st.lists(findings_of(), max_size=20, unique_by=lambda each: (each.location, each.code))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    findings = sorted(draw(FINDINGS), key=lambda each: each.location.order)
    places = [each.location for each in findings if each.grade is Grade.MANUAL]
    programs = []
    for number in range(draw(st.integers(0, 6))):
        decisions = tuple(draw(st.lists(st.sampled_from(places), max_size=3))) if places else ()
        lacking = tuple(
            Obstacle(what, "LIB101", Location("z.py", 3, 1, 3, 2), say("`{what}` is missing", what=what),
                     CallPath(need, (Step("z.py", 3),)))
            for what, need in draw(st.lists(
                st.tuples(st.sampled_from(("xformers", "apex")), st.sampled_from(Reachability)), max_size=2))
        )  # fmt: skip
        blockers = tuple(each for each in lacking if each.call_path.reachability is Reachability.ALWAYS)
        others = tuple(each for each in lacking if each.call_path.reachability is not Reachability.ALWAYS)
        verdict = draw(st.sampled_from((Verdict.READY, Verdict.NOT_JUDGED)))
        if blockers:
            verdict = Verdict.BLOCKED
        elif any(each.call_path.reachability is Reachability.CHOSEN for each in others):
            verdict = Verdict.MAY_NEED
        elif decisions:
            verdict = Verdict.DECISIONS
        elif others:
            verdict = Verdict.WITHOUT
        program = Program(f"run{number}.py", Form.SCRIPT)
        programs.append(JudgedProgram(program, verdict, blockers, others, draw(st.integers(0, 3)), decisions))
    return Report("npu", real().target_title, "x", 3, tuple(findings), programs=tuple(programs))


@settings(max_examples=60)
@given(reports(), st.sampled_from(LANGUAGES))
def test_every_form_of_a_report_holds_the_same(report: Report, lang: str) -> None:
    check(report, lang)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("make", [real, lambda: real("ptex"), hostile], ids=["npu", "ptex", "hostile"])
def test_every_form_of_an_example_holds_the_same(make: Any, lang: str) -> None:
    check(make(), lang)


TREE = {
    "train.py": "import flash_attn\nimport torch\nfrom models import net\n\nif __name__ == '__main__':\n"
    "    net().cuda()\n    torch.cuda.nvtx.range_push('x')\n",
    "evaluate.py": "import sys\nfrom models import net\n\nif __name__ == '__main__':\n    net().to('cuda')\n"
    "    if '--fast' in sys.argv:\n        import apex\n",
    "models.py": "import torch\n\n\ndef net():\n    return torch.nn.Linear(1, 1).to(torch.device('cuda:0'))\n",
    "requirements.txt": "torch==1.9.0\nflash-attn\napex\n",
    "kernel.cu": "__global__ void f(float *x) { x[threadIdx.x] = 0; }\n",
    "notes.ipynb": json.dumps(
        {"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
                    "source": ["import torch\n", "x = torch.ones(2).cuda()\n", "torch.cuda.cudart()"]}],
         "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    ),
}  # fmt: skip


@cache
def _scanned(folder: Path, form: str, *more: str) -> str:
    done = CliRunner().invoke(scan.command, [str(folder), "-t", "npu", "-f", form, *more])
    assert done.exit_code == 1, done.output
    return done.stdout


@pytest.fixture(params=["a small project", "an example"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "an example":
        return EXAMPLE
    for name, text in TREE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_what_the_command_writes_of_a_project_is_the_same_in_every_form(folder: Path) -> None:
    document = json.loads(_scanned(folder, "json"))
    expected = of_document(document)
    assert expected.findings
    assert expected.programs
    page = page_of(_scanned(folder, "html"))
    held = of_page(page)
    assert held.findings == expected.findings
    assert held.grades == expected.grades
    assert held.programs == expected.programs
    ordered = sorted(document["decisions"], key=lambda each: (not each["unresolved"], each["fix"]))
    assert [*held.decisions] == [each["id"] for each in ordered]
    for name, places in expected.decisions.items():
        assert Counter(held.decisions[name]) == Counter(places)
    assert page.first("h1").text == document["summary"].replace("`", "")
    full, every = _scanned(folder, "full", "-v"), _scanned(folder, "text", "-v")
    assert listed(full, "en") == listed(every, "en") == expected.findings
    assert counted(full, "en") == expected.grades
    for each in document["decisions"]:
        assert without_blanks(", ".join(each["places"])) in without_blanks(every)
        assert each["id"] in every
    for name, words in expected.programs.items():
        assert re.search(rf"^  {re.escape(name)} +{re.escape(words)}$", full, re.MULTILINE)
        assert name in every
    for each in page.all("article"):  # each place with its code, since the files are at hand
        assert len([*each.all("div", "source")]) == len([*each.first("div", "places").all("li")])


TITLES = {f"part:{name}" for name in ("verdicts", "next", "unresolved", "decisions", "fixes", "programs", "unlooked")}


@settings(max_examples=30)
@given(reports(), st.sampled_from(LANGUAGES))
def test_the_page_has_the_words_of_the_text(report: Report, lang: str) -> None:
    page = page_of(html_format.render(report, lang))
    text = verbose(report, lang)
    solid = without_blanks(text)

    def said(words: str) -> bool:
        return without_blanks(words) in solid

    assert page.first("h1").text == plain(verdict_sentence(report), lang)
    for heading in page.all("h2"):
        if heading.attributes["id"] in TITLES:
            assert said(heading.text.replace("migrate --unsafe-fixes", "`migrate --unsafe-fixes`"))
    for fact in page.first("ul", "facts").all("li"):
        assert said(fact.text)
    for (_, phrase, group, _), entry in zip(program_classes(report), page.all("details", "class"), strict=False):
        assert entry.first("summary").text == f"{len(group)} {plain(phrase, lang)}"
        assert re.search(rf"^ +{re.escape(f'{len(group)}  {phrase.render(lang)}')}", text, re.MULTILINE)
    for button in page.all("button"):
        if "data-grade" in button.attributes:
            grade = Grade(button.attributes["data-grade"])
            assert button.text == f"{say(GRADE_TITLES[grade]).render(lang)} {report.by_grade[grade]}"
    for each, article in zip(in_order(report), page.all("article"), strict=True):
        words = in_a_row(waiting_words(each), lang)
        assert article.first("span", "effect").text == words
        assert effect_words(each.effect).render(lang) in words
        assert said(words if not each.is_fix else effect_words(each.effect).render(lang))
        begin = plain(each.message, lang)
        assert article.first("p", "what").text.startswith(begin)
        assert [item.text.split(" torchferry decide")[0] for item in article.first("div", "choices").all("li")] == [
            f"{plain(choice.text, lang)} {say('costs: {cost}', cost=choice.cost).render(lang)}"
            for choice in choices_of(each, report.target)
        ]
    every = text + text_format.render(report, lang)  # a short text alone says how all is shown
    for command in page.first("section", "next").all("code") if report.findings else ():
        assert command.text in every
    for entry in page.all("ul", "reasons"):
        for reason in entry.all("li"):
            assert said(reason.text)


def plain(message: Message, lang: str) -> str:
    """Return a message as it reads where code is set as such."""
    return " ".join(re.sub(r"`([^`]+)`", r"\1", message.render(lang)).split())


def test_each_message_is_told_whole_or_by_what_is_another_in_it() -> None:
    report = real()
    page = page_of(html_format.render(report, "en"))
    for finding in messages_of(report):
        alike, subject = without_subject(finding.message)
        assert plain(finding.message, "en") in page.text or (plain(alike, "en") and subject in page.text)


def messages_of(report: Report) -> Iterator[Finding]:
    yield from {finding.message: finding for finding in report.findings}.values()
