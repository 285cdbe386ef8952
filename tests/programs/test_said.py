"""What decides a condition where it is said in another place or form: no green may rest on the default beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from tests.programs.test_conditions import need
from tests.programs.test_values import ENVIRONMENT, FLAG, OPTION, PARSER, USE

MAINARGV = (
    "import argparse\nimport torch\ndef main(argv=None):\n    parser = argparse.ArgumentParser()\n    "
    + FLAG
    + "    args = parser.parse_args(argv)\n    if args.fast:\n        import cupy\n"
)


def notebook(*cells: str) -> str:
    """Return a notebook with some cells of code."""
    empty: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    code = [{**empty, "source": cell} for cell in cells]
    return json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


S2 = PARSER + (
    "parser.add_argument('-v', action='store_true')\n"
    "parser.add_argument('-f', '--fast', action='store_true')\n"
    "parser.add_argument('-b', '--backend', default='plain')\nargs = parser.parse_args()\n"
)
B3 = PARSER + (
    "parser.add_argument('--backend', default='plain')\nargs = parser.parse_args()\n"
    "if args.backend == 'cupy':\n    import cupy\n"
)
ACT = (
    "import argparse\nimport torch\nclass X(argparse.Action):\n"
    "    def __call__(self, parser, namespace, values, option_string=None):\n"
    "        setattr(namespace, {}, True)\nparser = argparse.ArgumentParser()\n"
)
GIN = "import gin\nimport torch\n@gin.configurable\ndef run(fast=False):\n    if fast:\n        import cupy\n"
PYD = (
    "from pydantic_settings import BaseSettings\nimport torch\nclass Settings(BaseSettings):\n"
    "    fast: bool = False\ns = Settings()\nif s.fast:\n    import cupy\n"
)
TY = (
    "import tyro\nimport torch\nfrom dataclasses import dataclass, field\n@dataclass\n"
    "class Model:\n    fast: bool = False\n@dataclass\nclass Config:\n"
    "    model: Model = field(default_factory=Model)\ncfg = tyro.cli(Config)\nif cfg.model.fast:\n"
    "    import cupy\n"
)
FIRE = (
    "import torch\nfrom fire import Fire\ndef plain():\n    torch.ones(1)\ndef fast(trt=False):\n    if trt:\n"
    "        import cupy\nif __name__ == '__main__':\n    Fire({'plain': plain, 'fast': fast})\n"
)
FIRE_APART = {
    "pkg/__init__.py": "",
    "pkg/fast.py": "import torch\ndef main(name='x', trt=False):\n    if trt:\n        import cupy\n",
    "train.py": "from fire import Fire\nfrom pkg.fast import main as go\nALL = {'fast': go, 'no': print}\nFire(ALL)\n",
}
WRAP = (
    "import {0}\nimport torch\nfrom dataclasses import dataclass\n@dataclass\nclass Config:\n    fast: bool = False\n"
    "@{0}.wrap()\ndef main(cfg: Config):\n    if cfg.fast:\n        import cupy\nif __name__ == '__main__':\n"
    "    main()\n"
)
MODULE = (
    "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, fast=False):\n        super().__init__()\n"
    "        self.fast = fast\nclass Chat:\n    def load(self, fast=False):\n        self.net = Net(fast=fast){}\n"
    "    def infer(self):\n        net = self.net\n        if net.fast:\n            import cupy\n"
    "chat = Chat()\nchat.load({})\nchat.infer()\n"
)
TI = (
    "import importlib\nimport torch\ndef try_import(name):\n    try:\n"
    "        return importlib.import_module(name)\n    except ImportError:\n        return None\n"
    "cupy = try_import('cupy')\n"
)
REG = (
    "import torch\nclass Registry:\n    def __init__(self):\n        self.kept = {}\n"
    "    def register(self):\n        def keep(c):\n            self.kept[c.__name__] = c\n"
    "            return c\n        return keep\n    def get(self, name):\n"
    "        return self.kept[name]\n    def build(self, cfg):\n"
    "        return self.kept[cfg['type']]()\nMODELS = Registry()\n@MODELS.register()\n"
    "class Fast:\n    def __init__(self):\n        import cupy\n    def run(self):\n        pass\n"
)
DOC = (
    '"""Train.\n\nUsage:\n  train.py [--fast] [--mode=<m>]\n\nOptions:\n  --fast       Be fast.\n'
    '  --mode=<m>   Mode [default: plain].\n"""\nfrom docopt import docopt\nimport torch\n'
    "args = docopt(__doc__)\n"
)
SUB = (
    "import argparse\nimport torch\ndef plain(args):\n    print(1)\ndef fast(args):\n"
    "    import cupy\nparser = argparse.ArgumentParser()\nsubs = parser.add_subparsers()\n"
    "a = subs.add_parser('plain')\na.set_defaults(func=plain)\nb = subs.add_parser('fast')\n"
    "b.set_defaults(func=fast)\nargs = parser.parse_args()\nargs.func(args)\n"
)
FF = (
    "import fire\nimport torch\ndef main(mode='plain', lr=1):\n    if mode == 'fast':\n"
    "        import cupy\nfire.Fire(main)\n"
)

