"""Compiles Triton kernels with a vendor's own front end: run by a Python that the front end has wheels for.

It is a file that any Python from 3.9 on runs, without torchferry: it reads a request as one line of JSON and answers
with one line for each case. Each case is compiled in its own fork, so that one that crashes or never ends takes no
other with it. What a kernel is made of comes as text, cut from the project's files line by line; the project itself is
imported only where the request says so.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import importlib
import json
import linecache
import os
import re
import select
import shutil
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

Document = dict[str, Any]

_CALM = "TORCHFERRY_CALM_COMPILER"
"""Set for another attempt after a crash: the script in front of the compiler then gives it further arguments."""

_LONGEST = 1000
"""Characters of a message."""

_UNKNOWN = {"i32": 1000003, "i64": (1 << 40) + 1, "u64": (1 << 63) + 1, "fp32": 0.5, "i1": True}
"""Values for scalars of which the type alone is known: none that Triton would compile a kernel of its own for."""

_POSITION = re.compile(r'"([^"]+)":(\d+):\d+')
_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$", re.MULTILINE)
_LABEL = re.compile(r"#loc\d*\b")
_RAISED = re.compile(r"(?s)\w*(?:Error|Exception)\((['\"])(.*)\1\)")
_WARNING = re.compile(r"^\[WARNING\]\s*(.+)$", re.MULTILINE)


class Tensor:
    """Stands for a tensor of which the dtype and the alignment are known."""

    def __init__(self, dtype: str, aligned: bool) -> None:
        self.dtype = dtype
        self._address = 0 if aligned else 4

    def data_ptr(self) -> int:
        """Return an address."""
        return self._address

    def ptr_range(self) -> int:
        """Return the size of what it points to."""
        return 0


class CardLibrary:
    """Stands for what asks the card's library."""

    arch = ""
    properties: Document = {}  # noqa: RUF012 - of the one request

    def get_arch(self) -> str:
        """Return the card."""
        return self.arch

    def get_device_properties(self, device: int = 0) -> Document:
        """Return what Triton asks of a card, with so much shared memory that only the vendor's compiler refuses."""
        return {"max_shared_mem": 1 << 40, **self.properties}


class StandInDriver:
    """Stands for the vendor's driver of Triton: nothing is launched."""

    launcher_cls: Any = None

    def __init__(self, request: Document) -> None:
        self._request = request
        self.utils = CardLibrary()

    def get_current_target(self) -> Any:
        """Return the card that is compiled for."""
        compiler = importlib.import_module("triton.backends.compiler")
        request = self._request
        return compiler.GPUTarget(request["target"], request["arch"], request["warp_size"])

    def get_current_device(self) -> int:
        """Return the number of the device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return a stream."""
        return 0

    def get_benchmarker(self) -> Any:
        """Return what measures nothing."""
        return lambda call, quantiles=None, **_: [1.0] * len(quantiles) if quantiles else 1.0


class NotIsolatedError(Exception):
    """The definitions of a kernel cannot be run by themselves."""


def prepare(request: Document) -> str:
    """Import the front end, and put the stand-ins into it; return its version."""
    sys.path[:0] = [request["site"]]
    if request["paths"]:
        sys.path[1:1] = request["paths"]
    for name in request["unneeded_modules"]:
        sys.modules[name] = types.ModuleType(name)
    triton = importlib.import_module("triton")
    driver = importlib.import_module("triton.runtime")

    CardLibrary.arch, CardLibrary.properties = request["arch"], request["properties"]
    if request["card_library"]:
        names = importlib.import_module("triton.backends").backends[request["back_end"]].compiler.add_stages.__globals__
        names[request["card_library"]] = CardLibrary
    driver.driver.set_active(StandInDriver(request))
    return str(triton.__version__)


# --- kernels ---


def kernel_of(case: Document, bundles: list[Document]) -> Any:
    """Return a kernel made from its definitions, and the texts of the functions that it may name."""
    bundle = bundles[case["bundle"]]
    if "import" in bundle:
        sys.path[:0] = bundle["import"]["paths"]
        module = importlib.import_module(bundle["import"]["module"])
    else:
        module = _built(bundle["modules"])
    kernel = getattr(module, case["kernel"], None)
    of_kernels = importlib.import_module("triton.runtime.jit").JITFunction

    while kernel is not None and not isinstance(kernel, of_kernels) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    if isinstance(kernel, types.FunctionType):
        kernel = importlib.import_module("triton").jit(kernel)
    if not isinstance(kernel, of_kernels):
        raise NotIsolatedError("no kernel of this name is defined")
    return kernel


