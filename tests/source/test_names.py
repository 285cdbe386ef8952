"""What a name means, by every form of import, alias, scope and shadow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText


def resolved(text: str, package: str = "torch") -> list[str]:
    """Return the canonical names of the uses (imports left out), in order of place."""
    names = Names(PythonFile("a.py", SourceText(text)))
    found = [reference for reference in names.references(package) if not isinstance(reference.node, ast.alias)]
    return [r.name for r in sorted(found, key=lambda r: (r.node.lineno, r.node.col_offset))]


TABLE = [
    ("import torch\ntorch.cuda.init()", ["torch.cuda.init"]),
    ("import torch as th\nth.cuda.init()", ["torch.cuda.init"]),
    ("import torch.cuda\ntorch.cuda.init()", ["torch.cuda.init"]),
    ("import torch.cuda as c\nc.init()", ["torch.cuda.init"]),
    ("from torch import cuda\ncuda.init()", ["torch.cuda.init"]),
    ("from torch import cuda as c\nc.amp.autocast()", ["torch.cuda.amp.autocast"]),
    ("from torch.cuda.amp import autocast as a\na()", ["torch.cuda.amp.autocast"]),
    ("def f():\n    import torch\n    torch.cuda.init()\ntorch.x", ["torch.cuda.init"]),
    ("import torch\ndef f(torch):\n    torch.cuda.init()", []),
    ("import torch\ncuda = 1\ncuda.init()", []),
    ("from torch import cuda\ndef f():\n    cuda = 1\n    cuda.init()\ncuda.init()", ["torch.cuda.init"]),
    ("import torch\nclass A:\n    torch = 1\n    def f(self):\n        torch.cuda.init()", ["torch.cuda.init"]),
    ("import torch\n[torch.cuda for torch in y]\ntorch.cuda", ["torch.cuda"]),
    ("import torch\nlambda torch: torch.cuda", []),
    ("import torch\ndef f(x=torch.cuda.Stream):\n    pass", ["torch.cuda.Stream"]),
    ("import torch\n@torch.cuda.amp.custom_fwd\ndef torch_(): pass", ["torch.cuda.amp.custom_fwd"]),
    ("import torch\nf'{torch.cuda.init()}'", ["torch.cuda.init"]),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cuda", ["torch.cuda"]),
    ("import sys\nsys.modules['torch'].cuda.init()", ["torch.cuda.init"]),
    ("import sys\nt = sys.modules.get('torch')\nt.cuda.init()", ["torch", "torch.cuda.init"]),
    ("from sys import modules as m\nt = m['torch']\nt.cuda.init()", ["torch", "torch.cuda.init"]),
    ("import sys\nsys.modules['numpy'].cuda, sys.path['torch'].cuda, {'torch': 1}.get('torch').cuda", []),
    ("import mylib\nmylib.torch.cuda", []),
    ("from mylib import torch\ntorch.cuda", []),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_uses(text: str, expected: list[str]) -> None:
    assert resolved(text) == expected


REEXPORTS = [
    ({"d.py": "from torch import cuda\n", "a.py": "from d import cuda\ncuda.init()\n"}, ["torch.cuda.init"]),
    ({"p/__init__.py": "from .d import *\n", "p/d.py": "from torch.cuda import amp\n",
      "a.py": "from p import amp\namp.autocast()\n"}, ["torch.cuda.amp.autocast"]),
    ({"d.py": "import torch\nSync = torch.cuda.synchronize\n", "a.py": "from d import Sync\nSync()\n"},
     ["torch.cuda.synchronize"]),
    ({"d.py": "from a import cuda\n", "a.py": "from d import cuda\ncuda.init()\n"}, []),
    ({"d.py": "cuda = 3\n", "a.py": "from d import cuda\ncuda.init()\n"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), REEXPORTS)
def test_names_that_modules_of_the_project_pass_on(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    project = Project(tmp_path, files)
    loaded = project.file("a.py")
    assert loaded is not None
    found = [r.name for r in loaded[1].references("torch") if not isinstance(r.node, ast.alias)]
    assert found == expected


@given(st.text(alphabet="torchcuda.=\n ()[]:;,'#importfrm", max_size=60))
def test_any_source_that_parses_is_resolved(text: str) -> None:
    source = f"import torch\n{text}\n"
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return
    resolved(source)


REACHING = [
    ("t = 1\nuse(t)\nt = 2", [1]),
    ("t = 1\nt = 2\nuse(t)", [2]),
    ("t = 1\nt = 2; use(t)", [2]),
    ("t = 1\nt = f(t)", [1]),
    ("t = 1\nif c:\n    t = 3\nuse(t)", [1, 3]),
    ("if c:\n    t = 2\nelse:\n    use(t)\n    t = 5", [2]),
    ("def f(t):\n    use(t)\n    if c:\n        t = 4", [1]),
    ("def f(t):\n    while c:\n        use(t)\n        t = 4", [1, 4]),
    ("def f(t):\n    for i in x:\n        t = 3\n    use(t)", [1, 3]),
    ("use(t)\nt = 2", [2]),
    ("t = 1\nfor i in x:\n    use(t)\n    t = 4", [1, 4]),
    ("for i in x:\n    t = 2\n    use(t)\n    t = 4", [2]),
    ("t = 1\nwhile use(t):\n    t = 3", [1, 3]),
    ("try:\n    t = 2\nexcept E:\n    t = 4\nuse(t)", [2, 4]),
    ("t = 1\ntry:\n    t = 3\nfinally:\n    use(t)", [1, 3]),
    ("t = 1\nuse((t := 2), t)", [1, 2]),
    ("t = 1\ndef f():\n    return use(t)\nt = 4", [1, 4]),
    ("t = 1\ndef f():\n    global t\n    t = 4\nuse(t)\nt = 6", [1, 4, 6]),
    ("t = 1\nfor i in x:\n    def f(a=t):\n        pass\n    t = 5", [1, 5]),
    ("t: int\nt = 2\nwith a as t:\n    use(t)\ndel t", [2, 3]),
]


@pytest.mark.parametrize(("text", "lines"), REACHING)
def test_reaching_bindings(text: str, lines: list[int]) -> None:
    names = Names(PythonFile("a.py", SourceText(text)))
    use = [node for node in names.file.names["t"] if isinstance(node.ctx, ast.Load)][-1]
    assert sorted(getattr(binding, "lineno") for binding in names.reaching_bindings(use)) == lines  # noqa: B009
