"""Layers of the detector."""

import torch
from torch import nn
from torch.cuda import amp


class Conv(nn.Module):
    """Convolution, normalisation, SiLU."""

    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.1)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Stage(nn.Module):
    """Halves the picture and adds what a narrow path finds in it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.down = Conv(inputs, outputs, 3, 2)
        self.narrow = nn.Sequential(Conv(outputs, outputs // 2), Conv(outputs // 2, outputs, 3))

    def forward(self, x):
        x = self.down(x)
        return x + self.narrow(x)


class Predictor(nn.Module):
    """A detector with what it needs around it: pictures in, boxes out."""

    def __init__(self, model, device):
        super().__init__()
        self.model = model.eval()
        self.device = device

    @torch.no_grad()
    def forward(self, pictures):
        with amp.autocast(self.device.type != "cpu"):
            levels = self.model(pictures.to(self.device))
        return self.model.boxes([level.float() for level in levels])
