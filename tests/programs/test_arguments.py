"""The verdict of programs in which it decides to which parameter a call gives what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import judged
from torchferry.programs.model import Verdict

B, W, M = Verdict.BLOCKED, Verdict.WITHOUT, Verdict.MAY_NEED

ASKS = "if flash:\n            import flash_attn\n"
STATIC = f"class A:\n    @staticmethod\n    def run(x, flash=False, n=1):\n        {ASKS}"
BY_SELF = "    def go(self):\n        self.run(0, True)\n"
OF_CLASS = f"class A:\n    @classmethod\n    def run(cls, x, flash=False):\n        {ASKS}"
METHOD = f"class A:\n    def run(self, x, flash=%s):\n        {ASKS}"
BASE = f"class B:\n    def __init__(self, x, flash=%s):\n        {ASKS}"
MIDDLE = "class M(B):\n    pass\nclass A(M):\n    def __init__(self):\n        %s.__init__(self, 0, True)\n"
HANDS_ON = "class A(B):\n    def __init__(self, x):\n        %s\n"
STARRED = "class A(B):\n    def __init__(self, x, *args):\n        B.__init__(self, x, *args)\n"
CONFIG = (
    "class Config:\n    def __init__(self, flash=False):\n        self.flash = flash\n"
    "class B:\n    def __init__(self, config):\n        if config.flash:\n            import flash_attn\n"
    "class A(B):\n    def __init__(self, config):\n        super().__init__(config)\nclass C(B):\n    pass\n"
)


@pytest.mark.parametrize(
    ("definitions", "body", "expected"),
    [
        (STATIC, "A.run(1, False)", W),
        (STATIC, "A.run(0, True)", B),
        (STATIC, "A().run(0, True)", B),
        (STATIC + BY_SELF, "A().go()", B),
        (OF_CLASS, "A.run(0, True)", B),
        (OF_CLASS, "A.run(1, False)", W),
        (METHOD % False, "a = A()\n    A.run(a, 0, True)", B),
        (METHOD % True, "a = A()\n    A.run(a, 1, False)", W),
        (BASE % False + HANDS_ON % "B.__init__(self, x, True)", "A(0)", B),
        (BASE % True + HANDS_ON % "B.__init__(self, x, False)", "A(1)", W),
        (BASE % True + HANDS_ON % "B.__init__(self, x)", "A(1)", B),
        (BASE % True + HANDS_ON % "B.__init__(self, x, flash=False)", "A(1)", W),
        (BASE % False + MIDDLE % "M", "A()", B),
        (BASE % False + MIDDLE % "B", "A()", B),
        (BASE % False + STARRED, "A(1)", W),
        (BASE % True + STARRED, "A(1)", B),
        (BASE % False + STARRED, "A(1, True)", B),
        (BASE % True + STARRED, "A(1, False)", M),
        (BASE % False + STARRED, "A(*eval(input()))", M),
        (BASE % False + STARRED, "for make in [A]:\n        make(1, True)\n    A(1)", M),
        (CONFIG, "A(Config())", W),
        (CONFIG, "A(Config(True))", B),
        (CONFIG, "A(Config(False))\n    C(Config(True))", B),
    ],
)
def test_an_argument_comes_to_its_parameter(definitions: str, body: str, expected: Verdict, tmp_path: Path) -> None:
    text = f"import torch\n{definitions}def main():\n    {body}\nif __name__ == '__main__':\n    main()\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict is expected


OBJECTS = "class Off:\n    flash = False\nclass On:\n    flash = True\n"
ASKED = "class A:\n    def __init__(self, c):\n        if c.flash:\n            import flash_attn\n"
FUNCTION = "def run(c):\n    if c.flash:\n        import flash_attn\n"
TABLE = OBJECTS + ASKED + "NETS = {'a': A, 'b': Off}\n"
BY_BASE = (
    OBJECTS + "class B:\n    def __init__(self, c, n=0):\n        self.read(c)\n"
    "    def read(self, c):\n        if c.flash:\n            import flash_attn\n"
    "class A(B):\n    def __init__(self, c, **more):\n        B.__init__(self, c=c, **more)\n"
    "class Other:\n    def go(self, c):\n        A(c=c)\n"
)


@pytest.mark.parametrize(
    ("definitions", "body", "expected"),
    [
        # a base that is called by its name hands on what this way gives, whatever others would give
        (BY_BASE, "A(Off(), n=1)", W),
        (BY_BASE, "A(On(), n=1)", B),
        (BY_BASE, "A(Off(), n=1)\n    Other().go(On())", B),
        # calls out of a table, by a variable, by what a function gives back
        (TABLE, "NETS['a'](Off())", W),
        (TABLE, "NETS['a'](On())", B),
        (TABLE, "A(Off())\n    NETS['a'](On())", B),
        (TABLE, "A(Off())\n    NETS.get('a')(On())", M),
        (TABLE, "A(Off())\n    net = NETS['a']\n    net(On())", M),
        (TABLE, "A(Off())\n    NETS['b']()", W),
        (TABLE, "A(Off())\n    list(NETS.values())[0](On())", M),
        (TABLE + "NETS['c'] = A\n", "A(Off())\n    NETS['c'](On())", M),
        (TABLE + "def net(name):\n    return NETS[name]\n", "A(Off())\n    net('a')(On())", M),
        (TABLE + "def net(name):\n    return NETS[name]\n", "net('a')(Off())", W),
        (TABLE + "def make(name, c):\n    return NETS[name](c)\n", "A(Off())\n    make('a', On())", B),
        (TABLE, "A(Off())\n    net = A if torch.ones(1) > 0 else Off\n    net(On())", M),
        (TABLE + "class D(A):\n    pass\nHEIRS = {'d': D}\n", "A(Off())\n    HEIRS['d'](On())", B),
        (TABLE + "class D(A):\n    pass\n", "A(Off())\n    for one in [D]:\n        one(On())", M),
        # handed on
        (OBJECTS + FUNCTION + "def hand(f):\n    f(On())\n", "run(Off())\n    hand(run)", M),
        (OBJECTS + FUNCTION, "run(Off())\n    for each in [run]:\n        each(On())", M),
        (OBJECTS + FUNCTION + "class T:\n    f = staticmethod(run)\n", "run(Off())\n    T.f(On())", M),
    ],
)
def test_a_call_without_the_name_counts(definitions: str, body: str, expected: Verdict, tmp_path: Path) -> None:
    text = f"import torch\n{definitions}def main():\n    {body}\nif __name__ == '__main__':\n    main()\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict is expected


METHOD_ASKED = (
    "class A:\n    def __init__(self):\n        self.n = 0\n"
    "    def go(self, c):\n        if c.flash:\n            import flash_attn\n"
)


@pytest.mark.parametrize(
    ("definitions", "body"),
    [
        (METHOD_ASKED + "def hand(f):\n    f(On())\n", "a = A()\na.go(Off())\nhand(a.go)"),
        (METHOD_ASKED, "a = A()\na.go(Off())\nf = a.go\nf(On())"),
        (METHOD_ASKED, "a = A()\na.go(Off())\ngetattr(a, 'go')(On())"),
        (METHOD_ASKED, "a = A()\na.go(Off())\n{'x': a.go}['x'](On())"),
        (
            "class A:\n    def __init__(self):\n        self.t = {'go': self.go}\n"
            "    def go(self, c):\n        if c.flash:\n"
            "            import flash_attn\n    def all(self):\n        self.t['go'](On())\n",
            "a = A()\na.go(Off())\na.all()",
        ),
        (METHOD_ASKED, "import operator\na = A()\na.go(Off())\noperator.methodcaller('go', On())(a)"),
        (FUNCTION, "run(Off())\nsorted([On()], key=run)"),
        (ASKED + "class B:\n    net = A\n    def go(self):\n        self.net(On())\n", "A(Off())\nB().go()"),
        (
            ASKED + "class B:\n    net = Off\n    def go(self):\n        self.net(On())\nclass C(B):\n    net = A\n",
            "A(Off())\nC().go()",
        ),
        (ASKED, "A(Off())\n(n := A)(On())"),
        (
            "class A:\n    def __init__(self, c):\n        self.c = c\n"
            "        if c.flash:\n            import flash_attn\n"
            "    def twin(self):\n        return type(self)(On())\n",
            "A(Off()).twin()",
        ),
        (ASKED + "    def twin(self):\n        return self.__class__(On())\n", "A(Off()).twin()"),
        (
            "KEPT = {}\ndef keep(c):\n    KEPT[c.__name__] = c\n    return c\n@keep\n" + ASKED,
            "A(Off())\nKEPT['A'](On())",
        ),
        (
            "def twice(f):\n    def inner(c):\n        f(c)\n        f(On())\n    return inner\n@twice\n" + FUNCTION,
            "run(Off())",
        ),
        (
            "class B:\n    pass\nclass A(B):\n    def __init__(self, c):\n"
            "        if c.flash:\n            import flash_attn\n",
            "A(Off())\nfor each in B.__subclasses__():\n    each(On())",
        ),
        (ASKED + "import enum\nclass N(enum.Enum):\n    a = A\n", "A(Off())\nN.a.value(On())"),
        (
            ASKED + "from dataclasses import dataclass\n@dataclass\nclass N:\n    net: type = A\n",
            "A(Off())\nN().net(On())",
        ),
        (ASKED + "from collections import namedtuple\nN = namedtuple('N', 'net')\n", "A(Off())\nN(A).net(On())"),
        (ASKED + "from types import SimpleNamespace\n", "A(Off())\nSimpleNamespace(net=A).net(On())"),
        (ASKED + "NETS = {}\nNETS |= {'a': A}\n", "A(Off())\nNETS['a'](On())"),
        (ASKED + "NETS = {'b': Off}\n", "A(Off())\nNETS.get('z', A)(On())"),
        (ASKED + "class B:\n    @property\n    def net(self):\n        return A\n", "A(Off())\nB().net(On())"),
        (FUNCTION + "import functools\nfast = functools.lru_cache(maxsize=None)(run)\n", "run(Off())\nfast(On())"),
        (FUNCTION + "fast = torch.no_grad()(run)\n", "run(Off())\nfast(On())"),
        (
            "def init(m):\n    if m.flash:\n        import flash_attn\nclass N(torch.nn.Linear):\n    flash = True\n",
            "init(Off())\nN(2, 2).apply(init)",
        ),
        (
            "def hook(m, i, o):\n    if m.flash:\n        import flash_attn\n"
            "class N(torch.nn.Linear):\n    flash = True\n",
            "hook(Off(), 0, 0)\nn = N(2, 2)\nn.register_forward_hook(hook)\nn(torch.ones(1, 2))",
        ),
        (
            FUNCTION,
            "from concurrent.futures import ThreadPoolExecutor\nrun(Off())\n"
            "with ThreadPoolExecutor() as e:\n    e.submit(run, On())",
        ),
        (ASKED + "NETS = {'x': {'a': A}}\n", "A(Off())\nNETS['x']['a'](On())"),
        (
            ASKED + "    @classmethod\n    def make(cls):\n        return cls(On())\nclass D(A):\n    pass\n",
            "A(Off())\nD.make()",
        ),
        (ASKED + "def nets():\n    yield A\n", "A(Off())\nfor n in nets():\n    n(On())"),
    ],
)
def test_what_is_called_where_its_name_does_not_stand_is_not_green(definitions: str, body: str, tmp_path: Path) -> None:
    inner = body.replace("\n", "\n    ")
    text = f"import torch\n{OBJECTS}{definitions}def main():\n    {inner}\nif __name__ == '__main__':\n    main()\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict in (B, M)
