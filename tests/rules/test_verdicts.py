"""Whole projects, small ones, and what is said of them: neither a plainly false "Ready" nor a plainly false "Blocked"."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.report.model import Report, Verdict, report_of
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.kept import Why
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files


@cache
def _target(name: str) -> Target:
    choice = registry.choose(name)
    return Target(choice.backend, choice.version)


def report(root: Path, files: dict[str, str], target: str = "npu") -> Report:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    request = Request(root, list_files(root), _target(target), rules(), account=True)
    analysis = analyse(request)
    assert analysis.failures == []
    return report_of(analysis, request.target, root.name)


def test_a_cpp_application_is_seen_and_counted(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": "project(app LANGUAGES CXX CUDA)\n",
        "main.cpp": "// cuda\n#include <torch/torch.h>\nauto d = torch::kCUDA;  // cudaMalloc\nint cuda_count;\n",
        "app.h": "void *allocate() { cudaMalloc(&p, 8); }\n",
    }
    found = report(tmp_path, files)
    assert found.verdict is Verdict.AFTER_WORK
    assert sorted(finding.code for finding in found.findings) == ["EXT103", "EXT104", "EXT105"]
    assert found.kept_by_reason == {Why.COMMENT: 2, Why.NATIVE: 1}
