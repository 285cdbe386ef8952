"""Trains a small network, with `--nan` on a fault that makes NaN in its second step; `--npu` on that device."""

import sys

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.first, self.last = nn.Linear(8 * 6 * 6, 16), nn.Linear(16, 4)

    def forward(self, values: torch.Tensor, *, faulty: bool) -> torch.Tensor:
        values = torch.relu(self.norm(self.convolution(values))).flatten(1)
        values = torch.tanh(self.first(values))
        return self.last(torch.log(values.clamp(max=0.5) - 0.2) if faulty else values)


def main() -> None:
    device = "cpu"
    if "--npu" in sys.argv:
        import torch_npu  # noqa: F401 - makes the device known

        device = "npu"
    torch.manual_seed(0)
    network = Network().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for step in range(4):
        values, labels = torch.randn(4, 3, 8, 8).to(device), torch.arange(4).to(device)
        optimizer.zero_grad()
        result = network(values, faulty=step == 1 and "--nan" in sys.argv)
        loss = nn.functional.cross_entropy(result, labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
