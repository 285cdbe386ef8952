"""What a vendor publishes of its kernels: what they do not take is refused at the line, and what they take is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rehearsal.child import run_snippet
from tests.rehearsal.limited_programs import BEGINNING, LIMITED, MUSA, TAKEN, program
from tests.rehearsal.test_refusals import JUDGES, rehearse
from torchferry.backends import registry
from torchferry.backends.kernel_limits import KernelLimit, kernel_limits
from torchferry.rehearsal.published_limits import for_device, operators_in, text_of, unknown_among

pytestmark = pytest.mark.rehearsal

USUAL = Path(__file__).parents[1] / "fixtures" / "rehearsal" / "usual_programs.py"


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("card", ["910B", "310P", "910A"])
def test_each_published_limit_is_told_at_its_line(judge: str, card: str, tmp_path: Path) -> None:
    text, places = program((card,))
    _, told, summary = rehearse(judge, text, tmp_path, "--card", card)
    found = {event["line"]: event for event in summary["events"] if event["kind"] == "kernel-limit"}
    assert found.keys() == places.keys(), [places[line].name for line in places.keys() - found.keys()]
    for line, limited in places.items():
        event = found[line]
        assert event["caught"] == "reported"
        assert " not implemented for " in event["detail"] or " dimensions, more than 8" in event["detail"]
        assert any(function in event["detail"] for function in limited.functions), (limited.name, event)
    assert summary["outcome"] == "goes on without"
    assert "torchferry: GOES ON WITHOUT " in told
    assert ("become 65504" in told) == (card != "910B")


@pytest.mark.parametrize("judge", JUDGES)
def test_what_kernels_take_is_no_alarm(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, "\n".join([*BEGINNING, *TAKEN.values()]), tmp_path)
    assert (code, summary["outcome"]) == (0, "nothing seen"), told


@pytest.mark.parametrize("judge", JUDGES)
def test_usual_programs_raise_no_alarm_and_leave_no_limit_unknown(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, USUAL.read_text(encoding="utf-8"), tmp_path, "--strict")
    assert (code, summary["would_fail"]) == (0, 0), told
    caught = [event for event in summary["events"] if event["caught"]]
    assert [event["caught"] for event in caught] == ["handled"] * 9, told
    assert len(summary["operators"]) > 250
    assert summary["limits_unknown"] == []


def test_what_torch_musa_refuses() -> None:
    beginning = [line.replace("'npu'", "'musa'").replace("torch_npu", "torch_musa") for line in BEGINNING]
    lines = ["import json", *beginning, "told = []"]
    for code in MUSA:
        lines += ["try:", f"    {code}", "except RuntimeError as error:", "    told.append(str(error))"]
    printed, _ = run_snippet("\n".join([*lines, "print(json.dumps(told))"]), "musa")
    told = json.loads(printed)
    assert [text.partition(":")[0] for text in told] == [*MUSA.values()]
    assert all("github.com/MooreThreads/torch_musa@8b583b3f2fd0 torch_musa/csrc/aten/ops/" in text for text in told)


def test_a_limit_that_nobody_catches_fails_with_the_words_of_the_library(tmp_path: Path) -> None:
    text = "import torch, torch_npu\ntorch.expm1(torch.ones(3).double().to('npu'))\n"
    code, told, summary = rehearse("simulated", text, tmp_path, "--lang", "en")
    assert (code, summary["outcome"]) == (1, "would fail")
    assert "RuntimeError: aclnnExpm1: self not implemented for Double" in told
    assert "program.py:2  aten::expm1 (self not implemented for Double; github.com/hicann/ops-math@" in told


@pytest.mark.parametrize(
    ("mode", "kinds"), [("refuse", {"kernel-limit"}), ("report", {"beyond-limit"}), ("ignore", set())]
)
def test_a_profile_says_what_becomes_of_it(mode: str, kinds: set[str], tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text(f'extends = "910B"\nkernel_limits = "{mode}"\n', encoding="utf-8")
    text = """\
        import torch, torch_npu
        for _ in range(3):
            torch.expm1(torch.ones(3).double().to("npu"))
    """
    code, told, summary = rehearse("simulated", text, tmp_path, "--profile", "card.toml")
    events = [event for event in summary["events"] if event["kind"] in ("kernel-limit", "beyond-limit")]
    assert {event["kind"] for event in events} == kinds, told
    assert code == int(mode == "refuse")
    assert all(event["times"] == 1 for event in events)


def test_limits_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    text = """\
        import torch, torch_npu
        x = torch.ones(4, 4, device="npu")
        torch.linalg.solve_triangular(x, x, upper=True)
        torch.nn.functional.huber_loss(x, x)
        torch._foreach_add_([torch.ones(3, dtype=torch.float64).to("npu")], 1.0)
    """
    _, told, summary = rehearse("simulated", text, tmp_path, "--lang", "en")
    assert "aten::linalg_solve_triangular" in summary["limits_unknown"]
    assert "aten::_foreach_add_.Scalar" in summary["limits_unknown"]  # float64 is on no list, and nothing refuses it
    assert "aten::ones" not in summary["limits_unknown"]
    assert "aten::huber_loss" not in summary["limits_unknown"]  # which the CPU computes
    assert "limits of" in told
    assert summary["outcome"] == "nothing seen"


def test_a_slow_dtype_is_told_once(tmp_path: Path) -> None:
    text = """\
        import torch, torch_npu
        x = torch.ones(3, dtype=torch.complex128).to("npu")
        for _ in range(5):
            y = x * x
    """
    _, told, summary = rehearse("simulated", text, tmp_path, "--lang", "en")
    (event,) = [event for event in summary["events"] if event["kind"] == "slow-kernel" and "mul" in event["subject"]]
    assert (event["line"], event["times"]) == (4, 1)
    assert "host processor, which is slow" in told
    assert summary["outcome"] == "nothing seen"


FLOAT = frozenset({"float32"})
LIMIT = KernelLimit("x.y", "self", frozenset({"float32", "int8"}), FLOAT, 8, frozenset({"int8"}), "acmeX", "SRC page")


def test_what_is_handed_to_the_device() -> None:
    text = text_of({"x.y": [LIMIT], "z": [KernelLimit("z", "a", None, None, 5, frozenset(), "acmeZ", "SRC z")]})
    first, second = (line.split("\t") for line in for_device(text, {"float32": 6, "int8": 1, "int64": 4}).splitlines())
    assert first[:2] == ["aten::x.y", "self"]
    mask = int(first[2])
    assert [bool(mask >> number & 1) for number in (6, 1, 4, 40)] == [
        True,
        True,
        False,
        True,
    ]  # 40: no name for it here
    assert [bool(int(first[3]) >> number & 1) for number in (6, 1, 4, 40)] == [True, False, False, True]
    assert first[4:] == ["8", str(1 << 1), "acmeX", "SRC page"]
    assert int(second[2]) == (1 << 64) - 1
    assert operators_in(text) == {"aten::x.y"}
    assert unknown_among(["aten::x.y", "aten::z", "aten::view", "aten::mul.Tensor (sparse)", "npu::f"], text) == [
        "aten::z"
    ]


def test_the_table_names_arguments_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    for target in ("npu", "musa"):
        table = kernel_limits(registry.load(target))
        assert table is not None
        for operator in table.operators:
            name, _, overload = operator.partition(".")
            try:
                schema = torch._C._get_schema(f"aten::{name}", overload)
            except RuntimeError:  # of another torch, or the plugin's own
                continue
            arguments = {argument.name for argument in schema.arguments} | {"->"}
            assert {limit.argument for card in table.cards for limit in table.of(operator, card)} <= arguments, operator


def test_the_lines_differ() -> None:
    assert len({(limited.code, limited.card) for limited in LIMITED}) == len(LIMITED) >= 50
    assert all(limited.source for limited in LIMITED)
