"""Boxes of detectors: overlaps, encodings, suppression and regions, with gradients where the plugin has them.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu and what is expected in
test/test_base_ops there. The card's kernel of `npu_iou` adds a small number to each area, which is not public.
"""

from __future__ import annotations

import math

import torch

from torchferry.rehearsal.driver.references import gradient, refuse


def _area(boxes: torch.Tensor) -> torch.Tensor:
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def _shared(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    upper = torch.maximum(first[..., :2], second[..., :2])
    lower = torch.minimum(first[..., 2:], second[..., 2:])
    return (lower - upper).clamp(min=0).prod(-1)


def npu_iou(bboxes: torch.Tensor, gtboxes: torch.Tensor, mode: int = 0) -> torch.Tensor:
    """Return for each true box and each box the shared area over the union (0), or over the true box (1)."""
    first, second = gtboxes.float().unsqueeze(1), bboxes.float().unsqueeze(0)
    shared = _shared(first, second)
    whole = _area(first) + _area(second) - shared if mode == 0 else _area(first)
    return torch.where(whole > 0, shared / whole, torch.zeros_like(shared)).to(bboxes.dtype)


def _corners(boxes: torch.Tensor, trans: bool) -> torch.Tensor:
    """Return boxes, which are columns, as rows of corners; `trans`: they are centre and size."""
    rows = boxes.float().t()
    if not trans:
        return rows
    half = rows[:, 2:] / 2
    return torch.cat((rows[:, :2] - half, rows[:, :2] + half), -1)


def _overlap(
    operator: str, boxes: torch.Tensor, others: torch.Tensor, trans: bool, is_cross: bool, mode: int
) -> torch.Tensor:
    first, second = _corners(boxes, trans), _corners(others, trans)
    if is_cross:  # whose rows and columns the documentation and the tests of the operator give in different orders
        refuse(f"npu::{operator}", "is_cross=True (pass is_cross=False)")
    shared = _shared(first, second)
    areas = _area(first), _area(second)
    union = areas[0] + areas[1] - shared
    ratio = shared / (union if mode == 0 else areas[1])
    upper = torch.minimum(first[..., :2], second[..., :2])
    lower = torch.maximum(first[..., 2:], second[..., 2:])
    if operator == "npu_giou":
        around = (lower - upper).prod(-1)
        result = ratio - (around - union) / around
    else:
        centres = (first[..., :2] + first[..., 2:] - second[..., :2] - second[..., 2:]) / 2
        result = ratio - centres.pow(2).sum(-1) / (lower - upper).pow(2).sum(-1)
        if operator == "npu_ciou":
            sides = [(box[..., 2:] - box[..., :2]).unbind(-1) for box in (first, second)]
            turn = (torch.atan(sides[1][0] / sides[1][1]) - torch.atan(sides[0][0] / sides[0][1])) * 2 / math.pi
            weight = (turn.pow(2) / (1 - ratio + turn.pow(2))).detach()
            result = result - weight * turn.pow(2)
    return result.unsqueeze(0).to(boxes.dtype)


def npu_giou(
    x: torch.Tensor, gtboxes: torch.Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """Return IoU less the share of the box around both that neither covers."""
    return _overlap("npu_giou", x, gtboxes, trans, is_cross, mode)


def npu_diou(
    x: torch.Tensor, gtboxes: torch.Tensor, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """Return IoU less the squared distance of the centres over the squared diagonal of the box around both."""
    return _overlap("npu_diou", x, gtboxes, trans, is_cross, mode)


def npu_ciou(
    x: torch.Tensor, gtboxes: torch.Tensor, trans: bool = False, is_cross: bool = True, mode: int = 0
) -> torch.Tensor:
    """Return DIoU less how much the ratios of the sides differ."""
    return _overlap("npu_ciou", x, gtboxes, trans, is_cross, mode)


def npu_giou_backward(
    grad: torch.Tensor,
    bboxes: torch.Tensor,
    gtboxes: torch.Tensor,
    trans: bool = False,
    is_cross: bool = False,
    mode: int = 0,
) -> tuple[torch.Tensor | None, ...]:
    return gradient(lambda *leaves: npu_giou(*leaves, trans, is_cross, mode), [bboxes, gtboxes], [grad])


def npu_diou_backward(
    grad: torch.Tensor,
    bboxes: torch.Tensor,
    gtboxes: torch.Tensor,
    trans: bool = False,
    is_cross: bool = False,
    mode: int = 0,
) -> tuple[torch.Tensor | None, ...]:
    return gradient(lambda *leaves: npu_diou(*leaves, trans, is_cross, mode), [bboxes, gtboxes], [grad])


def npu_ciou_backward(
    grad: torch.Tensor,
    bboxes: torch.Tensor,
    gtboxes: torch.Tensor,
    atan_sub: torch.Tensor | None,
    trans: bool = False,
    is_cross: bool = True,
    mode: int = 0,
) -> tuple[torch.Tensor | None, ...]:
    return gradient(lambda *leaves: npu_ciou(*leaves, trans, is_cross, mode), [bboxes, gtboxes], [grad])


def npu_bounding_box_encode(
    anchor_box: torch.Tensor,
    ground_truth_box: torch.Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
) -> torch.Tensor:
    """Return centres apart over the anchor's size, and logarithms of the sizes' ratios, less means, over deviations."""
    anchors, truth = anchor_box.float(), ground_truth_box.float()
    sizes = anchors[:, 2:] - anchors[:, :2] + 1, truth[:, 2:] - truth[:, :2] + 1
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2, (truth[:, :2] + truth[:, 2:]) / 2
    deltas = torch.cat(((centres[1] - centres[0]) / sizes[0], torch.log(sizes[1] / sizes[0])), 1)
    means, deviations = (
        torch.tensor(numbers, device=deltas.device)
        for numbers in ((means0, means1, means2, means3), (stds0, stds1, stds2, stds3))
    )
    return ((deltas - means) / deviations).to(anchor_box.dtype)


def npu_bounding_box_decode(
    rois: torch.Tensor,
    deltas: torch.Tensor,
    means0: float,
    means1: float,
    means2: float,
    means3: float,
    stds0: float,
    stds1: float,
    stds2: float,
    stds3: float,
    max_shape: list[int],
    wh_ratio_clip: float,
) -> torch.Tensor:
    """Return the boxes that the deltas say of the regions, within an image of height and width `max_shape`."""
    regions = rois.float()
    means, deviations = (
        torch.tensor(numbers, device=regions.device)
        for numbers in ((means0, means1, means2, means3), (stds0, stds1, stds2, stds3))
    )
    moves = deltas.float() * deviations + means
    limit = abs(math.log(wh_ratio_clip))
    sizes = regions[:, 2:] - regions[:, :2] + 1
    centres = (regions[:, :2] + regions[:, 2:]) / 2 + moves[:, :2] * sizes
    halves = (sizes * moves[:, 2:].clamp(-limit, limit).exp() - 1) / 2
    boxes = torch.cat((centres - halves, centres + halves), 1)
    height, width = (max_shape * 2)[:2]
    most = torch.tensor([width - 1, height - 1] * 2, dtype=boxes.dtype, device=boxes.device)
    return torch.minimum(boxes.clamp(min=0), most).to(rois.dtype)


def _kept(boxes: torch.Tensor, threshold: float) -> list[bool]:
    """Return which boxes, which are in order, stay when each takes out those behind it that overlap it."""
    ratios = npu_iou(boxes, boxes)
    kept = [True] * len(boxes)
    over = (ratios > threshold).tolist()
    for place, row in enumerate(over):
        if kept[place]:
            for other in range(place + 1, len(kept)):
                kept[other] = kept[other] and not row[other]
    return kept


def npu_nms_with_mask(x: torch.Tensor, iou_threshold: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the boxes in the order of their scores, their places, and one where a box is kept."""
    order = x[:, 4].argsort(descending=True, stable=True)
    boxes = x[order]
    mask = torch.tensor(_kept(boxes[:, :4].float(), float(iou_threshold)), dtype=torch.uint8, device=x.device)
    return boxes, order.int(), mask


def npu_nms_v4(
    x: torch.Tensor,
    scores: torch.Tensor,
    max_output_size: float,
    iou_threshold: torch.Tensor,
    scores_threshold: torch.Tensor,
    pad_to_max_output_size: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the places of the boxes that are kept, and how many they are."""
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] > float(scores_threshold)]
    kept = torch.tensor(_kept(x[order].float(), float(iou_threshold)), dtype=torch.bool, device=x.device)
    places = order[kept][: int(max_output_size)].int()
    count = torch.tensor(len(places), dtype=torch.int32, device=x.device)
    if pad_to_max_output_size:
        places = torch.cat([places, places.new_zeros(int(max_output_size) - len(places))])
    return places, count


def npu_roi_align(
    x: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int,
    roi_end_mode: int,
) -> torch.Tensor:
    """Return means of bilinear samples in each cell of each region; `roi_end_mode` 1 adds a pixel."""
    if sample_num <= 0 or roi_end_mode not in (0, 1):
        refuse("npu::npu_roi_align", f"sample_num={sample_num} or roi_end_mode={roi_end_mode}")
    results = []
    for region in rois.float():
        left, top, right, bottom = (region[1:] * spatial_scale).unbind()
        width, height = (right - left + roi_end_mode).clamp(min=1.0), (bottom - top + roi_end_mode).clamp(min=1.0)
        down = top + _steps(pooled_height, sample_num, x.device) * (height / pooled_height)
        across = left + _steps(pooled_width, sample_num, x.device) * (width / pooled_width)
        values = _bilinear(x[int(region[0])], down, across)
        cells = values.unflatten(2, (pooled_width, sample_num)).unflatten(1, (pooled_height, sample_num))
        results.append(cells.mean((2, 4)))
    return torch.stack(results).to(x.dtype)


def _steps(cells: int, samples: int, device: torch.device) -> torch.Tensor:
    return (torch.arange(cells * samples, device=device) + 0.5) / samples


def _bilinear(image: torch.Tensor, down: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
    height, width = image.shape[1:]
    inside = ((down >= -1) & (down <= height))[:, None] & ((across >= -1) & (across <= width))[None, :]
    down, across = down.clamp(0, height - 1), across.clamp(0, width - 1)
    upper, left = down.floor().long(), across.floor().long()
    lower, right = (upper + 1).clamp(max=height - 1), (left + 1).clamp(max=width - 1)
    y, x = (down - upper)[:, None], (across - left)[None, :]
    first = image[:, upper][:, :, left] * (1 - x) + image[:, upper][:, :, right] * x
    second = image[:, lower][:, :, left] * (1 - x) + image[:, lower][:, :, right] * x
    return (first * (1 - y) + second * y) * inside


OPERATORS = {
    **{
        function.__name__: function
        for function in (
            *(npu_iou, npu_giou, npu_diou, npu_ciou, npu_giou_backward, npu_diou_backward, npu_ciou_backward),
            *(npu_bounding_box_encode, npu_bounding_box_decode, npu_nms_with_mask, npu_nms_v4),
            npu_roi_align,
        )
    },
    "npu_ptiou": npu_iou,
}
