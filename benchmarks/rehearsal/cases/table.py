"""The cases of `realworld.py`."""

# ruff: noqa: E501 - a case is a row of a table

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rehearsal.cases import inputs
from torchferry.backends import registry

FLOAT32 = 2e-5
"""Greatest difference, relative to the greatest value, that the order of float32 sums makes in a few steps."""

EXAMPLES = "pytorch+examples"


@dataclass(frozen=True)
class Edit:
    """Text of one file that becomes another before anything runs."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        name: What it is called in the table.
        target: Where it goes.
        source: Checkout of the corpus, or a folder of `cases`.
        command: The program with its arguments; `{data}` is the folder that `prepare` has filled, `{out}` one
            for what it writes, `{root}` that of the program.
        part: Folder of the checkout that is copied and migrated; all of it when empty.
        cwd: Folder below that one in which the program starts, or `{out}`, where what `prepare` made is found too.
        on_the_cpu: More arguments of the run on the CPU.
        environment: Variables of the rehearsal.
        prepare: Makes the inputs.
        packages: Modules that it needs.
        steps: Optimizer steps after which it ends; 0 to let it end by itself.
        ranks: Processes that torchrun starts; 0 without torchrun.
        edits: Made to both runs.
        reference: Made to the run on the CPU.
        unsafe: Whether the fixes that a person should read are wanted.
        options: More options of `torchferry rehearse`.
        driver: Program of `cases` that stubs what needs a network or gigabytes and starts the repository's.
        image: Files that are images and must agree, below `{out}`.
        tolerance: Greatest difference relative to the greatest value.
        fails: What the output of the migrated program rightly says, because it would fail on the card too.
        unchanged_alone: Whether there is nothing to migrate, since a library that ignores the card chooses the device.
    """

    name: str
    target: str
    source: str
    command: str
    part: str = ""
    cwd: str = ""
    on_the_cpu: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    prepare: Callable[[Path], None] | None = None
    packages: tuple[str, ...] = ()
    steps: int = 0
    ranks: int = 0
    edits: tuple[Edit, ...] = ()
    reference: tuple[Edit, ...] = ()
    unsafe: bool = False
    options: tuple[str, ...] = ()
    driver: str = ""
    image: str = ""
    tolerance: float = FLOAT32
    fails: str = ""
    unchanged_alone: bool = False


_NO_GENERATOR = "has no generator of its own"
"""The program asks for a generator on the card."""

REFUSED = {
    ("examples distributed/tensor_parallelism", "ptex"): "Default process group has not been initialized",
    ("examples distributed/FSDP2", "ptex"): "unexpected keyword argument 'device_id'",
    ("examples imagenet", "gcu"): "has no `torch.nn.parallel.DataParallel`",
    ("examples imagenet", "ptex"): "DataParallel exists in ptex but is not rehearsed",
    ("nanoGPT", "ptex"): "has no `torch.cuda.is_bf16_supported`",
    ("lightning_fit", "ptex"): "has no `torch.cuda.get_rng_state_all`",
    ("trainer", "ptex"): "`fused=True` requires all the params",  # torch: its fused optimizers know no xla
    ("trainer alone", "ptex"): "`fused=True` requires all the params",
    ("trainer bfloat16", "ptex"): "has no `torch.cuda.is_bf16_supported`",
    ("trainer 2 ranks", "ptex"): "has no `torch.distributed.all_gather_into_tensor`",
    ("accelerated", "ptex"): "has no `torch.cuda.get_rng_state_all`",
    ("accelerated bfloat16", "ptex"): "has no `torch.cuda.is_bf16_supported`",
    ("accelerated 2 ranks", "ptex"): "has no `torch.distributed.all_gather_into_tensor`",
    ("accelerated 2 ranks", "sdaa"): "device sdaa:0 is invalid",  # safetensors loads to a fixed list of devices
    ("deepspeed_zero", "ptex"): "has no `torch.compile`",
    ("timm_models", "ptex"): _NO_GENERATOR,
    ("diffusion", "ptex"): _NO_GENERATOR,
}
"""What an unchanged program rightly says at its end, by its name and target."""

