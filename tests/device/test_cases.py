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

from tests.processes import HANGS
from tests.warm_python import ferry, python
from torchferry.backends import registry
from torchferry.device.one_file import one_file
from torchferry.device.small_file import offered, small_file

pytestmark = pytest.mark.rehearsal

PROGRAM = Path(__file__).with_name("cases.py")
VENDORS = Path(__file__).parent.parent / "vendors"
TARGETS = ("cpu", *registry.built_in())
FORMS = ("one file", "small file", "installed")

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PREFERRED_", "LOCAL_RANK"))},
    "LC_ALL": "C.UTF-8",
}

NOT_HERE = "NotOnThisDeviceError"
WARNED = [["DeviceWarning", "cases.py"]]

EXPECTED: dict[str, Any] = {
    "chosen": ["{device}:0", "{device}", "{vendor}", True],
    "candidates": {"{vendor}": "chosen"},
    "it_is_warned_of_the_cpu_alone": [],
    "dtype": [["bfloat16", "native"]],
    "dtype_as_asked": ["torch.float32", "DeviceError"],
    "wide_numbers": ["limited", "native"],
    "generator": [True, "{device}"],
    "generator_that_falls_back": ["{device}", [], True, "DeviceError"],
    "generator_on_the_cpu": "cpu",
    "seed": [["python", "numpy", "torch", "{device}"], True, "DeviceError"],
    "deterministic": [WARNED, True],
    "memory": [True, True, True, True, True, True],
    "status": [True, "tensors"],
    "peak": True,
    "cache": True,
    "memory_efficient_mode": [False, True, True, "PYTORCH_{DEVICE}_ALLOC_CONF"],
    "memory_limit": [True, True],
    "autocast": ["bfloat16", "float32", "float32"],
    "scaler": [True, False, False],
    "step_with_scaler": True,
    "fused_step_with_scaler": True,
    "timing": ["RuntimeError", True],
    "profiler": [["CPU", "{DEVICE}"], []],
    "profiler_runs": ["device_time_total", "self_device_time_total"],
    "streams": [True, True, True],
    "collective": ["{collective}", "cpu:gloo,{device}:{collective}"],
    "process_group": [[1.0, 1.0], "{collective}"],
    "current_device": ["{device}:1", [True, 1], 0, 0],
    "rank": [1, "DeviceError", "DeviceError", 0],
    "preferred": ["cpu", True, "DeviceError", "DeviceError", "DeviceError"],
    "what_is_not_there_is_an_error": [True, True],
    "the_cpu_in_its_place_is_a_warning": ["cpu", WARNED, "cpu"],
    "fallbacks": {
        "warn": ["cpu", 1],
        "error": "DeviceNotAvailableError",
        "allow": ["cpu", 0],
        "cpu": ["cpu", 1],
        "perhaps": "DeviceError",
    },
    "an_index_is_the_accelerators": ["cpu", "DeviceError", "DeviceError"],
    "order": ["{device}:0", "DeviceError"],
    "portable_names_of_the_device": [
        *("{device}", "{device}:1", "{device}:1", "meta", "{device}", "{device}:0", "{visible}", "{collective}"),
        True,
    ],
    "portable_status": [True, False],
    "portable_arguments_for_cards_alone": [0],
    "portable_device_that_the_environment_names": [["{device}", 1], ["cpu", 0], "DeviceError", "DeviceError"],
    "portable_place": [True, "cpu", "cpu"],
    "portable_questions": [True, 2, 0, True],
    "portable_calls_that_every_device_takes": "done",
    "portable_memory": [[True, True], []],
    "portable_mixed_precision": ["torch.float16", "torch.float16", "torch.float32", "torch.float32"],
    "portable_scaler": [True, True, [True, 16.0, 5, 4.0]],
    "portable_memory_formats": ["torch.channels_last", "torch.channels_last_3d", 1],
    "portable_profile": "self_device_time_total",
    "portable_loading": ["{device}", []],
    "portable_streams_and_what_is_not_there": ["Event", False, "AttributeError"],
    "report": [True, True, True],
    "languages": ["device", "设备"],
}
"""For each case, what it answers on a card, with the names of the vendor's in braces. Where a vendor's card answers
otherwise, `tests/vendors/<name>/device_manager.json` says how."""

