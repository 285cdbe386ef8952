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

CMAKE_SETUP = (
    "from setuptools import setup, Extension\nclass CMakeExtension(Extension):\n    pass\n"
    "setup(name='p', ext_modules=[CMakeExtension('fast_ops')])\n"
)
IMPORTS_FAST = "import torch\nimport fast_ops\nfast_ops.run()\n"


def cmake(text: str) -> Files:
    """Return a project whose program loads `libk.so`, which CMake builds of its sources."""
    program = "import ctypes\nimport torch\nctypes.CDLL('./libk.so')\n"
    return {"CMakeLists.txt": text, "src/a.cpp": "int x;\n", "src/k2.cu": KERNEL, "train.py": program}


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
    ("sources in a variable, none of CUDA", cmake(
        "project(k LANGUAGES CXX CUDA)\nset(SRC src/a.cpp)\nadd_library(k SHARED ${SRC})\n"
        "add_library(g SHARED src/k2.cu)\n")),
    ("sources that are searched, none of CUDA", cmake(
        "project(k LANGUAGES CXX CUDA)\nfile(GLOB SRC src/*.cpp)\nadd_library(k SHARED ${SRC})\n")),
    ("a part that is left out by default", cmake(
        "option(USE_CUDA \"x\" OFF)\nset(SRC src/a.cpp)\nif(USE_CUDA)\n  enable_language(CUDA)\n"
        "  list(APPEND SRC src/k2.cu)\nendif()\nadd_library(k SHARED ${SRC})\n")),
    ("sources that are left out by default", cmake(
        "option(USE_CUDA \"x\" OFF)\nadd_library(k SHARED src/a.cpp)\nif(USE_CUDA)\n"
        "  target_sources(k PRIVATE src/k2.cu)\nendif()\n")),
    ("a module of CMake for the CPU", {"setup.py": CMAKE_SETUP, "train.py": IMPORTS_FAST, "a.cpp": "int x;\n",
                                       "CMakeLists.txt": "project(k)\npybind11_add_module(fast_ops a.cpp)\n"}),
    ("a function nobody calls", MAKE | {"train.py": "import ctypes\nimport torch\ndef f():\n"
                                        "    ctypes.CDLL('./libk.so')\nprint(torch.zeros(1))\n"}),
]  # fmt: skip

