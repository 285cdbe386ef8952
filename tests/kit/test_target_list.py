"""Which torch and plugin a project gets, and what becomes of its lists of requirements."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.process import torchferry
from tests.kit.projects import written
from tests.rules.fixture import TARGETS
from torchferry.backends.target import Target
from torchferry.kit.lists import lists_of
from torchferry.kit.needs import needs_of
from torchferry.kit.stack import pairs, stack
from torchferry.kit.target_list import TargetLists, target_lists
from torchferry.source.tree import list_files


def lists_for(root: Path, files: dict[str, str], target: str = "npu", lang: str = "en") -> TargetLists:
    written(root, files)
    listing = list_files(root)
    chosen = Target.named(target)
    return target_lists(lists_of(root, listing), needs_of(root, listing).modules, chosen, f"_{chosen.name}", lang)


def installed(text: str) -> list[str]:
    """Return the lines of a list that pip acts on."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("target", "specifiers", "torch", "plugin", "decision"),
    [
        ("npu", ["==2.7.1"], "2.7.1", "torch-npu==2.7.1.post8", False),
        ("npu", ["==2.7.1+cu126"], "2.7.1", "torch-npu==2.7.1.post8", False),
        ("npu", [">=2.1,<2.2"], "2.1.0", "torch-npu==2.1.0.post17", False),
        ("npu", ["==2.4.1"], "2.4.0", "torch-npu==2.4.0.post4", True),  # the same two numbers before a newer one
        ("npu", ["==2.2.0"], "2.3.1", "torch-npu==2.3.1.post6", True),
        ("npu", ["==1.13.1"], "2.1.0", "torch-npu==2.1.0.post17", True),
        ("npu", ["==2.1.0", "==2.7.1"], "2.7.1", "torch-npu==2.7.1.post8", True),  # they differ by marker
        ("npu", ["", "==2.1.0"], "2.1.0", "torch-npu==2.1.0.post17", False),  # one list names no version
        ("musa", ["", "==1.11.0.*"], "2.2.0", "torch_musa==2.0.1", True),
        ("npu", ["rubbish"], "2.14.0", "torch-npu==2.14.0", False),
        ("npu@2.7.1.post4", [">=2.0"], "2.7.1", "torch-npu==2.7.1.post4", False),
        ("npu@2.7.1", ["==2.6.0"], "2.7.1", "torch-npu==2.7.1", True),
        ("musa", ["==2.7.1"], "2.7.1", "torch_musa==2.7.1", False),
        ("ptex", ["==2.0.0"], "1.11.0", "ptex==2.1.0+torch1.11.0", True),
    ],
)
def test_which_torch(target: str, specifiers: list[str], torch: str, plugin: str, decision: bool) -> None:
    chosen = stack(Target.named(target), specifiers)
    assert (chosen.torch, chosen.plugins[0], chosen.decision) == (torch, plugin, decision)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_chosen_is_a_pair_of_the_table(name: str) -> None:
    target = Target.named(name)
    known = list(pairs(target))
    for torch, _ in known:
        chosen = stack(target, [f"=={torch}"])
        assert chosen.torch == torch
        assert not chosen.decision
        assert any((torch, version) in known for version in chosen.plugin_versions)


