"""Modules of the project that have the name of a package which the target lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from tests.programs.test_demands import need
from torchferry.programs.model import Verdict

MAIN = "import torch\n{}\nprint(torch.ones(1))\n"
OWN = "def attend():\n    return 1\n"
WRAPPER = "from flash_attn import flash_attn_func\ndef attend():\n    return flash_attn_func()\n"
ON_PATH = "import os\nimport sys\nsys.path.insert(0, os.path.join('here', 'vendor'))\nfrom flash_attn import attend"
STUB = "import sys\nimport types\nsys.modules['flash_attn'] = {}\nfrom flash_attn import flash_attn_func"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"main.py": "import flash_attn", "flash_attn.py": OWN}, "NEVER"),
        ({"main.py": "from flash_attn.ops import attend", "flash_attn/__init__.py": "", "flash_attn/ops.py": OWN}, "NEVER"),  # noqa: E501
        ({"main.py": "from flash_attn import ops", "flash_attn/__init__.py": "", "flash_attn/ops.py": OWN}, "NEVER"),
        ({"main.py": "from flash_attn import flash_attn_func", "flash_attn.py": OWN}, "ALWAYS"),
        ({"main.py": ON_PATH, "vendor/flash_attn.py": OWN}, "NEVER"),
        ({"main.py": ON_PATH, "other/flash_attn.py": OWN}, "ALWAYS"),
        ({"main.py": "import nets.net", "nets/__init__.py": "", "nets/flash_attn.py": OWN,
          "nets/net.py": "from flash_attn import attend"}, "ALWAYS"),
        ({"main.py": "from nets.flash_attn import attend", "nets/__init__.py": "", "nets/flash_attn.py": WRAPPER}, "ALWAYS"),  # noqa: E501
        ({"main.py": "from nets.flash_attn import attend", "nets/flash_attn.py": WRAPPER}, "ALWAYS"),
        ({"main.py": STUB.format("types.ModuleType('flash_attn')")}, "NEVER"),
        ({"main.py": STUB.format("None")}, "ALWAYS"),
        ({"main.py": "from flash_attn import flash_attn_func\nimport sys\nsys.modules['flash_attn'] = sys"}, "ALWAYS"),
    ],
)  # fmt: skip
def test_a_module_of_the_project_is_no_package(tmp_path: Path, files: Files, expected: str) -> None:
    files = {**files, "main.py": MAIN.format(files["main.py"])}
    assert need(files, tmp_path, "flash-attn") == expected


def test_a_wrapper_that_has_the_name_of_what_it_imports_needs_it(tmp_path: Path) -> None:
    files = {
        "main.py": MAIN.format("from nets.cupy import ones"),
        "nets/__init__.py": "",
        "nets/cupy.py": "import cupy\n",
    }
    assert need({**files, "nets/cupy.py": "import cupy\nones = cupy.ones\n"}, tmp_path) == "ALWAYS"


def test_a_package_whose_file_has_its_name(tmp_path: Path) -> None:
    files = {
        "train.py": "from groundingdino.models.groundingdino import build\nbuild()\n",
        "groundingdino/__init__.py": "",
        "groundingdino/util.py": "import torch\n",
        "groundingdino/models/__init__.py": "",
        "groundingdino/models/groundingdino.py": "from groundingdino.util import torch\n"
        "def build():\n    return torch.ones(1)\n",
    }
    assert judged(tmp_path, files)["train.py"].verdict in (Verdict.READY, Verdict.FIXES)


INNER = {
    "train.py": "import torch\nfrom net.train.harbor.run import go\ngo(torch.ones(1))\n",
    "net/__init__.py": "",
    "net/train/__init__.py": "",
    "net/train/harbor/__init__.py": "",
    "net/train/harbor/run.py": "from harbor.models import Task\ndef go(x):\n    return Task(x)\n",
}
"""A package inside of a package has the name of a package of others, and imports that one."""

NEIGHBOUR: dict[str, str | None] = {
    "train.py": "import torch\nfrom net.train.near import go\ngo(torch.ones(1))\n",
    "net/train/near.py": "from harbor.models import Task\ndef go(x):\n    return Task(x)\n",
}
"""A module beside that package imports it."""


@pytest.mark.parametrize(
    ("moved", "verdict", "unverified"),
    [
        ({}, Verdict.READY, ["harbor"]),
        ({"net/train/__init__.py": None}, Verdict.NOT_JUDGED, []),  # a program beside it would import the own one
        ({"harbor/__init__.py": ""}, Verdict.NOT_JUDGED, []),
        (NEIGHBOUR, Verdict.READY, ["harbor"]),
        ({**NEIGHBOUR, "net/train/go.py": "if __name__ == '__main__':\n    print(1)\n"}, Verdict.NOT_JUDGED, []),
        (
            {**NEIGHBOUR, "net/train/go.py": "import os\nfor each in os.listdir('.'):\n    print(each)\n"},
            Verdict.NOT_JUDGED,
            [],
        ),
    ],
)
def test_a_package_inside_of_another_is_not_imported_by_its_own_name(
    tmp_path: Path, moved: dict[str, str | None], verdict: Verdict, unverified: list[str]
) -> None:
    files = {name: text for name, text in {**INNER, **moved}.items() if text is not None}
    program = judged(tmp_path, files)["train.py"]
    assert (program.verdict, [each.package for each in program.unverified]) == (verdict, unverified)
