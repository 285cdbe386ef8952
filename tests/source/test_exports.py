"""What modules pass on to each other, beside what Python's own import does with the same files."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.exports import module_exports, words_passed_on
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText


def names_of(root: Path, files: dict[str, str], path: str) -> Names:
    for each, text in files.items():
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(text, encoding="utf-8")
    project = Project(root, files)
    return Names(PythonFile(path, SourceText(files[path])), project)


HELPERS = "import os, torch\nimport torch.nn as nn\nfrom torch.cuda import amp\ncuda = torch.cuda\n_torch = torch\n"


@pytest.mark.parametrize(
    ("main", "said", "name"),
    [
        ("from helpers import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("from helpers import *\nnn.Linear", "nn.Linear", "torch.nn.Linear"),
        ("from helpers import *\namp.autocast", "amp.autocast", "torch.cuda.amp.autocast"),
        ("from helpers import *\ncuda.x", "cuda.x", "torch.cuda.x"),
        ("from helpers import torch as th\nth.cuda.x", "th.cuda.x", "torch.cuda.x"),
        ("import helpers\nhelpers.torch.cuda.x", "helpers.torch.cuda.x", "torch.cuda.x"),
        ("import helpers as h\nh.cuda.x", "h.cuda.x", "torch.cuda.x"),
        ("import helpers\nc = helpers.torch.cuda\nc.x", "c.x", "torch.cuda.x"),
        ("from pkg import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("import pkg\npkg.torch.cuda.x", "pkg.torch.cuda.x", "torch.cuda.x"),
        ("import pkg.deep\npkg.deep.th.cuda.x", "pkg.deep.th.cuda.x", "torch.cuda.x"),
        ("from pkg import deep\ndeep.th.cuda.x", "deep.th.cuda.x", "torch.cuda.x"),
        ("from pkg.listed import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("from ring_a import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("from guarded import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("def f():\n    from helpers import torch\n    torch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        ("from torch.cuda import *\nset_device", "set_device", "torch.cuda.set_device"),
        ("from fastai.vision.all import *\ntorch.cuda.x", "torch.cuda.x", "torch.cuda.x"),
        # what is no name of torch
        ("from helpers import *\nos.x", "os.x", None),
        ("from helpers import *\n_torch.cuda.x", "_torch.cuda.x", None),
        ("from pkg.listed import *\nnn.x", "nn.x", None),
        ("from helpers import *\ntorch = 1\ntorch.x", "torch.x", None),
        ("from helpers import *\ndef f(torch):\n    torch.cuda.x", "torch.cuda.x", None),
        ("from removed import *\ntorch.cuda.x", "torch.cuda.x", None),
        ("from lazy import *\ntorch.cuda.x", "torch.cuda.x", None),
        ("import helpers\nhelpers.other.cuda.x", "helpers.other.cuda.x", None),
        ("from torch import *\nno_such_name", "no_such_name", None),
    ],
)  # fmt: skip
def test_a_name_is_what_the_module_makes_of_it(tmp_path: Path, main: str, said: str, name: str | None) -> None:
    files = {
        "helpers.py": HELPERS,
        "pkg/__init__.py": "from .deep import *\nfrom ..helpers import torch\n".replace("..helpers", "helpers"),
        "pkg/deep.py": "import torch as th\n",
        "pkg/listed.py": "import torch, torch.nn as nn\n__all__ = ['torch']\n",
        "ring_a.py": "from ring_b import *\n",
        "ring_b.py": "from ring_a import *\nfrom helpers import *\n",
        "guarded.py": "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
        "removed.py": "import torch\nversion = torch.version\ndel torch\n",
        "lazy.py": "def load():\n    import torch\n",
        "main.py": main,
    }
    names = names_of(tmp_path, files, "main.py")
    found = {ast.unparse(each.node): each.name for each in names.references("torch") if not each.is_import}
    assert found.get(said) == name


@pytest.mark.parametrize(
    ("main", "unread"),
    [
        ("from unknown import *\ntorch.cuda.x", ("unknown",)),
        ("from open_ended import *\ntorch.cuda.x", (".open_ended",)),
        ("from passing import *\ntorch.cuda.x", ("unknown.part",)),
        ("from broken import *\ntorch.cuda.x", (".broken",)),
        ("from unknown import *\nimport torch\ntorch.cuda.x", ()),
        ("from helpers import *\nfrom unknown import *\ntorch.cuda.x", ()),
        ("torch.cuda.x", ()),
        ("from unknown import *\nprint.cuda", ()),
    ],
)
def test_a_star_import_that_nobody_can_read_is_said(tmp_path: Path, main: str, unread: tuple[str, ...]) -> None:
    files = {
        "helpers.py": HELPERS,
        "open_ended.py": "__all__ = list(globals())\n",
        "passing.py": "from unknown.part import *\n",
        "broken.py": "import torch\nprint 1\n",
        "main.py": main,
    }
    names = names_of(tmp_path, files, "main.py")
    use = next(each for each in names.file.names.get("torch", names.file.names.get("print", [])))
    assert names.unread_stars(use) == unread


@pytest.mark.parametrize(
    ("text", "declared", "is_open"),
    [
        ("x = 1\n", None, False),
        ("__all__ = ['a', \"b\"]\n", ("a", "b"), False),
        ("__all__ = ('a',)\n__all__ += ['b']\n__all__.append('c')\n__all__.extend('de')\n", ("a", "b", "c"), True),
        ("__all__ = []\n__all__.extend(('d',))\n", ("d",), False),
        ("__all__: list[str] = ['a'] + ['b']\n", ("b", "a"), False),
        ("__all__ = ['a', *['b']]\n", ("a", "b"), False),
        ("__all__ = ['a'] + other.__all__\n", ("a",), True),
        ("__all__ = [name for name in dir()]\n", (), True),
        ("__all__.remove('a')\n", (), True),
        ("globals()['a'] = 1\n", None, True),
        ("globals().update(a=1)\n", None, True),
        ("vars(args).update(a=1)\nvars(args)['a'] = 1\n", None, False),
        ("def __getattr__(name): ...\n", None, True),
        ("class A:\n    __all__ = ['a']\n", None, False),
    ],
)  # fmt: skip
def test_the_list_of_a_module(text: str, declared: tuple[str, ...] | None, is_open: bool) -> None:
    exports = module_exports(ast.parse(text), "m.py")
    assert (exports.declared, exports.is_open) == (declared, is_open)


MODULES = ("a", "b", "c", "main")
PASSING = st.one_of(
    st.sampled_from(
        ["import torch", "import torch as t", "import torch.cuda", "import torch.cuda as t", "from torch import cuda",
         "from torch import cuda as t", "t = torch", "torch = 1", "cuda = torch.cuda", "x, t = 1, cuda", "del torch",
         "__all__ = ['torch', 't']", "__all__ += ['cuda']", "try:\n    import torch\nexcept ImportError:\n    t = 1",
         "def torch(): pass", "if 1:\n    import torch as cuda"]
    ),
    st.builds("from {} import *".format, st.sampled_from(MODULES[:-1])),
    st.builds("import {}".format, st.sampled_from(MODULES[:-1])),
    st.builds("from {} import {}".format, st.sampled_from(MODULES[:-1]), st.sampled_from(["torch", "t", "cuda"])),
    st.builds("{} = {}.{}".format, *(st.sampled_from(row) for row in (["t", "torch"], MODULES[:-1], ["torch", "t"]))),
)  # fmt: skip


def imported(files: dict[str, str]) -> dict[str, Any] | None:
    """Return the names of `main` as Python binds them; None where a module raises."""
    torch, cuda = ModuleType("torch"), ModuleType("torch.cuda")
    torch.cuda = cuda  # type: ignore[attr-defined]
    modules: dict[str, ModuleType] = {"torch": torch, "torch.cuda": cuda}

    def load(name: str, _globals: Any = None, _locals: Any = None, fromlist: Any = (), _level: int = 0) -> ModuleType:
        if name not in modules:
            module = modules[name] = ModuleType(name)
            module.__dict__["__builtins__"] = {"__import__": load, "ImportError": ImportError}
            exec(compile(files[f"{name}.py"], name, "exec"), module.__dict__)
        return modules[name] if fromlist else modules[name.partition(".")[0]]

    try:
        return load("main", fromlist=("*",)).__dict__
    except (ImportError, AttributeError, NameError):
        return None


@given(st.tuples(*(st.lists(PASSING, max_size=5).map("\n".join) for _ in MODULES)))
def test_what_python_binds_to_torch_is_found(tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, ...]) -> None:
    files = dict(zip((f"{module}.py" for module in MODULES), texts, strict=True))
    bound = imported(files)
    if bound is None:
        return
    files["main.py"] += "\nprint(torch, t, cuda)\n"
    names = names_of(tmp_path_factory.mktemp("project"), files, "main.py")
    for name in ("torch", "t", "cuda"):
        value = bound.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("torch"):
            use = names.file.names[name][-1]
            assert value.__name__ in {names.binding_origin(binding) for binding in names.bindings(use)}, name


@given(st.lists(PASSING, max_size=5).map("\n".join))
def test_the_words_of_a_text_hold_every_name_that_it_passes_on(text: str) -> None:
    exports = module_exports(ast.parse(text), "m.py")
    passed_on = {name for name, origins in exports.origins.items() if origins}
    assert passed_on <= words_passed_on(text)
    assert not exports.stars or "*" in words_passed_on(text)


@pytest.mark.parametrize(
    ("files", "origin"),
    [
        ({"a.py": "from b import *\n__all__ = ['x']\n", "b.py": "import torch\nx = 1\n",
          "c.py": "from a import *\nfrom b import *\n"}, "torch"),
        ({"a.py": "from b import *\n", "b.py": "from a import *\nfrom c import *\nimport torch\n",
          "c.py": "from b import *\nfrom a import *\n"}, "torch"),
    ],
)  # fmt: skip
def test_a_module_counts_by_each_way_that_leads_to_it(tmp_path: Path, files: dict[str, str], origin: str) -> None:
    names = names_of(tmp_path, {**files, "main.py": "from c import *\ntorch\n"}, "main.py")
    assert names.qualified(names.file.names["torch"][0]) == origin


def test_a_chain_of_star_imports_ends_and_is_told(tmp_path: Path) -> None:
    files = {f"m{number}.py": f"from m{number + 1} import *\n" for number in range(300)}
    files |= {
        "m300.py": "import torch\n",
        "main.py": "from m0 import *\ntorch.cuda.x\n",
        "near.py": "from m299 import *\n",
    }
    names = names_of(tmp_path, files, "main.py")
    use = names.file.names["torch"][0]
    assert names.qualified(use) is None
    assert len(names.unread_stars(use)) == 1


def test_modules_that_all_import_each_other_are_each_asked_once(tmp_path: Path) -> None:
    modules = [f"m{number}" for number in range(40)]
    everything = "".join(f"from {module} import *\n" for module in modules)
    files = {f"{module}.py": everything for module in modules} | {"main.py": "from m0 import *\ntorch\n"}
    files["m39.py"] += "import torch\n"
    names = names_of(tmp_path, files, "main.py")
    assert names.qualified(names.file.names["torch"][0]) == "torch"
