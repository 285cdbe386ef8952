"""What the doctor advises on machines with Ascend cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.recorded import Case, commands, companions, python, results_of, steps, tool
from tests.vendors.npu.doctor import CANN, NPU_NODES, npu
from tests.vendors.npu.outputs import (
    DECORATOR_MISSING,
    GLIBC_OLD,
    GLIBCXX_OLD,
    NPU_910B,
    NUMPY_2,
    STATIC_TLS,
    TBE_MISSING,
)
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor.host import User


def test_an_explicit_choice_of_cards_is_not_overwritten(tmp_path: Path) -> None:
    def mend(**values: str) -> list[str]:
        return commands("environment.visible_devices", "npu", tmp_path, {}, environment=values)

    assert mend(CUDA_VISIBLE_DEVICES="0,1", ASCEND_RT_VISIBLE_DEVICES="2") == ["unset CUDA_VISIBLE_DEVICES"]
    assert mend(CUDA_VISIBLE_DEVICES="0,1") == ["export ASCEND_RT_VISIBLE_DEVICES=0,1; unset CUDA_VISIBLE_DEVICES"]
    assert mend(CUDA_VISIBLE_DEVICES="GPU-8e1f") == ["unset CUDA_VISIBLE_DEVICES"]


def test_the_same_python_is_not_advised_again(tmp_path: Path) -> None:
    def advice(**machine: object) -> str:
        return commands("python.torch", "npu", tmp_path, {}, outputs={"python3": ""}, **machine)[0]

    assert advice() == "torchferry doctor --python $(command -v python3)"
    assert advice(python="python3").startswith("find / ")
    assert advice(**python(executable="python3")).startswith("find / ")


def test_root_may_open_what_others_may_not(tmp_path: Path) -> None:
    case = Case("node.access", "npu", (), machine={"nodes": NPU_NODES, "who": User(0, "root", (0,))})
    assert "root may open all 4" in results_of(case, tmp_path)[0].what.render("en")


def test_the_install_line_is_of_the_installed_torch(tmp_path: Path) -> None:
    lines = commands("python.versions", "npu", tmp_path, {}, **npu("2.8.0+cpu", "2.9.0"))
    assert lines == [
        "/venv/bin/python -m pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cpu && "
        "/venv/bin/python -m pip install torch-npu==2.9.0.post6"
    ]


def test_the_toolkit_that_is_there_chooses_the_plugin(tmp_path: Path) -> None:
    lines = commands("python.sdk", "npu", tmp_path, CANN, **npu(plugin="2.9.0.post6"))
    assert "torch-npu==2.9.0" in lines[0]
    assert "post" not in lines[0]


KNOWN = {
    "NumPy 2": (NUMPY_2, "built against NumPy 1", "/venv/bin/python -m pip install 'numpy<2'"),
    "glibc": (GLIBC_OLD, "older than 2.33", "ldd --version | head -n 1  # the version that is here"),
    "libstdc++": (
        GLIBCXX_OLD,
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6, is older than GLIBCXX_3.4.30",
        "find / -name 'libstdc++.so.6*' -not -path '/proc/*'",
    ),
    "static TLS": (
        STATIC_TLS,
        "thread-local variables",
        "export LD_PRELOAD=/root/miniforge3/envs/tensorflow/lib/python3.8/site-packages/torch/lib/libgomp-d22c30c5.so.1"
        ":$LD_PRELOAD",
    ),
    "tbe": (
        TBE_MISSING,
        "CANN's own module tbe",
        "source /usr/local/Ascend/cann/set_env.sh || source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    ),
    "decorator": (
        DECORATOR_MISSING,
        "the module decorator that it needs is not installed",
        "/venv/bin/python -m pip install "
        "attrs numpy decorator sympy cffi pyyaml psutil protobuf scipy requests absl-py",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_failure_is_explained_wherever_it_is_printed(name: str, tmp_path: Path) -> None:
    text, cause, command = KNOWN[name]
    library = {"/usr/lib64/libascend_hal.so": "x"}
    cases = [
        Case("python.import", "npu", (), machine={**npu(), "imported": {"error": text, "version": ""}}),
        Case("tool.present", "npu", (), machine=tool("npu-smi info", ProcessResult(1, "", text))),
        Case("library.found", "npu", (), library, machine=python(libraries={"libascend_hal.so": text})),
        Case("python.interpreter", "npu", (), machine={"answer": ProcessResult(1, "", text)}),
        Case("probe.start", "npu", (), probe=steps(stopped="exit status 1", lines=text.splitlines())),
        Case("probe.allocate", "npu", (), probe=steps({"step": "allocate", "part": "npu:0", "error": text})),
    ]
    for case in cases:
        result = results_of(case, tmp_path / case.check)[0]
        assert result.status.value == "failure", case
        assert result.cause is not None
        assert cause in result.cause.render("en"), (case.check, result)
        assert result.commands[0] == command, case.check
        assert result.source


def test_what_a_library_is_called_is_never_run(tmp_path: Path) -> None:
    """The text of a failure is not ours: what it names goes into a command as one word."""
    text = "OSError: /tmp/$(reboot);x.so: cannot allocate memory in static TLS block"
    case = Case("python.import", "npu", (), machine={**npu(), "imported": {"error": text, "version": ""}})
    (result,) = results_of(case, tmp_path)
    assert result.commands == ("export LD_PRELOAD='/tmp/$(reboot);x.so':$LD_PRELOAD",)


def test_a_replaced_torchvision_is_installed_from_torchs_index(tmp_path: Path) -> None:
    lines = commands("python.companions", "npu", tmp_path, {}, **companions("2.7.1+cpu", torchvision="0.20.0"))
    index = "--index-url https://download.pytorch.org/whl/cpu"
    assert lines == [f"/venv/bin/python -m pip install torchvision==0.22.1 --no-deps {index}"]


def test_another_card_is_offered_where_its_number_is_the_variable_s(tmp_path: Path) -> None:
    busy = NPU_910B.replace("3338 / 65536", "60001/ 65536")
    chosen = "export ASCEND_RT_VISIBLE_DEVICES=1  # another card"
    for name, output, offered in (
        ("one device a card", busy, [chosen]),
        ("a model that no table knows", busy.replace("910B3", "910X3"), []),
        ("a sick card", busy.replace("1     910B3               | OK   ", "1     910B3               | Alarm"), []),
    ):
        lines = commands("card.memory", "npu", tmp_path / name, {}, **tool("npu-smi info", output))
        assert [line for line in lines if "VISIBLE" in line] == offered, name
