"""The rules for command lines on any text: they never raise, point inside it, and have nothing to add to their work."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counted_calls import grows_linearly
from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Finding
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.text import SourceText

CODES = ("ENV102", "PRC102", "SHL101", "SHL102", "SHL103", "SHL104", "CNT101", "CNT102")
RULES: list[Rule] = [rule for rule in rules() if rule.CODE in CODES]
TARGETS = {name: Target(registry.load(name)) for name in ("npu", "ptex")}
KINDS = {Kind.SHELL: "x.sh", Kind.MAKEFILE: "Makefile", Kind.DOCKERFILE: "Dockerfile", Kind.COMPOSE: "compose.yml",
         Kind.YAML: "x.yaml"}  # fmt: skip
PIECES = st.sampled_from(
    [
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG",
        "export",
        "unset",
        "DEVICE=",
        "BACKEND=",
        "--device=",
        "--device",
        "--dist-backend",
        "cuda",
        "cuda:0",
        "nccl",
        "cpu",
        "npu",
        "python",
        "-c",
        "torch.cuda",
        "nvidia-smi",
        "-L",
        "nvcc",
        "which",
        "command",
        "-v",
        "if",
        "then",
        "case",
        "in",
        "esac",
        "for",
        "do",
        "done",
        "[[",
        "==",
        "=",
        ":=",
        "?=",
        "A=(",
        ")",
        "$(",
        "`",
        '"$DEVICE"',
        "${DEVICE:-cuda}",
        "${DEVICE#cuda}",
        "$CUDA_VISIBLE_DEVICES",
        "bash",
        "ssh",
        '"',
        "'",
        "\\",
        ";",
        "&&",
        "|",
        "<",
        "<<EOF",
        "EOF",
        "<<'PY'",
        "PY",
        "docker",
        "run",
        "--gpus",
        "all",
        "nvcr.io/nvidia/pytorch:24.01-py3",
        "nvidia/cuda",
        "FROM",
        "AS",
        "RUN",
        "ENV",
        "ARG",
        "CMD",
        '["',
        '",',
        '"]',
        "environment:",
        "command:",
        "image:",
        "run:",
        "-",
        "{",
        "}",
        ",",
        "name:",
        "value:",
        "nvidia.com/gpu:",
        "--tf32",
        "True",
        "echo",
        "#",
        "é",
    ]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "", "\n", "\n  ", "\r\n", "\t"])), max_size=25).map(
    lambda parts: "".join(piece + blank for piece, blank in parts)
)


def check(text: str, kind: Kind, target: Target) -> list[Finding]:
    context = Context(KINDS[kind], kind, SourceText(text), target, Options())
    found = []
    for rule in RULES:
        if kind in rule.KINDS:
            found += list(rule.check(context))
    return found


def edited(text: str, edits: list[Edit]) -> str:
    for edit in sorted(set(edits), reverse=True):
        assert 0 <= edit.start <= edit.end <= len(text)
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_any_text_is_settled_at_once(kind: Kind, name: str, text: str) -> None:
    edits = [edit for finding in check(text, kind, TARGETS[name]) for edit in finding.edits]
    spans = sorted({(edit.start, edit.end) for edit in edits})
    assert all(left[1] <= right[0] for left, right in pairwise(spans)), "edits overlap"
    after = edited(text, edits)
    again = [finding for finding in check(after, kind, TARGETS[name]) if finding.edits]
    assert again == [], (text, after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "piece",
    [
        "CUDA_HOME ",
        "'CUDA_HOME ",
        "nvidia-smi ",
        "--device cuda ",
        "case $DEVICE in ",
        "<<A nvidia/cuda\n",
        "ENV CUDA_HOME ",
    ],
)
def test_hostile_text_takes_linear_time(kind: Kind, piece: str) -> None:
    assert grows_linearly(lambda text: check(text, kind, TARGETS["npu"]), piece * 4_000)
