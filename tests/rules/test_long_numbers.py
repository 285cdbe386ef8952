"""Numbers of thousands of digits, and digits that are no decimals: Python's `int` takes neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

FILES = {
    "main.py": "import os\nimport torch\nx = torch.zeros(1).to('cuda:{n}')\n"
    "os.environ['CUDA_VISIBLE_DEVICES'] = '{n}'\n",
    "run.sh": "export CUDA_VISIBLE_DEVICES={n}\nCUDA_VISIBLE_DEVICES={n},1 python main.py --gpus {n}\n",
    "requirements.txt": "torch=={n}\ntorch-npu=={n}\nnumpy=={n}.1\n",
    "environment.yml": "dependencies:\n  - pip:\n    - torch_npu=={n}\n",
    "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['torch=={n}', 'torch_npu>={n}']\n",
    "compose.yaml": "services:\n  a:\n    image: x\n    environment:\n      CUDA_VISIBLE_DEVICES: '{n}'\n",
    "Dockerfile": "FROM pytorch/pytorch:{n}-cuda{n}\nENV CUDA_VISIBLE_DEVICES={n}\n",
    "k.cu": "#define N {n}\n__global__ void f() {{ __shared__ float s[{n}]; }}\nvoid g() {{ f<<<{n}, 1>>>(); }}\n",
}


@pytest.mark.parametrize("number", ["9" * 5000, "²", "٣"], ids=["long", "superscript", "arabic"])
@pytest.mark.parametrize("target", registry.built_in())
def test_no_number_ends_a_scan(target: str, number: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.format(n=number), encoding="utf-8")
    analysis = analyse(Request(tmp_path, list_files(tmp_path), Target.named(target), rules(), account=True))
    assert [failure.what for failure in analysis.failures] == []
