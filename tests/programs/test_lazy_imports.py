"""The verdict of programs that import by what loads a module when it is used, or where it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from torchferry.programs.model import Verdict

GUARDED = "\nif __name__ == '__main__':\n    main()\n"


def program(imports: str, body: str) -> str:
    """Return a program whose function `main` has a body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"import torch\n{imports}\ndef main():\n{lines}{GUARDED}"


USED = "fa.flash_attn_func(1)"
OPTION = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--fast', action='store_true')\n"
    f"if p.parse_args().fast:\n    {USED}"
)
TRIED = f"try:\n    {USED}\nexcept ImportError:\n    pass"
LOADED = "import lazy_loader\nfa = lazy_loader.load('flash_attn')"
OF_TENSORFLOW = (
    "import importlib, types\nclass LazyLoader(types.ModuleType):\n    def __init__(self, local, parent, name):\n"
    "        self._local, self._parent = local, parent\n        super().__init__(name)\n"
    "    def _load(self):\n        module = importlib.import_module(self.__name__)\n"
    "        self._parent[self._local] = module\n        return module\n"
    "    def __getattr__(self, item):\n        return getattr(self._load(), item)\n"
)
STAND_IN = (
    "import importlib\nclass Later:\n    def __init__(self, name):\n        self.name = name\n"
    "    def __getattr__(self, attribute):\n        return getattr(importlib.import_module(self.name), attribute)\n"
)
WRAPPED = f"{STAND_IN}def later(name):\n    return Later(name)\n"
BY_SPEC = (
    "import importlib.util\ndef later(name):\n    spec = importlib.util.find_spec(name)\n"
    "    loader = spec.loader = importlib.util.LazyLoader(spec.loader)\n"
    "    module = importlib.util.module_from_spec(spec)\n    loader.exec_module(module)\n    return module\n"
)
LOADER = "from vllm.utils import LazyLoader\nfa = LazyLoader('fa', globals(), 'flash_attn')"
FOR_TYPES = (
    "from typing import TYPE_CHECKING\nfrom lazy import LazyLoader\nif TYPE_CHECKING:\n    import flash_attn as fa\n"
    "else:\n    fa = LazyLoader('fa', globals(), 'flash_attn')"
)
B, W, R, M, D = Verdict.BLOCKED, Verdict.WITHOUT, Verdict.READY, Verdict.MAY_NEED, Verdict.DECISIONS


