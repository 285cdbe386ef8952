"""The change summary and the migration guide of HiDream-E1, tried."""

from __future__ import annotations

import re

import pytest

from tests.documents.trial import Trial, dear

pytestmark = pytest.mark.rehearsal

INFERENCE = """
import torch
pipe = torch.nn.Linear(4, 4)
pipe = pipe.to("cuda", torch.bfloat16)
generator = torch.Generator("cuda").manual_seed(3)
x = torch.randn(2, 4, generator=generator, device="cuda").to(torch.bfloat16)
print("computed on", pipe(x).device)
torch.cuda.memory_summary(device='cuda', abbreviated=True)
"""


GUIDE = """
import os, time
import torch
import torch_npu
print("available", torch.npu.is_available(), "count", torch.npu.device_count())
torch.npu.set_device(0)
if torch.npu.is_available():
    DEVICE = f"npu:{torch.npu.current_device()}"
elif torch.cuda.is_available():
    DEVICE = "cuda"
else:
    DEVICE = "cpu"
print("device", DEVICE)
os.environ["DIFFUSERS_ATTENTION_TYPE"] = "vanilla"
pipe = torch.nn.Linear(4, 4)
pipe = pipe.to(DEVICE, torch.bfloat16)
seed = 42
generator = torch.Generator(DEVICE).manual_seed(seed)
print("generator", generator.device, torch.rand(2, generator=generator, device=DEVICE).device)
if DEVICE.startswith("npu"):
    memory_allocated = torch.npu.memory_allocated() / 1024**3
    memory_reserved = torch.npu.memory_reserved() / 1024**3
    print(f"NPU Memory: {memory_allocated:.2f}GB / {memory_reserved:.2f}GB", memory_reserved >= memory_allocated > 0)
device = "npu:0"
vae = torch.nn.Conv2d(3, 4, 3).to(device, torch.bfloat16)
dummy_input = torch.randn(1, 3, 16, 16).to(device, torch.bfloat16)
try:
    latent = vae(dummy_input)
    print("VAE passed", latent.device, latent.dtype)
except Exception as e:
    print("VAE failed", e)
torch_npu.npu.set_compile_mode(jit_compile=False)
os.environ["NPU_FALLBACK_MODE"] = "1"
try:
    torch.randn(10, 10, dtype=torch.bfloat16).to(device)
    print("bfloat16 is supported")
except Exception as e:
    print("bfloat16 not supported", e)
DTYPE = torch.float16 if not torch.npu.is_bf16_supported() else torch.bfloat16
print("dtype", DTYPE)
start = time.time()
with torch.no_grad():
    outputs = pipe(torch.randn(3, 4).to(DEVICE, DTYPE))
print(f"Inference time: {time.time() - start:.2f}s", tuple(outputs.shape))
"""
"""Sections 1 to 7 of the guide, in one program: what it has its readers type, on what stands for the pipeline."""


def test_1_to_7_the_guides_lines_run_on_the_card(trial: Trial) -> None:
    trial.write("guide.py", GUIDE)
    said = trial.rehearsed("npu", "guide.py")
    for line in (
        "available True count 1",  # 1.1, 1.2
        "device npu:0",  # 2.1
        "generator npu:0 npu:0",  # 2.2
        "GB True",  # 2.3
        "VAE passed npu:0 torch.bfloat16",  # 4.1
        "bfloat16 is supported",  # 5.1
        "dtype torch.bfloat16",  # 5.2
        "s (3, 4)",  # 7.2, 9.3
    ):
        assert f"{line}\n" in said, line
    assert "nothing was seen that would fail on the card" in said


PAGE = """
import gradio as gr
import torch
from inference import pipe
pipe.load_lora_weights("lora.safetensors", adapter_name="e1")
def edit(image, seed):
    return pipe(image, generator=torch.Generator("cuda").manual_seed(seed))
gr.Interface(edit, "image", "image")
"""


def test_the_device_class_as_the_documents_call_it(trial: Trial) -> None:
    trial.says("device", "vendor", ".")
    trial.write(
        "use.py",
        """
        import os
        import torch
        from device_utils import DeviceManager
        dm = DeviceManager()
        print("uses", dm.device, dm.dtype, dm.device_type, dm.device_string.startswith("npu"))
        pipe = torch.nn.Linear(2, 2).to(dm.device, dm.dtype)
        generator = dm.create_generator(seed=42)
        from safetensors.torch import save_file
        save_file({"w": torch.ones(2)}, "lora.safetensors")
        print("loaded", dm.load_safetensors("lora.safetensors")["w"].device)
        print("before")
        dm.memory_stats()
        print("after")
        dm.set_memory_efficient_mode()
        dm.empty_cache()
        print("ends", pipe.weight.device, generator.device)
        os.environ["PREFERRED_DEVICE"] = "banana"
        try:
            DeviceManager()
        except Exception as error:
            print("refused:", error)
        """,
    )
    said = trial.rehearsed("npu", "use.py")
    assert "uses npu:0 torch.bfloat16 npu True\n" in said
    assert "before\nnpu:0: allocated " in said, "a bare memory_stats() prints"
    assert "npu:0: gradients are not recorded, the cache was emptied\n" in said
    assert "loaded npu:0\n" in said
    assert "ends npu:0 npu:0\n" in said
    assert "refused: unknown device `banana`; known: " in said


