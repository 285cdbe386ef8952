"""What decides whether a program comes to a place: options, settings, constants, what is installed, what calls give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.programs.small import BUILT, Files, judged
from torchferry.programs.evaluation.object_kinds import Object
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.model import JudgedProgram
from torchferry.programs.syntax.parameters import Expression

ARGS = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n{}\nargs = parser.parse_args()\n"
MAIN = "import torch\n{}\nif __name__ == '__main__':\n    main()\n"


def need(program: JudgedProgram) -> tuple[str, str]:
    """Return how surely a program comes to cupy, and the option that it needs for that."""
    found = [obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == "cupy"]
    return (found[0].reachability.name, " ".join(found[0].options)) if found else ("NEVER", "")


def option(declared: str, test: str) -> str:
    return ARGS.format(declared) + f"if {test}:\n    import cupy\n"


HANDED = """import torch
class Base:
    def __init__(self, kind):
        if kind in ("a", "b"):
            self.kind = kind
        elif kind == "c":
            self.kind = kind
    def run(self):
        if self.kind == "b":
            import cupy
class Net(Base):
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (option("parser.add_argument('--fast', action='store_true')", "args.fast"), "OPTION --fast"),
        (option("parser.add_argument('--no-fast', action='store_true')", "not args.no_fast"), "ALWAYS"),
        (option("parser.add_argument('--no-fast', dest='fast', action='store_false')", "args.fast"), "ALWAYS"),
        (option("parser.add_argument('-f', '--fast', action='store_true')", "args.fast"), "OPTION --fast"),
        (option("parser.add_argument('--fast', action='store_true', default=True)", "args.fast"), "ALWAYS"),
        (option("parser.add_argument('--fast', type=int, default=0)", "args.fast"), "OPTION --fast"),
        (option("parser.add_argument('--fast', type=int, default=0)", "args.fast > 0"), "OPTION --fast"),
        (option("parser.add_argument('--fast', type=int, default=1)", "args.fast == 1"), "ALWAYS"),
        (option("parser.add_argument('--fast', type=bool, default=False)", "args.fast"), "OPTION --fast"),
        (option("parser.add_argument('--fast', action=argparse.BooleanOptionalAction)", "args.fast"), "OPTION --fast"),
        (option("parser.add_argument('--fast', action=argparse.BooleanOptionalAction, default=True)", "args.fast"),
         "ALWAYS"),
        (option("parser.add_argument('--attn', default='plain')", "args.attn == 'cupy'"), "OPTION --attn cupy"),
        (option("parser.add_argument('--attn', default='plain')", "args.attn in ('cupy', 'fast')"), "OPTION --attn"),
        (option("parser.add_argument('--attn', default='cupy')", "args.attn == 'cupy'"), "ALWAYS"),
        (option("parser.add_argument('--attn', default='cupy')", "args.attn != 'cupy'"), "OPTION --attn"),
        (option("parser.add_argument('--type', default='plain')", "args.type == 'cupy'"), "OPTION --type cupy"),
        (option("parser.add_argument('--type', default='plain')", "torch.tensor(1).device.type == 'cuda'"), "CHOSEN"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')")
         + "args.fast = True\nif args.fast:\n    import cupy\n", "ALWAYS"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')")
         + "if args.fast:\n    import cupy\nargs.fast = True\n", "OPTION --fast"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')")
         + "if torch.ones(1):\n    args.fast = True\nif args.fast:\n    import cupy\n", "CHOSEN"),
        ("import torch\nfrom argparse import Namespace\nargs = Namespace(fast=False)\nif args.fast:\n    import cupy\n",
         "OPTION fast"),
        ("import torch\nfrom easydict import EasyDict\nconfig = EasyDict(fast=False)\nif config['fast']:\n"
         "    import cupy\nother = EasyDict(fast=True)\n", "OPTION fast"),
        ("import torch\nhparams = contrib.HParams(fast=True)\nif hparams.fast:\n    import cupy\n", "ALWAYS"),
        ("import torch\nhparams = contrib.HParams(fast=f())\nif hparams.fast:\n    import cupy\n", "CHOSEN"),
        ("import torch\nif 'fast' in globals():\n    import cupy\n", "OPTION 'fast' in globals() (train.py:2)"),
        ("import torch\nif torch.jit.is_tracing():\n    import cupy\n", "OPTION torch.jit.is_tracing() (train.py:2)"),
        ("import torch\nfrom torch.jit import script\ndef f(x):\n    if torch.jit.is_scripting():\n"
         "        import cupy\nscript(f)(1)\n", "CHOSEN"),
        ("import torch\ndef f(x):\n    if torch.jit.is_tracing():\n        import cupy\nf(1)\n"
         "torch.onnx.export(f, 1, 'a')\n", "CHOSEN"),
        ("import torch\n@torch.jit.script\ndef f(x):\n    if torch.jit.is_scripting():\n        import cupy\nf(1)\n",
         "CHOSEN"),
        ("import torch\nfast = 1\nif 'fast' in globals():\n    import cupy\n", "CHOSEN"),
        ("import torch\ntry:\n    import fast\nexcept ImportError:\n    pass\n"
         "if 'fast' in globals():\n    import cupy\n", "GUARDED"),
        ("import os\nimport torch\nif int(os.getenv('WORLD_SIZE', '1')) > 1:\n    import cupy\n", "CHOSEN"),
        ("import os\nimport torch\nif os.getenv('FAST', ''):\n    import cupy\n", "OPTION FAST"),
        (option("parser.add_argument('--weights')", "args.weights"), "OPTION --weights"),
        (option("parser.add_argument('--weights')", "args.weights is not None"), "OPTION --weights"),
        (option("parser.add_argument('--weights', required=True)", "args.weights"), "CHOSEN"),
        (option("parser.add_argument('data')", "args.data == 'cupy'"), "CHOSEN"),
        (option("parser.add_argument('--fast', action='store_true')", "args.fast and torch.ones(1)"),
         "OPTION --fast"),
        (option("parser.add_argument('--fast', action='store_true')", "torch.ones(1) or args.fast"), "CHOSEN"),
        (option("parser.add_argument('--fast', action='store_true')", "not args.fast"), "ALWAYS"),
        (option("parser.add_argument('--fast', action='store_true')", "getattr(args, 'fast', False)"), "OPTION --fast"),
        (option("parser.add_argument('--fast', action='store_true')", "vars(args)['fast']"), "OPTION --fast"),
        (option("parser.add_argument('--fast', action='store_true')\nparser.set_defaults(fast=True)", "args.fast"),
         "ALWAYS"),
        (option("FAST = parser.add_argument('--fast', action='store_const', const=2, default=0)", "args.fast"),
         "OPTION --fast"),
        (option("parser.add_argument('--cpu', action='store_true')",
                "not args.cpu and torch.cuda.is_available()"), "ALWAYS"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')") + "fast = args.fast\nif fast:\n    import cupy\n",  # noqa: E501
         "OPTION --fast"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')")
         + "def f():\n    if not args.fast:\n        return\n    import cupy\nf()\n", "OPTION --fast"),
        (ARGS.format("parser.add_argument('--fast', action='store_true')")
         + "def f():\n    assert args.fast\n    import cupy\nf()\n", "ALWAYS"),
        (ARGS.format("parser.add_argument('--mode', default='a')")
         + "match args.mode:\n    case 'a':\n        pass\n    case 'b':\n        import cupy\n", "OPTION --mode b"),
        (ARGS.format("parser.add_argument('--mode', default='a')")
         + "match args.mode:\n    case 'b' | 'c':\n        import cupy\n", "OPTION --mode"),
        (ARGS.format("parser.add_argument('--mode', default='a')")
         + "match args.mode:\n    case 'a':\n        pass\n    case _:\n        import cupy\n", "OPTION --mode"),
        (ARGS.format("parser.add_argument('--mode', default='a')")
         + "if args.mode == 'a':\n    pass\nelif args.mode == 'b':\n    import cupy\n", "OPTION"),
        (ARGS.format("parser.add_argument('--mode', default='a')")
         + "if args.mode == 'a':\n    pass\nelse:\n    import cupy\n", "OPTION --mode"),
        ("from absl import app, flags\nimport torch\nflags.DEFINE_bool('fast', False, 'help')\nFLAGS = flags.FLAGS\n"
         "def main(_):\n    if FLAGS.fast:\n        import cupy\nif __name__ == '__main__':\n    app.run(main)\n",
         "OPTION --fast"),
        ("from absl import app, flags\nimport torch\nFAST = flags.DEFINE_bool('fast', False, 'help')\n"
         "def main(_):\n    if FAST.value:\n        import cupy\nif __name__ == '__main__':\n    app.run(main)\n",
         "OPTION --fast"),
        ("import click\nimport torch\n@click.command()\n@click.option('--fast', is_flag=True)\ndef main(fast):\n"
         "    if fast:\n        import cupy\nif __name__ == '__main__':\n    main()\n", "OPTION --fast"),
        ("import click\nimport torch\n@click.command()\n@click.option('--fast/--no-fast', default=True)\ndef main(fast):\n"  # noqa: E501
         "    if fast:\n        import cupy\nif __name__ == '__main__':\n    main()\n", "ALWAYS"),
        ("import fire\nimport torch\ndef main(fast=False):\n    if fast:\n        import cupy\nif __name__ == '__main__':\n"  # noqa: E501
         "    fire.Fire(main)\n", "OPTION --fast"),
        ("import typer\nimport torch\ndef main(fast: bool = False):\n    if fast:\n        import cupy\n"
         "if __name__ == '__main__':\n    typer.run(main)\n", "OPTION --fast"),
        ("from dataclasses import dataclass\nimport torch\n@dataclass\nclass Config:\n    fast: bool = False\n"
         "config = Config()\nif config.fast:\n    import cupy\n", "OPTION fast"),
        ("from dataclasses import dataclass, field\nimport torch\n@dataclass\nclass Config:\n"
         "    fast: bool = field(default=True, metadata={})\nconfig = Config()\nif config.fast:\n    import cupy\n", "ALWAYS"),  # noqa: E501
        ("import torch\nFAST = False\nif FAST:\n    import cupy\nprint(1)\n", "OPTION FAST"),
        ("import torch\nFAST = True\nif FAST:\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import os\nimport torch\nif os.environ.get('FAST'):\n    import cupy\nprint(1)\n", "OPTION FAST"),
        ("import os\nimport torch\nif os.environ.get('FAST', '0') == '1':\n    import cupy\nprint(1)\n", "OPTION FAST=1"),  # noqa: E501
        ("import os\nimport torch\nif int(os.getenv('FAST', 0)):\n    import cupy\nprint(1)\n", "OPTION FAST"),
        ("import os\nimport torch\nif 'FAST' in os.environ:\n    import cupy\nprint(1)\n", "OPTION FAST"),
        ("import os\nimport torch\nif os.environ.get('PLAIN', '0') == '0':\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import sys\nimport torch\nif sys.platform == 'win32':\n    import cupy\nprint(1)\n", "OPTION"),
        ("import sys\nimport torch\nif sys.version_info >= (3, 8):\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import torch\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cupy\nprint(1)\n", "NEVER"),
        ("import torch\nif torch.cuda.is_available():\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import torch\nif torch.version.cuda:\n    import cupy\nprint(1)\n", "GUARDED"),
        ("import torch\nif torch.version.hip is None:\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import torch\nif False:\n    import cupy\nprint(1)\n", "OPTION"),
        ("import torch\nwhile True:\n    import cupy\n    break\n", "ALWAYS"),
        ("import torch\nfor i in range(2):\n    import cupy\n", "ALWAYS"),
        ("import torch\nx = torch.ones(1)\nif x.sum() > 0:\n    import cupy\nprint(1)\n", "CHOSEN"),
        ("import torch\nfrom transformers.utils import is_cupy_available\nif is_cupy_available():\n    import cupy\nprint(1)\n",  # noqa: E501
         "GUARDED"),
        ("import importlib.util\nimport torch\nif importlib.util.find_spec('cupy'):\n    import cupy\nprint(1)\n",
         "GUARDED"),
        ("import importlib.util\nimport torch\nif importlib.util.find_spec('cupy') is not None:\n    import cupy\nprint(1)\n",  # noqa: E501
         "GUARDED"),
        ("import importlib.util\nimport torch\nHAS = importlib.util.find_spec('cupy') is not None\nif HAS:\n"
         "    import cupy\nprint(1)\n", "GUARDED"),
        ("import torch\ntry:\n    import cupy\n    FAST = True\nexcept ImportError:\n    FAST = False\nif FAST:\n"
         "    print(cupy.zeros(2))\n", "GUARDED"),
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    cupy = None\nif cupy is not None:\n"
         "    print(cupy.zeros(2))\n", "GUARDED"),
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    cupy = None\nprint(cupy.zeros(2))\n", "ALWAYS"),
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    pass\ndef f():\n    return cupy.zeros(2)\nprint(f())\n",  # noqa: E501
         "ALWAYS"),
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    pass\ndef f():\n    return cupy.zeros(2)\nprint(1)\n",  # noqa: E501
         "GUARDED"),
        ("import torch\ntry:\n    import cupy as np\nexcept ImportError:\n    import numpy as np\nprint(np.zeros(2))\n",
         "GUARDED"),
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    raise RuntimeError('install it')\nprint(1)\n", "ALWAYS"),  # noqa: E501
        ("import torch\ntry:\n    import cupy\nexcept ValueError:\n    pass\nprint(1)\n", "ALWAYS"),
        ("import torch\ntry:\n    import cupy\nexcept:\n    pass\nprint(1)\n", "GUARDED"),
        ("import torch\ntry:\n    import cupy\nexcept RuntimeError:\n    pass\nprint(1)\n", "ALWAYS"),
        ("import torch\ntry:\n    import cupy\nexcept (OSError, ValueError):\n    pass\nprint(1)\n", "ALWAYS"),
        ("import torch\ntry:\n    import cupy\nexcept (OSError, ModuleNotFoundError):\n    pass\nprint(1)\n", "GUARDED"),  # noqa: E501
        ("import torch\ntry:\n    import cupy\nexcept ImportError:\n    raise\nexcept Exception:\n    pass\n", "ALWAYS"),  # noqa: E501
        ("import torch\ntry:\n    import cupy\nexcept OSError:\n    raise\nexcept ImportError:\n    pass\n", "GUARDED"),
        ("import contextlib\nimport torch\nwith contextlib.suppress(OSError):\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import torch\ndef f():\n    import cupy\ndef main():\n    try:\n        f()\n    except RuntimeError:\n"
         "        print(1)\nmain()\n", "ALWAYS"),
        ("import torch\ndef f():\n    import cupy\ndef main():\n    try:\n        f()\n    except ImportError:\n"
         "        print(1)\nmain()\n", "GUARDED"),
        ("import torch\ntry:\n    import cupy\nfinally:\n    print(1)\n", "ALWAYS"),
        ("import contextlib\nimport torch\nwith contextlib.suppress(ImportError):\n    import cupy\nprint(1)\n", "GUARDED"),  # noqa: E501
        ("import torch\ntry:\n    import numpy\nexcept ImportError:\n    import cupy\nprint(1)\n", "CHOSEN"),
        ("import torch\ntry:\n    import pycuda.driver\nexcept ImportError:\n    import cupy\nprint(1)\n", "ALWAYS"),
        ("import torch\ntry:\n    print(1)\nexcept KeyboardInterrupt:\n    import cupy\n", "CHOSEN"),
        ("import torch\ntry:\n    print(1)\nexcept ImportError:\n    pass\nelse:\n    import cupy\n", "ALWAYS"),
        ("import torch\ndef f(fast=False):\n    if fast:\n        import cupy\nf()\n", "OPTION"),
        ("import torch\ndef f(fast=False):\n    if fast:\n        import cupy\nf(True)\n", "ALWAYS"),
        ("import torch\ndef f(fast=False):\n    if fast:\n        import cupy\nf(fast=True)\n", "ALWAYS"),
        ("import torch\ndef f(x, *, fast=True):\n    if fast:\n        import cupy\nf(2)\n", "ALWAYS"),
        ("import torch\ndef f(fast):\n    if fast:\n        import cupy\nf(False)\nf(True)\n", "ALWAYS"),
        ("import torch\ndef g(fast):\n    if fast:\n        import cupy\ndef f(fast=False):\n    g(fast)\nf()\n", "OPTION"),  # noqa: E501
        ("import torch\ndef g(fast):\n    if fast:\n        import cupy\ndef f(fast=False):\n    g(fast)\nf(True)\n", "ALWAYS"),  # noqa: E501
        ("import torch\nclass Net(torch.nn.Module):\n    def __init__(self, fast=False):\n        self.fast = fast\n"
         "    def forward(self, x):\n        if self.fast:\n            import cupy\n        return x\nNet()(1)\n", "OPTION"),  # noqa: E501
        ("import torch\nclass Net(torch.nn.Module):\n    def __init__(self, fast=False):\n        self.fast = fast\n"
         "    def forward(self, x):\n        if self.fast:\n            import cupy\n        return x\nNet(True)(1)\n", "ALWAYS"),  # noqa: E501
        ("import torch\nclass Net(torch.nn.Module):\n    fast = False\n"
         "    def forward(self, x):\n        if self.fast:\n            import cupy\n        return x\nNet()(1)\n", "OPTION"),  # noqa: E501
        ("import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        self.fast = False\n"
         "    def enable(self):\n        self.fast = True\n"
         "    def forward(self, x):\n        if self.fast:\n            import cupy\n        return x\nNet()(1)\n", "CHOSEN"),  # noqa: E501
        (f"{HANDED}    def __init__(self, kind='a'):\n        super().__init__(kind=kind)\nNet('b').run()\n", "ALWAYS"),
        (f"{HANDED}    def __init__(self, kind='a'):\n        super().__init__(kind=kind)\nNet().run()\n", "OPTION"),
        (f"{HANDED}    def __init__(self, kind='a'):\n        super().__init__(kind=kind)\nNet(torch.ones(1)).run()\n",
         "CHOSEN"),
        ("import torch\nclass Options:\n    def __init__(self):\n        self.fast = False\n"
         "def f(opt):\n    if opt.fast:\n        import cupy\nf(Options())\n", "OPTION"),
        ("import torch\nclass Options:\n    def __init__(self):\n        self.fast = True\n        self.opt = print\n"
         "        self.opt.fast = self.fast\ndef f(opt):\n    if opt.fast:\n        import cupy\nf(Options().opt)\n",
         "ALWAYS"),
        ("import torch\nclass Options:\n    def __init__(self):\n        self.fast = False\n"
         "def f(opt):\n    opt.fast = opt.slow is None\n    g(opt)\ndef g(opt):\n    if opt.fast:\n"
         "        import cupy\nf(Options())\n", "CHOSEN"),
        ("import torch\nclass Options:\n    def __init__(self, x):\n        if x:\n            self.fast = False\n"
         "def f(opt):\n    if opt.fast:\n        import cupy\nf(Options(1))\n", "CHOSEN"),
        ("import torch\nclass Options:\n    def __init__(self, more):\n        self.fast = False\n"
         "        for key in more:\n            setattr(self, key, True)\n"
         "def f(opt):\n    if opt.fast:\n        import cupy\nf(Options(1))\n", "CHOSEN"),
        ("import torch\nclass A:\n    def __init__(self):\n        self.fast = False\n"
         "class B:\n    def __init__(self):\n        self.fast = True\n"
         "def f(opt):\n    if opt.fast:\n        import cupy\nf(B())\n", "ALWAYS"),
        ("import torch\nconfig = {'fast': False}\nif config['fast']:\n    import cupy\nprint(1)\n", "OPTION"),
        ("import torch\nconfig = dict(fast=False)\nif config['fast']:\n    import cupy\nprint(1)\n", "OPTION"),
        ("import torch\ndef f(**kwargs):\n    if kwargs.get('fast', False):\n        import cupy\nf()\n", "OPTION fast"),  # noqa: E501
        ("import torch\nx = 2 if torch.ones(1) else 3\nif (y := x) == 4:\n    import cupy\nprint(1)\n", "CHOSEN"),
    ],
)  # fmt: skip
def test_conditions(text: str, expected: str, tmp_path: Path) -> None:
    found = need(judged(tmp_path, {"train.py": text})["train.py"])
    if " " in expected or expected not in ("OPTION",):
        assert " ".join(found).strip() == expected
    else:
        assert found[0] == expected


