"""The two documents of HiDream-E1, tried: what surrounds the code, from the machine to the acceptance."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest

from tests.device.test_device_status import EXAMPLE, PAGE
from tests.documents.trial import Trial, dear
from torchferry.device.one_file import one_file

pytestmark = pytest.mark.rehearsal

INFERENCE = """
import torch
from torch import nn
class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.text_encoder, self.vae = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.vae(self.text_encoder(x))
def main():
    pipe = Pipeline().to("cuda", torch.bfloat16)
    generator = torch.Generator("cuda").manual_seed(3)
    x = torch.randn(2, 4, generator=generator, device="cuda").to(torch.bfloat16)
    with torch.no_grad():
        for step in range(28):
            x = pipe(x).clamp(-1, 1)
    print("image on", x.device.type)
if __name__ == "__main__":
    main()
"""

REQUIREMENTS = "torch==2.1.0\ntransformers==4.36.0\ndiffusers\nflash-attn\n"


def project(trial: Trial) -> None:
    """Write the two programs of the documents, on a small pipeline."""
    trial.write("inference_e1_1.py", INFERENCE)
    trial.write("inference.py", INFERENCE)
    trial.write("requirements.txt", REQUIREMENTS)


@dear
def test_1_1_the_plugin_that_fits_the_torch_is_pinned(trial: Trial) -> None:
    """The guide pins torch and not the plugin: pip would take the newest, which is for another torch."""
    project(trial)
    trial.migrated("npu", "inference.py", "--kit", "--style", "portable")
    lines = trial.read("requirements_npu.txt").splitlines()
    assert "torch==2.1.0" in lines
    assert "torch-npu==2.1.0.post17" in lines
    assert "transformers==4.36.0" in lines  # 8.4
    image = "quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11"
    plan = trial.says("deploy", "plan", "-t", "npu", "--set", f"image={image}")
    for words in ("install the CANN toolkit", "install the operator package", "torch.npu.is_available()"):
        assert words in plan, words
    check = "import torch; import torch_npu; print(torch.npu.is_available())"
    assert "True\n" in trial.rehearsed("npu", "-c", check)


def test_3_2_c_and_3_3_the_vendors_attention_and_what_plain_attention_costs(trial: Trial) -> None:
    project(trial)
    assert "torch_npu.npu_fusion_attention" in trial.says("api", "flash-attn", "-t", "npu")
    for said in (trial.says("scan", ".", "-t", "npu", "-v", code=1), trial.says("advise", "-t", "npu", ".")):
        assert "0.5 to 0.7 times the speed" in said  # 30 to 50 % slower
        assert "0.7 to 0.85" in said.replace("\n      ", " ")  # 70 to 85 % of CUDA
        assert "as guides for HiDream-E1 expect" in said.replace("\n      ", " "), "whose figure it is"


PHASES = ["Environment", "Code", "Libraries", "Verification", "Tuning"]
"""Chapter 10's five, in its order."""

BEFORE = {
    "toolkit, torch and plugin": "torchferry backend show npu",
    "the card, its dtypes": "torchferry doctor --target npu --probe",
    "test images and baseline": "torchferry accept --target npu --baseline",
    "flash attention": "--select ATT",
}
"""The checklist before a migration, and what of the plan answers it."""


def test_10_and_the_checklist_the_plan_has_the_phases(trial: Trial) -> None:
    project(trial)
    plan = json.loads(trial.says("scan", ".", "-t", "npu", "--plan", "-f", "json", code=1))
    titles = [re.sub(r"^\d+\.\s*", "", phase["title"]) for phase in plan["phases"]]
    assert titles[: len(PHASES)] == PHASES
    commands = " ".join(step["command"] for phase in plan["phases"] for step in phase["steps"])
    assert [name for name, word in BEFORE.items() if word not in commands] == []
    before = trial.read("inference.py")
    trial.migrated("npu", "inference.py")
    trial.says("undo", ".")
    assert trial.read("inference.py") == before, "the original is kept"


MISSING = """
import os
os.environ['NPU_FALLBACK_MODE'] = '1'
import torch, torch_npu
x = torch.ones(2, device="npu:0")
try:
    x.erf()
except Exception as e:
    print("missing:", type(e).__name__)
from torchferry.ops import cpu_fallback
cpu_fallback(["aten::erf"])
print("fell back", x.erf().device)
"""


@dear
def test_8_1_an_operator_that_is_not_implemented(trial: Trial) -> None:
    trial.write("x.log", "RuntimeError: operator aten::erf is not implemented for NPU\n")
    said = trial.says("explain", "x.log", "-t", "npu", code=1)
    assert "torchferry.ops.cpu_fallback" in said
    assert "NPU_FALLBACK_MODE is read by nobody" in said
    trial.write("card.toml", 'missing = ["erf"]\n')
    trial.write("net.py", MISSING)
    said = trial.rehearsed("npu", "net.py", options=("--profile", "card.toml"))
    assert "missing: NotImplementedError\nfell back npu:0\n" in said, "the guide's variable changes nothing"
    said = trial.says("ops", "report", "-t", "npu", "--", sys.executable, "net.py")
    assert "erf" in said