# the words that the code gives a parser, or adds to the command's
WORDS: list[tuple[str, Files, str]] = [
    ("main(['--fast'])", {"train.py": MAINARGV + "if __name__ == '__main__':\n    main(['--fast'])\n"}, "ALWAYS"),
    ("main(argv) list var", {"train.py": MAINARGV + "words = ['--fast']\nmain(words)\n"}, "ALWAYS"),
    ("main()", {"train.py": MAINARGV + "if __name__ == '__main__':\n    main()\n"}, "OPTION --fast"),
    ("main(unknown)", {"train.py": MAINARGV + "main(torch.load('x'))\n"}, "CHOSEN"),
    ("main(['--lr', str(x)])", {"train.py": MAINARGV + "x = 3\nmain(['--lr', str(x)])\n"}, "OPTION --fast"),
    (
        "parse_args(words)",
        {"train.py": PARSER + FLAG + "words = ['--fast']\nargs = parser.parse_args(words)\n" + USE.format("args")},
        "ALWAYS",
    ),
    (
        "parse_args(args=words) fn",
        {
            "train.py": (
                "import argparse\nimport torch\ndef get(words):\n    p = argparse.ArgumentParser()\n"
                "    p.add_argument('--fast', action='store_true')\n    return p.parse_args(args=words)\n"
                "args = get(['--fast'])\n"
            )
            + USE.format("args")
        },
        "ALWAYS",
    ),
    (
        "parse_args([])",
        {"train.py": PARSER + FLAG + "args = parser.parse_args([])\n" + USE.format("args")},
        "OPTION --fast",
    ),
    (
        "parse_args(list plus)",
        {
            "train.py": "import sys\n"
            + PARSER
            + FLAG
            + "args = parser.parse_args(sys.argv[1:] + ['--fast'])\n"
            + USE.format("args")
        },
        "ALWAYS",
    ),
    (
        "parse_known_args(argv)",
        {
            "train.py": "import argparse\nimport torch\ndef main(argv):\n    parser = argparse.ArgumentParser()\n    "
            + FLAG
            + (
                "    args, rest = parser.parse_known_args(argv)\n    if args.fast:\n        import cupy\n"
                "main(['--fast'])\n"
            )
        },
        "ALWAYS",
    ),
    (
        "two parsers, rest",
        {
            "train.py": PARSER
            + FLAG
            + (
                "p2 = argparse.ArgumentParser()\np2.add_argument('--x')\na2, rest = p2.parse_known_args()\n"
                "args = parser.parse_args(rest)\n"
            )
            + USE.format("args")
        },
        "OPTION --fast",
    ),
    (
        "same with literal",
        {
            "train.py": (
                "import argparse\nimport torch\nimport sys\ndef parse(args):\n"
                "    parser = argparse.ArgumentParser()\n    "
            )
            + FLAG
            + (
                "    return parser.parse_args(args)\ndef main(args):\n    args = parse(args)\n"
                "    if args.fast:\n        import cupy\ndef run():\n    main(['--fast'])\n"
                "if __name__ == '__main__':\n    run()\n"
            )
        },
        "ALWAYS",
    ),
    (
        "words var sys.argv[1:]",
        {
            "train.py": "import sys\n"
            + PARSER
            + FLAG
            + "words = sys.argv[1:]\nargs = parser.parse_args(words)\n"
            + USE.format("args")
        },
        "OPTION --fast",
    ),
    (
        "vector of input().split",
        {"train.py": PARSER + FLAG + "args = parser.parse_args(input().split())\n" + USE.format("args")},
        "CHOSEN",
    ),
    (
        "sys.argv += x",
        {
            "train.py": "import sys\nx = torch.load('x')\nsys.argv += x\n".replace(
                "x = torch", "import torch\nx = torch"
            )
            + OPTION
        },
        "CHOSEN",
    ),
    (
        "sys.argv.extend(x)",
        {
            "train.py": "import sys\nfrom cfg import words\nsys.argv.extend(words)\n" + OPTION,
            "cfg.py": "words = ['--fast']\n",
        },
        "CHOSEN",
    ),
    (
        "sys.argv = ['a']",
        {"train.py": "import sys\nsys.argv = [sys.argv[0]] + ['--lr', '3']\n" + OPTION},
        "OPTION --fast",
    ),
    (
        "with patch sys.argv",
        {"train.py": "import sys\nimport shlex\nsys.argv = shlex.split('train.py --fast')\n" + OPTION},
        "CHOSEN",
    ),
    ("multi line", {"train.py": "import sys\nsys.argv += [\n    '--fast',\n]\n" + OPTION}, "CHOSEN"),
]