PLAIN = ARGS.format(
    "parser.add_argument('--fast', action='store_true')\nparser.add_argument('--attn', default='plain')"
)
FAST = PLAIN + "if args.fast:\n    import cupy\n"
ATTN = PLAIN + "if args.attn == 'cupy':\n    import cupy\n"
SETTING = (
    "import yaml\nimport torch\nconfig = yaml.safe_load(open('config.yaml'))\nif config['fast']:\n    import cupy\n"
)
HYDRA = (
    "import hydra\nimport torch\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n"
    "    if cfg.model.fast:\n        import cupy\nif __name__ == '__main__':\n    main()\n"
)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train.py": FAST, "run.sh": "python train.py --fast\n"}, "ALWAYS"),
        ({"train.py": FAST, "run.sh": "python train.py\n"}, "OPTION"),
        ({"train.py": ATTN, "README.md": "```bash\npython train.py --attn cupy\n```\n"}, "ALWAYS"),
        ({"train.py": ATTN, "README.md": "```bash\npython train.py --attn=cupy\n```\n"}, "ALWAYS"),
        ({"train.py": ATTN, "README.md": "```bash\npython train.py --attn sdpa\n```\n"}, "OPTION"),
        ({"train.py": SETTING, "config.yaml": "fast: true\n"}, "ALWAYS"),
        ({"train.py": SETTING, "config.yaml": "fast: false  # slow\n"}, "OPTION"),
        ({"train.py": SETTING, "a.yaml": "fast: false\n", "b.yaml": "fast: true\n"}, "CHOSEN"),
        ({"train.py": SETTING, "tests/config.yaml": "fast: true\n", "config.yaml": "fast: false\n"}, "OPTION"),
        ({"train.py": SETTING.replace("yaml'", "json'"), "config.json": '{"fast": false, "x": 1}'}, "OPTION"),
        ({"train.py": SETTING, "config.json": '{"fast": false, "x": 1}'}, "CHOSEN"),
        ({"train.py": HYDRA, "conf/config.yaml": "model:\n  fast: false\n"}, "OPTION"),
        ({"train.py": HYDRA, "conf/config.yaml": "model:\n  fast: false\n",
          "run.sh": "python train.py model.fast=true\n"}, "ALWAYS"),
        ({"train.py": HYDRA, "conf/config.yaml": "model:\n  fast: True\n"}, "ALWAYS"),
        ({"train.py": "import torch\nfrom settings import FAST\nif FAST:\n    import cupy\n", "settings.py": "FAST = False\n"},  # noqa: E501
         "OPTION"),
        ({"train.py": "import torch\nimport settings\nif settings.FAST:\n    import cupy\n", "settings.py": "FAST = False\n"},  # noqa: E501
         "OPTION"),
        ({"train.py": "import torch\nfrom settings import *\nif FAST:\n    import cupy\n", "settings.py": "FAST = True\n"},  # noqa: E501
         "ALWAYS"),
        ({"train.py": "import torch\nfrom fast import HAS_CUPY\nif HAS_CUPY:\n    import cupy\n",
          "fast.py": "try:\n    import cupy\n    HAS_CUPY = True\nexcept ImportError:\n    HAS_CUPY = False\n"}, "GUARDED"),  # noqa: E501
        ({"train.py": "import torch\nfrom fast import has_cupy\nif has_cupy():\n    import cupy\n",
          "fast.py": "def has_cupy():\n    try:\n        import cupy\n        return True\n    except ImportError:\n"
          "        return False\n"}, "GUARDED"),
        ({"train.py": "import torch\nfrom fast import usable\nif usable():\n    import cupy\n",
          "fast.py": "import importlib.util\ndef usable():\n    return importlib.util.find_spec('cupy') is not None\n"},
         "GUARDED"),
    ],
)  # fmt: skip
def test_what_is_said_elsewhere(files: Files, expected: str, tmp_path: Path) -> None:
    assert need(judged(tmp_path, files)["train.py"])[0] == expected


