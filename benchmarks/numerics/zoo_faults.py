"""Faults planted in the kernels below small models of today: what `compare` and `compare diff` name first.

    python benchmarks/numerics/zoo_faults.py [--every]

The models and the faults are those of `tests/numerics/zoo.py`: each fault changes what one operator gives, from one of
its calls on. *Named first*: the first failure, or the first difference, is of that operator, or of the update where the
operator is a step of an optimizer. Two healthy runs of each model stand beside them. On the CPU, in float32.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from tests.numerics.zoo import FAULTS, ZOO, Planted, planted, trained
from torchferry.numerics import CompareWithCPU
from torchferry.numerics.recording import Recorder
from torchferry.numerics.rundiff.comparison import RunComparison, compare
from torchferry.numerics.runlog.record import Record, read_record


def recorded(folder: Path, name: str) -> Record:
    """Train a model under a recorder and read what it wrote."""
    with Recorder(folder) as recorder:
        trained(name, ended=recorder.step)
    return read_record(folder)


def first_failure(name: str, every: bool) -> str:
    """Return the first failure that `compare` says of a model, or nothing."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), CompareWithCPU(every=every):
        trained(name)
    return next((line for line in shown.getvalue().splitlines() if "[ERROR]" in line), "")


def names(fault: Planted, result: RunComparison) -> bool:
    """Whether a comparison of records names a fault first."""
    first = result.first
    if first is None:
        return False
    return first.phase == fault.named if fault.named else fault.operator.strip("_") in first.operator


def main() -> None:
    """Plant, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", action="store_true", help="let `compare` look at each call")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    found = {"compare": [0, 0], "compare diff": [0, 0]}
    alarms = dict.fromkeys(found, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        references = {model: recorded(folder / model, model) for model in ZOO}
        for model, reference in references.items():
            alarms["compare"] += bool(first_failure(model, options.every))
            alarms["compare diff"] += compare(reference, recorded(folder / f"{model}-again", model)).differs
        for number, fault in enumerate(FAULTS):
            with planted(fault.operator, fault.kind, fault.nth):
                failure = first_failure(fault.model, options.every)
            with planted(fault.operator, fault.kind, fault.nth):
                result = compare(references[fault.model], recorded(folder / str(number), fault.model))
            seen = {
                "compare": (bool(failure), fault.operator.strip("_") in failure),
                "compare diff": (result.differs, names(fault, result)),
            }
            for tool, (is_found, is_named) in seen.items():
                found[tool][0] += is_found
                found[tool][1] += is_named
                if not is_named:
                    print(f"not named first by {tool}: {fault}", flush=True)
    print("| tool | planted | found | named first | false alarms in 14 healthy models |\n|---|---|---|---|---|")
    for tool, (many, named) in found.items():
        print(f"| `{tool}` | {len(FAULTS)} | {many} | {named} | {alarms[tool]} |")


if __name__ == "__main__":
    main()
