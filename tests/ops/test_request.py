"""`torchferry ops request`: what a vendor is told of an operator, and that its program runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.profiling.traces import host, kineto, launched, step, work, written
from torchferry.cli.ops_request import command
from torchferry.core.errors import TorchferryError
from torchferry.ops.call_code import call_code, seen_tensors, split
from torchferry.ops.needs import OperatorNeed, RunNeeds

POOL = OperatorNeed(
    "aten::max_pool2d_with_indices_backward", 3, 96, {"backward": 3}, {"Net.pool": 3}, ("float32", "int64"),
    {"float32[2,1,2,2]{0,0,0,0}, float32[2,1,4,4]{16,1,4,1}, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], "
     "dilation=[1, 1], ceil_mode=False, indices=int64[2,1,2,2]": 3},
    schema="aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
)  # fmt: skip
ADD = OperatorNeed(
    "aten::add.Tensor", 2, shapes={"float16[2,3], cpu float32[], alpha=2": 2}, dtypes=("float16",),
    composition="derived", derived_from="aten::add.out",
)  # fmt: skip
RUN = RunNeeds("trace", ("python", "a.py"), "2.13.0", "", "gcu", (POOL, ADD))

REHEARSAL: dict[str, Any] = {
    "schema": 1, "rehearsal": True, "target": "musa@2.7.1", "command": ["python", "a.py"],
    "events": [
        {"kind": "missing-operator", "subject": "aten::sinc.out", "detail": "", "file": "a.py", "line": 7, "times": 2},
        {"kind": "to-host", "subject": "float32", "detail": "", "file": "a.py", "line": 8, "times": 2},
    ],
}  # fmt: skip

CALL = {
    "operator": "aten::addmm", "overload": "", "schema": "aten::addmm(...) -> Tensor",
    "tensors": [{"dtype": "float32", "shape": [32], "stride": [1]}],
    "where": {"module": "Net.embed", "phase": "forward"}, "environment": {"torch": "2.13.0+cpu"},
}  # fmt: skip


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


@pytest.fixture
def run_file(tmp_path: Path) -> str:
    path = tmp_path / "ops.json"
    path.write_text(RUN.to_json(), encoding="utf-8")
    return str(path)


def test_an_issue_names_what_a_vendor_needs(run_file: str) -> None:
    done = ask("-t", "gcu", run_file)
    assert done.exit_code == 0, done.exception
    for words in (
        "`python a.py` needs these operators", POOL.schema, "`Net.pool` 3",
        "backward 3", "float32, int64", "inputs are not contiguous", "computes it: 96", "v2.13.0/aten/src/ATen/native",
        "assert_close", "torch_gcu",
    ):  # fmt: skip
        assert words in done.stdout, words
    assert "aten::add" not in done.stdout


@pytest.mark.parametrize(
    ("how", "target", "without_card"), [("trace", "", False), ("trace", "gcu@2.10.0", True), ("predict", "", True)]
)
def test_no_card_is_said_only_where_it_is_known(tmp_path: Path, how: str, target: str, without_card: bool) -> None:
    run = RunNeeds(how, ("python", "a.py"), "2.13.0", target, "gcu", (POOL, ADD))
    (tmp_path / "ops.json").write_text(run.to_json(), encoding="utf-8")
    done = ask("-t", "gcu", str(tmp_path / "ops.json"), "--lang", "en")
    assert ("without a card" in done.stdout) is without_card


BACKWARD = "aten::max_pool2d_with_indices_backward"


def pooled(name: str = BACKWARD, *inside: Any, size: int = 2, **header: Any) -> dict[str, Any]:
    """Return a trace of two steps of 100 us; each calls an operator whose kernel takes 30, and another one."""
    events = list(inside)
    for number in (0, 1):
        at, first = 100.0 * number, 10 * number + 1
        shapes = {"Input Dims": [[size, 1, 2, 2], [size, 1, 4, 4], []]}
        events += [
            step(number, at, 100),
            *launched(name, at + 10, at + 20, 30, first, **shapes),
            *launched("aten::addmm", at + 25, at + 60, 20, first + 1),
        ]
    return kineto(events, **header)


SHARED = "30.0 % (0.030 of 0.100 ms; the device's work"


@pytest.mark.parametrize(
    ("trace", "arguments", "says", "says_not"),
    [
        (pooled(), (), (SHARED, "calls in a step: 1", "| 3 | 30.0 |", "Card of Tests", "names no program"), "shapes"),
        (pooled(torchferry={"program": "a.py"}), (), ("the trace is of a.py, as the request is",), "judged"),
        (pooled(torchferry={"program": "b.py"}), ("--force",), ("ANOTHER PROGRAM, b.py", SHARED), "judged"),
        (pooled(torchferry={"rehearsal": "gcu@2.10.0"}), (), ("not measured, see", "| 3 | - |", "rehearsed"), "0.030"),
        (pooled(size=8), (), ("other shapes than the run above: 8x1x2x2 8x1x4x4", SHARED), "judged at all"),
        # torch's fall back: the host waits 10 of 100, of which the device sees nothing
        (pooled(BACKWARD, *(host("cpu_op", "aten::_to_cpu", at, 1) for at in (11, 111))), (),
         ("10.0 % (0.010 of 0.100 ms; time of the host",), "30.0"),
        (pooled(BACKWARD), ("--operator", BACKWARD, "--operator", "aten::add"), ("no call of it", SHARED), "sub"),
        # an operator inside of itself is one call; work that nobody is known to have started says nothing of a share
        (pooled(BACKWARD, host("cpu_op", BACKWARD, 12, 3)), (), ("calls in a step: 1\n", SHARED), "1.5"),
        (kineto([step(0, 0, 100), host("cpu_op", BACKWARD, 5, 50), work("kernel", "k", 10, 30, 99)]), (),
         ("not measured, see", "does not say which operator"), "30.0"),
        (kineto([host("cpu_op", BACKWARD, 5, 25), host("cpu_op", "aten::mm", 30, 75)]), (),
         ("25.0 % (0.025 of 0.100 ms; time of the host", "marks no steps"), "30.0"),
    ],
)  # fmt: skip
def test_a_trace_says_the_share_of_the_time(
    tmp_path: Path, run_file: str, trace: Any, arguments: tuple[str, ...], says: tuple[str, ...], says_not: str
) -> None:
    path = written(tmp_path / "cuda" / "t.json", trace)
    done = ask("-t", "gcu", run_file, "--lang", "en", "--trace", str(path), *arguments)
    assert done.exit_code == 0, done.exception
    assert [words for words in says if words not in done.stdout] == []
    assert says_not not in done.stdout
    assert str(tmp_path) not in done.stdout  # the vendor is not told where the trace lies


def test_without_a_trace_the_form_says_how_to_profile(run_file: str) -> None:
    english = ask("-t", "gcu", run_file, "--lang", "en").stdout
    assert "not profiled; `torchferry profile -- COMMAND`" in english
    assert "% of a step" not in english
    assert "未做性能分析" in ask("-t", "gcu", run_file, "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (pooled("aten::sinc"), "t.json has no call of aten::max_pool2d_with_indices_backward"),
        (pooled(torchferry={"program": "b.py"}), "the trace is of b.py, and the request is of `python a.py`"),
        (kineto([step(0, 0, 100), work("kernel", "k", 10, 30, 1)]), "has no operators of torch"),
        ({"a": 1}, "is not a trace"),
    ],
)
def test_traces_that_say_nothing_of_the_request(tmp_path: Path, run_file: str, trace: Any, says: str) -> None:
    done = ask("-t", "gcu", run_file, "--trace", str(written(tmp_path / "t.json", trace)))
    assert isinstance(done.exception, TorchferryError)
    assert says in str(done.exception)
    assert done.stdout == ""


def test_the_vendors_own_sections_in_its_language(run_file: str) -> None:
    arguments = ("-t", "sdaa", run_file, "--operator", "max_pool2d_with_indices_backward")
    english = ask(*arguments, "--lang", "en")
    heads = re.findall(r"^#+ (.*)", english.stdout, re.MULTILINE)
    assert heads[1:] == [
        "1. Background", "2. Summary", "3. Operators", "3.1 `aten::max_pool2d_with_indices_backward`", "Interface",
        "Precision baseline", "Model information", "4. Contact",
    ]  # fmt: skip
    assert "on card TECO_AICARD_01, precision aligned with CUDA" in english.stdout
    chinese = ask(*arguments)
    assert "精度基准" in chinese.stdout
    assert "gitee.com/tecorigin/teco-torch" in chinese.stderr


def test_a_rehearsal_and_a_folder_of_a_call(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(REHEARSAL))
    done = ask("-t", "musa", str(tmp_path / "r.json"))
    assert "`aten::sinc.out`" in done.stdout
    assert "a.py:7" in done.stdout
    assert "NotImplementedError" in done.stdout
    forced = {**REHEARSAL["events"][0], "kind": "fallback", "subject": "aten::convolution_backward"}
    of_gcu = {**REHEARSAL, "target": "gcu", "plugin_version": "2.10.0", "torch": "2.10.0+cpu", "events": [forced]}
    (tmp_path / "r.json").write_text(json.dumps(of_gcu))
    done = ask("-t", "gcu", str(tmp_path / "r.json"))
    assert "| function extended | 2 | registered, and computed on the CPU |" in done.stdout
    assert "pytorch/blob/v2.10.0/" in done.stdout
    folder = tmp_path / "aten.addmm-001"
    folder.mkdir()
    (folder / "call.json").write_text(json.dumps(CALL))
    done = ask("-t", "npu", str(folder))
    assert "DEVICE=npu pytest -s aten.addmm-001" in done.stdout
    assert "`Net.embed` 1" in done.stdout


@pytest.mark.parametrize(
    ("target", "text", "arguments", "says"),
    [
        ("sdaa", RUN.to_json(), (), "no list says which operators torch_sdaa lacks"),
        ("musa", RUN.to_json(), (), "there is nothing to request"),
        ("gcu", RUN.to_json(), ("--operator", "aten::sub"), "none of the operators that --operator names"),
        ("gcu", RUN.to_json()[:90], (), "not JSON"),
        ("gcu", "[]", (), "has no list of operators"),
        ("gcu", RUN.to_json().replace('"version": 1', '"version": 9'), (), "version 9"),
        ("npu", json.dumps(REHEARSAL), (), "is a rehearsal of musa@2.7.1, not of npu"),
        ("musa", json.dumps({**REHEARSAL, "events": [{}]}), (), "damaged"),
    ],
)
def test_what_cannot_be_asked_for(
    tmp_path: Path, target: str, text: str, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "f.json").write_text(text, encoding="utf-8")
    done = ask("-t", target, str(tmp_path / "f.json"), *arguments)
    assert isinstance(done.exception, TorchferryError)
    assert says in str(done.exception)


def test_the_program_makes_the_call() -> None:
    pytest.importorskip("torch")
    described = next(iter(POOL.shapes))
    assert [tensor.size for tensor in seen_tensors(described)] == [(2, 1, 2, 2), (2, 1, 4, 4), (2, 1, 2, 2)]
    for need in (POOL, ADD):
        text = call_code(need, "", "cpu")
        assert text
        values: dict[str, Any] = {}
        exec(text, values)
        assert values["actual"] is not values["expected"]
        with pytest.raises(AssertionError):
            exec(text.replace("actual = call(DEVICE)", "actual = call(DEVICE) + 1"), {})


@pytest.mark.parametrize(
    "described",
    [
        "float32[2], x=__import__('os')",
        "float32[2]; import os",
        "float32[nested]",
        "float32[2], name='a\\'b'",
        "(a; b)",
    ],
)
def test_nothing_else_becomes_code(described: str) -> None:
    assert call_code(OperatorNeed("aten::add.Tensor", 1, shapes={described: 1}), "", "cpu") == ""


def test_brackets_and_quotes_keep_parts_together() -> None:
    assert split("(a[1,2]; b), x=[1, 2], y='p, q', z=1") == ["(a[1,2]; b)", "x=[1, 2]", "y='p, q'", "z=1"]
