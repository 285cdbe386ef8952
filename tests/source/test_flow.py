"""Where a string goes: to a device (yes), nowhere near one (no), or out of sight (open)."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.source.flow import Flow, TraceResult
from torchferry.source.lexicon import lexicon
from torchferry.source.project import Project

YES, NO, OPEN = TraceResult.YES, TraceResult.NO, TraceResult.UNKNOWN

TABLE = [
    # arguments
    ("x.to('cuda')", YES),
    ("torch.device('cuda')", YES),
    ("f(device='cuda')", YES),
    ("torch.load(p, map_location='cuda')", YES),
    ("print('cuda')", NO),
    ("log.info('cuda')", NO),
    ("open('cuda')", NO),
    ("register('cuda', x)", OPEN),
    # variables
    ("device = 'cuda'\nx.to(device)", YES),
    ("mode = 'cuda'\nx.to(mode)", YES),
    ("a = b = 'cuda'\ntorch.zeros(1, device=b)", YES),
    ("mode = 'cuda'\nprint(mode)", NO),
    ("def f(where='cuda'):\n    x.to(where)", YES),
    ("def f():\n    return 'cuda'\nx.to(f())", YES),
    ("class A:\n    def __init__(self):\n        self.where = 'cuda'\n    def g(self):\n        x.to(self.where)", YES),
    # containers
    ("c = {'device': 'cuda'}", YES),
    ("c = {'cuda': 1}", NO),
    ("for d in ['cpu', 'cuda']:\n    x.to(d)", YES),
    ("d = dict(device='cuda')", YES),
    ("c['device'] = 'cuda'", YES),
    # conditions
    ("if x.device.type == 'cuda': pass", YES),
    ("if 'cuda' in str(device): pass", YES),
    ("if device.startswith('cuda'): pass", YES),
    ("d = 'cuda' if ok else 'cpu'", YES),
    ("if name == 'cuda': pass", OPEN),
    ("device.replace('cuda', '')", YES),
    # options
    ("p.add_argument('--device', default='cuda')", YES),
    ("p.add_argument('--x', default='a', choices=['cuda', 'cpu'])", YES),
    ("p.add_argument('--x', help='cuda')", NO),
    # text
    ("'''cuda'''", NO),
    ("raise ValueError('cuda')", NO),
    ("assert ok, 'cuda'", NO),
    ("import_module('cuda')", NO),
]


def test_the_names_of_targets_come_from_their_descriptions() -> None:
    for backend in map(registry.load, registry.built_in()):
        assert lexicon("device").is_known_value(f"{backend.DEVICE_TYPE}:0")
        assert lexicon("collective").is_known_value(backend.COLLECTIVE)
    for role, name in (("device", "acme:1"), ("collective", "accl")):
        assert lexicon(role, name.partition(":")[0]).is_known_value(name)
        assert not lexicon(role).is_known_value(name)


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_a_string_is_followed(tmp_path: Path, text: str, expected: TraceResult) -> None:
    (tmp_path / "a.py").write_text(f"import torch\n{text}\n", encoding="utf-8")
    project = Project(tmp_path, ["a.py"])
    loaded = project.file("a.py")
    assert loaded is not None
    file, names = loaded
    flow = Flow(file, names, lexicon("device"), project)
    literal = next(node for node in file.strings if node.value == "cuda")
    trace = flow.trace(literal)
    assert trace.result is expected, trace.reason.render("en")
    assert trace.reason.render("en")
