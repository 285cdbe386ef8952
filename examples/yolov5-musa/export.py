"""Write the detector as TorchScript."""

import argparse

import torch

from utils.devices import select_device
from val import load


def main():
    """Read the options, trace the model, save it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="runs/last.pt")
    parser.add_argument("--out", default="runs/last.torchscript")
    parser.add_argument("--device", default="cpu", help="cuda device: 0 or cpu")
    options = parser.parse_args()
    device = select_device(options.device)
    model, data = load(options.weights, device)
    traced = torch.jit.trace(model.eval(), torch.zeros(1, 3, data["size"], data["size"], device=device))
    traced.save(options.out)
    levels = torch.jit.load(options.out, map_location=device)(torch.ones(1, 3, data["size"], data["size"], device=device))
    print(f"{options.out}: {len(levels)} levels, {', '.join(str(tuple(level.shape)) for level in levels)}")


if __name__ == "__main__":
    main()