# what a command says, and what stands for it
COMMAND_LINES: list[tuple[str, Files, str]] = [
    ("-vf", {"train.py": S2 + USE.format("args"), "run.sh": "python train.py -vf\n"}, "CHOSEN"),
    (
        "-bcupy",
        {"train.py": S2 + "if args.backend == 'cupy':\n    import cupy\n", "run.sh": "python train.py -bcupy\n"},
        "ALWAYS",
    ),
    ("-v", {"train.py": S2 + USE.format("args"), "run.sh": "python train.py -v\n"}, "OPTION --fast"),
    (
        "-backend cupy single dash long",
        {
            "train.py": PARSER
            + (
                "parser.add_argument('-backend', default='plain')\nargs = parser.parse_args()\n"
                "if args.backend == 'cupy':\n    import cupy\n"
            ),
            "run.sh": "python train.py -backend cupy\n",
        },
        "ALWAYS",
    ),
    (
        "short only -t dest",
        {
            "train.py": PARSER
            + (
                "parser.add_argument('-t', dest='fast', action='store_true')\n"
                "parser.add_argument('-v', action='store_true')\nargs = parser.parse_args()\n"
            )
            + USE.format("args"),
            "run.sh": "python train.py -vt\n",
        },
        "CHOSEN",
    ),
    (
        "short only no dest",
        {
            "train.py": PARSER
            + (
                "parser.add_argument('-t', action='store_true')\n"
                "parser.add_argument('-v', action='store_true')\nargs = parser.parse_args()\nif args.t:\n"
                "    import cupy\n"
            ),
            "run.sh": "python train.py -vt\n",
        },
        "CHOSEN",
    ),
    (
        "short only no dest plain",
        {
            "train.py": PARSER
            + (
                "parser.add_argument('-t', action='store_true')\n"
                "parser.add_argument('-v', action='store_true')\nargs = parser.parse_args()\nif args.t:\n"
                "    import cupy\n"
            ),
            "run.sh": "python train.py -v\n",
        },
        "OPTION -t",
    ),
    ("--back cupy", {"train.py": B3, "run.sh": "python train.py --back cupy\n"}, "ALWAYS"),
    ("--fas", {"train.py": OPTION, "run.sh": "python train.py --fas\n"}, "ALWAYS"),
    (
        "allow_abbrev False",
        {
            "train.py": OPTION.replace("ArgumentParser()", "ArgumentParser(allow_abbrev=False)"),
            "run.sh": "python train.py --fas\n",
        },
        "OPTION --fast",
    ),
    (
        "@file",
        {
            "train.py": OPTION.replace("ArgumentParser()", "ArgumentParser(fromfile_prefix_chars='@')"),
            "run.sh": "python train.py @args.txt\n",
            "args.txt": "--fast\n",
        },
        "CHOSEN",
    ),
    (
        "@file no prefix",
        {"train.py": OPTION, "run.sh": "python train.py @args.txt\n", "args.txt": "--fast\n"},
        "OPTION --fast",
    ),
    (
        "custom action another name, said",
        {
            "train.py": ACT.format("'fast'")
            + (
                "parser.add_argument('--mode', action=X)\nparser.add_argument('--fast', default=False)\n"
                "args = parser.parse_args()\n"
            )
            + USE.format("args"),
            "run.sh": "python train.py --mode 1\n",
        },
        "CHOSEN",
    ),
    (
        "custom action computed name, said",
        {
            "train.py": ACT.format("'fa' + 'st'")
            + (
                "parser.add_argument('--mode', action=X)\nparser.add_argument('--fast', default=False)\n"
                "args = parser.parse_args()\n"
            )
            + USE.format("args"),
            "run.sh": "python train.py --mode 1\n",
        },
        "CHOSEN",
    ),
    (
        "make ARGS",
        {
            "train.py": OPTION,
            "Makefile": "train:\n\tpython train.py $(ARGS)\n",
            "README.md": '```bash\nmake train ARGS="--fast"\n```\n',
        },
        "ALWAYS",
    ),
    (
        "make var override",
        {
            "train.py": OPTION,
            "Makefile": "ARGS ?=\ntrain:\n\tpython train.py $(ARGS)\n",
            "README.md": "```bash\nmake train ARGS=--fast\n```\n",
        },
        "ALWAYS",
    ),
    (
        "var before",
        {
            "train.py": OPTION,
            "Makefile": "train:\n\tpython train.py $(ARGS)\n",
            "README.md": "```bash\nARGS=--fast make train\n```\n",
        },
        "ALWAYS",
    ),
    (
        "other target",
        {
            "train.py": OPTION,
            "Makefile": "train:\n\tpython train.py $(ARGS)\ntest:\n\tpytest $(ARGS)\n",
            "README.md": "```bash\nmake test ARGS=--fast\n```\n",
        },
        "OPTION --fast",
    ),
    ("eval", {"train.py": OPTION, "run.sh": 'CMD="python train.py --fast"\neval "$CMD"\n'}, "ALWAYS"),
    (
        "built up",
        {"train.py": OPTION, "run.sh": 'CMD="python train.py"\nCMD="$CMD --fast"\necho $CMD\neval $CMD\n'},
        "ALWAYS",
    ),
    ("array", {"train.py": OPTION, "run.sh": 'CMD=(python train.py --fast)\n"${CMD[@]}"\n'}, "ALWAYS"),
    (
        "in branch",
        {
            "train.py": OPTION,
            "run.sh": 'if [ $1 ]; then\n CMD="python train.py --fast"\nelse\n CMD="python train.py"\nfi\neval $CMD\n',
        },
        "CHOSEN",
    ),
]

