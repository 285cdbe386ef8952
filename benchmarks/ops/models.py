"""Twelve real models of public packages, small, on the targets: what `ops report` says, and what the rehearsal refuses.

    python benchmarks/ops/models.py --packages FOLDER                            musa, gcu, npu (simulated)
    python benchmarks/ops/models.py --packages FOLDER --wheel torch_npu-....whl  npu as its vendor ships it

FOLDER has transformers, diffusers, timm, torchvision and torch_geometric, if they are not installed. Sizes are small:
which operators a model calls does not depend on them. For each model, its forward in evaluation and a training step
with AdamW are predicted on a fake device, judged, and then really run on the simulated card, or on the vendor's plugin
over the simulated driver. An operator that is refused or runs on the CPU there, and that the report does not call
missing or forced, is unreported. Ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGETS = ("musa", "gcu", "npu")

WHOLE = "all models, by the summary of the rehearsal"

TRACED = ("gcn",)
"""Models whose results have as many values as their input says, which no prediction knows."""

_CAUTION = re.compile(r"operator '(aten::[\w.]+)'")


def _declare_torchvision() -> None:
    """Declare the operators that torchvision's Python looks for where its library does not load; none is called."""
    import torch

    pools = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
    for name in ("nms", "qnms", *pools, *(f"_{pool}_backward" for pool in pools)):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor x) -> Tensor")


def resnet50() -> Any:
    import torch

    models = importlib.import_module("torchvision.models")
    return models.resnet50(num_classes=10), (torch.randn(2, 3, 64, 64),)


def vit() -> Any:
    import timm
    import torch

    return timm.create_model("vit_tiny_patch16_224", num_classes=10, depth=2), (torch.randn(2, 3, 224, 224),)


def _tokens(model: Any, **more: Any) -> Any:
    import torch

    ids = torch.randint(0, 90, (2, 12))
    return model, {"input_ids": ids, "labels": ids, **more}


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _tokens(GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=2)))


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return _tokens(LlamaForCausalLM(LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )))  # fmt: skip


def bert() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    return _tokens(BertForMaskedLM(BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    )))  # fmt: skip


def t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    return _tokens(T5ForConditionalGeneration(T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0,
    )))  # fmt: skip


def unet() -> Any:
    import torch
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 32), layers_per_block=1, cross_attention_dim=16, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    return model, (torch.randn(2, 4, 16, 16), torch.tensor([3, 7]), torch.randn(2, 5, 16))


def wav2vec2() -> Any:
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    model = Wav2Vec2Model(Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=(16, 16),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
        apply_spec_augment=False, layerdrop=0.0,
    ))  # fmt: skip
    return model, (torch.randn(2, 800),)


def whisper() -> Any:
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=50, num_mel_bins=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    ))  # fmt: skip
    return model, {"input_features": torch.randn(2, 16, 100), "labels": torch.randint(3, 90, (2, 6))}


def detr() -> Any:
    import torch
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    model = DetrForObjectDetection(DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, d_model=32, encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        num_queries=8, num_labels=4,
        backbone_config=ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
                                     out_features=["stage2"]),
    ))  # fmt: skip
    return model, {"pixel_values": torch.randn(1, 3, 64, 64)}


def gcn() -> Any:
    import torch

    graphs = importlib.import_module("torch_geometric.nn")
    return graphs.GCN(8, 16, 2, 4), (torch.randn(20, 8), torch.randint(0, 20, (2, 60)))


def lightgcn() -> Any:
    import torch

    graphs = importlib.import_module("torch_geometric.nn")
    return graphs.LightGCN(30, 16, 2), (torch.randint(0, 30, (2, 60)),)


MODELS: dict[str, Callable[[], Any]] = {
    each.__name__: each for each in (resnet50, vit, gpt2, llama, bert, t5, unet, wav2vec2, whisper, detr, gcn, lightgcn)
}


