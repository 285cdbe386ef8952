"""ResNet-50: four stages of bottlenecks, 3, 4, 6 and 3 of them; `width` is 64 in the usual one."""

import torch
from torch import nn


class Norm(nn.BatchNorm2d):
    """Normalisation whose averages follow quickly, as trainings are short here."""

    def __init__(self, channels):
        super().__init__(channels, momentum=0.4)


class Bottleneck(nn.Module):
    """Narrow, 3 x 3, wide, and what came in added to it."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.narrow = nn.Conv2d(inputs, width, 1, bias=False)
        self.middle = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.wide = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norms = nn.ModuleList([Norm(width), Norm(width), Norm(4 * width)])
        self.past = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.past = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), Norm(4 * width))

    def forward(self, x):
        y = self.norms[0](self.narrow(x)).relu()
        y = self.norms[1](self.middle(y)).relu()
        return (self.norms[2](self.wide(y)) + self.past(x)).relu()


class ResNet50(nn.Module):
    """From pictures to the scores of classes."""

    def __init__(self, classes, width=64):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), Norm(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        stages, inputs = [], width
        for stage, depth in enumerate((3, 4, 6, 3)):
            for index in range(depth):
                stages.append(Bottleneck(inputs, width << stage, 2 if stage and not index else 1))
                inputs = 4 * (width << stage)
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(self.stages(self.stem(x)), 1), 1))
