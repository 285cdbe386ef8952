"""What a segmentation is worth."""


def mean_iou(found, labels, classes):
    """Return the mean over the classes of intersection by union, as a percentage, and the share of right pixels."""
    shares = []
    for number in range(classes):
        union = ((found == number) | (labels == number)).sum().item()
        shares.append(((found == number) & (labels == number)).sum().item() / max(union, 1))
    return 100 * sum(shares) / classes, 100 * (found == labels).float().mean().item()
