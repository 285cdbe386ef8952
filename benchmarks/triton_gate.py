"""What a vendor's front end says of small kernels, against what is expected of each: `make triton`.

It needs the front end, which is fetched where it is not in the cache; where it cannot be had, the benchmark says so and
ends with 0. Each kernel of `benchmarks/triton_kernels.py` has its signature and what is expected in its docstring.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KERNELS = Path(__file__).with_name("triton_kernels.py")


def expectations() -> dict[str, tuple[str, str]]:
    """Return the signature of each kernel, and what is expected of it."""
    expected = {}
    for node in ast.parse(KERNELS.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            signature, _, wanted = (ast.get_docstring(node) or "").rstrip(".").partition(" -> ")
            expected[node.name] = signature, wanted
    return expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--wheels", default="", help="a folder with the wheels of the front end")
    chosen = parser.parse_args()
    expected = expectations()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, "-m", "torchferry", "triton", "check", "-t", chosen.target, str(KERNELS)]
        command += ["-f", "json", "-o", str(result)]
        for name, (signature, _) in expected.items():
            command += ["--signature", f"{name}: {signature}"]
        if chosen.wheels:
            command += ["--wheels", chosen.wheels]
        begun = time.monotonic()
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if not result.is_file():
            print(f"skipped: {done.stderr.strip()}")
            return 0
        document = json.loads(result.read_text(encoding="utf-8"))
    wrong = 0
    for kernel in document["kernels"]:
        case = kernel["cases"][0]
        got = case["state"] + (", slow" if case["one_element_at_a_time"] else "")
        got += ", in doubt" if kernel["doubts"] else ""
        wanted = expected[kernel["kernel"]][1]
        wrong += got != wanted
        mark = " " if got == wanted else "x"
        print(
            f"{mark} {kernel['kernel']:<18} {got:<22} {case['message'][:90]}",
            f"(wanted: {wanted})" if got != wanted else "",
        )
    kernels = len(document["kernels"])
    beside = max(0.0, time.monotonic() - begun - document["compiler_seconds"])
    print(
        f"{kernels} kernels, {wrong} otherwise than expected; {document['compiler_seconds']:.1f} s of the compiler, "
        f"at most {beside / kernels:.2f} s a kernel beside it"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