# what helpers hand out, and answer
HANDED_OUT: list[tuple[str, Files, str]] = [
    ("used unchecked", {"train.py": TI + "print(cupy.zeros(1))\n"}, "ALWAYS"),
    ("checked", {"train.py": TI + "if cupy is not None:\n    print(cupy.zeros(1))\n"}, "GUARDED"),
    ("checked then cond import", {"train.py": TI.replace("cupy = ", "cp = ") + "if cp:\n    import cupy\n"}, "GUARDED"),
    (
        "other module",
        {
            "train.py": (
                "import torch\nfrom helpers import try_import\ncupy = try_import('cupy')\nprint(cupy.zeros(1))\n"
            ),
            "helpers.py": TI.rpartition("cupy = ")[0].replace("import torch\n", ""),
        },
        "ALWAYS",
    ),
    (
        "pass, fallthrough",
        {
            "train.py": (
                "import importlib\nimport torch\ndef try_import(name):\n    m = None\n    try:\n"
                "        m = importlib.import_module(name)\n    except ImportError:\n        pass\n"
                "    return m\ncupy = try_import('cupy')\ncupy.zeros(1)\n"
            )
        },
        "ALWAYS",
    ),
    (
        "_try import stmt",
        {
            "train.py": (
                "import torch\ndef get():\n    try:\n        import cupy\n        return cupy\n"
                "    except ImportError:\n        return None\ncp = get()\ncp.zeros(1)\n"
            )
        },
        "ALWAYS",
    ),
    (
        "bool helper",
        {
            "train.py": (
                "import torch\ndef has(name):\n    try:\n        __import__(name)\n        return True\n"
                "    except ImportError:\n        return False\nif has('cupy'):\n    import cupy\n"
            )
        },
        "GUARDED",
    ),
    (
        "has()",
        {
            "train.py": (
                "import torch\nfrom importlib.util import find_spec\ndef has(name):\n"
                "    return find_spec(name) is not None\nif has('cupy'):\n    import cupy\n"
            )
        },
        "GUARDED",
    ),
    (
        "has other module",
        {
            "train.py": "import torch\nfrom h import has\nif has('cupy'):\n    import cupy\n",
            "h.py": "from importlib.util import find_spec\ndef has(name):\n    return find_spec(name) is not None\n",
        },
        "GUARDED",
    ),
    (
        "env helper",
        {
            "train.py": (
                "import os\nimport torch\ndef flag(name, default='0'):\n"
                "    return os.getenv(name, default) == '1'\nif flag('FAST'):\n    import cupy\n"
            )
        },
        "OPTION FAST=1",
    ),
    (
        "env helper set",
        {
            "train.py": (
                "import os\nimport torch\ndef flag(name, default='0'):\n"
                "    return os.getenv(name, default) == '1'\nif flag('FAST'):\n    import cupy\n"
            ),
            "run.sh": "FAST=1 python train.py\n",
        },
        "ALWAYS",
    ),
    (
        "unknown name",
        {
            "train.py": (
                "import torch\nimport os\ndef flag(name):\n    return os.getenv(name)\n"
                "if flag(torch.load('x')):\n    import cupy\n"
            )
        },
        "CHOSEN",
    ),
    (
        "find_spec unknown pkg",
        {
            "train.py": (
                "import torch\nfrom importlib.util import find_spec\ndef has(name):\n"
                "    return find_spec(name) is not None\nif has(torch.load('x')):\n    import cupy\n"
            )
        },
        "CHOSEN",
    ),
    (
        "find_spec default name unrelated",
        {
            "train.py": (
                "import torch\nfrom importlib.util import find_spec\nif find_spec('requests'):\n    import cupy\n"
            )
        },
        "ALWAYS",
    ),
]

