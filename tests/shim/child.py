"""Run small programs under the redirect, all in this process, and print what each one printed, as JSON.

Standard input has a JSON list of programs. Each is a module of its own that is nobody's library.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import random
import sys
import warnings
from types import ModuleType


def run(code: str) -> str:
    """Return what a program prints, and the error that ends it."""
    module = sys.modules["program"] = ModuleType("program")
    module.__file__ = "program.py"  # scripts and exports look for the source of what they compile
    linecache.cache["program.py"] = (len(code), None, code.splitlines(keepends=True), "program.py")
    written = io.StringIO()
    with contextlib.redirect_stdout(written), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            exec(compile(code, "program.py", "exec"), module.__dict__)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        for warning in seen:
            if "torchferry" in str(warning.message):
                print(f"warning at line {warning.lineno if warning.filename == 'program.py' else warning.filename}")
    return written.getvalue().strip()


def main() -> None:
    """Run the programs of standard input."""
    import torch

    from torchferry.shim import enable

    programs = json.load(sys.stdin)
    torch.set_num_threads(1)
    random.seed(0)
    redirect = enable("auto")
    results = [run(code) for code in programs]
    redirect.disable()
    print("RESULTS" + json.dumps(results))


if __name__ == "__main__":
    main()
