"""Functions that are called because a decorator was given them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
from tests.programs.test_judging import needs

F = "def f(x=1):\n    import fast_ops\n"
DISPATCH = "from functools import singledispatch\n@singledispatch\ndef show(x):\n    pass\n"
OPERATOR = "@torch.library.custom_op('lab::f', mutates_args=())\n"
FIELD = "import attrs\n@attrs.define\nclass A:\n    n = attrs.field()\n    @n.{}\n    def f(self):\n        {}\n"
BLOCKS = "import gradio as gr\nwith gr.Blocks() as demo:\n    b = gr.Button()\n"
INNER = F.replace("\n", "\n    ").rstrip() + "\n"


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (f"import atexit\n@atexit.register\n{F}", "ALWAYS"),
        (f"from atexit import register as at_end\n@at_end\n{F}", "ALWAYS"),
        (f"import atexit\ndef start():\n    @atexit.register\n    {INNER}start()\n", "ALWAYS"),
        (f"import atexit\ndef start():\n    @atexit.register\n    {INNER}", "NEVER"),
        (f"import functools\n@functools.cache\n{F}", "NEVER"),
        (f"def now(g):\n    g()\n    return g\n@now\n{F}", "ALWAYS"),
        (f"def now(g):\n    return g\n@now\n{F}", "NEVER"),
        (f"def now(g):\n    def later():\n        return g()\n    return later\n@now\n{F}", "NEVER"),
        (f"def now(g):\n    return lambda: g()\n@now\n{F}", "NEVER"),
        (f"import sys\ndef now(g):\n    if len(sys.argv) > 1:\n        g()\n    return g\n@now\n{F}", "CHOSEN"),
        (f"def times(n):\n    def now(g):\n        for _ in range(n):\n            g()\n        return g\n"
         f"    return now\n@times(2)\n{F}", "ALWAYS"),
        (f"def times(n):\n    def now(g):\n        def later():\n            g()\n        return later\n"
         f"    return now\n@times(2)\n{F}", "NEVER"),
        (f"@lambda g: g()\n{F}", "ALWAYS"),
        (f"@lambda g: g\n{F}", "NEVER"),
        (f"{DISPATCH}@show.register(torch.Tensor)\n{F}show(torch.ones(1))\n", "ALWAYS"),
        (f"{DISPATCH}@show.register\n{F.replace('x=1', 'x: torch.Tensor')}show(torch.ones(1))\n", "ALWAYS"),
        (f"{DISPATCH}@show.register(list)\n{F}show(torch.ones(1))\n", "CHOSEN"),
        (f"{DISPATCH}@show.register(torch.Tensor)\n{F}", "NEVER"),
        ("from functools import singledispatchmethod\nclass A:\n    @singledispatchmethod\n    def show(self, x):\n"
         "        pass\n    @show.register\n    def _(self, x: torch.Tensor):\n        import fast_ops\nA().show(1)\n",
         "ALWAYS"),
        (f"{OPERATOR}{F}torch.ops.lab.f(torch.ones(1))\n", "ALWAYS"),
        (f"{OPERATOR}{F}torch.ops.lab.f.default(torch.ones(1))\n", "ALWAYS"),
        (f"{OPERATOR}{F}torch.ops.other.f(torch.ones(1))\n", "NEVER"),
        (f"{OPERATOR}{F}", "NEVER"),
        (f"lib = torch.library.Library('lab', 'DEF')\n@torch.library.impl(lib, 'f', 'CPU')\n{F}torch.ops.lab.f(1)\n",
         "ALWAYS"),
        (f"lib = torch.library.Library('lab', 'DEF')\n@torch.library.impl(lib, 'f', 'CUDA')\n{F}torch.ops.lab.f(1)\n",
         "NEVER"),
        (f"{OPERATOR}def f(x):\n    return x\n@f.register_kernel('cpu')\n{F.replace('f(', '_(')}f(1)\n", "ALWAYS"),
        (f"{OPERATOR}def f(x):\n    return x\n@f.register_kernel('cpu')\n{F.replace('f(', '_(')}torch.ops.lab.f(1)\n",
         "ALWAYS"),
        (f"{OPERATOR}def f(x):\n    return x\n@f.register_kernel('cuda')\n{F.replace('f(', '_(')}f(1)\n", "NEVER"),
        (f"{FIELD.format('default', 'import fast_ops')}A()\n", "ALWAYS"),
        (f"{FIELD.format('validator', 'import fast_ops')}A()\n", "ALWAYS"),
        (f"{FIELD.format('validator', 'import fast_ops')}", "NEVER"),
        (f"{BLOCKS}    @b.click\n    {INNER}demo.launch()\n", "CHOSEN"),
        (f"{BLOCKS}    @b.click(inputs=b)\n    {INNER}demo.launch()\n", "CHOSEN"),
        (f"from lab import on_start, run\n@on_start\n{F}run()\n", "CHOSEN"),
        (f"from lab import fast, run\n@fast\n{F}run()\n", "NEVER"),
        (f"@torch.no_grad()\n{F}", "NEVER"),
    ],
)  # fmt: skip
def test_a_function_is_called_because_of_a_decorator(text: str, need: str, tmp_path: Path) -> None:
    files = {**BUILT, "train.py": f"import torch\n{text}print(torch.ones(1))\n"}
    assert needs(judged(tmp_path, files)["train.py"]) == need


CASE = "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        import fast_ops\n"


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (f"{CASE}if __name__ == '__main__':\n    unittest.main()\n", "ALWAYS"),
        (f"{CASE.replace('test_f', 'setUp')}unittest.main()\n", "ALWAYS"),
        (CASE, "NEVER"),
        (f"{CASE.replace('(unittest.TestCase)', '')}unittest.main()\n", "NEVER"),
        (f"import pytest\n{F.replace('f(', 'test_f(')}pytest.main([__file__])\n", "ALWAYS"),
        (f"import pytest\n{F}pytest.main([__file__])\n", "NEVER"),
    ],
)
def test_a_test_is_called_by_the_runner_that_its_file_starts(text: str, need: str, tmp_path: Path) -> None:
    files = {**BUILT, "train.py": f"import torch\n{text}print(torch.ones(1))\n"}
    assert needs(judged(tmp_path, files)["train.py"]) == need
