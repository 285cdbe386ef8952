import pytest
import torch
from model import Classifier
from train import pick_device, train_step


@pytest.fixture
def device():
    torch.manual_seed(0)
    return pick_device()


def test_the_forward_pass_stays_on_the_device(device):
    output = Classifier().to(device)(torch.randn(8, 16, device=device))
    assert output.shape == (8, 4)
    assert output.device.type == device.type


def test_training_lowers_the_loss(device):
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows, labels = torch.randn(32, 16, device=device), torch.arange(32, device=device) % 4
    losses = [train_step(model, optimizer, rows, labels).item() for _ in range(60)]
    assert losses[-1] < losses[0] / 2
