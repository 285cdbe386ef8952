"""The T20 deployment manual, tried: what is fetched, sent and run on servers. Docker, the hub and SSH are stand-ins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile

import pytest

from tests.cli.process import torchferry
from tests.documents.trial import Trial, dear
from torchferry.backends import registry
from torchferry.backends.deployment import deployment
from torchferry.deploy.plan import make_plan, project_folder
from torchferry.deploy.playbook import write_project

INSTALLER = "TopsRider_t2x_2.5.136_deb_amd64.run"
HUB = "https://huggingface.co/stabilityai/stable-diffusion-xl-base-1.0"


def program(trial: Trial, name: str, text: str) -> dict[str, str]:
    """Put a program in front of those of the machine, which notes how it is called; return the variables for it."""
    path = trial.write(f"bin/{name}", f'#!/bin/sh\necho "$*" >> "{trial.folder}/asked-{name}"\n{text}\n')
    path.chmod(0o755)
    return {"PATH": f"{path.parent}:{os.environ['PATH']}"}


def test_2_1_the_image_is_pulled_and_saved_under_the_manuals_name(trial: Trial) -> None:
    variables = program(trial, "docker", 'test "$1" != save || echo layers > "$3"')
    trial.write(INSTALLER, "")
    given = ["--file", f"installer={INSTALLER}"]
    for folder, name in (("debs", "git_1_amd64.deb"), ("wheels", "protobuf-3.20.3-x.whl")):
        trial.write(f"{folder}/{name}", "")
        given += ["--file", f"{folder}={folder}"]
    bundling = ("deploy", "bundle", "-t", "ptex", "-o", "bundle", "--fetch")
    done = torchferry(*bundling, *given, cwd=trial.folder, env=variables)
    assert done.returncode == 0, done.stderr
    pulled, saved = trial.read("asked-docker").splitlines()
    assert pulled == "pull ubuntu:20.04"
    assert re.fullmatch(r"save -o \S+ ubuntu:20\.04", saved)
    assert trial.read("bundle/files/image_tar") == "layers\n"
    # 2.3: docker load -i, of the file that arrived
    assert '"$ENGINE" load -i "$IMAGE_TAR"' in trial.says("deploy", "plan", "-t", "ptex", "-b", "bundle")


@dear
def test_2_2_the_image_goes_over_the_port_that_is_named(trial: Trial) -> None:
    """What Ansible does of it is another test's; this is our part: its `-p PORT`, and the bytes."""
    variables = program(trial, "ssh", 'for last; do :; done; eval "$last"')
    image = trial.folder / "ubuntu-20.04.tar"
    image.write_bytes(os.urandom(200_000))
    part = trial.folder / "arrived.part"
    part.write_bytes(image.read_bytes()[:70_000])  # a copy that was cut off
    sending = ["bash", str(project_folder() / "send.sh"), str(image), str(part), "ssh", "-p", "2222", "root@T20_HOST"]
    done = subprocess.run(sending, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    assert part.read_bytes() == image.read_bytes()
    assert "sent 130000 of 200000 bytes, from byte 70000" in done.stdout
    assert trial.read("asked-ssh").startswith("-p 2222 root@T20_HOST ")
    project = trial.folder / "project"
    project.mkdir()
    written = write_project(make_plan("ptex", None, {}), project, "run").read_text(encoding="utf-8")
    assert "['-p', ansible_port | default(22) | string]" in written


@dear
def test_2_2_ansible_reaches_the_host_by_that_port(trial: Trial) -> None:
    pytest.importorskip("ansible_runner")
    variables = program(trial, "ssh", 'for last; do :; done; eval "$last"')
    trial.write(INSTALLER, "")
    trial.says("deploy", "bundle", "-t", "ptex", "-o", "bundle", "--file", f"installer={INSTALLER}")
    host = f"t20 ansible_host=T20_HOST ansible_user=root ansible_port=2222 ansible_python_interpreter={sys.executable}"
    trial.write("hosts.ini", f"{host}\n")
    checking = ("deploy", "check", "-t", "ptex", "-i", "hosts.ini", "-b", "bundle")
    done = torchferry(*checking, cwd=trial.folder, env=variables)
    assert "t20: cards failed: cards are on the PCI bus" in done.stdout, "it was reached and asked: " + done.stderr
    asked = trial.read("asked-ssh")
    assert "Port=2222" in asked
    assert " T20_HOST " in asked
    assert "T20_HOST" not in done.stdout, "no address is shown"


def clone(trial: Trial) -> str:
    """Clone the model by the manual's line, from a stand-in of the hub; return the folder."""
    hub = trial.folder / "hub"
    model = "hub/stabilityai/stable-diffusion-xl-base-1.0"
    for name in ("sd_xl_base_1.0_0.9vae.safetensors", "tokenizer/vocab.json", "tokenizer_2/vocab.json"):
        trial.write(f"{model}/{name}", "{}\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", f"url.file://{hub}/.insteadOf="
           "https://huggingface.co/"]  # fmt: skip
    for words, folder in ((["init", "-q"], model), (["add", "-A"], model), (["commit", "-q", "-m", "x"], model)):
        subprocess.run([*git, *words], cwd=trial.folder / folder, check=True)
    (trial.folder / "sdxl_download").mkdir()
    subprocess.run([*git, "clone", "-q", HUB], cwd=trial.folder / "sdxl_download", check=True)
    return "sdxl_download/stable-diffusion-xl-base-1.0"


@dear
def test_5_1_to_5_3_the_cloned_model_is_bundled_and_put_where_the_sample_reads_it(trial: Trial) -> None:
    trial.write(INSTALLER, "")
    files = ("--file", f"installer={INSTALLER}", "--file", f"model={clone(trial)}")
    said = trial.says("deploy", "bundle", "-t", "ptex", "-o", "bundle", *files)
    assert "left out of model: .git, which the hosts do not need" in said
    facts = deployment(registry.load("ptex"))
    assert facts is not None
    (model,) = [step for step in facts.steps if step.id == "model"]
    with tarfile.open(trial.folder / "bundle/files/model.tar") as archive:
        assert not [name for name in archive.getnames() if name.startswith(".git")]
        archive.extractall(trial.folder / "arrived", filter="data")
    sample = trial.folder / "sd_scripts_1.1.28"
    sample.mkdir()
    variables = {"MODEL": str(trial.folder / "arrived"), "SAMPLE": str(sample)}
    for text, code in ((model.check, 1), (model.run, 0), (model.check, 0)):
        done = subprocess.run(["bash", "-c", text], env={**os.environ, **variables}, check=False)
        assert done.returncode == code
    target = sample / "sd_models/stable-diffusion-xl-base-1.0"
    assert sorted(path.name for path in target.iterdir()) == [
        "sd_xl_base_1.0_0.9vae.safetensors",
        "tokenizer",
        "tokenizer_2",
    ]


SAMPLE = """
import argparse
import torch
import ptex
from tqdm import tqdm

if __name__ == "__main__":
    DEVICE, DTYPE = ptex.device("xla"), torch.float16
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt_path", type=str, required=True)
    parser.add_argument("--prompt", type=str, default="A photo of a cat")
    parser.add_argument("--prompt2", type=str, default=None)
    parser.add_argument("--negative_prompt", type=str, default="")
    parser.add_argument("--output_dir", type=str, default=".")
    parser.add_argument("--lora_weights", type=str, nargs="*", default=[])
    parser.add_argument("--interactive", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    unet = torch.nn.Linear(4, 4)
    unet.to(DEVICE, dtype=DTYPE)
    unet.eval()
    for weights_file in args.lora_weights:
        if ";" in weights_file:
            weights_file, multiplier = weights_file.split(";")
            multiplier = float(multiplier)
        else:
            multiplier = 1.0
        lora = torch.load(weights_file, map_location="cpu")
        with torch.no_grad():
            unet.weight += multiplier * (lora["up"] @ lora["down"]).to(DEVICE, dtype=DTYPE)
        print("LoRA", weights_file, multiplier)

    def generate_image(prompt, prompt2, negative_prompt, seed=None):
        if seed is not None:
            torch.manual_seed(seed)
            ptex.tops.manual_seed_all(seed)
        latents = torch.randn((1, 4), generator=None, device="cpu", dtype=torch.float32).to(DEVICE, dtype=DTYPE)
        with torch.no_grad():
            for t in tqdm(range(5)):
                latents = unet(latents)
        print("drawn", prompt, prompt2, negative_prompt, seed, latents.device, bool(latents.isfinite().all()))

    if not args.interactive:
        generate_image(args.prompt, args.prompt2 or args.prompt, args.negative_prompt, None)
    else:
        while True:
            prompt = input("prompt: ")
            if prompt == "":
                break
            prompt2 = input("prompt2: ")
            if prompt2 == "":
                prompt2 = prompt
            negative_prompt = input("negative prompt: ")
            seed = input("seed: ")
            if seed == "":
                seed = None
            else:
                seed = int(seed)
            generate_image(prompt, prompt2, negative_prompt, seed)

    print("Done!")
"""
"""The appendix's arguments, LoRA weights, prompts and bar, on a layer in place of the model."""


BAR = """
import sys
def tqdm(steps):
    for number, step in enumerate(steps):
        yield step
        print(f"\\r{number + 1}/{len(steps)} [", end="", file=sys.stderr)
"""
"""tqdm, as far as the manual looks at it."""


@dear
def test_5_5_and_appendix_the_bar_moves_with_lora_weights_and_at_the_prompts(trial: Trial) -> None:
    trial.write("sdxl_minimal_inference.py", SAMPLE)
    trial.write("lora.py", "import torch\ntorch.save({'up': torch.ones(4, 1), 'down': torch.ones(1, 4)}, 'style.pt')\n")
    subprocess.run([sys.executable, "lora.py"], cwd=trial.folder, check=True)
    trial.write("tqdm.py", BAR)
    words = ("sdxl_minimal_inference.py", "--ckpt_path", "x.safetensors")
    said = trial.rehearsed("ptex", *words, "--lora_weights", "style.pt;0.5", "style.pt")
    assert "LoRA style.pt 0.5\nLoRA style.pt 1.0\n" in said
    assert "drawn A photo of a cat A photo of a cat  None xla:0 True\nDone!\n" in said
    assert "5/5 [" in said, "5.5: the bar moves"
    asked = trial.rehearsed("ptex", *words, "--interactive", typed="a red house\n\nblurry\n7\na cat\na dog\n\n\n\n")
    drawn = [line.partition("drawn ")[2] for line in asked.splitlines() if "drawn " in line]
    assert drawn == ["a red house a red house blurry 7 xla:0 True", "a cat a dog  None xla:0 True"]
    assert "prompt: prompt2: negative prompt: seed: " in asked


VALIDATE = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = torch.nn.Conv2d(3, 2, 3, padding=1).to(device)
for step in range(6):
    image = torch.randn(1, 3, 8, 8).to(device)
    views = [model(image), model(image.flip(-1)).flip(-1)]
    print(f"step {step} loss {torch.stack(views).mean(0).pow(2).mean().item():.4f}")
print("mIoU: 84.96")
"""
"""Test-time augmentation, on a layer in place of the model: the value is the manual's, and only it is compared."""

BASELINE = """
[baseline]
device = "NVIDIA A100"
date = 2025-06-01
versions = { torch = "1.11.0", cuda = "11.3" }
[[baseline.metrics]]
name = "mIoU"
value = 84.96
unit = "%"
direction = ">="
tolerance = 0.0
"""


@dear
def test_6_7_the_four_lines_of_the_benchmark(trial: Trial) -> None:
    trial.write("scripts/validate_tta.py", f"{VALIDATE}weights = '/kaggle/working/best.pth'\n")
    trial.write("torchferry.toml", 'path-profile = "kaggle"\n')
    trial.says("accept", "init")
    written = trial.read("torchferry.accept.toml")
    assert '"scripts/validate_tta.py"' in written, "6.4's command"
    head, _, rest = written.partition("[baseline]")
    trial.write("torchferry.accept.toml", head + BASELINE + rest[rest.index("# Commands are") :])
    trial.migrated("ptex", "scripts/validate_tta.py")
    said = trial.says("accept", "--rehearse", "-t", "ptex", "--soak", "3s", "--out", "evidence")
    for line in (
        r"green +migration: paths +0 old paths",
        r"not judged +speed +a rehearsal runs on this machine's CPU",
        r"not judged +memory: growth +the memory of the device could not be read",
        r"green +numbers: mIoU +84\.96",
        r"green +stability: soak +\d+ pass(es)? in",
        r"green +errors",
    ):
        assert re.search(line, said), f"{line}\n{said}"
    assert "none red" in said


def test_background_the_software_that_belongs_together(trial: Trial) -> None:
    plan = trial.says("deploy", "plan", "-t", "ptex")
    for fact in ("TopsRider t2x 2.5.136", "IMAGE=ubuntu:20.04"):
        assert fact in plan, fact
    shown = trial.says("backend", "show", "ptex")
    for fact in ("Enflame T20", "ptex-2.1.0+torch1.11.0", "TopsRider t2x"):
        assert fact in shown, fact
