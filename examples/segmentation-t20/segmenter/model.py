"""An encoder and a decoder, and its answers with test-time augmentation."""

import torch
from torch import nn
from torch.nn import functional


class EncoderDecoder(nn.Module):
    """Two convolutions at half of the size, and one that goes back."""

    def __init__(self, width, num_classes):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(width, num_classes, 1)

    def forward(self, pictures):
        """Return a score for each class and pixel (N, classes, H, W)."""
        scores = self.head(self.encoder(pictures))
        return functional.interpolate(scores, size=pictures.shape[-2:], mode="bilinear", align_corners=False)


def build(config):
    """Return the model that the file describes."""
    settings = dict(config["model"])
    return {"EncoderDecoder": EncoderDecoder}[settings.pop("type")](**settings)


@torch.no_grad()
def augmented(model, pictures, flips):
    """Return the mean of the scores over flips of the pictures."""
    return sum(model(pictures.flip(axes)).softmax(1).flip(axes) for axes in flips) / len(flips)
