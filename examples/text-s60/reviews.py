"""The data: short reviews that are put together from lists of words; what is praised or blamed is the class."""

import random
import zlib

import torch
from torch.utils.data import Dataset

GOOD = ("good", "bright", "quick", "calm", "solid", "fresh")
BAD = ("bad", "dull", "slow", "loud", "weak", "stale")
THINGS = ("screen", "keyboard", "battery", "fan", "case", "coffee", "waiter", "room")
CLASSES = ("blame", "praise")
LENGTH, WORDS = 16, 512


def numbers(text):
    """Return the numbers of the words of a text: each word has one below WORDS, 0 fills up."""
    words = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in text.lower().split()[:LENGTH]]
    return torch.tensor(words + [0] * (LENGTH - len(words)))


class Reviews(Dataset):
    """Reviews by their numbers; the same number is always the same review."""

    def __init__(self, count, first=0):
        self.count, self.first = count, first

    def __len__(self):
        return self.count

    def text(self, number):
        """Return a review: a `not` before a word turns it round."""
        drawn = random.Random(self.first + number)
        kind = drawn.random() < 0.5
        parts = []
        for thing in drawn.sample(THINGS, 3):
            turned = drawn.random() < 0.3
            word = drawn.choice(GOOD if kind != turned else BAD)
            parts.append(f"the {thing} is {'not ' if turned else ''}{word}")
        return " ".join(parts), int(kind)

    def __getitem__(self, number):
        text, kind = self.text(number)
        return numbers(text), kind
