"""Train torchvision's ResNet in float16 with a gradient scaler that meets an overflow, and keep its losses."""

import torch
from record import keep
from torchvision.models import resnet18


class Scaler:
    """Scales as torch's does; torch before 2.3 has none for the CPU."""

    def __init__(self, init_scale):
        self.factor, self.finite = init_scale, True

    def scale(self, loss):
        """Return the loss, scaled."""
        return loss * self.factor

    def step(self, optimizer):
        """Step where all gradients are finite."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        for gradient in gradients:
            gradient.div_(self.factor)
        self.finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
        if self.finite:
            optimizer.step()

    def update(self):
        """Halve the factor behind a step that was left out."""
        self.factor *= 1.0 if self.finite else 0.5

    def get_scale(self):
        """Return the factor."""
        return self.factor


def main():
    """Train."""
    model = resnet18(num_classes=10).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)
    for step in range(4):
        images, labels = torch.randn(4, 3, 64, 64).to("cuda"), torch.randint(0, 10, (4,)).to("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(images)
        loss = torch.nn.functional.cross_entropy(output.float(), labels)
        keep(f"loss {step}", loss)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step == 2:
            next(model.parameters()).grad.view(-1)[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        keep(f"scale {step}", torch.tensor(scaler.get_scale()))


if __name__ == "__main__":
    main()