_ITSELF = "NOTHING RAN ON THE DEVICE"
"""accelerate chooses the device, and does not know the card: it takes the CPU, and the rehearsal says so."""

_MIXED = "Expected all tensors to be on the same device"
"""accelerate takes the card, and the Trainer of transformers, which does not know it, the CPU."""

PORTABLE = {
    **{
        (name, target): _ITSELF
        for name in ("trainer", "trainer alone", "trainer 2 ranks")
        for target in ("gcu", "ptex")
    },
    **{(name, target): _ITSELF for name in ("accelerated", "accelerated 2 ranks") for target in ("gcu", "ptex")},
    **{("accelerated bfloat16", target): _ITSELF for target in ("gcu", "ptex")},
    **{("trainer bfloat16", target): "Your setup doesn't support bf16/gpu" for target in ("sdaa", "gcu", "ptex")},
    **{(name, "sdaa"): _MIXED for name in ("trainer", "trainer alone")},
    ("accelerated 2 ranks", "sdaa"): "device sdaa:0 is invalid",  # safetensors loads to a fixed list of devices
    **{(f"HiDream-E1 {dtype}", "ptex"): _NO_GENERATOR for dtype in ("float32", "bfloat16")},
    **{(name, "ptex"): _NO_GENERATOR for name in ("timm_models", "diffusion")},
    ("nanoGPT", "ptex"): "Cannot access accelerator device",  # torch pins memory for its own accelerators alone
    ("examples distributed/tensor_parallelism", "ptex"): "Default process group has not been initialized",
    ("examples distributed/FSDP2", "ptex"): "Invalid device string: 'xla:0:",  # its devices have a number
}
"""The same of a program in portable style."""

ANOTHER_WAY = frozenset(
    {
        "timm train.py AMP float16",
        *(f"examples {name}" for name in ("mnist", "mnist_forward_forward", "siamese_network")),
        *(f"examples distributed/{name}" for name in ("ddp", "ddp-tutorial-series", "tensor_parallelism", "FSDP2")),
    }
)
"""Programs that go another way where there is no card, as they should: they shuffle no data there, scale no loss, or end.
Their original is run as if the CPU were one."""

VISION = ("torchvision",)


def cases() -> list[Case]:
    """Return every case."""
    return [*_language_models(), *_examples(), *_distributed(), *_libraries(), *_repositories()]


def _language_models() -> list[Case]:
    mingpt = (
        "projects/chargpt/chargpt.py --model.model_type=gpt-nano --trainer.num_workers=0 --trainer.batch_size=4 "
        "--data.block_size=32"
    )
    nanogpt = (
        "train.py --dataset={data} --compile=False --dtype=float32 --eval_iters=2 --eval_interval=4 --block_size=32 "
        "--batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --max_iters=6 --gradient_accumulation_steps=2 --dropout=0.1 "
        "--out_dir={out}"
    )
    adder = "projects/adder/adder.py --model.model_type=gpt-nano --trainer.num_workers=0 --trainer.batch_size=8"
    made: list[Case] = []
    for target in registry.built_in():
        command = "{root}/" + mingpt
        made.append(
            Case("minGPT chargpt", target, "karpathy+minGPT", command, cwd="{out}", prepare=inputs.text, steps=6)
        )
    made += [
        Case("minGPT adder", "musa", "karpathy+minGPT", "{root}/" + adder, cwd="{out}", steps=6),
        Case("nanoGPT", "npu", "karpathy+nanoGPT", nanogpt, prepare=inputs.shakespeare, on_the_cpu="--device=cpu"),
        Case("nanoGPT", "sdaa", "karpathy+nanoGPT", nanogpt, prepare=inputs.shakespeare, on_the_cpu="--device=cpu"),
    ]
    return made


def _example(name: str, target: str, command: str, **more: Any) -> Case:
    return Case(f"examples {name}", target, EXAMPLES, command, part=name.partition(" ")[0], **more)


