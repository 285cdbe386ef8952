"""A front end that answers as a vendor's does, in a wheel of a few kilobytes: what it says stands in the kernel.

`tl.act("refuse")` is refused at its line, `tl.act("crash")` ends the compiler with a signal unless it is asked to be
calm, `tl.act("hang")` never ends; a block of more than 1024 elements overflows.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import zipfile
from pathlib import Path

from torchferry.backends.triton_front_end import CoreKind, CoreMemory, FrontEnd, FrontEndArch, FrontEndWheel
from torchferry.backends.triton_target import TritonTarget
from torchferry.core.messages import Bilingual

FILES = {
    "triton/__init__.py": """
import unneeded_here
__version__ = "1.0"
from .runtime.jit import JITFunction
from . import language
def jit(fn=None, **options):
    return JITFunction(fn) if fn is not None else jit
def cdiv(x, y): return -(-x // y)
""",
    "triton/language/__init__.py": """
class dtype:
    def __init__(self, name): self.name = name
class constexpr:
    def __init__(self, value): self.value = value
float16, float32 = dtype("fp16"), dtype("fp32")
def act(what): pass
def load(x): pass
""",
    "triton/language/present.py": "def rsqrt(x): pass\n",
    "triton/runtime/__init__.py": """
class Drivers:
    active = None
    def set_active(self, active): self.active = active
driver = Drivers()
""",
    "triton/runtime/jit.py": """
import ast, inspect, json, os, re, shutil, subprocess, sys, textwrap
from . import driver
class CompilationError(Exception):
    def __init__(self, src, node, message):
        super().__init__(message)
        self.src, self.node, self.error_message = src, node, message
class StageError(Exception):
    def __init__(self, stage, message):
        super().__init__(message)
        self.stage_name = stage
class Binary:
    def __init__(self, core, text): self.metadata, self.asm = type("M", (), {"core": core}), {"linalg": text}
class JITFunction:
    def __init__(self, fn):
        self.fn, self.cache = fn, {}
        source = textwrap.dedent(inspect.getsource(fn))
        self.src = source[re.search(r"^def ", source, re.MULTILINE).start():]
    def called(self):
        for node in ast.walk(ast.parse(self.src)):
            if isinstance(node, ast.Call):
                value = self.fn.__globals__.get(getattr(node.func, "id", ""))
                if isinstance(value, JITFunction):
                    yield value
    def run(self, grid, warmup, **given):
        from ..backends import backends
        active = driver.active
        assert active.get_current_target().arch == "Acme-X1" and backends["acme"].compiler.library() == "Acme-X1"
        print("[WARNING] num_warps has no effect")
        missing = [name for name in inspect.signature(self.fn).parameters if name not in given]
        if missing:
            raise TypeError("missing: %s" % missing)
        for name in given:
            if name not in inspect.signature(self.fn).parameters and name != "num_warps":
                raise KeyError("Keyword argument %s was specified but unrecognised" % name)
        path, first = self.fn.__code__.co_filename, self.fn.__code__.co_firstlineno
        for function in (self, *self.called()):
            for node in ast.walk(ast.parse(function.src)):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "act":
                    if node.args[0].value == "refuse":
                        raise CompilationError(function.src, node, "ValueError('this is refused')")
                    if node.args[0].value == "raise":
                        raise RuntimeError("a failure of its own")
        with open("kernel", "w") as file:
            mode = next((word for word in ("crash", "die", "hang") if repr(word) in self.src), "ok")
            json.dump([mode, given.get("BLOCK", 1)], file)
        done = subprocess.run([shutil.which("acme-compile"), "kernel", "-o", "out"], capture_output=True, text=True)
        if done.returncode:
            text = done.stderr.replace("HERE", '"%s":%d:0' % (path, first))
            raise StageError("Codegen", text)
        if not os.path.exists("out.o"):
            raise StageError("Codegen", "error: the last stage is missing")
        text = '#loc1 = loc("%s":%d:4)\\n  {ByElement} loc(#loc1)\\n' % (path, first + 2)
        return Binary("v", text if "load" in self.src else "")
""",
    "triton/backends/__init__.py": """
from .acme import Compiler
class Backend:
    compiler = Compiler
backends = {"acme": Backend}
""",
    "triton/backends/acme.py": """
class AcmeUtils:
    def __init__(self): raise RuntimeError("no card")
class Compiler:
    def add_stages(self): pass
    @staticmethod
    def library(): return AcmeUtils().get_arch()
""",
    "triton/backends/compiler.py": """
class GPUTarget:
    def __init__(self, backend, arch, warp_size): self.backend, self.arch, self.warp_size = backend, arch, warp_size
""",
    "acme/bin/acme-compile": """#!/bin/sh
case "$1" in --help) exit 0;; esac
calm=; report=
while [ "${1#--}" != "$1" ]; do [ "$1" = --calm ] && calm=1; [ "$1" = --report ] && report=1; shift; done
case "$(cat "$1")" in
*hang*) sleep 300;;
*die*) echo "Stack dump:" >&2; exit 139;;
*crash*) [ -z "$calm" ] && { echo "Stack dump:" >&2; exit 139; };;
*", 4096]"*) echo 'loc(HERE): error: pipeline failed' >&2
   echo 'loc(HERE): error: ub overflow, requires 9 bits while 8 bits available!' >&2; exit 1;;
esac
acme-codegen "$1" -o out || exit 1
[ -z "$report" ] && exit 0
cat > memory1.json <<END
{"Record": [{"scope": "ub", "memory_info_array": [{"extent": 8192, "offset": [0, 1024]}]}]}
END
""",
    "acme/bin/left-out": "not needed\n",
}
"""What the wheel holds."""


def write_wheel(folder: Path, files: dict[str, str] = FILES, name: str = "acme_triton-1.0-py3-none-any.whl") -> Path:
    """Write the wheel, the same bytes each time."""
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return path


def front_end(wheel: Path, **changes: object) -> FrontEnd:
    """Return what is known of the front end in a wheel."""
    data = wheel.read_bytes()
    described = FrontEndWheel(
        wheel.name,
        "acme-triton==1.0",
        hashlib.sha256(data).hexdigest(),
        len(data),
        sum(map(len, FILES.values())),
        platform.machine(),
        (f"{sys.version_info.major}.{sys.version_info.minor}",),
    )
    known = FrontEnd(
        title="acme-triton 1.0",
        up_to=Bilingual("the memory plan"),
        back_end="acme",
        source="a test",
        archs=(FrontEndArch("Acme-X1", ("X1",)),),
        memories=(CoreMemory("ub", "UB", 4096),),
        cores=(CoreKind("v", Bilingual("vector cores")),),
        wheels=(described,),
        card_library="AcmeUtils",
        unneeded_modules=("unneeded_here",),
        compiler="acme/bin/acme-compile",
        options=("--report",),
        calm_options=("--calm",),
        probes=("--help",),
        closed_stage="acme-codegen",
        closed_version="acme-codegen 1.0",
        programs=("acme/bin/acme-compile",),
        left_out=("acme/bin/left-*",),
        memory_files="memory*.json",
        elements_stage="linalg",
        elements_mark="ByElement",
        core_key="core",
        refusals=("error: ",),
        noise=("pipeline failed",),
        overflow="overflow, requires",
    )
    return known._replace(**changes)  # type: ignore[arg-type]


TARGET = TritonTarget("acme", "Acme-X1", 0, {}, "a test")
