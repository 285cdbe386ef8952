"""Small projects for the tests."""

from __future__ import annotations

import ast
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.source.project import Project
from torchferry.triton.checking import Checker, CheckRequest, kernels_in
from torchferry.triton.definitions import Cutter, KernelText
from torchferry.triton.model import ProjectKernel, Signature

NPU = Target.requested("npu")
HEAD = "import triton\nimport triton.language as tl\n"


def project(folder: Path, files: dict[str, str]) -> Project:
    """Write files, and return them as a project."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Project(folder, [name for name in files if name.endswith(".py")])


def request_for(
    folder: Path, files: dict[str, str], **more: object
) -> tuple[CheckRequest, Project, list[ProjectKernel]]:
    """Return what a check of some files needs."""
    known = project(folder, files)
    request = CheckRequest(folder, tuple(sorted(files)), NPU, **more)  # type: ignore[arg-type]
    return request, known, kernels_in(request, known)


def cut(folder: Path, files: dict[str, str], name: str = "kernel", supposed: bool | None = None) -> KernelText:
    """Return a kernel of the first file, cut from a project."""
    known = project(folder, files)
    path = next(iter(files))
    loaded = known.file(path)
    assert loaded is not None
    function = next(each for each in loaded[0].functions if each.name == name)
    assert isinstance(function, ast.FunctionDef)
    return Cutter(known, path, function, NPU, supposed).cut()


def signatures(folder: Path, files: dict[str, str], assume: str = "") -> dict[str, list[Signature]]:
    """Return what the launches in the code say, by kernel."""
    request, known, kernels = request_for(folder, files, assume=assume)
    checker = Checker(request, known, kernels)
    return {key[1]: found for key, found in checker._literal_signatures().items()}