def _examples() -> list[Case]:
    digits = {"prepare": inputs.mnist, "packages": VISION}
    words = "main.py --accel --data {data} --epochs 1 --nhid 32 --emsize 32 --save {out}/model.pt --model "
    fake = "main.py --dataset fake --accel --workers 0 --batchSize 4 --ngf 8 --ndf 8 --manualSeed 1 --outf {out}"
    forward = "{root}/main.py"
    photos = "main.py -a resnet18 -b 6 -j 0 --epochs 1 {data}"
    return [
        _example("mnist", "npu", "main.py --epochs 1 --batch-size 32", **digits),
        _example("mnist", "musa", "main.py --epochs 1 --batch-size 32", **digits),
        _example("mnist_rnn", "sdaa", "main.py --accel --epochs 1 --batch-size 32", steps=6, **digits),
        _example("mnist_forward_forward", "npu", forward + " --epochs 2 --train_size 64 --test_size 32", cwd="{out}", prepare=inputs.mnist_in_data, packages=VISION),
        _example("vae", "gcu", "main.py --epochs 1 --batch-size 32", **digits),
        _example("siamese_network", "npu", "main.py --epochs 1 --batch-size 8", steps=4, **digits),
        _example("dcgan", "musa", fake, steps=6, image="real_samples.png", packages=VISION),
        _example("word_language_model LSTM", "npu", words + "LSTM", prepare=inputs.words),
        _example("word_language_model GRU", "sdaa", words + "GRU --use-optimizer --lr 0.01", prepare=inputs.words, steps=8),
        _example("word_language_model Transformer", "musa", words + "Transformer --use-optimizer --lr 0.01", prepare=inputs.words, steps=8),
        _example("imagenet", "musa", photos, prepare=inputs.pictures, steps=3, unsafe=True, packages=VISION),
        _example("imagenet", "sdaa", photos + " --gpu 0", prepare=inputs.pictures, steps=3, unsafe=True, packages=VISION),
        # The program wraps its model in DataParallel, of which ptex has its own.
        _example(
            "imagenet", "ptex", photos, prepare=inputs.pictures, steps=3, unsafe=True, packages=VISION,
            fails="DataParallel exists in ptex but is not rehearsed",
        ),
    ]  # fmt: skip


def _distributed() -> list[Case]:
    toy = (Edit("example.py", "to(rank)", 'to("cpu")'), Edit("example.py", "device_ids=[rank]", "device_ids=None"))
    series = (
        Edit("multigpu_torchrun.py", 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))', "pass"),
        Edit("multigpu_torchrun.py", 'backend="nccl"', 'backend="gloo"'),
        Edit("multigpu_torchrun.py", ".to(self.gpu_id)", '.to("cpu")'),
        Edit("multigpu_torchrun.py", "device_ids=[self.gpu_id]", "device_ids=None"),
    )
    # The program leaves the parameters of its blocks as they lie in memory, and a DTensor draws otherwise on a card.
    waves = "part.copy_((torch.arange(part.numel(), device=part.device) * 0.37).sin().reshape(part.shape) * 0.05)"
    made = f"[{waves} for part in (one.data.to_local() for one in model.parameters())]"
    blocks = (Edit("example.py", "model.reset_parameters()", made),)
    return [
        _example("distributed/ddp", "npu", "example.py", ranks=2, reference=toy),
        _example("distributed/ddp", "gcu", "example.py", ranks=2, reference=toy),
        _example("distributed/ddp-tutorial-series", "musa", "multigpu_torchrun.py 1 1", ranks=2, reference=series),
        _example("distributed/ddp-tutorial-series", "sdaa", "multigpu_torchrun.py 1 1", ranks=2, reference=series),
        _example("distributed/tensor_parallelism", "npu", "tensor_parallel_example.py", ranks=2),
        _example(
            "distributed/FSDP2",
            "npu",
            "example.py",
            ranks=2,
            edits=blocks,
            reference=(Edit("example.py", ", device_id=device", ""),),
        ),
    ]


