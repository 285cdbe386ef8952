# ruff: noqa: E501 - tables
"""How the processor time of commands grows with the length of a file: kinds of files, full of what readers dread.

`make growth` measures user and system time of a process that examines files of 20, 40 and 80 kB and 1 MB, one after the
other, and fits the exponent of the growth: 1 is linear, 2 is the square. What start-up takes is not counted: the process
has examined a small file of the kind before. The tool fails on an exponent above `--limit` where the largest file takes
more than `--floor` seconds; below that the clock says little. What takes longer than `--stop` seconds is stopped, which
ends the row and fails it: the time stop decides that a row is red, and no verdict of torchferry.

    python benchmarks/growth.py [--command scan|migrate|port ...] [--kind NAME ...] [--filler NAME ...] [--sizes 20,40,80,1000]
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PYTHON = "import torch\ntorch.cuda.init()\n"
CELL = '{{"cells": [{{"cell_type": "code", "metadata": {{}}, "outputs": [], "source": {0}}}], "metadata": {{}}, "nbformat": 4}}'


def notebook(text: str) -> str:
    """Return a notebook with one cell."""
    return CELL.format(json.dumps([f"{line}\n" for line in (PYTHON + text).split("\n")]))


KINDS: dict[str, tuple[str, Callable[[str], str]]] = {
    # kind: name of the file, and its text around what it is full of
    "python": ("a.py", lambda text: f"{PYTHON}{text}\n"),
    "python comment": ("a.py", lambda text: f"{PYTHON}# {text}\n"),
    "python string": ("a.py", lambda text: f"{PYTHON}x = {text!r}\n"),
    "python command": ("a.py", lambda text: f"{PYTHON}import os\nos.system({text!r})\n"),
    "python import": ("a.py", lambda text: f"{PYTHON}from torch.cuda import ({text}\n"),
    "notebook": ("a.ipynb", notebook),
    "notebook shell": ("a.ipynb", lambda text: notebook("!python a.py --device cuda " + text)),
    "notebook raw": ("a.ipynb", lambda text: '{"cells": [{"cell_type": "code", "source": ["x.cuda()' + text),
    "shell": ("a.sh", lambda text: f"export CUDA_VISIBLE_DEVICES=0 {text}\n"),
    "shell lines": ("a.sh", lambda text: f"python a.py --device cuda\n{text}\n"),
    "makefile": ("Makefile", lambda text: f"all:\n\tCUDA_VISIBLE_DEVICES=0 python a.py {text}\n"),
    "requirements": ("requirements.txt", lambda text: f"torch==2.1+cu118\ncupy-cuda12x{text}\n"),
    "setup.cfg": ("setup.cfg", lambda text: f"[options]\ninstall_requires =\n  cupy-cuda12x\n  {text}\n"),
    "pyproject": ("pyproject.toml", lambda text: f'[project]\ndependencies = ["cupy-cuda12x", {text}\n'),
    "conda": ("environment.yml", lambda text: f"dependencies:\n  - pytorch-cuda=12\n  - {text}\n"),
    "yaml": ("a.yaml", lambda text: f"device: cuda\nrun: {text}\n"),
    "yaml block": ("a.yaml", lambda text: f"device: cuda\nrun: |\n  {text}\n"),
    "json": ("a.json", lambda text: f'{{"device": "cuda", "x": {text}'),
    "json string": ("a.json", lambda text: f'{{"device": "cuda", "x": {json.dumps(text)}, }}'),
    "toml": ("a.toml", lambda text: f'device = "cuda"\nx = {text}\n'),
    "dockerfile": ("Dockerfile", lambda text: f"FROM nvidia/cuda:12\nRUN {text}\n"),
    "dockerfile exec": ("Dockerfile", lambda text: f'FROM nvidia/cuda:12\nCMD ["python", {text}\n'),
    "compose": ("compose.yaml", lambda text: f"services:\n  a:\n    image: nvidia/cuda\n    command: {text}\n"),
    "markdown": ("README.md", lambda text: f"cuda\n```bash\npython a.py --device cuda {text}\n```\n{text}\n"),
    "kernel": ("a.cu", lambda text: f"#include <cuda_runtime.h>\n__global__ void f(int *a) {{ a[0] = 1; }}\n{text}\n"),
    "kernel body": ("a.cu", lambda text: f"__global__ void f(int *a) {{ {text} }}\nvoid g() {{ f<<<1, 1>>>(0); }}\n"),
    "c++": ("a.cpp", lambda text: f'#include <cuda_runtime.h>\nint x = 1; // "cuda"\n{text}\n'),
    "header": ("cudaheader", lambda text: f"#include <cuda_runtime.h>\n{text}\n"),
    "cmake": ("CMakeLists.txt", lambda text: f"project(x CUDA)\nfind_package(CUDA)\n{text}\n"),
    "cmake argument": ("CMakeLists.txt", lambda text: f"project(x CUDA)\nset(A {text}\n"),
    "manifest": ("MANIFEST.in", lambda text: f"include a.cu {text}\n"),
    "meson": ("meson.build", lambda text: f"project('x', 'cuda', {text}\n"),
    "bazel": ("BUILD", lambda text: f'cuda_library(name = "{text}\n'),
    "setup.py": (
        "setup.py",
        lambda text: (
            "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
            f"setup(ext_modules=[CUDAExtension('a', ['a.cu'], extra_compile_args={text!r})])\n"
        ),
    ),
    "gitignore": (".gitignore", lambda text: f"{text}\n"),
    "gitmodules": (".gitmodules", lambda text: f'[submodule "a"]\npath = {text}\nurl = {text}\n'),
    "settings": ("torchferry.toml", lambda text: f'target = "npu"\nignore = [{text}\n'),
}

FILLERS: dict[str, str] = {
    "a": "a", "A": "A", "0": "0", "_": "_", "space": " ", "tab": "\t", "newline": "\n", "carriage return": "\r",
    "CRLF": "\r\n", "NUL": "\0", "é": "é", "combining": "e\u0301", "wide": "模", "astral": "😀", "line separator": "\u2028",
    "form feed": "\f", "dot": ".", "comma": ",", "colon": ":", "semicolon": ";", "minus": "-", "plus": "+", "equals": "=",
    "star": "*", "slash": "/", "backslash": "\\", "bar": "|", "ampersand": "&", "hash": "#", "percent": "%", "at": "@",
    "exclamation": "!", "question": "?", "tilde": "~", "caret": "^", "grave": "`", "dollar": "$", "less": "<",
    "greater": ">", "single quote": "'", "double quote": '"', "open (": "(", "open [": "[", "open {": "{", "close )": ")",
    "close ]": "]", "close }": "}",
    "cuda": "cuda", "nccl": "nccl", "cuda word": "cuda ", "cuda comma": '"cuda", ', "cuda colon": "cuda:0,",
    "backslash quote": '\\"', "backslash newline": "\\\n", "comment open": "/*", "comment line": "//", "$(": "$(",
    "${": "${", "{{": "{{", "[[": "[[", "((": "((", "<<": "<<", "<a": "<a", "a.": "a.", "a-": "a-", "a/": "a/", "a,": "a,",
    "a=": "a=", "a:": "a: ", "a space": "a ", "a newline": "a\n", "a(": "a(", "a(,": "a(a,", "#a newline": "#a\n",
    "indented": " a\n", "list": "- a\n", "nested list": "- ", "key": "a: b\n", "flow": "{a: ", "here document": "<<E\n",
    "#if": "#if A\n", "#define": "#define A B\\\n", "if(": "if(A)\n", "import": "import torch\n", "from": "from a import (\n",
    "from spaces": "from  ", "call": "x.cuda()\n", "calls": "x.cuda(); ", "chain": ".cuda()", "device": "x.to('cuda')\n",
    "assign": "d = d\n", "kernel": "__global__ ", "launch": "f<<<1,1>>>();", "template": "template<", "fence": "```\n",
    "ignore comment": "# torchferry: ignore[", "wheel": "-1-", "url": "http://", "triple": '"""', "stars": "*a", "**/": "**/",
}  # fmt: skip

