"""Does `torchferry accept` judge HiDream-E1 as it has to? Its script at 128 x 128, as it is and with faults.

    python -m benchmarks.acceptance.hidream [--corpus DIR] [--target npu] [--keep DIR]

DIR (or $TORCHFERRY_CORPUS) has the checkout `HiDream-ai+HiDream-E1`; nothing is fetched. Weights are tiny and random.
The original runs on the CPU and leaves the reference picture; a copy is migrated and judged on the simulated card: no
gate may be red. Then a fault is planted at a time, and its gate has to be red: noise that the simulated card computes
with (`accept --fault`), 1 % noise in the checkpoint, NaN from the VAE, a leak, a line that is not logged, a command of
the README that fails, an error that the script swallows. Exit code 1: a gate is not as it has to be.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.acceptance.faults import ran, shown
from benchmarks.rehearsal.cases.table import Case, Edit, cases
from benchmarks.rehearsal.realworld import edit_files
from torchferry.acceptance import evidence

SCRIPT = "inference_e1_1.py"
PICTURES = "outputs.results"
STEPS = 200
"""Steps of denoising in the runs that judge memory, whose growth is judged over 200 calls of a model."""

FILE = """
schema = 1
[source]
url = "https://github.com/HiDream-ai/HiDream-E1"
licence = "MIT"
priority = "official"
[model]
name = "HiDream-E1"
variant = "E1.1, one block, random weights"
[runs.target]
command = ["PYTHON", "inference_e1_1.py"]
time-limit = "20 min"
[[gates.outputs]]
kind = "image"
folder = "results"
pattern = "*.jpg"
reference = "reference"
[gates.memory]
growth-per-step = "1 KiB"
[gates.logs]
lines = { loaded = "finished loading editing keys", refined = "Refining start" }
[gates.documents]
required = ["README.md"]
commands = ["python ./inference_e1_1.py"]
[gates.not-judged]
environment = "the doctor has tests of its own"
errors = "the script catches every error and ends with 0"
"""

PIPELINE = "pipeline_hidream_image_editing.py"
LONG = (
    Edit(SCRIPT, "steps=4", f"steps={STEPS}"),
    Edit(SCRIPT, "image_size = 128", "image_size = 32"),
    Edit(SCRIPT, "refine_strength=0.3", "refine_strength=0.01"),
    Edit(PIPELINE, "max_sequence_length: int = 128", "max_sequence_length: int = 16"),
)
FAULTS: dict[str, tuple[str, tuple[Edit, ...], tuple[str, ...]]] = {
    "noise of the card": (PICTURES, (), ("--fault", "op=aten.addmm,kind=noise,scale=0.05")),
    "1 % noise in the checkpoint": (
        PICTURES,
        (
            Edit(
                SCRIPT,
                "    transformer.load_state_dict(edit_dict, strict=True)",
                "    edit_dict = {k: v * (1 + 0.01 * torch.randn_like(v)) for k, v in edit_dict.items()}\n"
                "    transformer.load_state_dict(edit_dict, strict=True)",
            ),
        ),
        (),
    ),
    "NaN from the VAE": (PICTURES, (), ("--fault", "op=aten.convolution,kind=nan")),
    "a leak": (
        "memory.growth",
        (
            *LONG,
            Edit(
                PIPELINE,
                " progress_bar.update()",
                " progress_bar.update(); self.__dict__.setdefault('kept', []).append(latents.clone())",
            ),
        ),
        ("--only", "memory"),
    ),
    "a line that is not logged": ("logs.loaded", (Edit(PIPELINE, "finished loading editing keys", "ready"),), ()),
    "a command of the README that fails": (
        "documents.command-1",
        (Edit("README.md", "python ./inference_e1_1.py", "python ./absent.py"),),
        (),
    ),
    "an error that the script swallows": (
        "logs.refined",
        (Edit(SCRIPT, "            seed=3,", "            seed='three',"),),
        (),
    ),
}
"""Each with its gate, the edits that plant it, and options of `accept`."""

LONGER = f"none, {STEPS} steps"
"""The row of the program as it is, run long enough for its memory to be judged."""


def main() -> int:
    """Judge, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path(os.environ.get("TORCHFERRY_CORPUS", "absent")))
    parser.add_argument("--target", default="npu")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    case = next(each for each in cases() if each.name == "HiDream-E1 float32")
    source = arguments.corpus / case.source
    absent = [name for name in case.packages if importlib.util.find_spec(name) is None]
    if not source.is_dir() or absent:
        print(f"skipped: {', '.join(absent) + ' not installed' if absent else f'{source} is not there'}")
        return 0
    print("| program | faults | red gates | wrong |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        root = arguments.keep or Path(name)
        original = root / "original"
        shutil.copytree(source, original, ignore=shutil.ignore_patterns(".git"))
        assert case.prepare is not None
        case.prepare(root / "made")
        shutil.copytree(root / "made", original, dirs_exist_ok=True)
        edit_files(original, case.edits)
        reference = root / "reference"
        shutil.copytree(original, reference)
        edit_files(reference, case.reference or ())
        ran(reference, sys.executable, SCRIPT)
        wrong = judged(case, original, reference / "results", arguments.target, "none", "", (), ())
        memory = ("--only", "memory")
        wrong += judged(case, original, reference / "results", arguments.target, LONGER, "", LONG, memory)
        for fault, (gate, edits, options) in FAULTS.items():
            wrong += judged(case, original, reference / "results", arguments.target, fault, gate, edits, options)
    return 1 if wrong else 0


def judged(
    case: Case,
    original: Path,
    reference: Path,
    target: str,
    fault: str,
    gate: str,
    edits: Iterable[Edit],
    options: tuple[str, ...],
) -> int:
    """Migrate a copy with a fault planted and judge it; return 1 where the gates are not as they have to be."""
    root = original.with_name("-".join(["migrated", *fault.split()]))
    shutil.copytree(original, root)
    edit_files(root, edits)
    shutil.copytree(reference, root / "reference")
    text = FILE.replace("PYTHON", sys.executable)
    if gate.startswith("documents"):
        text = text.replace('./inference_e1_1.py"]', './absent.py"]')
    (root / "torchferry.accept.toml").write_text(text, encoding="utf-8")
    ran(root, sys.executable, "-m", "torchferry", "migrate", ".", "-t", target, "-q", codes=(0, 1))
    ran(root, sys.executable, "-m", "torchferry", "accept", "--rehearse", "-t", target, *options, codes=(0, 1))
    found = evidence.read(root / "evidence")
    red = [each["gate"] for each in found["gates"] if each["status"] == "red"]
    return shown(case.name, [fault] if gate else [], {gate} - {""}, red)


if __name__ == "__main__":
    sys.exit(main())
