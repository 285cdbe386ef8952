"""The SDAA adaptation guide, tried."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.cli.process import torchferry
from tests.documents.trial import Trial
from torchferry.acceptance.acceptfile import read
from torchferry.handover.checking import RuleState, check_handover

pytestmark = pytest.mark.rehearsal

TRAIN = """
import torch
from torch import nn

def main():
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for e in range(2):
        for i in range(3):
            x, y = torch.randn(8, 4).cuda(), torch.randint(0, 2, (8,)).cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {i} loss {loss.item():.4f}")
    print("trained on", next(model.parameters()).device)

if __name__ == "__main__":
    main()
"""


def test_1_1_a_source_that_is_not_official_needs_its_reason(trial: Trial) -> None:
    trial.write("train.py", TRAIN)
    trial.says("accept", "init")
    text = trial.read("torchferry.accept.toml")
    assert "[runs.baseline]" in text
    assert read(trial.folder / "torchferry.accept.toml").runs["baseline"].words[-1] == "train.py"
    filled = text.replace('priority = ""', 'priority = "personal"').replace('url = ""', 'url = "https://example.org/x"')
    filled = filled.replace('commit = ""', 'commit = "0"').replace('licence = ""', 'licence = "MIT"')
    filled = filled.replace('variant = ""', 'variant = "ResNet50"').replace('[data]\nname = ""', '[data]\nname = "d"')
    for reason, state in (("", "not judged"), ('reason = "no official code"\n', "green")):
        trial.write("torchferry.accept.toml", filled.replace("[model]", f"{reason}[model]"))
        said = trial.says(
            "accept", "--rehearse", "-t", "sdaa", "--only", "documents", "--out", f"evidence{len(reason)}"
        )
        assert re.search(rf"{state} +documents: source", said), said


CARDS = "".join(
    f"|   {number}    TECO_AICARD_01         | 00000000:01:00.0     | {{health:18}} |\n"
    f"|        35C                90W | {(165, 15290)[number == 1]:8}MB / 15296MB |                   0% |\n"
    "|-------------------------------+----------------------+----------------------|\n"
    for number in range(4)
)
TABLE = f"""
Wed Jun  5 02:46:48 2024
|  TCML: 1.10.0        SDAADriver: 1.1.2b1        SDAARuntime: 1.1.2b0        |
| Index  Name                   | Bus-Id               | Health      Volatile |
|        Temp          Pwr Usage|          Memory-Usage|             SPE-Util |
|=============================================================================|
{CARDS}| Processes:                                                                  |
|  Tcaicard     PID      Process name                            Memory Usage |
|     1       76262      python3.8                                     165 MB |
"""
"""The guide's table of one card, which is four devices."""


def test_2_the_vendors_table_of_cards_is_read(trial: Trial) -> None:
    tool = trial.write("bin/teco-smi", '#!/bin/sh\ncat "$(dirname "$0")/table"\n')
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    (tool.parent / "table").write_text(TABLE.format(health="OK").replace("OK ", "ERROR ", 1), encoding="utf-8")
    results = json.loads(torchferry("doctor", "-t", "sdaa", "-f", "json", cwd=trial.folder, env=path).stdout)["results"]
    said = [f"{each['check']} {each['status']}: {each['what']}" for each in results]
    assert "driver.version ok: driver 1.1.2b1, from teco-smi" in said
    assert "tool.present ok: teco-smi 1.10.0 shows 4 devices" in said
    assert "card.health failure: card 0 (TECO_AICARD_01): teco-smi reports ERROR" in said
    assert any("35" in line and line.startswith("card.temperature ok") for line in said)
    assert any("15290" in line and "15296" in line for line in said if line.startswith("card.memory")), "which is full"


def test_3_1_the_five_steps_in_their_order(trial: Trial) -> None:
    trial.write("train.py", TRAIN)
    plan = json.loads(trial.says("scan", ".", "-t", "sdaa", "--plan", "-f", "json", code=1))
    commands = [step["command"] for phase in plan["phases"] for step in phase["steps"]]
    order = ["--baseline", "migrate", "ops request", "compare", "nan ", "profile record", "handover"]
    places = [next(number for number, text in enumerate(commands) if word in text) for word in order]
    assert places == sorted(places)


@pytest.mark.parametrize("way", ["import", "variable"])
def test_3_2_2_one_import_or_one_variable_migrates(trial: Trial, way: str) -> None:
    head = "import torch_sdaa\nfrom torch_sdaa.utils import cuda_migrate\n" if way == "import" else ""
    trial.write("train.py", head + TRAIN)
    extra = {} if way == "import" else {"TORCHFERRY_SHIM": "1"}
    said = trial.rehearsed("sdaa", "train.py", variables=extra)
    assert "trained on cuda:0\n" in said, "the program goes on seeing CUDA"
    assert "operators ran" in said, "on the card"
    assert "never imports the plugin" not in said, "the redirect does"


