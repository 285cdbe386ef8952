"""nms and box_iou: the kernels of the extension on the card, plain torch without them."""

import torch

try:
    from . import _ext
except ImportError:  # not built: the same results, slower
    _ext = None


def box_iou(boxes1, boxes2, offset=0):
    """Intersection over union of each pair: (n, 4), (m, 4) -> (n, m)."""
    if _ext is not None and boxes1.is_cuda:
        return _ext.box_iou(boxes1.contiguous(), boxes2.contiguous(), offset)
    low = torch.maximum(boxes1[:, None, :2], boxes2[None, :, :2])
    high = torch.minimum(boxes1[:, None, 2:], boxes2[None, :, 2:])
    inside = (high - low + offset).clamp(min=0).prod(-1)
    area1, area2 = ((b[:, 2:] - b[:, :2] + offset).prod(-1) for b in (boxes1, boxes2))
    return inside / (area1[:, None] + area2[None] - inside)


def nms(boxes, scores, iou_threshold, offset=0):
    """Non-maximum suppression: returns the boxes that are kept, with their scores (k, 5), and their indices (k,)."""
    if _ext is not None and boxes.is_cuda:
        inds = _ext.nms(boxes.contiguous(), scores, iou_threshold, offset)
    else:
        order = scores.argsort(descending=True)
        above = box_iou(boxes[order], boxes[order], offset) > iou_threshold
        keep = torch.ones(len(order), dtype=torch.bool, device=boxes.device)
        for row in range(len(order)):
            keep[row + 1:] &= ~(above[row, row + 1:] & keep[row])
        inds = order[keep]
    return torch.cat([boxes[inds], scores[inds, None]], 1), inds
