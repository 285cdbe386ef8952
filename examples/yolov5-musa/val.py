"""Measure the detector: mean average precision at an overlap of 0.5."""

import argparse
import time

import torch
from torch.utils.data import DataLoader

from models.detector import Detector
from models.layers import Predictor
from utils.boxes import average_precision, suppress
from utils.devices import select_device
from utils.shapes import Shapes, collate


def load(path, device):
    """Return a saved detector and what it was trained on."""
    saved = torch.load(path, map_location=device)
    model = Detector(len(saved["data"]["names"])).to(device)
    model.load_state_dict({name: value.float() for name, value in saved["model"].items()})
    return model, saved["data"]


def report(model, data, device):
    """Print and return the mean average precision."""
    predict = Predictor(model, device)
    found, wanted, seconds = [], [], 0.0
    for pictures, shapes in DataLoader(Shapes(data["val"], data["size"], first=100_000), 16, collate_fn=collate):
        start = time.perf_counter()
        boxes = predict(pictures)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds += time.perf_counter() - start
        shapes[:, 0] += len(found)
        found += [suppress(one) for one in boxes]
        wanted.append(shapes)
    result = average_precision(found, torch.cat(wanted), len(data["names"]))
    print(f"mAP@0.5: {result:.3f} of {data['val']} pictures")
    return result


def main():
    """Read the options and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="runs/last.pt")
    parser.add_argument("--device", default="", help="cuda device: 0 or cpu")
    options = parser.parse_args()
    device = select_device(options.device)
    model, data = load(options.weights, device)
    report(model, data, device)


if __name__ == "__main__":
    main()
