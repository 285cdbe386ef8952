"""Pages made of documents: what they show, and that hostile names stay text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from torchferry.numerics.report import pages
from torchferry.numerics.report.compare import lines as compare_lines
from torchferry.numerics.report.pages import Mark, compare_page, diff_page, grown, nan_page

HOSTILE = "<script>alert(1)</script>"


def test_a_branch_is_as_bad_as_the_worst_in_it() -> None:
    tree = grown([Mark("M.a.0", 0.2), Mark("M.a.10", 0.9, "bad"), Mark("M.a.2", 0.0), Mark("", 0.1)], "none")
    model = tree.children["M"]
    assert (tree.level, model.level, model.children["a"].level, tree.children["none"].level) == (0.9, 0.9, 0.9, 0.1)
    assert [branch.name for branch in model.children["a"].sorted_children()] == ["0", "2", "10"]
    assert model.children["a"].children["10"].texts == ["bad"]


@pytest.mark.parametrize(
    ("points", "drawn"),
    [
        ([], False),
        ([(0, 1e-3)], False),
        ([(0, 0.0), (1, 1e-3), (2, float("nan"))], False),
        ([(0, 1e-3), (1, 2.0)], True),
    ],
)
def test_a_curve_needs_two_points(points: list[tuple[float, float]], drawn: bool) -> None:
    assert pages.curve(points, "step", "error").startswith("<svg") is drawn


def finding(name: str) -> dict[str, Any]:
    tensor: dict[str, Any] = {"shape": [2], "dtype": "float32", "device": "cpu", "nan": 1, "inf": 0}
    tensor.update(least=0.0, greatest=1.0, mean=0.5)
    origin: dict[str, Any] = {
        "operator": name,
        "phase": "forward",
        "module": f"GPT.{name}",
        "source": "",
        "kind": "nan",
    }
    origin.update(inputs=[tensor], outputs=[tensor], constants=[name], line=name)
    return {"step": 3, "origins": [origin], "notes": [name]}


def operator(status: str, module: str, of_bound: float | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(("max_abs", "max_rel", "ulp", "rmse_ratio", "cosine"), 0.5)
    row.update(operator="aten.mm", module=module, phase="forward", source="", step=0, status=status, shape=[2, 2])
    row.update(dtype="float16", of_bound=of_bound, count=1, reason=module, elements=1, all_elements=4)
    return row


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {
        name: sum(row["status"] == name for row in rows) for name in ("pass", "warn", "fail", "untested", "skipped")
    }
    failures = [number for number, row in enumerate(rows) if row["status"] == "fail"]
    rank = {"rank": 0, "process": 1, "steps": 2, "device": "npu:0", "counts": counts, "operators": rows, "skipped": {}}
    rank.update(not_sampled=0, left_to_budget=0, compiled=False, unmet=[], in_other_threads=0, in_part=1)
    rank.update(first_failure=failures[0] if failures else None)
    return {"tool": "compare", "standard": "ours", "source": "a book", "exit_code": 0, "broken": [], "ranks": [rank]}


DIFFERENT = {
    "same": False,
    "causes": [{"cause": HOSTILE, "where": HOSTILE, "a": "1", "b": "2", "advice": ""}],
    "modules": [{"module": f"GPT.{HOSTILE}", "phase": "forward", "error": 1e-3, "step": 1}],
    "steps": [{"step": 0, "error": 1e-6}, {"step": 1, "error": "inf"}, {"step": 2, "error": 1e-2}],
}
PAGES = {
    "nan": lambda: nan_page(
        {
            "first": {"rank": 0, **finding(HOSTILE)},
            "ranks": [{"rank": 0, "steps": 4, "bad_steps": [3], "findings": [finding(HOSTILE)]}],
            "unfinished": [HOSTILE],
        },
        "en",
    ),
    "compare": lambda: compare_page(compared([operator("fail", HOSTILE, 9.0), operator("pass", "M.a", None)]), "en"),
    "diff": lambda: diff_page(DIFFERENT, [HOSTILE, "  more"], "en"),
}


@pytest.mark.parametrize("name", PAGES)
def test_names_stay_text_and_nothing_is_loaded(name: str) -> None:
    text = PAGES[name]()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", text)
    assert text.count("<html") == text.count("</html>") == 1


def test_the_worst_operator_comes_first() -> None:
    text = compare_page(compared([operator("pass", "M.a", 0.9), operator("fail", "M.b", 3.0)]), "en")
    assert text.index('<tr class="fail">') < text.index('<tr class="pass">')
    assert '<h1 class="unmet">' in text
    good = compared([operator("pass", "M.a", 0.9)])
    assert '<h1 class="met">' in compare_page(good, "en")
    good["ranks"][0]["device"] = "cpu"
    assert '<h1 class="unmet">NO ACCELERATOR WAS USED' in compare_page(good, "en")
    assert '<h1 class="met">' in compare_page({**good, "asked_of_cpu": True}, "en")
    on_card = {**good["ranks"][0], "device": "npu"}
    loader = {**good["ranks"][0], "process": 7}  # beside the process of the same rank that uses the card
    assert '<h1 class="met">' in compare_page({**good, "ranks": [on_card, loader]}, "en")
    other = {**good["ranks"][0], "rank": 1}
    assert "NO ACCELERATOR WAS USED by rank 1:" in compare_page({**good, "ranks": [on_card, other]}, "en")


@pytest.mark.parametrize(
    ("again", "said"), [(0, ""), (3, "each kind in the sample was compared at least every 3 steps")]
)
def test_how_soon_calls_were_compared_again_is_said_only_where_they_were(again: int, said: str) -> None:
    document = compared([operator("pass", "M.a", 0.9)])
    document["ranks"][0].update(not_sampled=7, again_within=again, places_within=again)
    text = "\n".join(compare_lines(document, "en"))
    assert "7 further calls were not in the sample" in text
    assert said in text
    assert ("each kind in the sample" in text) is bool(said)


def test_where_no_process_could_be_examined_the_reason_is_said() -> None:
    trace = "Traceback\ntorchferry.core.errors.UsageError: the standard `given` needs `atol` or `rtol`"
    document = {**compared([]), "ranks": [{"rank": 0, "process": 1, "error": trace}]}
    text = list(compare_lines(document, "en"))
    assert text[1] == "rank 0 (process 1): the examination failed: the standard `given` needs `atol` or `rtol`"
    assert text[-1] == "NOTHING WAS COMPARED: no process was examined to its end, for the reasons above"
    assert list(compare_lines({**document, "ranks": []}, "en"))[-1].endswith(
        "called an operator in the requested steps"
    )


def test_pages_are_translated() -> None:
    assert '<html lang="zh">' in compare_page(compared([operator("pass", "M.a", 0.9)]), "zh")
    assert "模块" in compare_page(compared([operator("pass", "M.a", 0.9)]), "zh")
