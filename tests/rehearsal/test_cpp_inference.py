"""The example of a C++ program: exported, built with CMake, and run on the simulated card; about half a minute."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from tests.warm_python import ferry, python
from torchferry.rehearsal.build import library

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp-inference"


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_model_of_python_runs_in_cpp(tmp_path: Path) -> None:
    rehearse = [ferry(), "-m", "torchferry", "rehearse", "--target", "musa", "--"]
    exported = run(*rehearse, python(), str(EXAMPLE / "export.py"), "musa", "model", cwd=tmp_path)
    assert (tmp_path / "model" / "model.pt").is_file(), exported.stderr
    places = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", f"-DSIMULATED_DEVICE={library()}"]
    configured = run("cmake", "-S", str(EXAMPLE), "-B", "build", "-DCMAKE_CXX_FLAGS=-O0", *places, cwd=tmp_path)
    assert configured.returncode == 0, configured.stderr
    built = run("cmake", "--build", "build", cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    infer = str(tmp_path / "build" / "infer")
    done = run(infer, "musa", "model/model.pt", "model/expected.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ran on musa:0, largest difference from Python: ")
    # the wrong name: the model was saved on another device
    done = run(infer, "npu", "model/model.pt", "model/expected.txt", cwd=tmp_path)
    assert done.returncode == 1
    assert "musa" in done.stderr