def _own(name: str, target: str, command: str, *packages: str, **more: Any) -> Case:
    more.setdefault("reference", (Edit("main.py", '"cuda"', '"cpu"'),))
    return Case(name, target, name.partition(" ")[0], command, packages=packages, **more)


def _libraries() -> list[Case]:
    train, run = "main.py --out {out}/run", "main.py --out {out}/run --mixed "
    itself: dict[str, Any] = {"reference": (), "on_the_cpu": "--cpu"}
    bert, small = ("transformers", "accelerate"), ("accelerate",)
    told = {"environment": (("ACCELERATE_TORCH_DEVICE", "sdaa:0"),), **itself}
    models = "main.py resnet18 mobilenetv3_small_050 vit_tiny_patch16_224 convnext_atto"
    diffusion: Any = ("main.py --out {out}", "diffusers", "transformers")
    boxes = {
        "reference": (
            Edit("main.py", '"cuda"', '"cpu"'), Edit("main.py", ".cuda()", ""),
            Edit("main.py", "torch.cuda.synchronize()", "pass"),
        )
    }  # fmt: skip
    return [
        *(_own("trainer", target, train, *bert, **itself) for target in ("npu", "musa")),
        _own("trainer alone", "sdaa", train, *bert, fails=_MIXED, **itself),
        _own("trainer told", "sdaa", train, *bert, **told),
        _own("trainer bfloat16", "npu", train + " --bf16", *bert, tolerance=2e-2, **itself),
        _own("trainer 2 ranks", "npu", train, *bert, ranks=2, **itself),
        _own("trainer 2 ranks", "sdaa", train, *bert, ranks=2, **itself),
        *(_own("accelerated", target, run + "no", *small, **itself) for target in ("npu", "musa", "sdaa")),
        _own("accelerated bfloat16", "musa", run + "bf16", *small, tolerance=2e-2, **itself),
        _own("accelerated 2 ranks", "npu", run + "no", *small, ranks=2, **itself),
        _own(
            "lightning_fit",
            "npu",
            "main.py --out {out}/run",
            "lightning",
            unchanged_alone=True,
            reference=(Edit("main.py", '"gpu"', '"cpu"'),),
        ),
        _own("deepspeed_zero", "npu", "main.py", "deepspeed", unchanged_alone=True, ranks=1, reference=()),
        *(
            _own(
                f"deepspeed_zero {stage}, 2 ranks",
                "npu",
                f"main.py --stage {stage}",
                "deepspeed",
                unchanged_alone=True,
                ranks=2,
                reference=(),
            )
            for stage in (1, 2)
        ),
        _own("timm_models", "npu", models, "timm"),
        _own("timm_models", "gcu", models, "timm"),
        _own("diffusion", "musa", *diffusion, image="image.png"),
        # On npu diffusers takes torch_npu.npu_geglu, which approximates GELU by tanh.
        _own("diffusion", "npu", *diffusion, image="image.png", tolerance=1e-3),
        _own("detection", "npu", "main.py", *VISION, **boxes),
        _own("detection masks", "sdaa", "main.py --masks", *VISION, **boxes),
    ]