MAIN_OF_ARGUMENTS = (
    "import argparse\nimport torch\nfrom pack import build\nif __name__ == '__main__':\n"
    "    parser = argparse.ArgumentParser()\n    parser.add_argument('--fast', default={default})\n"
    "    build(parser.parse_args())\n"
)
SHARED = {
    "pack.py": "import torch\ndef build(args):\n    if args.fast:\n        import cupy\n",
    "names.py": "import torch\ndef build(name):\n    if name == 'gpu':\n        import cupy\n"
    "def through(name):\n    return build(name)\n",
    "off.py": MAIN_OF_ARGUMENTS.format(default=False),
    "on.py": MAIN_OF_ARGUMENTS.format(default=True),
    "off_too.py": MAIN_OF_ARGUMENTS.format(default=False),
    "named.py": "import torch\nfrom names import through\nif __name__ == '__main__':\n    through('gpu')\n",
}
"""Programs that reach one condition and say different things to it."""


def test_an_answer_is_shared_only_by_programs_that_say_the_same(tmp_path: Path) -> None:
    programs = judged(tmp_path, SHARED)
    expected = {"off.py": "OPTION", "on.py": "ALWAYS", "off_too.py": "OPTION", "named.py": "ALWAYS"}
    assert {name: need(programs[name])[0] for name in expected} == expected


