"""What of a document is shown: never more than the budget, and all of it from offset to offset."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.assistant.views import LEAST_BUDGET, DocumentShape, DocumentView, shown, size
from torchferry.core.errors import UsageError

pytestmark = pytest.mark.pure

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["x" * 3000, "数" * 700])
ITEMS = st.fixed_dictionaries({"code": st.sampled_from(["A", "B"]), "text": TEXTS}, optional={"deep": st.lists(TEXTS)})
DOCUMENTS = st.fixed_dictionaries(
    {"rows": st.lists(ITEMS, max_size=30)},
    optional={
        "verdict": TEXTS,
        "head": st.dictionaries(TEXTS, TEXTS, max_size=11),
        "table": st.dictionaries(TEXTS, st.integers(), min_size=13, max_size=25),
        "more": st.lists(TEXTS, max_size=25),
    },
)
SHAPE = DocumentShape(main="rows", first=("verdict",))


@settings(max_examples=40, deadline=None)
@given(DOCUMENTS, st.integers(LEAST_BUDGET, 9000))
def test_no_answer_is_larger_than_its_budget(document: dict[str, Any], budget: int) -> None:
    assert size(shown(document, SHAPE, DocumentView(budget=budget))) <= budget
    assert size(shown(document, SHAPE, DocumentView(part="rows", budget=budget))) <= budget


@settings(max_examples=25, deadline=None)
@given(DOCUMENTS, st.integers(LEAST_BUDGET, 6000), st.integers(1, 20))
def test_every_item_is_reached_from_offset_to_offset(document: dict[str, Any], budget: int, limit: int) -> None:
    codes: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = shown(document, SHAPE, DocumentView(part="rows", offset=offset, limit=limit, budget=budget))
        assert answer["rows"] or not document["rows"]
        codes += [each["code"] for each in answer["rows"]]
        offset = answer.get("left_out", {}).get("rows", {}).get("next_offset")
    assert codes == [each["code"] for each in document["rows"]]


DOCUMENT = {
    "verdict": "v",
    "rows": [{"code": "A1", "path": "a.py"}, {"code": "A2", "path": "b.py"}, {"code": "B1", "path": "b.py"}],
    "none": [],
}


def test_items_are_chosen_and_counted() -> None:
    def rows(**view: Any) -> Any:
        return shown(DOCUMENT, SHAPE, DocumentView(**view))["rows"]

    assert [each["code"] for each in rows(where=("path=B.py",))] == ["A2", "B1"]
    assert [each["code"] for each in rows(where=("path=b.py", "code=a"))] == ["A2"]
    assert [each["code"] for each in rows(where=("a.py",))] == ["A1"]
    assert rows(group_by="path") == [{"path": "b.py", "count": 2}, {"path": "a.py", "count": 1}]
    assert shown(DOCUMENT, SHAPE, DocumentView(where=("code=Z",)))["why_empty"] == {
        "rows": "none of the 3 items of `rows` meets: code=Z"
    }
    assert shown(DOCUMENT, SHAPE, DocumentView(part="none"))["why_empty"] == {"none": "the command reported none"}
    assert "behind the last item" in shown(DOCUMENT, SHAPE, DocumentView(offset=3))["why_empty"]["rows"]
    for view, words in (
        (DocumentView(where=("cod=A",)), "they have: code, path"),
        (DocumentView(group_by="cod"), "they have: code, path"),
        (DocumentView(part="row"), "did you mean `rows`"),
    ):
        with pytest.raises(UsageError) as wrong:
            shown(DOCUMENT, SHAPE, view)
        assert words in "\n".join(wrong.value.lines())
