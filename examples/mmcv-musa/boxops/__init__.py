"""Operators on boxes (x1, y1, x2, y2)."""

from .boxes import box_iou, nms

__all__ = ["box_iou", "nms"]
