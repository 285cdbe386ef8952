"""One of PyTorch's distributed test files on one device, in processes of its own; `generic_worker.py` has the others.

These files are not made for any device: they name CUDA and NCCL. For the device they are read with its names in the
place of those, and nothing else is changed: `NAMES` and `GLOO_NAMES` are the whole table. Where gloo serves CUDA
tensors in them, the device's collective library stands in its place. On the CPU the files run as they are, and skip
what wants CUDA, so that a failure on the device has its cause looked for by hand.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import tempfile
import types
import unittest
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.rehearsal import generic_worker

PLAN = "TORCHFERRY_GENERIC_PLAN"
RANKS = 3
"""As in PyTorch's own runs; a test may ask for more, up to the four devices."""

REPLACED = (
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.distributed.distributed_test",
    "test_c10d_common",
    "test_c10d_spawn",
)
"""What is read with other names, beside the file itself."""

NAMES = (
    (r"torch\.cuda\.nccl\.version\(\)", "(99, 0)"),
    (r"\bis_nccl_available\(\)", 'is_backend_available("{collective}")'),
    (r"(?<!import )(?<!from )\btorch\.cuda\b(?!\.nccl)", "torch.{device}"),
    (r"from torch\.cuda\.amp\b", "from torch.{device}.amp"),
    (r"\.cuda\(", ".{device}("),
    (r"\bis_cuda\b", "is_{device}"),
    (r"([\"'])cuda\b", r"\1{device}"),
    (r"([\"'])nccl\1", r"\1{collective}\1"),
    (r"(?m)(?<!^    dist\.)\bBackend\.NCCL\b", "Backend.{COLLECTIVE}"),  # not in the lists of what profilers name
    (r"/cuda:", "/{device}:"),
    (r"\bonlyCUDA\b", "onlyPRIVATEUSE1"),
    (r"ProfilerActivity\.CUDA\b", "ProfilerActivity.PrivateUse1"),
)
GLOO_NAMES = (
    (r"(_test_sequence_num\w+\((?:backend=)?)\"gloo\"", r'\1"{collective}"'),
    (r"\bdist\.barrier\(group=pg\)", "pg.barrier().wait()"),  # torch 2.13 takes no bare group there
    (r"c10d\.ProcessGroupGloo\((?=\s*store)", "collectives_of_the_device("),
    (r"\"gloo\"", '"cpu:gloo,{device}:{collective}"'),
    (r"\n +backend\.create_device\(interface=LOOPBACK\)", ""),
)

CLASSES = {
    "distributed/test_c10d_nccl.py": (
        "DistributedDataParallelTest",
        "CommTest",
        "NcclProcessGroupWithDispatchedCollectivesTests",
        "LargeCommTest",
    ),
}
"""The rest of this file is about NCCL itself: its error handling, its traces, its memory."""

FROM_RANK = r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Failure)\b.*(?:\n(?!frame|Exception raised).*)?)"
"""The exception of a rank, in what its process sends."""

_groups: list[Any] = []


class Renamed(importlib.machinery.SourceFileLoader):
    """Reads a file of PyTorch's with the device's names; never from, or into, a compiled one."""

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the code of the changed text."""
        path = self.get_filename(fullname)
        gloo = "gloo" in fullname
        return compile(renamed(Path(path).read_text(encoding="utf-8"), gloo=gloo), path, "exec", dont_inherit=True)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run it, with what stands in the place of a group of gloo's."""
        module.__dict__["collectives_of_the_device"] = collectives_of_the_device
        super().exec_module(module)
        if module.__name__ == REPLACED[0]:
            mark(module)


class Finder:
    """Finds the files that are read with other names."""

    def __init__(self, names: Sequence[str]) -> None:
        """Find these modules."""
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> Any:
        """Find one of them where it would be found."""
        if name not in self.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None:
            return None
        spec.loader = Renamed(name, spec.origin)
        return spec


def renamed(text: str, *, gloo: bool) -> str:
    """Return a file's text with the names of the device and of its collective library."""
    names = names_of(plan()["target"])
    for pattern, value in (*(GLOO_NAMES if gloo else ()), *NAMES):
        for name, one in names.items():
            value = value.replace("{" + name + "}", one)
        text = re.sub(pattern, value, text)
    return text


def names_of(target: str) -> dict[str, str]:
    """Return what the target calls its device and its collective library."""
    from torchferry.backends import registry

    backend = registry.load(target)
    return {"device": backend.DEVICE_TYPE, "collective": backend.COLLECTIVE, "COLLECTIVE": backend.COLLECTIVE.upper()}


def mark(common: Any) -> None:
    """Let a test that asks for devices be known by it."""
    original = common.skip_if_lt_x_gpu

    def marking(*given: Any, **named: Any) -> Any:
        def decorate(function: Any) -> Any:
            wrapper = original(*given, **named)(function)
            wrapper.asks_for_devices = True
            return wrapper

        return decorate

    common.skip_if_lt_x_gpu = marking