def moved(value: Any, device: str) -> Any:
    """Return inputs on the device."""
    import torch

    return torch.utils._pytree.tree_map(lambda each: each.to(device) if isinstance(each, torch.Tensor) else each, value)


def step(name: str, device: str, *, training: bool) -> Callable[[], object]:
    """Return what runs a model's forward, or a training step, on the device."""
    import torch

    model, inputs = MODELS[name]()
    model, inputs = model.to(device), moved(inputs, device)
    args, kwargs = (inputs, {}) if isinstance(inputs, tuple) else ((), inputs)
    optimizer = torch.optim.AdamW(model.parameters())

    def run() -> None:
        if not training:
            model.eval()
            with torch.no_grad():
                model(*args, **kwargs)
            return
        model.train()
        out = model(*args, **kwargs)
        loss = getattr(out, "loss", None)
        if loss is None:
            parts = [each for each in torch.utils._pytree.tree_leaves(out) if isinstance(each, torch.Tensor)]
            loss = torch.stack([each.float().mean() for each in parts if each.requires_grad]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def predicted(target: str, version: str) -> dict[str, dict[str, str]]:
    """Return what becomes of each operator of each model, as `ops report --model` judges it."""
    from torchferry.backends.target import Target
    from torchferry.ops.fake_device import fake_tensors, set_up
    from torchferry.ops.judging import judge
    from torchferry.ops.lists import of_target
    from torchferry.ops.recorder import OperatorMode

    _declare_torchvision()
    known = of_target(Target.named(f"{target}@{version}" if version else target))
    registered = known.registered or frozenset()
    kind = set_up(target, sorted(registered - known.autograd))
    natives = {f"aten::{each}" for each in registered | known.autograd}
    support: dict[str, dict[str, str]] = {}
    for name, make in MODELS.items():
        for training in (False, True):
            mode = OperatorMode(kind, natives.__contains__, fake=True)
            try:
                with fake_tensors(kind):
                    mode.counts = False
                    with mode:
                        model, inputs = make()
                    mode.counts = True
                    run = _fake_step(model, inputs, training=training)
                    with mode:
                        run()
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
                support[_key(name, training)] = {}
                continue
            judged = judge(mode.needs(), known, kind)
            support[_key(name, training)] = {each.need.name: each.support for each in judged}
    return support


def _fake_step(model: Any, inputs: Any, *, training: bool) -> Callable[[], object]:
    from torchferry.ops.predicting import _of_model

    return _of_model(model, inputs, str(next(model.parameters()).device.type), training=training)


def _key(name: str, training: bool) -> str:
    return f"{name} {'training' if training else 'forward'}"


def refused(target: str) -> dict[str, list[str]]:
    """Return the operators that the card of this process refused or ran on the CPU, by model.

    What cannot be predicted is traced as well: `MODEL forward traced` has what becomes of its operators.
    """
    import torch

    __import__(f"torch_{target}")
    from torchferry.rehearsal import session

    _declare_torchvision()
    torch.set_warn_always(True)
    current = session.current()
    found: dict[str, list[str]] = {}
    for name in MODELS:
        for training in (False, True):
            torch.manual_seed(0)
            before = _used(current)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    step(name, target, training=training)()
                except Exception as error:
                    found[_key(name, training)] = [f"ERROR {type(error).__name__}: {error}"[:300]]
                    continue
            if name in TRACED:
                found[f"{_key(name, training)} traced"] = traced(name, target, training=training)
            names = {match[1] for each in told for match in _CAUTION.finditer(str(each.message))}
            if current is not None:
                new = {each for each, number in _used(current).items() if number > before.get(each, 0)}
                names |= new & (current.modes.fallback | current.modes.missing)
            found[_key(name, training)] = sorted(names)
    return found


def traced(name: str, target: str, *, training: bool) -> list[str]:
    """Return what becomes of the operators of a real run, as `ops report -- COMMAND` judges it."""
    from torchferry.backends.target import Target
    from torchferry.ops.judging import judge
    from torchferry.ops.lists import of_target
    from torchferry.ops.recorder import OperatorMode, _has

    run = step(name, target, training=training)
    with OperatorMode(target, _has) as mode:
        run()
    judged = judge(mode.needs(), of_target(Target.named(target)), target)
    return [f"{each.need.name} {each.support}" for each in judged]


def _used(current: Any) -> dict[str, int]:
    return {} if current is None else dict(current.native.operators_used())


def child(what: str, target: str, packages: str, wheel: str) -> Any:
    """Have a process predict, or run in a rehearsal."""
    with tempfile.TemporaryDirectory() as folder:
        out, profile = Path(folder) / "out.json", Path(folder) / "silent.toml"
        profile.write_text('fallback = "silent"\n')  # that every model comes to its end
        command = [sys.executable, __file__, "--child", what, "--target", target, "--out", str(out)]
        if what == "refused":
            options = ["--plugin", wheel] if wheel else ["--plugin", "simulated", "--profile", str(profile)]
            command = [
                sys.executable,
                "-m",
                "torchferry",
                "rehearse",
                "-t",
                target,
                *options,
                "--summary-file",
                str(Path(folder) / "summary.json"),
                "--",
                *command,
            ]
        environment = {**os.environ, "PYTHONPATH": packages, "HF_HUB_OFFLINE": "1"}
        if what == "predicted":
            environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        if wheel:
            version = Path(wheel).name.split("-")[1]
            command += ["--version", version] if what == "predicted" else []
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"{what} {target}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        for line in done.stderr.splitlines():
            if line.startswith(tuple(MODELS)):
                print(line, file=sys.stderr)
        result = json.loads(out.read_text())
        if what == "refused":
            events = json.loads((Path(folder) / "summary.json").read_text())["events"]
            kinds = ("fallback", "missing-operator")
            result[WHOLE] = sorted({event["subject"] for event in events if event["kind"] in kinds})
        return result


def main() -> int:
    """Compare; returns 1 when something was unreported."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", default="")
    parser.add_argument("--wheel", default="")
    parser.add_argument("--target", default="")
    parser.add_argument("--child", default="")
    parser.add_argument("--version", default="")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.child:
        result = predicted(chosen.target, chosen.version) if chosen.child == "predicted" else refused(chosen.target)
        chosen.out.write_text(json.dumps(result))
        return 0
    unreported = 0
    wheel = str(Path(chosen.wheel).absolute()) if chosen.wheel else ""
    for target in [chosen.target] if chosen.target else ["npu"] if wheel else TARGETS:
        support = child("predicted", target, chosen.packages, wheel)
        really = child("refused", target, chosen.packages, wheel)
        print(f"\n{target}{' as shipped' if wheel else ''}: operators, missing, forced, refused there, unreported")
        named: set[str] = set()
        for key, operators in support.items():
            operators = operators or dict(row.rsplit(" ", 1) for row in really.get(f"{key} traced", ()))
            counts = {kind: sum(each == kind for each in operators.values()) for kind in ("missing", "forced")}
            lost = {name.partition(".")[0] for name, kind in operators.items() if kind in counts}
            named |= lost
            failed = [each for each in really[key] if each.startswith("ERROR")]
            unknown = [each for each in really[key] if each.partition(".")[0] not in lost and not failed]
            unreported += len(unknown) + len(failed)
            print(
                f"{key:20} {len(operators):4} {counts['missing']:3} {counts['forced']:3} {len(really[key]):3} "
                f"{len(unknown):3}  {' '.join(unknown or failed)}"
            )
        beside = [each for each in really[WHOLE] if each.partition(".")[0] not in named]
        unreported += len(beside)
        print(f"{WHOLE}: {len(really[WHOLE])} refused or on the CPU, {len(beside)} unreported {' '.join(beside)}")
    print(f"\nunreported, or not run: {unreported}")
    return int(unreported > 0)


if __name__ == "__main__":
    raise SystemExit(main())
