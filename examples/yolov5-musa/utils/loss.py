"""The loss: where a shape is, whether there is one, and which."""

import torch
import torch.nn.functional as F

from models.detector import ANCHORS, STRIDES
from utils.boxes import overlap


class ComputeLoss:
    """Compares raw levels with shapes; a shape belongs to the anchor that is most like it, in the cell of its middle."""

    def __init__(self, model):
        self.model = model
        sizes = torch.tensor(ANCHORS, dtype=torch.float32).view(-1, 2)
        self.anchors = torch.cat([torch.zeros_like(sizes), sizes], 1)

    def __call__(self, levels, shapes):
        """Return the loss and its three parts: box, object, class."""
        sizes = torch.cat([torch.zeros_like(shapes[:, 4:6]), shapes[:, 4:6]], 1)
        best = overlap(sizes, self.anchors.to(shapes.device)).argmax(1)
        box = obj = kind = torch.zeros(1, device=shapes.device)
        for index, level in enumerate(levels):
            wanted = torch.zeros_like(level[..., 4])
            mine = shapes[best // 2 == index]
            if len(mine):
                cell = (mine[:, 2:4] / STRIDES[index]).long()
                place = (mine[:, 0].long(), best[best // 2 == index] % 2, cell[:, 1], cell[:, 0])
                guess = self.model.place(level, index)[place]
                over = overlap(guess, mine[:, 2:6]).diagonal()
                box = box + (1 - over).mean()
                kind = kind + F.binary_cross_entropy_with_logits(
                    level[place][:, 5:], F.one_hot(mine[:, 1].long(), self.model.classes).to(level.dtype))
                wanted[place] = 1.0
            few = torch.full_like(wanted[:1, :1, :1, :1], 8.0)  # a cell with a shape counts as much as eight without
            obj = obj + F.binary_cross_entropy_with_logits(level[..., 4], wanted, pos_weight=few)
        parts = torch.cat([2 * box, 5 * obj, kind])
        return parts.sum(), parts.detach()
