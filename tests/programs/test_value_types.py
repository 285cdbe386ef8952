"""The verdict of programs in which the type of an argument decides what they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import judged
from torchferry.programs.model import Verdict

B, W, M = Verdict.BLOCKED, Verdict.WITHOUT, Verdict.MAY_NEED
START = "import torch\nimport numpy as np\nfrom torch import Tensor, nn\n"
LOADED = "torch.load('x', map_location='cpu')"
"""Something of which no file says what it is."""


def verdict(tmp_path: Path, definitions: str, body: str) -> Verdict:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{START}{definitions}\ndef main():\n{lines}\nif __name__ == '__main__':\n    main()\n"
    return judged(tmp_path, {"train.py": text})["train.py"].verdict


def function(condition: str) -> str:
    """Return a function that needs flash-attn where a condition on what it is given holds."""
    return f"def attend(x, y=None):\n    if {condition}:\n        import flash_attn\n    return x\n"


def module(condition: str) -> str:
    """Return a module that needs flash-attn where a condition on what it is given holds."""
    return (
        "class Net(nn.Module):\n    def forward(self, x, y=None):\n"
        f"        if {condition}:\n            import flash_attn\n        return x\n"
    )


OUTER = "def outer(z):\n    return attend(z)\n"
NOTED = "def outer(z: Tensor):\n    return attend(z)\n"
NOTED_OR_NONE = "def outer(z: Tensor = None):\n    return attend(z)\n"
OWN = "class Base:\n    pass\nclass Own(Base):\n    pass\nclass Other:\n    pass\n"
OWN_MODULE = "class Own(nn.Module):\n    pass\n"
FOREIGN = "from lib import Foreign\nclass Own(Foreign):\n    pass\n"


@pytest.mark.parametrize(
    ("condition", "more", "body", "expected"),
    [
        ("isinstance(x, list)", "", "attend([torch.ones(2)])", B),
        ("isinstance(x, list)", "", "attend([torch.ones(2) for _ in range(3)])", B),
        ("isinstance(x, list)", "", "z = [1]\nattend(z)", B),
        ("isinstance(x, list)", "", "attend(torch.ones(2))", W),
        ("isinstance(x, list)", "", "z = torch.ones(2).unsqueeze(0).cuda()\nattend(z + 1)", W),
        ("isinstance(x, list)", "", f"attend({LOADED})", M),
        ("isinstance(x, list)", "", f"for z in {LOADED}:\n    attend(z)", M),
        ("isinstance(x, list)", "", f"attend({LOADED}.cuda())", M),
        ("isinstance(x, list)", "", "attend([1])\nattend(torch.ones(1))", B),
        ("isinstance(x, list)", "", "attend(torch.ones(2))\nattend(torch.ones(1))", W),
        ("isinstance(x, list)", "", "z = torch.ones(1)\nif len(input()) > 3:\n    z = [z]\nattend(z)", M),
        ("isinstance(x, list)", OUTER, "outer([torch.ones(1)])", B),
        ("isinstance(x, list)", OUTER, "outer(torch.ones(1))", W),
        ("isinstance(x, list)", OUTER, f"outer({LOADED})", M),
        ("isinstance(x, list)", NOTED, f"outer({LOADED})", W),
        ("x is None", NOTED_OR_NONE, f"outer({LOADED})", M),
        ("isinstance(x, list)", "def make():\n    return torch.ones(1)\n", "attend(make())", W),
        ("isinstance(x, list)", "def make():\n    return [1]\n", "attend(make())", B),
        ("isinstance(x, list)", f"def make() -> Tensor:\n    return {LOADED}\n", "attend(make())", W),
        ("x is None", "def make():\n    if len(input()) > 3:\n        return [1]\n", "attend(make())", M),
        ("not isinstance(x, torch.Tensor)", "", "attend([1])", B),
        ("not isinstance(x, Tensor)", "", "attend(torch.ones(1))", W),
        ("isinstance(x, (list, tuple))", "", "attend((1, 2))", B),
        ("isinstance(x, list | tuple)", "", "attend(torch.ones(1))", W),
        ("isinstance(x, KINDS)", "KINDS = (list, tuple)\n", "attend([1])", B),
        ("isinstance(x, Kind)", "from lib import Kind\n", "attend([1])", M),
        ("isinstance(x, Sequence)", "from collections.abc import Sequence\n", "attend([1])", B),
        ("isinstance(x, Sequence)", "from collections.abc import Sequence\n", "attend(torch.ones(1))", W),
        ("isinstance(x, int)", "", "attend(True)", B),
        ("isinstance(x, str)", "", "attend(3)", W),
        ("isinstance(x, dict)", "", "attend(dict(a=1))", B),
        ("isinstance(x, np.ndarray)", "", "attend(np.zeros(2))", B),
        ("isinstance(x, Own)", OWN, "attend(Own())", B),
        ("isinstance(x, Base)", OWN, "attend(Own())", B),
        ("isinstance(x, Other)", OWN, "attend(Own())", W),
        ("isinstance(x, Other)", OWN, "attend(torch.ones(1))", W),
        ("isinstance(x, nn.Module)", OWN_MODULE, "attend(Own())", B),
        ("torch.is_tensor(x)", OWN_MODULE, "attend(Own())", W),
        ("torch.is_tensor(x)", FOREIGN, "attend(Own())", M),
        ("torch.is_tensor(x)", "", "attend(torch.zeros(2))", B),
        ("torch.is_tensor(x)", "", "attend(np.zeros(2))", W),
        ("torch.is_tensor(x)", "", "attend(nn.Parameter(torch.ones(1)))", M),
        ("y is None", "", "attend(1)", B),
        ("y is None", "", "attend(1, torch.ones(1))", W),
        ("y is not None", "", "attend(1, [input()])", B),
        ("y is not None", "", f"attend(1, {LOADED})", M),
        ("x.ndim == 4", "", "attend(torch.ones(1, 3, 8, 8))", B),
        ("x.ndim == 3", "", "attend(torch.ones(1, 3, 8, 8))", W),
        ("x.dim() == 4", "", "attend(torch.randn(3, 8, 8).unsqueeze(0))", B),
        ("len(x.shape) == 4", "", "attend(torch.randn((1, 3, 8, 8)))", B),
        ("len(x.size()) == 4", "", "attend(torch.randn((1, 3, 8, 8))[0])", W),
        ("x.ndim == 4", "", "attend(torch.ones(*input()))", M),
        ("x.ndim == 4", "", f"attend({LOADED})", M),
    ],
)
def test_the_caller_says_the_type_of_an_argument(
    condition: str, more: str, body: str, expected: Verdict, tmp_path: Path
) -> None:
    assert verdict(tmp_path, function(condition) + more, body) is expected


WHOLE = (
    "class Whole(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Net()\n"
    "    def forward(self, z):\n        return self.part(z)\n"
)
DERIVED = "class Derived(Net):\n    def forward(self, x):\n        return super().forward([x])\n"


@pytest.mark.parametrize(
    ("more", "body", "expected"),
    [
        ("", "net = Net()\nnet([torch.ones(2)])", B),
        ("", "net = Net()\nnet(torch.ones(2))", W),
        ("", "Net()(torch.ones(2))", W),
        ("", "net = Net().cuda().eval()\nnet(torch.ones(2))", W),
        ("", "net = Net()\nnet.load_state_dict({})\nnet(torch.ones(2))", W),
        ("", "first, second = Net(), Net()\nfirst(torch.ones(2))", M),
        ("", "first = Net()\nsecond = Net()\nfirst(torch.ones(2))\nsecond([1])", B),
        ("", f"net = Net()\nfor x in {LOADED}:\n    net(x)", M),
        ("", "nets = [Net() for _ in range(3)]\nfor net in nets:\n    net(torch.ones(2))", M),
        ("", "net = Net()\nnet.forward([1])", M),
        ("from lib import train\n", "net = Net()\nnet(torch.ones(1))\ntrain(net)", M),
        (WHOLE, "whole = Whole()\nwhole([torch.ones(2)])", B),
        (WHOLE, "whole = Whole()\nwhole(torch.ones(2))", W),
        (WHOLE.replace("self.part(z)", "[each(z) for each in self.children()]"), "Whole()(torch.ones(2))", M),
        ("def build():\n    net = Net()\n    return net.eval()\n", "net = build()\nnet(torch.ones(2))", W),
        ("def build():\n    net = Net()\n    return net.eval()\n", "net = build()\nnet([1])", B),
        (DERIVED, "net = Derived()\nnet(torch.ones(2))", M),
    ],
)
def test_a_module_is_given_what_its_object_is_called_with(
    more: str, body: str, expected: Verdict, tmp_path: Path
) -> None:
    assert verdict(tmp_path, module("isinstance(x, list)") + more, body) is expected


def test_a_class_that_is_called_in_a_way_of_its_own_is_left_open(tmp_path: Path) -> None:
    definitions = module("isinstance(x, list)") + "    def __call__(self, x):\n        return self.forward([x])\n"
    assert verdict(tmp_path, definitions, "net = Net()\nnet(torch.ones(2))") is not W


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("x = 3 if x is None else x", M),
        ("x = x if x is not None else 3", M),
        ("x = [3] if isinstance(x, int) else x", M),
        ("x = (x, 1) if x.ndim == 3 else x", M),
        ("x, y = (y if y is None else x), (x if x is None else y)", M),
        ("x = 3 if x is None else 4 if x is None else x if x is not None else x", M),
    ],
)
def test_a_value_whose_type_hangs_on_its_own_question_ends(tmp_path: Path, loop: str, expected: Verdict) -> None:
    definitions = (
        "def attend(x=None, y=None):\n    for i in range(int(input())):\n"
        f"        {loop}\n        if x is not None and x is not i:\n            import flash_attn\n    return x\n"
    )
    assert verdict(tmp_path, definitions, "attend()") is expected
