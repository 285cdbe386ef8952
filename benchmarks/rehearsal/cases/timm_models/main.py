"""Train models of timm for some steps with its own optimizer, mixup and moving average."""

import argparse

import timm
import timm.utils
import torch
from record import keep
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2

# timm before 1.0 has the second of its moving averages alone, which is no model that can be called
MovingAverage = getattr(timm.utils, "ModelEmaV3", timm.utils.ModelEmaV2)


def main():
    """Train each model that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    device = torch.device("cuda")
    for name in options.models:
        model = timm.create_model(name, num_classes=10, drop_path_rate=0.1).to(device)
        optimizer = create_optimizer_v2(model, "sgd", lr=1e-2, momentum=0.9)
        average = MovingAverage(model, decay=0.9)
        mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)
        size = model.pretrained_cfg["input_size"][-1]
        for _ in range(2):
            images, labels = torch.randn(2, 3, size, size).to("cuda"), torch.randint(0, 10, (2,)).to("cuda")
            images, targets = mixup(images, labels)
            optimizer.zero_grad()
            loss = SoftTargetCrossEntropy()(model(images), targets)
            loss.backward()
            optimizer.step()
            average.update(model)
        average.eval()
        with torch.inference_mode():
            keep(name, average.module(torch.ones(1, 3, size, size, device=device)))


if __name__ == "__main__":
    main()
