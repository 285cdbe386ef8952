"""Keep images with their channels last, which convolutions of some cards are faster with."""

import torch

from network import Network, batch

torch.manual_seed(0)
model = Network().cuda().to(memory_format=torch.channels_last)
images, _ = batch()
images = images.cuda().to(memory_format=torch.channels_last)
features = model.features[0](images)
print("channels last:", features.is_contiguous(memory_format=torch.channels_last))
model(images).sum().backward()
print("gradient:", tuple(model.features[0].weight.grad.shape))