def test_new_files_beside_the_originals_with_documents_and_the_kit(trial: Trial) -> None:
    before = trial.write("inference.py", INFERENCE).read_text(encoding="utf-8")
    trial.write("requirements.txt", "torch\nflash-attn\ndiffusers\n")
    trial.write("gradio_demo.py", PAGE)
    options = ("--suffix", "_npu", "--style", "portable", "--dtype", "auto", "--kit", "--status-line", "--unsafe-fixes")
    fixed = trial.migrated("npu", "inference_npu.py", *options)
    assert trial.read("inference.py") == before
    page = trial.read("gradio_demo_npu.py")
    assert "from inference_npu import" in page, "a copy reaches the copies"
    assert 'load_lora_weights("lora.safetensors", adapter_name="e1")' in page, "what is the model's stays"
    for name in (
        "README_NPU.md",
        "NPU_MIGRATION_GUIDE.md",
        "requirements_npu.txt",
        "test_npu_setup.py",
        "device_utils.py",
    ):
        assert (trial.folder / name).exists(), name
    assert "pipe.to(device_utils.device_string(), device_utils.preferred_dtype())" in fixed
    assert "device_utils.create_generator(3)" in fixed
    assert "# flash-attn" in trial.read("requirements_npu.txt")
    assert '| `pipe = pipe.to("cuda", torch.bfloat16)` | `pipe = pipe.to(device_utils.' in trial.read(
        "NPU_MIGRATION_GUIDE.md"
    )
    assert "| inference.py:4 | `pipe = " in trial.read("NPU_MIGRATION_GUIDE.md")  # list A
    assert "When it is accepted" in trial.read("README_NPU.md")
    said = trial.rehearsed("npu", "inference_npu.py")
    assert "computed on npu:0\n" in said
    assert "npu:0 (Ascend 910B), bfloat16: tensors " in said, "the status names the dtype of the run"
    trial.says("accept", "init")
    assert '"NPU_MIGRATION_GUIDE.md", "README_NPU.md"' in trial.read("torchferry.accept.toml")


def test_native_programs_say_what_chooses_the_device(trial: Trial) -> None:
    trial.write("inference.py", INFERENCE)
    trial.migrated("npu", "inference.py", "--kit")
    assert "`PREFERRED_DEVICE` has no effect on them" in trial.read("README_NPU.md")


WEIGHTS = """
from safetensors import safe_open
from safetensors.torch import load_file, save_file
import torch
save_file({"w": torch.ones(2)}, "x.safetensors")
a = load_file("x.safetensors", device="cuda")
b = load_file("x.safetensors", "cuda:0")
with safe_open("x.safetensors", framework="pt", device="cuda") as f:
    c = {key: f.get_tensor(key) for key in f.keys()}
print("loaded onto", a["w"].device, b["w"].device, c["w"].device)
"""


@pytest.mark.parametrize(("target", "style", "device"), [("npu", "portable", "npu:0"), ("gcu", "native", "gcu:0")])
def test_2_4_weights_by_every_form_onto_every_device(trial: Trial, target: str, style: str, device: str) -> None:
    trial.write("weights.py", WEIGHTS)
    fixed = trial.migrated(target, "weights.py", "--style", style)
    assert "cuda" not in fixed
    assert f"loaded onto {device} {device} {device}\n" in trial.rehearsed(target, "weights.py")


def test_2_3_and_9_2_memory_and_autocast(trial: Trial) -> None:
    trial.write(
        "both.py",
        """
        import torch
        from torch.cuda.amp import autocast, GradScaler
        model = torch.nn.Linear(2, 2).cuda()
        with autocast('npu'):
            print("dtype", model(torch.ones(1, 2).cuda()).dtype)
        print("held", torch.cuda.memory_allocated() > 0, torch.cuda.memory_reserved() > 0)
        torch.cuda.memory_summary(device='cuda', abbreviated=True)
        """,
    )
    assert "with autocast(True):\n" in trial.migrated("npu", "both.py"), "the guide's argument is the switch there"
    said = trial.rehearsed("npu", "both.py")
    assert "dtype torch.float16\n" in said
    assert "held True True\n" in said


def test_3_2_b_a_class_that_is_spelt_otherwise_is_named(trial: Trial) -> None:
    trial.write("net.py", "import torch, torch_npu\nfrom torch_npu.contrib.module import MultiHeadAttention\n")
    said = trial.says("scan", ".", "-t", "npu", code=1)
    assert "it has\n      `torch_npu.contrib.module.MultiheadAttention`" in said
    said = trial.says("api", "torch_npu.contrib.module.MultiHeadAttention", "-t", "npu", code=1)
    assert "similar names: torch_npu.contrib.module.MultiheadAttention" in said


