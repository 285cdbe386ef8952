"""What a program comes to, by which way, and the verdict of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.programs.small import BUILT, KERNEL, MAIN, Files, judged, small, target_of
from torchferry.core import forks
from torchferry.programs.imports.module_graph import Edge, Modules
from torchferry.programs.model import JudgedProgram, Program, Verdict
from torchferry.programs.verdicts import judging
from torchferry.programs.verdicts.judging import judge

OPS = "import fast_ops\n"
START = "import torch\n{}\nif __name__ == '__main__':\n    {}\n"


def needs(program: JudgedProgram, what: str = "fast_ops") -> str:
    """Return how surely a program comes to something."""
    found = [obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == what]
    return found[0].reachability.name if found else "NEVER"


def chain(program: JudgedProgram, what: str = "fast_ops") -> str:
    (way,) = [obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == what]
    return " -> ".join(map(str, way.steps))


@pytest.mark.parametrize(
    ("files", "need"),
    [
        ({"train.py": START.format("import fast_ops", "pass")}, "ALWAYS"),
        ({"train.py": START.format("import ops", "pass"), "ops.py": OPS}, "ALWAYS"),
        ({"train.py": START.format("import ops", "pass"), "ops/__init__.py": "from .a import f\n", "ops/a.py": OPS},
         "ALWAYS"),
        ({"train.py": START.format("def f():\n    import fast_ops", "f()")}, "ALWAYS"),
        ({"train.py": START.format("def f():\n    import fast_ops", "pass")}, "NEVER"),
        ({"train.py": START.format("def f():\n    import fast_ops\ndef g():\n    f()", "g()")}, "ALWAYS"),
        ({"train.py": START.format("def f():\n    import fast_ops\ndef g():\n    f()", "pass")}, "NEVER"),
        ({"train.py": START.format("def f():\n    import fast_ops", "h = f\n    h()")}, "ALWAYS"),
        ({"train.py": START.format("from functools import partial\ndef f():\n    import fast_ops", "partial(f)()")},
         "ALWAYS"),
        ({"train.py": START.format("import sys\ndef f():\n    import fast_ops\nTABLE = {'f': f}", "TABLE[sys.argv[1]]()")},  # noqa: E501
         "CHOSEN"),
        ({"train.py": START.format("from ops import f", "f()"), "ops.py": "def f():\n    import fast_ops\n"}, "ALWAYS"),
        ({"train.py": START.format("from ops import f", "pass"), "ops.py": "def f():\n    import fast_ops\n"}, "NEVER"),
        ({"train.py": START.format("import ops", "ops.f()"), "ops.py": "def f():\n    import fast_ops\n"}, "ALWAYS"),
        ({"train.py": START.format("from ops import f as g", "g()"), "ops.py": "def f():\n    import fast_ops\n"},
         "ALWAYS"),
        ({"train.py": START.format("from ops import *", "f()"), "ops.py": "def f():\n    import fast_ops\n"}, "ALWAYS"),
        ({"train.py": START.format("from ops import f", "f()"), "ops/__init__.py": "from .a import f\n",
          "ops/a.py": "def f():\n    import fast_ops\n"}, "ALWAYS"),
        ({"train.py": START.format("from ops import g", "g()"), "ops.py": "def f():\n    import fast_ops\ndef g():\n"
          "    pass\n"}, "NEVER"),
        ({"train.py": START.format("class Net:\n    def __init__(self):\n        import fast_ops", "Net()")}, "ALWAYS"),
        ({"train.py": START.format("class Net:\n    def __init__(self):\n        import fast_ops", "pass")}, "NEVER"),
        ({"train.py": START.format("class Net(torch.nn.Module):\n    def forward(self, x):\n        import fast_ops",
                                   "Net()(1)")}, "ALWAYS"),
        ({"train.py": START.format("class Net(torch.nn.Module):\n    def fast(self, x):\n        import fast_ops\n"
                                   "    def forward(self, x):\n        return self.fast(x)", "Net()(1)")}, "ALWAYS"),
        ({"train.py": START.format("class Data(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
                                   "        import fast_ops", "Data()[0]")}, "ALWAYS"),
        ({"train.py": START.format("class A(object):\n    def sync(self):\n        import fast_ops\n"
          "class B(object):\n    def sync(self):\n        pass\n", "b = B()\n    b.sync()")}, "NEVER"),
        ({"train.py": START.format("class A(object):\n    def sync(self):\n        import fast_ops\n"
          "class B(A):\n    pass\n", "b = B()\n    b.sync()")}, "ALWAYS"),
        ({"train.py": START.format("class Base:\n    def run(self):\n        self.step()\nclass Own(Base):\n"
                                   "    def step(self):\n        import fast_ops", "Own().run()")}, "ALWAYS"),
        ({"train.py": START.format("class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
                                   "        import fast_ops", "Op.apply(1)")}, "ALWAYS"),
        ({"train.py": START.format("def deco(f):\n    return f\n@deco\ndef f():\n    import fast_ops", "f()")}, "ALWAYS"),  # noqa: E501
        ({"train.py": START.format("class Net:\n    @property\n    def ops(self):\n        import fast_ops\n",
                                   "Net().ops")}, "ALWAYS"),
        ({"train.py": START.format("import argparse\nfrom nets import NETS\nparser = argparse.ArgumentParser()\n"
                                   "parser.add_argument('--net', default='plain')\nargs = parser.parse_args()",
                                   "NETS[args.net]()"),
          "nets.py": "NETS = {}\ndef register(f):\n    NETS[f.__name__] = f\n    return f\n@register\ndef plain():\n    pass\n"  # noqa: E501
          "@register\ndef fast():\n    import fast_ops\n"}, "OPTION"),
        ({"train.py": START.format("import argparse\nfrom nets import NETS\nparser = argparse.ArgumentParser()\n"
                                   "parser.add_argument('--net', default='plain', choices=['plain', 'fast'])\n"
                                   "args = parser.parse_args()", "NETS[args.net]()"),
          "nets.py": "NETS = {}\ndef register(f):\n    NETS[f.__name__] = f\n    return f\n@register\ndef plain():\n    pass\n"  # noqa: E501
          "@register\ndef fast():\n    import fast_ops\n"}, "OPTION"),
        ({"train.py": START.format("import argparse\nfrom nets import NETS\nparser = argparse.ArgumentParser()\n"
                                   "parser.add_argument('--net', default='fast', choices=['plain', 'fast'])\n"
                                   "args = parser.parse_args()", "NETS[args.net]()"),
          "nets.py": "NETS = {}\ndef register(f):\n    NETS[f.__name__] = f\n    return f\n@register\ndef plain():\n    pass\n"  # noqa: E501
          "@register\ndef fast():\n    import fast_ops\n"}, "ALWAYS"),
        ({"train.py": START.format("try:\n    import fast_ops\nexcept ImportError:\n    fast_ops = None", "pass")},
         "GUARDED"),
        ({"train.py": START.format("try:\n    import fast_ops\nexcept ImportError:\n    fast_ops = None",
                                   "fast_ops.run()")}, "ALWAYS"),
        ({"train.py": START.format("try:\n    import ops\nexcept ImportError:\n    ops = None", "pass"), "ops.py": OPS},
         "GUARDED"),
        ({"train.py": START.format("try:\n    import ops\nexcept ImportError:\n    ops = None", "ops.run()"),
          "ops.py": OPS}, "ALWAYS"),
        ({"train.py": START.format("try:\n    import cupy\nexcept ImportError:\n    import fast_ops", "pass")}, "ALWAYS"),  # noqa: E501
        ({"train.py": START.format("try:\n    import numpy\nexcept ImportError:\n    import fast_ops", "pass")}, "CHOSEN"),  # noqa: E501
        ({"train.py": START.format("f = lambda: __import__('json')\ndef g():\n    import fast_ops\nk = lambda: g()", "k()")},  # noqa: E501
         "ALWAYS"),
        ({"train.py": START.format("import argparse\ndef a(args):\n    import fast_ops\ndef b(args):\n    pass\n"
                                   "parser = argparse.ArgumentParser()\nsub = parser.add_subparsers()\n"
                                   "p = sub.add_parser('a')\np.set_defaults(func=a)\nq = sub.add_parser('b')\n"
                                   "q.set_defaults(func=b)\nargs = parser.parse_args()", "args.func(args)")}, "CHOSEN"),
        ({"train.py": START.format("from ops import f", "f()"), "ops.py": "import torch\nif torch.cuda.is_available():\n"  # noqa: E501
          "    import fast_ops\ndef f():\n    pass\n"}, "ALWAYS"),
        ({"train.py": START.format("import importlib", "importlib.import_module('ops')"), "ops.py": OPS}, "ALWAYS"),
        ({"train.py": START.format("from pydoc import locate", "locate('ops.net.Net')"), "ops/net.py": OPS}, "ALWAYS"),
        ({"train.py": START.format("import pkgutil", "pkgutil.resolve_name('ops:f')"), "ops.py": OPS}, "ALWAYS"),
        ({"train.py": START.format("from hydra.utils import get_method", "get_method('ops.f')()"), "ops.py": OPS},
         "ALWAYS"),
        ({"train.py": START.format("def locate(name):\n    pass", "locate('ops.f')"), "ops.py": OPS}, "NEVER"),
        ({"train.py": START.format("import importlib, sys", "importlib.import_module('ops.' + sys.argv[1])"),
          "ops/a.py": OPS, "ops/b.py": ""}, "CHOSEN"),
        ({"train.py": START.format("import importlib\nfor n in ('ops.a', 'ops.b'):\n    importlib.import_module(n)", "pass"),  # noqa: E501
          "ops/a.py": OPS, "ops/b.py": ""}, "ALWAYS"),
    ],
)  # fmt: skip
def test_reach(files: Files, need: str, tmp_path: Path) -> None:
    assert needs(judged(tmp_path, {**BUILT, **files})["train.py"]) == need


BASE = "class Base:\n    def step(self):\n        return self.kernel()\n"
FAST = "class Fast:\n    def kernel(self):\n        import fast_ops\n"
SLOW = "class Slow:\n    def kernel(self):\n        return 1\n"
OWN_KERNEL = "    def kernel(self):\n        return 1\n"
NETS = f"{BASE}{FAST}{SLOW}class NetFast(Fast, Base):\n    pass\nclass NetSlow(Slow, Base):\n    pass\n"
CALLED = "class Job:\n    def run(self):\n        import fast_ops\n"


@pytest.mark.parametrize(
    ("files", "need"),
    [
        (f"{BASE}{FAST}class Net(Fast, Base):\n    pass\nNet().step()\n", "ALWAYS"),
        (f"{BASE}{FAST}class Net(Base, Fast):\n    pass\nNet().step()\n", "ALWAYS"),
        (f"{BASE}{FAST}class Net(Base):\n    pass\nclass Other(Net, Fast):\n    pass\nOther().step()\n", "ALWAYS"),
        (f"{BASE}{OWN_KERNEL}{FAST}class Net(Fast, Base):\n    pass\nNet().step()\n", "ALWAYS"),
        (f"{BASE}{OWN_KERNEL}{FAST}class Net(Base, Fast):\n    pass\nNet().step()\n", "NEVER"),
        (f"{BASE}{FAST}{SLOW}class Net(Fast, Slow, Base):\n    pass\nNet().step()\n", "ALWAYS"),
        (f"{BASE}{FAST}{SLOW}class Net(Slow, Fast, Base):\n    pass\nNet().step()\n", "NEVER"),
        (f"{BASE}{FAST}class Net(Fast, Base):\n{OWN_KERNEL}Net().step()\n", "NEVER"),
        (f"{BASE}{FAST}class Net(Base):\n{OWN_KERNEL}Net().step()\n", "NEVER"),
        (f"{BASE}{FAST}class Net(Fast, Base):\n    pass\n", "NEVER"),
        (f"{NETS}NetFast().step()\n", "ALWAYS"),
        (f"{NETS}NetSlow().step()\n", "NEVER"),
        ({"nets.py": NETS, "train.py": "from nets import NetFast\nNetFast().step()\n"}, "ALWAYS"),
        ({"nets.py": NETS, "train.py": "from nets import NetSlow\nNetSlow().step()\n",
          "other.py": "from nets import NetFast\nNetFast().step()\n"}, "NEVER"),
        ({"base.py": BASE, "fast.py": FAST, "nets.py": "import base\nfrom fast import Fast as Quick\n"
          "class Net(Quick, base.Base):\n    pass\n", "train.py": "import nets\nnets.Net().step()\n"}, "ALWAYS"),
        (f"{BASE}class Net(Base):\n    pass\nclass Last(Net):\n    def kernel(self):\n        import fast_ops\n"
         "Last().step()\n", "ALWAYS"),
        (f"{FAST}class Net(Fast):\n    pass\nclass Last(Net):\n    def step(self):\n        self.kernel()\n"
         "Last().step()\n", "ALWAYS"),
        (f"class A:\n    def step(self):\n        super().kernel()\n{FAST}class Net(A, Fast):\n    pass\n"
         "Net().step()\n", "ALWAYS"),
        (f"class A:\n    def step(self):\n        super().kernel()\n{SLOW}{FAST}class Net(A, Slow, Fast):\n    pass\n"
         "Net().step()\n", "NEVER"),
        (f"from threading import Thread\n{CALLED}class T(Job, Thread):\n    pass\nT().start()\n", "ALWAYS"),
        (f"from threading import Thread\n{CALLED}class T(Thread, Job):\n    pass\nT().start()\n", "CHOSEN"),
        (f"from threading import Thread\n{CALLED}class T(Job, Thread):\n    def run(self):\n        pass\n"
         "T().start()\n", "NEVER"),
        (f"from threading import Thread\nclass Base(Thread):\n    pass\n{CALLED.replace('Job', 'Job(Base)')}"
         "Job().start()\n", "ALWAYS"),
        (f"from abc import ABC\n{CALLED}class T(Job, ABC):\n    pass\nprint(T())\n", "NEVER"),
        (f"import torch\n{CALLED}class T(Job, torch.nn.Module):\n    pass\nprint(T())\n", "NEVER"),
    ],
)  # fmt: skip
def test_a_method_is_reached_by_the_classes_that_objects_have_it_from(
    files: Files | str, need: str, tmp_path: Path
) -> None:
    files = {"train.py": files} if isinstance(files, str) else files
    program = judged(
        tmp_path, {**BUILT, **files, "train.py": f"import torch\n{files['train.py']}print(torch.ones(1))\n"}
    )
    assert needs(program["train.py"]) == need


NAMED = "class A:\n    def run(self):\n        import fast_ops\n"
SET = (
    "class A:\n    @property\n    def mode(self):\n        return 1\n    @mode.setter\n    def mode(self, value):\n"
    "        import fast_ops\n"
)
READ = SET.replace("import fast_ops", "pass").replace("return 1", "import fast_ops")


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (f"{NAMED}    go = run\nA().go()\n", "ALWAYS"),
        (f"{NAMED}    go = run\nA().stop()\n", "NEVER"),
        (f"{NAMED}    go = run\n    start = go\nA().start()\n", "ALWAYS"),
        (f"{NAMED}    __call__ = run\nA()()\n", "ALWAYS"),
        (f"{NAMED}    __call__ = run\n", "NEVER"),
        (f"{NAMED.replace('A:', 'A(torch.nn.Module):')}    forward = run\nA()(1)\n", "ALWAYS"),
        (f"import os\n{NAMED}    def stop(self):\n        pass\n    go = run if 'FAST' in os.environ else stop\nA().go()\n",  # noqa: E501
         "OPTION"),
        (f"{NAMED}    def stop(self):\n        pass\n    go = run if torch.cuda.is_available() else stop\nA().go()\n",
         "ALWAYS"),
        (f"from functools import partialmethod\n{NAMED}    go = partialmethod(run)\nA().go()\n", "ALWAYS"),
        (f"{NAMED}    TABLE = {{'run': run}}\n    def go(self):\n        self.TABLE['run'](self)\nA().go()\n", "ALWAYS"),  # noqa: E501
        (f"{NAMED}    TABLE = {{'run': run}}\n    def go(self):\n        self.TABLE['stop'](self)\nA().go()\n", "OPTION"),  # noqa: E501
        (f"import sys\n{NAMED}    TABLE = {{'run': run}}\n    def go(self):\n        self.TABLE.get(sys.argv[1])(self)\n"  # noqa: E501
         "A().go()\n", "CHOSEN"),
        (f"{NAMED}    TABLE = {{'run': run}}\nA()\n", "NEVER"),
        (f"{NAMED}    STEPS = [run]\n    def go(self):\n        for step in self.STEPS:\n            step(self)\nA().go()\n",  # noqa: E501
         "ALWAYS"),
        (f"{NAMED}    print(run)\n", "ALWAYS"),
        (f"{NAMED}class B(A):\n    pass\nB().go()\n".replace("\nclass B", "\n    go = run\nclass B"), "ALWAYS"),
        (f"from operator import methodcaller\n{NAMED}list(map(methodcaller('run'), [A()]))\n", "ALWAYS"),
        (f"import operator\n{NAMED}run = operator.methodcaller('run')\nrun(A())\n", "ALWAYS"),
        (f"from operator import methodcaller\n{NAMED}list(map(methodcaller('stop'), [A()]))\n", "NEVER"),
        (f"{SET}a = A()\na.mode = 1\n", "ALWAYS"),
        (f"{SET}a = A()\na.mode += 1\n", "ALWAYS"),
        (f"{SET}    def __init__(self):\n        self.mode = 1\nA()\n", "ALWAYS"),
        (f"{SET}setattr(A(), 'mode', 1)\n", "ALWAYS"),
        (f"{SET}a = A()\nprint(a.mode)\n", "NEVER"),
        (f"{SET}import argparse\nargs = argparse.Namespace()\nargs.mode = 1\n", "NEVER"),
        (f"{READ}a = A()\na.mode = 1\n", "NEVER"),
        (f"{READ}a = A()\na.mode += 1\n", "ALWAYS"),
        (f"{READ}print(A().mode)\n", "ALWAYS"),
        (f"{SET.replace('setter', 'deleter').replace(', value', '')}a = A()\ndel a.mode\n", "ALWAYS"),
        (f"{SET.replace('setter', 'deleter').replace(', value', '')}a = A()\na.mode = 1\n", "NEVER"),
        (f"{NAMED}    mode = property(None, run)\na = A()\na.mode = 1\n", "ALWAYS"),
        (f"{NAMED}    mode = property(None, run)\na = A()\nprint(a.mode)\n", "NEVER"),
        (f"{NAMED}    mode = property(fdel=run)\na = A()\ndel a.mode\n", "ALWAYS"),
    ],
)  # fmt: skip
def test_a_method_is_reached_by_each_of_its_names(text: str, need: str, tmp_path: Path) -> None:
    files = {**BUILT, "train.py": f"import torch\n{text}print(torch.ones(1))\n"}
    assert needs(judged(tmp_path, files)["train.py"]) == need


@pytest.mark.parametrize("name", ["'flash_attn'", "'flash_' + 'attn'", "'xformers.ops'", "'k2'"])
def test_what_is_imported_by_its_name_is_needed_as_by_a_statement(name: str, tmp_path: Path) -> None:
    text = START.format(f"import importlib\nops = importlib.import_module({name})", "ops.f()")
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict is Verdict.BLOCKED


def test_the_chain_of_a_verdict(tmp_path: Path) -> None:
    files = {
        **BUILT,
        "train.py": "import torch\nfrom data import load\n\nif __name__ == '__main__':\n    load()\n",
        "data/__init__.py": "from .pipeline import load\n",
        "data/pipeline.py": "import os\ndef load():\n    from . import kernels\n",
        "data/kernels.py": "import torch\n\nimport fast_ops\n",
    }
    found = judged(tmp_path, files)["train.py"]
    assert found.verdict is Verdict.BLOCKED
    assert chain(found) == "train.py:5 -> data/pipeline.py:3 -> data/kernels.py:3"


def test_a_console_script_runs_its_function_only(tmp_path: Path) -> None:
    files = {
        **BUILT,
        "pyproject.toml": "[project.scripts]\nslow = 'tool.cli:slow'\nfast = 'tool.cli:fast'\n",
        "tool/__init__.py": "",
        "tool/cli.py": "import torch\ndef slow():\n    print(1)\ndef fast():\n    import fast_ops\n",
    }
    found = judged(tmp_path, files)
    assert {title: program.verdict for title, program in found.items()} == {
        "slow": Verdict.READY,
        "fast": Verdict.BLOCKED,
    }


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (MAIN, Verdict.READY),
        (MAIN + "    torch.cuda.synchronize()\n", Verdict.FIXES),
        (START.format("import fast_ops", "pass"), Verdict.BLOCKED),
        (START.format("try:\n    import fast_ops\nexcept ImportError:\n    fast_ops = None", "pass"), Verdict.WITHOUT),
        (
            MAIN + "    torch.cuda.set_per_process_memory_fraction(0.5)\n    torch.load('x').cuda_time\n"
            "    torch._C._cuda_getDevice()\n",
            Verdict.DECISIONS,
        ),
        ("import torch\ntorch.cuda.synchronize(\n" + MAIN, Verdict.NOT_JUDGED),
    ],
    ids=["ready", "fixes", "blocked", "without", "decisions", "not judged"],
)
def test_each_word(text: str, verdict: Verdict, tmp_path: Path) -> None:
    assert judged(tmp_path, {**BUILT, "train.py": text})["train.py"].verdict is verdict


def test_packages_that_nobody_has_verified(tmp_path: Path) -> None:
    text = "import json\nimport torch\nimport some_unheard_of\nfrom another_one.sub import x\nimport helper\n" + MAIN
    files = {"train.py": text, "helper.py": "import third_one\nimport some_unheard_of\n", "apart.py": "import fourth\n"}
    found = judged(tmp_path, files)["train.py"]
    assert {(item.package, item.place) for item in found.unverified} == {
        ("some_unheard_of", "train.py:3"),
        ("another_one", "train.py:4"),
        ("third_one", "helper.py:1"),
    }


def test_the_plugin_itself_needs_no_verification(tmp_path: Path) -> None:
    text = "import torch\nimport torch_npu\nfrom torch_npu.contrib import transfer_to_npu\nprint(torch.ones(2))\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].unverified == ()


def test_programs_are_judged_one_by_one(tmp_path: Path) -> None:
    files = {**BUILT, "train.py": MAIN, "fast.py": START.format("import fast_ops", "pass"), "unused.py": OPS}
    found = judged(tmp_path, files)
    assert {title: program.verdict for title, program in found.items()} == {
        "train.py": Verdict.READY,
        "fast.py": Verdict.BLOCKED,
    }


def notebook(*cells: str) -> str:
    document = {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [cell]} for cell in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document)


INSTALLS = "    !pip install torch --extra-index-url https://download.pytorch.org/whl/cu117"


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        (["import torch", f"INSTALL = False\nif INSTALL:\n{INSTALLS}"], Verdict.READY),
        (["import torch", f"INSTALL = True\nif INSTALL:\n{INSTALLS}"], Verdict.DECISIONS),
        (["import torch", INSTALLS.strip()], Verdict.DECISIONS),
        (["import torch", f"INSTALL = False\nif INSTALL:\n    print(1)\nelse:\n{INSTALLS}"], Verdict.DECISIONS),
        (["import torch\ndef f(x):\n    return x.cuda()", "print(1)"], Verdict.READY),
        (["import torch\ndef f(x):\n    return x.cuda()", "# é\nf(torch.ones(1))"], Verdict.FIXES),
    ],
)
def test_the_places_of_a_notebook_are_asked_too(cells: list[str], verdict: Verdict, tmp_path: Path) -> None:
    (program,) = judged(tmp_path, {"a.ipynb": notebook(*cells)}).values()
    assert program.verdict is verdict


DERIVED = "import torch\nclass {}(torch.nn.DataParallel):\n    pass\n"


@pytest.mark.parametrize(
    ("files", "decisions"),
    [
        ({"train.py": START.format("from nets import copied", "copied(1)"),
          "nets.py": DERIVED.format("Spread") + "def copied(x):\n    return x\n"}, 0),
        ({"train.py": START.format("from nets import Spread", "Spread(1)"), "nets.py": DERIVED.format("Spread")}, 1),
        ({"train.py": START.format("from nets import Wide", "Wide(1)"),
          "nets.py": DERIVED.format("Spread") + "class Wide(Spread):\n    pass\n"}, 1),
        ({"nets/__init__.py": DERIVED.format("Spread")}, 1),
        ({"nets/__init__.py": DERIVED.format("_Spread")}, 0),
    ],
)  # fmt: skip
def test_what_a_base_does_is_done_where_objects_are_made(files: Files, decisions: int, tmp_path: Path) -> None:
    (program,) = judged(tmp_path, files).values()
    assert len(program.decisions) == decisions


ASKS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--fast', action='store_true')\nargs = parser.parse_args()\n"  # noqa: E501


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("if args.fast:\n    import apex", [("Ascend/apex", "--fast")]),
        ("import apex", []),
        ("if args.fast:\n    torch.nn.DataParallel(print)", [("torch.nn.DataParallel", "--fast")]),
        ("torch.nn.DataParallel(print)\nif args.fast:\n    torch.nn.DataParallel(print)", []),
        ("def f():\n    torch.nn.DataParallel(print)", []),
    ],
)
def test_what_only_an_option_asks_for_is_told_with_the_option(
    body: str, told: list[tuple[str, str]], tmp_path: Path
) -> None:
    program = judged(tmp_path, {"train.py": f"import torch\n{ASKS}{body}\n"})["train.py"]
    assert [(item.what, item.call_path.options[0]) for item in program.alternatives] == told
    assert program.optional == ()
    assert (program.verdict is Verdict.DECISIONS) == (not told and "def" not in body)


def test_of_places_that_need_the_same_the_first_is_told(tmp_path: Path) -> None:
    files = {"train.py": START.format("import ops\nimport fast_ops", "pass"), "ops.py": OPS, **BUILT}
    assert chain(judged(tmp_path, files)["train.py"]) == "train.py:2 -> ops.py:1"


TRAINS = "import torch\nfrom transformers import TrainingArguments\nif __name__ == '__main__':\n    print(1)\n"


@pytest.mark.parametrize(
    ("command", "text", "blocked"),
    [
        ("torchrun train.py --deepspeed zero2.json", TRAINS, "train.py:2"),
        ("torchrun train.py --deepspeed=zero2.json --fp16", TRAINS, "train.py:2"),
        ("torchrun train.py --fp16", TRAINS, ""),
        ("torchrun train.py --deepspeed none", TRAINS, ""),
        ("torchrun train.py --deepspeed zero2.json", MAIN, ""),
        ("torchrun train.py --deepspeed zero2.json", TRAINS.replace("TrainingArguments", "AutoModel"), ""),
        ("deepspeed train.py --fp16", MAIN, "train.py:1"),
        ("accelerate launch --use_deepspeed train.py", MAIN, "train.py:1"),
        ("accelerate launch train.py", MAIN, ""),
    ],
)
def test_a_package_that_the_command_switches_on(command: str, text: str, blocked: str, tmp_path: Path) -> None:
    files = {"train.py": text, "README.md": f"```bash\n{command}\n```\n"}
    program = judged(tmp_path, files, "musa")["train.py"]
    assert program.verdict is (Verdict.BLOCKED if blocked else Verdict.READY)
    assert needs(program, "deepspeed") == ("ALWAYS" if blocked else "NEVER")
    assert not blocked or chain(program, "deepspeed") == blocked
    assert judged(tmp_path, files)["train.py"].verdict is Verdict.READY


def test_the_python_settings_of_detectron2_are_reached(tmp_path: Path) -> None:
    files = {
        "train.py": "from detectron2.config import LazyConfig, instantiate\n"
        "if __name__ == '__main__':\n    instantiate(LazyConfig.load('configs/a.py').model)\n",
        "configs/a.py": "from detectron2.config import LazyCall as L\nfrom nets import Net\nmodel = L(Net)()\n",
        "nets.py": "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda()\n",
        "other.py": "import torch\n",
    }
    assert set(judged(tmp_path, files)["train.py"].reached) == {"train.py", "configs/a.py", "nets.py"}


def test_what_a_notebook_needs_blocks_it(tmp_path: Path) -> None:
    cells = ["import torch", "import tensorrt", "try:\n    import cupy\nexcept ImportError:\n    cupy = None"]
    (program,) = judged(tmp_path, {"a.ipynb": notebook(*cells)}).values()
    assert program.verdict is Verdict.BLOCKED
    assert [blocker.what for blocker in program.blockers] == ["tensorrt"]
    assert [item.what for item in program.optional] == ["cupy"]


def test_a_fault_on_one_program_is_reported_and_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closure = Modules.closure

    def failing(self: Modules, start: str, *others: Any) -> Any:
        if start == "broken.py":
            raise RuntimeError("a fault of the test")
        return closure(self, start, *others)

    monkeypatch.setattr(Modules, "closure", failing)
    analysis = small(tmp_path, {"broken.py": MAIN, "fine.py": MAIN}).analysis
    found = {item.program.path: item.verdict for item in judge(analysis, target_of("npu"))}
    assert found == {"broken.py": Verdict.NOT_JUDGED, "fine.py": Verdict.READY}
    assert [failure.path for failure in analysis.failures] == ["broken.py"]
    assert "a fault of the test" in analysis.failures[0].what


BUILDER = {
    "ops.cu": KERNEL,
    "builder.py": "import importlib\nimport torch\nimport torch.utils.cpp_extension\ndef get_plugin(name, sources):\n"
    "    torch.utils.cpp_extension.load(name=name, sources=sources)\n    return importlib.import_module(name)\n",
}
BUILDS = "import torch\nimport builder\n{}if __name__ == '__main__':\n    {}\n"


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (BUILDS.format("", "builder.get_plugin('fast_ops', sources=['ops.cpp', 'ops.cu'])"), "ALWAYS"),
        (BUILDS.format("def f():\n    sources = ['ops.cu']\n    try:\n        return builder.get_plugin('fast_ops', "
                     "sources=sources)\n    except Exception:\n        return None\n", "f()"), "GUARDED"),
        (BUILDS.format("", "builder.get_plugin('fast_ops', sources=['ops.cpp'])"), "NEVER"),
        (BUILDS.format("", "other.get_plugin('fast_ops', sources=['ops.cu'])"), "NEVER"),
    ],
)  # fmt: skip
def test_what_a_function_of_the_project_builds_when_it_runs(text: str, need: str, tmp_path: Path) -> None:
    program = judged(tmp_path, {**BUILDER, "train.py": text})["train.py"]
    assert needs(program) == need
    assert need == "NEVER" or "fast_ops" not in [item.package for item in program.unverified]


@pytest.mark.parametrize(
    "binds",
    [
        "from . import _C",
        "from ops import _C",
        "from ._C import draw",
        "from ._C import *",
        "import ops._C as _C",
        "try:\n    from . import _C\nexcept ImportError:\n    _C = None",
        "import importlib\n_C = importlib.import_module('ops._C')",
        "import importlib\n_C = importlib.import_module('._C', __package__)",
        "import glob, torch\ntorch.ops.load_library(glob.glob('ops/_C*.so')[0])\n_C = torch.ops.ops",
        "import torch\nlibrary = 'ops/_C.so'\ntorch.ops.load_library(library)\n_C = torch.ops.ops",
        "__import__('ops._C')",
    ],
)
@pytest.mark.parametrize("main", ["import ops\nops.draw(1)\n", "from ops import draw\ndraw(1)\n"])
def test_the_compiled_module_of_a_package_is_found_however_it_is_bound(main: str, binds: str, tmp_path: Path) -> None:
    files = {
        "setup.py": BUILT["csrc/setup.py"].replace("fast_ops", "ops._C"),
        "ops.cu": KERNEL,
        "ops/__init__.py": f"{binds}\n\n\ndef draw(x):\n    return _C.draw(x)\n",
        "train.py": "import torch\n" + main,
    }
    assert needs(judged(tmp_path, files)["train.py"], "_C") == "ALWAYS"


def test_a_module_of_python_beside_a_compiled_one_is_no_lack(tmp_path: Path) -> None:
    files = {
        "setup.py": BUILT["csrc/setup.py"].replace("fast_ops", "ops._C"),
        "ops.cu": KERNEL,
        "ops/__init__.py": "from .plain import _C\n",
        "ops/plain.py": "class _C:\n    pass\n",
        "train.py": "import torch\nfrom ops import _C\n_C()\n",
    }
    assert needs(judged(tmp_path, files)["train.py"], "_C") == "NEVER"


def test_a_module_of_python_that_is_imported_by_its_name_is_no_lack(tmp_path: Path) -> None:
    files = {
        "setup.py": BUILT["csrc/setup.py"].replace("fast_ops", "ops._C"),
        "ops.cu": KERNEL,
        "ops/__init__.py": "",
        "plain/__init__.py": "",
        "plain/_C.py": "def draw():\n    pass\n",
        "train.py": "import importlib\nimport torch\nimportlib.import_module('plain._C').draw()\n",
    }
    assert needs(judged(tmp_path, files)["train.py"], "_C") == "NEVER"


@pytest.mark.parametrize(
    ("cell", "verdict", "unresolved"),
    [
        ("importlib.import_module(sys.argv[1]).Net()", Verdict.READY, 1),
        ("kind = 'big'\nimportlib.import_module(f'nets.{kind}').Net()", Verdict.BLOCKED, 0),
        ("importlib.import_module('nets.small').Net()", Verdict.READY, 0),
        ("for kind in ('small', 'big'):\n    importlib.import_module('nets.' + kind).Net()", Verdict.BLOCKED, 0),
        ("[importlib.import_module(name) for name in open('names.txt')]", Verdict.READY, 1),
        (
            "import importlib.metadata as m\n[e.load()() for e in m.entry_points(group='lab.nets')]",
            Verdict.READY,
            1,
        ),
    ],
)
def test_a_notebook_that_computes_what_it_imports(cell: str, verdict: Verdict, unresolved: int, tmp_path: Path) -> None:
    nets = {"nets/big.py": "import cupy\nclass Net: pass\n", "nets/small.py": "class Net: pass\n"}
    (program,) = judged(tmp_path, {**nets, "a.ipynb": notebook("import importlib, sys, torch", cell)}).values()
    assert (program.verdict, len(program.unresolved)) == (verdict, unresolved)


def test_what_a_started_program_leaves_unresolved_is_no_decision_of_the_one_that_starts_it(tmp_path: Path) -> None:
    inner = "import importlib, sys, torch\nif __name__ == '__main__':\n    importlib.import_module(sys.argv[1])\n"
    outer = "import subprocess, torch\nif __name__ == '__main__':\n    subprocess.run(['python', 'train.py', 'net'])\n"
    programs = judged(tmp_path, {"train.py": inner, "start.py": outer})
    for name in ("train.py", "start.py"):
        assert (programs[name].verdict, programs[name].decisions) == (Verdict.READY, programs[name].unresolved)
        assert len(programs[name].unresolved) == 1


@pytest.mark.parametrize("is_failing", [False, True])
@pytest.mark.parametrize("jobs", [2, 3])
def test_several_processes_say_the_same(
    jobs: int, is_failing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "import subprocess\nif __name__ == '__main__':\n    subprocess.run(['python', {!r}])\n"
    files = {
        **{f"train{number}.py": MAIN + "import model\nmodel.fast()\n" for number in range(6)},
        "model.py": "def fast():\n    import fast_ops\n",
        "all.py": start.format("again.py"),  # the one starts the other
        "again.py": start.format("all.py") + "    import model\n    model.fast()\n",
        "plain.py": MAIN,
        **BUILT,
    }
    project = small(tmp_path, files, with_rules=True)
    judge_one = judging._Judge._judge

    def failing(self: judging._Judge, program: Program, closure: dict[str, Edge | None]) -> JudgedProgram:
        if program.path == "train3.py":
            raise ValueError("a fault of the test")
        return judge_one(self, program, closure)

    if is_failing:
        monkeypatch.setattr(judging._Judge, "_judge", failing)
    expected = judging.judge(project.analysis, project.target)
    monkeypatch.setattr(forks, "ALONE", 0)
    monkeypatch.setattr(forks, "WORTH", 0)
    assert judging.judge(project.analysis, project.target, jobs=jobs) == expected
    assert {each.program.path: each.verdict for each in expected}["train3.py"] is (
        Verdict.NOT_JUDGED if is_failing else Verdict.BLOCKED
    )
    assert [failure.path for failure in project.analysis.failures] == ["train3.py"] * is_failing


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ("        importlib.import_module(name)\n        return True", []),
        ("        return importlib.import_module(name)", ["cupy"]),
    ],
)
def test_an_import_that_only_asks_whether_a_module_is_there_needs_nothing(
    asked: str, needs: list[str], tmp_path: Path
) -> None:
    """What it would import is nothing that the program needs; that its name is not known stays said."""
    text = (
        f"import importlib\nimport sys\ndef has(name):\n    try:\n{asked}\n    except ImportError:\n        return 0\n"
    )
    files = {"train.py": f"{text}print(has(sys.stdin.readline()))\n", "other.py": "import cupy\n"}
    found = judged(tmp_path, files)["train.py"]
    assert [each.what for each in found.alternatives] == needs
    assert len(found.unread) == 1
