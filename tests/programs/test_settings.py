"""What settings say of the device, for the programs that are started with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged
from torchferry.programs.model import Verdict

HYDRA = """import hydra
import torch
@hydra.main(config_path="configs", config_name="train.yaml")
def main(cfg):
    hydra.utils.instantiate(cfg.trainer)
if __name__ == "__main__":
    main()
"""
TRAINER = "_target_: lightning.pytorch.Trainer\naccelerator: {}\n"
PROJECT = {
    "train.py": HYDRA,
    "configs/train.yaml": "defaults:\n  - _self_\n  - trainer: cpu\n",
    "configs/trainer/cpu.yaml": TRAINER.format("cpu"),
    "configs/trainer/gpu.yaml": TRAINER.format("gpu"),
}


@pytest.mark.parametrize(
    ("command", "verdict", "options"),
    [
        ("python train.py", Verdict.READY, ["trainer=gpu"]),
        ("python train.py trainer=gpu", Verdict.DECISIONS, []),
        ("python train.py trainer=cpu", Verdict.READY, ["trainer=gpu"]),
    ],
)
def test_a_group_of_settings_that_a_command_chooses(
    command: str, verdict: Verdict, options: list[str], tmp_path: Path
) -> None:
    program = judged(tmp_path, {**PROJECT, "run.sh": f"{command}\n"})["train.py"]
    assert program.verdict is verdict
    assert [option for obstacle in program.alternatives for option in obstacle.call_path.options] == options


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"run.sh": "python train.py --config a.yaml\n"}, Verdict.FIXES),
        ({"run.sh": "python train.py --config b.yaml\n"}, Verdict.READY),
        # in a folder of a package: a library looks there, or the command is run there
        ({"run.sh": "python train.py --config kinds/c.yaml\n", "lab/kinds/c.yaml": "device: cuda\n"}, Verdict.FIXES),
        ({"run.sh": "python train.py --config kinds/c.yaml\n", "lab/kinds/c.yaml": "device: cpu\n"}, Verdict.READY),
        ({"run.sh": "python train.py --config kinds/c.yaml\n", "lab/kinds/c.yaml": "device: cuda\n",
          "kinds/c.yaml": "device: cpu\n"}, Verdict.READY),
        # what asks for help starts nothing
        ({"run.sh": "python train.py -h\npython train.py --config a.yaml\n"}, Verdict.FIXES),
        # a command in a block that is said to be Python, over several lines
        ({"README.md": "```python\npython train.py \\\n    --config a.yaml\n```\n"}, Verdict.FIXES),
        ({"README.md": "```python\npython = train.py\n```\n\n```bash\npython train.py --config b.yaml\n```\n"},
         Verdict.READY),
    ],
)  # fmt: skip
def test_settings_that_a_command_names(files: Files, verdict: Verdict, tmp_path: Path) -> None:
    text = "import sys\nimport torch\nimport yaml\nprint(yaml.safe_load(open(sys.argv[2]))['device'])\n"
    settings = {"a.yaml": "device: cuda\n", "b.yaml": "device: cpu\n"}
    assert judged(tmp_path, {"train.py": text, **settings, **files})["train.py"].verdict is verdict


READS = (
    "import torch\nimport configparser\nconfig = configparser.ConfigParser()\nconfig.read('{}')\n"
    "print(torch.ones(2, device=config['train']['device']))\n"
)


@pytest.mark.parametrize(
    ("named", "files", "fixes"),
    [
        ("settings.ini", {"settings.ini": "[train]\ndevice = cuda\n"}, 1),
        ("settings.ini", {"settings.ini": "[train]\ndevice = cpu\n"}, 0),
        ("other.cfg", {"settings.ini": "[train]\ndevice = cuda\n", "other.cfg": "[train]\ndevice = cpu\n"}, 0),
        ("given", {"base.cfg": "[train]\ndevice = cuda\n", "run.sh": "python train.py conf/../base.cfg\n"}, 1),
    ],
)
def test_files_with_a_setting_on_a_line(named: str, files: Files, fixes: int, tmp_path: Path) -> None:
    program = judged(tmp_path, {"train.py": READS.format(named), **files})["train.py"]
    assert program.fixes == fixes


OWN_TRAINER = (
    "import torch\nclass Trainer:\n    def __init__(self, accelerator):\n"
    "        self.device = torch.device(accelerator) if accelerator == 'cuda' else None\n"
)


@pytest.mark.parametrize(
    ("trainer", "target", "accelerator", "verdict"),
    [
        (OWN_TRAINER, "lab.trainer.Trainer", "cuda", Verdict.FIXES),
        (f"import lightning\n{OWN_TRAINER}", "lab.trainer.Trainer", "gpu", Verdict.DECISIONS),
        (OWN_TRAINER, "lightning.pytorch.Trainer", "cuda", Verdict.DECISIONS),
    ],
)
def test_only_what_lightning_is_given_is_its_accelerator(
    trainer: str, target: str, accelerator: str, verdict: Verdict, tmp_path: Path
) -> None:
    settings = f"trainer:\n  _target_: {target}\n  accelerator: {accelerator}\n"
    files = {**PROJECT, "lab/trainer.py": trainer, "configs/train.yaml": settings}
    files = {path: text for path, text in files.items() if "configs/trainer" not in path}
    assert judged(tmp_path, files)["train.py"].verdict is verdict


LOADS = (
    "import sys\nimport torch\nfrom omegaconf import OmegaConf\nfrom util import make\n"
    "make(OmegaConf.load(sys.argv[2]).model)\n"
)
LOADER = (
    "import importlib\ndef find(text):\n    module, name = text.rsplit('.', 1)\n"
    "    return getattr(importlib.import_module(module), name)\n"
    "def make(config):\n    return find(config['target'])(**config.get('params', {}))\n"
)
ASKS = "model:\n  target: {}.Net\nlightning:\n  trainer:\n    accelerator: gpu\n"
UNKNOWN_SETTINGS = "CONFIG=$1\npython train.py --base $CONFIG\n"


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"kinds/a.yaml": ASKS.format("nets"), "run.sh": UNKNOWN_SETTINGS}, Verdict.DECISIONS),
        ({"kinds/a.yaml": ASKS.format("others"), "run.sh": UNKNOWN_SETTINGS}, Verdict.READY),
        ({"kinds/a.yaml": ASKS.format("nets"), "kinds/b.yaml": "model:\n  target: nets.Net\n",
          "run.sh": "python train.py --base kinds/b.yaml\n"}, Verdict.READY),
    ],
)  # fmt: skip
def test_settings_of_which_nobody_knows_whether_they_are_read(files: Files, verdict: Verdict, tmp_path: Path) -> None:
    code = {"train.py": LOADS, "util.py": LOADER, "nets.py": "import lightning\nclass Net:\n    pass\n"}
    assert judged(tmp_path, {**code, **files})["train.py"].verdict is verdict