def test_a_program_for_another_vendors_card_is_not_ready(trial: Trial) -> None:
    trial.write("net.py", "import torch, torch_musa\nx = torch.zeros(3).musa()\n")
    assert "`torch_musa` is the plugin for Moore Threads" in trial.says("scan", ".", "-t", "npu", code=1)


def test_3_2_a_4_2_and_8_1_the_variables_that_nobody_reads(trial: Trial) -> None:
    lines = ("os.environ.setdefault('DIFFUSERS_ATTENTION_TYPE', 'vanilla')", "os.environ['NPU_FALLBACK_MODE'] = '1'")
    trial.write("set.py", "\n".join(("import os", *lines, "import torch", "torch.ones(1).npu()", "")))
    said = trial.says("scan", "set.py", "-t", "npu", "-f", "full")
    assert "DIFFUSERS_ATTN_BACKEND=native chooses torch's own attention" in said
    assert "nothing reads `NPU_FALLBACK_MODE`" in said
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE" in said


QUALITY = """
import torch
from torchferry.numerics import NanInfTracker
class Decoder(torch.nn.Linear):
    def forward(self, latents):
        return super().forward(latents.to(self.weight.dtype) * 3000) * 3000
class Pipeline:
    def __init__(self):
        self.transformer, self.vae = torch.nn.Linear(8, 8), Decoder(8, 8)
    def to(self, device, dtype):
        self.transformer, self.vae = self.transformer.to(device, dtype), self.vae.to(device, dtype)
        return self
torch.manual_seed(0)
pipe = Pipeline().to("npu", torch.float16)
def edited():
    print(f"Model dtype: {pipe.transformer.weight.dtype}")
    print(f"VAE dtype: {pipe.vae.weight.dtype}")
    with torch.no_grad(), NanInfTracker():
        image = pipe.vae(pipe.transformer(torch.ones(2, 8, device="npu", dtype=torch.float16)))
    print("finite", bool(image.isfinite().all()))
edited()
pipe.vae = pipe.vae.to(torch.float32)  # the guide's line
edited()
"""


def test_8_2_the_part_that_loses_the_image_is_named_and_float32_mends_it(trial: Trial) -> None:
    trial.write("quality.py", QUALITY)
    said = trial.rehearsed("npu", "quality.py")
    assert "Model dtype: torch.float16\nVAE dtype: torch.float16\nfinite False\n" in said
    assert "Model dtype: torch.float16\nVAE dtype: torch.float32\nfinite True\n" in said
    assert said.count("move this part to float32, the module that is Decoder here") == 1, "not where it is mended"


OUT_OF_MEMORY = """
import torch
held = torch.zeros(4, device="cuda")
try:
    torch.zeros(1 << 44, device="cuda")
except RuntimeError as e:
    if "CUDA out of memory" in str(e):
        print("SMALLER BATCH")
    else:
        raise
"""


def test_8_3_the_branch_for_exhausted_memory_is_taken_on_the_card(trial: Trial) -> None:
    trial.write("oom.py", OUT_OF_MEMORY)
    trial.migrated("npu", "oom.py")
    assert "SMALLER BATCH\n" in trial.rehearsed("npu", "oom.py")


def test_8_3_where_the_cards_words_are_not_known_it_is_a_decision(trial: Trial) -> None:
    trial.write("oom.py", OUT_OF_MEMORY)
    assert "compares the text of a CUDA error" in trial.says("scan", ".", "-t", "musa", code=1)


@dear
def test_the_six_tests_of_the_setup_and_the_seven_criteria(trial: Trial) -> None:
    trial.write("inference.py", INFERENCE)
    trial.write("requirements.txt", "torch\n")
    trial.migrated("npu", "inference_npu.py", "--suffix", "_npu", "--style", "portable", "--kit")
    said = trial.rehearsed("npu", "test_npu_setup.py", code=1)
    heads = [line for line in said.splitlines() if re.match(r"\[\d/6\]", line)]
    assert [line[:5] for line in heads] == [f"[{number}/6]" for number in range(1, 7)]
    for word, line in zip(
        ("torch_npu", "device", "manager", "requirements", "float16, bfloat16", "download"), heads, strict=True
    ):
        assert word in line.lower(), line
    trial.says("accept", "init")
    written = trial.read("torchferry.accept.toml")
    assert written.count('"inference.py"]') == 1, "the CUDA version is the baseline"
    trial.write("torchferry.accept.toml", f'{written}\n[gates.logs]\nlines = {{ loaded = "computed on npu" }}\n')
    said = trial.says("accept", "--rehearse", "-t", "npu", "--out", "evidence")
    for criterion in (
        "green +loads: device",  # 1
        "green +runs to the end",  # 2
        "not judged +outputs",  # 3: of images, which this program has none of
        "not judged +memory: growth",  # 4: of 200 steps
        "green +errors",  # 5
        "green +logs: loaded",  # 6
        "green +documents: README_NPU.md",  # 7
    ):
        assert re.search(criterion, said), f"{criterion}\n{said}"
    assert "none red" in said
