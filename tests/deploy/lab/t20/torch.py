"""The lab's stand-in for the vendor's torch: as much as the checks of the deployment ask."""

import os

__version__ = "1.11.0"


class gcu:
    pass


class Tensor:
    def __init__(self, rows, device="cpu"):
        self.rows, self.device = rows, device
        self.shape = (len(rows), len(rows[0]))

    def to(self, device):
        return Tensor(self.rows, str(device))

    def cpu(self):
        return self.to("cpu")

    def tolist(self):
        return self.rows

    def __add__(self, other):
        wrong = 1.0 if os.environ.get("LAB_WRONG_SUM") and self.device != "cpu" else 0.0
        sums = [[a + b + wrong for a, b in zip(*rows)] for rows in zip(self.rows, other.rows)]
        return Tensor(sums, self.device)


def full(shape, value):
    return Tensor([[value] * shape[1] for _ in range(shape[0])])


def ones(*shape):
    return full(shape, 1.0)
