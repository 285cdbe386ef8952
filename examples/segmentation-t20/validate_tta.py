"""Validate with test-time augmentation: python validate_tta.py configs/kaggle.py"""

import argparse
from pathlib import Path

import torch
from segmenter.config import prepare, read
from segmenter.data import load
from segmenter.metrics import mean_iou
from segmenter.model import augmented, build


def main():
    """Print the mIoU of the saved weights, and save what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    options = parser.parse_args()
    config = read(options.config)
    device = prepare(config)
    model = build(config)
    model.load_state_dict(torch.load(config["checkpoint"], map_location="cpu"))
    model.to(device).eval()
    pictures, labels = load(config, "val")
    batch = config["data"]["samples_per_gpu"]
    parts = [augmented(model, part.to(device), config["tta_model"]["flips"]) for part in pictures.split(batch)]
    found = torch.cat(parts).argmax(1).cpu()
    iou, accuracy = mean_iou(found, labels, len(config["classes"]))
    folder = Path(config["work_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(found, folder / "masks.pt")
    print(f"device: {torch.cuda.get_device_name(device)}")
    print(f"mIoU: {iou:.2f}  aAcc: {accuracy:.2f}  images: {len(found)}")


if __name__ == "__main__":
    main()
