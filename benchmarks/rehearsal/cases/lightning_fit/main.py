"""Fit a small network with lightning's Trainer, validate it, and keep what it says."""

import argparse

import torch
from lightning import LightningModule, Trainer
from record import keep
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(LightningModule):
    """A classifier."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))

    def _loss(self, batch):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.layers(inputs), labels)

    def training_step(self, batch, index):
        """Return the loss of a batch."""
        loss = self._loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        """Log the loss of a batch."""
        self.log("validation", self._loss(batch))

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), 0.01)


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    data = TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,)))
    loader = DataLoader(data, batch_size=8)
    trainer = Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=2,
        default_root_dir=options.out,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), loader, loader)
    print("device:", trainer.strategy.root_device)
    keep("validation", trainer.callback_metrics["validation"])


if __name__ == "__main__":
    main()
