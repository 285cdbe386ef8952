"""What values a target's environment variable takes: the column `values` of `env.toml`."""

from __future__ import annotations

import pytest

from torchferry.backends import registry
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.backends.variable_values import cards_listed, hides_every_card, names_nvidia_card, refusal, values_of

TARGETS = registry.built_in()
CARDS, ALLOCATOR = "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF"


@pytest.mark.parametrize("target", TARGETS)
def test_every_row_says_it_in_words_that_are_known(target: str) -> None:
    for row in Target.named(target).backend.table("env"):
        takes = values_of(row)
        assert takes.numbers in ("", "any", "ascending")
        assert not takes.keys or set(takes.excludes) <= set(takes.keys)


def test_a_word_that_is_not_known_is_an_error() -> None:
    with pytest.raises(TypeError):
        values_of(Row(CARDS, "renamed", "ZETA_DEVICES", extra={"values": {"number": "any"}}))


@pytest.mark.parametrize("value", ["0", "0,1", " 0, 1 ", "2,7", "$CARDS", "0,${MORE}", "{index}"])
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_in_order_are_taken_everywhere(target: str, value: str) -> None:
    chosen = Target.named(target)
    assert refusal(chosen, chosen.row("env", CARDS), value) is None


REFUSED = {
    ("npu", CARDS, "1,0"): "accepts only ascending numbers",
    ("npu", CARDS, "0,0"): "accepts only ascending numbers",
    ("npu", CARDS, "all"): "takes only card numbers",
    ("musa", CARDS, "all"): "takes only card numbers",
    ("ptex", CARDS, "0,-1"): "takes only card numbers",
    ("npu", ALLOCATOR, "backend:cudaMallocAsync"): "has no setting `backend`",
    ("npu", CARDS, "9" * 5000): "takes only card numbers",
    ("npu", ALLOCATOR, "expandable_segments:True,max_split_size_mb:32"): "refuses `expandable_segments` together",
    ("npu", ALLOCATOR, "max_split_size_mb:{},expandable_segments:True"): "refuses `expandable_segments` together",
    ("musa", ALLOCATOR, "backend:cudaMallocAsync"): "takes no `cudaMallocAsync`",
    ("musa", ALLOCATOR, "pinned_reserve_segment_size_mb:8"): "has no setting `pinned_reserve_segment_size_mb`",
    ("gcu", ALLOCATOR, "backend:cudaMallocAsync"): "takes no `cudaMallocAsync`",
}


@pytest.mark.parametrize(("target", "name", "value"), REFUSED)
def test_a_value_is_refused(target: str, name: str, value: str) -> None:
    chosen = Target.named(target)
    told = refusal(chosen, chosen.row("env", name), value)
    assert told is not None
    assert REFUSED[target, name, value] in told.render("en")


TAKEN = {
    ("musa", CARDS, "1,0"),
    ("npu", ALLOCATOR, "expandable_segments:False,max_split_size_mb:32"),
    ("npu", ALLOCATOR, "roundup_power2_divisions:[256:1,512:2,>:4]"),
    ("musa", ALLOCATOR, "backend:native,max_split_size_mb:32"),
    ("npu", ALLOCATOR, "{},max_split_size_mb:{}"),
    ("npu", ALLOCATOR, "${A:-max_split_size_mb:64}"),
    ("npu", CARDS, "{},0"),
    ("sdaa", ALLOCATOR, "anything:1"),
}
"""Values that are taken, or of which nothing is known."""


@pytest.mark.parametrize(("target", "name", "value"), sorted(TAKEN))
def test_a_value_is_taken(target: str, name: str, value: str) -> None:
    chosen = Target.named(target)
    assert refusal(chosen, chosen.row("env", name), value) is None


def test_a_list_of_cards_is_read_as_cuda_reads_it() -> None:
    assert cards_listed("2, 0,x,1") == [2, 0]
    assert cards_listed("-1") == cards_listed("1" * 5000) == []
    assert [value for value in ("", "-1", "none", "0") if hides_every_card(value)] == ["", "-1", "none"]
    assert [value for value in ("GPU-1", "0,MIG-2", "0") if names_nvidia_card(value)] == ["GPU-1", "0,MIG-2"]
