"""Whole projects, small ones, and their verdicts: neither a plainly false "Ready" nor a plainly false "Blocked"."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.programs.verdicts.judging import judge
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import ProjectVerdict, Report, report_of
from torchferry.report.programs import verdict_of
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.mentions import MentionKind
from torchferry.rules.registry import rules
from torchferry.source import tree
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
    return report_of(analysis, request.target, root.name, programs=judge(analysis, request.target))


def test_findings_of_a_notebook_come_cell_by_cell(tmp_path: Path) -> None:
    sources = (["a = 1\n", "b = 2\n", "x.cuda()"], ["c = 3\n", "x.cuda()"], ["x.cuda()"])
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    places = [finding.location for finding in report(tmp_path, {"a.ipynb": notebook}).findings]
    assert [(place.cell, place.line) for place in places if place.cell] == [(1, 3), (2, 2), (3, 1)]


def test_a_cpp_application_is_seen_and_counted(tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": "project(app LANGUAGES CXX CUDA)\n",
        "main.cpp": "// cuda\n#include <torch/torch.h>\nauto d = torch::kCUDA;  // cudaMalloc\nint cuda_count;\n",
        "app.h": "void *allocate() { cudaMalloc(&p, 8); }\n",
    }
    found = report(tmp_path, files)
    assert found.verdict is ProjectVerdict.AFTER_WORK
    assert sorted(finding.code for finding in found.findings) == ["EXT103", "EXT104", "EXT105"]
    assert found.mentions_by_kind == {MentionKind.COMMENT: 2, MentionKind.NATIVE: 1}


KERNEL = "__global__ void f() {}\nvoid run() { f<<<1, 1>>>(); }\n"
SETUP = (
    "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
    'setup(ext_modules=[CUDAExtension("fast_ops", ["ops.cu"])])\n'
)
CONDITIONAL = SETUP.replace("setup(ext", "import torch\nif torch.cuda.is_available():\n    setup(ext")
RAISING = CONDITIONAL + "else:\n    raise NotImplementedError('no CUDA')\n"
BUILT = {"csrc/setup.py": SETUP, "csrc/ops.cu": KERNEL}
TRAIN = "import torch\n{}\nif __name__ == '__main__':\n    torch.ones(2).cuda()\n"
USES = TRAIN.format("import fast_ops")
COPES = TRAIN.format("try:\n    import fast_ops\nexcept ImportError:\n    fast_ops = None")
RAISES = TRAIN.format("try:\n    import fast_ops\nexcept ImportError:\n    raise RuntimeError('install it')")
NEEDS = TRAIN.format("import cupy")
TRAINS = TRAIN.format("import lightning as L\nt = L.Trainer(accelerator='gpu')")
LOADS = (
    "from torch.utils.cpp_extension import load\nimport torch\n{}\n"
    "def f(x):\n    return fused(x) if x.is_cuda else x\nf(torch.ones(2).cuda())\n"
)
NOTEBOOK = '{{"cells": [{{"cell_type": "code", "metadata": {{}}, "outputs": [], "source": ["{}"]}}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'  # noqa: E501


@pytest.mark.parametrize(
    "files",
    [
        {**BUILT, "train.py": USES},
        {**BUILT, "train.py": RAISES},
        {**BUILT, "ops/fast.py": "import fast_ops\n", "ops/__init__.py": "from .fast import fast_ops\n",
         "train.py": TRAIN.format("import ops")},
        {"setup.py": RAISING, "ops.cu": KERNEL, "train.py": USES},
        {"setup.py": CONDITIONAL, "ops.cu": KERNEL, "train.py": USES},
        {"fused.cu": KERNEL, "train.py": LOADS.format('fused = load("fused", ["fused.cu"])')},
        {"main.cu": KERNEL},
        {"fast.cu": KERNEL, "train.py": TRAIN.format("import ctypes\nfast = ctypes.CDLL('fast.so')")},
        {"nms/nms.cu": KERNEL, "setup.py": "setup(ext_modules=[Extension('nms.gpu_nms', ['nms/nms.cu'])])\n",
         "train.py": TRAIN.format("from nms.gpu_nms import gpu_nms")},
        {"train.py": NEEDS},
        {"train.py": TRAIN.format("try:\n    import cupy\nexcept ImportError as e:\n    raise E from e")},
        {"train.py": TRAIN.format("from nvidia.dali.pipeline import Pipeline")},
        {"train.py": TRAIN.format("import pycuda.driver")},
        {"one.ipynb": NOTEBOOK.format("import tensorrt")},
        {"train.py": TRAINS},
        {"parts/net.py": TRAINS.replace("'gpu'", "'cuda'"), "train.py": TRAIN.format("from parts import net")},
    ],
)  # fmt: skip
def test_what_is_needed_blocks(files: dict[str, str], tmp_path: Path) -> None:
    assert report(tmp_path, files).verdict is ProjectVerdict.BLOCKED


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({**BUILT, "train.py": COPES}, "the code goes on without it"),
        ({**BUILT, "train.py": TRAIN.format("def fast():\n    import fast_ops")}, "no program needs what it compiles"),
        ({**BUILT, "train.py": TRAIN.format("if FUSED:\n    import fast_ops")}, "reaches it could not be resolved"),
        ({**BUILT, "ops/fast.py": "import fast_ops\n", "ops/__init__.py": "",
          "train.py": TRAIN.format("try:\n    from ops import fast\nexcept Exception:\n    fast = None")},
         "the code goes on without it"),
        ({**BUILT, "train.py": COPES, "tests/test_ops.py": "import fast_ops\n"}, "the code goes on without it"),
        ({"fused.cu": KERNEL, "train.py": LOADS.format(
            'fused = None\ndef init():\n    global fused\n    fused = load("fused", ["fused.cu"])')},
         "no program needs what it compiles"),
        ({"experiments/speed.cu": KERNEL, "train.py": TRAIN.format("")}, "no program needs what it compiles"),
        ({"train.py": TRAIN.format(""), "tests/test_cupy.py": "import cupy\n"}, "no program reaches it"),
        ({"fast.py": "import cupy\n", "train.py": TRAIN.format("try:\n    import fast\nexcept ImportError:\n    pass")},
         "the code goes on without it"),
        ({"train.py": TRAIN.format("def f():\n    import cupy\n    return cupy.zeros(2)")}, ""),
        ({"train.py": TRAIN.format("import lightning as L\ndef f():\n    return L.Trainer(accelerator='gpu')")}, ""),
    ],
)  # fmt: skip
def test_what_the_project_does_without_does_not_block(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    found = report(tmp_path, files)
    undecided = "could not be resolved" in reason
    assert found.verdict is (ProjectVerdict.MAY_NEED if undecided else ProjectVerdict.AFTER_WORK)
    assert any(reason in finding.message.render("en") for finding in found.work)


def test_what_another_build_has_is_a_decision(tmp_path: Path) -> None:
    found = report(tmp_path, {"train.py": TRAINS}, "musa")
    assert found.verdict is ProjectVerdict.AFTER_WORK
    assert not [finding for finding in found.work if "compiles" in finding.message.render("en")]


def test_another_build_is_work_where_nothing_else_is(tmp_path: Path) -> None:
    """A file that names the target everywhere, and imports a package that has to be built for it."""
    found = report(
        tmp_path, {"train.py": "import torch\nfrom mmcv.ops import nms\n\nx = torch.ones(2, device='npu')\n"}
    )
    assert found.verdict is ProjectVerdict.AFTER_WORK
    assert verdict_sentence(found).render("en") == "Ready for Huawei Ascend after one decision."


def test_a_script_of_python_without_a_suffix_is_a_program(tmp_path: Path) -> None:
    script = "#!/usr/bin/env python3\nimport torch\nimport cupy\nif __name__ == '__main__':\n    print(torch.ones(2))\n"
    found = report(tmp_path, {"bin/train": script, "a.py": TRAIN.format("")})
    assert found.verdict is ProjectVerdict.PARTLY_BLOCKED
    assert [judged.program.title for judged in found.programs if judged.blockers] == ["bin/train"]


def test_files_that_nobody_asked_whether_they_are_scripts_leave_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"train.py": "import torch\nprint(torch.ones(2))\n", "data/0": "0", "data/1": "1"}
    assert report(tmp_path, files).verdict is ProjectVerdict.READY
    monkeypatch.setattr(tree, "_MOST_BARE", 1)
    found = report(tmp_path, files)
    assert found.verdict is ProjectVerdict.AFTER_WORK
    assert [(finding.code, finding.location.path) for finding in found.work] == [("FIL105", "data")]


def test_what_one_notebook_needs_blocks_this_notebook(tmp_path: Path) -> None:
    found = report(tmp_path, {"train.py": TRAIN.format(""), "export.ipynb": NOTEBOOK.format("import tensorrt")})
    assert found.verdict is ProjectVerdict.PARTLY_BLOCKED


def test_a_long_chain_of_imports_ends(tmp_path: Path) -> None:
    files = {f"m{number}.py": f"import m{number + 1}\n" for number in range(1200)} | {"m1200.py": "import cupy\n"}
    assert report(tmp_path, files).verdict is ProjectVerdict.BLOCKED


def test_a_framework_is_noted_once(tmp_path: Path) -> None:
    files = {f"part{number}.py": "import pytorch_lightning as pl\n" for number in range(4)}
    assert [str(finding.location) for finding in report(tmp_path, files).findings] == ["part0.py:1:1"]


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        ({"train.py": "from transformers import BitsAndBytesConfig as B\nB(load_in_4bit=True)\n"}, "LIB107"),
        ({"train.py": 'optim = "paged_adamw_32bit"\n'}, "LIB107"),
        ({"train.py": "import bitsandbytes as bnb\nbnb.optim.Adam8bit(model.parameters())\n"}, "LIB114"),
        ({"build.py": "from torch.utils.ffi import create_extension\ncreate_extension('_ext.x')\n"}, "EXT106"),
        ({"train.py": "import pytorch_lightning as pl\nc = {}\nc['gpus'] = '0,1'\npl.Trainer(**c)\n"}, "LIB103"),
        ({"train.py": "from timm.data import Mixup\nMixup()\n", "requirements.txt": "timm==0.4.12\n"}, "LIB108"),
        ({"ops.py": "def register(lib, f):\n    lib.impl('t', f, 'AutogradCUDA')\n"}, "EXT107"),
        ({"train.py": "def f(y):\n    return y.type().startswith('torch.cuda')\n"}, "DEV111"),
        ({"environment.yml": "dependencies:\n  - cuda-profiler-api=11.8\n"}, "DEP101"),
        ({"environment.yml": "dependencies:\n  - pytorch-mutex=1.0=cuda\n"}, "DEP101"),
        ({"environment.yml": "dependencies:\n  - cuda=11.8\n"}, "DEP101"),
    ],
)  # fmt: skip
def test_what_has_to_change_is_not_ready(files: dict[str, str], codes: str, tmp_path: Path) -> None:
    found = report(tmp_path, files)
    assert found.verdict is not ProjectVerdict.READY
    assert codes in {finding.code for finding in found.work}


def test_sparse_tensors_where_the_table_says_that_there_are_none(tmp_path: Path) -> None:
    files = {"train.py": "import torch\nx = torch.sparse_coo_tensor(i, v)\n"}
    assert [finding.code for finding in report(tmp_path, files, "gcu").work] == ["DEV112"]
    assert report(tmp_path, files, "npu").verdict is ProjectVerdict.READY


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("npu@2.13.0", "drops the zeros of a product"),
        ("npu@2.9.0", "calls `aten::mul.out`"),
        ("musa", "calls `aten::sparse_mask`"),
    ],
)
def test_an_optimizer_of_sparse_gradients_is_judged_by_the_operators_that_it_calls(
    tmp_path: Path, target: str, why: str
) -> None:
    files = {
        "train.py": "import torch\nlayer = torch.nn.Embedding(3, 4, sparse=True)\ntorch.optim.SparseAdam([layer])\n"
    }
    (finding,) = [each for each in report(tmp_path, files, target).work if "SparseAdam" in str(each.message)]
    assert why in str(finding.message)


def test_files_that_no_rule_speaks_of_are_not_parsed(tmp_path: Path) -> None:
    files = {"data.py": "print 'difficult', sparse, 8bit\n"}
    assert report(tmp_path, files).findings == ()


UNREAD = "from lab.everything import *\n\nx = nn.Linear(2, 2).to('cuda')\n"
ASKING = UNREAD + "print(torch.cuda.max_memory_allocated())\n"


@pytest.mark.parametrize(
    ("files", "line", "program"),
    [
        (
            {"train.py": ASKING},
            "Ready for Huawei Ascend after one safe fix, except for one place that could not be resolved, if it can "
            "rely on lab there, which nobody has verified.",
            "ready after one fix, except for one place that could not be resolved, if it can rely on lab there, which "
            "nobody has verified",
        ),
        (
            {"train.py": "from lab import *\ntorch.cuda.synchronize()\ntorch.cuda.empty_cache()\n"},
            "Ready for Huawei Ascend, except for 2 places that could not be resolved.",
            "ready, except for 2 places that could not be resolved",
        ),
        (
            {"train.py": "import tensorrt\n" + ASKING},
            "Blocked on Huawei Ascend by `tensorrt`, which it lacks; to do: one safe fix and one decision; one place "
            "could not be resolved.",
            "blocked by tensorrt; also one fix, except for one place that could not be resolved",
        ),
        (
            {"train.py": ASKING.replace("lab.everything", "common"), "common.py": "import torch\nfrom torch import nn"},
            "Ready for Huawei Ascend after 2 safe fixes.",
            "ready after 2 fixes",
        ),
    ],
)  # fmt: skip
def test_what_could_not_be_resolved_is_said_first(
    files: dict[str, str], line: str, program: str, tmp_path: Path
) -> None:
    found = report(tmp_path, files)
    assert verdict_sentence(found).render("en") == line
    assert verdict_of(found.programs[0]).render("en") == program


ACCOUNT = (
    "import torch\n"  # no word
    "use_cuda = torch.cuda.is_available()  # cuda or not\n"  # own name, a fix, a comment
    "print('no cuda here')\n"  # a text
    "torch.backends.cudnn.benchmark = True\n"  # a note
    "def f(backend):\n    backend.cuda.synchronize()\n"  # nobody knows
)


def test_every_word_of_cuda_is_in_the_account(tmp_path: Path) -> None:
    found = report(tmp_path, {"train.py": ACCOUNT})
    words = found.words
    assert (words.total, words.rewritten, words.reported, words.unresolved) == (6, 1, 2, 1)
    assert found.mentions_by_kind == {MentionKind.COMMENT: 1, MentionKind.TEXT: 1, MentionKind.NAME: 1}
    assert [(place.path, place.line) for place in found.unresolved] == [("train.py", 6)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import torch\n", "Ready for Huawei Ascend: nothing has to change."),
        ("import torch\nimport lab\n", "Ready for Huawei Ascend: nothing has to change."),
        ("import torch\nimport lab\nlab.Trainer().fit()\n",
         "Ready for Huawei Ascend, if it can rely on lab there, which nobody has verified."),
        ("import torch\nimport lab\nlab.Net().to('cuda')\ndef f(b):\n    b.cuda.synchronize()\n",
         "Ready for Huawei Ascend after 2 safe fixes, except for one place that could not be resolved, "
         "if it can rely on lab there, which nobody has verified."),
        ("import sys\nimport torch\nif len(sys.argv) > 3:\n    import cupy\n",
         "train.py may need `cupy`, which Huawei Ascend lacks; to do: one decision."),
    ],
)  # fmt: skip
def test_the_first_line_says_what_the_verdict_rests_on(text: str, sentence: str, tmp_path: Path) -> None:
    found = report(tmp_path, {"train.py": text + "if __name__ == '__main__':\n    print(1)\n"})
    assert verdict_sentence(found).render("en") == sentence


def test_the_first_line_says_the_verdict_of_the_whole_project(tmp_path: Path) -> None:
    """What blocks the project is said, also where no program of it is known to be blocked."""
    extension = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
        "setup(ext_modules=[CUDAExtension('lab', ['lab.cu'])])\n"
    )
    option = "import sys\nimport torch\nif len(sys.argv) > 3:\n    import cupy\n"
    blocked = report(tmp_path / "blocked", {"setup.py": extension})
    undecided = report(tmp_path / "undecided", {"a.py": option, "b.py": option})
    found = blocked._replace(programs=undecided.programs)
    assert found.verdict is ProjectVerdict.BLOCKED
    assert verdict_sentence(found).render("en").startswith("Blocked on Huawei Ascend by one thing")


def test_of_several_programs_some_may_need_something(tmp_path: Path) -> None:
    files = {
        "train.py": "import sys\nimport torch\nif len(sys.argv) > 3:\n    import cupy\nprint(1)\n",
        "test.py": TRAIN.format(""),
    }
    found = report(tmp_path, files)
    assert found.verdict is ProjectVerdict.MAY_NEED
    assert (
        "2 programs on Huawei Ascend: 1 may need `cupy`, 1 ready after fixes or decisions; "
        "to do: 2 safe fixes and one decision." in verdict_sentence(found).render("en")
    )
