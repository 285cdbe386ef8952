"""Find shapes in a few pictures, and print them."""

import argparse

import torch

from models.layers import Predictor
from utils.boxes import suppress
from utils.devices import select_device
from utils.shapes import Shapes
from val import load


def main():
    """Read the options and print what is found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="runs/last.pt")
    parser.add_argument("--pictures", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.3, help="score below which nothing is printed")
    parser.add_argument("--device", default="", help="cuda device: 0 or cpu")
    options = parser.parse_args()
    device = select_device(options.device)
    model, data = load(options.weights, device)
    shapes = Shapes(options.pictures, data["size"], first=100_000)
    boxes = Predictor(model, device)(torch.stack([shapes[number][0] for number in range(len(shapes))]))
    for number, one in enumerate(boxes):
        for x, y, width, height, score, kind in suppress(one, options.least).tolist():
            print(f"picture {number}: {data['names'][int(kind)]} at {x:.0f},{y:.0f}, {width:.0f} x {height:.0f}, score {score:.2f}")


if __name__ == "__main__":
    main()
