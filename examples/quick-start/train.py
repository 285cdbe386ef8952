"""Train, save a checkpoint, load it again and test."""

import torch
import torch.nn.functional as F

from network import Network, batch

torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
device = torch.device("cuda:0")
model = Network().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(20):
    images, labels = batch(64, seed=step)
    images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1}: loss {loss.item():.2f}")

torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
checkpoint = torch.load("checkpoint.pt", map_location=device)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
model.eval()
images, labels = batch(256, seed=1000)
with torch.no_grad():
    right = (model(images.cuda()).argmax(1) == labels.cuda()).float().mean()
print(f"accuracy {right.item():.2f} on {next(model.parameters()).device}")
