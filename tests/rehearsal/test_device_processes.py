"""The device and other processes: forks, exits, other targets."""

from __future__ import annotations

import pytest

from tests.rehearsal.child import run_snippet
from torchferry.backends import registry

pytest.importorskip("torch")
pytestmark = pytest.mark.rehearsal

TRAIN = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
inputs, labels = torch.randn(32, 8), torch.randint(4, (32,))
losses = {}
for place in ("cpu", device):
    here = __import__("copy").deepcopy(model).to(place)
    optimizer = torch.optim.AdamW(here.parameters(), 0.01)
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(here(inputs.to(place)), labels.to(place))
        loss.backward()
        optimizer.step()
    losses[place] = loss.item()
    assert next(here.parameters()).device.type == place
accelerator = torch.accelerator.current_accelerator() if device != "xla" else ""
print(device, abs(losses["cpu"] - losses[device]) < 1e-5, accelerator)
"""


@pytest.mark.parametrize(
    ("target", "device"), [(name, registry.load(name).DEVICE_TYPE) for name in registry.built_in()]
)
def test_every_target_trains_as_the_cpu_does(target: str, device: str) -> None:
    out, _ = run_snippet(TRAIN, target, enable="")
    assert out.split() == [device, "True", *([] if device == "xla" else [device])]


def test_a_fork_after_use_is_refused_and_before_it_is_not() -> None:
    out, _ = run_snippet(
        """
        import os

        def child(label):
            process = os.fork()
            if process == 0:
                try:
                    print(label, torch.ones(2, device=device).sum().item(), flush=True)
                except RuntimeError as error:
                    print(label, str(error).splitlines()[0], flush=True)
                os._exit(0)
            os.waitpid(process, 0)

        child("before use:")
        torch.ones(2, device=device)
        child("after use:")
        print(torch.ones(2, device=device).sum().item())
        """
    )
    assert out.splitlines() == [
        "before use: 2.0",
        "after use: Cannot re-initialize SDAA in forked subprocess. To use SDAA with multiprocessing, you must use the "
        "'spawn' start method",
        "2.0",
    ]


def test_a_spawned_process_has_the_device_too() -> None:
    out, _ = run_snippet(
        """
        import subprocess, sys
        torch.ones(2, device=device)
        code = "import torch, torch_sdaa; print(torch.ones(2, device='sdaa').sum().item())"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        """
    )
    assert out.strip() == "2.0"


def test_tensors_may_live_until_the_process_ends() -> None:
    run_snippet(
        """
        import atexit, threading
        kept = [torch.ones(1000, device=device, requires_grad=True)]
        kept.append((kept[0] * 2).sum())
        kept[1].backward()
        atexit.register(lambda: kept[0].sum().item())
        stream, generator = torch.Stream(device=device), torch.Generator(device=device)
        """
    )


def test_one_process_has_one_device() -> None:
    out, _ = run_snippet(
        """
        import torchferry.rehearsal
        from torchferry.core.errors import TorchferryError
        print(torchferry.rehearsal.enable("sdaa", devices=2) is session)
        try:
            torchferry.rehearsal.enable("npu")
        except TorchferryError as error:
            print("one device a process" in str(error) or "already rehearses" in str(error))
        """
    )
    assert out == "True\nTrue\n"
