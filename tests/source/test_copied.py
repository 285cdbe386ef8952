"""Where the portable names are placed, so that each file of a project finds them as it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.core.vendored import CHECKSUM, FIRST
from torchferry.source.copied import copies_in, place_module
from torchferry.source.portable_uses import EVERY, names_used
from torchferry.source.tree import list_files

MAIN = "if __name__ == '__main__':\n    print('cuda')\n"
COPY = f"{FIRST} 0.1.0\n{CHECKSUM}sha256 0\n"

CASES: dict[str, tuple[dict[str, str], dict[str, tuple[str, str]]]] = {
    "one folder": (
        {"train.py": f"from model import Net\n{MAIN}", "model.py": "d = 'cuda'\n", "data.py": "x = 1\n"},
        {"train.py": ("device_utils.py", "device_utils"), "model.py": ("device_utils.py", "device_utils")},
    ),
    "a package and a program beside it": (
        {"kit/__init__.py": "", "kit/model.py": "d = 'cuda'\n", "train.py": f"from kit.model import Net\n{MAIN}"},
        {
            "kit/model.py": ("kit/device_utils.py", "kit.device_utils"),
            "train.py": ("kit/device_utils.py", "kit.device_utils"),
        },
    ),
    "a program in a sub-folder that imports the package": (
        {
            "kit/__init__.py": "from .model import Net\n",
            "kit/model.py": "d = 'cuda'\n",
            "tools/train.py": f"import kit\n{MAIN}",
        },
        {
            "kit/model.py": ("kit/device_utils.py", "kit.device_utils"),
            "tools/train.py": ("kit/device_utils.py", "kit.device_utils"),
        },
    ),
    "programs that share nothing": (
        {"mnist/main.py": MAIN, "dcgan/main.py": MAIN},
        {
            "mnist/main.py": ("mnist/device_utils.py", "device_utils"),
            "dcgan/main.py": ("dcgan/device_utils.py", "device_utils"),
        },
    ),
    "modules in a folder that is no package": (
        {"train.py": f"from utils.place import device\n{MAIN}", "utils/place.py": "d = 'cuda'\n"},
        {"train.py": ("device_utils.py", "device_utils"), "utils/place.py": ("device_utils.py", "device_utils")},
    ),
    "sources below src": (
        {"src/kit/__init__.py": "", "src/kit/a.py": "d = 'cuda'\n", "scripts/run.py": f"from kit.a import d\n{MAIN}"},
        {
            "src/kit/a.py": ("src/kit/device_utils.py", "kit.device_utils"),
            "scripts/run.py": ("src/kit/device_utils.py", "kit.device_utils"),
        },
    ),
    "a program in a package's folder that imports its neighbours": (
        {"app/__init__.py": "", "app/run.py": f"import net\n{MAIN}", "app/net.py": "d = 'cuda'\n"},
        {"app/run.py": ("app/device_utils.py", "device_utils"), "app/net.py": ("app/device_utils.py", "device_utils")},
    ),
    "a program in a package that nobody imports": (
        {"tools/__init__.py": "", "tools/train.py": MAIN, "kit/__init__.py": "", "kit/a.py": "d = 'cuda'\n"},
        {
            "tools/train.py": ("tools/device_utils.py", "device_utils"),
            "kit/a.py": ("kit/device_utils.py", "kit.device_utils"),
        },
    ),
    "a program that is run as a module": (
        {"app/__init__.py": "", "app/run.py": f"from .net import d\n{MAIN}", "app/net.py": "d = 'cuda'\n"},
        {
            "app/run.py": ("app/device_utils.py", "app.device_utils"),
            "app/net.py": ("app/device_utils.py", "app.device_utils"),
        },
    ),
    "a package in folders that have no `__init__.py`": (
        {
            "ldm/models/diffusion/__init__.py": "",
            "ldm/models/diffusion/solver/__init__.py": "from .sampler import S\n",
            "ldm/models/diffusion/solver/sampler.py": "d = 'cuda'\n",
            "ldm/models/losses/__init__.py": "from .own import x\n",
            "ldm/models/losses/own.py": "d = 'cuda'\n",
            "scripts/run.py": f"from ldm.models.diffusion.solver import S\n{MAIN}",
        },
        {
            "ldm/models/diffusion/solver/sampler.py": ("device_utils.py", "device_utils"),
            "ldm/models/losses/own.py": ("device_utils.py", "device_utils"),
            "scripts/run.py": ("device_utils.py", "device_utils"),
        },
    ),
    "a copy that is there": (
        {"kit/__init__.py": "", "kit/common/__init__.py": "", "kit/common/place.py": COPY, "kit/a.py": "d = 'cuda'\n"},
        {"kit/a.py": ("kit/common/place.py", "kit.common.place")},
    ),
    "a copy that one program cannot import": (
        {"mnist/main.py": MAIN, "dcgan/main.py": MAIN, "dcgan/device_utils.py": COPY},
        {
            "mnist/main.py": ("mnist/device_utils.py", "device_utils"),
            "dcgan/main.py": ("dcgan/device_utils.py", "device_utils"),
        },
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_each_file_finds_the_names(title: str, tmp_path: Path) -> None:
    files, expected = CASES[title]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    placement = place_module(tmp_path, list_files(tmp_path), [b"cuda"], "device_utils.py")
    assert {path: tuple(place) for path, place in placement.of_file.items()} == expected
    assert placement.unreachable == ()
    assert copies_in(tmp_path, list_files(tmp_path)) == tuple(path for path, text in files.items() if text == COPY)


def test_a_file_that_no_path_serves_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/__init__.py").touch()
    (tmp_path / "models/yolo.py").write_text(MAIN, encoding="utf-8")
    (tmp_path / "train.py").write_text(f"from models.yolo import Model\n{MAIN}", encoding="utf-8")
    placement = place_module(tmp_path, list_files(tmp_path), [b"cuda"], "device_utils.py")
    assert placement.unreachable == ("models/yolo.py",)
    assert set(placement.of_file.values()) == {("models/device_utils.py", "models.device_utils")}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "from kit import device_utils\ndevice_utils.synchronize()\nx = device_utils.amp.autocast\n",
            {"synchronize", "amp"},
        ),
        ("from kit.device_utils import GradScaler, autocast as cast\n", {"GradScaler", "autocast"}),
        ("from .device_utils import (\n    Event,  # a mark\n    Stream,\n)\n", {"Event", "Stream"}),
        ("from kit import device_utils as du\ndu.set_device(0)\n", {"set_device"}),
        ("hasattr(device_utils, 'memory_stats')\n", {"memory_stats"}),
        ("from kit.device_utils import *\n", {EVERY}),
        ("backend = device_utils.whole_module\nbackend.synchronize()\n", {EVERY, "whole_module"}),
        ("hasattr(device_utils.accelerator_namespace, name)\n", {"accelerator_namespace"}),
        ('"source": ["import device_utils\\n", "getattr(device_utils, \\"init\\")()"]', {"init"}),
        ("import torch\nmy_device_utils.synchronize()\n", set()),
    ],
)
def test_the_names_that_a_file_takes(text: str, names: set[str]) -> None:
    assert names_used(text, "kit.device_utils") == names


def test_a_self_test_in_a_package_is_no_program_of_its_own(tmp_path: Path) -> None:
    """Users import the module as they import its neighbours; started by its path, it needs the package's folder."""
    files = {
        "kit/__init__.py": "from kit.net import Net\n",
        "kit/net.py": "d = 'cuda'\n",
        "kit/guided.py": f"d = 'cuda'\n{MAIN}",
    }
    (tmp_path / "kit").mkdir()
    for path, text in files.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    placement = place_module(tmp_path, list_files(tmp_path), [b"cuda"], "device_utils.py")
    assert set(placement.of_file.values()) == {("kit/device_utils.py", "kit.device_utils")}
    assert placement.unreachable == ("kit/guided.py",)
