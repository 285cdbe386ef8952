"""Boxes (x, y, width, height): overlap, suppression, average precision."""

import torch


def overlap(one, other):
    """Return intersection over union of all pairs."""
    first, second = one[:, None], other[None]
    high = torch.minimum(first[..., :2] + first[..., 2:4] / 2, second[..., :2] + second[..., 2:4] / 2)
    low = torch.maximum(first[..., :2] - first[..., 2:4] / 2, second[..., :2] - second[..., 2:4] / 2)
    common = (high - low).clamp(min=0).prod(-1)
    return common / (first[..., 2:4].prod(-1) + second[..., 2:4].prod(-1) - common + 1e-9)


def suppress(boxes, least=0.1, most=0.5, keep=20):
    """Return the boxes of one picture that no better one of their class covers: (x, y, width, height, score, class)."""
    score, kind = boxes[:, 4:].max(1)
    order = score.argsort(descending=True)[:100]
    order = order[score[order] > least]
    found = torch.cat([boxes[order, :4], score[order, None], kind[order, None].float()], 1).cpu()
    kept = []
    while len(found) and len(kept) < keep:
        kept.append(found[0])
        covered = (overlap(found[:1], found)[0] > most) & (found[:, 5] == found[0, 5])
        found = found[~covered]
    return torch.stack(kept) if kept else torch.zeros(0, 6)


def average_precision(found, wanted, classes, least=0.5):
    """Return the mean over the classes of the area below precision and recall.

    found: one tensor for each picture, as suppress returns it; wanted: (picture, class, x, y, width, height).
    """
    areas = []
    for kind in range(classes):
        truth = wanted[wanted[:, 1] == kind]
        taken = torch.zeros(len(truth), dtype=torch.bool)
        hits = []
        guesses = [(box[4].item(), i, box) for i, boxes in enumerate(found) for box in boxes if box[5] == kind]
        for _, picture, box in sorted(guesses, key=lambda guess: -guess[0]):
            here = (truth[:, 0] == picture) & ~taken
            over = torch.where(here, overlap(box[None, :4], truth[:, 2:])[0], torch.zeros(len(truth)))
            hit = len(truth) > 0 and bool(over.max() >= least)
            if hit:
                taken[over.argmax()] = True
            hits.append(float(hit))
        if not len(truth):
            continue
        right = torch.tensor(hits + [0.0]).cumsum(0)
        precision = right / torch.arange(1, len(right) + 1)
        recall = right / len(truth)
        best = precision.flip(0).cummax(0).values.flip(0)
        areas.append(float((best * torch.diff(recall, prepend=torch.zeros(1))).sum()))
    return sum(areas) / len(areas)
