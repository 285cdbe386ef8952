"""What one side fuses: matched by place, and nothing counted twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiling.traces import host, kineto, launched, step, written
from torchferry.cli import cli
from torchferry.profiling.comparison import ProfiledRun, TraceComparison, compare
from torchferry.profiling.reading import read
from torchferry.profiling.summary import DISPATCHED, summarise

Tree = list[Any]
"""Names of operators, or `(name, what it calls)`; a name with a capital letter is a module."""


def laid_out(tree: Tree, start: float) -> tuple[list[dict[str, Any]], float]:
    """Return the events of a tree from a moment on, and when they end; each takes 3 and what it calls."""
    events: list[dict[str, Any]] = []
    at = start
    for entry in tree:
        name, inside = entry if isinstance(entry, tuple) else (entry, [])
        within, end = laid_out(inside, at + 1)
        end += 2
        if name.startswith("Optimizer."):
            events.append(host("user_annotation", name, at, end - at))
        elif name[0].isupper():
            events.append(host("python_function", f"nn.Module: {name}", at, end - at))
        else:
            events.append(host("cpu_op", name, at, end - at))
        events += within
        at = end
    return events, at


def trace_of(folder: Path, name: str, *steps: Tree) -> Path:
    """Write the trace of a run whose steps are these."""
    events: list[dict[str, Any]] = []
    at = 0.0
    for number, tree in enumerate(steps):
        within, end = laid_out(tree, at + 1)
        events += [step(number, at, end + 1 - at), *within]
        at = end + 1
    return written(folder / f"{name}.json", kineto(events))


def compared(folder: Path, base: list[Tree], target: list[Tree]) -> TraceComparison:
    """Return the comparison of two runs, after a look at its sums."""
    paths = [trace_of(folder, "base", *base), trace_of(folder, "target", *target)]
    runs = [ProfiledRun(path, (summarise(read(path)),)) for path in paths]
    comparison = compare(runs[0], runs[1])
    for side, run in zip(("base", "target"), runs, strict=True):
        whole = sum(row.host_self for row in run.first.rows(DISPATCHED)) / len(run.first.steps)
        rows = [getattr(row, side) or 0 for row in (*comparison.operators, *comparison.places)]
        assert sum(rows) == pytest.approx(whole)
    return comparison


def groups(comparison: TraceComparison) -> dict[str, tuple[float, float]]:
    """Return the groups as text with their places in a step of both sides."""

    def text(names: tuple[tuple[str, int], ...]) -> str:
        return " ".join(sorted(f"{name.partition('::')[2] or name}*{count}" for name, count in names))

    return {
        f"{text(row.base_names)} > {text(row.target_names)}": (row.base_calls, row.target_calls)
        for row in comparison.places
    }


def model(*inside: Any) -> Tree:
    """Return a step with one module."""
    return [("GPT_0", list(inside))]


WRITTEN = ["aten::bmm", "aten::_softmax", "aten::bmm"]
FUSED = ["npu::npu_fusion_attention"]
PLACES: dict[str, tuple[Tree, Tree, dict[str, tuple[float, float]]]] = {
    "attention, in two blocks": (
        model(*(("Block_" + n, ["aten::view", *WRITTEN, "aten::add"]) for n in "01")),
        model(*(("Block_" + n, ["aten::view", *FUSED, "aten::add"]) for n in "01")),
        {"_softmax*1 bmm*2 > npu_fusion_attention*1": (2, 2)},
    ),
    "the whole of a module": (
        model(("LayerNorm_0", ["aten::native_layer_norm"])),
        model(("LayerNorm_0", ["npu::npu_rms_norm"])),
        {"native_layer_norm*1 > npu_rms_norm*1": (1, 1)},
    ),
    "a module that the other side does without": (
        model("aten::add", ("Norm_0", ["aten::pow", "aten::mul"]), "aten::sub"),
        model("aten::add", "npu::npu_rms_norm", "aten::sub"),
        {"mul*1 pow*1 > npu_rms_norm*1": (1, 1)},
    ),
    "the optimizer, by another name": (
        [*model("aten::mm"), ("Optimizer.step#AdamW.step", ["aten::_foreach_mul_", "aten::_foreach_add_"])],
        [*model("aten::mm"), ("Optimizer.step#Fused.step", ["npu::fused_adamw"])],
        {"_foreach_add_*1 _foreach_mul_*1 > fused_adamw*1": (1, 1)},
    ),
    "inside of the same operator": (
        model(("aten::scaled_dot_product_attention", WRITTEN)),
        model(("aten::scaled_dot_product_attention", ["aten::_flash"])),
        {"_softmax*1 bmm*2 > _flash*1": (1, 1)},
    ),
    "beside names that are on both sides": (
        model("aten::view", "aten::transpose", "aten::transpose", *WRITTEN, "aten::transpose", "aten::add"),
        model("aten::view", "aten::transpose", *FUSED, "aten::transpose", "aten::add"),
        {"_softmax*1 bmm*2 > npu_fusion_attention*1": (1, 1)},
    ),
    "one of three that are alike is matched: which, nobody knows": (
        model("aten::mm", "aten::mm", "aten::mm"),
        model("aten::mm", "aten::split"),
        {},
    ),
    "the same with modules, which have numbers": (
        model(("Linear_0", ["aten::linear"]), ("Linear_1", ["aten::linear"]), "aten::silu"),
        model(("Linear_0", ["aten::linear"]), "aten::chunk", "aten::silu"),
        {},
    ),
    "the same with more than one name": (
        model("aten::silu", "aten::mm", "aten::t", "aten::mm", "aten::t", "aten::add"),
        model("aten::silu", "aten::split", "aten::mm", "aten::t", "aten::add"),
        {},
    ),
    "only one side has something": (model("aten::mm", "aten::relu"), model("aten::mm"), {}),
    "the same in another order": (model("aten::mm", "aten::relu"), model("aten::relu", "aten::mm"), {}),
    "in other modules": (model(("A_0", ["aten::mm"])), model(("B_0", ["aten::bmm"])), {}),
    "no module is the same": ([("A_0", ["aten::mm"]), "aten::x"], [("B_0", ["aten::mm"]), "aten::y"], {}),
    "no module is the same, though operators are": (
        [("A_0", ["aten::mm"]), "aten::x", *WRITTEN, "aten::y"],
        [("B_0", ["aten::mm"]), "aten::x", *FUSED, "aten::y"],
        {},
    ),
    "a long loop of an optimizer": (
        [*model("aten::mm"), ("Optimizer.step#A.step", ["aten::lerp_", "aten::mul_", "aten::add_"] * 80)],
        [*model("aten::mm"), ("Optimizer.step#A.step", ["aten::lerp_", "aten::fused", "aten::add_"] * 80)],
        {"mul_*1 > fused*1": (80, 80)},
    ),
    "a loop that is too long": (
        [*model("aten::mm"), ("Optimizer.step#A.step", ["aten::lerp_", "aten::mul_"] * 510)],
        [*model("aten::mm"), ("Optimizer.step#A.step", ["aten::sub_", "aten::add_"] * 510)],
        {},
    ),
    "no modules": (WRITTEN, FUSED, {}),
}


@pytest.mark.parametrize("what", PLACES)
def test_what_stands_at_the_same_place_is_one_row(what: str, tmp_path: Path) -> None:
    base, target, expected = PLACES[what]
    for sides in ([base, target], [target, base]):
        comparison = compared(tmp_path, [sides[0]] * 2, [sides[1]] * 2)
        found = groups(comparison)
        if sides[0] is target:
            found = {" > ".join(reversed(key.split(" > "))): value for key, value in found.items()}
        assert found == expected
        grouped = {name for row in comparison.places for name, _ in (*row.base_names, *row.target_names)}
        assert not grouped & {row.name for row in comparison.operators} - {"aten::transpose"}
        said = [reason.render("en") for reason in comparison.unjudged if "fuses" in reason.render("en")]
        if what == "no modules":
            assert said == ["operators that one side fuses: modules were not recorded in both traces"]
        else:
            assert bool(said) == (what.startswith(("in other modules", "no module is", "a loop that is too long")))


def test_the_backward_is_matched_in_the_module_of_its_forward(tmp_path: Path) -> None:
    def trace(name: str, forward: list[str]) -> Path:
        events = [step(0, 0, 300), host("python_function", "nn.Module: GPT_0", 1, 100)]
        for number, operator in enumerate(forward):
            arguments = {"Sequence number": number, "Fwd thread id": 0}
            events.append(host("cpu_op", operator, 2 + 10 * number, 8, **arguments))
            node = f"{operator.partition('::')[2]}Backward0"
            arguments = {"Sequence number": number, "Fwd thread id": 1}
            start = 250 - 10 * number
            engine = f"autograd::engine::evaluate_function: {node}"
            events += [host("cpu_op", engine, start, 8, 9, **arguments), host("cpu_op", node, start + 1, 6, 9)]
        return written(tmp_path / name, kineto(events))

    paths = (
        trace("base.json", ["aten::mm", *WRITTEN, "aten::add"]),
        trace("target.json", ["aten::mm", *FUSED, "aten::add"]),
    )
    result = CliRunner().invoke(cli, ["profile", "compare", *map(str, paths), "-f", "json"])
    document = json.loads(result.output)
    assert [(row["base_names"], row["target_names"], row["base"]) for row in document["matched_by_place"]] == [
        ({"aten::bmm": 2, "aten::_softmax": 1}, {"npu::npu_fusion_attention": 1}, 24_000),
        ({"bmmBackward0": 2, "_softmaxBackward0": 1}, {"npu_fusion_attentionBackward0": 1}, 24_000),
    ]
    assert {row["name"] for row in document["operators"] if None in (row["base"], row["target"])} == set()
    for form, arrow in (("text", "    -> npu::npu_fusion_attention"), ("html", "→ npu::npu_fusion_attention")):
        shown = CliRunner().invoke(cli, ["profile", "compare", *map(str, paths), "-f", form]).output
        assert "matched by place" in shown
        assert arrow in shown
    table = CliRunner().invoke(cli, ["profile", "compare", *map(str, paths), "-f", "csv"]).output
    assert "aten::bmm x2 + aten::_softmax -> npu::npu_fusion_attention,24000.0,8000.0,1.0,1.0,-16000.0" in table


def test_on_a_device_the_time_is_the_device_s(tmp_path: Path) -> None:
    runs = []
    for name, operators, length in (("base", WRITTEN, 20), ("target", FUSED, 70)):
        events = [step(0, 0, 300), host("python_function", "nn.Module: GPT_0", 1, 100)]
        for number, operator in enumerate(["aten::mm", *operators]):
            events += launched(operator, 5 + 20 * number, 10 + 80 * number, length, number + 1)
        path = written(tmp_path / f"{name}.json", kineto(events))
        runs.append(ProfiledRun(path, (summarise(read(path)),)))
    comparison = compare(runs[0], runs[1])
    assert [(row.base, row.target) for row in comparison.places] == [(60_000, 70_000)]
    assert [(row.name, row.base, row.target) for row in comparison.operators] == [("aten::mm", 20_000, 70_000)]


def test_a_slower_place_is_named_as_the_cause(tmp_path: Path) -> None:
    paths = (
        trace_of(tmp_path, "base", model("aten::mm", *FUSED)),
        trace_of(tmp_path, "target", model("aten::mm", *WRITTEN)),
    )
    document = json.loads(CliRunner().invoke(cli, ["profile", "compare", *map(str, paths), "-f", "json"]).output)
    assert document["causes"] == [
        "npu::npu_fusion_attention of the base, aten::bmm x2 + aten::_softmax of the target at the same place: "
        "+0.006 ms a step"
    ]


def test_further_steps_of_one_side_are_laid_on_the_first_of_the_other(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [model("aten::mm", *WRITTEN)] * 3, [model("aten::mm", *FUSED)])
    assert groups(comparison) == {"_softmax*1 bmm*2 > npu_fusion_attention*1": (1, 1)}
    assert not [row for row in comparison.operators if row.name in WRITTEN]


NAMES = st.sampled_from(["aten::a", "aten::b", "aten::c", "npu::d", "plain", "M_0", "M_1", "Optimizer.step#X.step"])
TREES = st.recursive(
    st.lists(NAMES, max_size=4),
    lambda inner: st.lists(st.one_of(NAMES, st.tuples(NAMES, inner)), max_size=4),
    max_leaves=12,
)
STEPS = st.lists(TREES.map(lambda tree: [*tree, ("GPT_0", tree)]), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS)
def test_each_nanosecond_is_in_one_row_whichever_side_is_the_base(
    tmp_path_factory: pytest.TempPathFactory, base: list[Tree], target: list[Tree]
) -> None:
    folder = tmp_path_factory.mktemp("places")
    found = compared(folder, base, target).places
    exchanged = compared(folder, target, base).places
    assert {(row.base_names, row.target_names, row.base, row.target) for row in found} == {
        (row.target_names, row.base_names, row.target, row.base) for row in exchanged
    }
    assert all(row.base_calls and row.target_calls for row in found)
