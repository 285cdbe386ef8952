"""Programs that compile: the compiler is said not to be rehearsed, and the rest of the program is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal.test_refusals import JUDGES, rehearse

pytestmark = pytest.mark.rehearsal

COMPILED = """
    import torch, torch_npu
    d = torch.device("npu")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(d)
    rows = torch.randn(3, 4, device=d)
    plain = net(rows)
    plain.sum().backward()
    wanted = [each.grad.clone() for each in net.parameters()]
    net.zero_grad()
    compiled = torch.compile(net)                                  # line 11
    found = compiled(rows)
    found.sum().backward()
    torch.testing.assert_close(found, plain)
    for parameter, gradient in zip(net.parameters(), wanted):
        torch.testing.assert_close(parameter.grad, gradient)

    @torch.compile(mode="reduce-overhead")
    def broken(x):
        x = x + 1
        print("between")                                           # line 21
        return x.sin()
    broken(torch.ones(3, device=d))

    @torch.compile(dynamic=False, fullgraph=True)
    def shaped(x):
        return x * torch.npu.current_device() + torch.cuda.is_available()
    for size in (3, 5, 5):
        shaped(torch.ones(size, device=d))                         # line 29
    for name in ("npu", "npugraphs", "npugraph_ex"):
        torch.compile(lambda x: x + 1, backend=name)(rows)         # line 31
    import torchair
    settings = torchair.CompilerConfig()
    settings.experimental_config.frozen_parameter = True
    torch.compile(lambda x: x - 1, backend=torchair.get_npu_backend(compiler_config=settings))(rows)
    torch.compile(lambda x: x + 1, backend="aot_eager")(rows)
    torch.npu.nvtx.range_push("behind")                            # line 37
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_a_compiled_program_goes_on_and_is_judged_behind(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, COMPILED, tmp_path, warm=False)
    assert code == 1, told
    assert [event["line"] for event in summary["events"] if event["fails"]] == [37], told
    graphs = {(e["subject"], e["line"]): e["times"] for e in summary["events"] if e["kind"] == "not-compiled"}
    assert graphs.pop(("inductor", 11)) == 1
    assert graphs.pop(("torchair", 35)) == 1
    assert {graphs.pop((name, 31)) for name in ("npu", "npugraphs", "npugraph_ex")} == {1}
    assert sorted(graphs.values()) == [2, 2]  # two graphs around the break, two shapes
    assert [e["line"] for e in summary["events"] if e["kind"] == "graph-break"] == [21]
    (again,) = (e for e in summary["events"] if e["kind"] == "recompilation" and e["subject"] == "shaped")
    assert (again["line"], again["times"], "expected 3, actual 5" in again["detail"]) == (29, 1, True)
    assert not {"cuda-remnant", "refused"} & {event["kind"] for event in summary["events"]}


ENDS: dict[str, tuple[str, str, str]] = {
    "compiled, and nothing else": (
        "torch.compile(lambda y: y + 1)(x)", "not rehearsed",
        "NOT REHEARSED: inductor (1 graph); in the rest nothing was seen that would fail on the card",
    ),
    "on the CPU": (
        "import torch._inductor.compile_fx as c\nc.compile_fx = lambda graph, inputs, **k: graph\n"
        "torch.compile(lambda y: y + 1)(torch.ones(2))",
        "nothing seen", "nothing was seen that would fail on the card",
    ),
    "one graph was asked for, and there are two": (
        "torch.compile(lambda y: (y + torch.ones(3, device='npu'), print(y), y + 2), fullgraph=True)(x)",
        "failed by itself", "THE COMMAND FAILED with exit code 1: Unsupported",
    ),
    "a compiler of the program's own, which hands on to inductor": (
        "from torch._inductor.compile_fx import compile_fx\n"
        "torch.compile(lambda y: y + 1, backend=lambda graph, inputs: compile_fx(graph, inputs))(x)",
        "not rehearsed", "NOT REHEARSED: inductor (1 graph)",
    ),
    "ahead of time": (
        "class M(torch.nn.Module):\n    def forward(self, y):\n        return y + 1\n"
        "torch._inductor.aoti_compile_and_package(torch.export.export(M(), (x,)))",
        "not rehearsed", "NOT REHEARSED: the command ended at AOTInductor",
    ),
    "several cards in one process": (
        "torch.nn.DataParallel(torch.nn.Linear(3, 3).npu(), device_ids=[0, 1])(torch.ones(4, 3).npu())", "", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("name", ENDS)
def test_what_is_not_rehearsed_is_the_verdict(judge: str, name: str, tmp_path: Path) -> None:
    text, outcome, words = ENDS[name]
    if not outcome:
        is_plugin = judge == "plugin"
        outcome = "not rehearsed" if is_plugin else "nothing seen"
        words = "the command ended at HcclCommInitAll" if is_plugin else "nothing was seen"
    whole = f"import torch, torch_npu\nx = torch.ones(3, device='npu')\n{text}\n"
    _, told, summary = rehearse(judge, whole, tmp_path, "--devices", "2")
    assert summary["outcome"] == outcome, told
    assert words in told, told


def test_a_version_without_inductor_refuses_it(tmp_path: Path) -> None:
    text = "import torch, torch_npu\nf = torch.compile(lambda y: y + 1)\nf(torch.ones(3, device='npu'))\n"
    _, told, summary = rehearse("simulated", text, tmp_path, "--target", "npu@2.5.1")
    assert summary["outcome"] == "would fail"
    assert "program.py:3  Device npu not supported  x1" in told


TIMES = """
    import torch, torch_npu
    def raised(make):
        try:
            make()
        except Exception:
            return True
        return False
    Event = torch.npu.Event
    def elapsed(**flags):
        first, second = Event(**flags), Event(**flags)
        first.record()
        second.record()
        torch.npu.synchronize()
        return first.elapsed_time(second)
    told = str([raised(elapsed), raised(lambda: elapsed(enable_timing=True)),
           raised(lambda: Event(enable_timing=True, interprocess=True)), raised(lambda: Event().ipc_handle()),
           raised(lambda: Event(interprocess=True).ipc_handle()), Event(blocking=True).query(),
           raised(lambda: Event(enable_timing=True).elapsed_time(Event(enable_timing=True)))])
    open("told", "w").write(told)
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_events_do_what_they_were_made_for(judge: str, tmp_path: Path) -> None:
    rehearse(judge, TIMES, tmp_path)
    assert (tmp_path / "told").read_text() == str([True, False, True, True, False, True, True])
