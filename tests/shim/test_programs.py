"""Small programs under the redirect, on the simulated card of every target."""

from __future__ import annotations

import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from tests.shim.objects import ALL as OBJECTS
from tests.shim.programs import ALL as PROGRAMS
from tests.shim.tracing import ALL as TRACING
from tests.warm_python import ferry, python
from torchferry.backends import registry
from torchferry.core import env

pytest.importorskip("torch")

ALL = [*PROGRAMS, *OBJECTS, *TRACING]
TARGETS = registry.built_in()


@lru_cache(maxsize=8)
def ran(target: str) -> subprocess.CompletedProcess[str]:
    """Run all programs on a target, in one process."""
    environment = {**os.environ, "TORCHFERRY_CACHE": str(env.cache_folder()), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [ferry(), "-m", "torchferry", "rehearse", "-t", target, "--devices", "2", "--",
         python(), str(Path(__file__).with_name("child.py"))],
        input=json.dumps([program.code for program in ALL]),
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def printed(target: str) -> dict[str, str]:
    """Return what each program prints on a target."""
    done = ran(target)
    marked = [line for line in done.stdout.splitlines() if line.startswith("RESULTS")]
    assert marked, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(zip([program.name for program in ALL], json.loads(marked[0].removeprefix("RESULTS")), strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_a_cuda_program_prints_what_it_prints_on_cuda(target: str, subtests: pytest.Subtests) -> None:
    output = printed(target)
    for program in ALL:
        expected = program.differs.get(target, program.prints)
        with subtests.test(program.name):
            if expected.startswith("..."):
                assert expected.removeprefix("...") in output[program.name]
            else:
                assert output[program.name] == expected


def test_names_are_unique() -> None:
    assert len({program.name for program in ALL}) == len(ALL)