STUB = {
    "ops.py": "import torch\n{stub}\ntry:\n    import fast_ops\n    def fast(x):\n        return fast_ops.run(x)\n"
    "except ImportError:\n    pass\n"
    "run = {first}\nif 'fast' in globals():\n    run = fast\n{other}",
    "train.py": "import torch\nfrom ops import run\nif __name__ == '__main__':\n    {use}\n",
}
RAISES = 'def missing(x):\n    """Nothing."""\n    raise NotImplementedError'
PLAIN = "def missing(x):\n    return x"
TRITON = (
    "try:\n    import triton\n    def tri(x):\n        return x\nexcept ImportError:\n    pass\n"
    "if 'tri' in globals():\n    run = tri\n"
)


@pytest.mark.parametrize(
    ("stub", "other", "use", "expected"),
    [
        (RAISES, "", "run(1)", "ALWAYS"),
        (RAISES, TRITON, "run(1)", "ALWAYS"),
        (RAISES.replace("def missing(x)", "class missing:\n  def forward(x)"), "", "run(1)", "ALWAYS"),
        (RAISES, "", "pass", "GUARDED"),
        (RAISES, "if torch.ones(1):\n    run = print\n", "run(1)", "GUARDED"),
        (PLAIN, "", "run(1)", "GUARDED"),
    ],
)
def test_where_every_alternative_lacks_the_stub_blocks(
    stub: str, other: str, use: str, expected: str, tmp_path: Path
) -> None:
    values = {"stub": stub, "other": other, "use": use, "first": "missing"}
    files = {name: text.format(**values) for name, text in STUB.items()}
    program = judged(tmp_path, {**BUILT, **files})["train.py"]
    found = [obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == "fast_ops"]
    assert [way.reachability.name for way in found] == [expected]


