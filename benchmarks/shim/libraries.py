"""Who sees what: the device that real libraries take under the redirect, on the simulated card of every target.

    python benchmarks/shim/libraries.py [--target NAME ...] [--markdown]

Each question is a small program against an installed library; one process a target runs them all. A library that is
not installed, or fails to import, is skipped with the reason. Nothing is downloaded: the models are made here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchferry.backends import registry

MARK = "ANSWERS"
OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}


def program() -> str:
    """What the program itself sees."""
    import torch

    return f"{torch.cuda.is_available()}, {torch.ones(1, device='cuda').device}"


def accelerate_step() -> str:
    """`Accelerator()` chooses a device, and trains a layer on it."""
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model: Any = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    accelerator.backward(model(torch.ones(2, 4, device=accelerator.device)).sum())
    optimizer.step()
    return f"{accelerator.device}, trains"


def transformers_arguments() -> str:
    """`TrainingArguments` takes a device by accelerate's state, or by itself."""
    from transformers import TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        return str(TrainingArguments(output_dir=folder, report_to=[]).device)


def _pipeline(**options: Any) -> str:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, pipeline

    words = WordLevel({"[UNK]": 0, "[PAD]": 1, "one": 2}, unk_token="[UNK]")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), unk_token="[UNK]", pad_token="[PAD]")
    config = BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=16,
    )  # fmt: skip
    ready: Any = pipeline("feature-extraction", model=BertModel(config), tokenizer=tokenizer, **options)
    ready("one")
    return f"{ready.device}, runs"


def transformers_named() -> str:
    """A pipeline that is given `cuda`."""
    return _pipeline(device="cuda")


def transformers_default() -> str:
    """A pipeline that chooses by itself."""
    return _pipeline()


def peft_infers() -> str:
    """`peft` chooses the device that adapters are loaded to."""
    from peft.utils import infer_device

    return str(infer_device())


def diffusers_pipeline() -> str:
    """A diffusion pipeline that is moved to `cuda`, with a generator there."""
    import torch
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    net = UNet2DModel(
        sample_size=8, block_out_channels=(8,), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
    )  # fmt: skip
    ready = DDPMPipeline(net, DDPMScheduler(num_train_timesteps=4)).to("cuda")
    ready.set_progress_bar_config(disable=True)
    ready(num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np")
    return f"{ready.device}, runs"


def timm_loader() -> str:
    """`timm`'s loader moves batches to the device that is named, and a model runs there."""
    import timm
    import torch
    from PIL import Image
    from timm.data import create_loader

    class Pictures(torch.utils.data.Dataset[Any]):
        transform: Any = None

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return self.transform(Image.new("RGB", (64, 64))), index

    device = torch.device("cuda")
    model = timm.create_model("test_resnet").to(device)
    loader = create_loader(Pictures(), (3, 64, 64), 2, device=device, num_workers=0)
    for images, _ in loader:
        return f"{images.device}, {model(images).device}"
    raise RuntimeError("the loader gave no batch")


def torchvision_model() -> str:
    """A network of torchvision."""
    import torch
    import torchvision

    model = torchvision.models.mobilenet_v3_small().cuda().eval()
    return str(model(torch.ones(1, 3, 32, 32, device="cuda")).device)


def lightning_trainer() -> str:
    """`Trainer(accelerator="gpu")` and what `auto` chooses."""
    import torch
    from lightning import LightningModule, Trainer

    class Module(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet: dict[str, Any] = {
        "devices": 1, "max_steps": 1, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False,
    }  # fmt: skip
    chosen = type(Trainer(accelerator="auto", **quiet).accelerator).__name__
    trainer = Trainer(accelerator="gpu", **quiet)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 4)), batch_size=2)
    trainer.fit(Module(), data)
    return f"{trainer.strategy.root_device}, trains; auto: {chosen}"


def deepspeed_accelerator() -> str:
    """The accelerator that deepspeed chooses."""
    from deepspeed.accelerator import get_accelerator

    return str(get_accelerator().device_name())


QUESTIONS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("torch", "`torch.cuda.is_available()`, a tensor's `.device`, asked by the program", program),
    ("accelerate", "`Accelerator().device`, one step", accelerate_step),
    ("transformers", "`TrainingArguments(...).device`", transformers_arguments),
    ("transformers", '`pipeline(..., device="cuda")`', transformers_named),
    ("transformers", "`pipeline(...)`", transformers_default),
    ("peft", "`infer_device()`", peft_infers),
    ("diffusers", '`DDPMPipeline(...).to("cuda")`, two steps', diffusers_pipeline),
    ("timm", '`create_loader(device="cuda")`, a model', timm_loader),
    ("torchvision", "`mobilenet_v3_small().cuda()`", torchvision_model),
    ("lightning", '`Trainer(accelerator="gpu")`, one step', lightning_trainer),
    ("deepspeed", "`get_accelerator()`", deepspeed_accelerator),
)


def ask() -> dict[str, list[str]]:
    """Answer every question in this process."""
    import torch  # noqa: F401 - which begins the redirect

    from torchferry.shim.caller_policy import CallerPolicy
    from torchferry.shim.redirect import current

    redirect = current()
    if redirect is None or redirect.target is None:
        raise SystemExit("nothing is redirected here")
    policy = CallerPolicy(redirect.target)
    answers = {}
    for library, text, question in QUESTIONS:
        try:
            version = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            answers[text] = ["", "skipped: not installed"]
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                answer = question()
        except Exception as error:
            lines = str(error).strip().splitlines()
            answer = f"{type(error).__name__}: {lines[0][:160] if lines else ''}"
        seen = "the program" if library == "torch" else "card" if policy.knows(library) else "CUDA"
        answers[text] = [
            f"{library} {version.partition('+')[0]}",
            f"{seen}: {answer}" if library != "torch" else answer,
        ]
    return answers


def asked_on(target: str) -> dict[str, list[str]]:
    """Answer every question on the simulated card of a target."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "torchferry", "rehearse", "-t", target, "--devices", "2", "--",
             sys.executable, "-m", "torchferry", "run", "--", sys.executable, str(Path(__file__).resolve()), "--ask"],
            capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **OFFLINE},
        )  # fmt: skip
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            answers: dict[str, list[str]] = json.loads(line.removeprefix(MARK))
            return answers
    raise SystemExit(f"{target}: no answers\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def main() -> None:
    """Ask on each target and print the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=registry.built_in())
    parser.add_argument("--markdown", action="store_true", help="a table for the documentation")
    parser.add_argument("--ask", action="store_true", help="answer in this process, under a redirect")
    options = parser.parse_args()
    if options.ask:
        print(MARK + json.dumps(ask()))
        return
    targets = options.target or registry.built_in()
    found = {target: asked_on(target) for target in targets}
    if options.markdown:
        print("| library | what is asked | " + " | ".join(targets) + " |")
        print("|" + "---|" * (2 + len(targets)))
    for _, text, _ in QUESTIONS:
        rows = [found[target][text] for target in targets]
        name = next((name for name, _ in rows if name), "")
        if options.markdown:
            print(f"| {name or '-'} | {text} | " + " | ".join(answer for _, answer in rows) + " |")
        else:
            print(f"{name or '-'}  {text}")
            for target, (_, answer) in zip(targets, rows, strict=True):
                print(f"    {target:5} {answer}")


if __name__ == "__main__":
    main()
