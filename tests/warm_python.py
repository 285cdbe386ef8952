"""Pythons that run programs with what they import imported already: forked from a process that has done nothing else.

`python()` and `ferry()` return the path of an executable that takes a script, `-m MODULE` or `-c CODE`, as Python does.
Tests put it in the place of Python, where their subject is what comes after the imports, which take most of the time of
a small program: `python()` where it imports torch (`torchferry rehearse -- PYTHON train.py`), `ferry()` where it is
torchferry itself (`FERRY -m torchferry scan`).

For a program of `python()`, torch is not there until it imports it. Then torch loads the backends that are installed,
as at the end of a real import: that is when a rehearsal, the redirect and the tools for numbers begin. What torch reads
from the environment while it is imported has no effect, and modules that it imports are there.

`ferry()` has torchferry's modules, and not torch: a table or a regular expression is read and compiled by each program.
Programs that it starts by `sys.executable` have the Python of the tests. Its streams are those of LC_ALL=C.UTF-8.

The program has a session of its own; it ends with the executable, which passes signals on to it. All programs of one
executable have the same seed of hashes.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torchferry
from torchferry.core import torch_start

PATHS = [str(Path(__file__).parent.parent), str(Path(torchferry.__file__).parent.parent)]
"""Where a server finds the tests, and the torchferry that they test."""

_SERVER = f"""
import sys
sys.path[:0] = {PATHS!r}
from tests.warm_python import import_{{imported}}, serve
del sys.path[:2]
import_{{imported}}()
serve(sys.argv[1])
"""
_IN_PROGRAMS = ("rehearsal", "shim", "numerics")
"""Not `profiling`: it imports what asks for the device, which a program of a test has to do itself."""

_OF_COMMANDS = (
    "core", "source", "backends", "rules", "programs", "migration", "report", "kernels", "doctor", "deploy", "handover",
    "cli",
)  # fmt: skip
_BEGIN_WHEN_IMPORTED = ("__main__", "auto", "pytest_plugin")
_CLIENT = """\
#!{python} -IS
import array, json, os, signal, socket, sys
passed_on = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)  # until there is who passes them on
request = [sys.argv, dict(os.environ), os.getcwd()]
text = json.dumps(request).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
passed = array.array("i", [0, 1, 2])
server.sendmsg([len(text).to_bytes(8, "little")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
server.sendall(text)
for number in passed_on:
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, frame: server.sendall(bytes([number])))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
answer = server.recv(4)
status = int.from_bytes(answer, "little", signed=True) if answer else 1
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def python() -> str:
    """Return the path of the executable that has torch; the process behind it is started once, and ends with this one.

    Where the kernel has no descriptors of processes, it is the Python of the tests.
    """
    return _executable("torch")


def ferry() -> str:
    """Return the path of the executable that has torchferry's modules, as `python` does."""
    return _executable("torchferry")


def import_torch() -> None:
    """Import what a program that uses torch does, and what torchferry has in such a program."""
    importlib.import_module("torch")
    importlib.import_module("torch._dynamo")  # as every optimizer does
    importlib.import_module("torch._inductor.compile_fx")  # as every compiled function does
    importlib.import_module("torch.distributed.run")
    _import_all(_IN_PROGRAMS)


def import_torchferry() -> None:
    """Import the commands and what they import when they are used; nothing of it imports torch."""
    _import_all(_OF_COMMANDS)


def _import_all(packages: Sequence[str]) -> None:
    for name in packages:
        package = importlib.import_module(f"torchferry.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2] not in _BEGIN_WHEN_IMPORTED:
                importlib.import_module(module.name)


@functools.cache
def _executable(imported: str) -> str:
    """Start the server of an executable, and return its path."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return sys.executable
    folder = tempfile.TemporaryDirectory(prefix="warm-python-")
    path, executable = f"{folder.name}/socket", Path(folder.name, "python")
    executable.write_text(_CLIENT.format(python=sys.executable, path=path), encoding="utf-8")
    executable.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER.format(imported=imported), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **_plain_environment(),
            "OMP_NUM_THREADS": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "LC_ALL": "C.UTF-8",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else it starts processes when it is imported
        },
        start_new_session=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def stop() -> None:
        assert server.stdin is not None
        server.stdin.close()  # the server ends what it has started, and itself
        server.wait()
        folder.cleanup()

    atexit.register(stop)
    return str(executable)


def instead(command: Iterable[object]) -> list[str]:
    """Return a command with `python()` in the place of `python`, of the Python of the tests, and of `torchrun`.

    The Python of the tests is `ferry()` where it runs torchferry, and stays where it runs a module of it.
    """
    words = [str(word) for word in command]
    warm: list[str] = []
    for number, word in enumerate(words):
        if word == "torchrun":
            warm += [python(), "-m", "torch.distributed.run"]
        elif word in ("python", sys.executable):
            module = words[number + 2] if words[number + 1 : number + 2] == ["-m"] else ""
            own = ferry() if module == "torchferry" and word == sys.executable else word
            warm.append(own if module.partition(".")[0] == "torchferry" else python())
        else:
            warm.append(word)
    return warm


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TORCH"))}


def share() -> None:
    """Let forks leave alone what was imported: to look it through, or to take it apart, copies its pages."""
    gc.collect()
    gc.freeze()
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # of torch's libraries of operators
        finalizer.atexit = False


def serve(path: str) -> None:
    """Fork for each program that is asked for, until standard input ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    share()
    print("ready", flush=True)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ, None)
    waiting.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
    processes: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the process

    def gone(descriptor: int) -> None:
        process, client = processes.pop(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        waiting.unregister(descriptor)
        os.close(descriptor)
        if client.fileno() >= 0:
            waiting.unregister(client)
            with contextlib.suppress(OSError):  # who asked was killed
                client.sendall(status.to_bytes(4, "little", signed=True))
            client.close()

    while True:
        for key, _ in waiting.select():
            if key.fd == sys.stdin.fileno():
                for process, _ in processes.values():
                    os.killpg(process, signal.SIGKILL)
                os._exit(0)
            if key.fileobj is listener:
                client, _ = listener.accept()
                process = _start(client)
                descriptor = os.pidfd_open(process)
                processes[descriptor] = process, client
                waiting.register(descriptor, selectors.EVENT_READ, None)
                waiting.register(client, selectors.EVENT_READ, process)
            elif isinstance(key.fileobj, socket.socket):
                try:
                    numbers = key.fileobj.recv(64)
                except OSError:
                    numbers = b""
                for number in numbers or [signal.SIGKILL]:
                    os.kill(key.data, number)
                if not numbers:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()
            elif key.fd in processes:
                gone(key.fd)


def _start(client: socket.socket) -> int:
    """Fork for a program, and return the process."""
    head, given, _, _ = client.recvmsg(8, socket.CMSG_SPACE(3 * 4))
    descriptors = array.array("i", given[0][2])
    size = int.from_bytes(head, "little")
    text = b""
    while len(text) < size:
        text += client.recv(size - len(text))
    process = os.fork()
    if process == 0:
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        arguments, environment, folder = json.loads(text)
        _become(arguments, environment, folder)
    for descriptor in descriptors:
        os.close(descriptor)
    return process


class _TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets `import torch` find the torch that is there, and then what torch does last."""

    def __init__(self, torch: types.ModuleType) -> None:
        self._torch = torch
        self._spec = torch.__spec__

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._torch

    def exec_module(self, module: types.ModuleType) -> None:
        assert self._spec is not None
        module.__spec__, module.__loader__ = self._spec, self._spec.loader
        module.__path__ = list(self._spec.submodule_search_locations or ())
        if not hasattr(module, "_import_device_backends"):  # before torch 2.5
            if str(torch_start.SITE) in sys.path:
                runpy.run_path(str(torch_start.SITE / "sitecustomize.py"))["begin"](module)
        elif module._is_device_backend_autoload_enabled():
            module._import_device_backends()


def _become(arguments: Sequence[str], environment: dict[str, str], folder: str) -> NoReturn:
    executable, *options = arguments
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    with_torch = "torch" in sys.modules
    if with_torch:
        importlib.import_module("numpy").random.seed()
        sys.executable = executable
    sys.orig_argv = [executable, *options]
    is_unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    if options[0] == "-u":
        del options[0]
        is_unbuffered = True
    if is_unbuffered:
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            raw: Any = io.FileIO(descriptor, "w")  # no buffer at all, as Python has it
            stream = io.TextIOWrapper(raw, "utf-8", getattr(sys, name).errors, write_through=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    way = options[0]
    first = "" if way in ("-c", "-") else os.getcwd() if way == "-m" else os.path.dirname(os.path.abspath(way))
    sys.path[:] = [first, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *sys.path[1:]]
    sys.path_importer_cache.clear()
    if with_torch:
        sys.meta_path.insert(0, _TorchFinder(sys.modules.pop("torch")))
    status = 0
    try:
        if way == "-m":
            sys.argv = options[1:]
            runpy._run_module_as_main(options[1])  # type: ignore[attr-defined]
        else:
            sys.argv = options if way != "-c" else ["-c", *options[2:]]
            if way == "-c":
                code = compile(options[1], "<string>", "exec")
            elif way == "-":
                code = compile(sys.stdin.buffer.read(), "<stdin>", "exec")
            else:
                file = os.path.abspath(way)
                main.__file__, main.__cached__ = file, None  # type: ignore[attr-defined]
                main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
                code = compile(Path(file).read_bytes(), file, "exec")
            exec(code, vars(main))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (_NO_FILE, runpy.__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
        sys.excepthook(sys.last_type, error, trace)
        status = 1
    # What Python does at its end, but for taking apart the modules that all forks share.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


_NO_FILE = "<warm python>"
# A rehearsal reads the files of all functions that wait, for who catches what the program raises: nobody does, here.
_become.__code__ = _become.__code__.replace(co_filename=_NO_FILE)
