"""Two records side by side: what was made different is named, and what was not is not."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import numpy as np
import torch
from click.testing import CliRunner

from tests.numerics.recorded import Language, Told, compared, record
from torchferry.cli.compare_diff import command
from torchferry.numerics.recording import Recorder
from torchferry.numerics.report import diff
from torchferry.numerics.rundiff import stepwise
from torchferry.numerics.rundiff.alignment import Alignment
from torchferry.numerics.rundiff.causes import CERTAIN, NOTE, POSSIBLE, causes_in_settings
from torchferry.numerics.rundiff.comparison import RunComparison, compare, parted
from torchferry.numerics.rundiff.judging import Past, judge, suspect
from torchferry.numerics.rundiff.stepwise import ALLOWED, Errors, errors, matrices
from torchferry.numerics.runlog.layout import Key
from torchferry.numerics.runlog.record import Rank, Record, RecordedRows, read_record

pytestmark = pytest.mark.rehearsal

DRY = Told(dropout=0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def causes(result: RunComparison, *grades: str) -> dict[str, str]:
    return {cause.cause: cause.where for cause in result.causes if cause.grade in grades}


@pytest.mark.parametrize("autocast", ["", "bfloat16", "float16"])
def test_a_run_that_repeats_itself_is_the_same(tmp_path: Path, autocast: str) -> None:
    told = Told(autocast=autocast)
    result = compared(tmp_path, told, told)
    assert result.same
    assert result.first is None
    assert result.earliest == ""
    assert causes(result, CERTAIN, POSSIBLE) == {}
    assert set(result.steps.values()) == {0.0}
    assert result.only_a == result.only_b == 0
    assert result.aligned > 400


SEEDED = [
    ("data order", Told(order=2), "step 0, input(0)"),
    ("dropout mask", Told(seed=5), "step 0, Language.blocks.0.dropout (forward), dropout mask"),
    ("dropout probability", Told(dropout=0.3), "Language.blocks.0.dropout"),
    ("norm epsilon", Told(eps=1e-6), "step 0, Language.blocks.0.norm, aten.native_layer_norm and 2 more"),
    ("initial weights", Told(weight=0.1), "Language.blocks.1.up.weight"),
    ("initial weights", Told(model_seed=1), "and 2"),
    ("learning rate", Told(rate=2e-3), "step 0, AdamW, group 0, lr"),
    ("optimizer", Told(optimizer="SGD"), "step 0"),
    ("dtype", Told(autocast="bfloat16"), "step 0, Language.blocks.0.attention.qkv, aten.addmm"),
]


@pytest.mark.parametrize(("cause", "told", "where"), SEEDED, ids=[f"{row[0]}-{n}" for n, row in enumerate(SEEDED)])
def test_a_seeded_difference_is_named(tmp_path: Path, cause: str, told: Told, where: str) -> None:
    result = compared(tmp_path, Told(), told)
    found = causes(result, CERTAIN)
    assert cause in found
    assert where in found[cause]
    assert result.causes[0].grade == CERTAIN
    assert not result.same


def test_another_seed_is_given_with_the_mask_that_it_changes(tmp_path: Path) -> None:
    assert "seed" in causes(compared(tmp_path, Told(), Told(seed=5)), POSSIBLE)


def test_another_seed_that_changed_nothing_is_a_note(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(seed=5))
    assert result.same
    assert "seed" in causes(result, NOTE)


def test_other_attention_is_said_and_is_no_error(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(fused=False))
    found = next(cause for cause in result.causes if cause.cause == "fused kernel")
    assert found.where == "step 0, Language.blocks.0.attention and 2 more"
    assert "scaled_dot_product" in found.a
    assert "_softmax" in found.b
    assert result.same
    assert max(result.steps.values()) < 2.0**-13
    assert result.only_a > 0
    assert result.only_b > 0


def test_parts_of_a_layer_are_not_taken_for_the_layer(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(halved=0.0))
    assert result.same
    found = next(cause for cause in result.causes if cause.cause in {"fused kernel", "operators"})
    assert found.where == "step 0, Language.blocks.0.attention.qkv and 2 more"
    assert max(row.error for row in result.table.rows() if row.phase == "forward") < 2.0**-10


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("autocast", ["", "bfloat16"])
def test_other_rounding_is_the_same_over_many_steps(tmp_path: Path, autocast: str, relu: bool) -> None:
    told = DRY._replace(autocast=autocast, relu=relu, steps=20)
    result = compared(tmp_path, told, told._replace(halved=0.0))
    assert result.same, result.first
    assert any(error > 0 for error in result.steps.values())


@pytest.mark.parametrize(
    ("operator", "came_in", "error", "found"),
    [
        ("aten.threshold_backward", 0.006, 0.08, False),  # 0.6 % of the gates are the other way round
        ("aten.threshold_backward", 0.006, 0.5, True),
        ("aten.threshold_backward", 0.0, 0.08, True),
        ("aten.mul.Tensor", 0.006, 0.08, True),
        ("aten.mul.Tensor", 0.006, 0.04, False),
    ],
)
def test_gates_make_small_errors_larger(operator: str, came_in: float, error: float, found: bool) -> None:
    keys = [Key("backward", "m", name, "", 0, "bfloat16", False) for name in ("aten.mm", operator)]
    rows = RecordedRows(keys, [(64,)] * 2, [()] * 2, [(), (0,)], np.ones((2, 64)), np.ones(2))
    pairs = [(0, 0), (1, 1)]
    off = Errors(np.asarray(pairs), np.asarray([came_in, error]), *np.zeros((2, 2), bool))
    limits = np.full(2, ALLOWED["bfloat16"])
    judged = judge(0, rows, rows, Alignment(pairs, [], []), off, limits, Past())
    assert (suspect(judged) is not None) is found


def made(operators: list[tuple[str, str, str]], inputs: list[tuple[int, ...]], errors: list[float]) -> Any:
    """Return rows of bfloat16, aligned with those of another run, and what they are off, and may be."""
    keys = [Key(phase, module, name, "", 0, "bfloat16", False) for phase, module, name in operators]
    count = len(keys)
    rows = RecordedRows(keys, [(64,)] * count, [()] * count, inputs, np.ones((count, 64)), np.ones(count))
    pairs = [(row, row) for row in range(count)]
    off = Errors(np.asarray(pairs), np.asarray(errors), *np.zeros((2, count), bool))
    return rows, Alignment(pairs, [], []), off, np.full(count, ALLOWED["bfloat16"])


@pytest.mark.parametrize(("many", "error", "found"), [(4, 0.2, True), (60, 0.2, False), (60, 0.6, True)])
def test_errors_of_many_operators_add_up(many: int, error: float, found: bool) -> None:
    grown = np.geomspace(7e-3, error, many).tolist()
    layers = [("forward", f"m.{row}", "aten.convolution") for row in range(many)]
    rows, aligned, off, limits = made(layers, [(row - 1,) if row else () for row in range(many)], grown)
    place = suspect(judge(0, rows, rows, aligned, off, limits, Past()))
    assert (place is not None and place.gradual) is found


@pytest.mark.parametrize(
    ("errors", "inner"),
    [
        ([0.7, 0.001, 0.8, 0.001, 0.9], [0, 2]),  # each layer in parts, of which one feeds the next
        ([0.7, 0.3, 0.8, 0.001, 0.9], [2]),  # a norm behind the first is off
    ],
)
def test_parts_that_feed_parts(errors: list[float], inner: list[int]) -> None:
    operators = [
        ("forward", "m.first", "aten.convolution"), ("forward", "m.norm", "aten.native_batch_norm"),
        ("forward", "m.second", "aten.convolution"), ("forward", "m.last", "aten.mean"),
        ("backward", "m.norm", "aten.native_batch_norm_backward"),
    ]  # fmt: skip
    rows, aligned, off, limits = made(operators, [(), (0,), (0, 1), (2,), (0,)], errors)
    further = [Key("forward", module, "aten.add", "", 0, "bfloat16", False) for module in ("m.first", "m.second")]
    other = replace(rows, keys=[*rows.keys, *further])
    aligned = Alignment(aligned.pairs, [], [5, 6])
    known: set[tuple[object, ...]] = set()
    assert stepwise.parts(rows, other, aligned, off, limits, {}, known) == inner
    later = replace(off, relative=np.full(5, 0.9))
    assert stepwise.parts(rows, other, aligned, later, limits, {}, known) == inner


def test_a_bias_without_effect_excuses_nothing_in_its_module() -> None:
    rows, aligned, off, limits = made(
        [("parameter", f"m.{name}", "") for name in ("weight", "bias")], [(), ()], [1e-5, 0.9]
    )
    past = Past()
    rows.sketch[1] *= 1e-3
    rows.sums[1] *= 1e-3
    past.add(0, (rows, rows), aligned, off, limits, [])
    assert past.modules["m"] == pytest.approx(9e-4, rel=0.1)


def test_a_product_that_cancels_is_measured_by_its_terms() -> None:
    keys = [
        Key("parameter", "m.weight", "", "", 0, "float32", False),
        Key("forward", "before", "aten.gelu", "", 0, "float32", False),
        *(Key("forward", module, "aten.addmm", "", 0, "float32", False) for module in ("m", "other")),
    ]
    sketch = np.stack([np.full(64, 8.0), np.full(64, 2.0), np.full(64, 1e-3), np.full(64, 1e-3)])
    inputs: list[tuple[int, ...]] = [(), (), (1,), (1,)]
    a = RecordedRows(keys, [(32, 16), (4, 16), (4, 32), (4, 32)], [()] * 4, inputs, sketch, sketch.sum(1))
    b = RecordedRows(keys, a.shapes, [()] * 4, inputs, sketch + np.asarray([[0], [0], [1e-4], [1e-4]]), a.sums)
    found = errors(a, b, [(n, n) for n in range(4)], matrices(a)).relative
    assert found[2] == pytest.approx(1e-4 * 8 / (16.0 * 64.0 / 4), rel=1e-6)  # |x| |W| / sqrt(16)
    assert found[3] == pytest.approx(0.1, rel=0.1)  # nothing is known of its weight


def test_an_error_in_a_part_of_a_layer_is_found_in_the_layer(tmp_path: Path) -> None:
    first = compared(tmp_path, DRY, DRY._replace(halved=1e-2)).first
    assert first is not None
    assert first.step == 0
    assert first.module.startswith("Language.blocks.0.attention")


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ({0: (2.0, 2.0), 5: (1.0, 1.01)}, None),
        ({0: (2.0, 2.0), 5: (1.0, 1.05)}, 5),
        ({0: (2.0, 2.0), 5: (1e-3, 1.2e-3)}, None),  # learnt: what is left is rounding
        ({0: (2.0, 2.0), 5: (1e-3, 2e-3)}, 5),
        ({0: (1e-3, 1.2e-3)}, 0),
        ({step: (1.0, 1.03 if step == 3 else 1.0) for step in range(9)}, None),  # one step says little
        ({step: (1.0, 1.2 if step == 3 else 1.0) for step in range(9)}, 3),
        ({step: (1.0, 1.03 if step > 5 else 1.0) for step in range(9)}, 6),
        ({0: (2.0, 2.0), 5: (float("nan"), 1.0)}, 5),
        ({0: (2.0, 2.0), 5: (float("nan"), float("nan"))}, None),
        ({0: (0.0, 0.0)}, None),
        ({}, None),
    ],
)
def test_where_losses_part(losses: dict[int, tuple[float, float]], step: int | None) -> None:
    assert parted(losses) == step


def test_losses_may_be_as_far_apart_as_the_references_own() -> None:
    losses = dict.fromkeys(range(9), (1.0, 1.05))
    assert parted(losses, dict.fromkeys(range(9), (1.0, 1.03))) is None
    assert parted(losses, dict.fromkeys(range(9), (1.0, 1.01))) == 0
    assert parted({**losses, 4: (1.0, 1.5)}, dict.fromkeys(range(9), (1.0, 1.03))) == 4


def test_an_error_behind_other_operators_is_found_where_they_end(tmp_path: Path) -> None:
    a = record(tmp_path / "a", DRY)
    b = record(tmp_path / "b", DRY._replace(fused=False, gelu=1e-2))
    first = compare(read_record(a), read_record(b)).first
    assert first is not None
    assert (first.module, first.phase, first.step) == ("Language.blocks.2.down", "forward", 0)


@pytest.mark.parametrize("since", [0, 2])
def test_an_error_in_one_operator_is_found_at_its_step(tmp_path: Path, since: int) -> None:
    result = compared(tmp_path, DRY, DRY._replace(gelu=1e-2, gelu_from=since))
    first = result.first
    assert first is not None
    assert (first.module, first.operator, first.step) == ("Language.blocks.2.down", "aten.addmm", since)
    assert first.error == pytest.approx(1e-2, rel=0.5)
    assert first.came_in is not None
    assert first.came_in < 1e-6
    row = result.table.row("Language.blocks.0.up", "forward")
    assert row is not None
    assert row.step >= since


def test_the_name_of_the_outermost_class_does_not_matter(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(wrapped=True))
    assert result.same
    assert result.only_a == result.only_b == 0


def test_a_loss_that_is_scaled_is_no_other_loss(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(scale=1024.0))
    assert result.losses[0][0] == pytest.approx(result.losses[0][1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_kept_tensors_say_which_element_differs(tmp_path: Path, dtype: str) -> None:
    told = DRY._replace(autocast=dtype)
    result = compared(tmp_path, told, told._replace(gelu=0.5), tensors=["Language.blocks.2*"], first=1)
    assert result.first is not None
    exact = result.first.exact
    assert exact is not None
    assert exact.of == 4 * 16 * 32
    assert exact.differing > 0.9 * exact.of
    assert exact.largest == pytest.approx(abs(exact.values[0] - exact.values[1]))


def test_the_references_own_spread_is_the_envelope(tmp_path: Path) -> None:
    a = read_record(record(tmp_path / "a", DRY))
    again = read_record(record(tmp_path / "again", DRY, perturb=True))
    b = read_record(record(tmp_path / "b", DRY._replace(gelu=3e-5)))
    assert compare(a, b).first is None  # within what float32 may be off on another device
    first = compare(a, b, again).first
    assert first is not None
    assert (first.module, first.operator) == ("Language.blocks.2.down", "aten.addmm")
    assert compare(a, read_record(record(tmp_path / "c", DRY._replace(fused=False))), again).first is None


def test_batches_of_another_size(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(batch=8))
    assert {"batch size", "data", "data order"} & set(causes(result, CERTAIN))


def test_the_document_keeps_its_shape(tmp_path: Path) -> None:
    result = compared(tmp_path, DRY, DRY._replace(gelu=1e-2, rate=2e-3))
    document = json.loads(diff.as_json(result, "en"))
    assert document["tool"] == "diff"
    assert set(document) >= {"causes", "first", "aligned", "only_a", "only_b", "modules", "steps"}
    assert set(document["causes"][0]) >= {"cause", "where", "a", "b", "advice"}
    assert set(document["modules"][0]) == {"module", "phase", "operator", "error", "limit", "beyond", "step"}
    assert set(document["steps"][0]) == {"step", "error"}
    assert document["first"]["module"] == "Language.blocks.2.down"
    header, *rows = diff.as_csv(result).splitlines()
    assert header == "module,phase,operator,error,limit,step"
    assert len(rows) == len(document["modules"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_names_cause_and_place(tmp_path: Path, lang: str) -> None:
    result = compared(tmp_path, DRY, DRY._replace(gelu=1e-2, rate=2e-3))
    text = "\n".join(diff.lines(result, lang))
    assert "0.001 | 0.002" in text
    assert "Language.blocks.2.down (forward) aten.addmm" in text
    assert ("学习率" in text) == (lang == "zh")


def short(told: Told, steps: int) -> Told:
    return told._replace(steps=steps)


@pytest.mark.parametrize(
    ("a", "b", "options", "gap"),
    [
        (4, 4, {}, ""),
        (3, 4, {}, ""),
        (4, 3, {}, "3 of the 4 steps of the run are in both records"),
        (
            4,
            4,
            {"first": 2, "every": 0},
            "the second record has 2 of the 4 steps that the first has operator by operator",
        ),
        (4, 4, {"limit": 300_000}, "the recording ended before the run: the limit of"),
    ],
)
def test_what_covers_less_than_the_reference_is_not_the_same(
    tmp_path: Path, a: int, b: int, options: dict[str, Any], gap: str
) -> None:
    one, two = record(tmp_path / "a", short(DRY, a)), record(tmp_path / "b", short(DRY, b), **options)
    result = compare(read_record(one), read_record(two))
    assert (result.differs, result.same) == (False, not gap)
    assert any(gap in str(message) for message in result.coverage.gaps) is bool(gap)
    headline = next(diff.lines(result, "en"))
    assert headline.startswith("NOT COMPARED TO THE END" if gap else "SAME")
    assert f"the first run made {a} steps" in headline
    for arguments, code in (([], 1 if gap else 0), (["--partial"], 0)):
        assert CliRunner().invoke(command, [str(one), str(two), "--allow-cpu", *arguments]).exit_code == code
    found = json.loads(CliRunner().invoke(command, [str(one), str(two), "--allow-cpu", "-f", "json"]).output)
    assert (found["same"], found["complete"]) == (not gap, not gap)


def test_a_record_of_forward_alone_is_not_a_whole_run(tmp_path: Path) -> None:
    whole = record(tmp_path / "a", DRY)
    forward = tmp_path / "b"
    torch.manual_seed(DRY.model_seed)
    model = Language(DRY)
    with Recorder(forward) as recorder:
        for _ in range(DRY.steps):
            model(torch.zeros(4, 16, dtype=torch.int64))
            recorder.step()
    result = compare(read_record(whole), read_record(forward))
    assert any("phase backward" in str(message) for message in result.coverage.gaps)
    assert not result.same


CPU: dict[str, Any] = {"device": {"type": "cpu"}}
CARD: dict[str, Any] = {"device": {"type": "npu"}}
UNNAMED: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("first", "second", "begins"),
    [
        ([CPU], [CPU], "NO ACCELERATOR WAS USED"),
        ([CPU, CPU], [CPU, CPU], "NO ACCELERATOR WAS USED"),
        ([CPU], [CARD], ""),
        ([CARD, CARD], [CPU, CPU], ""),
        ([CPU, CPU], [CARD, CPU], "NO ACCELERATOR WAS USED by rank 1:"),
        ([CARD, CPU, CPU], [CARD, CARD, CARD], "NO ACCELERATOR WAS USED by rank 1, 2:"),
        ([CARD], [UNNAMED], "NOT KNOWN WHETHER AN ACCELERATOR WAS USED: b does"),
        ([UNNAMED], [{"device": {"type": 3}}], "NOT KNOWN WHETHER AN ACCELERATOR WAS USED: a, b does"),
    ],
)
def test_a_rank_without_a_card_is_no_green(first: list[Any], second: list[Any], begins: str) -> None:
    records = [
        Record(Path(name), [Rank(Path(name), number, len(facts), fact, 1) for number, fact in enumerate(facts)])
        for name, facts in (("a", first), ("b", second))
    ]
    result = RunComparison(records[0], records[1])
    assert diff.is_without_accelerator(result, False) == bool(begins)
    assert next(diff.lines(result, "en", False)).startswith(begins)
    assert not diff.is_without_accelerator(result, True)


def test_the_former_modules_of_reader_and_comparison_are_there() -> None:
    assert importlib.import_module("torchferry.numerics.differences.record").read_record is read_record
    assert importlib.import_module("torchferry.numerics.differences.comparison").compare is compare


def test_generators_that_a_resumed_run_left_out_stand_before_other_states() -> None:
    facts: list[dict[str, dict[str, Any]]] = [
        {"seeds": {"numpy state": number, "random state": number, **more}}
        for number, more in (("1", {}), ("2", LEFT_OUT))
    ]
    one, other = (Rank(Path("rank-0"), 0, 1, each, 1) for each in facts)
    assert [cause.where for cause in causes_in_settings(one, other)] == [*LEFT_OUT, "numpy state", "random state"]


LEFT_OUT = {"restored generators": "cpu, not npu"}
