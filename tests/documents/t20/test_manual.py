"""The T20 deployment manual, tried."""

from __future__ import annotations

import re

import pytest

from tests.documents.trial import Trial
from torchferry.backends import registry
from torchferry.backends.deployment import deployment
from torchferry.backends.errors import errors_of

pytestmark = pytest.mark.rehearsal


def test_1_2_the_uninstaller_runs_whether_or_not_a_module_is_loaded() -> None:
    facts = deployment(registry.load("ptex"))
    assert facts is not None
    (driver,) = [step for step in facts.steps if step.id == "driver"]
    uninstalling = next(line for line in driver.run.splitlines() if "--uninstall" in line)
    assert '"$REPLACE_DRIVER" = yes ||' in uninstalling


TYPED = """
1.2 --uninstall
1.3 -y
1.4 lsmod | grep
2.3 load -i
3.1 run -dit --name
3.1 (--privileged --ipc=host --network=host)
3.1 export CONTAINER=t20_training_env_py38
3.1 export IMAGE=ubuntu:20.04
3.4 -y -C torch-gcu
3.5 libelf1 git git-lfs vim
3.6 find "$TOOLKIT" -name 'ptex*.whl' -type f
3.6 pip3 install
3.6 ptex.__version__
4.1 hasattr(torch, "gcu")
5.3 tokenizer_2
5.3 sd_models/stable-diffusion-xl-base-1.0
5.4 install_for_sd_scripts.sh
5.4 pip3 uninstall -y torch
5.4 tokenizers>=0.11.1,<0.14
5.4 protobuf==3.20.3
5.4 huggingface-hub==0.15.1
5.4 torchvision==0.11.1
5.4 --no-deps
5.5 sdxl_minimal_inference.sh
"""
"""What stages 1 to 5 have people type, by section."""


def test_1_to_5_what_is_typed_is_in_the_plan(trial: Trial) -> None:
    files = {"installer": "TopsRider_t2x_2.5.136_deb_amd64.run", "sample_script": "sample.py"}
    folders = {
        "model": "sd_xl_base_1.0_0.9vae.safetensors",
        "debs": "git_1_amd64.deb",
        "wheels": "protobuf-3.20.3-x.whl",
    }
    for name in (*files.values(), *(f"{folder}/{name}" for folder, name in folders.items())):
        trial.write(name, "print(1)\n")
    for name in ("tokenizer", "tokenizer_2"):
        trial.write(f"model/{name}/vocab.json", "{}\n")
    files |= {folder: folder for folder in folders}
    given = [word for kind, path in files.items() for word in ("--file", f"{kind}={path}")]
    trial.says("deploy", "bundle", "-t", "ptex", "-o", "bundle", *given)
    plan = trial.says("deploy", "plan", "-t", "ptex", "-b", "bundle", "--set", "replace_driver=yes")
    lacking = [line for line in TYPED.strip().splitlines() if line.partition(" ")[2] not in plan]
    assert lacking == []
    assert not re.search(r'"\$INSTALLER" .*--peermem', plan), "1.3: without it"


def test_4_the_plugin_says_its_version_its_cards_and_computes(trial: Trial) -> None:
    trial.write(
        "check.py",
        """
        import torch
        print("framework", hasattr(torch, "gcu"))
        import ptex
        print("version", ptex.__version__, "cards", ptex.device_count())
        device = ptex.device('xla')
        total = torch.randn(2, 3).to(device) + torch.randn(2, 3).to(device)
        print("shape", tuple(total.shape), "on", total.device)
        """,
    )
    said = trial.rehearsed("ptex", "check.py")
    assert "framework True\n" in said
    assert "cards 1\n" in said
    assert "shape (2, 3) on xla:0\n" in said


GENERATOR = """
import torch
generator = torch.Generator("cuda").manual_seed(3)
latents = torch.randn((1, 4), generator=generator, device="cuda", dtype=torch.float32)
print("drawn on", latents.device)
"""


def test_appendix_no_generator_of_the_card_and_the_fix_draws_on_the_cpu(trial: Trial) -> None:
    trial.write("draw.py", GENERATOR)
    safe = trial.migrated("ptex", "draw.py")
    assert "xla" not in safe, "the card has no generator, so nothing of it is a safe fix"
    fixed = trial.migrated("ptex", "draw.py", "--unsafe-fixes")
    assert 'torch.Generator("cpu")' in fixed
    assert 'device="cpu", dtype=torch.float32).to(ptex.device("xla"))' in fixed
    assert "drawn on xla:0\n" in trial.rehearsed("ptex", "draw.py")


def test_appendix_attention_and_seeds(trial: Trial) -> None:
    trial.write(
        "switch.py",
        """
        import torch
        unet.set_use_memory_efficient_attention(True, False)
        vae.set_use_memory_efficient_attention_xformers(True)
        torch.cuda.manual_seed_all(3)
        """,
    )
    fixed = trial.migrated("ptex", "switch.py", "--unsafe-fixes")
    assert "unet.set_use_memory_efficient_attention(False, False)" in fixed
    assert "vae.set_use_memory_efficient_attention_xformers(False)" in fixed
    assert "ptex.tops.manual_seed_all(3)" in fixed


def test_appendix_a_sample_that_does_not_parse_is_refused_before_the_installation(trial: Trial) -> None:
    script = trial.write("sample.py", "if True:\n    while True:\n        break\n\n   print('Done!')\n")
    trial.write("installer.run", "")
    files = ("--file", "installer=installer.run", "--file", f"sample_script={script.name}")
    said = trial.says("deploy", "bundle", "-t", "ptex", "-o", "bundle", *files, code=2)
    assert "sample.py is no program that Python can start: line 5:" in said
    assert "does not parse: line 5:" in trial.says("scan", "sample.py", "-t", "ptex", "-v", code=1)


