"""The numerics tools on the vendor's own plugin: each finds a fault that was planted into it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rehearsal.test_shipped_plugin import rehearse, with_wheel
from torchferry.numerics.rundiff.comparison import compare
from torchferry.numerics.runlog.record import read_record

pytestmark = pytest.mark.rehearsal

SCRIPT = """
    import json, torch, torch_npu
    from torchferry.numerics import CompareWithCPU, NanInfTracker, Recorder

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        def forward(self, rows):
            return self.b(self.a(rows).tanh())

    def run(tool, steps=3, bad=None):
        torch.manual_seed(0)
        net = Net().npu()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with tool:
            for step in range(steps):
                made = net(torch.randn(4, 8, generator=torch.Generator().manual_seed(step)).npu())
                if step == bad:
                    made = made.exp()  # its first call is right, as ordered
                    made = made.exp()
                loss = made.pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return tool

    run(Recorder("good"))
    found = {"nan": run(NanInfTracker(), bad=1).document()}
    torch.tanh(torch.ones(2, device="npu"))  # the seventh call: the next are wrong
    for name, options in (("sample", {}), ("every", {"every": True})):
        found[name] = run(CompareWithCPU(quiet=True, **options)).document("en")
    run(Recorder("wrong"))
    with open("found.json", "w") as file:
        json.dump(found, file, default=str)
"""


@with_wheel
def test_each_tool_finds_the_fault_that_was_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noise = ("--fault", "op=aten.tanh,kind=noise,scale=1e-2,after=7")
    rehearse(SCRIPT, tmp_path, *noise, "--fault", "op=aten.exp,kind=nan,after=1")
    found = json.loads((tmp_path / "found.json").read_text())
    origin = found["nan"]["findings"][0]["origins"][0]
    assert (found["nan"]["findings"][0]["step"], origin["operator"], origin["phase"]) == (1, "aten.exp", "forward")
    for way in ("sample", "every"):
        document = found[way]
        row = document["operators"][document["first_failure"]]
        assert (row["operator"], row["module"]) == ("aten.tanh", "Net"), way
    result = compare(read_record(tmp_path / "good"), read_record(tmp_path / "wrong"))
    assert result.first is not None
    assert (result.first.step, result.first.module, result.first.operator) == (0, "Net", "aten.tanh")
