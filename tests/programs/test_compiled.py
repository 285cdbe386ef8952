"""What the project itself compiles from CUDA, however a program comes to it: loaded, imported, called or started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import KERNEL, Files, judged
from torchferry.programs.model import Verdict

MAKE = {"k.cu": KERNEL, "Makefile": "libk.so: k.cu\n\tnvcc -shared -o libk.so k.cu\n"}
CMAKE = {"src/k.cu": KERNEL, "CMakeLists.txt": "project(k LANGUAGES CUDA CXX)\nadd_library(k SHARED src/k.cu)\n"}
APP = {"main.cu": KERNEL, "CMakeLists.txt": "project(app LANGUAGES CUDA CXX)\nadd_executable(app main.cu)\n"}
MODULE = {"src/k.cu": KERNEL, "CMakeLists.txt": "project(k LANGUAGES CUDA)\npybind11_add_module(_core\n  src/k.cu)\n"}
SETUP = (
    "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
    "setup(ext_modules=[CUDAExtension('pkg._C', ['pkg/k.cu'])])\n"
)
PACKAGE = {"pkg/k.cu": KERNEL, "setup.py": SETUP}
OPERATORS = {"k.cu": KERNEL + "TORCH_LIBRARY(mylib, m) {}\n"}
USES = "import torch\nfrom pkg import run\nprint(run(torch.zeros(3)))\n"

READY: list[tuple[str, Files]] = [
    ("the C library", MAKE | {"train.py": "import ctypes\nimport torch\nctypes.CDLL('libc.so.6')\n"}),
    ("a library of C", {"k.c": "int f(void) { return 1; }\n", "train.py": "import ctypes\nimport torch\n"
                        "ctypes.CDLL('./libk.so')\n"}),
    ("operators of C++", {"ops.cpp": "TORCH_LIBRARY(mylib, m) {}\n", "k.cu": KERNEL,
                          "train.py": "import torch\ntorch.ops.mylib.run(torch.zeros(1))\n"}),
    ("a module of Python by the name", MODULE | {"_core.py": "x = 1\n", "train.py": "import torch\nimport _core\n"}),
    ("another program", APP | {"train.py": "import subprocess\nimport torch\nsubprocess.run(['ls', 'app'])\n"}),
    ("a text", APP | {"train.py": "import subprocess\nimport torch\nprint('app')\nsubprocess.run(['ls'])\n"}),
    ("a package that the build script requires", PACKAGE | {
        "setup.py": SETUP.replace("setup(", "setup(install_requires=['lab'], "), "train.py": "import torch\n"
                                                                                            "import lab\n"}),
    ("a function nobody calls", MAKE | {"train.py": "import ctypes\nimport torch\ndef f():\n"
                                        "    ctypes.CDLL('./libk.so')\nprint(torch.zeros(1))\n"}),
]  # fmt: skip

BLOCKED: list[tuple[str, Files]] = [
    ("ctypes", MAKE | {"train.py": "import ctypes\nimport torch\nctypes.CDLL('./libk.so')\n"}),
    ("ctypes, a folder", CMAKE | {"train.py": "import ctypes\nimport os\nimport torch\n"
                                  "ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'build', 'libk.so'))\n"}),
    ("cffi", MAKE | {"train.py": "import cffi\nimport torch\ncffi.FFI().dlopen('libk.so')\n"}),
    ("torch.ops", OPERATORS | {"train.py": "import torch\nprint(torch.ops.mylib.run(torch.zeros(1)))\n"}),
    ("a module of CMake", MODULE | {"train.py": "import torch\nimport _core\n_core.run()\n"}),
    ("a program of CMake", APP | {"train.py": "import subprocess\nimport torch\nsubprocess.run(['./app', 'x'])\n"}),
    ("a program of make", {"m.cu": KERNEL, "Makefile": "app: m.cu\n\tnvcc m.cu -o app\n",
                           "train.py": "import os\nimport torch\nos.system('build/app x')\n"}),
    ("__getattr__ of the package", PACKAGE | {"train.py": USES, "pkg/__init__.py": "def __getattr__(name):\n"
                                              "    import importlib\n"
                                              "    return getattr(importlib.import_module('pkg._C'), name)\n"}),
    ("the package", PACKAGE | {"train.py": USES, "pkg/__init__.py": "from . import _C\ndef run(x):\n"
                               "    return _C.run(x)\n"}),
]  # fmt: skip

EXTENSIONS = {
    "a class in a variable": "E = CUDAExtension\nsetup(ext_modules=[E('pkg._C', ['pkg/k.cu'])])\n",
    "a name that is put together": "name = 'pkg'\nsetup(ext_modules=[CUDAExtension(f'{name}._C', ['pkg/k.cu'])])\n",
    "a function that makes it": "def make(name, package):\n"
                                "    return CUDAExtension('%s.%s' % (package, name), ['k.cu'])\n"
                                "setup(ext_modules=[make('_C', 'pkg')])\n",
    "a loop": "setup(ext_modules=[CUDAExtension('pkg.' + each, ['pkg/k.cu']) for each in ['_C']])\n",
    "arguments in a table": "table = dict(name='pkg._C', sources=['k.cu'])\n"
                            "setup(ext_modules=[CUDAExtension(**table)])\n",
}  # fmt: skip
IMPORTS = "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
BLOCKED += [
    (f"an extension: {name}", {**PACKAGE, "setup.py": IMPORTS + text, "train.py": USES,
                               "pkg/__init__.py": "from . import _C\ndef run(x):\n    return _C.run(x)\n"})
    for name, text in EXTENSIONS.items()
]  # fmt: skip

OPEN: list[tuple[str, Files]] = [
    ("a library that is searched", MAKE | {"train.py": "import ctypes\nimport glob\nimport torch\n"
                                           "ctypes.CDLL(glob.glob('build/*.so')[0])\n"}),
    ("a library that is named when it runs", MAKE | {"train.py": "import sys\nimport torch\n"
                                                     "torch.ops.load_library(sys.argv[1])\n"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        pytest.param(files, verdict, id=f"{verdict.value}: {name}")
        for verdict, rows in ((Verdict.READY, READY), (Verdict.BLOCKED, BLOCKED), (Verdict.MAY_NEED, OPEN))
        for name, files in rows
    ],
)
def test_a_program_comes_to_what_the_project_compiles(files: Files, verdict: Verdict, tmp_path: Path) -> None:
    assert judged(tmp_path, files)["train.py"].verdict is verdict


def test_a_source_that_is_too_large_to_be_searched_explains_nothing(tmp_path: Path) -> None:
    files = {"k.cpp": "int f();\n" * 200_000, "train.py": "import ctypes\nimport torch\nctypes.CDLL('./libk.so')\n"}
    assert judged(tmp_path, files)["train.py"].verdict is Verdict.DECISIONS


def test_what_a_search_may_find_is_named_with_the_search(tmp_path: Path) -> None:
    found = judged(tmp_path, OPEN[0][1])["train.py"]
    assert [obstacle.what for obstacle in found.undecided] == ["k"]
    assert found.undecided[0].way.conditions == ("ctypes.CDLL(glob.glob('build/*.so')[0]) (train.py:4)",)


NET = "import torch\nimport lab\n"


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        (NET + "lab.read('x')\nlab.plot(torch.zeros(1))\n", False),
        (NET + "model = torch.nn.Linear(1, 1)\nmodel.eval()\nlab.model_dir('x')\n", False),
        (NET + "from lab import draw\ndraw(1)\nprint(lab.VERSION)\n", False),
        (NET + "net = lab.Unit(3)\nnet.to('cpu')\n", True),
        (NET + "class Net(lab.Base):\n    pass\n", True),
        (NET + "lab.create_model('x')\n", True),
        (NET + "from lab.nets import build as b\nb(3).eval()\n", True),
        (NET + "class A:\n    def __init__(self):\n        self.net = lab.thing()\n    def f(self):\n"
         "        self.net.load_state_dict({})\n", True),
        ("import torch\ndef f():\n    from lab import Trainer\n    Trainer().fit()\nf()\n", True),
    ],
)  # fmt: skip
def test_a_package_carries_the_program_that_computes_with_it(text: str, carries: bool, tmp_path: Path) -> None:
    found = judged(tmp_path, {"train.py": text})["train.py"]
    assert [item.package for item in found.unverified] == ["lab"]
    assert found.carriers == (("lab",) if carries else ())