COMMANDS = {
    "scan": ["scan", "{root}", "--target", "npu", "--jobs", "1", "--quiet"],
    "migrate": ["migrate", "{root}", "--target", "npu", "--jobs", "1", "--diff"],
    "port": ["port", "{root}", "--target", "npu", "--diff"],
}


class Row(NamedTuple):
    """What one kind, filler and command took.

    Attributes:
        command: The command.
        kind: The kind of file.
        filler: What it is full of.
        seconds: Processor time for each size.
        exponent: How it grows, from the sizes that take more than the floor.
        stopped: Whether the largest one was stopped.
    """

    command: str
    kind: str
    filler: str
    seconds: dict[int, float]
    exponent: float
    stopped: bool


class _StopError(BaseException):
    """The time for one file has passed; not an `Exception`, so that nothing catches it."""


def worker(command: str, kind: str, fillers: list[str], sizes: list[int], stop: float) -> None:
    """Measure the fillers of one kind in this process, and print a line of JSON for each."""
    from torchferry.cli import main

    def run(root: Path) -> None:
        arguments = [each.format(root=root) for each in COMMANDS[command]]
        printed = io.TextIOWrapper(io.BytesIO())  # a diff is printed as bytes
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            sys.argv = ["torchferry", *arguments]
            with contextlib.suppress(SystemExit):
                main()

    def ended(number: int, frame: object) -> None:
        raise _StopError

    signal.signal(signal.SIGPROF, ended)
    name, around = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="torchferry-growth-") as folder:
        root = Path(folder, "project")

        def measure(text: str) -> float:
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir()
            root.joinpath("main.py").write_text(PYTHON)
            root.joinpath(name).write_text(around(text), encoding="utf-8", newline="")
            gc.collect()  # a command collects no garbage
            start = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, stop)
            try:
                run(root)
            except _StopError:
                return math.inf
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            return time.process_time() - start

        for filler in fillers:
            base = min(measure(FILLERS[filler]) for _ in range(2))
            seconds: dict[int, float] = {}
            for size in sizes:
                count = size * 1000 // len(FILLERS[filler].encode())
                taken = measure(FILLERS[filler] * count)
                seconds[size] = max(taken - base, 0.0)
                if math.isinf(taken):
                    break
            print(json.dumps([filler, seconds]), flush=True)