# what objects keep, what ends a block, what is filled by names
KEPT: list[tuple[str, Files, str]] = [
    ("registry get unknown", {"train.py": REG + "import sys\nMODELS.get(sys.argv[1])().run()\n"}, "CHOSEN"),
    (
        "registry build unknown",
        {"train.py": REG + "import json\nMODELS.build(json.load(open(input()))).run()\n"},
        "CHOSEN",
    ),
    ("registry not asked", {"train.py": REG + "print(torch.ones(1))\n"}, "NEVER"),
    (
        "registry asked of other",
        {
            "train.py": REG
            + ("@MODELS.register()\nclass Plain:\n    def run(self):\n        pass\nMODELS.get('Plain')().run()\n")
        },
        "NEVER",
    ),
    (
        "nb !python with %env",
        {"train.py": ENVIRONMENT, "a.ipynb": notebook("%env FAST=1", "!python train.py")},
        "ALWAYS",
    ),
    ("own exit", {"train.py": "import torch\ndef exit(x):\n    print(x)\nexit(1)\nimport cupy\n"}, "ALWAYS"),
    (
        "own quit imported",
        {"train.py": "import torch\nfrom h import quit\nquit()\nimport cupy\n", "h.py": "def quit():\n    pass\n"},
        "ALWAYS",
    ),
    (
        "obj exit leaves",
        {
            "train.py": (
                "import torch\nclass A:\n    def exit(self):\n        pass\na = A()\nif not torch.load('x'):\n"
                "    a.exit()\nimport cupy\n"
            )
        },
        "ALWAYS",
    ),
    (
        "setattr on unknown",
        {
            "train.py": (
                "import torch\nfrom types import SimpleNamespace\ncfg = SimpleNamespace(fast=False)\n"
                "objs = []\nobjs.append(cfg)\nfor o in objs:\n    for k, v in torch.load('x').items():\n"
                "        setattr(o, k, v)\n"
            )
            + USE.format("cfg")
        },
        "CHOSEN",
    ),
    (
        "setattr param unknown",
        {
            "train.py": (
                "import torch\nclass C:\n    fast = False\ncfg = C()\ndef fill(o, d):\n"
                "    for k, v in d.items():\n        setattr(o, k, v)\nCALLS = [fill]\n"
                "CALLS[0](cfg, torch.load('x'))\n"
            )
            + USE.format("cfg")
        },
        "CHOSEN",
    ),
    (
        "setattr args unresolved",
        {
            "train.py": PARSER
            + FLAG
            + (
                "args = parser.parse_args()\ndef fill(o, d):\n    for k, v in d.items():\n"
                "        setattr(o, k, v)\nCALLS = [fill]\nCALLS[0](args, torch.load('x'))\n"
            )
            + USE.format("args")
        },
        "CHOSEN",
    ),
    (
        "setattr self",
        {
            "train.py": PARSER
            + FLAG
            + (
                "args = parser.parse_args()\nclass A:\n    def __init__(self, **k):\n"
                "        for n, v in k.items():\n            setattr(self, n, v)\nA(x=1)\n"
            )
            + USE.format("args")
        },
        "OPTION --fast",
    ),
    (
        "setattr module param unknown",
        {
            "train.py": PARSER
            + FLAG
            + (
                "args = parser.parse_args()\ndef replace(module):\n    for n, m in module.named_children():\n"
                "        setattr(module, n, m)\n        replace(m)\nreplace(torch.load('x'))\n"
            )
            + USE.format("args")
        },
        "OPTION --fast",
    ),
]

