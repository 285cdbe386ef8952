"""Four small programs in one process: a GPT that trains, a classifier, a segmentation and a diffusion that infer.

It is what a migrated project is: written for the target, and told by its arguments where to run and what to spoil.
"""

PROGRAM = """
import sys, time
from pathlib import Path

if "--help" in sys.argv:
    sys.exit("usage: toys.py DEVICE OUT")
import numpy, torch
from torch import nn

device, out = sys.argv[1], Path(sys.argv[2])
spoiled = set(sys.argv[3:])
if device == "npu":
    import torch_npu
torch.manual_seed(0)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(8, 16), nn.Linear(16, 48), nn.Linear(16, 8)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.mix(x).chunk(3, -1)
        return self.head(x + torch.softmax((q @ k.transpose(-1, -2)).tril() / 4, -1) @ v)


model = GPT().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.5)
tokens = torch.arange(9).remainder(8)
kept = []
for step in range(210):
    begun = time.perf_counter()
    logits = model(tokens[None, :8].to(device))
    loss = nn.functional.cross_entropy(logits[0], tokens[1:].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if "leak" in spoiled:
        kept.append(torch.zeros(4096, device=device))
    if "slow" in spoiled:
        time.sleep(0.02)
    shown = float("nan") if "nan" in spoiled and step >= 50 else loss.item()
    speed = "" if "silent" in spoiled else f" {8 / (time.perf_counter() - begun):.1f} tokens/s"
    print(f"step {step} loss {shown:.4f}{speed}")

# three models from a checkpoint; their answers without noise are the labels
nets = nn.ModuleDict({
    "classifier": nn.Linear(16, 10),
    "segmenter": nn.Conv2d(3, 4, 3, padding=1),
    "denoiser": nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 3, 3, padding=1)),
})
state = {name: value.clone() for name, value in nets.state_dict().items()}
samples, pictures = torch.randn(2000, 16), torch.randn(8, 3, 32, 32)


def votes(pictures):  # test-time augmentation: the picture and its mirror image
    return nets["segmenter"](pictures) + nets["segmenter"](pictures.flip(-1)).flip(-1)


with torch.no_grad():
    classes, masks = nets["classifier"](samples).argmax(1), votes(pictures).argmax(1)
    if "noise" in spoiled:
        state = {name: value * (1 + 0.01 * torch.randn_like(value)) for name, value in state.items()}
    nets.load_state_dict(state)
    nets.to(device).eval()
    top1 = (nets["classifier"](samples.to(device)).argmax(1).cpu() == classes).float().mean().item()
    found = votes(pictures.to(device)).argmax(1).cpu()
    ious = [((found == c) & (masks == c)).sum() / ((found == c) | (masks == c)).sum() for c in range(4)]
    print(f"| class | mIoU |\\n|---|---|\\n| all | {100 * sum(ious).item() / 4:.2f}% |")
    print(f"Acc@1 {top1:.4f}")
    picture = torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(1)).to(device)
    for _ in range(6):
        picture = picture - 0.3 * nets["denoiser"](picture)
    out.mkdir(exist_ok=True)
    array = picture[0].float().cpu().permute(1, 2, 0).numpy()
    numpy.save(out / "picture.npy", array)
    pixels = (numpy.clip(array * 40 + 128, 0, 255)).astype("uint8")
    (out / "picture.ppm").write_bytes(b"P6 24 24 255\\n" + pixels.tobytes())
"""

README = """# toys

```bash
python toys.py --help || true
python -m compileall -q toys.py
```
"""
