"""Classes that settings name: what a program reaches without an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged, small
from tests.programs.test_conditions import need

LOADER = (
    "import importlib\ndef make(config):\n    module, name = config['target'].rsplit('.', 1)\n"
    "    return getattr(importlib.import_module(module), name)(**config.get('params', {}))\n"
)
TRAIN = "import yaml\nfrom util import make\nmodel = make(yaml.safe_load(open('x')))\n"
NETS = {
    "models/__init__.py": "",
    "models/net.py": "class Net:\n    pass\n",
    "models/other.py": "class Other:\n    pass\n",
}
LATENT = {"train.py": TRAIN, "util.py": LOADER, **NETS}
HYDRA = {
    "train.py": "import hydra\n@hydra.main(config_path='configs', config_name='train')\ndef main(cfg):\n"
    "    model = hydra.utils.instantiate(cfg.model)\nif __name__ == '__main__':\n    main()\n",
    "configs/train.yaml": "defaults:\n  - _self_\n  # which one\n  - model: net\n  - optional local: default\n\n"
    "seed: 1\n",
    "configs/model/net.yaml": "_target_: models.net.Net\nlr: 1\n",
    "configs/model/other.yaml": "_target_: models.other.Other\n",
    **NETS,
}
NET = {"models/__init__.py", "models/net.py"}
OTHER = {"models/__init__.py", "models/other.py"}


def reached(root: Path, files: Files, *arguments: str) -> tuple[set[str], set[str]]:
    """Return the files that a program reaches surely beside its own imports, and those that it may reach."""
    project = small(root, files)
    modules = project.modules()
    settings = modules.settings.of_program("train.py", files["train.py"], arguments)
    closure = modules.closure("train.py", settings=settings)
    own = {"train.py", "util.py"}
    sure = {path for path, edge in closure.items() if edge is None}
    may = {path for path, edge in closure.items() if edge is not None and edge.chosen}
    return sure - own, may - own


@pytest.mark.parametrize(
    ("settings", "sure", "may"),
    [
        ({}, set(), set()),
        ({"a.yaml": "model:\n  target: models.net.Net\n"}, set(), NET),
        ({"a.yaml": "target: models.net.Net\n", "b.yaml": "target: models.other.Other\n"}, set(), NET | OTHER),
        ({"a.yaml": "callbacks:\n  - class_path: models.net.Net\n"}, set(), NET),
        ({"a.yaml": "targets: [models.net.Net, torch.nn.Linear]\n"}, set(), NET),
        ({"a.yaml": "targets:\n  - models.net.Net  # this\n"}, set(), NET),
        ({"a.yaml": "model: {target: 'models.net.Net', x: 1}\n"}, set(), NET),
        ({"a.json": '{"model": {"target": "models.net.Net", "x": 1}}'}, set(), NET),
        ({"a.yaml": "target: models.net\n"}, set(), NET),
        ({"a.yaml": "target: models.net.Missing\n"}, set(), set()),
        ({"a.yaml": "target: torch.optim.Adam\nversion: 1.2.3\nfile: logging.config\n"}, set(), set()),
        ({"a.yaml": "# target: models.net.Net\ntext: see models.net.Net for more\n"}, set(), set()),
    ],
)
def test_settings_of_the_tree_are_a_choice(settings: Files, sure: set[str], may: set[str], tmp_path: Path) -> None:
    assert reached(tmp_path, {**LATENT, **settings}) == (sure, may)


SETTINGS = {"configs/net.yaml": "target: models.net.Net\n", "configs/other.yaml": "target: models.other.Other\n"}


@pytest.mark.parametrize(
    ("arguments", "sure"),
    [
        (("--base", "configs/net.yaml"), NET),
        (("--base=configs/other.yaml",), OTHER),
        (("--base", "configs/net.yaml", "configs/other.yaml"), NET | OTHER),
        (("--base", "./configs/net.yaml"), NET),
    ],
)
def test_settings_that_a_command_names_are_sure(arguments: tuple[str, ...], sure: set[str], tmp_path: Path) -> None:
    assert reached(tmp_path, {**LATENT, **SETTINGS}, *arguments) == (sure, set())


def test_settings_that_the_program_names_are_sure(tmp_path: Path) -> None:
    files = {**LATENT, **SETTINGS, "train.py": TRAIN.replace("'x'", "'configs/net.yaml'")}
    assert reached(tmp_path, files) == (NET, set())
    assert reached(tmp_path, files, "--config", "configs/other.yaml") == (OTHER, set())


@pytest.mark.parametrize(
    ("arguments", "sure"),
    [
        ((), NET),
        (("seed=2",), NET),
        (("model=other",), OTHER),
        (("+experiment=fast",), OTHER),
        (("--config-name", "second"), OTHER),
    ],
)
def test_hydra_puts_settings_together(arguments: tuple[str, ...], sure: set[str], tmp_path: Path) -> None:
    files = {
        **HYDRA,
        "configs/experiment/fast.yaml": "# @package _global_\nmodel:\n  _target_: models.other.Other\n",
        "configs/second.yaml": "defaults:\n  - model/other\n",
    }
    found = reached(tmp_path, files, *arguments)
    assert found == (sure | (NET if arguments[:1] == ("+experiment=fast",) else set()), set())


@pytest.mark.parametrize(
    ("override", "may"),
    [
        ("++model._target_=models.net.Net", NET),
        ("model._target_=models.other.Other", OTHER),
        ("model.lr=models.net.Net", set()),
        ("_target_=torch.nn.Linear", set()),
    ],
)
def test_an_override_names_the_class(override: str, may: set[str], tmp_path: Path) -> None:
    text = f'from hydra import compose\nfrom hydra.utils import instantiate\nODDS = ["{override}"]\n'
    files = {**NETS, "train.py": f"{text}model = instantiate(compose('base', overrides=ODDS).model)\n"}
    assert reached(tmp_path, files) == (set(), may)


def test_lightnings_command_line(tmp_path: Path) -> None:
    text = "from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n"
    files = {**NETS, "train.py": text, "configs/net.yaml": "model:\n  class_path: models.net.Net\n"}
    assert reached(tmp_path, files) == (set(), NET)
    assert reached(tmp_path, files, "fit", "--config", "configs/net.yaml") == (NET, set())


def test_without_a_loader_no_settings_are_read(tmp_path: Path) -> None:
    files = {**LATENT, "train.py": "import torch\n", **SETTINGS}
    assert reached(tmp_path, files) == (set(), set())
    modules = small(tmp_path, files).modules()
    modules.closure("train.py")
    assert modules.settings._texts == {}


def test_what_no_settings_tell_is_said(tmp_path: Path) -> None:
    modules = small(tmp_path, LATENT).modules()
    modules.closure("train.py")
    assert [(each.path, each.line) for each in modules.unfollowed["util.py"]] == [("util.py", 4)]
    (tmp_path / "a.yaml").write_text("target: models.net.Net\n")
    modules = small(tmp_path, LATENT).modules()
    modules.closure("train.py")
    assert modules.unfollowed == {}


def test_a_configuration_in_python(tmp_path: Path) -> None:
    files = {
        "configs/a/b.py": "_base_ = ['../base.py', '../schedule.py']\n"
        "custom_imports = dict(imports=['models.net'], allow_failed_imports=False)\nmodel = dict(type='Net')\n",
        "configs/base.py": "_base_ = './deep.py'\n",
        "configs/deep.py": "x = 1\n",
        "configs/schedule.py": "x = 1\n",
        "configs/unused.py": "x = 1\n",
        **NETS,
    }
    found = small(tmp_path, files).modules().closure("configs/a/b.py")
    assert set(found) == {f"configs/{name}.py" for name in ("a/b", "base", "deep", "schedule")} | NET
    edge = found["models/net.py"]
    assert edge is not None
    assert (edge.importer, edge.line, edge.chosen) == ("configs/a/b.py", 2, False)


MAIN = (
    "import hydra\nimport torch\n@hydra.main(config_path='.', config_name='config', version_base=None)\n"
    "def main(cfg):\n    {}\nmain()\n"
)
OWN = "class Net:\n    def __init__(self):\n        import cupy\nclass Small:\n    pass\n"
CALLED = "class Net:\n    def __call__(self):\n        import cupy\n"
MODEL = "model:\n  _target_: nets.Net\n"
LOCATES = (
    "import importlib\nimport torch\nfrom omegaconf import OmegaConf\ndef of(path):\n"
    "    module, name = path.rsplit('.', 1)\n    return getattr(importlib.import_module(module), name)\n"
    "cfg = OmegaConf.load('config.yaml')\nof(cfg['model']['target'])()\n"
)
CLI = "import torch\nfrom lightning.pytorch.cli import LightningCLI\nLightningCLI()\n"
READS = "import torch\nimport yaml\nwith open('config.yaml') as file:\n    cfg = yaml.{}\n"
ASKED = (
    "import sys\nimport torch\nfrom hydra.utils import instantiate\nfrom omegaconf import OmegaConf\n"
    "print(instantiate(OmegaConf.load(sys.argv[1]).model))\n"
)
EACH = MAIN.format("for part in cfg.parts.values():\n        hydra.utils.instantiate(part)")


def hydra(call: str, config: str = MODEL, nets: str = OWN) -> Files:
    """Return a program of hydra that does something with its settings."""
    return {"train.py": MAIN.format(call), "config.yaml": config, "nets.py": nets}


def groups(chosen: str) -> Files:
    """Return a program of hydra that chooses one of two models."""
    return {
        **hydra("hydra.utils.instantiate(cfg.model)", f"defaults:\n  - model: {chosen}\n  - _self_\n"),
        "model/net.yaml": "_target_: nets.Net\n",
        "model/small.yaml": "_target_: nets.Small\n",
    }


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        # the project's own classes
        (hydra("hydra.utils.instantiate(cfg.model)"), "ALWAYS"),
        (hydra("hydra.utils.instantiate(cfg['model'])"), "ALWAYS"),
        (hydra("hydra.utils.instantiate(cfg)"), "ALWAYS"),
        (hydra("hydra.utils.instantiate(cfg.model)()", nets=CALLED), "ALWAYS"),
        (hydra("hydra.utils.instantiate(cfg.model)", "model:\n  _target_: nets.Small\n"), "NEVER"),
        (hydra("hydra.utils.instantiate(cfg.data)", "data:\n  _target_: nets.Small\n" + MODEL), "NEVER"),
        (hydra("hydra.utils.instantiate(cfg.model)", "model:\n  _target_: x.Y\n  net:\n    _target_: nets.Net\n"),
         "ALWAYS"),
        (hydra("print(cfg.model)"), "NEVER"),
        (hydra("hydra.utils.get_class(cfg.kind)()", "kind: nets.Net\n"), "ALWAYS"),
        (groups("net"), "ALWAYS"),
        (groups("small"), "NEVER"),
        ({**hydra("", "parts:\n  a:\n    _target_: nets.Net\n"), "train.py": EACH}, "ALWAYS"),
        ({**hydra("", MODEL), "train.py": EACH}, "NEVER"),
        ({"train.py": LOCATES, "config.yaml": "model:\n  target: nets.Net\n", "nets.py": OWN}, "ALWAYS"),
        ({"train.py": LOCATES, "config.yaml": "model:\n  target: nets.Small\n", "nets.py": OWN}, "NEVER"),
        ({"train.py": CLI, "config.yaml": "model:\n  class_path: nets.Net\n", "nets.py": OWN,
          "run.sh": "python train.py fit --config config.yaml\n"}, "ALWAYS"),
        ({"train.py": CLI, "config.yaml": "model:\n  class_path: nets.Net\n", "nets.py": OWN}, "CHOSEN"),
        ({"train.py": READS.format("unsafe_load(file)"), "config.yaml": "net: !!python/object/apply:nets.Net []\n",
          "nets.py": OWN}, "ALWAYS"),
        ({"train.py": READS.format("safe_load(file)"), "config.yaml": "net: !!python/object/apply:nets.Net []\n",
          "nets.py": OWN}, "NEVER"),
        ({"train.py": ASKED, "a.yaml": MODEL, "nets.py": OWN}, "CHOSEN"),
        ({"train.py": ASKED, "a.yaml": MODEL, "nets.py": OWN, "run.sh": "python train.py a.yaml\n"}, "ALWAYS"),
        ({"train.py": "import torch\nfrom hydra.utils import instantiate\ninstantiate({'_target_': 'nets.Net'})\n",
          "nets.py": OWN}, "ALWAYS"),
        ({"train.py": "import torch\nfrom hydra.utils import instantiate\ninstantiate({'_target_': 'nets.Net'})\n",
          "nets.py": "import cupy\nclass Net:\n    pass\n"}, "ALWAYS"),
        ({"train.py": "import torch\nfrom hydra.utils import instantiate\ninstantiate({'_target_': 'nets.Small'})\n",
          "nets.py": OWN}, "NEVER"),
        # packages of others
        (hydra("hydra.utils.instantiate(cfg.model)", "model:\n  _target_: cupy.ndarray\n"), "ALWAYS"),
        (hydra("hydra.utils.instantiate(cfg.data)", "model:\n  _target_: cupy.ndarray\ndata:\n  x: 1\n"), "NEVER"),
        (hydra("hydra.utils.instantiate(cfg.model)", "model:\n  _target_: torch.nn.Linear\n"), "NEVER"),
        ({"train.py": ASKED, "a.yaml": "model:\n  _target_: cupy.ndarray\n"}, "CHOSEN"),
        ({"train.py": CLI, "config.yaml": "model:\n  class_path: cupy.ndarray\n",
          "run.sh": "python train.py fit --config config.yaml\n"}, "ALWAYS"),
    ],
)  # fmt: skip
def test_what_settings_have_made(files: Files, wanted: str, tmp_path: Path) -> None:
    program = judged(tmp_path, files)["train.py"]
    assert " ".join(need(program)).strip() == wanted


PLUGINS = (
    "from importlib.metadata import entry_points\nimport torch\nfor point in entry_points({}):\n    point.load()()\n"
)
DECLARED = (
    "[project]\nname = 'lab'\n[project.entry-points.'lab.nets']\nfast = 'lab.nets:fast'\n"
    "slow = 'lab.nets:slow [extra]'\n[project.entry-points.other]\nslow = 'lab.nets:slow'\n"
)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("group='lab.nets', name='fast'", "ALWAYS"),
        ("group='lab.nets', name='slow'", "NEVER"),
        ("group='lab.nets'", "CHOSEN"),
        ("group='other'", "NEVER"),
        ("", "CHOSEN"),
    ],
)
def test_what_the_projects_metadata_name(asked: str, wanted: str, tmp_path: Path) -> None:
    nets = "def fast():\n    import cupy\ndef slow():\n    pass\n"
    files = {"train.py": PLUGINS.format(asked), "pyproject.toml": DECLARED, "lab/__init__.py": "", "lab/nets.py": nets}
    program = judged(tmp_path, files)["train.py"]
    assert " ".join(need(program)).strip() == wanted


def test_another_build_that_settings_ask_for(tmp_path: Path) -> None:
    files = hydra("hydra.utils.instantiate(cfg.opt, [])", "opt:\n  _target_: apex.optimizers.FusedAdam\n")
    program = judged(tmp_path, files)["train.py"]
    assert [build.what for build in program.builds] == ["Ascend/apex"]
    assert [step.path for step in program.builds[0].call_path.steps][-1] == "config.yaml"


def test_a_decision_in_a_class_that_settings_name_is_the_programs(tmp_path: Path) -> None:
    asked = "torch.cuda.get_device_capability() > (8, 0)"
    asks = f"import torch\nclass Net:\n    def __init__(self):\n        self.x = {asked}\n"
    program = judged(tmp_path, hydra("hydra.utils.instantiate(cfg.model)", nets=asks))["train.py"]
    assert [place.path for place in program.decisions] == ["nets.py"]