def test_6_3_1_and_6_3_2_the_device_and_the_import(trial: Trial) -> None:
    trial.write("net.py", "import torch\ndevice = torch.device('cuda')\nprint(torch.ones(1).to(device).device)\n")
    fixed = trial.migrated("ptex", "net.py")
    assert "import ptex\n" in fixed
    assert "device = ptex.device('xla')\n" in fixed
    assert "xla:0\n" in trial.rehearsed("ptex", "net.py")


def test_appendix_tokenizers_are_absolute_and_read_from_local_files_alone(trial: Trial) -> None:
    trial.write("torchferry.toml", '[paths]\n"openai/clip-vit-large-patch14" = "/models/sdxl/tokenizer"\n')
    trial.write(
        "sample.py",
        """
        from transformers import CLIPTokenizer
        text_encoder_1_name = "openai/clip-vit-large-patch14"
        tokenizer1 = CLIPTokenizer.from_pretrained(text_encoder_1_name)
        """,
    )
    fixed = trial.migrated("ptex", "sample.py")
    assert 'text_encoder_1_name = "/models/sdxl/tokenizer"\n' in fixed
    assert "CLIPTokenizer.from_pretrained(text_encoder_1_name, local_files_only=True)\n" in fixed
    trial.migrated("ptex", "sample.py")
    assert trial.read("sample.py") == fixed, "a second run changes nothing"


PATHS = """
import os
data = os.path.join("/kaggle/input", "train.csv")
weights = "/kaggle/working/best.pth"
log = os.path.join("/kaggle/working", "log.txt")
"""


@pytest.mark.parametrize("table", ["own", "shipped"])
def test_6_3_3_one_prefix_has_two_destinations(trial: Trial, table: str) -> None:
    trial.write("train.py", PATHS)
    options: tuple[str, ...] = ("--paths", "kaggle")
    if table == "own":  # the keys as the manual writes them, with a slash at the end
        options = ()
        lines = ['"/kaggle/input/" = "/workspace/datasets/"', '"/kaggle/working/*.pth" = "/workspace/checkpoints/"',
                 '"/kaggle/working/" = "/workspace/outputs/"']  # fmt: skip
        trial.write("torchferry.toml", "[paths]\n" + "\n".join(lines) + "\n")
    fixed = trial.migrated("ptex", "train.py", *options)
    assert '"/workspace/datasets", "train.csv"' in fixed
    assert '"/workspace/checkpoints/best.pth"' in fixed
    assert '"/workspace/outputs", "log.txt"' in fixed


WRONG = {
    "ModuleNotFoundError: No module named 'ptex'": "pip3 install /usr/local/topsrider/ai_development_toolkit/",  # 6.6.1
    "torch.gcu available: False": "-y -C torch-gcu",  # 6.6.2
    "XLA devices: 0": "lsmod | grep enflame; the container needs --privileged --ipc=host --network=host",  # 6.6.3
}
"""What 6.6 shows going wrong, and its answer."""


def test_6_6_what_goes_wrong_has_the_manuals_answer() -> None:
    entries = [each for each in errors_of(registry.load("ptex")) if each.owner == "ptex"]
    unanswered = dict(WRONG)
    for line, answer in WRONG.items():
        for each in entries:
            found = any(word in line for word in each.literals) and (each.pattern is None or each.pattern.search(line))
            if found and answer in " ".join((each.remedy.en, *each.commands)):
                unanswered.pop(line, None)
    assert unanswered == {}


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ("mIoU: 84.96\n", 0),
        ("mIoU: 84.95\n", 1),
        ("mIoU: nan\n", 1),
        ("loaded\n", 1),
        ("CUDA error: out of memory\nmIoU: 85.5\n", 1),
        ('Traceback (most recent call last):\n  File "v.py", line 3, in <module>\nRuntimeError: x\nmIoU: 85.5\n', 1),
    ],
)
def test_6_4_the_metric_is_reached_and_no_error_is_in_the_log(trial: Trial, log: str, code: int) -> None:
    trial.write("val.log", log)
    trial.says("accept", "metric", "val.log", "-m", "mIoU", "--at-least", "84.96", code=code)


def test_6_2_and_6_5_the_ticks_and_the_originals(trial: Trial) -> None:
    before = (
        "import torch\nmodel = torch.nn.Linear(2, 2).to('cuda')\nprint(model(torch.ones(1, 2).to('cuda')).device)\n"
    )
    trial.write("net.py", before)
    trial.says("migrate", ".", "-t", "ptex", "--diff", code=1)
    assert trial.read("net.py") == before
    said = trial.says("migrate", ".", "-t", "ptex")
    assert "✓ files        1 written" in said
    assert "✓ syntax" in said
    assert "environment  ptex is not installed here" in said
    trial.says("undo", ".")
    assert trial.read("net.py") == before


GUARDED = """
import torch
try:
    import intel_extension_for_pytorch as ipex
    if torch.xpu.is_available():
        from library.ipex import ipex_init
        ipex_init()
except Exception:
    pass
print(torch.ones(1).to(torch.device("cuda")).device)
"""


def test_appendix_a_guarded_import_of_another_vendors_package_stays(trial: Trial) -> None:
    trial.write("sample.py", GUARDED)
    fixed = trial.migrated("ptex", "sample.py")
    assert "    import intel_extension_for_pytorch as ipex\n" in fixed
    assert "xla:0\n" in trial.rehearsed("ptex", "sample.py")