OPTION = (
    'option(USE_CUDA "x" {})\nset(SRC src/a.cpp)\nif(USE_CUDA)\n  list(APPEND SRC src/k2.cu)\nendif()\n'
    "add_library(k SHARED ${{SRC}})\n"
)
BLOCKED: list[tuple[str, Files]] = [
    ("sources that are searched", cmake("project(k)\nfile(GLOB SRC src/*)\nadd_library(k SHARED ${SRC})\n")),
    ("sources in a variable", cmake(
        "project(k LANGUAGES CUDA)\nset(SRC src/k2.cu)\nadd_library(k SHARED ${SRC})\n")),
    ("a name in a variable", cmake("project(k LANGUAGES CUDA)\nadd_library(${PROJECT_NAME} SHARED src/k2.cu)\n")),
    ("another name of the library", cmake("add_library(f SHARED src/k2.cu)\n"
                                          "set_target_properties(f PROPERTIES OUTPUT_NAME k)\n")),
    ("sources that are added", cmake("add_library(k SHARED)\ntarget_sources(k PRIVATE src/k2.cu)\n")),
    ("a library of CUDA", cmake("set(NEED CUDA)\nfind_package(${NEED} REQUIRED)\nadd_library(k SHARED src/a.cpp)\n"
                                "target_link_libraries(k ${CUDA_LIBRARIES})\n")),
    ("a target that is linked", cmake("add_library(g STATIC src/k2.cu)\nadd_library(k SHARED src/a.cpp)\n"
                                      "target_link_libraries(k PRIVATE g)\n")),
    ("a part that is built by default", cmake(OPTION.format("ON"))),
    ("a part that a document has built", {**cmake(OPTION.format("OFF")),
                                          "README.md": "```\ncmake -DUSE_CUDA=ON ..\n```\n"}),
    ("an extension of CMake", {
        "setup.py": CMAKE_SETUP, "train.py": IMPORTS_FAST, "a.cpp": "int x;\n",
        "CMakeLists.txt": "find_package(CUDAToolkit REQUIRED)\npybind11_add_module(${NAME} a.cpp)\n"
        "target_link_libraries(${NAME} PRIVATE CUDA::cudart)\n"}),
    ("a library that is imported", {
        "train.py": IMPORTS_FAST, "k2.cu": KERNEL,
        "CMakeLists.txt": "project(f LANGUAGES CUDA)\nadd_library(fast_ops SHARED k2.cu)\n"}),
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
    ("a file as a module", PACKAGE | {"train.py": USES, "pkg/__init__.py": "import importlib.util as util\nimport os\n"
                                      "place = os.path.join(os.path.dirname(__file__), '_C.so')\n"
                                      "spec = util.spec_from_file_location('ops', place)\n"
                                      "run = util.module_from_spec(spec).run\n"}),
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
COMPUTED = {
    "a parameter": "def get(name):\n    return importlib.import_module(name)\nget('pkg._C')\n",
    "a text that is put together": "part = '_C'\nimportlib.import_module(f'pkg.{part}')\n",
    "a loop": "for name in ['json', 'pkg._C']:\n    importlib.import_module(name)\n",
    "a function under another name": "load = importlib.import_module\nload('pkg._C')\n",
    "a function that another module gives": "from pkg import load\nload('pkg._C')\n",
}
BLOCKED += [
    (f"by a computed name: {name}", {**PACKAGE, "train.py": f"import importlib\nimport torch\n{text}print(1)\n",
                                     "pkg/__init__.py": "from importlib import import_module as load\n"})
    for name, text in COMPUTED.items()
]  # fmt: skip
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


def test_of_two_modules_of_one_name_the_nearest_script_builds_it(tmp_path: Path) -> None:
    """The other one, which lies in a folder of its own and comes first by name, has nothing to do with the program."""
    other = {f"projects/mask/{path}": text.replace("pkg", "mask") for path, text in PACKAGE.items()}
    program = {"pkg/__init__.py": "from . import _C\ndef run(x):\n    return _C.run(x)\n", "train.py": USES}
    (blocker,) = judged(tmp_path, PACKAGE | other | program)["train.py"].blockers
    assert "compiled from CUDA by setup.py" in blocker.message.render("en")


def test_a_source_that_is_too_large_to_be_searched_explains_nothing(tmp_path: Path) -> None:
    files = {"k.cpp": "int f();\n" * 200_000, "train.py": "import ctypes\nimport torch\nctypes.CDLL('./libk.so')\n"}
    assert judged(tmp_path, files)["train.py"].verdict is Verdict.DECISIONS


def test_what_a_search_may_find_is_named_with_the_search(tmp_path: Path) -> None:
    found = judged(tmp_path, OPEN[0][1])["train.py"]
    assert [obstacle.what for obstacle in found.undecided] == ["k"]
    assert found.undecided[0].call_path.conditions == ("ctypes.CDLL(glob.glob('build/*.so')[0]) (train.py:4)",)


REMOTE = "import torch\nfrom transformers import AutoModel\n{}AutoModel.from_pretrained('a/b', trust_remote_code={})\n"


@pytest.mark.parametrize(
    ("text", "carriers"),
    [
        (REMOTE.format("", "True"), ("a/b",)),
        (REMOTE.format("", "False"), ()),
        (REMOTE.format("trust = True\n", "trust"), ("a/b",)),
        (REMOTE.format("trust = False\n", "trust"), ()),
        (REMOTE.format("trust = torch.load('x')\n", "trust"), ("a/b",)),
    ],
)
def test_code_that_is_loaded_carries_the_program(text: str, carriers: tuple[str, ...], tmp_path: Path) -> None:
    assert judged(tmp_path, {"train.py": text})["train.py"].carriers == carriers


NET = "import torch\nimport lab\n"


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        (NET + "lab.read('x')\nlab.plot(torch.zeros(1))\n", False),
        (NET + "model = torch.nn.Linear(1, 1)\nmodel.eval()\nlab.model_dir('x')\n", False),
        (NET + "from lab import draw\ndraw(1)\nprint(lab.VERSION)\n", False),
        (NET + "net = lab.Unit(3)\nnet.to('cpu')\n", True),
        (NET + "class Net(lab.Base):\n    pass\n", True),
        (NET + "class ModelConfig(lab.Registry):\n    size = 1\n", False),
        (NET + "class Block(lab.Base):\n    def forward(self, x):\n        return x\n", True),
        (NET + "lab.create_model('x')\n", True),
        (NET + "from lab.nets import build as b\nb(3).eval()\n", True),
        (NET + "class A:\n    def __init__(self):\n        self.net = lab.thing()\n    def f(self):\n"
         "        self.net.load_state_dict({})\n", True),
        ("import torch\ndef f():\n    from lab import Trainer\n    Trainer().fit()\nf()\n", True),
        ("from lab.all import *\nlearn = classifier(data)\nlearn.fit_one_cycle(1)\nlearn.predict(x)\n", True),
        ("from lab import *\nclass Net(Module):\n    pass\n", True),
        ("from lab import *\nimport torch\ndraw(torch.zeros(1))\nprint(len([1]))\n", False),
    ],
)  # fmt: skip
def test_a_package_carries_the_program_that_computes_with_it(text: str, carries: bool, tmp_path: Path) -> None:
    found = judged(tmp_path, {"train.py": text})["train.py"]
    assert [item.package for item in found.unverified] == ["lab"]
    assert found.carriers == (("lab",) if carries else ())
