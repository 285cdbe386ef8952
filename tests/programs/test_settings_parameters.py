"""What settings give to the parameters of the classes and functions that they name decides conditions on these."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from tests.programs.test_conditions import need
from torchferry.programs.model import Verdict

HYDRA = (
    "import hydra\nimport torch\n@hydra.main(config_path='.', config_name='config', version_base=None)\n"
    "def main(cfg):\n    {}\nmain()\n"
)
FAST = "== 'fast':\n            import cupy\n"
NET = f"class Net:\n    def __init__(self, width=1, attn='plain'):\n        if attn {FAST}"
KEPT = (
    "class Net:\n    def __init__(self, width=1, attn='plain'):\n        self.attn = attn\n"
    f"    def forward(self, x):\n        if self.attn {FAST}"
)
FUNCTION = "def make(attn='plain'):\n    if attn == 'fast':\n        import cupy\n"
METHOD = f"class Net:\n    @classmethod\n    def build(cls, attn='plain'):\n        if attn {FAST}"
RECORD = (
    "from dataclasses import dataclass\n@dataclass\nclass Net:\n    attn: str = 'plain'\n"
    f"    def forward(self, x):\n        if self.attn {FAST}"
)
BASE = f"class Base:\n    def __init__(self, attn='plain'):\n        if attn {FAST}"
DERIVED = BASE + "class Net(Base):\n    pass\n"
HANDING = BASE + "class Net(Base):\n    def __init__(self, **kwargs):\n        super().__init__(**kwargs)\n"
KEYWORDS = f"class Net:\n    def __init__(self, **kwargs):\n        if kwargs.get('attn', 'plain') {FAST}"
WHOLE = f"class Net:\n    def __init__(self, cfg):\n        if cfg.attn {FAST}"
SAVED = (
    "import lightning\nclass Net(lightning.LightningModule):\n    def __init__(self, attn='plain'):\n"
    f"        self.save_hyperparameters()\n    def forward(self, x):\n        if self.hparams.attn {FAST}"
)

LOADER = (
    "import importlib\ndef find(text, reload=False):\n    module, name = text.rsplit('.', 1)\n    if reload:\n"
    "        found = importlib.import_module(module)\n        importlib.reload(found)\n"
    "    return getattr(importlib.import_module(module), name)\n"
    "def make(config, **more):\n    {}\n"
)
CALLS = "return find(config['target'])(**config.get('params', dict()), **more)"
LATENT = (
    "import torch\nfrom omegaconf import OmegaConf\nfrom util import make\nconfig = OmegaConf.load('config.yaml')\n"
    "{}make(config.model{}).forward(1)\n"
)
OUTER = (
    "from util import make\nfrom encoder import Encoder\nclass Outer:\n    def __init__(self, first):\n"
    "        self.first = make(first)\nclass Net:\n    def __init__(self, ddconfig, width=1):\n"
    "        self.encoder = Encoder(**ddconfig)\n"
)
ENCODER = (
    "def block(kind='plain'):\n    if kind == 'fast':\n        import cupy\nclass Encoder:\n"
    "    def __init__(self, *, ch, attn='plain', linear=False):\n        if linear:\n            attn = 'linear'\n"
    "        block(kind=attn)\n"
)
NESTED = (
    "model:\n  target: nets.Outer\n  params:\n    first:\n      target: nets.Net\n      params:\n"
    "        ddconfig:\n          ch: 4\n"
)
CLI = "import torch\nfrom lightning.pytorch.cli import LightningCLI\nLightningCLI()\n"
OF_CLI = "model:\n  class_path: nets.Net\n  init_args:\n    attn: plain\n"
MADE = "hydra.utils.instantiate(cfg.model)"


def hydra(config: str, nets: str = NET, call: str = MADE, command: str = "", target: str = "nets.Net") -> Files:
    """Return a program of hydra that makes an object of what its settings name."""
    files = {"train.py": HYDRA.format(call), "config.yaml": f"model:\n  _target_: {target}\n{config}", "nets.py": nets}
    return {**files, "run.sh": f"python train.py {command}\n"} if command else files


def latent(config: str, nets: str = KEPT, before: str = "", more: str = "", loads: str = CALLS, **files: str) -> Files:
    """Return a program with a loader of its own that makes an object of what its settings name."""
    settings = config if config.startswith("model") else f"model:\n  target: nets.Net\n{config}"
    return {
        "train.py": LATENT.format(before, more),
        "util.py": LOADER.format(loads),
        "config.yaml": settings,
        "nets.py": nets,
        **{name.replace("_", "."): text for name, text in files.items()},
    }


def lightning(config: str, more: str = "") -> Files:
    """Return a program that is started by Lightning's command line."""
    command = f"python train.py fit --config config.yaml {more}\n"
    return {"train.py": CLI, "config.yaml": config, "nets.py": NET, "run.sh": command}


