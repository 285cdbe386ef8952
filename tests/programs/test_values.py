"""Conditions on `x.fast` are decided by what `x` is where it is asked, never by another object with a `fast`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.small import KERNEL, Files, judged
from tests.programs.test_conditions import need
from torchferry.programs.model import Verdict

PARSER = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
USE = "if {}.fast:\n    import cupy\n"
FLAG = "parser.add_argument('--fast', action='store_true')\n"
NET = "import torch\nclass Net:\n    def __init__(self, cfg):\n        self.cfg = cfg\n    def run(self):\n        if self.cfg.fast:\n            import cupy\n"  # noqa: E501
FIELD = "from dataclasses import dataclass\n@dataclass\nclass Config:\n    fast: bool = {}\n"
HYDRA = (
    "import hydra\nimport torch\n@hydra.main(config_path='conf', config_name='{name}')\ndef main(cfg):\n"
    "    if cfg.{key}:\n        import cupy\nif __name__ == '__main__':\n    main()\n"
)
LOADED = "import yaml\nimport torch\ncfg = yaml.safe_load(open({}))\nif cfg['fast']:\n    import cupy\n"
OMEGA = "from omegaconf import OmegaConf\nimport torch\n"
ENVIRONMENT = "import os\nimport torch\nif os.environ.get('FAST', '') == '1':\n    import cupy\n"
SHELL = "```bash\n{}python train.py\n```\n"
TAKES = "def f(cfg):\n    if cfg.fast:\n        import cupy\n"


def one(text: str, **others: str) -> Files:
    return {"train.py": text, **{name.replace("__", "/").replace("_y", ".y"): text for name, text in others.items()}}


NOTHING: list[tuple[str, Files, str]] = [
    # nobody knows what is asked: no other object of the project says it
    ("stored under what nobody knows", one("import torch\nclass Config:\n    fast = False\ncfg = Config()\n"
                                           "if torch.load('x'):\n    cfg.fast = True\n" + USE.format("cfg")), "CHOSEN"),
    ("stored in an attempt", one("import torch\nclass Config:\n    fast = False\ncfg = Config()\ntry:\n"
                                 "    cfg.fast = torch.load('x')\nexcept OSError:\n    pass\n" + USE.format("cfg")),
     "CHOSEN"),
    ("a namespace that is given", one(PARSER + FLAG + "args = parser.parse_args(namespace=torch.load('x'))\n"
                                      + USE.format("args")), "CHOSEN"),
    ("a variable that a shell fills", {"train.py": ENVIRONMENT, "README.md": SHELL.format("FAST=$FAST ")}, "CHOSEN"),
    ("settings are merged into what nobody knows",
     {"train.py": "from yacs.config import CfgNode\nimport torch\nHOOKS = []\ndef hook(c):\n"
      "    c.merge_from_file('c.yaml')\nHOOKS.append(hook)\ncfg = CfgNode({'fast': False})\nHOOKS[0](cfg)\n"
      "if cfg.fast:\n    import cupy\n", "c.yaml": "fast: true\n"}, "CHOSEN"),
    ("a variable that a file sets", one("import os\nimport torch\nos.environ['FAST'] = torch.load('x')\n"
                                        "if os.environ.get('FAST'):\n    import cupy\n"), "CHOSEN"),
    ("another file stores in a module", {"train.py": "import other\nimport settings\nimport torch\n"
                                         "if settings.fast:\n    import cupy\n", "settings.py": "fast = False\n",
                                         "other.py": "import settings\nsettings.fast = True\n"}, "CHOSEN"),
    ("yacs, a file that says it", {"train.py": "from yacs.config import CfgNode\nimport torch\ncfg = CfgNode()\n"
                                   "cfg.fast = False\ncfg.merge_from_file('c.yaml')\nif cfg.fast:\n"
                                   "    import cupy\n", "c.yaml": "fast: true\n"}, "CHOSEN"),
    ("a key of a loop", one("import torch\ncfg = {'fast': False}\nfor key, value in torch.load('x'):\n"
                            "    cfg[key] = value\n" + "if cfg['fast']:\n    import cupy\n"), "CHOSEN"),
    ("a method that is not called", one("import torch\nclass A:\n    fast = True\n    def off(self):\n"
                                        "        self.fast = False\na = A()\n" + USE.format("a")), "CHOSEN"),
    ("settings nobody opens", {"train.py": f"import torch\n{TAKES}f(torch.load('x'))\n", "a.yaml": "fast: false\n"},
     "CHOSEN"),
    ("settings of another", {"train.py": LOADED.format("'b.yaml'"), "a.yaml": "fast: false\n", "b.yaml": "slow: 1\n"},
     "CHOSEN"),
    ("settings nobody named", {"train.py": LOADED.format("input()"), "a.yaml": "fast: false\n"}, "CHOSEN"),
    ("field of another class", {"train.py": f"import torch\nimport other\n{TAKES}f(torch.load('x'))\n",
                                "other.py": FIELD.format(False)}, "CHOSEN"),
    ("record of another", {"train.py": f"import torch\nimport other\n{TAKES}f(torch.load('x'))\n",
                           "other.py": "from types import SimpleNamespace\nx = SimpleNamespace(fast=False)\n"},
     "CHOSEN"),
    ("table of another", one(f"import torch\nother = {{'fast': False}}\n{TAKES}f(torch.load('x'))\n"), "CHOSEN"),
    ("constant of another", one("import torch\nclass Other:\n    def __init__(self):\n        self.fast = False\n"
                                f"{TAKES}f(torch.load('x'))\n"), "CHOSEN"),
    ("option of another program", {"train.py": f"import torch\nimport test\n{TAKES}f(torch.load('x'))\n",
                                   "test.py": "import argparse\nimport torch\nif __name__ == '__main__':\n"
                                   "    parser = argparse.ArgumentParser()\n"
                                   "    parser.add_argument('--fast', action='store_true')\n"}, "CHOSEN"),
    ("option of another parser", one(PARSER + FLAG + "other = argparse.ArgumentParser()\n"
                                     "args = other.parse_args()\n" + USE.format("args")), "CHOSEN"),
    ("loaded weights are no options", one(PARSER + FLAG + "args = parser.parse_args()\nckpt = torch.load('x')\n"
                                          + USE.format("ckpt")), "CHOSEN"),
    ("loaded model's config", one("from transformers import AutoConfig\n" + PARSER + FLAG + "args = parser.parse_args()"
                                  "\ncfg = AutoConfig.from_pretrained('x')\n" + USE.format("cfg")), "CHOSEN"),
    ("parameter nobody gives", one(f"import torch\n{TAKES}torch.ones(1).register_hook(f)\n"), "CHOSEN"),
    ("item of data", one("import torch\nfor batch in torch.load('x'):\n    if batch['fast']:\n        import cupy\n"),
     "CHOSEN"),
    ("length of data", one("import torch\nds = torch.load('x')\nif len(ds) > 3:\n    import cupy\n"), "CHOSEN"),
    ("queue of work", one("import torch\njobs = []\njobs.append(1)\nwhile jobs:\n    import cupy\n    jobs.pop()\n"),
     "CHOSEN"),
    ("hydra's other group", {"train.py": HYDRA.format(name="config", key="model.fast"),
                             "conf/config.yaml": "defaults:\n  - model: a\n", "conf/model/a.yaml": "slow: 1\n",
                             "conf/model/b.yaml": "fast: false\n"}, "CHOSEN"),
    ("an option that is set elsewhere", one(
        PARSER + FLAG + "args = parser.parse_args()\ndef choose(a):\n    if torch.ones(1):\n        a.fast = True\n"
        "choose(args)\n" + USE.format("args")), "CHOSEN"),
    ("a table that is changed", one("import torch\ncfg = {'fast': False}\ncfg.update(torch.load('x'))\n"
                                    "if cfg['fast']:\n    import cupy\n"), "CHOSEN"),
    ("an object that is filled", one("import torch\nfrom types import SimpleNamespace as N\ncfg = N(fast=False)"
                                     "\ncfg.__dict__.update(torch.load('x'))\n" + USE.format("cfg")), "CHOSEN"),
    ("a class that sets in a loop", one("import torch\nclass Config:\n    fast = False\nfor key in ('fast',):\n"
                                        f"    setattr(Config, key, True)\n{TAKES}f(Config)\n"), "CHOSEN"),
]  # fmt: skip

FILES = (
    "import os\nfrom importlib.resources import files\nimport hydra\nimport torch\n@hydra.main(version_base='1.3', "
    "config_path={}, config_name='config')\ndef main(cfg):\n    if cfg.fast:\n        import cupy\n"
    "if __name__ == '__main__':\n    main()\n"
)

OFF: list[tuple[str, Files, str]] = [
    ("another variable in front of the command", {"train.py": ENVIRONMENT, "README.md": SHELL.format("SLOW=1 ")},
     "OPTION FAST=1"),
    ("stored under an option", one(PARSER + FLAG + "args = parser.parse_args()\nclass Config:\n    fast = False\n"
                                   "cfg = Config()\nif args.fast:\n    cfg.fast = True\n" + USE.format("cfg")),
     "OPTION --fast"),
    ("stored under an option that is asked by its name", one(
        PARSER + FLAG + "args = parser.parse_args()\ndef given(name):\n    return hasattr(args, name) and "
        "getattr(args, name)\nclass Config:\n    fast = False\ncfg = Config()\nif given('fast'):\n"
        "    cfg.fast = True\n" + USE.format("cfg")), "OPTION --fast"),
    ("hydra, a folder of a package", {"src/net/train.py": FILES.format("str(files('net').joinpath('conf'))"),
                                      "train.py": "import os\nimport torch\nos.system('python src/net/train.py')\n",
                                      "src/net/conf/config.yaml": "fast: false\n"}, "OPTION fast"),
    ("hydra, a folder beside the file", {"train.py": FILES.format("os.path.join(os.path.dirname(__file__), 'conf')"),
                                         "conf/config.yaml": "fast: false\n"}, "OPTION fast"),
    # the object says no, whatever others say
    ("option", one(PARSER + FLAG + "args = parser.parse_args()\n" + USE.format("args")), "OPTION --fast"),
    ("option beside settings", {"train.py": PARSER + FLAG + "args = parser.parse_args()\n" + USE.format("args"),
                                "a.yaml": "fast: true\n"}, "OPTION --fast"),
    ("option beside a field", {"train.py": PARSER + "import other\n" + FLAG + "args = parser.parse_args()\n"
                               + USE.format("args"), "other.py": FIELD.format(True)}, "OPTION --fast"),
    ("option beside that of another parser", one(
        PARSER + FLAG + "other = argparse.ArgumentParser()\nother.add_argument('--fast', default=True)\n"
        "args = parser.parse_args()\n" + USE.format("args")), "OPTION --fast"),
    ("an option that is set to the same", one(
        PARSER + FLAG + "args = parser.parse_args()\ndef choose(a):\n    a.fast = False\n"
        "choose(args)\n" + USE.format("args")), "OPTION --fast"),
    ("an option that another object is set to", one(
        PARSER + FLAG + "args = parser.parse_args()\ndef choose(a):\n    a.fast = True\n"
        "choose(torch.load('x'))\n" + USE.format("args")), "OPTION --fast"),
    ("known options", one(PARSER + FLAG + "args, rest = parser.parse_known_args()\n" + USE.format("args")),
     "OPTION --fast"),
    ("options of a parent", one("import argparse\nimport torch\nbase = argparse.ArgumentParser(add_help=False)\n"
                                "base.add_argument('--fast', action='store_true')\n"
                                "parser = argparse.ArgumentParser(parents=[base])\nargs = parser.parse_args()\n"
                                + USE.format("args")), "OPTION --fast"),
    ("options of a group", one(PARSER + "group = parser.add_argument_group('x')\n"
                               "group.add_argument('--fast', action='store_true')\nargs = parser.parse_args()\n"
                               + USE.format("args")), "OPTION --fast"),
    ("options that a function adds", one(
        PARSER + "def add(p):\n    p.add_argument('--fast', action='store_true')\nadd(parser)\n"
        "args = parser.parse_args()\n" + USE.format("args")), "OPTION --fast"),
    ("options of another module", {
        "train.py": "import torch\nfrom options import get_args\nargs = get_args()\n" + USE.format("args"),
        "options.py": "import argparse\ndef get_args():\n    parser = argparse.ArgumentParser()\n    "
        + FLAG + "    return parser.parse_args()\n", "other.yaml": "fast: true\n"}, "OPTION --fast"),
    ("vars of options", one(PARSER + FLAG + "cfg = vars(parser.parse_args())\nif cfg.get('fast', True):\n"
                            "    import cupy\n"), "OPTION --fast"),
    ("options handed on", one(NET + PARSER + FLAG + "Net(parser.parse_args()).run()\n", other_yaml="fast: true\n"),
     "OPTION --fast"),
    ("arguments of transformers", one("from transformers import HfArgumentParser\nimport torch\n" + FIELD.format(False)
                                      + "cfg, = HfArgumentParser((Config,)).parse_args_into_dataclasses()\n"
                                      + USE.format("cfg")), "OPTION --fast"),
    ("several records of arguments", one(
        "from transformers import HfArgumentParser\nimport torch\n" + FIELD.format(False)
        + "@dataclass\nclass Data:\n    fast: bool = True\n"
        "parser = HfArgumentParser((Config, Data))\ncfg, data = parser.parse_args_into_dataclasses()\n"
        + USE.format("cfg")), "OPTION --fast"),
    ("records that are gathered first", one(
        "from transformers import HfArgumentParser\nimport torch\n" + FIELD.format(False)
        + "parser = HfArgumentParser([Config])\n*parsed, rest = parser.parse_args_into_dataclasses()\n"
        "cfg, = parsed\n" + USE.format("cfg")), "OPTION --fast"),
    ("settings in a package", {
        "train.py": "from importlib.resources import files\nNAME = '' or 'a'\n"
        + LOADED.format("str(files('lab').joinpath(f'c/{NAME}.yaml'))") + "print(1)\n", "lab/__init__.py": "",
        "lab/c/a.yaml": "fast: false\n", "lab/c/b.yaml": "fast: true\n"}, "OPTION fast"),
    ("default of hydra's settings", {"train.py": HYDRA.format(name="config", key="get('fast', False)"),
                                     "conf/config.yaml": "slow: 1\n", "other.yaml": "fast: true\n"}, "OPTION fast"),
    ("one or another", one(PARSER + FLAG + "args = parser.parse_args()\nname = args.fast or 'plain'\n"
                           "if name == 'fast':\n    import cupy\n"), "OPTION --fast fast"),
    ("dataclass", one("import torch\n" + FIELD.format(False) + TAKES + "f(Config())\n", other_yaml="fast: true\n"),
     "OPTION fast"),
    ("dataclass with an argument", one("import torch\n" + FIELD.format(True) + TAKES + "f(Config(False))\n"),
     "OPTION fast"),
    ("derived dataclass", one("import torch\n" + FIELD.format(True) + "@dataclass\nclass Own(Config):\n"
                              "    fast: bool = False\n" + TAKES + "f(Own())\n"), "OPTION fast"),
    ("record in a record", one("import torch\n" + FIELD.format(False) + "@dataclass\nclass All:\n"
                               "    model: Config = Config()\n    fast: bool = True\n"
                               "cfg = All()\n" + USE.format("cfg.model")), "OPTION fast"),
    ("made in __init__", one("import torch\nclass Config:\n    def __init__(self, fast=False):\n"
                             f"        self.fast = fast\n{TAKES}f(Config())\n", other_yaml="fast: true\n"),
     "OPTION fast"),
    ("given to __init__", one("import torch\nclass Config:\n    def __init__(self, fast=True):\n"
                              f"        self.fast = fast\n{TAKES}f(Config(fast=False))\nConfig()\n"), "OPTION fast"),
    ("class as namespace", one(f"import torch\nclass CFG:\n    fast = False\n{TAKES}f(CFG)\n"), "OPTION fast"),
    ("module", {"train.py": "import torch\nimport config\n" + USE.format("config"), "config.py": "fast = False\n",
                "other.yaml": "fast: true\n"}, "OPTION fast"),
    ("object of a module", {"train.py": "import torch\nimport config\n" + USE.format("config.cfg"),
                            "config.py": "from types import SimpleNamespace\ncfg = SimpleNamespace(fast=False)\n"},
     "OPTION fast"),
    ("namespace", one("import torch\nfrom types import SimpleNamespace\ncfg = SimpleNamespace(fast=False)\n"
                      + USE.format("cfg"), other_yaml="fast: true\n"), "OPTION fast"),
    ("easydict of a table", one("import torch\nfrom easydict import EasyDict\ncfg = EasyDict({'m': {'fast': False}})\n"
                                + USE.format("cfg.m")), "OPTION fast"),
    ("omegaconf of a table", one(OMEGA + "cfg = OmegaConf.create({'m': {'fast': False}})\n" + USE.format("cfg.m")),
     "OPTION fast"),
    ("a table to which others are added", one("import torch\ncfg = {'fast': False}\ncfg.update(slow=1)\n"
                                              "cfg.update({'slower': 2})\nif cfg['fast']:\n    import cupy\n"),
     "OPTION fast"),
    ("one table beside another", one("import torch\na = {'fast': False}\nb = {'fast': True}\nif a.get('fast'):\n"
                                     "    import cupy\nif getattr(torch, 'x', 0):\n    b['fast']\n"), "OPTION fast"),
    ("settings that are opened", {"train.py": LOADED.format("'a.yaml'"), "a.yaml": "fast: false\n",
                                  "b.yaml": "fast: true\n"}, "OPTION fast"),
    ("settings in a with", {"train.py": "import json\nimport torch\nwith open('a.json') as f:\n    cfg = json.load(f)\n"
                            "if cfg['m']['fast']:\n    import cupy\n", "a.json": json.dumps({"m": {"fast": False}}),
                            "b.json": '{"fast": true}'}, "OPTION fast"),
    ("settings by an option's default", {
        "train.py": PARSER + "parser.add_argument('--config', default='c/a.yaml')\nargs = parser.parse_args()\n"
        "from omegaconf import OmegaConf\ncfg = OmegaConf.load(args.config)\n" + USE.format("cfg.m"),
        "c/a.yaml": "m:\n  fast: false\n", "c/b.yaml": "m:\n  fast: true\n"}, "OPTION fast"),
    ("settings by a command", {
        "train.py": PARSER + "parser.add_argument('--config')\nargs = parser.parse_args()\n"
        "import yaml\ncfg = yaml.safe_load(open(args.config))\nif cfg['fast']:\n    import cupy\n",
        "a.yaml": "fast: false\n", "b.yaml": "fast: true\n", "run.sh": "python train.py --config a.yaml\n"},
     "OPTION fast"),
    ("settings by a path that is joined", {
        "train.py": "import os\n" + LOADED.format("os.path.join(os.path.dirname(__file__), 'c', 'a.yaml')"),
        "c/a.yaml": "fast: false\n", "c/b.yaml": "fast: true\n"}, "OPTION fast"),
    ("settings by a path", {
        "train.py": "from pathlib import Path\n" + LOADED.format("Path(__file__).parent / 'c' / 'a.yaml'"),
        "c/a.yaml": "fast: false\n", "c/b.yaml": "fast: true\n"}, "OPTION fast"),
    ("toml", {"train.py": "import tomllib\nimport torch\nwith open('a.toml', 'rb') as f:\n    cfg = tomllib.load(f)\n"
              "if cfg['m']['fast']:\n    import cupy\n", "a.toml": "[m]\nfast = false\n"}, "OPTION fast"),
    ("settings that a function reads", {
        "train.py": "import yaml\nimport torch\ndef load(path):\n    with open(path) as f:\n"
        "        return yaml.safe_load(f)\ncfg = load('a.yaml')\nother = load('b.yaml')\nif cfg['fast']:\n"
        "    import cupy\n", "a.yaml": "fast: false\n", "b.yaml": "fast: true\n"}, "OPTION fast"),
    ("hydra", {"train.py": HYDRA.format(name="config", key="model.fast"), "conf/config.yaml": "model:\n  fast: false\n",
               "other.yaml": "model:\n  fast: true\n"}, "OPTION model.fast"),
    ("hydra's group", {"train.py": HYDRA.format(name="config", key="model.fast"),
                       "conf/config.yaml": "defaults:\n  - model: a\n", "conf/model/a.yaml": "fast: false\n",
                       "conf/model/b.yaml": "fast: true\n"}, "OPTION model.fast"),
    ("merged", {"train.py": OMEGA + "cfg = OmegaConf.merge({'fast': True}, OmegaConf.load('a.yaml'))\n"
                + USE.format("cfg"), "a.yaml": "fast: false\n"}, "OPTION fast"),
    ("click", one("import click\nimport torch\n@click.command()\n@click.option('--fast', is_flag=True)\n"
                  "def main(fast):\n    if fast:\n        import cupy\nif __name__ == '__main__':\n    main()\n",
                  other_yaml="fast: true\n"), "OPTION --fast"),
    ("node of settings in Python", {
        "train.py": "import torch\nfrom config import get_cfg\ncfg = get_cfg()\n" + USE.format("cfg.MODEL"),
        "config.py": "from yacs.config import CfgNode as CN\n_C = CN()\n_C.fast = True\n_C.MODEL = CN()\n"
        "_C.MODEL.fast = False\ndef get_cfg():\n    return _C.clone()\n"}, "OPTION fast"),
    ("what Lightning keeps", one(
        "import torch\nimport lightning as L\nclass Net(L.LightningModule):\n    def __init__(self, fast=False):\n"
        "        super().__init__()\n        self.save_hyperparameters()\n    def run(self):\n"
        "        if self.hparams.fast:\n            import cupy\nNet().run()\n", other_yaml="fast: true\n"),
     "OPTION fast"),
    ("what Lightning keeps of options", one(
        "import lightning as L\n" + PARSER + FLAG + "class Net(L.LightningModule):\n    def __init__(self, hparams):\n"
        "        super().__init__()\n        self.save_hyperparameters(hparams)\n    def run(self):\n"
        "        if self.hparams.fast:\n            import cupy\nNet(parser.parse_args()).run()\n"),
     "OPTION --fast"),
    ("default of getattr", one("import torch\nfrom types import SimpleNamespace\ncfg = SimpleNamespace(x=1)\n"
                               "if getattr(cfg, 'fast', False):\n    import cupy\n", other_yaml="fast: true\n"),
     "OPTION fast"),
    ("handed to a pool", one(
        "import torch\nfrom functools import partial\nfrom multiprocessing import Pool\ndef clean(text, lang='zh'):\n"
        "    if lang == 'zh':\n        return text\n    elif lang == 'en':\n        import cupy\n"
        "Pool(2).map(clean, ['a'])\n"), "OPTION lang == 'en' (train.py:7) not (lang == 'zh') (train.py:5)"),
]  # fmt: skip

YES: list[tuple[str, Files, str]] = [
    ("words that the call gives", one(PARSER + FLAG + "args = parser.parse_args(['--fast'])\n" + USE.format("args")),
     "ALWAYS"),
    ("a variable in front of the command", {"train.py": ENVIRONMENT, "README.md": SHELL.format("FAST=1 ")}, "ALWAYS"),
    ("a package by its computed name", one("import importlib\nimport torch\nNAME = 'cupy'\n"
                                           "importlib.import_module(NAME)\n"), "ALWAYS"),
    ("dataclass beside settings", one("import torch\n" + FIELD.format(True) + TAKES + "f(Config())\n",
                                      other_yaml="fast: false\n"), "ALWAYS"),
    ("command of hydra", {"train.py": HYDRA.format(name="config", key="model.fast"),
                          "conf/config.yaml": "model:\n  fast: false\n",
                          "run.sh": "python train.py model.fast=true\n"}, "ALWAYS"),
    ("another key of hydra", {"train.py": HYDRA.format(name="config", key="model.fast"),
                              "conf/config.yaml": "model:\n  fast: false\ndata:\n  fast: false\n",
                              "run.sh": "python train.py data.fast=true\n"}, "OPTION model.fast"),
    ("another group of hydra", {"train.py": HYDRA.format(name="config", key="model.fast"),
                                "conf/config.yaml": "defaults:\n  - model: a\n", "conf/model/a.yaml": "fast: false\n",
                                "conf/model/b.yaml": "fast: true\n", "run.sh": "python train.py model=b\n"}, "ALWAYS"),
    ("package of hydra", {"train.py": HYDRA.format(name="config", key="fast"),
                          "conf/config.yaml": "defaults:\n  - model: a\n",
                          "conf/model/a.yaml": "# @package _global_\nfast: true\n"}, "ALWAYS"),
    ("what a process is given", one(
        "import torch\nfrom multiprocessing import Process\ndef work(lang='zh'):\n    if lang == 'en':\n"
        "        import cupy\nProcess(target=work, args=('en',)).start()\n"), "ALWAYS"),
    ("what a process is given by name", one(
        "import torch\nfrom multiprocessing import Process\ndef work(lang='zh'):\n    if lang == 'en':\n"
        "        import cupy\nProcess(target=work, kwargs={'lang': 'en'}).start()\n"), "ALWAYS"),
    ("what partial is given", one(
        "import torch\nfrom functools import partial\nfrom multiprocessing import Pool\ndef work(x, lang='zh'):\n"
        "    if lang == 'en':\n        import cupy\nPool(2).map(partial(work, lang='en'), ['a'])\n"), "ALWAYS"),
    ("what a pool goes through", one(
        "import torch\nfrom multiprocessing import Pool\ndef work(lang='zh'):\n    if lang == 'en':\n"
        "        import cupy\nPool(2).map(work, torch.load('x'))\n"), "CHOSEN"),
]  # fmt: skip


OPTION = PARSER + FLAG + "args = parser.parse_args()\n" + USE.format("args")

THERE = "import os\nimport torch\nif 'FAST' in os.environ:\n    import cupy\n"
SHORT = OPTION.replace("'--fast'", "'-f', '--fast'")
CONST = PARSER + (
    "parser.add_argument('--quick', dest='fast', action='store_const', const='yes')\n"
    "parser.add_argument('--slow', dest='fast', action='store_const', const='')\n"
    "args = parser.parse_args()\nif args.fast == 'yes':\n    import cupy\n"
)
ON = PARSER + (
    "parser.add_argument('--fast', action=argparse.BooleanOptionalAction, default=True)\n"
    "args = parser.parse_args()\n" + USE.format("args")
)
NAMED = PARSER + (
    "parser.add_argument('--mode', {}default='FAST')\nargs = parser.parse_args()\nif {} == 'fast':\n    import cupy\n"
)
FIRE = (
    "import fire\nimport torch\nclass Trainer:\n    def train(self):\n        torch.ones(1)\n    def export(self):\n"
    "        import cupy\nfire.Fire(Trainer)\n"
)
FIRE_OPTION = (
    "import fire\nimport torch\nclass Trainer:\n    def __init__(self, fast=False):\n        self.fast = fast\n"
    "    def train(self):\n        if self.fast:\n            import cupy\nfire.Fire(Trainer)\n"
)
CLICK = (
    "import click\nimport torch\n@click.command()\n@click.option('--fast', is_flag=True, envvar='FAST')\n"
    "def main(fast):\n    if fast:\n        import cupy\nmain()\n"
)
TRANSFORMERS = (
    "import sys\nimport torch\nfrom dataclasses import dataclass\nfrom transformers import HfArgumentParser\n"
    "@dataclass\nclass Args:\n    fast: bool = False\nparser = HfArgumentParser(Args)\n"
    "if sys.argv[1].endswith('.json'):\n    (args,) = parser.parse_json_file(sys.argv[1])\nelse:\n"
    "    (args,) = parser.parse_args_into_dataclasses()\nif args.fast:\n    import cupy\n"
)
MADE = {
    "train.py": "import hydra\nimport torch\nfrom omegaconf import OmegaConf\n"
    "net = hydra.utils.instantiate(OmegaConf.load('a.yaml').model)\nnet.run()\n",
    "nets.py": "class Net:\n    def __init__(self, fast=False):\n        self.fast = fast\n    def run(self):\n"
    "        if self.fast:\n            import cupy\n",
}
BASE = (
    "import torch\nclass Base:\n    fast = False\n    def run(self):\n        if self.fast:\n            import cupy\n"
)
KEPT_CLASS = (
    "import torch\nclass Base:\n    fast = False\n    def run(self):\n        if self.fast:\n            import cupy\n"
    "KEPT = []\ndef keep(net):\n    KEPT.append(net)\n    return net\n{}class Fast(Base):\n    fast = True\n"
    "make(Base if 0 else {}).run()\n"
)
GIVES = (
    "import torch\ndef wrapper(function):\n    def inner(*given, **more):\n        if True:\n            pass\n{}"
    "        return function({})\n    return inner\n@wrapper\ndef f(x, fast=False):\n    if fast:\n"
    "        import cupy\nf(1)\n"
)
BRANCHES = (
    PARSER
    + "parser.add_argument('--size', type=int, default=1)\nargs = parser.parse_args()\nif {}:\n    fast = True\n{}\n"
    "if fast:\n    import cupy\n"
)
EXECUTES = "import torch\nfast = False\nexec(open('configurator.py').read())\nif fast:\n    import cupy\n"

COMMANDS: list[tuple[str, Files, str]] = [
    # a command means what stands for its variables; a variable that nobody sets says nothing
    ("in a variable", {"train.py": OPTION, "run.sh": "ARGS='--fast'\npython train.py $ARGS\n"}, "ALWAYS"),
    ("in an array", {"train.py": OPTION, "run.sh": 'ARGS=(\n  --fast\n)\npython train.py "${ARGS[@]}"\n'}, "ALWAYS"),
    ("in a branch", {"train.py": OPTION, "run.sh": "if [ $1 ]; then A=--fast; fi\npython train.py $A\n"}, "CHOSEN"),
    ("in a loop", {"train.py": OPTION, "run.sh": "for a in '' --fast; do python train.py $a; done\n"}, "CHOSEN"),
    ("out of a file", {"train.py": OPTION, "run.sh": "python train.py $(cat args.txt)\n"}, "CHOSEN"),
    ("the value of another option", {"train.py": OPTION, "run.sh": "python train.py --lr $(cat x)\n"},
     "OPTION --fast"),
    ("of who starts it", {"train.py": OPTION, "run.sh": 'python train.py $EXTRA $1 "$@"\n'}, "OPTION --fast"),
    ("of make", {"train.py": OPTION, "Makefile": "A = --fast\nall:\n\tpython train.py $(A)\n"}, "ALWAYS"),
    ("another command", {"train.py": OPTION, "run.sh": "python train.py\npython train.py --fast\n"}, "OPTION --fast"),
    ("its short form", {"train.py": SHORT, "run.sh": "python train.py -f\n"}, "ALWAYS"),
    ("another short form", {"train.py": SHORT, "run.sh": "python train.py -g\n"}, "OPTION --fast"),
    ("what an option stores", {"train.py": CONST, "run.sh": "python train.py --quick\n"}, "ALWAYS"),
    ("the option that stores something else", {"train.py": CONST, "run.sh": "python train.py --slow\n"},
     "OPTION args.fast == 'yes' (train.py:7)"),
    ("an option that is turned off", {"train.py": ON, "run.sh": "python train.py --no-fast\n"}, "OPTION --fast"),
    ("an option that is on", {"train.py": ON, "run.sh": "python train.py\n"}, "ALWAYS"),
    ("bool of a text", {"train.py": PARSER + "parser.add_argument('--fast', type=bool, default=False)\n"
                        "args = parser.parse_args()\n" + USE.format("args"),
                        "run.sh": "python train.py --fast False\n"}, "ALWAYS"),
    ("a default in capitals", one(NAMED.format("type=str.lower, ", "args.mode"))  , "ALWAYS"),
    ("a default that is lowered later", one(NAMED.format("", "args.mode.lower()")), "ALWAYS"),
    ("a default that a function changes", one(NAMED.format("type=lambda x: x[1:], ", "args.mode")), "CHOSEN"),
    ("words that the program adds", one("import sys\nsys.argv.append('--fast')\n" + OPTION), "CHOSEN"),
    ("other words that it adds", one("import sys\nsys.argv += ['--lr', '3']\n" + OPTION), "OPTION --fast"),
    ("words that it takes away", one("import sys\nsys.argv = sys.argv[:1]\n" + OPTION), "OPTION --fast"),
    ("of a function", {"train.py": OPTION, "run.sh": 'run() {\n  python train.py "$@"\n}\nrun --fast\n'}, "ALWAYS"),
    ("of a function that another call gives less", {"train.py": OPTION, "run.sh":
     "function run {\n  python train.py ${@:2}\n}\nrun 0 --fast\nrun 1\n"}, "CHOSEN"),
    ("set for the script", {"train.py": OPTION, "run.sh": 'set -- --fast\npython train.py "$@"\n'}, "ALWAYS"),
    ("given to a script", {"train.py": OPTION, "run.sh": 'python train.py "$@"\n',
                           "README.md": "```\n./run.sh --fast\n```\n"}, "ALWAYS"),
    ("given to a script behind others", {"train.py": OPTION, "tools/run.sh": "python train.py --lr $1 ${@:2}\n",
                                         "README.md": "```bash\nbash tools/run.sh 3 --fast\n```\n"}, "ALWAYS"),
    ("given to a script that does not hand it on", {"train.py": OPTION, "run.sh": "python train.py --lr $1\n",
                                                    "README.md": "```bash\nsh run.sh 3 --fast\n```\n"},
     "OPTION --fast"),
    ("given to what an image starts", {"train.py": OPTION, "Dockerfile": 'ENTRYPOINT ["python", "train.py"]\n'
                                       'CMD ["--fast"]\n'}, "ALWAYS"),
    ("exported", {"train.py": ENVIRONMENT, "run.sh": "export FAST=1\npython train.py\n"}, "ALWAYS"),
    ("not exported", {"train.py": ENVIRONMENT, "run.sh": "FAST=1\npython train.py\n"}, "OPTION FAST=1"),
    ("asked whether it is there", {"train.py": THERE, "run.sh": "export FAST=1\npython train.py\n"}, "ALWAYS"),
    ("asked where nobody sets it", one(THERE), "OPTION FAST"),
    ("asked where a file may set it", one("import os\nos.environ['FAST'] = '1'\n" + THERE), "CHOSEN"),
    ("exported otherwise", {"train.py": ENVIRONMENT, "run.sh": "export FAST=0\npython train.py\n"}, "OPTION FAST=1"),
    ("exported in this example", {"train.py": ENVIRONMENT, "README.md": SHELL.format("export FAST=1\n")}, "ALWAYS"),
    ("exported in another example",
     {"train.py": ENVIRONMENT, "README.md": "```\nexport FAST=1\n```\n" + SHELL.format("")}, "CHOSEN"),
    ("of an image", {"train.py": ENVIRONMENT, "Dockerfile": "FROM x\nENV A=2 FAST=1\nCMD [\"python\", \"train.py\"]\n"},
     "ALWAYS"),
    ("of an image, in the old form", {"train.py": ENVIRONMENT, "Dockerfile": "ENV FAST 1\nCMD python train.py\n"},
     "ALWAYS"),
    ("while an image is built", {"train.py": ENVIRONMENT, "Dockerfile": "ARG FAST=1\nCMD python train.py\n"},
     "OPTION FAST=1"),
    ("of compose", {"train.py": ENVIRONMENT, "compose.yaml": "services:\n  a:\n    environment:\n      FAST: '1'\n"
                    "    command: python train.py\n"}, "ALWAYS"),
    ("of another service", {"train.py": ENVIRONMENT, "compose.yaml": "services:\n  a:\n    environment:\n"
                            "      - FAST=1\n  b:\n    command: python train.py\n"}, "OPTION FAST=1"),
    ("made by settings that say it", {**MADE, "a.yaml": "model:\n  _target_: nets.Net\n  fast: true\n"}, "ALWAYS"),
    ("made by settings that leave it", {**MADE, "a.yaml": "model:\n  _target_: nets.Net\n  slow: true\n"},
     "OPTION fast"),
    ("an option by a variable", {"train.py": CLICK, "run.sh": "FAST=1 python train.py\n"}, "ALWAYS"),
    ("an option whose variable nobody sets", one(CLICK), "OPTION --fast"),
    ("settings behind the program", {"train.py": TRANSFORMERS, "a.json": '{"fast": true}',
                                     "run.sh": "python train.py a.json\n"}, "ALWAYS"),
    ("settings behind the program that leave it", {"train.py": TRANSFORMERS, "a.json": '{"slow": true}',
                                                   "run.sh": "python train.py a.json\n"}, "OPTION --fast"),
    # `self` is an object of the class that is made
    ("a derived class says it", one(BASE + "class Fast(Base):\n    fast = True\nFast().run()\n"), "ALWAYS"),
    ("a derived class says it where it is made", one(
        BASE + "class Fast(Base):\n    def __init__(self):\n        super().__init__()\n        self.fast = True\n"
        "Fast().run()\n"), "ALWAYS"),
    ("a class between them", one(BASE + "class Between(Base):\n    fast = True\nclass Fast(Between):\n    pass\n"
                                        "Fast().run()\n"), "ALWAYS"),
    ("a derived class that nobody makes", one(BASE + "class Fast(Base):\n    fast = True\nBase().run()\n"),
     "OPTION fast"),
    ("both are made", one(BASE + "class Fast(Base):\n    fast = True\nFast()\nBase().run()\n"), "CHOSEN"),
    ("a derived class out of a table", one(BASE + "class Fast(Base):\n    fast = True\n"
                                           "{'fast': Fast}['fast']().run()\n"), "ALWAYS"),
    ("a derived class that a decorator keeps", one(KEPT_CLASS.format("@keep\n", "'f' + 'ast'")), "CHOSEN"),
    ("a derived class that a text names", one(KEPT_CLASS.format("", "'Fast'")), "CHOSEN"),
    ("a derived class that settings name", {**one(KEPT_CLASS.format("", "torch.load('x')")), "a.yaml": "net: Fast\n"},
     "CHOSEN"),
    ("many calls of a function", {"train.py": OPTION, "run.sh": 'run() {\n  python train.py "$@"\n}\n'
                                  "run --a\nrun --b\nrun --c\nrun --d\nrun --e\nrun --fast\n"}, "CHOSEN"),
    ("a class makes itself", one("import torch\nclass Net:\n    def __init__(self, fast=False):\n"
                                 "        self.fast = fast\n    @classmethod\n    def quick(cls):\n"
                                 "        return cls(fast=True)\n    def run(self):\n        if self.fast:\n"
                                 "            import cupy\nNet.quick().run()\n"), "ALWAYS"),
    ("stored by its name", one("import torch\nclass Config:\n    fast = False\ncfg = Config()\n"
                               "setattr(cfg, 'fast', True)\n" + USE.format("cfg")), "CHOSEN"),
    ("a decorator gives it", one(GIVES.format("            more['fast'] = True\n", "*given, **more")), "CHOSEN"),
    ("a decorator gives nothing", one(GIVES.format("", "*given, **more")), "OPTION fast (train.py:10)"),
    ("a decorator gives other arguments", one(GIVES.format("", "**torch.load('x')")), "CHOSEN"),
    ("a default behind or", one("import torch\nNAME = 'fast'\ndef f(name=None):\n    name = name or NAME\n"
                                "    if name == 'fast':\n        import cupy\nf()\n"), "ALWAYS"),
    ("the branch that is taken", one(BRANCHES.format("args.size > 3", "else:\n    fast = False")), "OPTION --size"),
    ("the branch by default", one(BRANCHES.format("args.size < 3", "else:\n    fast = False")), "ALWAYS"),
    ("a branch that nobody knows", one(BRANCHES.format("torch.load('x')", "else:\n    fast = False")), "CHOSEN"),
    ("set before", one(BRANCHES.format("args.size > 3", "").replace("if args.s", "fast = False\nif args.s")),
     "OPTION --size"),
    ("set behind", one(BRANCHES.format("args.size < 3", "fast = False")), "OPTION fast"),
    ("set in a loop", one(BRANCHES.format("args.size > 3", "else:\n    fast = False\nfor x in torch.load('x'):\n"
                                                           "    fast = True")), "CHOSEN"),
    ("set in an attempt", one(BRANCHES.format("args.size > 3", "else:\n    fast = False\ntry:\n"
                                                               "    fast = torch.load('x')\nexcept OSError:\n"
                                                               "    pass")), "CHOSEN"),
    ("set in a case", one(BRANCHES.format("args.size > 3", "else:\n    fast = False\nmatch torch.load('x'):\n"
                                                           "    case [a]:\n        fast = True")), "CHOSEN"),
    ("a parameter that is filled", one(
        "import torch\ndef f(fast=None):\n    if fast is None:\n        fast = False\n    if fast:\n"
        "        import cupy\nf()\n"), "OPTION fast (train.py:5)"),
    ("a parameter that is given", one(
        "import torch\ndef f(fast=None):\n    if fast is None:\n        fast = False\n    if fast:\n"
        "        import cupy\nf(True)\n"), "ALWAYS"),
    ("the device there is", one("import torch\nif torch.cuda.is_available():\n    device = 'cuda'\nelse:\n"
                                "    device = 'cpu'\nif device == 'cuda':\n    import cupy\n"), "ALWAYS"),
    ("a method by fire", {"train.py": FIRE, "run.sh": "python train.py train\n"}, "OPTION export"),
    ("the method that is started", {"train.py": FIRE, "run.sh": "python train.py export\n"}, "ALWAYS"),
    ("an object for fire", one(FIRE.replace("Fire(Trainer)", "Fire(Trainer())")), "CHOSEN"),
    ("a table of classes for fire", one(FIRE.replace("Fire(Trainer)", "Fire({'a': Trainer})")), "CHOSEN"),
    ("another class for fire", one(FIRE.replace("Fire(Trainer)", "Fire(Other)") + "class Other:\n    pass\n"), "NEVER"),
    ("a method for itself", one(FIRE.replace("export", "_export")), "NEVER"),
    ("what fire makes an object with", {"train.py": FIRE_OPTION, "run.sh": "python train.py train --fast\n"}, "ALWAYS"),
    ("what fire may make an object with", one(FIRE_OPTION), "OPTION --fast"),
    ("defaults out of a table", one(PARSER + FLAG + "parser.set_defaults(**{'fast': True})\n"
                                    "args = parser.parse_args()\n" + USE.format("args")), "ALWAYS"),
    ("defaults out of settings", {"train.py": PARSER + FLAG + "import yaml\nparser.set_defaults(**yaml.safe_load("
                                  "open('a.yaml')))\nargs = parser.parse_args()\n" + USE.format("args"),
                                  "a.yaml": "fast: true\n"}, "ALWAYS"),
    ("defaults that nobody knows", one(PARSER + FLAG + "parser.set_defaults(**torch.load('x'))\n"
                                       "args = parser.parse_args()\n" + USE.format("args")), "CHOSEN"),
    ("defaults that an option takes in", one(
        PARSER + FLAG + "parser.add_argument('--config', default='')\nargs = parser.parse_args()\nif args.config:\n"
        "    parser.set_defaults(**torch.load(args.config))\nargs = parser.parse_args()\n" + USE.format("args")),
     "OPTION --fast"),
    ("defaults of another parser", one(PARSER + FLAG + "other = argparse.ArgumentParser()\nother.set_defaults("
                                       "**torch.load('x'))\nargs = parser.parse_args()\n" + USE.format("args")),
     "OPTION --fast"),
    ("a constant that the command sets", {"train.py": EXECUTES, "run.sh": "python train.py --fast=True\n"}, "ALWAYS"),
    ("settings that the command names", {"train.py": EXECUTES, "config/a.py": "fast = True\n",
                                          "run.sh": "python train.py config/a.py\n"}, "ALWAYS"),
    ("settings that leave it", {"train.py": EXECUTES, "config/a.py": "slow = True\n",
                                 "run.sh": "python train.py config/a.py\n"}, "OPTION --fast"),
    ("settings that are executed", {"train.py": EXECUTES.replace("configurator", "settings"),
                                    "settings.py": "fast = True\n"}, "ALWAYS"),
    ("of a pod", {"train.py": ENVIRONMENT, "pod.yaml": "containers:\n  - env:\n      - name: FAST\n        value: '1'\n"
                  "    command: [python, train.py]\n"}, "ALWAYS"),
]  # fmt: skip


FAST = "import torch\ndef fast():\n    import cupy\n"

REGISTERED = (
    "import torch\nNETS = {{}}\ndef register(name):\n    def keep(net):\n        NETS[name] = net\n        return net\n"
    "    return keep\n@register('fast')\ndef fast():\n    import cupy\n@register('plain')\ndef plain():\n    pass\n{}"
)
HOOKED = (
    "import torch\nHOOKS = []\ndef hook(function):\n    HOOKS.append(function)\n    return function\n@hook\n"
    "def fast():\n    import cupy\n{}"
)
ASKED = (
    "import torch\nclass Net:\n    def run_fast(self):\n        import cupy\n    def run_plain(self):\n        pass\n{}"
)

SPOKEN_OF: list[tuple[str, Files, str]] = [
    # what the project's own decorators keep
    ("kept under a key", one(REGISTERED.format("NETS['fast']()\n")), "ALWAYS"),
    ("another key", one(REGISTERED.format("NETS['plain']()\n")), "NEVER"),
    ("a key in a variable", one(REGISTERED.format("name = 'fast'\nNETS.get(name)()\n")), "ALWAYS"),
    ("a key that nobody knows", one(REGISTERED.format("NETS[torch.load('x')]()\n")), "CHOSEN"),
    ("all that is kept", one(REGISTERED.format("for net in NETS.values():\n    net()\n")), "ALWAYS"),
    ("the keys alone", one(REGISTERED.format("print(sorted(NETS), len(NETS), 'fast' in NETS)\n")), "NEVER"),
    ("kept in another file", {"train.py": "import torch\nimport nets\nfrom keep import NETS\nNETS['fast']()\n",
                              "keep.py": "NETS = {}\ndef keep(net):\n    NETS[net.__name__] = net\n    return net\n",
                              "nets.py": "import keep\n@keep.keep\ndef fast():\n    import cupy\n"}, "ALWAYS"),
    ("hooks that are run", one(HOOKED.format("for each in HOOKS:\n    each()\n")), "ALWAYS"),
    ("hooks that are not run", one(HOOKED.format("print(len(HOOKS))\n")), "NEVER"),
    ("a decorator that keeps nothing", one("import torch\ndef timed(function):\n    return function\n@timed\n"
                                           "def fast():\n    import cupy\ntorch.ones(1)\n"), "NEVER"),
    # methods that are asked for by their names
    ("a method by its name", one(ASKED.format("getattr(Net(), 'run_fast')()\n")), "ALWAYS"),
    ("another method", one(ASKED.format("getattr(Net(), 'run_plain')()\n")), "NEVER"),
    ("a method by a name that is put together", one(
        ASKED.format("kind = 'fast'\nnet = Net()\ncall = getattr(net, f'run_{kind}')\ncall()\n")), "ALWAYS"),
    ("another one put together", one(ASKED.format("kind = 'plain'\ngetattr(Net(), 'run_' + kind)()\n")),
     "OPTION kind=run_fast"),
    ("a name that nobody knows", one(ASKED.format("getattr(Net(), torch.load('x'))()\n")), "CHOSEN"),
    ("a name of another object", one(ASKED.format("getattr(torch, 'run_' + torch.load('x'))()\n")), "NEVER"),
    # what never runs
    ("behind a return", one("import torch\ndef f():\n    return 1\n    import cupy\nf()\n"), "NEVER"),
    ("behind an end", one("import sys\nimport torch\nsys.exit(torch.ones(1))\nimport cupy\n"), "NEVER"),
    ("behind a return that may not run", one("import torch\ndef f():\n    if torch.load('x'):\n        return 1\n"
                                             "    import cupy\nf()\n"), "CHOSEN"),
    ("behind the end of something else", one("import torch\nclass A:\n    def exit(self):\n        pass\nA().exit()\n"
                                             "import cupy\n"), "ALWAYS"),
    # the same line in two files
    ("two functions on the same line", {"train.py": "import torch\nfrom nets import fast\ndef main():\n    fast()\n"
                                        "main()\n",
                                        "nets.py": "import torch\n\ndef fast():\n    import cupy\n"}, "ALWAYS"),
    ("the second import in a file", {"train.py": "from nets import fast\nfast()\n", "nets.py": "import torch\n"
                                     "def other():\n    import cupy\n" + FAST.partition("\n")[2]}, "ALWAYS"),
    ("what Python calls, in a class that asks itself for names", one(
        "import sys\nimport torch\nclass Fast:\n    def __init__(self):\n        import cupy\n"
        "        self.run = getattr(self, '_' + sys.argv[1])\n    def _run(self):\n        pass\nFast()\n"), "ALWAYS"),
    ("the same where no object of it is made", one(
        "import sys\nimport torch\nclass Fast:\n    def __init__(self):\n        import cupy\n"
        "        self.run = getattr(self, '_' + sys.argv[1])\n    def _run(self):\n        pass\n"), "NEVER"),
    # a name that is spoken of is not called
    ("keys of a table", one(FAST + "NETS = {'fast': fast}\nprint(sorted(NETS), 'fast' in NETS)\n"), "NEVER"),
    ("a table that is asked", one(FAST + "NETS = {'fast': fast}\nprint(sorted(NETS), NETS['fast'])\n"), "ALWAYS"),
    ("a table that another file asks", {"train.py": FAST + "import use\nNETS = {'fast': fast}\n",
                                        "use.py": "def get(x):\n    import train\n    return train.NETS[x]()\n"},
     "CHOSEN"),
    ("choices", {"train.py": "import nets\n" + PARSER + "parser.add_argument('--net', choices=nets.NETS.keys())\n"
                 "parser.parse_args()\n", "nets.py": FAST + "NETS = {'fast': fast}\n"}, "NEVER"),
    ("all", one(FAST + "__all__ = ['fast']\nprint(torch.ones(1))\n"), "NEVER"),
    ("type", one("import torch\nclass Fast:\n    def __init__(self):\n        import cupy\n"
                 "def f(x: Fast) -> Fast:\n    y: Fast = x\n    return isinstance(x, Fast)\nf(1)\n"), "NEVER"),
    ("a package of others by name", {"train.py": "import importlib\nimport sys\nimport torch\n"
                                     "importlib.import_module(f'third.games.{sys.argv[1]}')\n",
                                     "other/games.py": "import cupy\n"}, "NEVER"),
    ("a branch that raises", one("import sys\nimport torch\nif len(sys.argv) > 2:\n    import cupy\nelse:\n"
                                 "    raise ValueError\n"), "ALWAYS"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [pytest.param(files, expected, id=name) for name, files, expected in (*NOTHING, *OFF, *YES, *SPOKEN_OF, *COMMANDS)],
)
def test_an_object_says_what_it_holds(files: Files, expected: str, tmp_path: Path) -> None:
    assert " ".join(need(judged(tmp_path, files)["train.py"])).strip() == expected


def test_what_compiles_for_others_is_no_decision_by_itself(tmp_path: Path) -> None:
    files = {
        "ops.py": "import torch.utils.cpp_extension\ndef plugin(name, sources):\n"
        "    return torch.utils.cpp_extension.load(name=name, sources=sources)\n",
        "act.py": "import ops\ndef act(x):\n    if x.sum() > 1:\n"
        "        return ops.plugin('act_plugin', sources=['act.cpp', 'act.cu'])\n    return x\n",
        "act.cu": KERNEL,
        "train.py": "import torch\nfrom act import act\nprint(act(torch.ones(2)))\n",
        "alone.py": "import torch\nfrom torch.utils.cpp_extension import load\nload(name='x', sources=['act.cu'])\n",
    }
    found = judged(tmp_path, files)
    assert found["train.py"].verdict is Verdict.MAY_NEED
    assert [(each.what, each.call_path.reachability.name) for each in found["train.py"].optional] == [
        ("act_plugin", "CHOSEN")
    ]
    assert found["alone.py"].verdict in (Verdict.BLOCKED, Verdict.DECISIONS)