CASES = {
    "cuda packages": (
        {"requirements.txt": "torch\nflash-attn\nxformers\ntriton\nnumpy<2\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.14.0",
                                  "torch-npu==2.14.0", "triton-ascend", "numpy<2"]},
    ),
    "a frozen environment": (
        {"requirements.txt": "torch==2.7.1\nnvidia-cublas-cu12==12.6 \\\n    --hash=sha256:00\nnvidia-nccl-cu12==2.26\n"
         "triton==3.3.1\ntorchvision==0.22.1\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.7.1",
                                  "torch-npu==2.7.1.post8", "torchvision"]},
    ),
    "an index that replaces PyPI": (
        {"requirements.txt": "--index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0+cu118\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.1.0",
                                  "torch-npu==2.1.0.post17"]},
    ),
    "a wheel by its address, and markers": (
        {"requirements.txt": 'https://x.org/cu118/torch-2.1.0%2Bcu118-cp310-cp310-linux_x86_64.whl\n'
         'six; python_version < "3"\ngit+https://github.com/NVIDIA/apex.git\n'},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.1.0",
                                  "torch-npu==2.1.0.post17", 'six; python_version < "3"']},
    ),
    "lists in a folder": (
        {"requirements/base.txt": "torch==2.6.0\n-r more.txt\n", "requirements/more.txt": "flash-attn\neinops\n",
         "requirements/tests.txt": "pytest\n", "requirements/gpu.txt": "-c base.txt\ncupy-cuda12x\n"},
        {"requirements/base_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.6.0",
                                       "torch-npu==2.6.0.post5", "-r more_npu.txt"],
         "requirements/more_npu.txt": ["einops"], "requirements/gpu_npu.txt": ["-c base_npu.txt"],
         "requirements_npu.txt": ["-r requirements/base_npu.txt", "-r requirements/gpu_npu.txt"]},
    ),
    "pyproject.toml, extras left out": (
        {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["torch>=2.6,<2.7", "flash-attn", "numpy"]\n'
         '[project.optional-dependencies]\ndev = ["pytest"]\n'},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.6.0",
                                  "torch-npu==2.6.0.post5", "numpy"]},
    ),
    "Poetry": (
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.9"\ntorch = "~2.5.0"\nnumpy = {version = "*"}\n'},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.5.1",
                                  "torch-npu==2.5.1.post1", "numpy"]},
    ),
    "setup.py with a named list, and setup.cfg": (
        {"setup.py": 'from setuptools import setup\nNEEDS = ["torch==2.3.1", "tqdm"]\nsetup(install_requires=NEEDS)\n',
         "setup.cfg": "[options]\ninstall_requires =\n    einops>=0.7\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "einops>=0.7",
                                  "torch==2.3.1", "torch-npu==2.3.1.post6", "tqdm"]},
    ),
    "conda": (
        {"environment.yml": "dependencies:\n  - python=3.10\n  - pytorch=2.3\n  - pytorch-cuda=12.1\n  - ffmpeg\n"
         "  - numpy\n  - pip:\n    - einops==0.7\n    - -e git+https://x.org/CLIP.git@main#egg=clip\n    - -e .\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.3.1",
                                  "torch-npu==2.3.1.post6", "numpy", "einops==0.7",
                                  "-e git+https://x.org/CLIP.git@main#egg=clip"]},
    ),
    "repositories, also of what stays with a remark": (
        {"requirements.txt": "torch==2.7.1\ngit+https://github.com/openai/CLIP.git\n"
         "diffusers @ git+https://github.com/huggingface/diffusers\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.7.1",
                                  "torch-npu==2.7.1.post8", "git+https://github.com/openai/CLIP.git",
                                  "diffusers @ git+https://github.com/huggingface/diffusers"]},
    ),
    "repositories in pyproject.toml": (
        {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["einops @ git+https://x.org/einops"]\n'
         '[tool.poetry.dependencies]\ntqdm = {git = "https://x.org/tqdm"}\ntorch = "2.7.1"\n'},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu",
                                  "einops @ git+https://x.org/einops", "tqdm @ git+https://x.org/tqdm",
                                  "torch==2.7.1", "torch-npu==2.7.1.post8"]},
    ),
    "no list": (
        {"train.py": "import torch\nimport yaml\nimport helpers\n", "helpers.py": "import cv2\n"},
        {"requirements_npu.txt": ["--extra-index-url https://download.pytorch.org/whl/cpu", "torch==2.14.0",
                                  "torch-npu==2.14.0", "opencv-python", "pyyaml"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lists(case: str, tmp_path: Path) -> None:
    files, wanted = CASES[case]
    lists = lists_for(tmp_path, files)
    assert {path: installed(text) for path, text in lists.files.items()} == wanted
    for change in lists.changes:  # nothing goes without a reason
        assert change.reason.render("en")
        assert change.reason.render("zh")
    for text, place in lists.required:
        path, _, line = place.rpartition(":")
        assert Requirement(text).name.lower() in lists.files[path].splitlines()[int(line) - 1].lower()


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_vendors_index_has_is_not_installed_by_its_bare_name(name: str, tmp_path: Path) -> None:
    target = Target.named(name)
    lists = lists_for(tmp_path, {"requirements.txt": "torch\ntriton\nflash-attn\nnumpy\n"}, name)
    lines = installed(lists.files[lists.main])
    if isinstance(target.backend.PIP_NAME, str):
        assert any(line.startswith(f"{target.backend.PIP_NAME}==") for line in lines)
    else:
        assert lines == ["numpy"]
        assert target.install.en in lists.files[lists.main]
    assert "# flash-attn" in lists.files[lists.main]


def test_comments_stay(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"# ours\r\n\x0cnumpy  # why\r\ntorch==2.7.1\r\n")
    listing = list_files(tmp_path)
    lists = target_lists(lists_of(tmp_path, listing), (), Target.named("npu"), "_npu", "en")
    lines = lists.files["requirements_npu.txt"].split("\n")
    assert "# ours" in lines
    assert "\x0cnumpy  # why" in lines
    assert "torch==2.7.1" in lines


def test_a_key_in_an_address_is_not_told(tmp_path: Path) -> None:
    index = "--extra-index-url https://me:secret@mirror.example/whl/cu121\n"
    written(tmp_path, {"requirements.txt": f"{index}torch\n", "a.py": 'import torch\ntorch.ones(1).to("cuda")\n'})
    torchferry("migrate", "-t", "npu", "--kit", tmp_path)
    guide = (tmp_path / "NPU_MIGRATION_GUIDE.md").read_text(encoding="utf-8")
    assert "https://...@mirror.example/whl/cu121" in guide
    assert "secret" not in "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*npu*"))


def test_what_no_table_knows_is_not_installed(tmp_path: Path) -> None:
    code = "import torch\nfrom google import genai\nimport google.protobuf\nimport imwatermark\nimport madeup\n"
    done = lists_for(tmp_path, {"train.py": code})
    names = {Requirement(line).name for line in installed(done.files[done.main]) if not line.startswith("-")}
    assert {"protobuf", "invisible-watermark"} <= names
    assert not names & {"google", "imwatermark", "madeup"}
    assert "torchferry does not know which package provides `madeup`: add it  (train.py:5)" in done.files[done.main]
