"""Train torchvision's Faster R-CNN on random boxes with mixed precision switched off, then evaluate it."""

import argparse

import torch
from record import keep
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn, maskrcnn_resnet50_fpn
from torchvision.ops import boxes as box_operators

# torchvision suppresses more than a thousand boxes class by class on the CPU, and on every other device by shifting the
# boxes of each class, which rounds their corners: of boxes that overlap by nearly the limit each way keeps others.
box_operators.batched_nms = box_operators._batched_nms_coordinate_trick


def batch(masks):
    """Return two images with boxes that lie within them."""
    images, targets = [], []
    for _ in range(2):
        corner = torch.rand(3, 2) * 60
        boxes = torch.cat([corner, corner + 8 + torch.rand(3, 2) * 50], 1).cuda()
        target = {"boxes": boxes, "labels": torch.randint(1, 4, (3,)).cuda()}
        if masks:
            target["masks"] = torch.zeros(3, 128, 128, dtype=torch.uint8, device="cuda")
            target["masks"][:, 30:60, 30:60] = 1
        images.append(torch.rand(3, 128, 128).cuda())
        targets.append(target)
    return images, targets


def main():
    """Train and evaluate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--masks", action="store_true")
    options = parser.parse_args()
    make = maskrcnn_resnet50_fpn if options.masks else fasterrcnn_mobilenet_v3_large_320_fpn
    small = {"min_size": 128, "max_size": 128} if options.masks else {}
    model = make(weights=None, weights_backbone=None, num_classes=4, **small).cuda()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler(enabled=False)
    model.train()
    for _ in range(2):
        images, targets = batch(options.masks)
        with torch.cuda.amp.autocast(enabled=False):
            losses = model(images, targets)
            loss = sum(losses.values())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    model.eval()
    with torch.no_grad():
        found = model(batch(options.masks)[0])
    found = [{name: value.to("cpu") for name, value in each.items()} for each in found]
    for i, each in enumerate(found):
        print(len(each["boxes"]), "boxes")
        for name, value in each.items():
            keep(f"{i} {name}", value.float())


if __name__ == "__main__":
    main()
