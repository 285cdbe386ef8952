"""Load weights that were saved on a card, and classify."""

import torch

from network import Network, batch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
torch.save(Network().to(device).state_dict(), "network.pt")

model = Network()
model.load_state_dict(torch.load("network.pt", map_location="cuda:0"))
model = model.cuda().eval()
images, _ = batch()
with torch.no_grad():
    probabilities = model(images.cuda()).softmax(1)
print(probabilities.device.type, tuple(probabilities.shape), f"sum {probabilities.sum().item():.3f}")
