"""Small projects that the tests of the kit migrate."""

from __future__ import annotations

from pathlib import Path

TRAIN = """\
import argparse

import torch
import yaml
from transformers import AutoModel

try:
    import wandb
except ImportError:
    wandb = None

MODEL = "acme/tiny-model"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", default="acme/tokenizer")
    args = parser.parse_args()
    model = AutoModel.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
    tokenizer = AutoModel.from_pretrained(args.tokenizer)
    local = AutoModel.from_pretrained("checkpoints/last")
    model.to("cuda", torch.bfloat16)


if __name__ == "__main__":
    main()
"""

REQUIREMENTS = """\
--extra-index-url https://download.pytorch.org/whl/cu121
torch==2.4.1+cu121  # the one we trained with
torchvision==0.19.1
flash-attn==2.5.8
PyYAML>=5
transformers
"""

RUN = "#!/bin/sh\npip install -r requirements.txt\npython train.py --tokenizer a/b\n"

PROJECT = {"train.py": TRAIN, "requirements.txt": REQUIREMENTS, "run.sh": RUN}


def written(root: Path, files: dict[str, str]) -> Path:
    """Write a project and return its folder."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def contents(root: Path) -> dict[str, bytes]:
    """Return the files of a folder, what torchferry keeps of its own left out."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".torchferry" not in path.parts
    }
