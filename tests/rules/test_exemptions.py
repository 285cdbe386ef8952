"""What stays as it is says why: to people in words, to the code that comes behind by a kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Stays
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

KERNEL = "import torch\nfrom pkg import _C\n\ndef run(x):\n    if {test}:\n        return _C.run(x)\n    return x + 1\n"


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        (KERNEL.format(test="x.is_cuda"), Stays.KERNEL),
        (KERNEL.format(test="x.device.type == 'cuda'"), Stays.KERNEL),
        (KERNEL.format(test="torch.cuda.is_available()"), Stays.KERNEL),
        ("import torch\ntorch.cuda.synchronize = print\ntorch.cuda.empty_cache()\n", Stays.PATCHES),
        ("import torch\nDEVICES = [torch.device('cuda'), torch.device('musa')]\n", Stays.TARGET_BESIDE),
        ("import torch\n\ndef f(x):\n    import cupy\n    cupy.f(x)\n    x.cuda()\n", Stays.CUDA_MODULE),
    ],
    ids=["attribute", "string", "call", "patches", "beside", "module"],
)
def test_what_stays_has_the_kind_of_its_reason(text: str, stays: Stays, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
        "setup(ext_modules=[CUDAExtension('pkg._C', ['ops.cu'])])\n"
    )
    (tmp_path / "ops.py").write_text(text)
    analysis = analyse(Request(tmp_path, list_files(tmp_path), Target.named("musa"), rules()))
    findings: list[Finding] = [finding for finding in analysis.findings if finding.location.path == "ops.py"]
    kept = [finding for finding in findings if finding.stays is not None]
    assert {finding.stays for finding in kept} == {stays}
    assert all(finding.grade is Grade.NOTE and not finding.edits for finding in kept)


BESIDE_NOTHING = {
    "the else of another question": (
        "import torch\nif path:\n    torch.cuda.get_sync_debug_mode()\nelse:\n    torch.musa.synchronize()\n",
        "import torch\nif gpu:\n    torch.cuda.get_sync_debug_mode()\nelse:\n    torch.musa.synchronize()\n",
    ),
    "another question in a tuple": (
        "import torch\nn = torch.musa.device_count(), torch.cuda.get_sync_debug_mode()\n",
        "import torch\nn = torch.musa.get_sync_debug_mode(), torch.cuda.get_sync_debug_mode()\n",
    ),
    "another question in a part of a tuple": (
        "import torch\nn = torch.musa.device_count() > 0, 1 > torch.cuda.get_sync_debug_mode()\n",
        "import torch\nn = torch.musa.get_sync_debug_mode() > 0, 1 > torch.cuda.get_sync_debug_mode()\n",
    ),
    "another question in a list": (
        "import torch\nn = [torch.musa.device_count, torch.cuda.get_sync_debug_mode]\n",
        "import torch\nn = [is_musa_available(), is_cuda_available(), torch.cuda.is_available()]\n",
    ),
}


@pytest.mark.parametrize("form", BESIDE_NOTHING)
def test_the_targets_name_nearby_is_no_branch_for_it(form: str, tmp_path: Path) -> None:
    for text, is_beside in zip(BESIDE_NOTHING[form], (False, True), strict=True):
        (tmp_path / "a.py").write_text(text)
        findings = analyse(Request(tmp_path, list_files(tmp_path), Target.named("musa"), rules())).findings
        assert any(finding.stays is Stays.TARGET_BESIDE for finding in findings) is is_beside, text
