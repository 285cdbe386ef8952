"""Classes that are taken from what keeps all that are derived from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
from tests.programs.test_judging import needs

NET = (
    "class Fast(Base{}):\n    kind = 'fast'\n    def __init__(self):\n        import fast_ops\n"
    "class Slow(Base{}):\n    kind = 'slow'\n"
)
PLAIN = NET.format("", "")
KEYED = NET.format(", key='fast'", ", key='slow'")
HOOK = "class Base:\n    kinds = {}\n    def __init_subclass__(cls, key=None, **rest):\n        "
KEEPS = f"{HOOK}Base.kinds[key] = cls\n"
LISTS = f"{HOOK}cls.every.append(cls)\n    every = []\n"
META = (
    "NETS = {}\nclass Meta(type):\n    def __new__(mcs, name, bases, space):\n"
    "        made = super().__new__(mcs, name, bases, space)\n        NETS[name.lower()] = made\n        return made\n"
    f"class Base(metaclass=Meta):\n    pass\n{PLAIN}"
)
FINDS = (
    "class Base:\n    @classmethod\n    def find(cls, name):\n        for each in cls.__subclasses__():\n"
    f"            if each.kind == name:\n                return each\n{PLAIN}"
)
TABLE = "class Base:\n    pass\n" + PLAIN + "NETS = {each.kind: each for each in Base.__subclasses__()}\n"
SCANNED = f"class Base:\n    pass\n{PLAIN}NETS = {{k: v for k, v in list(globals().items()) if "
OPTION = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--net', default='{}')\nargs = p.parse_args()\n"
)


@pytest.mark.parametrize(
    ("text", "need"),
    [
        (f"{KEEPS}{KEYED}Base.kinds['fast']()\n", "ALWAYS"),
        (f"{KEEPS}{KEYED}Base.kinds['slow']()\n", "NEVER"),
        (f"{KEEPS}{KEYED}", "NEVER"),
        (f"{KEEPS}{KEYED}{OPTION.format('fast')}Base.kinds[args.net]()\n", "ALWAYS"),
        (f"{KEEPS}{KEYED}{OPTION.format('slow')}Base.kinds[args.net]()\n", "OPTION"),
        (f"{HOOK}cls.kinds[cls.__name__.lower()] = cls\n{PLAIN}Base.kinds['fast']()\n", "ALWAYS"),
        (f"{HOOK}cls.kinds[cls.__name__.lower()] = cls\n{PLAIN}Base.kinds['slow']()\n", "NEVER"),
        (f"{HOOK}cls.kinds[cls.kind] = cls\n{PLAIN}Base.kinds['fast']()\n", "ALWAYS"),
        (f"{HOOK}cls.kinds[make(cls)] = cls\n{PLAIN}Base.kinds['fast']()\n", "CHOSEN"),
        (f"{LISTS}{PLAIN}next(each for each in Base.every if each.kind == 'fast')()\n", "ALWAYS"),
        (f"{LISTS}{PLAIN}next(each for each in Base.every if each.kind == 'slow')()\n", "NEVER"),
        (f"{LISTS}{PLAIN}for each in Base.every:\n    each()\n", "ALWAYS"),
        (f"{LISTS}{PLAIN}for each in Base.every:\n    print(each)\n", "CHOSEN"),
        (f"{HOOK}cls.kinds.update({{cls.kind: cls}})\n{PLAIN}Base.kinds['fast']()\n", "ALWAYS"),
        (f"{HOOK}cls.kinds.update({{cls.kind: cls}})\n{PLAIN}Base.kinds['slow']()\n", "NEVER"),
        (f"{HOOK}cls.kinds[cls.kind] = (cls, 1)\n{PLAIN}Base.kinds['fast'][0]()\n", "ALWAYS"),
        (f"from functools import partial\n{HOOK}cls.kinds[cls.kind] = partial(cls)\n{PLAIN}Base.kinds['fast']()\n",
         "ALWAYS"),
        (f"{HOOK}cls.kinds[cls.kind] = cls()\n{PLAIN}", "ALWAYS"),
        (f"{HOOK}if key:\n            cls()\n{PLAIN}", "CHOSEN"),
        (f"KEPT = {{}}\ndef keep(net):\n    KEPT[net.kind] = net\n{HOOK}keep(cls)\n{PLAIN}KEPT['fast']()\n", "CHOSEN"),
        (f"KEPT = {{}}\ndef keep(net):\n    KEPT[net.kind] = net\n{HOOK}keep(cls)\n{PLAIN}", "NEVER"),
        (f"{HOOK}setattr(Base, cls.kind, cls)\n{PLAIN}Base.fast()\n", "CHOSEN"),
        (f"{HOOK}kept = cls.kinds\n        kept[cls.kind] = cls\n{PLAIN}Base.kinds['fast']()\n", "CHOSEN"),
        (f"{HOOK}print(cls, cls.kind)\n        setattr(cls, 'n', 1)\n        assert issubclass(cls, Base)\n{PLAIN}",
         "NEVER"),
        (f"def log(net):\n    return net()\n{HOOK}log(cls)\n{PLAIN}", "CHOSEN"),
        (f"import logging\n{HOOK}logging.info(cls)\n{PLAIN}", "NEVER"),
        (f"{META}NETS['fast']()\n", "ALWAYS"),
        (f"{META}NETS['slow']()\n", "NEVER"),
        (f"{META}{OPTION.format('slow')}NETS[args.net]()\n", "OPTION"),
        (f"{META}print(sorted(NETS))\n", "NEVER"),
        (f"{FINDS}Base.find('fast')()\n", "ALWAYS"),
        (f"{FINDS}Base.find('slow')()\n", "OPTION"),
        (f"{FINDS}", "NEVER"),
        (f"class Base:\n    pass\n{PLAIN}{{each.kind: each for each in Base.__subclasses__()}}['fast']()\n", "ALWAYS"),
        (f"class Base:\n    pass\n{PLAIN}{{each.kind: each for each in Base.__subclasses__()}}['slow']()\n", "NEVER"),
        (f"class Base:\n    pass\n{PLAIN}[each() for each in Base.__subclasses__()]\n", "ALWAYS"),
        (f"class Base:\n    pass\nclass Other:\n    pass\n{PLAIN}"
         "[each() for each in Other.__subclasses__()]\n", "NEVER"),
        ({"nets.py": TABLE, "train.py": "import nets\nnets.NETS['fast']()\n"}, "CHOSEN"),
        ({"nets.py": f"{SCANNED}isinstance(v, type)}}\n",
          "train.py": "import nets\nnets.NETS['Fast']()\n"}, "CHOSEN"),
        ({"nets.py": f"{SCANNED}isinstance(v, int)}}\n",
          "train.py": "import nets\nnets.NETS['Fast']()\n"}, "NEVER"),
    ],
)  # fmt: skip
def test_a_class_is_taken_from_what_keeps_those_of_its_base(
    text: str | dict[str, str], need: str, tmp_path: Path
) -> None:
    files = {"train.py": text} if isinstance(text, str) else text
    program = judged(
        tmp_path, {**BUILT, **files, "train.py": f"import torch\n{files['train.py']}print(torch.ones(1))\n"}
    )
    assert needs(program["train.py"]) == need