# defaults that something else may take the place of
DEFAULTS: list[tuple[str, Files, str]] = [
    ("gin file", {"train.py": GIN + "gin.parse_config_file('x.gin')\nrun()\n", "x.gin": "run.fast = True\n"}, "CHOSEN"),
    ("gin no file", {"train.py": GIN + "run()\n"}, "OPTION fast (train.py:5)"),
    (
        "gin class",
        {
            "train.py": (
                "import gin\nimport torch\n@gin.configurable\nclass Run:\n    def __init__(self, fast=False):\n"
                "        self.fast = fast\n    def go(self):\n        if self.fast:\n            import cupy\n"
                "gin.parse_config_file('x.gin')\nRun().go()\n"
            ),
            "x.gin": "Run.fast = True\n",
        },
        "CHOSEN",
    ),
    (
        "gin.register from import",
        {
            "train.py": (
                "from gin import configurable, parse_config_file\nimport torch\n@configurable('r')\n"
                "def run(fast=False):\n    if fast:\n        import cupy\nparse_config_file('x.gin')\nrun()\n"
            ),
            "x.gin": "r.fast = True\n",
        },
        "CHOSEN",
    ),
    ("docker ENV FAST", {"train.py": PYD, "Dockerfile": 'FROM x\nENV FAST=1\nCMD ["python", "train.py"]\n'}, "ALWAYS"),
    (".env", {"train.py": PYD, ".env": "FAST=1\n"}, "CHOSEN"),
    ("nothing", {"train.py": PYD}, "OPTION fast"),
    ("readme FAST=1", {"train.py": PYD, "README.md": "```bash\nFAST=1 python train.py\n```\n"}, "ALWAYS"),
    ("other variable", {"train.py": PYD, "README.md": "```bash\nSLOW=1 python train.py\n```\n"}, "OPTION fast"),
    ("--model.fast", {"train.py": TY, "run.sh": "python train.py --model.fast\n"}, "ALWAYS"),
    ("nothing again", {"train.py": TY}, "OPTION --model.fast"),
    ("a command of Fire, other said", {"train.py": FIRE, "run.sh": "python train.py plain\n"}, "OPTION --trt fast"),
    ("a command of Fire, said", {"train.py": FIRE, "run.sh": "python train.py fast\n"}, "OPTION --trt"),
    ("a command of Fire with its option", {"train.py": FIRE, "run.sh": "python train.py fast --trt\n"}, "ALWAYS"),
    (
        "a command of Fire from another file",
        {**FIRE_APART, "run.sh": "python train.py fast --name y\n"},
        "OPTION --trt",
    ),
    ("the same, with its option", {**FIRE_APART, "run.sh": "python train.py fast --trt\n"}, "ALWAYS"),
    ("draccus", {"train.py": WRAP.format("draccus")}, "OPTION --fast"),
    ("pyrallis, said", {"train.py": WRAP.format("pyrallis"), "run.sh": "python train.py --fast true\n"}, "ALWAYS"),
    ("a module's eval()", {"train.py": MODULE.format(".eval()", "")}, "OPTION fast"),
    ("a module's to()", {"train.py": MODULE.format(".to('cpu').half()", "True")}, "ALWAYS"),
    (
        "--model.no-fast",
        {"train.py": TY, "run.sh": "python train.py --model.no-fast\n"},
        "OPTION cfg.model.fast (train.py:11)",
    ),
    (
        "fn, nothing",
        {
            "train.py": (
                "import tyro\nimport torch\nfrom dataclasses import dataclass, field\n@dataclass\n"
                "class Model:\n    fast: bool = False\ndef main(model: Model):\n    if model.fast:\n"
                "        import cupy\ntyro.cli(main)\n"
            )
        },
        "OPTION --model.fast",
    ),
    ("--other.fast", {"train.py": TY, "run.sh": "python train.py --data.fast\n"}, "OPTION --model.fast"),
    (
        "typer annotated said",
        {
            "train.py": (
                "import typer\nimport torch\nfrom typing import Annotated\n"
                "def main(fast: Annotated[bool, typer.Option('--quick')] = False):\n    if fast:\n"
                "        import cupy\ntyper.run(main)\n"
            ),
            "run.sh": "python train.py --quick\n",
        },
        "ALWAYS",
    ),
    (
        "typer Option said by own flag",
        {
            "train.py": (
                "import typer\nimport torch\ndef main(fast: bool = typer.Option(False, '--quick')):\n"
                "    if fast:\n        import cupy\ntyper.run(main)\n"
            ),
            "run.sh": "python train.py --quick\n",
        },
        "ALWAYS",
    ),
    ("docopt flag", {"train.py": DOC + "if args['--fast']:\n    import cupy\n"}, "OPTION --fast"),
    (
        "docopt said",
        {"train.py": DOC + "if args['--fast']:\n    import cupy\n", "run.sh": "python train.py --fast\n"},
        "ALWAYS",
    ),
    ("docopt default yes", {"train.py": DOC + "if args['--mode'] == 'plain':\n    import cupy\n"}, "ALWAYS"),
    ("fire positional", {"train.py": FF, "run.sh": "python train.py fast\n"}, "CHOSEN"),
    (
        "typer --slow",
        {
            "train.py": (
                "import typer\nimport torch\ndef main(fast: bool = typer.Option(True, '--quick/--slow')):\n"
                "    if fast:\n        import cupy\ntyper.run(main)\n"
            ),
            "run.sh": "python train.py --slow\n",
        },
        "OPTION --quick",
    ),
    (
        "typer argument",
        {
            "train.py": (
                "import typer\nimport torch\ndef main(mode: str = typer.Argument('plain')):\n"
                "    if mode == 'fast':\n        import cupy\ntyper.run(main)\n"
            ),
            "run.sh": "python train.py fast\n",
        },
        "CHOSEN",
    ),
]

