"""One of PyTorch's test files on one device, in a process of its own: it may be ended by a crash or from outside."""

# ruff: noqa: N802, N815 - the names are unittest's

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import types
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

GIB = 1 << 30


class OutOfTimeError(BaseException):
    """A test took longer than it may; no test catches this one."""


class Lines(unittest.TestResult):
    """Writes a line when a test begins and one for what it came to, so that a crash loses one test only."""

    def __init__(self, file: IO[str], seconds: int) -> None:
        """Write into the file; a test gets so many seconds."""
        super().__init__()
        self.file = file
        self.seconds = seconds
        self.outcome: dict[str, str] = {}

    def write(self, **row: str) -> None:
        """Write a line at once."""
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        """Say which test runs, in case that it ends the process."""
        self.outcome = {}
        self.write(test=name(test), result="started")
        signal.alarm(self.seconds)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Write what the test came to."""
        signal.alarm(0)
        self.write(test=name(test), **(self.outcome or {"result": "pass"}))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Take a failure, of the test or of its class."""
        self.outcome = {"result": "fail", "why": reason(err)}
        if not isinstance(test, unittest.TestCase) or not hasattr(test, "_testMethodName"):
            self.write(test=str(test), **self.outcome)

    addError = addFailure

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """Take a part of a test."""
        if err is not None:
            self.addFailure(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Take the reason that PyTorch gives for not running a test."""
        self.outcome = self.outcome or {"result": "skip", "why": reason}

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Take a test that should have failed."""
        self.outcome = {"result": "fail", "why": "unexpected success"}


def name(test: unittest.TestCase) -> str:
    """Return class and method."""
    return ".".join(test.id().split(".")[-2:])


def reason(err: Any) -> str:
    """Return an exception in a line."""
    kind, value = err[0], err[1]
    lines = [line for line in str(value).splitlines() if line.strip()]
    kept = [
        line
        for line in lines
        if not line.startswith(("To execute this", "This message can be", "    P", "    python test", "Caused by"))
    ]
    cause = value.__cause__ if isinstance(value.__cause__, Exception) else None
    text = f"{kind.__name__}: {' '.join(kept)[:300]}"
    return text if cause is None else f"{text} <- {type(cause).__name__}: {str(cause).splitlines()[:1]}"[:500]


def rename() -> None:
    """Give the names that tests of torch 2.6 import from its testing machinery what they are called in later ones."""
    from torch.testing._internal import (
        common_cuda,
        common_device_type,
        common_methods_invocations,
        common_mkldnn,
        common_nn,
        common_utils,
    )
    from torch.utils import _dtype_abbrs

    new_module_tests: Any = getattr(common_nn, "get_new_module_tests", list)
    renamed: list[tuple[types.ModuleType, str, Callable[[], Any]]] = [
        (common_cuda, "tf32_is_not_fp32", lambda: lambda: False),
        (common_mkldnn, "bf32_on_and_off", lambda: common_mkldnn.reduced_f32_on_and_off),
        (common_nn, "new_module_tests", new_module_tests),
        (common_methods_invocations, "binary_ufuncs_and_refs", lambda: common_methods_invocations.binary_ufuncs),
        (common_methods_invocations, "skip", lambda: common_device_type.skip),
        (common_methods_invocations, "xfail", lambda: common_device_type.xfail),
        (common_methods_invocations, "skipOps", lambda: common_device_type.skipOps),
        (common_utils, "dtype_abbrs", lambda: _dtype_abbrs.dtype_abbrs),
    ]
    for module, old, find in renamed:
        if not hasattr(module, old):
            setattr(module, old, find())


def take_over(case: type, file: str) -> None:
    """Put what prepares a test where `super(self.__class__, self)` looks above it: older machinery copied it there."""
    for base in case.__mro__[1:]:
        for method in ("setUp", "tearDown"):
            found = vars(base).get(method) if base.__module__ == file else None
            if found is not None and "__class__" in found.__code__.co_names:
                delattr(base, method)
                setattr(case, method, found)


def run(plan: dict[str, Any]) -> None:
    """Run the tests of the file that have no line yet."""
    folder, path = Path(plan["tests"]), Path(plan["tests"], plan["file"])
    if plan["target"]:
        import torchferry.rehearsal

        torchferry.rehearsal.enable(plan["target"], devices=2)  # before the machinery looks for devices
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "privateuse1" if plan["target"] and not plan["host"] else "cpu"
    sys.argv = [str(path)]
    sys.path[:0] = [str(folder), str(path.parent)]
    resource.setrlimit(resource.RLIMIT_DATA, (plan["gib"] * GIB, plan["gib"] * GIB))
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_device_type import DeviceTypeTestBase

    torch.set_num_threads(1)
    rename()
    module = importlib.import_module(path.stem)
    run_cases(plan, module, lambda case: issubclass(case, DeviceTypeTestBase) is not plan["host"])


def run_cases(plan: dict[str, Any], module: Any, wanted: Callable[[Any], bool]) -> None:
    """Run the tests of a module's own cases that have no line yet, each in its time; `wanted` may prepare a case."""
    lines = Path(plan["lines"]).read_text(encoding="utf-8").splitlines()
    done = {row["test"] for row in map(json.loads, lines) if row["result"] != "started"}

    def late(number: int, frame: FrameType | None) -> None:
        signal.alarm(5)  # where a test's own handler has taken the first
        raise OutOfTimeError(f"more than {plan['seconds']} s")

    signal.signal(signal.SIGALRM, late)
    with open(plan["lines"], "a", encoding="utf-8") as file:
        result = Lines(file, plan["seconds"])
        for case in list(vars(module).values()):
            if not (isinstance(case, type) and issubclass(case, unittest.TestCase)):
                continue
            if case.__module__ != module.__name__ or not wanted(case):
                continue
            take_over(case, module.__name__)
            tests = map(case, unittest.defaultTestLoader.getTestCaseNames(case))
            unittest.TestSuite(test for test in tests if name(test) not in done).run(result)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # what a test leaves behind must not keep the process
