"""Train a small network with accelerate, which chooses the device by itself; save its state and load it again."""

import argparse

import torch
from accelerate import Accelerator
from record import keep
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--mixed", default="no")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision=options.mixed, cpu=options.cpu)
    print("device:", accelerator.device)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    model, optimizer, schedule, loader = accelerator.prepare(
        model, optimizer, schedule, DataLoader(data, 8, shuffle=True)
    )
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        keep("gathered", accelerator.gather(loss.detach()[None]).mean())
    accelerator.save_state(options.out)
    accelerator.wait_for_everyone()
    accelerator.load_state(options.out)
    keep("loaded", torch.cat([p.flatten() for p in accelerator.unwrap_model(model).parameters()]))
    accelerator.end_training()


if __name__ == "__main__":
    main()
