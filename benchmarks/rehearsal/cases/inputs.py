"""Tiny random data and models in the formats that the programs read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np


def mnist(folder: Path, train: int = 256, test: int = 64) -> None:
    """Write images and labels as torchvision's MNIST has them; it checks no sums of files that are there."""
    random = np.random.default_rng(0)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        images = random.integers(0, 255, (count, 28, 28), dtype=np.uint8)
        labels = random.integers(0, 10, count, dtype=np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def mnist_in_data(folder: Path) -> None:
    """Write MNIST below `data`."""
    mnist(folder / "data")


def pictures(folder: Path, classes: int = 3, each: int = 6, size: int = 64) -> None:
    """Write an ImageFolder with `train` and `val`."""
    from PIL import Image  # type: ignore[import-not-found, unused-ignore]

    random = np.random.default_rng(0)
    for part in ("train", "val"):
        for label in range(classes):
            (folder / part / str(label)).mkdir(parents=True)
            for i in range(each):
                pixels = random.integers(0, 255, (size, size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / part / str(label) / f"{i}.png")


def words(folder: Path) -> None:
    """Write a corpus in the form of wikitext-2."""
    random = np.random.default_rng(0)
    known = [f"w{i}" for i in range(200)]
    for part, lines in (("train", 300), ("valid", 60), ("test", 60)):
        text = "".join(" ".join(random.choice(known, 12)) + "\n" for _ in range(lines))
        (folder / f"{part}.txt").write_text(text)


def text(folder: Path) -> None:
    """Write a text of characters."""
    random = np.random.default_rng(0)
    (folder / "input.txt").write_text("O God, O God!\n" + "".join(random.choice(list("abcdefgh ,.\n"), 4000)))


def shakespeare(folder: Path) -> None:
    """Write tokens as nanoGPT's `prepare.py` does."""
    import pickle

    random = np.random.default_rng(0)
    for part in ("train", "val"):
        random.integers(0, 65, 4000, dtype=np.uint16).tofile(folder / f"{part}.bin")
    letters = [chr(33 + i) for i in range(65)]
    table: dict[str, Any] = {"vocab_size": 65, "itos": dict(enumerate(letters))}
    table["stoi"] = {letter: i for i, letter in enumerate(letters)}
    (folder / "meta.pkl").write_bytes(pickle.dumps(table))


def waves(folder: Path) -> None:
    """Write sine waves as `generate_sine_wave.py` does, fewer and shorter."""
    import torch

    offsets = np.random.default_rng(2).integers(-80, 80, 8)
    torch.save(np.sin((np.arange(60) + offsets[:, None]) / 20.0).astype("float64"), folder / "traindata.pt")


def _letters() -> tuple[dict[str, int], list[str]]:
    """Return a vocabulary for a tokenizer that knows letters only."""
    known = ["<|startoftext|>", "<|endoftext|>"]
    known += [f"{chr(code)}{end}" for end in ("", "</w>") for code in (*range(33, 127), 0x120)]
    return {token: i for i, token in enumerate(known)}, []


def clip_tokenizer(folder: Path) -> None:
    """Write a CLIP tokenizer of single letters."""
    from transformers import CLIPTokenizer  # type: ignore[import-not-found, unused-ignore]

    vocabulary, merges = _letters()
    CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77).save_pretrained(folder)


def sdxl(folder: Path) -> None:
    """Write the tokenizers under the names by which SDXL's scripts load them."""
    for name in ("openai/clip-vit-large-patch14", "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k"):
        clip_tokenizer(folder / name)


def _llama(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found, unused-ignore]
    from transformers import (  # type: ignore[import-not-found, unused-ignore]
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **{chr(code): code - 30 for code in range(33, 127)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", unk_token="<unk>", model_max_length=128
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=100, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, attn_implementation="eager",
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def hidream(folder: Path) -> None:
    """Write a tiny HiDream, with random weights, under the names by which its scripts load it."""
    import torch
    from diffusers import (  # type: ignore[import-not-found, unused-ignore]
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        HiDreamImageTransformer2DModel,
    )
    from PIL import Image
    from safetensors.torch import save_file  # type: ignore[import-not-found, unused-ignore]
    from transformers import (  # type: ignore[import-not-found, unused-ignore]
        CLIPTextConfig,
        CLIPTextModelWithProjection,
        T5Config,
        T5EncoderModel,
        T5Tokenizer,
    )

    torch.manual_seed(0)
    _llama(folder / "meta-llama" / "Llama-3.1-8B-Instruct")
    image, edit = folder / "HiDream-ai" / "HiDream-I1-Full", folder / "HiDream-ai" / "HiDream-E1-1" / "transformer"
    text = CLIPTextConfig(
        hidden_size=32, intermediate_size=37, num_attention_heads=4, num_hidden_layers=2, vocab_size=400,
        projection_dim=32, max_position_embeddings=218, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    for name in ("text_encoder", "text_encoder_2"):
        CLIPTextModelWithProjection(text).save_pretrained(image / name)
    for name in ("tokenizer", "tokenizer_2"):
        clip_tokenizer(image / name)
    T5EncoderModel(T5Config(vocab_size=228, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)).save_pretrained(
        image / "text_encoder_3"
    )
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0)]
    pieces += [(chr(code), -2.0) for code in range(33, 127)]
    T5Tokenizer(vocab=pieces, model_max_length=128).save_pretrained(image / "tokenizer_3")
    parts = ("DownEncoderBlock2D",) * 4, ("UpDecoderBlock2D",) * 4
    AutoencoderKL(
        block_out_channels=(8, 8, 16, 16), down_block_types=parts[0], up_block_types=parts[1], latent_channels=4,
        norm_num_groups=4, scaling_factor=0.3611, shift_factor=0.1159,
    ).save_pretrained(image / "vae")  # fmt: skip
    FlowMatchEulerDiscreteScheduler().save_pretrained(image / "scheduler")
    transformers = [
        HiDreamImageTransformer2DModel(
            patch_size=2, in_channels=4, out_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8,
            num_attention_heads=4, caption_channels=[32, 16], text_emb_dim=64, num_routed_experts=4,
            num_activated_experts=2, axes_dims_rope=(4, 2, 2), max_resolution=(32, 32), llama_layers=(0, 1),
        )
        for _ in range(2)
    ]  # fmt: skip
    transformers[0].save_pretrained(image / "transformer")
    edit.mkdir(parents=True)
    weights = {name: value.contiguous() for name, value in transformers[1].state_dict().items()}
    save_file(weights, edit / "weights.safetensors")
    _write_json(
        edit / "diffusion_pytorch_model.safetensors.index.json",
        {"weight_map": dict.fromkeys(weights, "weights.safetensors")},
    )
    classes = {
        "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler"),
        "vae": ("diffusers", "AutoencoderKL"),
        "text_encoder": ("transformers", "CLIPTextModelWithProjection"),
        "text_encoder_2": ("transformers", "CLIPTextModelWithProjection"),
        "text_encoder_3": ("transformers", "T5EncoderModel"),
        "text_encoder_4": ("transformers", "LlamaForCausalLM"),
        "tokenizer": ("transformers", "CLIPTokenizer"),
        "tokenizer_2": ("transformers", "CLIPTokenizer"),
        "tokenizer_3": ("transformers", "T5Tokenizer"),
        "tokenizer_4": ("transformers", "PreTrainedTokenizerFast"),
        "transformer": ("diffusers", "HiDreamImageTransformer2DModel"),
    }
    _write_json(
        image / "model_index.json",
        {"_class_name": "HiDreamImagePipeline", "_diffusers_version": "0.36.0", **classes},
    )
    random = np.random.default_rng(0)
    (folder / "assets").mkdir()
    Image.fromarray(random.integers(0, 255, (96, 80, 3), dtype=np.uint8)).save(folder / "assets" / "test_1.png")


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
