"""The device manager on every device, in both forms: one table of what each case answers."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from torchferry.backends import registry
from torchferry.device.one_file import one_file
from torchferry.device.small_file import offered, small_file

pytestmark = pytest.mark.rehearsal

PROGRAM = Path(__file__).with_name("cases.py")
TARGETS = ("cpu", *registry.built_in())
FORMS = ("one file", "small file", "installed")

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PREFERRED_", "LOCAL_RANK"))},
    "LC_ALL": "C.UTF-8",
}

NOT_HERE = "NotOnThisDeviceError"
WARNED = [["DeviceWarning", "cases.py"]]

EXPECTED: dict[str, dict[str, Any]] = {
    "chosen": {
        "cpu": ["cpu", "cpu", "cpu", False],
        "gcu": ["gcu:0", "gcu", "gcu", True],
        "musa": ["musa:0", "musa", "musa", True],
        "npu": ["npu:0", "npu", "npu", True],
        "ptex": ["xla:0", "xla", "ptex", True],
        "sdaa": ["sdaa:0", "sdaa", "sdaa", True],
    },
    "candidates": {
        "cpu": {"cuda": "no card", "cpu": "chosen"},
        "gcu": {"gcu": "chosen"},
        "musa": {"musa": "chosen"},
        "npu": {"npu": "chosen"},
        "ptex": {"gcu": "no card", "ptex": "chosen"},
        "sdaa": {"sdaa": "chosen"},
    },
    "it_is_warned_of_the_cpu_alone": {"": [], "cpu": WARNED},
    "dtype": {
        "": [["bfloat16", "native"]],
        "cpu": [["float32", "native"]],
        "sdaa": [["bfloat16", "emulated"], ["float16", "native"]],
    },
    "dtype_as_asked": {"": ["torch.float32", "DeviceError"]},
    "wide_numbers": {"": ["limited", "native"], "cpu": ["native", "native"], "sdaa": ["native", "limited"]},
    "generator": {
        "cpu": [True, "cpu"],
        "gcu": [True, "gcu"],
        "musa": [True, "musa"],
        "npu": [True, "npu"],
        "ptex": NOT_HERE,
        "sdaa": [True, "sdaa"],
    },
    "generator_on_the_cpu": {"": "cpu"},
    "seed": {
        "cpu": [["python", "numpy", "torch"], True, "DeviceError"],
        "gcu": [["python", "numpy", "torch", "gcu"], True, "DeviceError"],
        "musa": [["python", "numpy", "torch", "musa"], True, "DeviceError"],
        "npu": [["python", "numpy", "torch", "npu"], True, "DeviceError"],
        "ptex": [["python", "numpy", "torch", "xla"], True, "DeviceError"],
        "sdaa": [["python", "numpy", "torch", "sdaa"], True, "DeviceError"],
    },
    "deterministic": {"": [WARNED, True], "cpu": [[], True]},
    "memory": {
        "": [True, True, True, True, True, True],
        "cpu": [None, None, None, None, None, True],
        "ptex": [None, None, None, None, None, True],
    },
    "peak": {"": True, "cpu": NOT_HERE, "ptex": NOT_HERE},
    "cache": {"": True, "cpu": False, "ptex": False},
    "memory_efficient_mode": {
        "cpu": [False, True, True, ""],
        "gcu": [False, True, True, "PYTORCH_GCU_ALLOC_CONF"],
        "musa": [False, True, True, "PYTORCH_MUSA_ALLOC_CONF"],
        "npu": [False, True, True, "PYTORCH_NPU_ALLOC_CONF"],
        "ptex": [False, True, True, None],
        "sdaa": [False, True, True, "TORCH_SDAA_ALLOC_CONF"],
    },
    "memory_limit": {"": [True, True], "cpu": [NOT_HERE, True], "ptex": [NOT_HERE, True]},
    "autocast": {
        "": ["bfloat16", "float32", "float32"],
        "cpu": ["float32", "float32", "float32"],
        "sdaa": ["float16", "float32", "float32"],
    },
    "scaler": {"": [True, False, False]},
    "step_with_scaler": {"": True},
    "fused_step_with_scaler": {"": True, "ptex": "RuntimeError"},  # torch fuses no step for XLA
    "timing": {"": ["RuntimeError", True]},
    "profiler": {
        "cpu": [["CPU"], []],
        "gcu": [["CPU", "GCU"], []],
        "musa": [["CPU", "MUSA"], []],
        "npu": [["CPU", "NPU"], []],
        "ptex": [["CPU"], ["DeviceWarning"]],
        "sdaa": [["CPU", "SDAA"], []],
    },
    "profiler_runs": {
        "": ["device_time_total", "self_device_time_total"],
        "cpu": ["cpu_time_total", "self_cpu_time_total"],
        "gcu": ["gcu_time_total", "self_gcu_time_total"],
        "npu": [NOT_HERE, NOT_HERE],
        "ptex": [NOT_HERE, NOT_HERE],
    },
    "streams": {"": [True, True, True], "cpu": [False, NOT_HERE, NOT_HERE], "ptex": [False, NOT_HERE, NOT_HERE]},
    "collective": {
        "cpu": ["gloo", "gloo"],
        "gcu": ["eccl", "cpu:gloo,gcu:eccl"],
        "musa": ["mccl", "cpu:gloo,musa:mccl"],
        "npu": ["hccl", "cpu:gloo,npu:hccl"],
        "ptex": ["eccl", NOT_HERE],
        "sdaa": ["tccl", NOT_HERE],
    },
    "process_group": {
        "cpu": [[1.0, 1.0], "gloo"],
        "gcu": [[1.0, 1.0], "eccl"],
        "musa": [[1.0, 1.0], "mccl"],
        "npu": [[1.0, 1.0], "hccl"],
        "ptex": [[1.0, 1.0], "eccl"],
        "sdaa": [[1.0, 1.0], "tccl"],
    },
    "current_device": {
        "cpu": "one device",
        "gcu": ["gcu:1", [True, 1], 0, 0],
        "musa": ["musa:1", [True, 1], 0, 0],
        "npu": ["npu:1", [True, 1], 0, 0],
        "ptex": ["xla:1", [True, 1], 0, 0],
        "sdaa": ["sdaa:1", [True, 1], 0, 0],
    },
    "rank": {"": [1, "DeviceError", "DeviceError", 0], "cpu": [None, None, None, None]},
    "preferred": {"": ["cpu", True, "DeviceError", "DeviceError", "DeviceError"]},
    "what_is_not_there_is_an_error": {"": [True, True]},
    "the_cpu_in_its_place_is_a_warning": {"": ["cpu", WARNED, "cpu"]},
    "fallbacks": {
        "": {
            "warn": ["cpu", 1],
            "error": "DeviceNotAvailableError",
            "allow": ["cpu", 0],
            "cpu": ["cpu", 1],
            "perhaps": "DeviceError",
        }
    },
    "an_index_is_the_accelerators": {"": ["cpu", "DeviceError", "DeviceError"]},
    "order": {
        "cpu": ["DeviceError", "DeviceError"],
        "gcu": ["gcu:0", "DeviceError"],
        "musa": ["musa:0", "DeviceError"],
        "npu": ["npu:0", "DeviceError"],
        "ptex": ["xla:0", "DeviceError"],
        "sdaa": ["sdaa:0", "DeviceError"],
    },
    "portable_names_of_the_device": {
        "cpu": ["cpu", "cpu", "cpu", "meta", "cuda", "cpu", "CUDA_VISIBLE_DEVICES", "gloo", True],
        "gcu": ["gcu", "gcu:1", "gcu:1", "meta", "gcu", "gcu:0", "TOPS_VISIBLE_DEVICES", "eccl", True],
        "musa": ["musa", "musa:1", "musa:1", "meta", "musa", "musa:0", "MUSA_VISIBLE_DEVICES", "mccl", True],
        "npu": ["npu", "npu:1", "npu:1", "meta", "npu", "npu:0", "ASCEND_RT_VISIBLE_DEVICES", "hccl", True],
        "ptex": ["xla", "xla:1", "xla:1", "meta", "xla", "xla:0", "TOPS_VISIBLE_DEVICES", "eccl", True],
        "sdaa": ["sdaa", "sdaa:1", "sdaa:1", "meta", "sdaa", "sdaa:0", "SDAA_VISIBLE_DEVICES", "tccl", True],
    },
    "portable_arguments_for_cards_alone": {"": [0], "cpu": None},
    "portable_device_that_the_environment_names": {
        "cpu": ["DeviceNotAvailableError", ["cpu", 0], "DeviceError", "DeviceError"],
        "gcu": [["gcu", 1], ["cpu", 0], "DeviceError", "DeviceError"],
        "musa": [["musa", 1], ["cpu", 0], "DeviceError", "DeviceError"],
        "npu": [["npu", 1], ["cpu", 0], "DeviceError", "DeviceError"],
        "ptex": [["xla", 1], ["cpu", 0], "DeviceError", "DeviceError"],
        "sdaa": [["sdaa", 1], ["cpu", 0], "DeviceError", "DeviceError"],
    },
    "portable_place": {"": [True, "cpu", "cpu"], "cpu": [False, "cpu", "cpu"]},
    "portable_questions": {"": [True, 2, 0, True], "cpu": [False, 0, 0, False]},
    "portable_calls_that_every_device_takes": {"": "done"},
    "portable_memory": {
        "": [[True, True], []],
        "cpu": [[False, False], []],  # 0, as torch.cuda says there
        "ptex": [[False, False], WARNED * 3],
    },
    "portable_mixed_precision": {
        "": ["torch.float16", "torch.float16", "torch.float32", "torch.float32"],
        "cpu": ["torch.float32", "torch.float32", "torch.float32", "torch.float32"],
    },
    "portable_scaler": {
        "": [True, True, [True, 16.0, 5, 4.0]],
        "cpu": [True, True, "off"],
        "ptex": [True, True, "RuntimeError"],
    },
    "portable_memory_formats": {
        "": ["torch.channels_last", "torch.channels_last_3d", 1],
        "npu": ["torch.contiguous_format", "torch.contiguous_format", 9],
    },
    "portable_profile": {
        "cpu": "self_cpu_time_total",
        "gcu": "self_gcu_time_total",
        "musa": "self_device_time_total",
        "npu": NOT_HERE,
        "ptex": NOT_HERE,
        "sdaa": "self_device_time_total",
    },
    "portable_loading": {
        "cpu": ["cpu", []],
        "gcu": ["gcu", []],
        "musa": ["musa", []],
        "npu": ["npu", []],
        "ptex": ["cpu", WARNED],
        "sdaa": ["sdaa", []],
    },
    "portable_streams_and_what_is_not_there": {
        "": ["Event", False, "AttributeError"],
        "cpu": [NOT_HERE, False, "AttributeError"],
        "ptex": [NOT_HERE, False, "AttributeError"],
    },
    "report": {"": [True, True, True]},
    "languages": {"": ["device", "设备"]},
}
"""For each case, what it answers on each device; an empty name stands for devices without an answer of their own."""


@functools.lru_cache(maxsize=len(TARGETS))
def answers(target: str) -> dict[str, dict[str, Any]]:
    """Run the cases on one device and return their answers, for each form."""
    start = [] if target == "cpu" else ["-m", "torchferry", "rehearse", "-t", target, "--devices", "2", "--", "python"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
        small = Path(folder) / "small"
        small.mkdir()
        (small / "device_utils.py").write_text(small_file(offered()), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *start, str(PROGRAM), folder, f"small={small}", "installed"],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
            env={**ENVIRONMENT, "CUDA_VISIBLE_DEVICES": ""},
        )
    assert done.returncode == 0, done.stderr
    assert "WOULD FAIL" not in done.stderr, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("ANSWERS"))
    found: dict[str, dict[str, Any]] = json.loads(told[len("ANSWERS") :])
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_the_manager(target: str, subtests: pytest.Subtests) -> None:
    for form in FORMS:
        for name, expected in EXPECTED.items():
            if form != "small file" or name.startswith("portable"):
                with subtests.test(name, form=form):
                    assert answers(target)[form][name] == (expected[target] if target in expected else expected[""])


@pytest.mark.parametrize("form", ["one file", "installed"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="needs safetensors")
def test_weights(target: str, form: str) -> None:
    device = EXPECTED["chosen"][target][1]
    assert answers(target)[form]["safetensors"] == [
        [["a", device, [1.5, -2.0]], ["b", device, [7]]],
        ["torch.float16", "torch.int64"],
        "FileNotFoundError",
    ]


@pytest.mark.hardware
def test_a_real_card(tmp_path: Path) -> None:
    """On a machine with a card: it is found, and each case answers alike in both forms and as one of the rehearsed."""
    (tmp_path / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
    command = [sys.executable, str(PROGRAM), str(tmp_path), "installed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("ANSWERS"))
    found = json.loads(told[len("ANSWERS") :])
    assert found["one file"]["chosen"] == found["installed"]["chosen"]
    vendor = found["installed"]["chosen"][2]
    assert vendor != "cpu"
    wrong = {
        name: answer
        for name, answer in found["installed"].items()
        if answer in ("TypeError", "AttributeError", "RuntimeError", "NotImplementedError")
        or (answer != found["one file"].get(name) and name != "without_torchferry")
    }
    assert wrong == {}


def test_the_single_file_never_imports_torchferry() -> None:
    assert answers("cpu")["one file"]["without_torchferry"]
    assert answers("cpu")["small file"]["without_torchferry"]
    assert not answers("cpu")["installed"]["without_torchferry"]


def test_every_case_has_an_answer() -> None:
    assert set(answers("cpu")["installed"]) == {*EXPECTED, "safetensors", "without_torchferry"}
