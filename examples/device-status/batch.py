"""Classify many images in batches, log what each batch took, and show how the device does.

    torchferry device vendor .                        # once: writes device_utils.py
    python batch.py --images 64 --batch-size 16
    python batch.py --page                            # the same in a web page: pip install gradio

It runs on the CPU, on CUDA and on every target; PREFERRED_DEVICE chooses. The weights and the images are made up.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator

import torch
from torch import nn

from device_utils import DeviceManager

log = logging.getLogger("batch")


def network() -> nn.Module:
    """Return a small classifier of ten classes with weights that are the same on every machine."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    return nn.Sequential(*layers).eval()


def in_batches(images: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """Yield the images (N, 3, H, W) in batches of `size`; the last may be smaller."""
    yield from images.split(size)


@torch.no_grad()
def classify(manager: DeviceManager, model: nn.Module, images: torch.Tensor, size: int) -> list[int]:
    """Return the class of each image, and log time, speed and the state of the device for each batch."""
    classes: list[int] = []
    for number, batch in enumerate(in_batches(images, size), 1):
        with manager.timing() as timing:
            answers = model(batch.to(manager.device, manager.dtype)).argmax(1)
        classes += answers.cpu().tolist()
        speed = len(batch) / timing.seconds
        log.info("batch %d: %d images, %.3f s, %.0f images/s; %s", number, len(batch), timing.seconds, speed, manager.status_line())
    return classes


def page(manager: DeviceManager, model: nn.Module, images: torch.Tensor):
    """Return a page that classifies at a click, and asks for the state of the device every two seconds."""
    import gradio

    with gradio.Blocks() as blocks:
        status = gradio.Textbox(label="device")
        gradio.Timer(2).tick(manager.status_line, outputs=status)
        size = gradio.Number(16, label="batch size", precision=0)
        classes = gradio.Textbox(label="classes")
        gradio.Button("classify").click(lambda count: str(classify(manager, model, images, int(count))), size, classes)
    return blocks


def main() -> None:
    """Classify, or show the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    manager = DeviceManager()
    model = network().to(manager.device, manager.dtype)
    images = torch.randn(arguments.images, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    if arguments.page:
        page(manager, model, images).launch()
    else:
        print(f"{len(classify(manager, model, images, arguments.batch_size))} images on {manager.device.type}")


if __name__ == "__main__":
    main()
