"""The data: pictures of stripes; their direction is the class."""

import math

import torch
from torch.utils.data import Dataset


class Stripes(Dataset):
    """Pictures of 3 x size x size, and their class of four; the same number is always the same picture."""

    def __init__(self, count, size=48, first=0):
        self.count, self.size, self.first = count, size, first

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(self.first + number)
        kind = (self.first + number) % 4
        wave, phase = 0.3 + 0.3 * torch.rand(1, generator=random), 6 * torch.rand(1, generator=random)
        line = torch.arange(self.size, dtype=torch.float32)
        along = math.cos(kind * math.pi / 4) * line[None] + math.sin(kind * math.pi / 4) * line[:, None]
        picture = (wave * along + phase).sin() + 0.3 * torch.randn(3, self.size, self.size, generator=random)
        return picture, kind
