"""Train with mixed precision: autocast and a gradient scaler."""

import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast

from network import Network, batch

torch.manual_seed(0)
model = Network().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = GradScaler()
for step in range(10):
    images, labels = batch(64, seed=step)
    optimizer.zero_grad(set_to_none=True)
    with autocast():
        output = model(images.cuda())
        loss = F.cross_entropy(output, labels.cuda())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print(output.dtype, f"loss {loss.item():.2f}", f"scale {scaler.get_scale():.0f}")
