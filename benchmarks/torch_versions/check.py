"""What of torchferry works with the torch of an interpreter: one line for each tool.

    python benchmarks/torch_versions/check.py PYTHON...

Each PYTHON has torch and torchferry. `checks` is what other programs call: `benchmarks/rehearsal/matrix.py` for each
version of the plugin. Nothing is downloaded.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
PLANTED = str(HERE / "planted.py")
_LIMIT = 1200.0
"""Seconds for a command; the first of a torch builds the simulated device."""

_NOTHING_FOUND = re.compile(r"^0 failures, 0 warnings, 0 unknown, ", re.MULTILINE)
"""How the doctor ends where every probe passed or was skipped."""

_TEST = """\
import torch


def test_a_step():
    import torch_npu

    layer = torch.nn.Linear(3, 2).to("npu")
    layer(torch.ones(4, 3, device="npu")).sum().backward()
    assert layer.weight.grad.device.type == "npu"
"""


@dataclass(frozen=True)
class Check:
    """A tool with a torch.

    Attributes:
        name: The tool.
        passed: Whether it did what it is for.
        said: The end of what it printed, where it did not.
    """

    name: str
    passed: bool
    said: str = ""


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    printed: str


def _command(python: str, folder: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> Done:
    environment = {**(os.environ if variables is None else variables), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [python, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Done(-1, f"not ended after {error.timeout:.0f} s")
    return Done(done.returncode, done.stdout)


def checks(
    python: str, folder: Path, plugin: str = "simulated", variables: Mapping[str, str] | None = None
) -> Iterator[Check]:
    """Run each tool with an interpreter.

    Args:
        python: Path of the interpreter; torch and torchferry are installed in it.
        folder: An empty folder for what the tools write.
        plugin: What `rehearse --plugin` is given.
        variables: The environment; this process' own by default.
    """

    def ferry(*arguments: str) -> Done:
        return _command(python, folder, "-m", "torchferry", *arguments, variables=variables)

    def check(name: str, done: Done, holds: Callable[[Done], bool]) -> Check:
        passed = holds(done)
        return Check(name, passed, "" if passed else done.printed[-2000:])

    npu = ("rehearse", "-t", "npu", "--plugin", plugin)
    rehearse = (*npu, "--")
    done = ferry(*rehearse, python, "-m", "torchferry", "run", "-t", "npu", str(HERE / "redirected.py"))
    yield check(
        "run",
        done,
        lambda done: "everything ran" in done.printed and "nothing was seen that would fail" in done.printed,
    )
    example = ROOT / "examples" / "cuda-training"
    done = ferry(*rehearse, python, "-m", "torchferry", "run", "-t", "npu", str(example / "train.py"), "--steps", "21")
    yield check("run: the example", done, lambda done: done.code == 0 and "step 20: loss 1.9" in done.printed)
    done = ferry("nan", "--", python, PLANTED, "--nan")
    yield check("nan", done, lambda done: "step 1: nan first came from aten.log, in Network" in done.printed)
    done = ferry(
        *npu, "--fault", "op=tanh,kind=noise,scale=0.01", "--",
        python, "-m", "torchferry", "compare", "--", python, PLANTED, "--npu",
    )  # fmt: skip
    yield check("compare", done, lambda done: "aten.tanh" in done.printed and "FAIL" in done.printed.upper())
    done = ferry(*rehearse, python, "-m", "torchferry", "compare", "--", python, PLANTED, "--npu")
    yield check("compare: without a fault", done, lambda done: done.code == 0)
    for name, options in (("good", ()), ("wrong", ("--fault", "op=tanh,kind=noise,scale=0.01"))):
        recorded = ferry(
            *npu, *options, "--",
            python, "-m", "torchferry", "compare", "record", "-o", name, "--", python, PLANTED, "--npu",
        )  # fmt: skip
        yield check(f"record: {name}", recorded, lambda done: "4 steps" in done.printed)
    done = ferry("compare", "diff", "good", "wrong")
    yield check("diff", done, lambda done: done.code == 1 and "tanh" in done.printed)
    done = ferry(*rehearse, python, "-m", "torchferry", "device", "show")
    yield check("device", done, lambda done: "npu:0" in done.printed)
    generated = ferry("device", "vendor", str(folder))
    written = "from device_utils import DeviceManager as M; m = M(); print(m.device, m.empty_cache())"
    done = _command(python, folder, "-c", written, variables=variables)
    yield check(
        "device: the single file",
        Done(generated.code or done.code, generated.printed + done.printed),
        lambda done: done.code == 0 and "cpu" in done.printed,
    )
    done = ferry(*rehearse, python, "-m", "torchferry", "doctor", "-t", "npu", "--probe", "--select", "probe")
    yield check("doctor --probe", done, lambda done: _NOTHING_FOUND.search(done.printed) is not None)
    (folder / "test_device.py").write_text(_TEST, encoding="utf-8")
    test = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rehearse", "npu", "--rehearse-plugin", plugin)
    done = _command(python, folder, *test, variables=variables)
    yield check("pytest plugin", done, lambda done: done.code == 0 and "REHEARSAL" in done.printed.upper())


def main() -> int:
    """Check the interpreters that were named."""
    failed = False
    for python in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="torch-versions-") as folder:
            version = _command(
                python, Path(folder), "-c", "import sys, torch; print(torch.__version__, sys.version[:4])"
            )
            print(f"{version.printed.strip()}", flush=True)
            for result in checks(python, Path(folder)):
                print(f"  {'ok  ' if result.passed else 'FAIL'} {result.name}", flush=True)
                failed |= not result.passed
                if result.said:
                    print("    " + result.said.replace("\n", "\n    "), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
