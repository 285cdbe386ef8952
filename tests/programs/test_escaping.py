"""Functions that are called where their names do not stand: a parameter has its default if nothing may give it more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
from torchferry.programs.model import Verdict

WORK = "def work({}):\n    if kind == 'fast':\n        import fast_ops\n"
MAIN = "def main():\n    {}\nif __name__ == '__main__':\n    main()\n"
NET = (
    "class Net:\n    def __init__(self, width, kind='plain'):\n"
    "        if kind == 'fast':\n            import fast_ops\n"
)


def verdict(root: Path, text: str, **more: str) -> Verdict:
    files = {"train.py": f"import torch\n{text}", **BUILT, **more}
    return judged(root, files)["train.py"].verdict


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("from multiprocessing import Pool\n", "Pool(2).starmap(work, [('fast',)])"),
        ("from itertools import starmap\n", "list(starmap(work, [('fast',)]))"),
        ("from joblib import Parallel, delayed\n", "Parallel()(delayed(work)(x) for x in ['fast'])"),
        ("import ray\n", "ray.get(ray.remote(work).remote('fast'))"),
        ("from tqdm.contrib.concurrent import process_map\n", "process_map(work, ['fast'])"),
        ("from functools import partial\n", "partial(work)('fast')"),
        ("from threading import Thread\n", "given = {'kind': 'fast'}\n    Thread(target=work, kwargs=given).start()"),
        ("import schedule\n", "schedule.every(1).minutes.do(work, 'fast')"),
        ("import atexit\n", "atexit.register(work, 'fast')"),
        ("from accelerate import notebook_launcher\n", "notebook_launcher(work, ('fast',), num_processes=2)"),
        ("import gradio as gr\nb = gr.Button()\n", "b.click(work, inputs=[b])"),
        ("import pandas as pd\ndf = pd.DataFrame()\n", "df.apply(work)"),
        ("", "called = work\n    called('fast')"),
        ("", "table = {'a': work}\n    table['a']('fast')"),
        ("", "for each in [work]:\n        each('fast')"),
        ("def run(f):\n    f('fast')\n", "run(work)"),
        ("def run(f=None):\n    f(kind='fast')\n", "run(f=work)"),
        ("class A:\n    def __init__(self, f):\n        self.f = f\n    def go(self):\n        self.f('fast')\n",
         "A(work).go()"),
        ("", "globals()['work']('fast')"),
        ("import sys\n", "getattr(sys.modules[__name__], 'work')('fast')"),
    ],
)  # fmt: skip
def test_an_unnamed_call_may_give_it(before: str, call: str, tmp_path: Path) -> None:
    text = before + WORK.format("kind='plain'") + MAIN.format(call)
    assert verdict(tmp_path, text) in (Verdict.MAY_NEED, Verdict.BLOCKED)


@pytest.mark.parametrize(
    ("before", "call"),
    [
        ("", "work(1)"),
        ("from threading import Thread\n", "Thread(target=work, args=(1,)).start()"),
        ("from functools import partial\nfrom multiprocessing import Pool\n",
         "Pool(2).map(partial(work, kind='slow'), [1])"),
        # a package gives what must be given
        ("from torch.utils.data import DataLoader\n", "DataLoader([], collate_fn=work)"),
        ("", "list(map(work, [1, 2]))"),
        # what is called without a name is given less
        ("", "table = {'a': work}\n    table['a'](1)"),
        ("def run(f):\n    f(1)\n", "run(work)"),
        ("import typer\n", "typer.run(work)"),
        ("", "print(work)\n    work(1)"),
    ],
)  # fmt: skip
def test_nothing_gives_it(before: str, call: str, tmp_path: Path) -> None:
    text = before + WORK.format("x, kind='plain'") + MAIN.format(call)
    assert verdict(tmp_path, text) is Verdict.WITHOUT


@pytest.mark.parametrize(
    ("call", "is_given"),
    [
        ("nets = {'a': Net}\n    nets['a'](8)", False),
        ("nets = {'a': Net}\n    nets['a'](8, kind='fast')", True),
        ("nets = {'a': Net}\n    nets['a'](**open('a').read())", True),
        ("nets, given = {'a': Net}, dict(depth=2)\n    nets['a'](8, **given)", False),
        ("nets = {'a': Net}\n    given = dict(depth=2)\n    nets['a'](8, **given)", False),
        ("nets = {'a': Net}\n    given = dict(depth=2)\n    given['kind'] = 'fast'\n    nets['a'](8, **given)", True),
        ("nets = {'a': Net}\n    given = dict(kind='fast')\n    nets['a'](8, **given)", True),
        ("made = [Net]\n    [each(8) for each in made]", False),
        ("made = Net\n    made(8, 'fast')", True),
        ("isinstance(1, Net)\n    Net(8)", False),
    ],
)
def test_classes_in_tables(call: str, *, is_given: bool, tmp_path: Path) -> None:
    said = verdict(tmp_path, NET + MAIN.format(call))
    assert said in (Verdict.MAY_NEED, Verdict.BLOCKED) if is_given else said is Verdict.WITHOUT


@pytest.mark.parametrize(
    ("looked_up", "is_given"),
    [
        ("getattr(nets, sys.argv[1])(8)", False),
        ("getattr(nets, sys.argv[1])(8, kind=sys.argv[2])", True),
        ("nets.__dict__[sys.argv[1]](8, 'fast')", True),
    ],
)
def test_classes_that_a_module_is_asked_for(looked_up: str, *, is_given: bool, tmp_path: Path) -> None:
    files = {"nets.py": f"import torch\n{NET}"}
    said = verdict(tmp_path, f"import sys\nimport nets\n{MAIN.format(looked_up)}", **files)
    assert said in (Verdict.MAY_NEED, Verdict.BLOCKED) if is_given else said is Verdict.WITHOUT