def collectives_of_the_device(store: Any, rank: int, size: int, options: Any = None) -> Any:
    """Return the device's collective library over a group of gloo's with these options, as the rehearsal makes it."""
    import torch
    import torch.distributed as dist

    names = names_of(plan()["target"])
    group = dist.ProcessGroup(store, rank, size)
    make: Any = dist.ProcessGroupGloo
    gloo = make(store, rank, size, options) if options else make(store, rank, size)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    importlib.import_module(f"torch_{names['device']}")
    torch.ops.torchferry_rehearsal.add_collectives(group.boxed(), names["collective"])
    _groups.append(group)  # the backend borrows the group's gloo
    return group._get_backend(torch.device(names["device"]))


def plan() -> dict[str, Any]:
    """Return what is to be run; the ranks that a test starts read it too."""
    found: dict[str, Any] = json.loads(os.environ[PLAN])
    return found


def prepare() -> None:
    """Make this process, which may be a rank, read the files in the way planned."""
    asked = plan()
    path = Path(asked["tests"], asked["file"])
    sys.path[:0] = [asked["tests"], str(path.parent)]
    warnings.simplefilter("ignore")
    if not asked["target"]:
        return
    sys.meta_path.insert(0, Finder((*REPLACED, path.stem)))
    from torch.testing._internal import common_cuda, common_utils

    for module, name in ((common_utils, "TEST_CUDA"), (common_cuda, "TEST_CUDA"), (common_cuda, "TEST_MULTIGPU")):
        setattr(module, name, True)


def fork(case: Any) -> None:
    """Start the ranks as forks, which takes a tenth of the time; this process does not use the device."""
    import torch

    case._start_processes(torch.multiprocessing.get_context("fork").Process)


def reason(err: Any) -> str:
    """Return an exception in a line: for one from a rank, the rank's own."""
    text = str(err[1])
    if "exited with error code" in text:
        found = re.findall(FROM_RANK, text, re.MULTILINE)
        if found:
            return str(found[0]).replace("\n", " ")[:400]
    return generic_worker.reason(err)


def run() -> None:
    """Run the tests of the file that have no line yet."""
    asked = plan()
    path = Path(asked["tests"], asked["file"])
    os.environ.update(
        BACKEND=names_of(asked["target"])["collective"] if asked["target"] else "gloo",
        WORLD_SIZE=str(RANKS),
        TEMP_DIR=tempfile.mkdtemp(dir="."),
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(asked["seconds"]),
        GLOO_SOCKET_IFNAME="lo",
        PYTORCH_TESTING_DEVICE_ONLY_FOR="privateuse1" if asked["target"] else "cpu",
    )
    sys.argv = [str(path)]
    limit = asked["gib"] * generic_worker.GIB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import torch
    from torch.testing._internal import common_distributed
    from torch.testing._internal.common_distributed import MultiProcessTestCase

    torch.set_num_threads(1)
    generic_worker.rename()
    generic_worker.reason = reason
    setattr(MultiProcessTestCase, "_spawn_processes", fork)  # noqa: B010 - mypy takes no other
    common_distributed.TIMEOUT_OVERRIDE.clear()
    module = importlib.import_module(path.stem)
    lines = Path(asked["lines"]).read_text(encoding="utf-8").splitlines()
    done = {row["test"] for row in map(json.loads, lines) if row["result"] != "started"}

    def late(number: int, frame: types.FrameType | None) -> None:
        signal.alarm(5)
        raise generic_worker.OutOfTimeError(f"more than {asked['seconds']} s")

    signal.signal(signal.SIGALRM, late)
    wanted = CLASSES.get(asked["file"])
    cases = [case for case in vars(module).values() if isinstance(case, type) and issubclass(case, unittest.TestCase)]
    cases = [case for case in cases if case.__module__ == module.__name__]
    cases = [case for case in cases if wanted is None or case.__name__ in wanted]
    cases.sort(key=lambda case: not issubclass(case, MultiProcessTestCase))  # forks first, while nothing has threads
    with open(asked["lines"], "a", encoding="utf-8") as file:
        result = generic_worker.Lines(file, asked["seconds"] + 20)
        for case in cases:
            tests = map(case, unittest.defaultTestLoader.getTestCaseNames(case))
            chosen = [test for test in tests if generic_worker.name(test) not in done and for_the_device(case, test)]
            unittest.TestSuite(chosen).run(result)


def for_the_device(case: type, test: unittest.TestCase) -> bool:
    """Say whether a test is for a device, where a file's others are for gloo on the CPU."""
    if not plan()["target"] or plan()["file"] != "distributed/test_c10d_gloo.py":
        return True
    return getattr(getattr(case, test._testMethodName), "asks_for_devices", False)


if __name__ == "__main__":
    os.environ[PLAN] = sys.argv[1]
if PLAN in os.environ:
    prepare()
if __name__ == "__main__":
    run()
    sys.stdout.flush()
    os._exit(0)
