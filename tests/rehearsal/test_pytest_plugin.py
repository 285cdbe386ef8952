"""`pytest --rehearse` on the tests of a small project, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.warm_python import python

pytestmark = pytest.mark.rehearsal

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "pytest-rehearsal"
STRICT = ("--rehearse", "npu", "--rehearse-strict")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example, whose tests are right."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


def run(folder: Path, *arguments: str, status: int, warm: bool = True) -> str:
    """Run pytest in `folder` and return what it prints; `status` is the exit status that it must have."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [python() if warm else sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**environment, "TORCHFERRY_LANG": "en"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    output = done.stdout + done.stderr
    assert done.returncode == status, output
    assert "INTERNALERROR" not in output
    return output


def replace(path: Path, old: str, new: str) -> int:
    """Replace `old`, which stands there once, and return its line."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def only_test(folder: Path, text: str) -> None:
    """Put one test file in place of the project's."""
    shutil.rmtree(folder / "tests")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").write_text(textwrap.dedent(text))


def test_right_tests_pass(project: Path) -> None:
    output = run(project, *STRICT, status=0, warm=False)
    assert "2 passed" in output
    assert "torchferry: REHEARSAL on the CPU: 1 x Ascend 910B" in output
    assert "nothing was seen that would fail on the card" in output


def test_the_line_that_the_example_warns_of_fails_on_the_card_alone(project: Path) -> None:
    replace(project / "model.py", "# weight =", "weight =")
    line = replace(project / "model.py", "        weight = torch.linspace(0, 1, 16, device=rows.device)\n", "")
    assert "2 passed" in run(project, status=0)
    output = run(project, *STRICT, status=1)
    assert "2 failed" in output
    assert f"model.py:{line}  aten::mul.Tensor (npu:0 and cpu)" in output


def test_what_raises_nothing_fails_a_strict_run(project: Path) -> None:
    line = replace(project / "train.py", "torch.autocast(rows.device.type,", 'torch.autocast("cuda",')
    output = run(project, "--rehearse", "npu", status=0)
    assert "2 passed" in output
    assert "WOULD FAIL" in output
    output = run(project, *STRICT, status=1)
    assert "2 passed" in output
    assert f"train.py:{line}  autocast('cuda')" in output
    assert "--rehearse-strict fails this run" in output


def test_without_a_target_nothing_changes(project: Path) -> None:
    only_test(
        project,
        """
        import os, sys

        def test_it():
            loaded = {name for name in sys.modules if name.startswith(("torch.", "torchferry.rehearsal."))}
            assert loaded == {"torchferry.rehearsal.pytest_plugin"}
            assert "TORCHFERRY_REHEARSAL" not in os.environ
        """,
    )
    output = run(project, status=0, warm=False)
    assert "REHEARSAL" not in output
    assert " rehearsal " not in output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--rehearse", "nup"), "unknown target `nup`\ndid you mean `npu`?"),
        (("--rehearse", "npu", "--rehearse-card", "zzz"), "unknown card `zzz`\nknown: 310B1, 310B2,"),
        (("--rehearse", "npu", "--rehearse-devices", "17"), "name 1 to 16"),
        (("--rehearse", "npu", "--rehearse-profile", "none.toml"), "none.toml cannot be read"),
        (("--rehearse-strict",), "--rehearse-strict needs --rehearse TARGET"),
        (("--rehearse-card", "910B"), "--rehearse-card needs --rehearse TARGET"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_is_a_usage_error(project: Path, arguments: tuple[str, ...], says: str) -> None:
    output = run(project, *arguments, status=int(pytest.ExitCode.USAGE_ERROR))
    assert says in output
    assert "Traceback" not in output


def test_tests_that_stay_on_the_cpu_fail_a_strict_run(project: Path) -> None:
    only_test(project, "import torch\ndef test_it(): assert torch.ones(2).sum() == 2\n")
    assert "NOTHING RAN ON THE DEVICE" in run(project, "--rehearse", "npu", status=0)
    assert "NOTHING RAN ON THE DEVICE" in run(project, *STRICT, status=1)


def test_failures_that_are_not_the_card_s_are_said_to_be_none(project: Path) -> None:
    only_test(project, "import torch\ndef test_it(): assert torch.ones(2, device='npu').sum().item() == 3\n")
    assert "see its own error above" in run(project, *STRICT, status=1)


def test_the_target_and_the_card_of_the_ini_file_and_the_fixture(project: Path) -> None:
    only_test(project, "def test_it(rehearsal): assert rehearsal.profile.card == 'MTT S80'\n")
    assert "1 skipped" in run(project, status=0)
    with (project / "pytest.ini").open("a") as file:
        file.write("rehearse = musa\naddopts = --rehearse-card S80 -q\n")
    output = run(project, status=0)
    assert "1 passed" in output
    assert "1 x MTT S80" in output  # also where -q leaves the header out


def test_a_process_that_the_tests_start_takes_part_even_if_it_starts_the_same_rehearsal(project: Path) -> None:
    (project / "child.py").write_text(
        "import torchferry.rehearsal\n"
        "torchferry.rehearsal.enable('npu')\n"
        "import torch\n"
        "torch.autocast('cuda', torch.float16)\n"
    )
    only_test(
        project,
        """
        import subprocess, sys

        def test_it():
            subprocess.run([sys.executable, "child.py"], check=True)
        """,
    )
    output = run(project, *STRICT, status=1)
    assert "1 passed" in output
    assert "child.py:4  autocast('cuda')" in output