def _built(described: list[Document]) -> types.ModuleType:
    """Return the last of some modules, each made from its text and what it has of those before it."""
    import __future__

    modules: list[types.ModuleType] = []
    for number, each in enumerate(described):
        module = types.ModuleType(f"kernels_{number}")
        path, text = each["file"], each["text"]
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
        for name, source, attribute in each["names"]:
            value = modules[source]
            setattr(module, name, getattr(value, attribute) if attribute else value)
        code = compile(text, path, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - definitions alone, which `definitions.py` has cut
        modules.append(module)
    return modules[-1]


def value_of(argument: Document) -> Any:
    """Return the value that represents an argument."""
    kind = argument["kind"]
    if kind == "tensor":
        return Tensor(argument["dtype"], argument["aligned"])
    if kind == "scalar":
        return argument.get("value", _UNKNOWN[argument["type"]])
    if kind == "dtype":
        return getattr(importlib.import_module("triton.language"), argument["dtype"])
    return argument["value"]


# --- what comes of it ---


def compiled(case: Document, request: Document) -> Document:
    """Compile a case; return what became of it."""
    begun = time.perf_counter()
    bundle = request["bundles"][case["bundle"]]
    try:
        kernel = kernel_of(case, request["bundles"])
    except (ImportError, AttributeError) as error:
        missing = getattr(error, "name", None) or str(error)
        if "import" not in bundle and "triton" in str(missing) + str(error):
            return {"state": "refused", "stage": "import", "message": cut(str(error)), **_raised_at(error, bundle)}
        return {
            "state": "not isolated",
            "message": cut(f"{type(error).__name__}: {error}"),
            **_raised_at(error, bundle),
        }
    except Exception as error:
        return {
            "state": "not isolated",
            "message": cut(f"{type(error).__name__}: {error}"),
            **_raised_at(error, bundle),
        }
    given = {each["name"]: value_of(each) for each in case["arguments"]}
    for attempt in (1, 2):
        begun_now = time.perf_counter()
        try:
            binary = kernel.run(grid=(1,), warmup=True, **given, **case["options"])
            result = {"state": "accepted", **_facts(binary, request)}
        except Exception as error:
            result = _refusal(error, kernel, request)
        result["seconds"] = round(time.perf_counter() - begun_now, 3)
        result["attempts"] = attempt
        if result["state"] != "crashed":
            break
        os.environ[_CALM] = "1"
        for name in request["variables"]:
            os.environ.pop(name, None)
        for cache in (kernel.cache,) if hasattr(kernel, "cache") else ():
            cache.clear()
    result["all_seconds"] = round(time.perf_counter() - begun, 3)
    return result


def _raised_at(error: BaseException, bundle: Document) -> Document:
    """Return the place in the definitions where an error was raised."""
    files = {each["file"] for each in bundle.get("modules", ())}
    trace = error.__traceback__
    place: Document = {}
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            place = {"file": trace.tb_frame.f_code.co_filename, "line": trace.tb_lineno}
        trace = trace.tb_next
    return place


def _facts(binary: Any, request: Document) -> Document:
    """Return what a compiled kernel says of itself."""
    facts: Document = {"core": str(getattr(binary.metadata, request["core_key"], "")) if request["core_key"] else ""}
    facts["memory"] = _memory_plan(request["memory_files"])
    stage = binary.asm.get(request["elements_stage"], "") if request["elements_stage"] else ""
    text = stage.decode("utf-8", "replace") if isinstance(stage, bytes) else str(stage)
    facts["elements"] = _elements(text, request["elements_mark"]) if request["elements_mark"] else []
    return facts


def _memory_plan(pattern: str) -> dict[str, int]:
    """Return the bytes of each memory that the compiler planned: the end of its last buffer."""
    ends: dict[str, int] = {}
    for path in sorted(glob.glob(pattern)) if pattern else ():
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        for record in document.get("Record", ()):
            for buffer in record.get("memory_info_array", ()):
                for offset in buffer.get("offset", ()):
                    end = offset + buffer["extent"] // 8
                    ends[record["scope"]] = max(ends.get(record["scope"], 0), end)
    return ends


def _elements(text: str, mark: str) -> list[list[Any]]:
    """Return the places whose accesses are made one element at a time, each with how often."""
    locations = dict(_LOCATION.findall(text))
    counts: collections.Counter[tuple[str, int]] = collections.Counter()
    for line in text.splitlines():
        if mark in line:
            counts[_position(line, locations)] += 1
    return [[file, number, count] for (file, number), count in sorted(counts.items())]


def _position(text: str, locations: dict[str, str], depth: int = 8) -> tuple[str, int]:
    """Return the file and the line that a text of the intermediate language names first."""
    while depth:
        found = _POSITION.search(text)
        if found:
            return found[1], int(found[2])
        labels = [label for label in _LABEL.findall(text) if label in locations]
        if not labels:
            break
        text, depth = locations[labels[-1] if depth == 8 else labels[0]], depth - 1
    return "", 0


def _refusal(error: BaseException, kernel: Any, request: Document) -> Document:
    """Return what an exception of the front end means."""
    triton_errors = [each for each in _causes(error) if hasattr(each, "node") and getattr(each, "src", None)]
    if triton_errors:
        return _at_node(triton_errors[-1], error, kernel)
    stage = str(getattr(error, "stage_name", "") or "")
    if stage:
        return _of_stage(str(error), stage, request)
    if isinstance(error, TypeError):
        return {"state": "not isolated", "message": cut(f"TypeError: {error}")}
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else f"{type(error).__name__}: {error}"
    return {"state": "refused", "stage": "launch", "message": cut(said), **_place_visited(error, kernel)}


def _causes(error: BaseException | None) -> Iterator[Any]:
    """Yield an exception and those that it was raised for, the innermost last."""
    met: list[BaseException] = []
    while error is not None and error not in met:
        met.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _at_node(error: Any, outer: BaseException, kernel: Any) -> Document:
    """Return a refusal at a node of a function's text."""
    result: Document = {"state": "refused", "stage": "language"}
    innermost = [*_causes(outer)][-1]
    said = getattr(error, "error_message", None) or ""
    if not said and innermost is not error:
        said = f"{type(innermost).__name__}: {innermost}"
    if not said:
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
    raised = _RAISED.fullmatch(said.strip())
    result["message"] = cut(raised[2] if raised else said)
    function = _function_that(lambda each: each.src == error.src, kernel)
    return {**result, **_place_in(function, getattr(error.node, "lineno", 1))}


def _place_in(function: Any, number: int) -> Document:
    """Return the file and the line of a line of a function's text, which begins with `def`."""
    if function is None:
        return {}
    code = function.fn.__code__
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    before = next((place for place, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return {"file": code.co_filename, "line": code.co_firstlineno + before + number - 1}


def _place_visited(error: BaseException, kernel: Any) -> Document:
    """Return the place of the node that the front end was at when it raised an error of Python's."""
    trace = error.__traceback__
    place: Document = {}
    while trace is not None:
        names = trace.tb_frame.f_locals
        number, name = getattr(names.get("node"), "lineno", None), getattr(names.get("self"), "name", None)
        if number is not None and isinstance(name, str):
            place = _place_in(_function_called(name, kernel), number)
        trace = trace.tb_next
    return place


def _function_called(name: str, kernel: Any) -> Any:
    return _function_that(lambda each: each.fn.__name__ == name, kernel)


def _function_that(fits: Callable[[Any], bool], kernel: Any) -> Any:
    """Return the kernel, or a function that it names, that fits; None where none does."""
    waiting = [kernel]
    met: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in met:
            continue
        met.add(id(function))
        if fits(function):
            return function
        names = function.fn.__globals__
        values = [names.get(name) for name in function.fn.__code__.co_names]
        for value in values:
            inner = list(vars(value).values()) if isinstance(value, types.ModuleType) else [value]
            waiting += [each for each in inner if type(each) is type(kernel)]
    return None


def _of_stage(text: str, stage: str, request: Document) -> Document:
    """Return what a failed stage of the compiler means: a refusal says why, anything else is a crash."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if any(mark in line for mark in request["refusals"])]
    telling = [line for line in marked if not any(noise in line for noise in request["noise"])]
    if not marked:
        body = [line for line in lines if not line.startswith(("///", "[INFO]"))]
        return {"state": "crashed", "stage": stage, "message": cut(body[-1] if body else text)}
    overflows = [line for line in telling if request["overflow"] and request["overflow"] in line]
    chosen = overflows or (telling or marked)[:1]
    said = [_said(line, request["refusals"]) for line in chosen]
    result: Document = {"state": "refused", "stage": stage, "overflows": bool(overflows)}
    result["message"] = cut("; ".join(sorted({message for message, _ in said})))  # cores are compiled in any order
    file, number = next((place for _, place in said if place[0]), ("", 0))
    return {**result, "file": file, "line": number} if file else result


def _said(line: str, marks: list[str]) -> tuple[str, tuple[str, int]]:
    """Return the message of a line that refuses a kernel, and the place that precedes it."""
    for mark in marks:
        before, is_there, after = line.partition(mark)
        if is_there:
            return (after if before.rstrip().endswith(":") else mark + after), _position(before, {})
    return line, ("", 0)


def cut(text: object) -> str:
    """Return a text on one line, not longer than anybody reads."""
    return " ".join(str(text).split())[:_LONGEST]


# --- one process for each case ---


class Running:
    """A case that is being compiled."""

    def __init__(self, number: int, folder: str, process: int, end: float) -> None:
        self.number = number
        self.folder = folder
        self.process = process
        self.end = end


def begin(number: int, case: Document, request: Document) -> Running:
    """Fork, and compile a case in its own folder."""
    folder = os.path.join(request["folder"], str(number))
    os.mkdir(folder)
    sys.stdout.flush()
    process = os.fork()
    if process:
        return Running(number, folder, process, time.monotonic() + request["seconds"])
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(folder)
        _die_first()
        with open("printed", "wb") as printed, open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "cache")
        os.environ["TMPDIR"] = folder
        sys.setrecursionlimit(5000)
        try:
            result = compiled(case, request)
        except BaseException as error:
            result = {"state": "not isolated", "message": cut(f"{type(error).__name__}: {error}")}
        sys.stdout.flush()
        with open("result.partial", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.rename("result.partial", "result.json")
    finally:
        os._exit(0)


def _die_first() -> None:
    """Let the system end this fork before others where the memory is full."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def finished(running: Running, status: int) -> Document:
    """Return what a fork left."""
    try:
        with open(os.path.join(running.folder, "result.json"), encoding="utf-8") as file:
            result: Document = json.load(file)
    except (OSError, ValueError):
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "no result"
        result = {"state": "crashed", "message": how}
    result["warnings"] = warnings_of(running.folder)
    return result


def warnings_of(folder: str) -> list[str]:
    """Return what the front end warned of, each once."""
    try:
        with open(os.path.join(folder, "printed"), encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 16)
    except OSError:
        return []
    return [cut(each) for each in dict.fromkeys(_WARNING.findall(text))][:5]


def end(running: Running) -> None:
    """End a fork with all that it started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(running.process, signal.SIGKILL)


def answer(number: int, result: Document) -> None:
    """Print the answer of a case."""
    print(json.dumps({"case": number, **result}), flush=True)


def run(request: Document) -> None:
    """Compile all cases, several at once; end where nobody waits for the answers any more."""
    waiting = collections.deque(enumerate(request["cases"]))
    running: dict[int, Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < request["jobs"]:
                number, case = waiting.popleft()
                started = begin(number, case, request)
                running[started.process] = started
            if select.select([sys.stdin], [], [], 0)[0] and not os.read(0, 1):
                return
            process, status = os.waitpid(-1, os.WNOHANG)
            if process in running:
                done = running.pop(process)
                result = finished(done, status)
                end(done)
                answer(done.number, result)
                shutil.rmtree(done.folder, ignore_errors=True)
                continue
            now = time.monotonic()
            for late in [each for each in running.values() if each.end < now]:
                end(late)
                os.waitpid(late.process, 0)
                del running[late.process]
                answer(late.number, {"state": "timeout", "message": "", "warnings": warnings_of(late.folder)})
                shutil.rmtree(late.folder, ignore_errors=True)
            time.sleep(0.01)
    finally:
        for each in running.values():
            end(each)


def main() -> None:
    """Read the request, compile, answer."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != own]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what was begun is ended
    request = json.loads(sys.stdin.readline())
    for name, value in request["variables"].items():
        os.environ[name] = value
    try:
        version = prepare(request)
    except Exception as error:
        print(json.dumps({"error": cut(f"{type(error).__name__}: {error}")}), flush=True)
        return
    print(json.dumps({"triton": version}), flush=True)
    run(request)


if __name__ == "__main__":
    main()
