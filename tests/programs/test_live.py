"""What a program comes to at all, in the number of places that a migration changes for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import MAIN, Files, judged
from torchferry.programs.model import Verdict

START = "import torch\n{}\nif __name__ == '__main__':\n    {}\n"
KEPT = "import torch\nclass Net:\n    def move(self, x):\n        return x.cuda()\n"
"""A class, of which some module makes an object that others import."""

RANKS = (
    "import torch\nworld = 1\ndef init(count):\n    global world\n    world = count\n"
    "def mean(x):\n    if world == 1:\n        return x\n    return x.cuda()\n"
)
MOVES = "def f(x):\n    return x.cuda()\n"


@pytest.mark.parametrize(
    ("files", "fixes"),
    [
        ({"train.py": START.format(MOVES, "f(torch.ones(2))")}, 1),
        ({"train.py": START.format(MOVES, "pass")}, 0),
        ({"train.py": START.format("import nets", "nets.f(1)"), "nets.py": f"import torch\n{MOVES}"}, 1),
        ({"train.py": START.format("import nets", "pass"), "nets.py": f"import torch\n{MOVES}"}, 0),
        ({"train.py": START.format("from nets import f", "f(1)"), "nets.py": f"import torch\n{MOVES}"}, 1),
        ({"train.py": START.format("from nets import f", "pass"), "nets.py": f"import torch\n{MOVES}"}, 0),
        ({"train.py": START.format("import nets", "pass"), "nets.py": "import torch\nX = torch.ones(2).cuda()\n"}, 1),
        ({"train.py": START.format("import nets", "pass"), "nets.py": START.format("", "torch.ones(2).cuda()")}, 0),
        ({"train.py": START.format("def f():\n    import nets", "f()"),
          "nets.py": "import torch\nX = torch.ones(2).cuda()\n"}, 1),
        ({"train.py": START.format("def f():\n    import nets", "pass"),
          "nets.py": "import torch\nX = torch.ones(2).cuda()\n"}, 0),
        ({"train.py": START.format("from nets import Net", "Net()"), "nets.py": "import torch\n"
          "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x.cuda()\n"}, 1),
        ({"train.py": START.format("from nets import Net", "pass"), "nets.py": "import torch\n"
          "class Net(torch.nn.Module):\n    def __init__(self, device='cuda'):\n        self.to(device)\n"}, 0),
        ({"train.py": START.format("from nets import g", "g()"), "nets.py": f"import torch\n{MOVES}"
          "TABLE = {'f': f}\ndef g():\n    pass\n"}, 0),
        ({"train.py": START.format("from nets import g", "g('f')"), "nets.py": f"import torch\n{MOVES}"
          "TABLE = {'f': f}\ndef g(name):\n    TABLE[name](1)\n"}, 1),
        ({"train.py": START.format(f"import argparse\np = argparse.ArgumentParser()\np.add_argument('--gpu', "
                                   f"action='store_true')\nargs = p.parse_args()\n{MOVES}",
                                   "x = f(1) if args.gpu else 1")}, 1),
        ({"train.py": START.format("from nets import net", "net.move(1)"), "nets.py": f"{KEPT}net = Net()\n"}, 1),
        ({"train.py": START.format("import nets", "nets.net.move(1)"), "nets.py": f"{KEPT}net = Net()\n"}, 1),
        ({"train.py": START.format("from kept import its as own", "own.move(1)"), "nets.py": f"{KEPT}net = Net()\n",
          "kept.py": "from nets import net as its\n"}, 1),
        ({"train.py": START.format("from nets import net", "net.move(1)"),
          "nets.py": f"{KEPT}def made():\n    return Net()\nnet = made()\n"}, 1),
        ({"train.py": START.format("from nets import net", "net.move(1)"),
          "nets.py": f"{KEPT}class Small(Net):\n    pass\nnet = Small()\n"}, 1),
        ({"train.py": START.format("from nets import net", "net.other(1)"), "nets.py": f"{KEPT}net = Net()\n"}, 0),
        ({"train.py": START.format("import nets\nfrom kept import net", "net.move(1)"),
          "nets.py": f"{KEPT}net = Net()\n", "kept.py": "class Own:\n    pass\nnet = Own()\n"}, 0),
        ({"train.py": START.format("import nets\nfrom kept import net", "net.move(1)"),
          "nets.py": f"{KEPT}net = Net()\n", "kept.py": "import logging\nnet = logging.getLogger()\n"}, 0),
        ({"train.py": START.format("import nets, os", "os.move(1)"), "nets.py": f"{KEPT}net = Net()\n"}, 0),
        ({"train.py": START.format("import ranks", "ranks.mean(1)"), "ranks.py": RANKS}, 0),
        ({"train.py": START.format("import ranks", "ranks.init(2)\n    ranks.mean(1)"), "ranks.py": RANKS}, 1),
        ({"train.py": START.format("import ranks", "ranks.mean(1)"), "ranks.py": RANKS.replace("= 1", "= 2", 1)}, 1),
        ({"train.py": START.format("import ranks", "ranks.mean(1)"),
          "ranks.py": RANKS.replace("if world == 1", "if not world")}, 1),
    ],
)  # fmt: skip
def test_fixes_are_counted_where_a_program_comes_to_them(files: Files, fixes: int, tmp_path: Path) -> None:
    program = judged(tmp_path, files)["train.py"]
    assert program.fixes == (fixes + 1 if fixes else 0)  # the import of the plugin is a fix too
    assert program.verdict is (Verdict.FIXES if fixes else Verdict.READY)


JAX = "import jax\nif __name__ == '__main__':\n    jax.jit(print)\n"


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"main.py": JAX}, Verdict.NOT_JUDGED),
        ({"main.py": f"from torch.utils.tensorboard import SummaryWriter\n{JAX}"}, Verdict.NOT_JUDGED),
        ({"main.py": f"import buffers\n{JAX}", "buffers.py": "import torch\n"}, Verdict.NOT_JUDGED),
        ({"main.py": f"import caffe2.python.onnx.backend\n{MAIN}"}, Verdict.NOT_JUDGED),
        ({"main.py": f"import export\n{MAIN}", "export.py": "import caffe2\n"}, Verdict.NOT_JUDGED),
        ({"main.py": f"import sys\nif 'caffe2' in sys.argv:\n    import export\n{MAIN}",
          "export.py": "import caffe2\n"}, Verdict.NOT_JUDGED),
        ({"main.py": f"try:\n    import caffe2\nexcept ImportError:\n    caffe2 = None\n{MAIN}"}, Verdict.READY),
        ({"main.py": f"try:\n    import export\nexcept ImportError:\n    export = None\n{MAIN}",
          "export.py": "import caffe2\n"}, Verdict.READY),
        ({"main.py": f"import torch\nnet = torch.nn.Linear(1, 1)\n{JAX}"}, Verdict.READY),
        ({"main.py": "import torch\nfrom torchvision.ops import nms\n"
          f"kept = nms(torch.ones(2, 4), torch.ones(2), 0.5)\n{JAX}"}, Verdict.NOT_JUDGED),
        ({"main.py": f"import net\n{JAX}", "net.py": "import torch\nclass Net(torch.nn.Module):\n    pass\n"},
         Verdict.READY),
        ({"main.py": f"try:\n    import tensorflow\nexcept ImportError:\n    tensorflow = None\n{MAIN}"},
         Verdict.READY),
        ({"main.py": MAIN, "other.py": JAX}, Verdict.READY),
        ({"main.py": f"def f():\n    import net\n{JAX}",
          "net.py": "import torch\nclass Net(torch.nn.Module):\n    pass\n"}, Verdict.NOT_JUDGED),
    ],
)  # fmt: skip
def test_programs_of_other_frameworks(files: Files, verdict: Verdict, tmp_path: Path) -> None:
    program = judged(tmp_path, files)["main.py"]
    assert program.verdict is verdict
    assert bool(program.unread) is (verdict is Verdict.NOT_JUDGED)


@pytest.mark.parametrize(
    ("files", "fixes"),
    [
        ({"nets/__init__.py": "", "nets/net.py": f"import torch\n{MOVES}"}, 1),
        ({"nets/__init__.py": "", "nets/_net.py": f"import torch\n{MOVES}"}, 0),
        ({"nets/__init__.py": "", "nets/inner/__init__.py": "", "nets/inner/net.py": f"import torch\n{MOVES}"}, 1),
        ({"nets/__init__.py": "from nets.plain import f\n", "nets/plain.py": "def f():\n    pass\n",
          "nets/net.py": f"import torch\n{MOVES}"}, 0),
    ],
)  # fmt: skip
def test_a_library_that_imports_nothing_by_itself_is_all_of_its_public_modules(
    files: Files, fixes: int, tmp_path: Path
) -> None:
    assert judged(tmp_path, files)["nets"].fixes == fixes


@pytest.mark.parametrize(
    ("imports", "fixes"),
    [
        ("import numpy as np\nimport cv2\nimport Queue\n", 0),
        ("import numpy as np\nimport torch\n", 1),
        ("import numpy as np\nimport timm\n", 1),
        ("import numpy as np\nimport a_package_that_no_table_has\n", 1),
    ],
)
def test_what_newer_numpy_refuses_is_no_matter_of_a_program_without_torch(
    imports: str, fixes: int, tmp_path: Path
) -> None:
    text = f"{imports}if __name__ == '__main__':\n    print(np.zeros(2).astype(np.bool))\n"
    program = judged(tmp_path, {"show.py": text})["show.py"]
    assert (program.fixes, program.verdict) == (fixes, Verdict.FIXES if fixes else Verdict.READY)


def test_modules_of_python_2_are_no_packages(tmp_path: Path) -> None:
    text = f"try:\n    import cPickle as pickle\nexcept ImportError:\n    import pickle\n{MAIN}"
    assert judged(tmp_path, {"show.py": text})["show.py"].unverified == ()
