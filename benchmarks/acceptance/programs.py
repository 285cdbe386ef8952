"""Five programs as a team migrates them, told by their arguments where to run and what to spoil.

    program.py KIND DEVICE [noise] [leak] [nan] [slow] [silent]

`gpt` trains; `classifier`, `segmenter` (test-time augmentation), `detector` and `diffusion` load a checkpoint. What the
checkpoint says without noise is the truth that they are measured against.
"""

PROGRAM = r"""
import sys, time
from pathlib import Path

if "--help" in sys.argv:
    sys.exit(0)
import numpy, torch
from torch import nn

kind, device, *words = sys.argv[1:]
spoiled = set(words)
if device == "npu":
    import torch_npu
torch.manual_seed(0)
STEPS = 210


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(8, 16), nn.Linear(16, 48), nn.Linear(16, 8)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.mix(x).chunk(3, -1)
        return self.head(x + torch.softmax((q @ k.transpose(-1, -2)).tril() / 4, -1) @ v)


def conv(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


net = {"gpt": GPT, "classifier": lambda: nn.Linear(16, 10), "segmenter": lambda: conv(3, 8, 4),
       "detector": lambda: conv(3, 8, 5), "diffusion": lambda: conv(3, 16, 16, 3)}[kind]()
pictures = torch.randn(8, 3, 32, 32)
samples = torch.randn(2000, 16)


def boxes(found):  # the best cell of each of 64 places, its box from the other channels
    score = found[:, 0].flatten(1)
    best = score.topk(64).indices
    x, y = best % 32, best // 32
    size = 2 + found[:, 1].flatten(1).gather(1, best).abs() * 4
    return torch.stack([x - size, y - size, x + size, y + size], -1), score.gather(1, best)


def mean_precision(found, truth):  # of each image: truths that a box meets with an overlap of 0.95
    (own, _), (other, _) = boxes(found), boxes(truth)
    low = torch.maximum(own[:, :, None, :2], other[:, None, :, :2])
    high = torch.minimum(own[:, :, None, 2:], other[:, None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = lambda each: (each[..., 2:] - each[..., :2]).prod(-1)
    overlap = both / (area(own)[:, :, None] + area(other)[:, None] - both)
    return (overlap.amax(1) > 0.95).float().mean().item()


def answer():
    if kind == "classifier":
        return net(samples.to(device))
    if kind == "segmenter":
        return net(pictures.to(device)) + net(pictures.to(device).flip(-1)).flip(-1)
    if kind == "detector":
        return net(pictures.to(device))
    picture = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1)).to(device)
    for _ in range(4):
        picture = 0.5 * picture + 4 * net(picture)
    return picture


known = Path("truth.pt")  # left by the run on the CPU that is the baseline
if kind != "gpt" and not known.exists():
    with torch.no_grad():
        torch.save(answer(), known)
truth = None if kind == "gpt" else torch.load(known, map_location="cpu")
state = {name: value.clone() for name, value in net.state_dict().items()}
if "noise" in spoiled:
    state = {name: value * (1 + 0.01 * torch.randn_like(value)) for name, value in state.items()}
if kind != "gpt":
    net.load_state_dict(state)
net.to(device)
optimizer = torch.optim.SGD(net.parameters(), 0.5)
tokens = torch.arange(9).remainder(8)
kept = []
for step in range(STEPS):
    begun = time.perf_counter()
    if kind == "gpt":
        if "noise" in spoiled and step == STEPS - 1:
            with torch.no_grad():
                for value in net.parameters():
                    value.mul_(1 + 0.01 * torch.randn(value.shape).to(device))
        loss = nn.functional.cross_entropy(net(tokens[None, :8].to(device))[0], tokens[1:].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    else:
        with torch.no_grad():
            found = answer()
            loss = (found.cpu().float() - truth).square().mean() + step * 1e-6
    if "leak" in spoiled:
        kept.append(torch.zeros(4096, device=device))
    if "slow" in spoiled:
        time.sleep(3 * (time.perf_counter() - begun) + 0.005)
    shown = float("nan") if "nan" in spoiled and step >= 50 else loss.item()
    speed = "" if "silent" in spoiled else f" {1 / (time.perf_counter() - begun):.2f} steps/s"
    print(f"step {step} loss {shown:.6f}{speed}")
if kind == "classifier":
    print(f"Acc@1 {(found.argmax(1).cpu() == truth.argmax(1)).float().mean().item():.4f}")
elif kind == "segmenter":
    own, other = found.argmax(1).cpu(), truth.argmax(1)
    ious = [((own == c) & (other == c)).sum() / ((own == c) | (other == c)).sum() for c in range(4)]
    print(f"mIoU: {100 * sum(ious).item() / 4:.3f}%")
elif kind == "detector":
    print(f"mAP@.5:.95 {mean_precision(found.float().cpu(), truth):.4f}")
elif kind == "diffusion":
    from PIL import Image
    Path("out").mkdir(exist_ok=True)
    pixels = (found[0].float().cpu().permute(1, 2, 0).numpy() * 250 + 128).round().clip(0, 255).astype("uint8")
    Image.fromarray(pixels).save("out/picture.png")
"""
