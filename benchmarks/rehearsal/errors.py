"""What PyTorch's operator database says is wrong (`error_inputs`): who refuses it, the CPU or the rehearsal device.

    python benchmarks/rehearsal/errors.py [--target npu] [--plugin simulated|installed|WHEEL] [--output FILE]

It needs numpy and expecttest, which PyTorch's own testing code imports. Each input is made for the CPU and for the
device. `both` refuse, `neither` does, or one alone. What differs is printed with the first line of the error; `REASONS`
explains what is known, and anything else ends with 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from torch.testing._internal.common_methods_invocations import op_db

import torchferry.rehearsal

OUTCOMES = ("both", "neither", "only the CPU", "only the device")
"""Who refuses an input; `not made` is beside them, where the input cannot be made on the device."""

REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "only the CPU",
        r"(?:cat|gather|kthvalue|masked_select|take): RuntimeError: unsupported operation: .* single memory location",
        "op-plugin's kernels of these do not look for memory that overlaps: on the card the result is undefined",
    ),
    ("only the device", r"\[rehearsal: by the published list\]", "no kernel of the card takes the dtype or rank"),
    ("not made", r"has 65 dimensions, more than 8", "the input has more dimensions than any kernel of the card takes"),
)
"""What differs and why: an outcome, a pattern of the operator and the words of whoever refuses, and the reason."""


class Compared(NamedTuple):
    """One wrong input.

    Attributes:
        operator: Name in the database, with its variant.
        number: Which of its wrong inputs.
        outcome: One of `OUTCOMES`, or `not made`.
        cpu: What the CPU says; empty where it says nothing.
        device: What the device says.
    """

    operator: str
    number: int
    outcome: str
    cpu: str
    device: str

    @property
    def reason(self) -> str:
        """Why the two differ; empty where they do not, or nobody knows."""
        said = f"{self.operator}: {self.cpu or self.device}"
        return next((why for outcome, form, why in REASONS if outcome == self.outcome and re.search(form, said)), "")


def title(op: Any) -> str:
    """Return the operator's name with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def said(op: Any, wrong: Any) -> str:
    """Return what a call with a wrong input raises, in a line; empty for nothing."""
    sample = wrong.sample_input
    try:
        op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        text = str(error).strip() or "-"
        return f"{type(error).__name__}: {text.splitlines()[0]}"[:300]
    return ""


def compared(op: Any, device: str) -> Iterator[Compared]:
    """Yield what becomes of each wrong input on the CPU and on a device."""
    pairs = zip(op.error_inputs("cpu"), op.error_inputs(device), strict=False)
    for number, (for_cpu, for_device) in enumerate(pairs):
        cpu, on_device = said(op, for_cpu), said(op, for_device)
        outcome = OUTCOMES[0 if cpu and on_device else 1 if not cpu and not on_device else 2 if cpu else 3]
        yield Compared(title(op), number, outcome, cpu, on_device)


def measure(device: str) -> Iterator[Compared]:
    """Yield what becomes of all wrong inputs of the database."""
    for op in op_db:
        if op.error_inputs_func is not None:
            try:
                yield from compared(op, device)
            except Exception as error:
                yield Compared(title(op), -1, "not made", "", f"{type(error).__name__}: {error}"[:300])


def main() -> int:
    """Measure, and print what differs; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--plugin", default="simulated", help="`installed` or a wheel, for the vendor's own plugin")
    parser.add_argument("--output", type=Path, metavar="FILE", help="a line of JSON for each input")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torchferry.rehearsal.enable(arguments.target, plugin=arguments.plugin)
    rows = list(measure(arguments.target))
    if arguments.output is not None:
        lines = [json.dumps({**row._asdict(), "reason": row.reason}) for row in rows]
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(", ".join(f"{outcome}: {count}" for outcome, count in Counter(row.outcome for row in rows).items()))
    differing = [row for row in rows if row.outcome not in ("both", "neither")]
    for row in differing:
        print(f"{row.operator} {row.number}  {row.outcome}  {row.cpu or row.device}  ({row.reason or 'UNEXPLAINED'})")
    return int(any(not row.reason for row in differing))


if __name__ == "__main__":
    sys.exit(main())
