"""Python processes that begin with torch and torchferry imported: forked from one that has done nothing else.

A process that imports torch by itself takes some seconds until its first line. Tests whose subject is what comes after,
and which set nothing that torch reads while it is imported, need not wait for that each time.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.processes import HANGS
from tests.warm_python import PATHS, share

_SERVER = f"""
import sys
sys.path[:0] = {PATHS!r}
from tests import warm_python
from tests.warm import serve
del sys.path[:2]
warm_python.import_torch()
warm_python.import_torchferry()
serve()
"""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_server: list[subprocess.Popen[str]] = []


def run(
    source: str,
    *,
    environments: Sequence[dict[str, str]],
    arguments: Sequence[str] = (),
    timeout: float = HANGS,
) -> list[subprocess.CompletedProcess[str]]:
    """Run `python -c source` in a process for each environment, all at the same time.

    Args:
        source: Python.
        environments: All variables of each process. What torch reads while it is imported has no effect.
        arguments: What follows `-c source`.
        timeout: Seconds after which the processes are killed.

    Raises:
        subprocess.TimeoutExpired: the processes did not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = {"source": source, "arguments": list(arguments), "environments": list(environments), "folder": folder}
        statuses = _ask(request, timeout)
        return [
            subprocess.CompletedProcess(
                ["python", "-c", source],
                status,
                *(Path(folder, f"{name}{n}").read_text(encoding="utf-8") for name in ("out", "err")),
            )
            for n, status in enumerate(statuses)
        ]


def _ask(request: dict[str, Any], timeout: float) -> list[int]:
    if not _server:
        _server.append(
            subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        atexit.register(_stop)
    server = _server[0]
    assert server.stdin is not None
    assert server.stdout is not None
    print(json.dumps(request), file=server.stdin, flush=True)
    if not select.select([server.stdout], [], [], timeout)[0]:
        _stop()
        raise subprocess.TimeoutExpired(request["source"], timeout)
    statuses: list[int] = json.loads(server.stdout.readline())
    return statuses


def _stop() -> None:
    """End the server, and with it whatever it started."""
    while _server:
        server = _server.pop()
        os.killpg(server.pid, 9)
        server.wait()


def serve() -> None:
    """Fork for each request, and answer with how the forks ended."""
    share()
    for line in sys.stdin:
        request = json.loads(line)
        processes = []
        for number, environment in enumerate(request["environments"]):
            process = os.fork()
            if process == 0:
                _become(request, number, environment)
            processes.append(process)
        print([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes], flush=True)


def _become(request: dict[str, Any], number: int, environment: dict[str, str]) -> NoReturn:
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(Path(request["folder"], f"{name}{number}"), _NEW, 0o600) for name in ("out", "err")]
    for descriptor, file in enumerate(opened):
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["-c", *request["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status = 0
    try:
        exec(compile(request["source"], "<string>", "exec"), vars(main))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    # What Python does at its end, but for taking apart the modules that all forks share.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
