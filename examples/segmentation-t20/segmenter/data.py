"""Made-up aerial pictures: patches of four kinds of ground, each with its colour, under noise."""

from pathlib import Path

import torch

COLOURS = torch.tensor([[0.3, 0.6, 0.2], [0.1, 0.3, 0.8], [0.5, 0.5, 0.5], [0.8, 0.4, 0.3]])


def make(count, size, seed):
    """Return pictures (N, 3, size, size) and what each pixel shows (N, size, size)."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, len(COLOURS), (count, 1, 6, 6), generator=generator).float()
    labels = torch.nn.functional.interpolate(coarse, size=(size, size))[:, 0].long()
    noise = 0.25 * torch.randn(count, 3, size, size, generator=generator)
    return COLOURS[labels].permute(0, 3, 1, 2) + noise, labels


def load(config, split):
    """Return the pictures and labels of a split; they are made when the folder has none."""
    file = Path(config["data_root"]) / f"{split}.pt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        settings = config["data"]
        torch.save(make(settings[f"{split}_images"], settings["size"], seed=len(split)), file)
    return torch.load(file)
