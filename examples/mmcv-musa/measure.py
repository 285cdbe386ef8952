"""nms of many boxes, as the head of a detector calls it: for a profile, in which each call is a step."""

import torch
from torch import nn

from boxops import nms


class Suppression(nn.Module):
    """The last part of a detector."""

    def forward(self, boxes, scores):
        return nms(boxes, scores, iou_threshold=0.5)[1]


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
corners = 100 * torch.rand(64, 2)
boxes = torch.cat([corners, corners + 5 + 20 * torch.rand(64, 2)], 1).to(device)
scores = torch.rand(64).to(device)
head = Suppression()
with torch.no_grad():
    for _ in range(6):
        kept = head(boxes, scores)
print(f"{device}: {len(kept)} of {len(boxes)} boxes are kept")
