"""Classify texts, one a line: those of the command, or those of standard input."""

import sys

import torch

from reviews import CLASSES, numbers
from textnet import TextNet


def main():
    """Load the weights, and print the class of each text."""
    texts = sys.argv[1:] or [line.strip() for line in sys.stdin]
    model = TextNet()
    model.load_state_dict(torch.load("textnet.pt", map_location="cuda:0", weights_only=True))
    model = model.cuda().eval().half()
    with torch.inference_mode():
        shares = model(torch.stack([numbers(text) for text in texts]).cuda()).float().softmax(1).cpu()
    for text, share in zip(texts, shares):
        print(f"{CLASSES[share.argmax()]:6} {text}")


if __name__ == "__main__":
    main()