def exponent(seconds: dict[int, float], floor: float) -> float:
    """Return the slope between the first size that takes more than a tenth of the floor and the last one."""
    points = [(size, taken) for size, taken in seconds.items() if taken > floor / 10 and not math.isinf(taken)]
    if len(points) < 2 or points[-1][1] < floor:
        return 0.0
    (first, least), (last, most) = points[0], points[-1]
    return math.log(most / least) / math.log(last / first)


def rows(options: argparse.Namespace, sizes: list[int]) -> Iterator[Row]:
    """Measure all: a process for each command and kind."""
    for command in options.command:
        for kind in options.kind:
            call = [
                sys.executable,
                __file__,
                "--worker",
                command,
                kind,
                json.dumps([options.filler, sizes, options.stop]),
            ]
            child = subprocess.run(call, capture_output=True, text=True, check=False)
            lines = child.stdout.splitlines()
            if child.returncode or len(lines) != len(options.filler):
                raise SystemExit(
                    f"{command} of {kind}: the process ended with {child.returncode}\n{child.stderr[-2000:]}"
                )
            for line in lines:
                filler, taken = json.loads(line)
                seconds = {int(size): each for size, each in taken.items()}
                stopped = any(math.isinf(each) for each in seconds.values())
                yield Row(command, kind, filler, seconds, exponent(seconds, options.floor), stopped)


def main() -> int:
    """Measure, print the rows with the largest exponents, and fail where one is above the limit."""
    if sys.argv[1:2] == ["--worker"]:
        command, kind, rest = sys.argv[2:5]
        worker(command, kind, *json.loads(rest))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--filler", action="append", choices=FILLERS)
    parser.add_argument("--sizes", default="20,40,80,1000", help="kilobytes")
    parser.add_argument("--limit", type=float, default=1.3, help="exponent above which a row is red")
    parser.add_argument("--floor", type=float, default=0.25, help="seconds below which a row says nothing")
    parser.add_argument("--stop", type=float, default=60.0, help="seconds of the processor for one file")
    parser.add_argument("--show", type=int, default=25, help="rows to print")
    options = parser.parse_args()
    options.command = options.command or list(COMMANDS)
    options.kind = options.kind or list(KINDS)
    options.filler = options.filler or list(FILLERS)
    sizes = [int(size) for size in options.sizes.split(",")]
    measured = list(rows(options, sizes))
    measured.sort(key=lambda row: (row.stopped, row.exponent, max(row.seconds.values())), reverse=True)
    red = [row for row in measured if row.stopped or row.exponent > options.limit]
    print(f"{'command':8} {'kind':16} {'full of':18} {'exponent':>8}  " + "  ".join(f"{size} kB" for size in sizes))
    for row in measured[: max(options.show, len(red))]:
        taken = "  ".join("stopped" if math.isinf(each) else f"{each:.2f}" for each in row.seconds.values())
        print(f"{row.command:8} {row.kind:16} {row.filler:18} {row.exponent:8.2f}  {taken}")
    print(f"{len(measured)} rows, {len(red)} above {options.limit} or stopped")
    return 1 if red else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
