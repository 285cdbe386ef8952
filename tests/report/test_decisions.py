"""What has to be decided is told once, with all of its places, and under a name that stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.reports import hostile, real
from torchferry.core.finding import Anchor, Edit, Effect, Finding, Grade, Location, Regrading, Stage
from torchferry.core.messages import Message, display_width, say, say_plural
from torchferry.programs.model import (
    CallPath,
    Form,
    JudgedProgram,
    Obstacle,
    Program,
    Reachability,
    Step,
    Unverified,
    Verdict,
)
from torchferry.report import full_format, json_format, show_format, text_format
from torchferry.report.choices import choices_of
from torchferry.report.decision_lines import DecisionRow, decision_lines
from torchferry.report.decisions import Decisions, decisions_of
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.text_layout import TextLayout, plain
from torchferry.rules.registry import rules

MESSAGES = (
    say("`{name}` has no counterpart on {target}", name="torch.cuda.x", target="T"),
    say("`{name}` has no counterpart on {target}", name="torch.cuda.y", target="T"),
    say("decide what is intended"),
)


def finding(line: int, message: Message = MESSAGES[2], grade: Grade = Grade.MANUAL, **more: object) -> Finding:
    made = Finding("CUD110", Location("a.py", line, 1, line, 5), message, grade, effect=Effect.RAISES)
    return made._replace(**more)  # type: ignore[arg-type]


def judged(
    name: str,
    verdict: Verdict,
    lines: Iterable[int] = (),
    lacking: str = "",
    reachability: Reachability = Reachability.ALWAYS,
) -> JudgedProgram:
    obstacles: tuple[Obstacle, ...] = ()
    if lacking:
        call_path = CallPath(reachability, ())
        obstacles = (
            Obstacle(lacking, "LIB101", Location("b.py", 1, 1, 1, 2), say("{x} is missing", x=lacking), call_path),
        )
    return JudgedProgram(
        Program(name, Form.SCRIPT),
        verdict,
        blockers=obstacles if reachability is Reachability.ALWAYS else (),
        optional=obstacles if reachability is Reachability.CHOSEN else (),
        decisions=tuple(Location("a.py", line, 1, line, 5) for line in lines),
    )


FINDINGS = st.lists(
    st.builds(
        finding,
        st.integers(1, 30),
        st.sampled_from(MESSAGES),
        st.sampled_from((*Grade, Grade.MANUAL)),
        package=st.sampled_from(("", "", "flash-attn", "nvidia.dali")),
    ),
    max_size=12,
    unique_by=lambda each: each.location,
)


@given(FINDINGS, st.randoms(use_true_random=False))
def test_each_finding_that_asks_is_in_one_decision(findings: list[Finding], order: object) -> None:
    decisions = decisions_of("npu", findings, ())
    asking = [each for each in findings if each.grade in (Grade.MANUAL, Grade.UNSAFE)]
    assert sorted(each for decision in decisions.all for each in decision.findings) == sorted(asking)
    assert {place for decision in decisions.all for place in decision.places} == {each.location for each in asking}
    ids = [decision.id for decision in decisions.all]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", each) for each in ids)
    shuffled = list(findings)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [each.id for each in decisions_of("npu", shuffled, ()).all] == ids
    for decision in decisions.all:
        assert decision.is_fix == all(each.grade is Grade.UNSAFE for each in decision.findings)


def test_what_is_said_alike_of_two_things_is_one_decision() -> None:
    one, other = (finding(line, message) for line, message in enumerate(MESSAGES[:2], 1))
    (decision,) = decisions_of("npu", [one, other], ()).all
    assert decision.subjects == ("torch.cuda.x", "torch.cuda.y")
    text = "\n".join(decision_lines([decision], "npu", TextLayout("en", verbose=True)))
    assert "(and so for `torch.cuda.y`)" in text


@pytest.mark.parametrize(("target", "word"), [("npu", "npu"), ("musa", "musa"), ("gcu", "gcu"), ("ptex", "xla")])
def test_an_id_stays_when_the_code_is_given_the_targets_words(target: str, word: str) -> None:
    before, after = (
        decisions_of(
            target, [finding(1, say("`{x}` of torch.{module}: decide for torch.{module}.y", x="a", module=name))], ()
        )
        for name in ("cuda", word)
    )
    assert before.all[0].id == after.all[0].id


def following(line: int, cause: int, grade: Grade = Grade.MANUAL) -> Finding:
    """Return a finding that changes only together with the place on another line, as groups make it."""
    reason = say("line {line} would have to change with it but cannot", line=cause)
    message = say("{message} ({reason})", message=say("`{name}` is renamed", name="cuda"), reason=reason)
    return finding(line, message, grade, code="DEV101", regradings=(Regrading(Stage.GROUP, Grade.SAFE),))


def test_what_changes_only_with_another_place_belongs_to_the_decision_about_that() -> None:
    cause = finding(7, say("`{name}` chooses what runs ({place})", name="x", place="a.py:7"))
    decision, alone = decisions_of("npu", [following(6, 7), cause, following(8, 90)], ()).all
    assert [each.location.line for each in decision.findings] == [7, 6]  # the cause says what is to be decided
    assert (decision.code, decision.subjects) == ("CUD110", ("x",))
    assert [each.location.line for each in alone.findings] == [8]
    moved = cause._replace(location=Location("a.py", 9, 1, 9, 5), message=say(
        "`{name}` chooses what runs ({place})", name="x", place="a.py:9"))  # fmt: skip
    again = decisions_of("npu", [following(8, 9), moved, following(10, 92)], ()).all
    assert [each.id for each in again] == [decision.id, alone.id]  # no id holds a line
    fix, read = finding(1, grade=Grade.UNSAFE, code="DEV102"), following(2, 1, Grade.UNSAFE)
    (both,) = decisions_of("npu", [fix, read], ()).all
    assert (both.id, both.is_fix, len(both.places)) == ("DEV102", True, 2)
    unresolved = finding(7, code="CUD113")
    assert [len(each.findings) for each in decisions_of("npu", [unresolved, following(6, 7)], ()).all] == [1, 1]


ROWS = {
    "all answers": (("use `x`", "start without it", "accept"), "use `x` | start without it | accept"),
    "without remarks": (
        ("change the code (its kernels are those of CUDA, HIP and XPU alone)", "write it in torch", "accept"),
        "change the code | write it in torch | accept",
    ),
    "the first, and how many more": (
        ("load the weights in bfloat16 or float16", "start without it", "accept"),
        "load the weights in bfloat16 or float16 | +2",
    ),
    "its beginning, no name cut": (
        ("write down what `torch.nn.functional.scaled_dot_product_attention` says", "accept"),
        "write down what ... | +1",
    ),
}


@pytest.mark.parametrize(("answers", "shown"), ROWS.values(), ids=ROWS)
def test_a_row_has_the_first_answer_and_says_how_many_follow(answers: tuple[str, ...], shown: str) -> None:
    row = DecisionRow((), "CUD110-1234", "error: ", answers, subject="`a_name`, ")
    begin = "  CUD110-1234  `a_name`, error: "
    width = len(begin) + (46 if shown != "write down what ... | +1" else 30)
    assert row.line(TextLayout("en", width=width)) == begin + shown


def test_a_row_of_several_lines_loses_no_answer_in_silence() -> None:
    for columns in (80, 100):
        for length in range(10, 400, 60):
            row = DecisionRow((), "CUD110-1234", "error: ", ("word " * (length // 5), "start without it", "accept"))
            shown = row.lines(TextLayout("en", width=columns), 2)
            assert len(shown) <= 2
            text = " ".join(line.strip() for line in shown)
            assert text.endswith(("| start without it | accept", "| start without it | +1", "| +2"))


PROGRAMS = {
    "a set that is larger than there is room for": (
        (judged("a", Verdict.DECISIONS, [1, 2, 3]), judged("b", Verdict.DECISIONS, [1, 2, 3])),
        ("one", "three", "two"),
        ("a", "b"),
    ),
    "no program": ((), (), ()),
    "the set that most programs wait for": (
        (
            judged("a", Verdict.DECISIONS, [1]),
            judged("b", Verdict.DECISIONS, [1]),
            judged("c", Verdict.DECISIONS, [2, 3]),
        ),
        ("one",),
        ("a", "b"),
    ),
    "one that is contained in another one": (
        (judged("a", Verdict.DECISIONS, [1, 2]), judged("b", Verdict.DECISIONS, [2])),
        ("two", "one"),
        ("a", "b"),
    ),
    "what was not read is made ready by nothing": ((judged("a", Verdict.NOT_JUDGED, [1]),), (), ()),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_first_comes_what_makes_most_programs_ready(case: str) -> None:
    programs, expected, ready = PROGRAMS[case]
    findings = [finding(number, package=name) for number, name in enumerate(("one", "two", "three"), 1)]
    decisions = decisions_of("npu", findings, programs)
    first = decisions.first(min(len(expected), 2) or 1)
    if expected:
        assert [each.id for each in first] == list(expected)
    assert decisions.ready_after(first) == len(ready)


def test_what_stops_a_program_comes_first_and_says_which() -> None:
    programs = (
        judged("train.py", Verdict.BLOCKED, lacking="xformers"),
        judged("eval.py", Verdict.MAY_NEED, [1], lacking="xformers", reachability=Reachability.CHOSEN),
    )
    decisions = decisions_of("npu", [finding(1)], programs)
    worst, other = decisions.all
    assert (worst.id, worst.stopped, worst.undecided, worst.blocks) == ("xformers", ("train.py",), ("eval.py",), True)
    assert other.waiting == ("eval.py",)
    assert decisions.of_program == {"train.py": ("xformers",), "eval.py": ("xformers", other.id)}
    assert choices_of(worst, "npu")[-1].name == ""  # nobody can accept that it is there


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("make", [real, hostile])
def test_text_json_and_the_full_list_hold_the_same(make: object, lang: str) -> None:
    report: Report = make()  # type: ignore[operator]
    every = "\n".join(text_format.lines(report, TextLayout(lang, verbose=True)))
    full = full_format.render(report, lang)
    document = json.loads(json_format.render(report, lang))
    decisions = report.decisions
    assert [each["id"] for each in document["decisions"]] == [each.id for each in decisions.all]
    asking = [each for each in report.findings if each.grade in (Grade.MANUAL, Grade.UNSAFE)]
    assert sum(len(each["places"]) for each in document["decisions"]) == len({each.location for each in asking})
    for each in report.findings:
        assert each.code in full
        assert each.code in every
    assert all(display_width(line) <= 200 for line in text_format.render(report, lang).split("\n"))


def test_counts_agree() -> None:
    report = real()
    decisions: Decisions = report.decisions
    said = verdict_sentence(report).render("en")
    assert f"{report.by_grade[Grade.SAFE]} safe fixes, one fix to read and {len(decisions.to_decide)} decisions" in said
    assert f"Decisions: {len(decisions.to_decide)}, each with its answers" in text_format.render(report, "en")
    assert report.by_grade[Grade.UNSAFE] == sum(len(each.places) for each in decisions.to_read) == 1


@pytest.mark.parametrize(("kinds", "columns"), [(2, 80), (2, 100), (2, 160), (12, 100), (12, 160)])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_first_screen_has_the_answers(kinds: int, lang: str, columns: int) -> None:
    """Verdict, programs, what to decide and the next commands are in 24 lines, however mixed a project is."""
    deciding = [judged(f"train{i}.py", Verdict.DECISIONS, [i % 4 + 1]) for i in range(40)]
    programs = [*deciding, judged("x.py", Verdict.BLOCKED, lacking="xformers")]
    place = Location("c.py", 1, 1, 1, 2)
    for number, verdict in enumerate((Verdict.READY, Verdict.FIXES, Verdict.WITHOUT, Verdict.MAY_NEED) * 3):
        if number < kinds - 2:
            made = judged(f"other{number}.py", verdict, lacking="cupy", reachability=Reachability.CHOSEN)
            carried = (Unverified("a-long-package-name", "c.py:1", carries=True),) if number > 3 else ()
            programs.append(made._replace(unresolved=(place,) if number > 7 else (), unverified=carried))
    findings = tuple(finding(number, package=f"package{number}") for number in range(1, 9))
    report = real()._replace(findings=findings, programs=tuple(programs))
    screen = list(text_format.lines(report, TextLayout.of_terminal(lang, plain, False, columns)))[: text_format.SCREEN]
    text = "\n".join(screen)
    assert re.search(r"^    1  .*xformers.*x\.py$", text, re.MULTILINE)
    assert re.search(r"^   40  .*train0\.py, ", text, re.MULTILINE)
    assert all(f"package{number}" in text for number in range(1, 9))  # each has its answers there
    shown = re.search(r"torchferry show (\S+) \. -t npu", text)
    assert shown is not None
    assert re.search(rf"^  {shown[1]}[ ,]", text, re.MULTILINE)
    assert "torchferry migrate" in text or not report.by_grade[Grade.SAFE]
    wide = [line for line in screen if display_width(line) > columns and "torchferry" not in line]
    assert not wide


def test_a_short_report_names_every_decision_once_with_its_answers() -> None:
    text = say("`{name}` on {target}: " + "a long text of what to do, " * 20, name="x", target="T")
    findings = tuple(finding(number, text, code=f"CUD{200 + number}") for number in range(1, 31))
    report = real()._replace(findings=findings, programs=())
    short = text_format.render(report, "en")
    ids = [each.id for each in report.decisions.to_decide]
    assert len(ids) == 30
    assert all(re.search(rf"(^|[ ,;]){name}([ ,;]|$)", short, re.MULTILINE) for name in ids)
    assert "a long text" not in short  # `torchferry show` and `-v` have it
    whole = "\n".join(text_format.lines(report, TextLayout("en", verbose=True)))
    assert whole.count("a long text of what to do, a long") > 30 * 2


def test_the_answers_of_rules_are_short() -> None:
    for rule in rules():
        for answer in rule.ANSWERS:
            assert 0 < display_width(answer.render("en")) <= 52, rule.CODE
            assert 0 < display_width(answer.render("zh")) <= 52, rule.CODE


def mixed(count: int) -> tuple[Finding, ...]:
    """Return findings of so many decisions whose answers differ."""
    packages = ("flash-attn", "bitsandbytes", "tensorrt", "triton", "apex", "cupy", "unsloth", "deepspeed", "vllm")
    of_packages = [finding(number, package=name) for number, name in enumerate(packages[:count], 1)]
    codes = ("PRC101", "ENV101", "DEP103", "CMP101", "DST105", "TCH105", "LIB113", "CUD116", "CUD107", "CNT101")
    others = [finding(number, code=code) for number, code in enumerate(codes[: max(count - len(packages), 0)], 20)]
    return (*of_packages, *others)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("columns", [80, 100, 160])
@pytest.mark.parametrize("count", [1, 3, 6, 9, 19])
def test_a_decision_that_has_no_room_on_the_first_screen_stands_below_it(count: int, columns: int, lang: str) -> None:
    """However many there are, each decision is named on the first screen or has a row below, and no answer is lost."""
    report = real()._replace(findings=mixed(count), programs=())
    lines = list(text_format.lines(report, TextLayout.of_terminal(lang, plain, False, columns)))
    for each in report.decisions.to_decide:
        row = next(line for line in lines if re.match(rf"  (.*[,;] +)?{re.escape(each.id)}[ ,]", line))
        following = lines[lines.index(row) + 1]
        for choice in choices_of(each, "npu"):
            if choice.name:
                assert choice.name in row + following
    assert all(display_width(line) <= max(columns, 200) for line in lines)


def test_the_ways_of_a_decision_say_once_what_they_share() -> None:
    ways = [
        CallPath(
            Reachability.CHOSEN,
            (Step("a.py", 1), Step("c.py", 1)),
            conditions=("shared (a.py:1)", f"own {number} (b.py:{number})"),
        )
        for number in (1, 2)
    ]
    place = Location("c.py", 1, 1, 1, 2)
    programs = [
        judged(f"train{number}.py", Verdict.MAY_NEED)._replace(
            optional=(Obstacle("xformers", "LIB101", place, say("no xformers"), call_path),)
        )
        for number, call_path in enumerate(ways)
    ]
    (decision,) = decisions_of("npu", (), programs).all
    shown = "\n".join(show_format.lines(decision, "npu", lambda place: (), ". -t npu", TextLayout("en")))
    assert shown.count("shared (a.py:1)") == 1 + 1  # in the head, and with the ways
    assert all(f"only where own {number} (b.py:{number})" in shown for number in (1, 2))


CHOICES = {
    "an edit, or as it is": (finding(1, grade=Grade.UNSAFE, edits=(Edit(0, 1, "x"),)), ["fix", "accept"]),
    "by hand, or as it is": (finding(1), ["", "accept"]),
    "another package": (finding(1, package="onnxruntime-gpu"), ["", "accept"]),
    "another package or a formula": (finding(1, package="flash-attn"), ["", "", "accept"]),
    "what blocks cannot be accepted": (finding(1, lacks="nvidia.dali", blocker=True), [""]),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_choices_have_their_costs_and_the_recommended_one_is_first(case: str) -> None:
    place, names = CHOICES[case]
    (decision,) = decisions_of("npu", [place._replace(anchor=Anchor("f", "x", 0))], ()).all
    choices = choices_of(decision, "npu")
    assert [each.name for each in choices] == names
    assert all(each.cost.render("en") and each.cost.render("zh") for each in choices)
    if place.package:
        assert f"in place of `{place.package}`" in choices[0].text.render("en")


def test_what_is_alike_but_for_its_counts_is_one_decision_with_the_sums() -> None:
    def source(line: int, kernels: int, launches: int) -> Finding:
        counted = say_plural("{count} kernel", "{count} kernels", count=kernels)
        started = say_plural("{count} launch", "{count} launches", count=launches)
        return finding(line, say("source with {kernels} and {launches}", kernels=counted, launches=started))

    (decision,) = decisions_of("npu", [source(1, 1, 0), source(2, 6, 1), source(3, 0, 0)], ()).all
    assert decision.message.render("en") == "source with 7 kernels and 1 launch"
    assert len(decision.places) == 3
    (one,) = decisions_of("npu", [source(1, 5, 5)], ()).all
    assert one.id == decision.id


def test_a_report_makes_its_decisions_once_and_another_report_its_own() -> None:
    report = real()
    assert report.decisions is report.decisions
    fewer = report._replace(findings=report.findings[:1])
    assert fewer.decisions == decisions_of(report.target, report.findings[:1], ())
    assert report.decisions == decisions_of(report.target, report.findings, ())
