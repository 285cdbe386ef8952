"""What a run needs, and what becomes of it on a target."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm, warm_python
from tests.warm_python import ferry
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.ops import needs
from torchferry.ops.judging import judge
from torchferry.ops.kernels import from_table, shares
from torchferry.ops.lists import of_dump, of_target
from torchferry.ops.needs import OperatorNeed, RunNeeds

MODEL = """\
import torch

def step(device):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(2, 3, 16, 16, device=device)
    def run():
        model(x).sum().backward()
        optimizer.step()
    return run

def by_data(device):
    nn = torch.nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.Tensor(4, 8))  # the old constructor
            self.gru = nn.GRU(8, 8, batch_first=True)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        def forward(self, x):
            x = self.gru(x)[0] * self.scale[0]
            y = x.flatten(0, 1)
            chosen = y.argmax(-1) % 2
            out = torch.zeros_like(y)
            for number, expert in enumerate(self.experts):
                rows, = torch.where(chosen == number)
                out.index_add_(0, rows, expert(y[rows]))
            kept = out[out.sum(-1) > 0]
            steps = x.transpose(0, 1).log_softmax(-1)
            count = torch.full((2,), 6, dtype=torch.long, device="cpu")
            targets = torch.ones(2, 3, dtype=torch.long)
            loss = nn.functional.ctc_loss(steps, targets, count, count // 2)
            target = torch.zeros(12, dtype=torch.long)
            return loss + kept.sum() + nn.functional.multi_margin_loss(y, target)
    return Net(), (torch.randn(2, 6, 8),)

lib = torch.library.Library("acme", "DEF")
for name in ("boom", "bare"):
    lib.define(name + "(Tensor x) -> Tensor")

def boom(x):
    import os
    os.abort()
lib.impl("boom", boom, "CompositeExplicitAutograd")

def aborts(device):
    x = torch.randn(3, 4, device=device)
    return lambda: torch.ops.acme.boom(x + 1).sum() + torch.ops.acme.bare(x).mul(2).sum()

def stops(device):
    x = torch.randn(3, 4, device=device)
    return lambda: (x + 1).numpy()

def views(device):
    # a number is read while it is built; then a view, which torch's kernel makes without calling another one
    size = int(torch.linspace(1, 1, 1).item())
    x = torch.randn(size, 4, 3, device=device)
    return lambda: torch.matmul(x, torch.randn(3, 5, device=device)) + 1

def killed(device):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)

def ended(device):
    raise SystemExit(3)

def plain(device):
    import sys
    with torch.device("cpu"):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.to(device).parameters())
    model.to(device).double().float()  # what is there already, and its parameters in another dtype and back
    def run():
        model(torch.randn(2, 3)).sum().backward()
        optimizer.step()
        assert not {"sympy.core", "torch._dynamo.utils"} & sys.modules.keys(), "imported"
    return run

def asks_for_more(device):
    import sys
    import torch._dynamo.source as source
    from torch._dynamo import disable
    from torch.fx.experimental.symbolic_shapes import guard_or_false
    import sympy
    step = plain(device)
    def run():
        try:
            step()
        except AssertionError:
            pass  # what is asked for below is imported by the second step
        import torch._dynamo.utils
        assert sympy.Symbol("x").free_symbols and isinstance(sympy.Symbol("x"), sympy.Basic)
        assert source.RandomValueSource is torch._dynamo.source.RandomValueSource
        assert torch._dynamo.source is sys.modules["torch._dynamo.source"]
        assert torch._dynamo.utils.config is torch._dynamo.config
        assert torch._dynamo.utils is sys.modules["torch._dynamo.utils"]
        assert torch._dynamo.graph_break is torch._dynamo.decorators.graph_break
        assert disable(lambda: 3)() == 3 and guard_or_false(True)
        from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as error
        assert error.__module__ == "torch.fx.experimental.symbolic_shapes"
        from torch.distributed.tensor import DTensor
        assert isinstance(DTensor, type) and not isinstance(torch.ones(1), DTensor)
        torch.nn.Linear(3, 4)(torch.randn(2, 3)).sum().backward()  # a model runs on
    return run

def unlike(device):
    with torch.device(device):
        return lambda: torch._foreach_add_([torch.ones(2)], [torch.ones(3)])

def amp(device):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device)
    def run():
        with torch.autocast(device, dtype=torch.float16):
            y = model(torch.rand(2, 4)) + model(torch.rand(2, 4))
            loss = torch.cat([y.softmax(1), torch.rand(2, 4)]).exp().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return run