# lists, texts and paths, subcommands
TEXTS: list[tuple[str, Files, str]] = [
    (
        "in LIST",
        {
            "train.py": PARSER
            + (
                "LIST = ['a', 'b']\nparser.add_argument('--mode', default='plain')\n"
                "args = parser.parse_args()\nif args.mode in LIST:\n    import cupy\n"
            )
        },
        "OPTION --mode",
    ),
    (
        "in LIST yes",
        {
            "train.py": PARSER
            + (
                "LIST = ['a', 'b']\nparser.add_argument('--mode', default='a')\nargs = parser.parse_args()\n"
                "if args.mode in LIST:\n    import cupy\n"
            )
        },
        "ALWAYS",
    ),
    (
        "in LIST changed",
        {
            "train.py": PARSER
            + (
                "LIST = ['a', 'b']\nLIST.append(torch.load('x'))\n"
                "parser.add_argument('--mode', default='plain')\nargs = parser.parse_args()\n"
                "if args.mode in LIST:\n    import cupy\n"
            )
        },
        "CHOSEN",
    ),
    (
        "in dict keys",
        {
            "train.py": PARSER
            + (
                "TABLE = {'a': 1, 'b': 2}\nparser.add_argument('--mode', default='plain')\n"
                "args = parser.parse_args()\nif args.mode in TABLE:\n    import cupy\n"
            )
        },
        "OPTION --mode",
    ),
    (
        "imported LIST changed",
        {
            "train.py": PARSER
            + (
                "import c\nfrom c import LIST\nc.LIST.extend(torch.load('x'))\n"
                "parser.add_argument('--mode', default='plain')\nargs = parser.parse_args()\n"
                "if args.mode in LIST:\n    import cupy\n"
            ),
            "c.py": "LIST = ['a', 'b']\n",
        },
        "CHOSEN",
    ),
    (
        "not in LIST",
        {
            "train.py": PARSER
            + (
                "LIST = ['plain', 'b']\nparser.add_argument('--mode', default='plain')\n"
                "args = parser.parse_args()\nif args.mode not in LIST:\n    import cupy\n"
            )
        },
        "OPTION --mode",
    ),
    (
        "LIST handed on",
        {
            "train.py": PARSER
            + (
                "LIST = ['a', 'b']\ndef fill(x):\n    x.append('plain')\nfill(LIST)\n"
                "parser.add_argument('--mode', default='plain')\nargs = parser.parse_args()\n"
                "if args.mode in LIST:\n    import cupy\n"
            )
        },
        "CHOSEN",
    ),
    (
        "tuple with starred",
        {
            "train.py": PARSER
            + (
                "A = torch.load('x')\nLIST = ('a', *A)\nparser.add_argument('--mode', default='plain')\n"
                "args = parser.parse_args()\nif args.mode in LIST:\n    import cupy\n"
            )
        },
        "CHOSEN",
    ),
    (
        "suffix",
        {
            "train.py": PARSER
            + (
                "from pathlib import Path\nparser.add_argument('--weights', default='a.pt')\n"
                "args = parser.parse_args()\nif Path(args.weights).suffix == '.trt':\n    import cupy\n"
            )
        },
        "OPTION --weights .trt",
    ),
    (
        "splitext",
        {
            "train.py": PARSER
            + (
                "import os\nparser.add_argument('--weights', default='a.pt')\nargs = parser.parse_args()\n"
                "if os.path.splitext(args.weights)[1] == '.trt':\n    import cupy\n"
            )
        },
        "OPTION --weights .trt",
    ),
    (
        "endswith",
        {
            "train.py": PARSER
            + (
                "parser.add_argument('--weights', default='a.pt')\nargs = parser.parse_args()\n"
                "if args.weights.endswith('.trt'):\n    import cupy\n"
            )
        },
        "OPTION --weights",
    ),
    ("no cmd", {"train.py": SUB}, "CHOSEN"),
    ("plain", {"train.py": SUB, "run.sh": "python train.py plain\n"}, "OPTION fast"),
    ("fast", {"train.py": SUB, "run.sh": "python train.py fast\n"}, "ALWAYS"),
    (
        "dest command fast",
        {
            "train.py": (
                "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
                "subs = parser.add_subparsers(dest='command')\nsubs.add_parser('plain')\n"
                "subs.add_parser('fast')\nargs = parser.parse_args()\nif args.command == 'fast':\n"
                "    import cupy\n"
            ),
            "run.sh": "python train.py fast\n",
        },
        "ALWAYS",
    ),
    (
        "dest no cmd",
        {
            "train.py": (
                "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
                "subs = parser.add_subparsers(dest='command')\nsubs.add_parser('plain')\n"
                "subs.add_parser('fast')\nargs = parser.parse_args()\nif args.command == 'fast':\n"
                "    import cupy\n"
            )
        },
        "CHOSEN",
    ),
]


