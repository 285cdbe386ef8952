"""Logs of runs that fail here and now: two ranks on the CPU under torch's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.diagnosis.test_explain import answer, explained
from tests.warm_python import python

pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

PROGRAM = """\
import datetime, os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
for step in range(3):
    dist.all_reduce(torch.ones(2))
    print("step", step, flush=True)
    if step == STEP and os.environ["RANK"] == "1":
        FAILURE
dist.destroy_process_group()
"""
RUNS = [
    ("--tee", "pass", "", ()),
    ("--tee", "raise LookupError('no such sample')", "LookupError", (1,)),
    ("--redirects", "raise LookupError('no such sample')", "LookupError", (1,)),
    ("--redirects", "torch.ones(2, 3) @ torch.ones(2, 3)", "common/shapes", (1,)),
    ("--tee", "os.kill(os.getpid(), signal.SIGKILL)", "common/exit-killed", (1,)),
    ("--redirects", "os._exit(3)", "common/exit-code", (1,)),  # without the end of gloo, which may abort
    ("--tee", "time.sleep(15)", "common/collective-timeout", (0,)),
    ("--tee", "dist.all_reduce(torch.ones(7))", "common/collective-mismatch", (0, 1)),
]
"""How the launcher keeps logs, what rank 1 does, the entry or exception that is the answer, and which rank it names."""


@pytest.mark.parametrize(("option", "failure", "wanted", "ranks"), RUNS)
def test_the_log_of_a_run_is_explained(
    option: str, failure: str, wanted: str, ranks: tuple[int, ...], tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    step = "2" if "_exit" in failure else "1"  # the last one: else the other rank fails too, and may end first
    program.write_text(PROGRAM.replace("FAILURE", failure).replace("STEP", step), encoding="utf-8")
    done = subprocess.run(
        [
            *(python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *("--log-dir", str(tmp_path / "logs"), option, "3", "--no-python", sys.executable, str(program)),
        ],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, timeout=120,
    )  # fmt: skip
    log = tmp_path / "run.log"
    log.write_bytes(done.stdout)
    diagnosis = explained(log) if option == "--tee" else explained(log, tmp_path / "logs")
    assert answer(diagnosis) == wanted, done.stdout.decode()
    first = diagnosis.first.first if diagnosis.first is not None else diagnosis.raised
    assert diagnosis.failed == (first is not None) == bool(ranks)
    assert first is None or first.writer.rank in ranks