"""


def ops(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [ferry(), "-m", "torchferry", "ops", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize(
    ("target", "core", "backward"), [("musa@2.7.1", 89.8, 94.9), ("npu@2.13.0", 72.8, 73.5), ("gcu@2.10.0", 53.7, 13.3)]
)
def test_the_share_of_kernels(target: str, core: float, backward: float) -> None:
    registered = of_target(Target.named(target)).registered
    assert registered is not None
    percent = {share.group: (share.total, round(share.percent, 1)) for share in shares(from_table(), registered)}
    assert percent["must_have"][0] == 858
    assert percent["gpu_core"] == (629, core)
    assert percent["backward"] == (98, backward)


def need(name: str, composition: str = "", **values: Any) -> OperatorNeed:
    return OperatorNeed(f"aten::{name}" if "::" not in name else name, values.pop("calls", 1), 8, composition=composition,  # noqa: E501
                        **values)  # fmt: skip


JUDGED = [
    ("musa", need("add.out"), "native"),
    ("musa", need("add.Tensor", "derived", derived_from="aten::add.out"), "native"),
    ("musa", need("linalg_matrix_exp"), "missing"),
    ("musa", need("t", "explicit"), "composite"),
    ("gcu", need("convolution_backward", "explicit"), "forced"),
    ("gcu", need("threshold_backward", "derived", derived_from="aten::threshold_backward.grad_input"), "missing"),
    ("musa", need("hash_tensor.out"), "unknown"),  # newer than the list's torch
    ("npu", need("torchvision::nms"), "unknown"),
    ("sdaa", need("add.out"), "unknown"),
    ("ptex", need("linalg_matrix_exp"), "unknown"),
]


@pytest.mark.parametrize(("target", "operator", "support"), JUDGED)
def test_what_becomes_of_an_operator(target: str, operator: OperatorNeed, support: str) -> None:
    (judged,) = judge([operator], of_target(Target.named(target)))
    assert judged.support == support
    assert (judged.copied_bytes > 0) == (support in {"missing", "forced"})


def test_what_composes_a_native_operator_is_not_needed() -> None:
    inner = need("linalg_matrix_exp", calls=3, inside={"aten::mm": 1, "aten::t": 1})
    judged = judge([need("mm", "explicit"), need("t", "explicit"), inner], of_target(Target.named("musa")))
    assert {each.need.name: each.need.calls for each in judged} == {
        "aten::linalg_matrix_exp": 2,  # mm is native, t is composed
        "aten::mm": 1,
        "aten::t": 1,
    }


RUN = RunNeeds("trace", ("python", "a.py"), "2.13.0", "", "npu", (need("add.out"),))


@pytest.mark.parametrize(
    ("target", "made_for", "version"),
    [
        ("npu", "npu@2.5.1", "2.5.1"),  # as the run was made
        ("npu@2.7.1", "npu@2.5.1", "2.7.1"),  # as the command line says
        ("npu", "", "2.9.0"),  # as `rehearse -t npu` does on this torch
        ("npu", "musa@2.5.0", "2.9.0"),
    ],
)
def test_a_target_without_a_version_is_that_of_the_run_or_of_the_installed_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, made_for: str, version: str
) -> None:
    from importlib import metadata

    from click.testing import CliRunner

    from torchferry.cli.ops import command

    monkeypatch.setattr(metadata, "version", lambda name: {"torch": "2.9.0+cpu"}[name])
    path = tmp_path / "ops.json"
    path.write_text(replace(RUN, target=made_for).to_json(), encoding="utf-8")
    done = CliRunner().invoke(command, ["report", "-t", target, str(path), "--lang", "en"], catch_exceptions=False)
    assert done.output.startswith(f"torch_npu {version}")
    assert ("the run was recorded for" in done.output) is (made_for not in ("", f"npu@{version}"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 99}, "version 99"),
        ({"format": "x"}, "not a file that `ops trace`"),
        ({"operators": 3}, "damaged"),
        ({"operators": [{"name": "rm -rf"}]}, "damaged"),
        ({"exit_code": "0"}, "damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = tmp_path / "ops.json"
    path.write_text(RUN.to_json(), encoding="utf-8")
    assert needs.read(path) == RUN
    path.write_text(json.dumps({**json.loads(RUN.to_json()), **change}), encoding="utf-8")
    with pytest.raises(TorchferryError, match=says):
        needs.read(path)
    path.write_text(RUN.to_json()[:50], encoding="utf-8")
    with pytest.raises(TorchferryError, match="cut off"):
        needs.read(path)


def test_a_list_of_another_target_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    document = {"format": "torchferry operator list", "version": 1, "target": "sdaa", "plugin": "torch_sdaa",
                "plugin_version": "3.2.0", "torch": "2.7.1", "source": "here",
                "lists": {"registered": ["add.out"]}}  # fmt: skip
    path.write_text(json.dumps(document), encoding="utf-8")
    assert of_dump(path, Target.named("sdaa")).registered == frozenset({"add.out"})
    with pytest.raises(TorchferryError, match="not of npu"):
        of_dump(path, Target.named("npu"))
    document["lists"] = {"registered": ["no operator"]}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(TorchferryError, match="damaged"):
        of_dump(path, Target.named("sdaa"))


@pytest.mark.rehearsal
def test_a_step_is_predicted_and_reported(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    done = ops("report", "-t", "gcu", "--model", "model.py:step", "-f", "json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    found = {row["operator"]: row["support"] for row in json.loads(done.stdout)["operators"]}
    assert {name for name, support in found.items() if support == "missing"} == {
        "aten::native_batch_norm_backward",
        "aten::threshold_backward",
        "aten::max_pool2d_with_indices_backward",
    }
    assert found["aten::convolution_backward"] == "forced"
    for function, says in (
        ("killed", "the process that ran model.py:killed was killed (SIGKILL), as the system does when memory"),
        ("ended", "model.py:66: SystemExit: 3"),
        ("unlike", "model.py:109: RuntimeError"),
    ):
        done = ops("predict", f"model.py:{function}", cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr, done.stderr
    done = ops("predict", "-t", "npu", "model.py:by_data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    of_data = json.loads(done.stdout)
    names = {each["name"].partition(".")[0] for each in of_data["operators"]}
    assert names >= {"aten::nonzero", "aten::index", "aten::_ctc_loss", "aten::multi_margin_loss", "aten::index_add_"}
    assert of_data["notes"][0].startswith("sizes by data, predicted with the largest that they can be: aten::index")
    done = ops("predict", "model.py:aborts", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    survived = json.loads(done.stdout)
    assert {"acme::boom", "acme::bare", "aten::mul.Tensor"} <= {each["name"] for each in survived["operators"]}
    assert any("acme::boom" in note for note in survived["notes"])
    assert any("nobody knows" in note and "acme::bare" in note for note in survived["notes"])
    done = ops("predict", "model.py:stops", cwd=tmp_path)
    assert (done.returncode, "NOT COMPLETE: the run stopped at" in done.stderr) == (2, True)
    stopped = json.loads(done.stdout)
    assert (stopped["complete"], [each["name"] for each in stopped["operators"]]) == (False, ["aten::add.Tensor"])
    done = ops("predict", "model.py:views", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    needs_of_views = json.loads(done.stdout)
    assert "aten::_unsafe_view" in {each["name"] for each in needs_of_views["operators"]}
    assert "1 number was read from a tensor" in needs_of_views["notes"][0]
    done = ops("predict", "-t", "musa", "model.py:amp", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    needed = {each["name"]: each for each in json.loads(done.stdout)["operators"]}
    dtypes = {name: needed[f"aten::{name}"]["dtypes"] for name in ("addmm", "mm", "_softmax", "cat", "exp")}
    assert dtypes == {  # cat takes the widest; a parameter is cast once, so that its gradients are summed in float16
        "addmm": ["float16"], "mm": ["float16"], "_softmax": ["float32"], "cat": ["float32"],
        "exp": ["float32"],
    }  # fmt: skip
    assert "float16" in needed["aten::add.Tensor"]["dtypes"]
    assert "aten::_foreach_add_.List" in needed  # the scaler let the optimizer step
    for function in ("plain", "asks_for_more"):
        done = ops("predict", f"model.py:{function}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        calls = {each["name"]: each["calls"] for each in json.loads(done.stdout)["operators"]}
        assert calls["aten::_foreach_addcdiv_.ScalarList"] == 2, calls


def test_what_stands_in_for_torchs_functions_answers_as_they_do() -> None:
    torch = pytest.importorskip("torch")
    from torch.fx.experimental import symbolic_shapes
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from torchferry.ops.deferred_imports import _of_plain_sizes

    asked: list[str] = []

    def later(module: str, name: str) -> Any:
        def call(*args: Any) -> Any:
            asked.append(name)
            return getattr(symbolic_shapes, name)(*args)

        return call

    ours = _of_plain_sizes(later)
    symbol = ShapeEnv().create_unbacked_symint()
    tensor = torch.empty(2, 3)
    bools = ("expect_true", "guard_or_false", "guard_or_true", "statically_known_true")
    numbers = ("guard_int", "guarding_hint_or_throw", "optimization_hint")
    calls: list[tuple[str, tuple[Any, ...]]] = [
        *((name, (value,)) for name in bools for value in (True, False)),
        *((name, (value,)) for name in numbers for value in (0, 7)),
        *((name, values) for name in ("sym_and", "sym_or") for values in ((True,), (True, False), (False, False))),
        *(("sym_eq", pair) for pair in ((2, 2), (2, 3), ((1, 2), [1, 2]), ((1, 2), (1, 3)), ((1,), (1, 2)), ((), ()))),
        *((name, (3,)) for name in ("has_guarding_hint", "is_nested_int", "is_symbolic")),
        *(
            (name, (value,))
            for name in ("free_unbacked_symbols", "has_free_symbols", "has_free_unbacked_symbols")
            for value in (3, 0.5, tensor, (tensor, 2), None)
        ),
        ("compute_unbacked_bindings", (None, tensor)),
    ]
    for name, values in calls:
        assert ours[name](*values) == getattr(symbolic_shapes, name)(*values), (name, values)
    assert [list(ours[name](tensor)) for name in ("_iterate_exprs", "_iterate_nodes")] == [[], []]
    assert not asked
    assert ours["has_free_unbacked_symbols"](symbol)
    assert not ours["has_guarding_hint"](symbol)
    for name, values in (("guard_or_false", (3,)), ("guard_int", ("text",)), ("sym_eq", (1, (1,)))):
        with pytest.raises(AssertionError):
            ours[name](*values)
    assert len(asked) == 5
    assert ours.keys() <= vars(symbolic_shapes).keys()


@pytest.mark.rehearsal
def test_the_report_agrees_with_the_rehearsal() -> None:
    targets = ("musa", "npu", "gcu")
    code = (
        "import sys, torch\n"
        "from torchferry.backends.target import Target\n"
        "from torchferry.rehearsal.profile import make_profile\n"
        "from torchferry.rehearsal.operator_modes import modes\n"
        "from torchferry.ops.composition import composition, derived_from, has_kernel\n"
        "from torchferry.ops.judging import ENDS_IN, judge\n"
        "from torchferry.ops.lists import of_target\n"
        "from torchferry.ops.needs import OperatorNeed\n"
        "names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith('aten::') and has_kernel(n, 'CPU')]\n"  # noqa: E501
        "needs = [OperatorNeed(n, 1, composition=composition(n), derived_from=derived_from(n)) for n in names]\n"
        "for target in map(Target.named, sys.argv[1:]):\n"
        "    of = modes(make_profile(target))\n"
        "    lost = {j.need.name for j in judge(needs, of_target(target)) if j.support in ('missing', 'forced')}\n"
        "    refused = (of.missing | of.fallback) & set(names)\n"
        "    print(sorted(refused - lost), len(refused), sep='|')\n"
    )
    (done,) = warm.run(code, environments=[dict(os.environ)], arguments=targets)
    for target, line in zip(targets, done.stdout.splitlines(), strict=True):
        unreported, _, number = line.partition("|")
        assert unreported == "[]", (target, done.stdout + done.stderr)
        assert int(number) > 50


HALF = """\
import os, signal, torch, torch_musa
x = torch.ones(2, device="musa") + 1
HOW
"""


@pytest.mark.rehearsal
@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("raise ValueError('half way')", 1, "the command ended with exit code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was lost; only its calls before"),
    ],
)
def test_a_run_that_ends_half_way_is_said_to_be_incomplete(tmp_path: Path, how: str, code: int, says: str) -> None:
    (tmp_path / "half.py").write_text(HALF.replace("HOW", how), encoding="utf-8")
    done = ops("trace", "-t", "musa", "-o", "half.json", "--", warm_python.python(), "half.py", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "the run did not complete" in done.stderr
    run = needs.read(tmp_path / "half.json")
    assert not run.is_complete
    assert "aten::add.Tensor" in {each.name for each in run.operators}
    done = ops("report", "-t", "musa", "half.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "NOT COMPLETE" in done.stdout
    assert says in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        (("report", "-t", "musa", "f.json"), '{"format": "torchferry operators", "version": 7}', "has version 7"),
        (("report", "-t", "musa", "--table", "f.json"), '{"format": "torchferry operator list", "version": 7}',
         "f.json has version 7"),
        (("report", "-t", "musa", "--table", "f.json"), '{"format": "torchferry operators"}',
         "not a list that `ops dump` wrote"),
        (("dump", "-t", "npu", "--wheel", "f.json"), "junk", "is not a wheel of torch_npu"),
        (("dump", "-t", "musa"), "", "torch_musa cannot be imported here"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(tmp_path: Path, arguments: tuple[str, ...], text: str, says: str) -> None:
    (tmp_path / "f.json").write_text(text, encoding="utf-8")
    done = ops(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
