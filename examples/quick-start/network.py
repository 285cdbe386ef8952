"""A small network and images whose class can be learned in seconds, so that every program here needs no data set."""

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(32, classes)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


def batch(size=16, classes=4, seed=0):
    """Return images of stripes, and how wide the stripes are: the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (size,), generator=generator)
    columns = torch.arange(32).expand(size, 3, 32, 32)
    stripes = (columns // (labels.view(-1, 1, 1, 1) + 1) % 2).float()
    return stripes + 0.1 * torch.randn(size, 3, 32, 32, generator=generator), labels