ON_THE_CPU: dict[str, Any] = {
    "chosen": ["cpu", "cpu", "cpu", False],
    "candidates": {"cuda": "no card", "cpu": "chosen"},
    "it_is_warned_of_the_cpu_alone": WARNED,
    "dtype": [["float32", "native"]],
    "wide_numbers": ["native", "native"],
    "generator": [True, "cpu"],
    "generator_that_falls_back": ["cpu", [], True, "DeviceError"],
    "seed": [["python", "numpy", "torch"], True, "DeviceError"],
    "deterministic": [[], True],
    "memory": [None, None, None, None, None, True],
    "status": [True, "memory not reported"],
    "peak": NOT_HERE,
    "cache": False,
    "memory_efficient_mode": [False, True, True, ""],
    "memory_limit": [NOT_HERE, True],
    "autocast": ["float32", "float32", "float32"],
    "profiler": [["CPU"], []],
    "profiler_runs": ["cpu_time_total", "self_cpu_time_total"],
    "streams": [False, NOT_HERE, NOT_HERE],
    "collective": ["gloo", "gloo"],
    "process_group": [[1.0, 1.0], "gloo"],
    "current_device": "one device",
    "rank": [None, None, None, None],
    "order": ["DeviceError", "DeviceError"],
    "portable_names_of_the_device": ["cpu", "cpu", "cpu", "meta", "cuda", "cpu", "CUDA_VISIBLE_DEVICES", "gloo", True],
    "portable_status": [True, True],
    "portable_arguments_for_cards_alone": None,
    "portable_device_that_the_environment_names": [
        *("DeviceNotAvailableError", ["cpu", 0], "DeviceError", "DeviceError"),
    ],
    "portable_place": [False, "cpu", "cpu"],
    "portable_questions": [False, 0, 0, False],
    "portable_memory": [[False, False], []],  # 0, as torch.cuda says there
    "portable_mixed_precision": ["torch.float32", "torch.float32", "torch.float32", "torch.float32"],
    "portable_scaler": [True, True, "off"],
    "portable_profile": "self_cpu_time_total",
    "portable_loading": ["cpu", []],
    "portable_streams_and_what_is_not_there": [NOT_HERE, False, "AttributeError"],
}
"""What the CPU answers otherwise."""


def expected(target: str) -> dict[str, Any]:
    """Return what each case answers on a target's card, or on the CPU."""
    if target == "cpu":
        return {**EXPECTED, **ON_THE_CPU}
    backend = registry.load(target)
    names: dict[str, object] = {
        "vendor": target,
        "device": backend.DEVICE_TYPE,
        "DEVICE": backend.DEVICE_TYPE.upper(),
        "collective": backend.COLLECTIVE,
        "visible": backend.VISIBLE_DEVICES,
    }
    of_vendor = VENDORS / target / "device_manager.json"
    otherwise = json.loads(of_vendor.read_text(encoding="utf-8")) if of_vendor.exists() else {}
    assert set(otherwise) <= set(EXPECTED), of_vendor
    return {**with_names(EXPECTED, names), **otherwise}


def with_names(answer: Any, names: dict[str, object]) -> Any:
    """Return an answer with the vendor's names in place of `{device}` and the like."""
    if isinstance(answer, dict):
        return {with_names(key, names): with_names(value, names) for key, value in answer.items()}
    if isinstance(answer, list):
        return [with_names(part, names) for part in answer]
    return answer.format_map(names) if isinstance(answer, str) else answer


@functools.lru_cache(maxsize=len(TARGETS))
def answers(target: str) -> dict[str, dict[str, Any]]:
    """Run the cases on one device and return their answers, for each form."""
    rehearsal = [ferry(), "-m", "torchferry", "rehearse", "-t", target, "--devices", "2", "--"]
    start = [] if target == "cpu" else rehearsal
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
        small = Path(folder) / "small"
        small.mkdir()
        (small / "device_utils.py").write_text(small_file(offered()), encoding="utf-8")
        done = subprocess.run(
            [*start, python(), str(PROGRAM), folder, f"small={small}", "installed"],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
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
        for name, answer in expected(target).items():
            if form != "small file" or name.startswith("portable"):
                with subtests.test(name, form=form):
                    assert answers(target)[form][name] == answer


@pytest.mark.parametrize("form", ["one file", "installed"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None, reason="needs safetensors")
def test_weights(target: str, form: str) -> None:
    device = expected(target)["chosen"][1]
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
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS, env=ENVIRONMENT)
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