@dear
def test_9_1_the_vendors_redirect_and_compilation(trial: Trial) -> None:
    redirect = "import torch\nimport torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n"
    trial.write("net.py", f"{redirect}print('on', torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2).cuda()).device)\n")
    said = trial.rehearsed("npu", "net.py")
    assert "on cuda:0\n" in said
    assert "torchferry's own redirect stands in for it" in said
    trial.write("net.py", "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel = torch.compile(model)\n")
    said = trial.says("scan", ".", "-t", "npu", code=1)
    assert "needs the package\n      triton-ascend" in said
    assert "npugraphs" in said


PART = """
import sys, torch
from inference import Pipeline
part = getattr(Pipeline(), sys.argv[1]).to("cuda", torch.bfloat16)
with torch.no_grad():
    print("part", sys.argv[1], part(torch.ones(1, 4, device="cuda", dtype=torch.bfloat16)).device.type)
"""


@dear
def test_7_1_and_after_base_then_each_part_then_the_whole(trial: Trial) -> None:
    project(trial)
    trial.write("test_text_encoders.py", PART.replace("sys.argv[1]", "'text_encoder'"))
    trial.write("test_vae.py", PART.replace("sys.argv[1]", "'vae'"))
    trial.migrated("npu", "inference.py", "--suffix", "_npu", "--style", "portable", "--kit", "--unsafe-fixes")
    names = {path.name for path in trial.folder.iterdir()}
    assert {"test_text_encoders_npu.py", "test_vae_npu.py", "inference_e1_1_npu.py", "test_npu_setup.py"} <= names
    assert "part text_encoder npu\n" in trial.rehearsed("npu", "test_text_encoders_npu.py")
    assert "part vae npu\n" in trial.rehearsed("npu", "test_vae_npu.py")
    trial.says("accept", "init")
    assert "inference_e1_1_npu.py" in trial.read("torchferry.accept.toml")
    said = trial.says("accept", "--rehearse", "-t", "npu", "--out", "evidence")
    for line in (
        "green +loads: device",
        "green +runs to the end",
        "not judged +outputs",
        "not judged +memory: growth",
        "not judged +speed +a rehearsal runs on this machine's CPU",
    ):
        assert re.search(line, said), f"{line}\n{said}"
    assert trial.read("inference_e1_1.py").strip() == INFERENCE.strip(), "the CUDA version stays"


BOTH = """
import sys
from batch import main
for options in ("--images 10 --batch-size 4", "--page --images 6"):
    sys.argv[1:] = options.split()
    main()
"""


@dear
def test_2_the_state_of_the_device_in_a_page_and_images_in_batches(trial: Trial) -> None:
    """Gradio is a stand-in: what would happen later in a browser happens at once."""
    shutil.copy(EXAMPLE, trial.folder)
    trial.write("device_utils.py", one_file("device_utils.py"))
    trial.write("gradio.py", PAGE)
    trial.write("both.py", BOTH)
    said = trial.rehearsed("npu", "both.py")
    assert len(re.findall(r"batch \d: [42] images, \d+\.\d+ s, \d+ images/s; npu:0", said)) >= 3
    assert re.search(r"tick npu:0 \(Ascend 910B\)", said), said


@dear
def test_roadmap_and_optimisation(trial: Trial) -> None:
    project(trial)
    trial.migrated("npu", "inference.py")
    tool = (sys.executable, "-m", "torchferry")
    trial.says("rehearse", "-t", "npu", "--", *tool, "profile", "record", "--out", "trace", "--", sys.executable,
               "inference.py")  # fmt: skip
    assert "aten::addmm" in trial.says("profile", "show", "trace")
    said = trial.says("ops", "report", "-t", "npu", "-v", "--", sys.executable, "inference.py")
    assert "aten::addmm" in said
    trial.write(
        "many.py",
        """
        import os, torch, torch_npu
        import torch.distributed as dist
        rank = int(os.environ["LOCAL_RANK"])
        torch.npu.set_device(rank)
        dist.init_process_group("hccl")
        x = torch.ones(1, device=f"npu:{rank}")
        dist.all_reduce(x)
        with open(f"sum{rank}.txt", "w") as file:
            print(int(x.item()), x.device, end="", file=file)
        """,
    )
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "many.py")
    trial.rehearsed("npu", *launcher, options=("--devices", "2"))
    assert [trial.read(f"sum{rank}.txt") for rank in range(2)] == ["2 npu:0", "2 npu:1"]


@dear
@pytest.mark.parametrize("target", ["gcu", "musa", "ptex", "sdaa"])
def test_decisions_the_same_program_on_another_accelerator(trial: Trial, target: str) -> None:
    trial.write("device_utils.py", one_file("device_utils.py"))
    trial.write(
        "use.py",
        """
        import torch
        from device_utils import DeviceManager
        dm = DeviceManager()
        pipe = torch.nn.Linear(2, 2).to(dm.device, dm.dtype)
        print("on", pipe(torch.ones(1, 2).to(dm.device, dm.dtype)).device.type, dm.device_type)
        """,
    )
    named = "xla" if target == "ptex" else target
    assert f"on {named} {named}\n" in trial.rehearsed(target, "use.py")
