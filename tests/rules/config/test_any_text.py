"""Any text in any kind of file: no rule fails, findings are inside, and a second run changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchferry.backends import registry as backends
from torchferry.backends.target import Target
from torchferry.rules.base import Options
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules
from torchferry.source.kinds import kind_of
from torchferry.source.tree import list_files

FILES = ["a.yaml", "a.json", "a.toml", "pyproject.toml", "setup.cfg", "requirements.txt", "environment.yml", "a.md"]
WORDS = [
    "device",
    "backend",
    "cuda",
    "cuda:0",
    "nccl",
    "cpu:gloo,cuda:nccl",
    "accelerator",
    "gpu",
    "MULTI_GPU",
    "channels",
    "dependencies",
    "flash-attn",
    "install_requires",
    "onnxruntime-gpu",
    "torch==2.1.0+cu118",
    "xformers>=1",
    "pip install ",
    "conda create ",
    "python x ",
    "--device ",
    "nvidia-smi",
    "CUDA_VISIBLE_DEVICES=0 ",
    "```bash",
    "```",
    "-c nvidia ",
    "docker run --gpus all ",
]
MARKS = [" ", ": ", "=", " = ", "\n", "\r\n", "  ", "- ", "{", "}", "[", "]", ", ", '"', "'", '"' * 3, "#", " # ", "|"]
PIECES = st.sampled_from(WORDS) | st.sampled_from(MARKS)


@pytest.fixture(scope="module", params=["npu", "ptex"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    choice = backends.choose(request.param)
    target = Target(choice.backend, choice.version)
    options = Options(rewrite_documents=True)
    return Engine(tmp_path_factory.mktemp("any"), target, rules(), options=options, selection=Selection(unsafe=True))


@given(st.sampled_from(FILES), st.lists(PIECES, max_size=30).map("".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text(engine: Engine, name: str, text: str) -> None:
    for path in engine.root.iterdir():
        path.unlink()
    (engine.root / name).write_bytes(text.encode())
    [entry] = list_files(engine.root).entries
    assert entry.kind is kind_of(name)
    examined = engine.examine(entry, rewrite=True)
    assert examined.failure is None, examined.failure.what
    for finding in examined.findings:
        place = finding.location
        assert (1, 1) <= (place.line, place.column) <= (place.end_line, place.end_column)
        assert all(0 <= edit.start <= edit.end <= len(text) for edit in finding.edits)
    if examined.after is not None:
        (engine.root / name).write_bytes(examined.after)
        assert engine.examine(entry, rewrite=True).after is None