def test_3_2_3_the_same_by_editing(trial: Trial) -> None:
    trial.write("train.py", TRAIN)
    assert "import torch_sdaa\n" in trial.migrated("sdaa", "train.py")
    assert "trained on sdaa:0\n" in trial.rehearsed("sdaa", "train.py")


def test_3_3_a_missing_operator_by_torchs_own_name(trial: Trial) -> None:
    trial.write(
        "model.py",
        """
        import torch
        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.svd(x)[1]
        def build():
            return Net(), (torch.randn(4, 4),)
        """,
    )
    options = ("--model", "model.py:build", "--inference", "--operator", "torch.linalg.svd", "-o", "request.md")
    trial.says("ops", "request", "-t", "sdaa", *options)
    request = trial.read("request.md")
    assert "`aten::_linalg_svd`" in request
    assert "TECO_AICARD_01 卡上运行，精度与 CUDA 对齐" in request


LOGGER = """
class Verbosity:
    DEFAULT, VERBOSE = 0, 1
class StdOutBackend:
    def __init__(self, *arguments): pass
JSONStreamBackend = StdOutBackend
class Logger:
    def __init__(self, backends): pass
    def metadata(self, *arguments): pass
    def log(self, step, data, verbosity): print("LOG", step, *sorted(data))
"""


@pytest.mark.parametrize("counter", ["e", "_"])
def test_3_6_every_epoch_and_the_throughput_are_logged(trial: Trial, counter: str) -> None:
    trial.write("project/train.py", TRAIN.replace("for e in", f"for {counter} in").replace(".cuda()", ".to('sdaa')"))
    options = ("--for", "tecorigin-modelzoo", "--domain", "Classification", "-o", "handed", "--unsafe-fixes")
    trial.says("handover", "prepare", "project", *options)
    (program,) = (trial.folder / "handed").rglob("train.py")
    (program.parent / "tcap_dllogger.py").write_text(LOGGER, encoding="utf-8")
    logged = [line for line in trial.rehearsed("sdaa", str(program)).splitlines() if line.startswith("LOG")]
    assert [line.partition(" rank")[0] for line in logged] == [f"LOG ({e}, {i})" for e in range(2) for i in range(3)]
    assert sum("train.ips" in line for line in logged) == 4  # the first step of an epoch has none before it


def test_3_6_the_check_names_a_call_that_logs_neither(trial: Trial) -> None:
    trial.write("project/train.py", TRAIN)
    options = ("--for", "tecorigin-modelzoo", "--domain", "Classification", "-o", "handed", "--unsafe-fixes")
    trial.says("handover", "prepare", "project", *options)
    (program,) = (trial.folder / "handed").rglob("train.py")
    text = program.read_text(encoding="utf-8")
    program.write_text(
        re.sub(r"zoo_log\.train\(.*\)", "zoo_log.train(0, i, loss.item(), None)", text), encoding="utf-8"
    )
    said = trial.says("handover", "check", "handed", code=1)
    assert "every epoch is logged as epoch 0" in said
    assert "`train.ips` is never logged" in said


OWN = {
    "scale.scpp": "__global__ void scale(float *x) {}\n",
    "scale.cpp": "// TORCH_LIBRARY(no, m)\nTORCH_LIBRARY(acme, m) {}\n",
    "scale.py": "from torch.utils import cpp_extension as built\nbuilt.load(name='acme', sources=['scale.cpp'])\n",
    "flip.py": "import torch\n@torch.library.custom_op('acme::flip', mutates_args=())\ndef flip(x): ...\n",
}
"""Operators of a model's own: a kernel, its registration, its building, and one in Python."""


def test_3_6_operators_of_ones_own_are_merged_before_the_model(trial: Trial) -> None:
    folder = "PyTorch/contrib/Classification/Net"
    trial.write(f"{folder}/train.py", "import tecoops, torch\ny = tecoops.rms_norm(torch.ones(2))\n")
    trial.write(f"{folder}/README.md", "# Net\n")
    trial.write(f"{folder}/requirements.txt", "torch\n")

    def state() -> tuple[RuleState, list[str]]:
        checked = check_handover(trial.folder, "tecorigin-modelzoo")
        (judged,) = [each for each in checked.rules if each.rule.code == "TZ608"]
        return judged.state, [f"{each.path.rpartition('/')[2]}:{each.line}" for each in judged.places]

    assert state() == (RuleState.KEPT, []), "an operator of the vendor's library is none of one's own"
    for name, text in OWN.items():
        trial.write(f"{folder}/{name}", text)
    assert state() == (RuleState.BROKEN, ["flip.py:2", "scale.cpp:2", "scale.py:2", "scale.scpp:1"])
    trial.write("pull-request.md", "https://github.com/Tecorigin/teco-ops/pull/7\n")
    assert state() == (RuleState.KEPT, [])


def test_4_the_vendors_own_redirect_is_known(trial: Trial) -> None:
    assert "the vendor's module that redirects" in trial.says("api", "torch_sdaa.utils.cuda_migrate", "-t", "sdaa")
