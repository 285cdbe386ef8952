"""The manual's check of a ported library: nms of four boxes, on the CPU and on the card."""

import torch

from boxops import nms

boxes = torch.tensor([[6.0, 3.0, 8.0, 7.0], [3.0, 6.0, 9.0, 11.0], [3.0, 7.0, 10.0, 12.0], [1.0, 4.0, 13.0, 7.0]])
scores = torch.tensor([0.6, 0.9, 0.7, 0.2])
wanted = torch.tensor([[3.0, 6.0, 9.0, 11.0, 0.9], [6.0, 3.0, 8.0, 7.0, 0.6], [1.0, 4.0, 13.0, 7.0, 0.2]])

devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
for device in devices:
    dets, inds = nms(boxes.to(device), scores.to(device), iou_threshold=0.3, offset=0)
    same = torch.allclose(dets.cpu(), wanted) and inds.tolist() == [1, 0, 3]
    print(f"{device}: {len(dets)} of 4 boxes, indices {inds.tolist()}, {'as the manual says' if same else 'WRONG'}")