def direct(call: str, nets: str) -> Files:
    """Return a program that makes an object itself."""
    return {"train.py": f"import torch\nfrom nets import Net\n{call}\n", "nets.py": nets}


def chosen(call: str) -> Files:
    """Return a program that looks a class up by what its settings say."""
    reads = "import torch\nimport nets\nfrom omegaconf import OmegaConf\ncfg = OmegaConf.load('config.yaml').model\n"
    return {
        "train.py": f"{reads}{call}\n",
        "nets.py": KEPT,
        "config.yaml": "model:\n  name: Net\n  args:\n    attn: fast\n",
    }


P, F, W = "  attn: plain\n", "  attn: fast\n", "  width: 2\n"
PP, PF, PW = "  params:\n    attn: plain\n", "  params:\n    attn: fast\n", "  params:\n    width: 2\n"

CASES: list[tuple[str, Files, str]] = [
    # what the settings say decides
    ("says plain", hydra(P), "OPTION"),
    ("says fast", hydra(F), "ALWAYS"),
    ("says nothing", hydra(W), "OPTION"),
    ("kept in the object: plain", hydra(P, KEPT, f"{MADE}.forward(1)"), "OPTION"),
    ("kept in the object: fast", hydra(F, KEPT, f"{MADE}.forward(1)"), "ALWAYS"),
    ("kept by Lightning: plain", hydra(P, SAVED, f"{MADE}.forward(1)"), "OPTION"),
    ("kept by Lightning: fast", hydra(F, SAVED, f"{MADE}.forward(1)"), "ALWAYS"),
    ("a function: plain", hydra(P, FUNCTION, target="nets.make"), "OPTION"),
    ("a function: fast", hydra(F, FUNCTION, target="nets.make"), "ALWAYS"),
    ("a method: plain", hydra(P, METHOD, target="nets.Net.build"), "OPTION"),
    ("a method: fast", hydra(F, METHOD, target="nets.Net.build"), "ALWAYS"),
    ("a record: plain", hydra(P, RECORD, f"{MADE}.forward(1)"), "OPTION"),
    ("a record: fast", hydra(F, RECORD, f"{MADE}.forward(1)"), "ALWAYS"),
    ("inherited: plain", hydra(P, DERIVED), "OPTION"),
    ("inherited: fast", hydra(F, DERIVED), "ALWAYS"),
    ("handed on: plain", hydra(P, HANDING), "OPTION"),
    ("handed on: fast", hydra(F, HANDING), "ALWAYS"),
    ("further keywords: plain", hydra(P, KEYWORDS), "OPTION"),
    ("further keywords: fast", hydra(F, KEYWORDS), "ALWAYS"),
    ("a table: plain", hydra("  cfg:\n    attn: plain\n", WHOLE), "OPTION"),
    ("a table: fast", hydra("  cfg:\n    attn: fast\n", WHOLE), "ALWAYS"),
    # what else is said
    ("the command", hydra(P, command="model.attn=fast"), "ALWAYS"),
    ("the command adds it", hydra(W, command="+model.attn=fast"), "ALWAYS"),
    ("the call gives it", hydra(P, call="hydra.utils.instantiate(cfg.model, attn='fast')"), "ALWAYS"),
    ("the call gives it one by one", hydra(P, call="hydra.utils.instantiate(cfg.model, 1, 'fast')"), "ALWAYS"),
    ("the call gives what nobody knows", hydra(P, call="hydra.utils.instantiate(cfg.model, attn=input())"), "CHOSEN"),
    ("the call gives a table", hydra(P, call="hydra.utils.instantiate(cfg.model, **dict(attn='fast'))"), "ALWAYS"),
    ("the code sets it", hydra(P, call=f"cfg.model.attn = 'fast'; {MADE}"), "CHOSEN"),
    ("the code makes one too", hydra(F, call=f"from nets import Net; Net(attn='plain'); {MADE}"), "CHOSEN"),
    ("two that differ", hydra(f"{F}b:\n  _target_: nets.Net\n{P}", call=f"{MADE}; hydra.utils.instantiate(cfg.b)"),
     "CHOSEN"),
    ("called later with more", hydra(f"{P}  _partial_: true\n", call=f"{MADE}(attn='fast')"), "CHOSEN"),
    ("in a list", hydra("a:\n- _target_: nets.Other\n  attn: plain\n- _target_: nets.Net\n",
                        call="[hydra.utils.instantiate(each) for each in cfg.a]"), "CHOSEN"),
    ("of another module", hydra(P, "class Net: pass\n", call=f"from own import Net; Net(); {MADE}") | {"own.py": NET},
     "OPTION"),
    # what stands for a value
    ("another key", hydra("  attn: ${kind}\nkind: fast\n"), "ALWAYS"),
    ("another key that says plain", hydra("  attn: ${kind}\nkind: plain\n"), "OPTION"),
    ("a key beside it", hydra("  attn: ${.kind}\n  kind: fast\n"), "ALWAYS"),
    ("the environment", hydra("  attn: ${oc.env:KIND}\n"), "CHOSEN"),
    ("what the user must say", hydra("  attn: ???\n"), "CHOSEN"),
    ("an alias", hydra("  attn: *kind\nkind: &kind fast\n"), "CHOSEN"),
    ("a text of several lines", hydra("  attn: >-\n    fast\n"), "CHOSEN"),
    # a loader of the project
    ("loaded: plain", latent(PP), "OPTION"),
    ("loaded: fast", latent(PF), "ALWAYS"),
    ("loaded: nothing", latent(PW), "OPTION"),
    ("loaded: no parameters", latent("  x: 1\n"), "OPTION"),
    ("loaded: the call gives it", latent(PW, more=", attn='fast'"), "ALWAYS"),
    ("loaded: the code sets it", latent(PP, before="config.model.params.attn = 'fast'\n"), "CHOSEN"),
    ("loaded: by another name", latent("  params: {attn: plain}\n", loads=CALLS.replace("params", "kwargs")), "OPTION"),
    ("loaded: under another key", latent("  kwargs: {attn: fast}\n", loads=CALLS.replace("params", "kwargs")),
     "ALWAYS"),
    ("loaded: changed in place", latent(PP, loads="more = config.params\n    more.update(input())\n"
                                        "    return find(config.target)(**more)"), "CHOSEN"),
    ("loaded: without the name", latent("  attn: fast\n", loads="given = {k: v for k, v in config.items() if k != "
                                        "'target'}\n    return find(config['target'])(**given)"), "ALWAYS"),
    ("loaded: handed on", latent(PP, loads="return use(find(config['target']), config.params)"), "CHOSEN"),
    ("loaded: the settings whole", latent("  attn: fast\n", WHOLE, loads="return find(config['target'])(config)"),
     "ALWAYS"),
    ("loaded: a part of the settings", latent("  opt: {attn: plain}\n", WHOLE,
                                              loads="return find(config['target'])(config.opt)"), "OPTION"),
    ("nested: nothing", latent(NESTED, OUTER, encoder_py=ENCODER), "OPTION"),
    ("nested: plain", latent(f"{NESTED}          attn: plain\n", OUTER, encoder_py=ENCODER), "OPTION"),
    ("nested: fast", latent(f"{NESTED}          attn: fast\n", OUTER, encoder_py=ENCODER), "ALWAYS"),
    ("read by a name that nobody knows", latent(PP) | {"train.py": LATENT.format("", "").replace("'config.yaml'", "x")},
     "CHOSEN"),
    ("merged with the command", latent(PP) | {
        "train.py": LATENT.format("config = OmegaConf.merge(config, OmegaConf.from_cli())\n", ""),
        "run.sh": "python train.py model.params.attn=fast\n"}, "ALWAYS"),
    ("beside settings of something else", latent(PF, ds_json="{}") | {"run.sh": "python train.py --ds ds.json\n"},
     "ALWAYS"),
    ("merged with a table", latent(PP, before="config = OmegaConf.merge(config, dict(attn='fast'))\n"),
     "CHOSEN"),
    ("merged with a table that says nothing", latent(PP, before="config = OmegaConf.merge(config, {'seed': 1})\n"),
     "OPTION"),
    ("merged with what nobody knows", latent(PP, before="config = OmegaConf.merge(config, torch.load('x'))\n"),
     "CHOSEN"),
    ("changed by its path", latent(PP, before="OmegaConf.update(config, 'model.params.attn', 'fast')\n"), "CHOSEN"),
    ("a table is changed in place", latent(PP, before="config.model.params.update(attn='fast')\n"), "CHOSEN"),
    ("a table is replaced", latent(PP, before="config.model.params = {'attn': 'fast'}\n"), "CHOSEN"),
    ("of two files", latent(PP, before="config = OmegaConf.merge(config, OmegaConf.load('b.yaml'))\n", b_yaml="x: 1\n"),
     "OPTION"),
    ("of two files that differ", latent(PP, before="config = OmegaConf.merge(config, OmegaConf.load('b.yaml'))\n",
                                        b_yaml="model: {params: {attn: fast}}\n"), "CHOSEN"),
    ("of two files, changed", latent(PP, before="config.model.params.attn = input()\n"
                                     "config = OmegaConf.merge(config, OmegaConf.load('b.yaml'))\n", b_yaml="x: 1\n"),
     "CHOSEN"),
    # Lightning's command line
    ("started by Lightning: plain", lightning(OF_CLI), "OPTION"),
    ("started by Lightning: fast", lightning(OF_CLI.replace("plain", "fast")), "ALWAYS"),
    ("started by Lightning: the command", lightning(OF_CLI, "--model.init_args.attn fast"), "ALWAYS"),
    # tables in the code
    ("in a table: fast", {"train.py": "import torch\nfrom hydra.utils import instantiate\n"
                          "instantiate({'_target_': 'nets.Net', 'attn': 'fast'})\n", "nets.py": NET}, "ALWAYS"),
    ("in a table: plain", {"train.py": "import torch\nfrom hydra.utils import instantiate\n"
                           "instantiate({'_target_': 'nets.Net', 'attn': 'plain'})\n", "nets.py": NET}, "OPTION"),
    # looked up by what settings say
    ("looked up in a module", chosen("getattr(nets, cfg.name)(**cfg.args).forward(1)"), "CHOSEN"),
    ("looked up and kept", chosen("kind = getattr(nets, cfg.name)\nkind(attn=cfg.args.attn).forward(1)"), "CHOSEN"),
    ("looked up in a table", chosen("{'Net': nets.Net}[cfg.name](**cfg.args).forward(1)"), "CHOSEN"),
    # calls of a class that inherits
    ("an heir is made: fast", direct("Net(attn='fast')", DERIVED), "ALWAYS"),
    ("an heir is made: plain", direct("Net(attn='plain')", DERIVED), "OPTION"),
    ("a record is made: fast", direct("Net(attn='fast').forward(1)", RECORD), "ALWAYS"),
    ("a record is made: plain", direct("Net(attn='plain').forward(1)", RECORD), "OPTION"),
    ("a record is made: nothing", direct("Net().forward(1)", RECORD), "OPTION"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"), [pytest.param(files, expected, id=name) for name, files, expected in CASES]
)
def test_what_settings_give_to_parameters(files: Files, expected: str, tmp_path: Path) -> None:
    assert need(judged(tmp_path, files)["train.py"])[0] == expected


MERGED = (
    "import torch\nfrom omegaconf import OmegaConf\n"
    "cfg = OmegaConf.merge(OmegaConf.load('a.yaml'), OmegaConf.load('b.yaml'), OmegaConf.from_cli())\n"
    "if cfg.model.get('attn', 'plain') == 'fast':\n    import cupy\n"
)


@pytest.mark.parametrize(
    ("first", "second", "command", "expected"),
    [
        ("attn: fast", "width: 1", "", "ALWAYS"),
        ("attn: fast", "attn: plain", "", "OPTION"),
        ("attn: plain", "width: 1", "model.attn=fast", "ALWAYS"),
        ("width: 1", "width: 2", "", "OPTION"),
    ],
)
def test_settings_that_are_put_into_one_another(
    first: str, second: str, command: str, expected: str, tmp_path: Path
) -> None:
    files = {
        "train.py": MERGED,
        "a.yaml": f"model:\n  {first}\n",
        "b.yaml": f"model:\n  {second}\n",
        "run.sh": f"python train.py {command}\n",
    }
    assert need(judged(tmp_path, files)["train.py"])[0] == expected


def test_each_program_has_the_values_of_its_own_settings(tmp_path: Path) -> None:
    files = latent(PP)
    main = files.pop("train.py")
    for name, attn in (("plain", PP), ("fast", PF), ("other", PP)):
        files |= {f"{name}.py": main.replace("config.yaml", f"{name}.yaml")}
        files |= {f"{name}.yaml": f"model:\n  target: nets.Net\n{attn}"}
    found = judged(tmp_path, files)
    assert {name: need(program)[0] for name, program in found.items()} == {
        "plain.py": "OPTION",
        "fast.py": "ALWAYS",
        "other.py": "OPTION",
    }


COMPOSE = (
    "import sys\nimport torch\nfrom hydra import compose, initialize_config_module\n"
    "from hydra.utils import instantiate\ndef main(fast=False):\n    overrides = {}\n"
    "    initialize_config_module('lab')\n"
    "    instantiate(compose(config_name=sys.argv[2], overrides=overrides).model)\nmain()\n"
)


@pytest.mark.parametrize(
    ("overrides", "needs_it"),
    [
        ("[]", False),
        ("['++model.width=4']", False),
        ("['++model.attn=fast']", True),
        ("['model.attn=' + sys.argv[3]]", True),
        ("['++model.attn=fast'] if fast else []", False),
    ],
)
def test_what_overrides_settings_where_hydra_composes_them(overrides: str, *, needs_it: bool, tmp_path: Path) -> None:
    settings = "model:\n  _target_: lab.nets.Net\n  attn: plain\n"
    files: Files = {"train.py": COMPOSE.format(overrides), "lab/__init__.py": "", "lab/nets.py": NET}
    files |= {"lab/kinds/a.yaml": settings, "run.sh": "python train.py --cfg kinds/a.yaml\n"}
    said = judged(tmp_path, files)["train.py"].verdict
    assert said in (Verdict.MAY_NEED, Verdict.BLOCKED) if needs_it else said is Verdict.WITHOUT