@pytest.mark.parametrize(
    ("imports", "body", "others", "expected"),
    [
        ("import flash_attn as fa", USED, {}, B),
        (LOADED, USED, {}, B),
        (LOADED, "pass", {}, R),
        (LOADED, OPTION, {}, W),
        (LOADED, TRIED, {}, W),
        (LOADED.replace("'flash_attn'", "'flash_attn', error_on_import=True"), "pass", {}, B),
        ("from lazy_loader import load\nfa = load('flash_attn')", USED, {}, B),
        ("import lazy_loader as lazy\nfa = lazy.load(fullname='flash_attn')", USED, {}, B),
        ("import lazy_loader as lazy\nfa = lazy.load('numpy')", USED, {}, R),
        ("import torch as fa\nfa.load('flash_attn', map_location='cpu')", "pass", {}, R),
        ("from lib import fa", USED, {"lib.py": LOADED}, B),
        ("import lib", f"lib.{USED}", {"lib.py": LOADED}, B),
        ("import lib", "pass", {"lib.py": LOADED}, R),
        ("def get():\n    import lazy_loader\n    return lazy_loader.load('flash_attn')", "get().f()", {}, B),
        ("import lazy_loader\nclass Net:\n    def __init__(self):\n        self.fa = lazy_loader.load('flash_attn')", "Net().fa.f()", {}, M),  # noqa: E501
        ("import lazy_loader\nkernels = lazy_loader.load('kernels')", "kernels.f()", {"kernels.py": "import flash_attn"}, B),  # noqa: E501
        ("import lazy_loader\nkernels = lazy_loader.load('kernels')", "pass", {"kernels.py": "import flash_attn"}, R),
        ("from lazy import LazyLoader\nfa = LazyLoader('fa', globals(), 'flash_attn')", USED, {"lazy.py": OF_TENSORFLOW}, B),  # noqa: E501
        ("from lazy import LazyLoader\nfa = LazyLoader('fa', globals(), 'flash_attn')", "pass", {"lazy.py": OF_TENSORFLOW}, R),  # noqa: E501
        (FOR_TYPES, USED, {"lazy.py": OF_TENSORFLOW}, B),
        (FOR_TYPES, "pass", {"lazy.py": OF_TENSORFLOW}, R),
        (LOADER, USED, {}, B),
        ("class LazyLoader(dict):\n    pass\nfa = LazyLoader(name='flash_attn')", USED, {}, R),
        ("from lazy import Later\nfa = Later('flash_attn')", USED, {"lazy.py": STAND_IN}, B),
        ("from lazy import Later\nfa = Later(name='flash_attn')", USED, {"lazy.py": STAND_IN}, B),
        ("from lazy import Later\nfa = Later('flash_attn')", "pass", {"lazy.py": STAND_IN}, R),
        ("from lazy import Later\nfa = Later('flash_attn')\nnp = Later('numpy')", "np.ones(1)", {"lazy.py": STAND_IN}, R),  # noqa: E501
        ("from lazy import later\nfa = later('flash_attn')", USED, {"lazy.py": WRAPPED}, B),
        ("from lazy import later\nfa = later('flash_attn')", "pass", {"lazy.py": WRAPPED}, R),
        ("from lazy import Later\nfa = Later('kernels')", USED, {"lazy.py": STAND_IN, "kernels.py": "import flash_attn"}, B),  # noqa: E501
        ("from lazy import later\nfa = later('flash_attn')", USED, {"lazy.py": BY_SPEC}, B),
        ("from lazy import later\nfa = later('numpy')", USED, {"lazy.py": BY_SPEC}, R),
        ("import importlib.util\nspec = importlib.util.find_spec('flash_attn')\nfa = importlib.util.module_from_spec(spec)", "pass", {}, B),  # noqa: E501
        ("import importlib.util\nspec = importlib.util.find_spec('flash_attn')\nif spec is not None:\n    fa = importlib.util.module_from_spec(spec)", "pass", {}, W),  # noqa: E501
        ("from contextlib import suppress\nwith suppress(ImportError):\n    import flash_attn as fa", "pass", {}, W),
        ("from contextlib import suppress\nwith suppress(ImportError):\n    import flash_attn as fa", USED, {}, B),
        ("from optuna._imports import try_import\nwith try_import() as imports:\n    import flash_attn as fa", "pass", {}, W),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_imported_lazily_is_needed_where_it_is_used(
    imports: str, body: str, others: Files, expected: Verdict, tmp_path: Path
) -> None:
    found = judged(tmp_path, {"train.py": program(imports, body), **others})["train.py"]
    assert (found.verdict, found.unresolved) == (expected, ())


OF_MONAI = "from monai.utils import optional_import\nfa, ok = optional_import('flash_attn', name='flash_attn_func')"
OF_NEMO = "from nemo.utils.import_utils import safe_import_from\nfa, ok = safe_import_from('flash_attn', 'f')"
OWN = (
    "import importlib\ndef optional_import(module, name=''):\n    try:\n"
    "        found = importlib.import_module(module)\n        return found, True\n"
    "    except ImportError:\n        return None, False\n"
)
OF_OWN = OF_MONAI.replace("monai.utils", "helpers")
OTHER = {"helpers.py": OWN}


@pytest.mark.parametrize(
    ("imports", "body", "others", "expected"),
    [
        (OF_MONAI, "fa(1)", {}, B),
        (OF_MONAI, "if ok:\n    fa(1)", {}, W),
        (OF_MONAI, "y = fa(1) if ok else torch.ones(1)", {}, W),
        (OF_MONAI, "pass", {}, W),
        (f"{OF_MONAI}\nif not ok:\n    raise ImportError('flash_attn')", "pass", {}, B),
        (OF_MONAI.replace("fa, ok =", "fa, _ ="), "fa(1)", {}, B),
        (OF_MONAI.replace("fa, ok =", "fa =") + "[0]", "fa(1)", {}, B),
        (OF_MONAI.replace("'flash_attn'", "'numpy'"), "fa(1)", {}, R),
        (OF_MONAI, OPTION.replace(USED, "fa(1)"), {}, W),
        (OF_NEMO, "fa(1)", {}, B),
        (OF_NEMO, "if ok:\n    fa(1)", {}, W),
        ("from lib import fa, ok", "if ok:\n    fa(1)", {"lib.py": OF_MONAI}, W),
        ("from lib import fa, ok", "fa(1)", {"lib.py": OF_MONAI}, B),
        (OF_OWN, "fa(1)", OTHER, B),
        (OF_OWN, "if ok:\n    fa(1)", OTHER, W),
        ("from lib import fa, ok", "if ok:\n    fa(1)", {"lib.py": OF_OWN, **OTHER}, W),
        ("from lib import fa, ok", "fa(1)", {"lib.py": OF_OWN, **OTHER}, B),
        ("def optional_import(name):\n    return name, 0\nfa, ok = optional_import('flash_attn')", "print(fa)", {}, R),
    ],
)  # fmt: skip
def test_what_is_imported_with_a_flag_is_guarded_by_it(
    imports: str, body: str, others: Files, expected: Verdict, tmp_path: Path
) -> None:
    found = judged(tmp_path, {"train.py": program(imports, body), **others})["train.py"]
    assert (found.verdict, found.unresolved) == (expected, ())


FAST = (
    "import torch\nfrom flash_attn import flash_attn_func\nclass FastNet(torch.nn.Module):\n"
    "    def forward(self, x):\n        return flash_attn_func(x, x, x)\n"
)
PLAIN = "import torch\nclass PlainNet(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
LAZY_MODULE = (
    "import importlib\nfrom types import ModuleType\nclass _LazyModule(ModuleType):\n"
    "    def __init__(self, name, module_file, structure, module_spec=None):\n        super().__init__(name)\n"
    "        self._module_of = {each: module for module, names in structure.items() for each in names}\n"
    "    def __getattr__(self, name):\n"
    "        return getattr(importlib.import_module('.' + self._module_of[name], self.__name__), name)\n"
)
REPLACES = (
    "sys.modules[__name__] = _LazyModule(__name__, globals()['__file__'], _import_structure, module_spec=__spec__)\n"
)
STRUCTURE = "_import_structure = {'fast': ['FastNet'], 'plain': ['PlainNet']}\n"
OF_TRANSFORMERS = "import sys\nfrom transformers.utils import _LazyModule\n"
CHECKED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .fast import FastNet\n    from .plain import PlainNet\nelse:\n    "  # noqa: E501
BY_STARS = CHECKED.replace("FastNet", "*").replace("PlainNet", "*")
WHERE_THERE = (
    "_import_structure = {'plain': ['PlainNet']}\n"
    "try:\n    if not is_flash_attn_available():\n        raise NotThere()\n"
    "except NotThere:\n    pass\nelse:\n    _import_structure['fast'] = ['FastNet']\n"
)
ATTACHED = "import lazy_loader as lazy\n__getattr__, __dir__, __all__ = lazy.attach(__name__, ['other'], {'fast': ['FastNet'], 'plain': ['PlainNet']})\n"  # noqa: E501
BY_STUB = "import lazy_loader as lazy\n__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)\n"
BY_TABLE = (
    "import importlib\n_TABLE = {'FastNet': '.fast', 'PlainNet': '.plain'}\ndef __getattr__(name):\n"
    "    if name in _TABLE:\n        return getattr(importlib.import_module(_TABLE[name], __name__), name)\n"
    "    raise AttributeError(name)\n"
)
PACKAGES = {
    "own class": f"import sys\nfrom ._lazy import _LazyModule\n{STRUCTURE}{REPLACES}",
    "for types": f"{OF_TRANSFORMERS}{STRUCTURE}{CHECKED}{REPLACES}",
    "added to": OF_TRANSFORMERS + "_import_structure = {'plain': []}\n_import_structure['plain'].append('PlainNet')\n"
    "_import_structure['fast'] = ['FastNet']\n" + REPLACES,
    "where it is there": f"{OF_TRANSFORMERS}from transformers.utils import NotThere, is_flash_attn_available\n{WHERE_THERE}{REPLACES}",  # noqa: E501
    "computed": f"{OF_TRANSFORMERS}{BY_STARS}{REPLACES}".replace(
        "_import_structure", "define_import_structure(__file__)"
    ),
    "attached": ATTACHED,
    "by a stub": BY_STUB,
    "by a table": BY_TABLE,
}


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize(
    ("imports", "body", "expected"),
    [
        ("from nets import FastNet", "FastNet()(torch.ones(1))", B),
        ("from nets import PlainNet", "PlainNet()(torch.ones(1))", R),
        ("import nets", "nets.FastNet()(torch.ones(1))", B),
        ("import nets as n", "n.PlainNet()(torch.ones(1))", R),
        ("import nets\ndef other():\n    return nets.FastNet()", "nets.PlainNet()", R),
        ("from nets.fast import FastNet", "FastNet()", B),
    ],
)
def test_a_package_imports_its_parts_when_they_are_asked_for(
    package: str, imports: str, body: str, expected: Verdict, tmp_path: Path
) -> None:
    files = {
        "nets/__init__.py": PACKAGES[package],
        "nets/__init__.pyi": "from .fast import FastNet\nfrom .plain import PlainNet\n",
        "nets/_lazy.py": LAZY_MODULE,
        "nets/fast.py": FAST,
        "nets/plain.py": PLAIN,
        "train.py": program(imports, body),
    }
    if package != "by a stub":
        del files["nets/__init__.pyi"]
    found = judged(tmp_path, files)["train.py"]
    assert (found.verdict, found.unresolved) == (expected, ())


def test_a_package_asks_another_one(tmp_path: Path) -> None:
    inner = f"import sys\nfrom .._lazy import _LazyModule\n{STRUCTURE}{REPLACES}"
    files = {
        "nets/__init__.py": inner.replace("from .._lazy", "from ._lazy").replace(STRUCTURE, "_import_structure = {'models': ['FastNet', 'PlainNet']}\n"),  # noqa: E501
        "nets/_lazy.py": LAZY_MODULE,
        "nets/models/__init__.py": inner,
        "nets/models/fast.py": FAST,
        "nets/models/plain.py": PLAIN,
        "fast.py": program("from nets import FastNet", "FastNet()(1)"),
        "plain.py": program("from nets import PlainNet", "PlainNet()(1)"),
        "star.py": program("from nets import *", "FastNet()(1)"),
    }  # fmt: skip
    found = judged(tmp_path, files)
    assert [found[name].verdict for name in ("fast.py", "plain.py", "star.py")] == [B, R, B]


def test_a_lazy_module_of_torch_is_torch(tmp_path: Path) -> None:
    text = "import lazy_loader\ntorch = lazy_loader.load('torch')\ntorch.cuda.synchronize()\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].fixes > 0
