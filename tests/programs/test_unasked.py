"""What decides nothing: names that the settings do not say, makers that nobody asks for, decorators elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
from tests.programs.test_judging import needs
from torchferry.programs.model import Verdict

OPTIONS = (
    "import argparse\nimport torch\nimport yaml\np = argparse.ArgumentParser()\n"
    "p.add_argument('--cfg', default=None)\np.add_argument('--fast', default=None)\nargs = p.parse_args()\n"
)
FILLS = (
    "if args.cfg is not None:\n    with open(args.cfg) as f:\n        more = yaml.safe_load(f)\n"
    "    for k, v in more.items():\n        setattr(args, k, v)\n"
)
NET = (
    "class Net:\n    def __init__(self, fast=None):\n        self.fast = fast\n    def run(self):\n"
    "        if self.fast == 'on':\n            import fast_ops\n"
    "    @classmethod\n    def load(cls, path):\n        import json\n        return cls(**json.load(open(path)))\n"
)
RUNS = "Net(fast=args.fast).run()\n"


@pytest.mark.parametrize(
    ("text", "settings", "words", "need"),
    [
        (FILLS + NET + RUNS, "rate: 1\n", "", "OPTION"),  # no file is read
        (FILLS + NET + RUNS, "rate: 1\n", "--cfg a.yaml", "OPTION"),
        (FILLS + NET + RUNS, "fast: on\n", "--cfg a.yaml", "CHOSEN"),
        (FILLS + NET + RUNS, "fast: on\n", "--cfg b.yaml", "CHOSEN"),  # which is not there
        (
            FILLS.replace("setattr(args, k, v)", "args.__dict__[k] = v") + NET + RUNS,
            "rate: 1\n",
            "--cfg a.yaml",
            "OPTION",
        ),
        (NET + RUNS, "", "", "OPTION"),
        (NET + "Net.load('a.json').run()\n", "", "", "CHOSEN"),
        (NET + "getattr(Net, 'load')('a.json').run()\n", "", "", "CHOSEN"),
        (NET + "class Other(Net):\n    pass\nOther.load('a.json').run()\n" + RUNS, "", "", "CHOSEN"),
        ("import transformers\ntransformers.AutoModel.load('x')\n" + NET + RUNS, "", "", "OPTION"),
    ],
)
def test_a_value_that_nothing_gives_stays_as_it_is(
    text: str, settings: str, words: str, need: str, tmp_path: Path
) -> None:
    files = {"train.py": OPTIONS + text, "a.yaml": settings, "README.md": f"```\npython train.py {words}\n```\n"}
    assert needs(judged(tmp_path, {**BUILT, **files})["train.py"]) == need


COMPILES = "import os\nimport torch\nFAST = os.environ.get('FAST') == '1'\n@torch.compile{}\n{} Net{}:\n    pass\n"


@pytest.mark.parametrize("unit", ["class", "def"])
@pytest.mark.parametrize(
    ("given", "imports", "verdict"),
    [
        ("", "from nets import Net\n", Verdict.DECISIONS),
        ("(disable=not FAST)", "from nets import Net\n", Verdict.READY),
        ("(disable=FAST)", "from nets import Net\n", Verdict.DECISIONS),
        ("", "def unused():\n    from nets import Net\n    return Net()\n", Verdict.READY),
    ],
)
def test_a_decorator_counts_where_it_is_run(
    unit: str, given: str, imports: str, verdict: Verdict, tmp_path: Path
) -> None:
    nets = COMPILES.format(given, unit, "()" if unit == "def" else "")
    program = f"import torch\n{imports}print(torch.ones(1))\n"
    assert judged(tmp_path, {"nets.py": nets, "train.py": program})["train.py"].verdict is verdict