def _repositories() -> list[Case]:
    small = (
        Edit("inference_e1_1.py", "image_size = 1024", "image_size = 128"),
        Edit("inference_e1_1.py", "steps=28", "steps=4"),
    )
    single = (*small, Edit("inference_e1_1.py", "torch.bfloat16", "torch.float32"))
    on_the_cpu = (
        Edit("inference_e1_1.py", '"cuda"', '"cpu"'),
        Edit("inference_e1_1.py", "torch.cuda.memory_summary(device='cuda', abbreviated=True)", "''"),
    )
    made = ("diffusers", "transformers", "safetensors")
    hidream: dict[str, Any] = {
        "cwd": "{out}", "prepare": inputs.hidream, "packages": made, "reference": on_the_cpu, "image": "results/*.jpg",
        "driver": "drivers/pipeline_output.py",
    }  # fmt: skip
    resnet = (
        "train.py {data} --model resnet50 --num-classes 3 --img-size 64 -b 4 --workers 1 --epochs 2 --sched-on-updates "
        "--warmup-epochs 0 --opt sgd --lr 0.01 --output {out} --model-ema --amp --amp-dtype "
    )
    imagenet: dict[str, Any] = {
        "prepare": inputs.pictures, "packages": ("torchvision", "yaml"), "on_the_cpu": "--device=cpu", "tolerance": 2e-2,
        "reference": (Edit("train.py", "device.type in ('cuda',)", "device.type in ('cpu',)"),),  # a scaler there too
        # The CPU's own half kernels overflow at the scale with which a scaler begins, and skip that step.
        "edits": (Edit("timm/utils/cuda.py", "GradScaler(device=device)", "GradScaler(device=device, init_scale=64.0)"),),
    }  # fmt: skip
    sdxl: dict[str, Any] = {
        "cwd": "{out}", "prepare": inputs.sdxl, "packages": made, "image": "image_*.png",
        "driver": "drivers/sdxl_checkpoint.py",
    }  # fmt: skip
    run = "{out}/tiny.safetensors {root}/sdxl_minimal_inference.py --ckpt_path {out}/tiny.safetensors"
    return [
        Case("HiDream-E1 float32", "npu", "HiDream-ai+HiDream-E1", "{root}/inference_e1_1.py", edits=single, tolerance=1e-4, **hidream),
        Case("HiDream-E1 bfloat16", "npu", "HiDream-ai+HiDream-E1", "{root}/inference_e1_1.py", edits=small, tolerance=0.1, **hidream),
        *(
            Case(f"timm train.py AMP {name}", target, "huggingface+pytorch-image-models", resnet + name, steps=4, **imagenet)
            for name, target in (("bfloat16", "sdaa"), ("float16", "sdaa"), ("bfloat16", "npu"), ("bfloat16", "musa"))
        ),
        *(
            Case(f"SDXL {name}", target, "kohya-ss+sd-scripts", run, edits=(*_SDXL, *more), tolerance=tolerance, **sdxl)
            for name, target, more, tolerance in (
                ("float32", "ptex", (Edit("sdxl_minimal_inference.py", "DTYPE = torch.float16", "DTYPE = torch.float32"),), 1e-4),
                ("float16", "ptex", (), 0.1),
                ("float32", "npu", (Edit("sdxl_minimal_inference.py", "DTYPE = torch.float16", "DTYPE = torch.float32"),), 1e-4),
            )
        ),
    ]  # fmt: skip


_SDXL = (
    Edit("sdxl_minimal_inference.py", "target_height = 1024", "target_height = 128"),
    Edit("sdxl_minimal_inference.py", "target_width = 1024", "target_width = 128"),
    Edit("sdxl_minimal_inference.py", "steps = 50", "steps = 4"),
    Edit("sdxl_minimal_inference.py", "seed = None", "seed = 1"),
    Edit("sdxl_minimal_inference.py", "attention(True, False)", "attention(False, False)"),
    Edit("sdxl_minimal_inference.py", "attention_xformers(True)", "attention_xformers(False)"),
    Edit("library/sdxl_original_unet.py", "MODEL_CHANNELS: int = 320", "MODEL_CHANNELS: int = 32"),
    Edit("library/sdxl_original_unet.py", "TIME_EMBED_DIM = 320 * 4", "TIME_EMBED_DIM = 128"),
    Edit("library/sdxl_original_unet.py", "num_transformer_layers=10", "num_transformer_layers=1"),
    Edit("library/model_util.py", "VAE_PARAMS_CH = 128", "VAE_PARAMS_CH = 32"),
    Edit("library/sdxl_model_util.py", "vocab_size=49408", "vocab_size=400"),
    Edit("library/sdxl_model_util.py", "intermediate_size=3072", "intermediate_size=64"),
    Edit("library/sdxl_model_util.py", "intermediate_size=5120", "intermediate_size=64"),
    Edit("library/sdxl_model_util.py", "num_hidden_layers=32", "num_hidden_layers=2"),
)
"""Sizes that fit a test; xformers, which no target has, is switched off for both runs."""
