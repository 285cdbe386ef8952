"""The detector: three stages of a pyramid, and for each cell and anchor one box."""

import torch
from torch import nn

from models.layers import Conv, Stage

ANCHORS = (((12, 12), (20, 20)), ((28, 28), (40, 40)))  # width and height in pixels, for each stride
STRIDES = (8, 16)


class Detector(nn.Module):
    """From pictures to raw levels: batch, anchors, rows, columns, (x, y, width, height, object, classes)."""

    def __init__(self, classes=3, width=16):
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(Stage(3, width), Stage(width, width * 2))
        self.eighth = Stage(width * 2, width * 4)
        self.sixteenth = Stage(width * 4, width * 4)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = Conv(width * 8, width * 4)
        outputs = len(ANCHORS[0]) * (5 + classes)
        self.heads = nn.ModuleList(nn.Conv2d(width * 4, outputs, 1) for _ in STRIDES)
        self.register_buffer("anchors", torch.tensor(ANCHORS, dtype=torch.float32))
        for head in self.heads:
            nn.init.constant_(head.bias.view(len(ANCHORS[0]), -1)[:, 4].detach(), -4.0)  # most cells are empty

    def forward(self, pictures):
        fine = self.eighth(self.stem(pictures))
        coarse = self.sixteenth(fine)
        fine = self.merge(torch.cat([fine, self.up(coarse)], 1))
        return [self._level(head(x)) for head, x in zip(self.heads, (fine, coarse))]

    def _level(self, x):
        batch, _, rows, columns = x.shape
        return x.view(batch, len(ANCHORS[0]), 5 + self.classes, rows, columns).permute(0, 1, 3, 4, 2).contiguous()

    def place(self, level, index):
        """Return boxes of a raw level as (x, y, width, height) in pixels."""
        rows, columns = level.shape[2:4]
        grid = torch.stack(torch.meshgrid(
            torch.arange(columns, device=level.device), torch.arange(rows, device=level.device), indexing="xy"), -1)
        middle = (level[..., :2].sigmoid() * 2 - 0.5 + grid) * STRIDES[index]
        size = (level[..., 2:4].sigmoid() * 2) ** 2 * self.anchors[index][:, None, None]
        return torch.cat([middle, size], -1)

    def boxes(self, levels):
        """Return batch, boxes, (x, y, width, height, score of each class)."""
        return torch.cat([
            torch.cat([self.place(level, i), level[..., 4:5].sigmoid() * level[..., 5:].sigmoid()], -1).flatten(1, 3)
            for i, level in enumerate(levels)
        ], 1)