# what another file uses, and what other commands of one line say
HELPER = TI.partition("cupy = ")[0]
BESIDE: list[tuple[str, Files, str]] = [
    ("handed out to another file", {"train.py": "from h import cupy\ncupy.zeros(1)\n", "h.py": TI}, "ALWAYS"),
    ("handed out to another file, which asks", {
        "train.py": "from h import cupy\nif cupy is not None:\n    cupy.zeros(1)\n", "h.py": TI}, "GUARDED"),
    ("attempted in another file", {
        "train.py": "import torch\nfrom h import cupy\ncupy.zeros(1)\n",
        "h.py": "try:\n    import cupy\nexcept ImportError:\n    cupy = None\n"}, "ALWAYS"),
    ("another package that is handed out", {"train.py": TI + "np = try_import('numpy')\nnp.zeros(1)\n"},
     "GUARDED name (train.py:5)"),
    ("handed out and kept", {"train.py": HELPER + "KEPT = {'a': try_import('cupy')}\nKEPT['a'].zeros(1)\n"}, "CHOSEN"),
    ("a subcommand in a loop", {"train.py": SUB, "run.sh": "for m in plain fast; do python train.py $m; done\n"},
     "CHOSEN"),
    ("a registry that is passed on", {
        "train.py": "import sys\nimport nets\nfrom pkg import MODELS\nMODELS.get(sys.argv[1])()\n",
        "pkg/__init__.py": "from .reg import MODELS\n", "pkg/reg.py": REG.partition("@MODELS")[0],
        "nets.py": "from pkg import MODELS\n@MODELS.register()\nclass Fast:\n    def __init__(self):\n"
        "        import cupy\n"}, "CHOSEN"),
    ("what a registry holds", {"train.py": REG + "import sys\nMODELS.kept[sys.argv[1]]()\n"},
     "CHOSEN"),
    ("a variable of make in a variable", {
        "train.py": OPTION, "README.md": "```bash\nmake train ARGS='--fast'\n```\n",
        "Makefile": "FLAGS = $(ARGS) --x\ntrain:\n\tpython train.py $(FLAGS)\n"}, "ALWAYS"),
    ("words that something fills", {
        "train.py": PARSER + FLAG + "words = []\ndef fill(w):\n    w.append('--fast')\nfill(words)\n"
        "args = parser.parse_args(words)\n" + USE.format("args")}, "CHOSEN"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(files, expected, id=name)
        for name, files, expected in (*WORDS, *COMMAND_LINES, *HANDED_OUT, *KEPT, *DEFAULTS, *TEXTS, *BESIDE)
    ],
)
def test_nothing_is_green_that_is_said_otherwise(files: Files, expected: str, tmp_path: Path) -> None:
    assert " ".join(need(judged(tmp_path, files)["train.py"])).strip() == expected
