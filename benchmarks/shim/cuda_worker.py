"""One of PyTorch's test files for CUDA, in a process of its own: it may be ended by a crash.

The process is one of `torchferry rehearse -- torchferry run`, so that those that a test starts are redirected as well.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.rehearsal.generic_worker import GIB, rename, run_cases

BUILT_FOR = "12.4"
"""What the torch of these tests says that it was built for; test_cuda.py takes it apart as it is imported."""

BUILT_FOR_NUMBER = 12040
"""The same, as the machinery of tests of TorchScript asks for it."""


def load(path: Path) -> Any:
    """Import a test file, and the machinery that it needs, as on a torch that was built for CUDA."""
    import torch

    torch.set_num_threads(1)
    said, private = torch.version.cuda, vars(torch._C)
    torch.version.cuda = BUILT_FOR
    private["_cuda_getCompiledVersion"] = lambda: BUILT_FOR_NUMBER
    try:
        rename()
        return importlib.import_module(path.stem)
    finally:
        torch.version.cuda = said
        del private["_cuda_getCompiledVersion"]


def run(plan: dict[str, Any]) -> None:
    """Run the tests of the file that have no line yet."""
    folder, path = Path(plan["tests"]), Path(plan["tests"], plan["file"])
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cuda"
    sys.argv = [str(path)]
    sys.path[:0] = [str(path.parent), str(folder)]  # two files are called test_cuda.py
    resource.setrlimit(resource.RLIMIT_DATA, (plan["gib"] * GIB, plan["gib"] * GIB))
    warnings.simplefilter("ignore")
    module = load(path)
    run_cases(plan, module, _on_one_stream)


def _on_one_stream(case: Any) -> bool:
    """Take every case, on the default stream: the machinery would change it by names of torch._C."""
    case._do_cuda_non_default_stream = False
    return True


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # what a test leaves behind must not keep the process
