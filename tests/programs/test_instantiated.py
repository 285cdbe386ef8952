"""Classes that settings name: what a program reaches without an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, small

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
