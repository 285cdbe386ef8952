"""The data: pictures with a few shapes, drawn from their number."""

import numpy as np
import torch
from torch.utils.data import Dataset


class Shapes(Dataset):
    """Pictures as 3 x size x size in 0..1, and for each shape (class, x, y, width, height) in pixels."""

    def __init__(self, count, size, first=0):
        self.count, self.size, self.first = count, size, first

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        random = np.random.default_rng(self.first + number)
        picture = random.normal(0.2, 0.05, (3, self.size, self.size)).astype(np.float32)
        rows, columns = np.mgrid[: self.size, : self.size]
        shapes = []
        for left in (0, self.size // 2):
            kind, half = int(random.integers(3)), int(random.integers(6, 20))
            x = int(random.integers(left + half // 2 + 2, left + self.size // 2 - half // 2 - 2))
            y = int(random.integers(half, self.size - half))
            across, down = np.abs(columns - x), rows - y
            inside = (
                across ** 2 + down ** 2 <= half ** 2,
                np.maximum(across, np.abs(down)) <= half,
                (np.abs(down) <= half) & (across <= (down + half) / 2),
            )[kind]
            picture[:, inside] = random.uniform(0.5, 1.0, (3, 1))
            shapes.append((kind, x, y, 2 * half, 2 * half))
        return torch.from_numpy(picture.clip(0, 1)), torch.tensor(shapes, dtype=torch.float32)


def collate(samples):
    """Put the number of its picture before each shape."""
    pictures, shapes = zip(*samples)
    numbered = [torch.cat([torch.full((len(found), 1), float(i)), found], 1) for i, found in enumerate(shapes)]
    return torch.stack(pictures), torch.cat(numbered)
