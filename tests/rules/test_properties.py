"""What holds for any program: it still parses, a second run changes nothing, only planned spans differ."""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult, Selection
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

NAMES = ("torch", "cuda", "device", "x", "model", "rank")
ATOMS = st.sampled_from(
    [
        '"cuda"', "'cuda:0'", 'f"cuda:{rank}"', '"cuda:%d" % rank', '"cpu"', "torch.cuda", "torch.cuda.is_available()",
        "x.cuda()", "x.is_cuda", "x.to(device)", "torch.device('cuda')", "torch.cuda.amp.autocast()", "rank", "device",
        "torch.cuda.FloatTensor(1)", "x.device.type", "torch.backends.cudnn.benchmark", '"nccl"', "cuda", "model",
        "torch.cuda.Stream", "torch.load('a')", "torch.Generator('cuda')", "0", "None", "é",
    ]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'device': {}, 'k': {}}}".format, inner, inner),
        st.builds("({} == {})".format, inner, inner),
        st.builds("({} in ({}, 'cpu'))".format, inner, inner),
        st.builds("x.to({})".format, inner),
        st.builds("f({}, device={})".format, inner, inner),
        st.builds("print({})".format, inner),
        st.builds("(not {})".format, inner),
        st.builds("{}.cuda({})".format, st.sampled_from(["x", "model.a", "f(x)"]), inner),
        st.builds('f"{{{}}} cuda"'.format, inner.filter(lambda text: "'" not in text and '"' not in text)),
        st.builds("(lambda device={}: {})".format, inner, inner),
    ),
    max_leaves=6,
)
SIMPLE = st.one_of(
    st.builds("{} = {}".format, st.sampled_from([*NAMES[2:], "self.device", "CONFIG['device']", "a, b"]), EXPRESSIONS),
    st.builds("f({})".format, EXPRESSIONS),
    st.builds("assert {}, {}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("return {}".format, EXPRESSIONS),
    st.sampled_from(
        [
            "import torch", "import torch as th", "from torch import cuda", "from torch.cuda import amp, Stream",
            "import torch.cuda.amp as amp", "from torch.cuda.amp import autocast", "pass", "# cuda", '"""cuda"""',
            "torch.cuda.synchronize()", "amp.autocast()", "Stream()", "th.cuda.empty_cache()", "del x",
        ]
    ),
)  # fmt: skip


def block(lines: list[str], head: str) -> str:
    return head + "\n" + "\n".join("    " + line for text in lines for line in text.split("\n"))


STATEMENTS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda body, test: block(body, f"if {test}:"), st.lists(inner, min_size=1, max_size=3), EXPRESSIONS),
        st.builds(
            lambda body, default: block(body, f"def run(rank, device={default}):"),
            st.lists(inner, min_size=1, max_size=4),
            EXPRESSIONS,
        ),
        st.builds(lambda body: block(body, "class A(torch.nn.Module):"), st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda body, item: block(body, f"with {item}:"), st.lists(inner, min_size=1, max_size=2), EXPRESSIONS
        ),
    ),
    max_leaves=8,
)


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


PROGRAMS = st.builds("\n".join, st.lists(STATEMENTS, min_size=1, max_size=8)).filter(parses)


def migrate(data: bytes, name: str, unsafe: bool) -> FileResult:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.py").write_bytes(data)
        engine = Engine(Path(folder), Target(registry.load(name)), rules(), selection=Selection(unsafe=unsafe))
        return engine.examine(Entry("a.py", Kind.PYTHON), rewrite=True)


@pytest.mark.parametrize("name", ["npu", "sdaa", "ptex"])
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(PROGRAMS, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_any_program_is_migrated_whole_and_once(name: str, text: str, unsafe: bool, newline: str) -> None:
    data = (text.replace("\n", newline) + newline).encode()
    first = migrate(data, name, unsafe)
    assert first.failure is None, first.failure
    if first.after is None:
        return
    ast.parse(first.after)
    second = migrate(first.after, name, unsafe)
    assert second.after is None, (first.after, second.after)
    if newline == "\r\n":
        assert not re.search(rb"(?<!\r)\n", first.after)
    for finding in first.findings:
        lines = data.decode().split(newline)
        place = finding.location
        assert place.line <= len(lines) + 1
        if place.line == place.end_line and place.line <= len(lines):
            assert place.end_column - 1 <= len(lines[place.line - 1]) + 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(PROGRAMS)
def test_comments_and_texts_survive(text: str) -> None:
    data = f"# cuda stays: torch.cuda\nprint('cuda')\n{text}\n# the end: cuda\n".encode()
    first = migrate(data, "npu", True)
    assert first.failure is None, first.failure
    after = first.after or data
    assert after.startswith(b"# cuda stays: torch.cuda\n")
    assert b"print('cuda')\n" in after
    assert after.endswith(b"\n# the end: cuda\n")


@given(st.text(alphabet='devic:uda{}[]"\'#-=, \n\t&*!|>0', max_size=80), st.sampled_from(["a.yaml", "a.toml", "a.json",
       "a.sh", "Dockerfile", "Makefile", "requirements.txt", "environment.yml", "README.md", "setup.cfg",
       "docker-compose.yml", "pyproject.toml", "a.ipynb"]))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_text_is_survived_in_every_kind_of_file(text: str, path: str) -> None:
    from torchferry.source.kinds import kind_of

    kind = kind_of(path)
    assert kind is not None
    content = f"device: cuda\n{text}cuda nccl pip install flash-attn\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path).write_bytes(content.encode())
        engine = Engine(Path(folder), Target(registry.load("npu")), rules(), selection=Selection(unsafe=True))
        examined = engine.examine(Entry(path, kind), rewrite=True)
    assert examined.failure is None, examined.failure