EITHER = "import torch\nimport torch_scatter\nif torch.ones(1):\n    torch_scatter.scatter_max(1, 2)\nelse:\n"


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ("    with torch.no_grad():\n        torch_scatter.scatter_max(1, 2)\n", "ALWAYS"),
        ("    if torch.ones(2):\n        torch_scatter.scatter_max(1, 2)\n", "CHOSEN"),
        ("    torch_scatter.scatter_mean(1, 2)\n", "CHOSEN"),
    ],
)
def test_a_condition_of_which_both_branches_lack_something_is_no_question(
    beside: str, expected: str, tmp_path: Path
) -> None:
    program = judged(tmp_path, {"train.py": EITHER + beside})["train.py"]
    ways = [
        obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == "torch-scatter"
    ]
    assert [way.reachability.name for way in ways] == [expected]


CONFIG = "class Config:\n    kernel = 'cupy'\n    fast = False\n    def other(self):\n        return 1\n"
TAKES = MAIN.format(
    "from config import *\ndef run(config):\n    if config.{}:\n        import cupy\ndef main():\n    run({})\n"
)


@pytest.mark.parametrize(
    ("config", "test", "given", "expected"),
    [
        (CONFIG, "kernel == 'cupy'", "Config", "ALWAYS"),
        (CONFIG, "kernel == 'cupy'", "Config()", "ALWAYS"),
        (CONFIG, "kernel == 'plain'", "Config", "OPTION kernel=plain"),
        (CONFIG, "fast", "Config", "OPTION fast"),
        (CONFIG + "class Own(Config):\n    fast = True\n", "fast", "Own", "ALWAYS"),
        (CONFIG + "class Own(Config):\n    x = 1\n", "kernel == 'cupy'", "Own", "ALWAYS"),
        ("from dataclasses import dataclass\n@dataclass\n" + CONFIG, "fast", "Config(fast=True)", "ALWAYS"),
        # what may be another value
        (CONFIG + "for k in ('fast',):\n    setattr(Config, k, True)\n", "fast", "Config", "CHOSEN"),
        (CONFIG + "Config.fast = input()\n", "fast", "Config", "CHOSEN"),
        (CONFIG + "def change(config):\n    config.fast = input()\n", "fast", "Config", "CHOSEN"),
        ("class Config:\n    def __init__(self):\n        self.fast = input()\n    fast = False\n", "fast", "Config()",
         "CHOSEN"),
    ],
)  # fmt: skip
def test_what_the_body_of_a_class_gives_an_attribute(
    config: str, test: str, given: str, expected: str, tmp_path: Path
) -> None:
    files = {"config.py": config, "train.py": TAKES.format(test, given)}
    assert " ".join(need(judged(tmp_path, files)["train.py"])).strip() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if args.net == 'fast':\n    import cupy\nelse:\n    raise ValueError(args.net)\n", "ALWAYS"),
        ("if args.net != 'fast':\n    raise ValueError(args.net)\nelse:\n    import cupy\n", "ALWAYS"),
        ("if args.net == 'fast':\n    import cupy\nelse:\n    sys.exit('no such net')\n", "ALWAYS"),
        ("if args.net == 'fast':\n    import cupy\nelse:\n    sys.exit(2)\n", "ALWAYS"),
        ("if args.net == 'fast':\n    import cupy\nelse:\n    assert False, args.net\n", "ALWAYS"),
        ("if args.net == 'a':\n    import cupy\nelif args.net:\n    raise E\nelse:\n    os.abort()\n", "ALWAYS"),
        # an alternative that goes on
        ("if args.net == 'a':\n    import cupy\nelif args.net == 'b':\n    pass\nelse:\n    raise E\n", "CHOSEN"),
        ("if args.net == 'fast':\n    import cupy\nelse:\n    sys.exit(0)\n", "CHOSEN"),
        ("if args.net == 'fast':\n    import cupy\nelse:\n    sys.exit()\n", "CHOSEN"),
        ("if args.net == 'a':\n    import cupy\nelse:\n    while y:\n        continue\n    sys.exit(1)\n", "CHOSEN"),
        ("if args.net == 'a':\n    import cupy\nelse:\n    for x in y:\n        break\n    raise E\n", "CHOSEN"),
    ],
)  # fmt: skip
def test_what_only_fails_is_no_alternative(text: str, expected: str, tmp_path: Path) -> None:
    files = {"train.py": "import os\nimport sys\n" + ARGS.format("parser.add_argument('--net', required=True)") + text}
    assert need(judged(tmp_path, files)["train.py"])[0] == expected


def test_what_another_file_gives_a_class_is_not_passed_over(tmp_path: Path) -> None:
    changing = "import argparse\nfrom config import Config\nConfig.fast = argparse.ArgumentParser().parse_args().fast\n"
    files = {
        "config.py": CONFIG,
        "changing.py": changing,
        "train.py": "import changing\n" + TAKES.format("fast", "Config"),
    }
    assert need(judged(tmp_path, files)["train.py"])[0] == "CHOSEN"


def test_a_class_that_many_functions_hand_on_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of eight functions is called at twelve places of the one before it: 12 ** 8 ways."""
    functions = "".join(f"def f{n}(cfg):\n" + f"    f{n + 1}(cfg)\n" * 12 for n in range(8))
    last = "def f8(cfg):\n    if cfg.kernel == 'cupy':\n        import cupy\n"
    text = f"import torch\n{CONFIG}{functions}{last}f0(Config)\n"
    asked = Counter[str]()
    of = Objects.of

    def counted(self: Objects, where: Expression, depth: int = 0) -> tuple[Object, ...] | None:
        asked["object"] += 1
        return of(self, where, depth)

    monkeypatch.setattr(Objects, "of", counted)
    judged(tmp_path, {"train.py": text})
    assert 0 < asked["object"] < 1000
