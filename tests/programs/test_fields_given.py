"""Functions and classes that become a field of an object, and are called where the field is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import BUILT, judged
from tests.programs.test_judging import needs

FAST = (
    "class Fast:\n    def __init__(self):\n        import fast_ops\n"
    "    @classmethod\n    def load(cls):\n        return cls()\n"
)
CONF = (
    "from dataclasses import dataclass\nfrom functools import partial\n"
    f"{FAST}@dataclass\nclass Conf:\n    make: object\n"
)


@pytest.mark.parametrize(
    ("made", "used", "need"),
    [
        ("Conf(make=Fast)", "print(1)", "NEVER"),
        ("Conf(make=Fast)", "CONF.make()", "ALWAYS"),
        ("Conf(make=partial(Fast))", "print(1)", "NEVER"),
        ("Conf(make=partial(Fast))", "CONF.make()", "ALWAYS"),
        ("Conf(make=partial(Fast.load))", "print(1)", "NEVER"),
        ("Conf(make=partial(Fast.load))", "build = CONF.make\nbuild()", "ALWAYS"),
        ("Conf(make=Fast())", "print(1)", "ALWAYS"),
        ("Conf(make=Fast)", "for name in vars(CONF):\n    getattr(CONF, name)()", "ALWAYS"),
        ("Conf(make=Fast)", "import dataclasses\nfor each in dataclasses.asdict(CONF).values():\n    each()", "ALWAYS"),
        ("Conf(make=Fast)", "import sys\ngetattr(CONF, sys.argv[1])()", "ALWAYS"),
        ("Conf(make=Fast)", "print(CONF.__dict__)", "ALWAYS"),
        ("Conf(make=Fast)", "args = parse_args()\nprint(vars(args))", "NEVER"),
        ("{'a': Conf(make=partial(Fast))}", "CONF['a'].make()", "ALWAYS"),
    ],
)
def test_what_a_field_holds_is_called_where_it_is_asked_for(made: str, used: str, need: str, tmp_path: Path) -> None:
    files = {"conf.py": f"{CONF}CONF = {made}\n", "train.py": f"import torch\nfrom conf import CONF\n{used}\n"}
    other = "from conf import CONF\ndef main():\n    CONF.make()\n"  # nobody comes here
    assert needs(judged(tmp_path, {**BUILT, **files, "other.py": other})["train.py"]) == need
