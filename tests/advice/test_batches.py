"""Advice on mixed precision that is switched off, and on loops over the samples of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.advice.test_code import advice, kinds

STEP = """
import argparse
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--no-amp", action="store_false", dest="mixed")
parser.add_argument("--mixing", type=bool, default=False)
args = parser.parse_args()
USE = False


class Net(nn.Module):
    def forward(self, x):
{forward}


model = Net()
optimizer = torch.optim.Adagrad(model.parameters())
for images, labels in batches:
{step}
    loss.backward()
    optimizer.step()
"""
PLAIN = "    loss = F.cross_entropy(model(images), labels)"


def written(folder: Path, *, forward: str = "        return x", step: str = PLAIN) -> Path:
    (folder / "train.py").write_text(STEP.format(forward=forward, step=step), encoding="utf-8")
    return folder


AUTOCASTS = {
    "torch.autocast('cuda', enabled=args.amp)": True,
    "torch.cuda.amp.autocast(enabled=False)": True,
    "torch.cuda.amp.autocast(args.mixing)": True,
    "torch.amp.autocast('cuda', dtype=torch.bfloat16, enabled=USE)": True,
    "torch.autocast('cuda', enabled=args.mixed)": False,
    "torch.autocast('cuda', dtype=torch.bfloat16)": False,
    "torch.cuda.amp.autocast()": False,
    "torch.autocast('cuda', enabled=decide())": False,
    "torch.amp.autocast('cuda', torch.bfloat16)": False,
}


@pytest.mark.parametrize("call", AUTOCASTS)
def test_mixed_precision_that_is_off_by_default_is_seen(call: str, tmp_path: Path) -> None:
    step = f"    with {call}:\n    {PLAIN}"
    pieces = {piece["kind"]: piece for piece in advice(written(tmp_path, step=step), "npu")}
    assert ("mixed-precision" in pieces) is AUTOCASTS[call]
    if AUTOCASTS[call]:
        piece = pieces["mixed-precision"]
        assert piece["title"].startswith("switch mixed precision on")
        assert [place["text"].strip() for place in piece["places"]] == [f"with {call}:"]


def body(head: str, inner: str) -> str:
    return f"        out = []\n        for {head}:\n            {inner}\n        return torch.stack(out)"


FORWARDS = {
    body("i in range(x.size(0))", "out.append(F.relu(x[i]))"): True,
    body("b in range(x.shape[0])", "out.append(self.head(x[b, :, 0]))"): True,
    body("i in range(batch_size)", "out.append(torch.matmul(x[i], x[i].T))"): True,
    body("i in range(len(x))", "out.append(self.norm(x[i]))"): True,
    body("i in range(x.size(1))", "out.append(F.relu(x[:, i]))"): False,
    body("i in range(self.layers)", "x = self.blocks[i](x)"): False,
    body("i in range(x.size(0))", "out.append(x[0])"): False,
    body("i in range(x.shape[0])", "names.append(labels[i])"): False,
    body("block in self.blocks", "x = block(x)"): False,
}


@pytest.mark.parametrize("forward", FORWARDS)
def test_a_loop_over_the_samples_of_a_batch_is_seen(forward: str, tmp_path: Path) -> None:
    assert ("batch-loop" in kinds(advice(written(tmp_path, forward=forward), "npu"))) is FORWARDS[forward]


def test_such_a_loop_in_a_step_is_seen(tmp_path: Path) -> None:
    step = (
        "    loss = 0\n    for i in range(len(images)):\n        loss = loss + F.mse_loss(model(images[i]), labels[i])"
    )
    assert "batch-loop" in kinds(advice(written(tmp_path, step=step), "musa"))
