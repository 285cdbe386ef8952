"""A function that is looked up in a module by a text may be the one: as sure as the text is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from tests.programs.test_conditions import need

OPS = "import torch\ndef fast():\n    import cupy\ndef plain():\n    pass\n"
ARGS = (
    "import argparse\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--kind', default='{}')\nargs = parser.parse_args()\n"
)
TAKES = "import sys\nimport torch\nfrom ops import fast, plain\n"
OWN = "import sys\n" + OPS
NET = "import torch\nclass Fast(torch.nn.Module):\n    def forward(self, x):\n        import cupy\n"

LOOKUPS = {
    # nobody knows the name
    "globals": (TAKES + "globals()[sys.argv[1]]()\n", "CHOSEN"),
    "globals, get": (TAKES + "globals().get(sys.argv[1])()\n", "CHOSEN"),
    "globals, a variable": (TAKES + "table = globals()\nrun = table[sys.argv[1]]\nrun()\n", "CHOSEN"),
    "globals, returned": (TAKES + "def of(name):\n    return globals()[name]\nof(sys.argv[1])()\n", "CHOSEN"),
    "locals": (TAKES + "locals()[sys.argv[1]]()\n", "CHOSEN"),
    "vars": (TAKES + "vars()[sys.argv[1]]()\n", "CHOSEN"),
    "eval": (TAKES + "eval(sys.argv[1])()\n", "CHOSEN"),
    "eval, kept": (TAKES + "run = eval(sys.argv[1])\nrun()\n", "CHOSEN"),
    "eval of a call": (TAKES + "eval(f'{sys.argv[1]}()')\n", "CHOSEN"),
    "eval of a call, put together": (TAKES + "eval(sys.argv[1] + '()')\n", "CHOSEN"),
    "exec of a call": (TAKES + "exec('x = {}()'.format(sys.argv[1]))\n", "CHOSEN"),
    "eval of a name of a module": ("import sys\nimport torch\nimport ops\neval('ops.' + sys.argv[1])()\n", "CHOSEN"),
    # what is written of the name tells that it is another one, or may be this one
    "a form, another": (TAKES + "globals()['net_{}'.format(sys.argv[1])]()\n", "NEVER"),
    "a form": (TAKES + "globals()['fa{}'.format(sys.argv[1])]()\n", "CHOSEN"),
    "an f-string, another": (TAKES + "globals()[f'{sys.argv[1]}_net']()\n", "NEVER"),
    "an f-string": (TAKES + "globals()[f'f{sys.argv[1]}t']()\n", "CHOSEN"),
    "a form of percent, another": (TAKES + "globals()['net_%s' % sys.argv[1]]()\n", "NEVER"),
    "a variable, another": (TAKES + "name = 'net_' + sys.argv[1]\nglobals()[name]()\n", "NEVER"),
    "a variable": (TAKES + "name = 'fa' + sys.argv[1]\nglobals()[name]()\n", "CHOSEN"),
    "a longer one": (TAKES + "globals()['fast' + sys.argv[1] + 't']()\n", "NEVER"),
    "asked, another": (
        TAKES + "if 'net_' + sys.argv[1] == 'fast':\n    fast()\n",
        "OPTION 'net_' + sys.argv[1] == 'fast' (train.py:4)",
    ),
    "asked": (TAKES + "if 'fa' + sys.argv[1] == 'fast':\n    fast()\n", "CHOSEN"),
    "sys.modules": (TAKES + "getattr(sys.modules[__name__], sys.argv[1])()\n", "CHOSEN"),
    "sys.modules, __dict__": (TAKES + "sys.modules[__name__].__dict__[sys.argv[1]]()\n", "CHOSEN"),
    "import_module": (
        TAKES + "from importlib import import_module\ngetattr(import_module(__name__), sys.argv[1])()\n", "CHOSEN",
    ),
    "__main__": (TAKES + "import __main__\ngetattr(__main__, sys.argv[1])()\n", "CHOSEN"),
    "a star import": ("import sys\nimport torch\nfrom ops import *\nglobals()[sys.argv[1]]()\n", "CHOSEN"),
    "its own function": (OWN + "globals()[sys.argv[1]]()\n", "CHOSEN"),
    "its own function, getattr": (OWN + "getattr(sys.modules['__main__'], sys.argv[1])()\n", "CHOSEN"),
    "a module": ("import sys\nimport torch\nimport ops\ngetattr(ops, sys.argv[1])()\n", "CHOSEN"),
    "vars of a module": ("import sys\nimport torch\nimport ops\nvars(ops)[sys.argv[1]]()\n", "CHOSEN"),
    "attrgetter": ("import operator, sys\nimport ops\noperator.attrgetter(sys.argv[1])(ops)()\n", "CHOSEN"),
    "a package that passes it on": ("import sys\nimport torch\nimport pkg\ngetattr(pkg, sys.argv[1])()\n", "CHOSEN"),
    "a class": ("import sys\nimport torch\nfrom nets import Fast\nglobals()[sys.argv[1]]()(torch.ones(2))\n", "CHOSEN"),
    "a module by its name": ("import importlib\nm = importlib.import_module('ops')\nm.fast()\n", "ALWAYS"),
    "a module by its name, at once": ("import importlib\nimportlib.import_module('ops').fast()\n", "ALWAYS"),
    "another function of it": ("import importlib\nm = importlib.import_module('ops')\nm.plain()\n", "NEVER"),
    "all of a module": ("import ops\nfor name, f in vars(ops).items():\n    if callable(f):\n        f()\n", "CHOSEN"),
    "all members": ("import inspect, ops\nfor name, f in inspect.getmembers(ops):\n    f()\n", "CHOSEN"),
    "what is callable": (TAKES + "for f in [f for f in globals().values() if callable(f)]:\n    f()\n", "CHOSEN"),
    "a table": (TAKES + "table = {name: globals()[name] for name in ['fast']}\ntable['fast']()\n", "CHOSEN"),
    "a module that is given": (
        "import sys, ops\ndef of(module, name):\n    return getattr(module, name)\nof(ops, sys.argv[1])()\n", "CHOSEN",
    ),
    "reduce": ("import functools, ops, sys\nfunctools.reduce(getattr, sys.argv[1].split('.'), ops)()\n", "CHOSEN"),
    "partial": ("import functools, ops, sys\nget = functools.partial(getattr, ops)\nget(sys.argv[1])()\n", "CHOSEN"),
    "methodcaller": ("import operator, ops, sys\noperator.methodcaller(sys.argv[1])(ops)\n", "CHOSEN"),
    "__getattribute__": ("import ops, sys\nops.__getattribute__(sys.argv[1])()\n", "CHOSEN"),
    "in a list": ("import ops, sys\nrun = [getattr(ops, sys.argv[1])][0]\nrun()\n", "CHOSEN"),
    "fire": ("import fire, ops\nfire.Fire(ops)\n", "CHOSEN"),
    # an option gives it
    "an option that is it": (ARGS.format("fast") + TAKES + "globals()[args.kind]()\n", "ALWAYS"),
    "an option that is another": (ARGS.format("plain") + TAKES + "globals()[args.kind]()\n", "OPTION --kind fast"),
    "eval of an option": (ARGS.format("plain") + TAKES + "eval(args.kind)()\n", "OPTION --kind fast"),
    # no look-up of a function
    "a question": (TAKES + "print('fast' in globals())\n", "NEVER"),
    "what is stored": (TAKES + "globals()[sys.argv[1]] = 1\nprint(plain())\n", "NEVER"),
    "a table that is itself": (TAKES + "table = globals()\ntable = table\nplain()\n", "NEVER"),
    "a getter that is itself": (
        "import operator, ops\nget = operator.attrgetter('plain')\nget = get\nget(ops)()\n", "NEVER",
    ),
    "what is collected": (TAKES + "config = {name: globals()[name] for name in ['a']}\nprint(plain())\n", "NEVER"),
    "eval of a number": (TAKES + "x = eval(sys.argv[1])\nprint(x + 1)\n", "NEVER"),
    "eval of what is written": (TAKES + "eval('plain')()\n", "NEVER"),
    "eval of what is written, it": (TAKES + "eval('fast')()\n", "ALWAYS"),
    "eval of a call that is written": (TAKES + "print(eval('fast()'))\n", "ALWAYS"),
    "eval of a lambda": (TAKES + "run = eval('lambda: fast()')\nrun()\n", "ALWAYS"),
    "eval of a name of a module that is written": ("import torch\nimport ops\neval('ops.fast')()\n", "ALWAYS"),
    "eval of another name of it": ("import torch\nimport ops\neval('ops.plain')()\n", "NEVER"),
    "exec of lines": (TAKES + "CODE = '''\n    x = 1\n    fast()\n'''\nexec(CODE)\n", "ALWAYS"),
    "exec of compiled code": (TAKES + "exec(compile('fast()', 'name', 'exec'))\n", "ALWAYS"),
    "exec of a method": (
        "import torch\nclass Net:\n    def run(self):\n        import cupy\nnet = Net()\nexec('net.run()')\n", "ALWAYS",
    ),
    "exec of what does not parse": (TAKES + "exec('fast(')\n", "NEVER"),
    "exec of a name that it gives": (TAKES + "exec('fast = 1')\n", "NEVER"),
    "timeit": (TAKES + "import timeit\ntimeit.timeit('fast()', globals=globals())\n", "ALWAYS"),
    "Timer": (TAKES + "from timeit import Timer\nTimer(stmt='plain()', setup='fast()').timeit()\n", "ALWAYS"),
    "another name that is written": ("import ops\ngetattr(ops, 'plain')()\n", "NEVER"),
    "a name that is written": ("import ops\nvars(ops)['fast']()\n", "ALWAYS"),
    "numbers that are collected": (
        TAKES + "keys = [k for k, v in globals().items() if isinstance(v, int)]\nprint(keys, plain())\n", "NEVER",
    ),
    "what is said of it": ("import ops, sys\nprint(getattr(ops, sys.argv[1]).__doc__)\n", "NEVER"),
    "options": ("import ops\nfor key, value in vars(parser).items():\n    print(key, value)\nops.plain()\n", "NEVER"),
    "another module": ("import sys\nimport torch\nimport ops\ngetattr(torch, sys.argv[1])()\n", "NEVER"),
    "it is not taken": ("import sys\nimport torch\nfrom ops import plain\nglobals()[sys.argv[1]]()\n", "NEVER"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), LOOKUPS.values(), ids=LOOKUPS)
def test_a_name_that_is_looked_up(tmp_path: Path, text: str, wanted: str) -> None:
    files: Files = {
        "train.py": text,
        "ops.py": OPS,
        "nets.py": NET,
        "pkg/__init__.py": "from .fast import *\n",
        "pkg/fast.py": OPS,
    }
    program = judged(tmp_path, files)["train.py"]
    assert " ".join(need(program)).strip() == wanted


HUB = "import sys\nimport torch\nnet = torch.hub.load({}, {}, source='{}')\nprint(net)\n"
CONF = "import torch\ndef fast():\n    import cupy\ndef plain():\n    return torch.nn.Linear(1, 1)\n"


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("train.py", HUB.format("'hub/net'", "'fast'", "local"), "ALWAYS"),
        ("train.py", HUB.format("'./hub/net'", "'plain'", "local"), "NEVER"),
        ("train.py", HUB.format("'hub/net'", "sys.argv[1]", "local"), "CHOSEN"),
        ("train.py", HUB.format("'hub/net'", "'fa{}'.format(sys.argv[1])", "local"), "CHOSEN"),
        ("train.py", HUB.format("'hub/net'", "'net_{}'.format(sys.argv[1])", "local"), "NEVER"),
        ("tools/train.py", HUB.format("'../hub/net'", "'fast'", "local"), "ALWAYS"),
        ("tools/train.py", HUB.format("'hub/net'", "'fast'", "local"), "ALWAYS"),
        ("train.py", HUB.format("'owner/net'", "'fast'", "github"), "NEVER"),
    ],
)
def test_a_model_that_is_loaded_from_the_tree(tmp_path: Path, path: str, text: str, wanted: str) -> None:
    program = judged(tmp_path, {path: text, "hub/net/hubconf.py": CONF})[path]
    assert " ".join(need(program)).strip() == wanted
