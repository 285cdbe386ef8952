"""The setup test of a project: six questions to a machine, each with its cause and remedy when the answer is no.

What is here is copied into the file that `torchferry setup-test` writes, where the tables below hold what the
project needs. It runs on Python 3.8 with the standard library alone, and imports nothing of torchferry. Annotations
that Python 3.8 cannot compute are texts: `from __future__ import annotations` would import a project's `__future__.py`.
"""

import argparse
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from torchferry.core.messages import say

# --- tables ---

PROJECT = ""
TITLE = ""
PLUGIN = ""
BEFORE_TORCH = False
NAMESPACE = ""
DEVICE = ""
FACTORY = ""
INSTALL = ""
NAMES: "dict[str, str]" = {}
PAIRS: "tuple[tuple[str, str], ...]" = ()
REQUIREMENTS: "tuple[tuple[str, str], ...]" = ()
MODULES: "tuple[tuple[str, str, bool, str], ...]" = ()
DTYPES: "tuple[tuple[str, bool, str, str], ...]" = ()
MANAGER = ""
MODELS: "tuple[tuple[str, str, str, str], ...]" = ()
LIST_COMMAND = ""

# --- the test ---

OK, FAIL, SKIPPED = "ok", "FAIL", "skipped"

TIMEOUT = 20
"""Seconds that the hub is waited for."""

IMPORTING = 600
"""Seconds in which the packages must be imported."""

LARGEST = 1 << 20
"""Bytes of a model's file that are read: what is asked for is small, and no weights are downloaded."""

_ENDPOINTS = {
    "huggingface": ("HF_ENDPOINT", "https://huggingface.co", "{0}/{1}/resolve/main/{2}"),
    "modelscope": ("MODELSCOPE_ENDPOINT", "https://www.modelscope.cn", "{0}/models/{1}/resolve/master/{2}"),
}
_SMALL = {
    "huggingface": ("config.json", "model_index.json", "README.md"),
    "modelscope": ("configuration.json", "config.json", "model_index.json", "README.md"),
}


class SetupAnswer(NamedTuple):
    """The outcome of one question.

    Attributes:
        state: `ok`, `FAIL` or `skipped`.
        said: What was seen.
        causes: Why it failed.
        remedies: What to do about it.
        notes: What else there is to know.
    """

    state: str
    said: object
    causes: "tuple[object, ...]" = ()
    remedies: "tuple[object, ...]" = ()
    notes: "tuple[object, ...]" = ()


def visible(text: object) -> str:
    """Return a text of which a terminal shows all, and obeys nothing: names come from a tree, errors from anywhere."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def tell(text: object) -> None:
    """Print a line."""
    print(visible(text), flush=True)


def main(arguments: "list[str] | None" = None) -> int:
    """Ask all questions, print the answers, and return 1 where one failed."""
    purpose = say("Tests whether this machine is ready to run {project} on {title}.", project=PROJECT, title=TITLE)
    parser = argparse.ArgumentParser(description=visible(purpose))
    parser.add_argument("--no-network", action="store_true", help=str(say("leave the download out")))
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    tell(say("{project} on {title}, Python {version}", project=PROJECT, title=TITLE, version=sys.version.split()[0]))
    counts = {OK: 0, FAIL: 0, SKIPPED: 0}
    found: dict[str, Any] = {}
    questions: tuple[tuple[object, Callable[[], SetupAnswer]], ...] = (
        (say("torch"), lambda: torch_installed(found)),
        (say("device"), lambda: device_available(found)),
        (say("device manager"), lambda: device_manager(found)),
        (say("dependencies"), lambda: dependencies(found)),
        (say("dtypes"), lambda: dtypes(found)),
        (say("model download"), lambda: model_download(options.no_network)),
    )
    for number, (name, ask) in enumerate(questions, 1):
        try:
            answer = ask()
        except Exception as error:  # a question that cannot be asked is not answered with yes
            answer = _no(
                _told(error), say("the test itself stopped here"), say("show this line to whoever wrote the test")
            )
        counts[answer.state] += 1
        show(number, len(questions), name, answer)
    tell(say("{ok} ok, {failed} FAIL, {skipped} skipped", ok=counts[OK], failed=counts[FAIL], skipped=counts[SKIPPED]))
    if counts[SKIPPED]:
        tell(say("What was skipped was not tested."))
    return 1 if counts[FAIL] else 0


def show(number: int, count: int, name: object, answer: SetupAnswer) -> None:
    """Print one answer."""
    state = {OK: say("ok"), FAIL: say("FAIL"), SKIPPED: say("skipped")}[answer.state]
    tell(f"[{number}/{count}] {name}: {state}  {answer.said}")
    for cause in answer.causes:
        tell(f"      {say('cause: {text}', text=cause)}")
    for remedy in answer.remedies:
        tell(f"      {say('remedy: {text}', text=remedy)}")
    for note in answer.notes:
        tell(f"      {say('note: {text}', text=note)}")


def torch_installed(found: "dict[str, Any]") -> SetupAnswer:
    """Whether torch and the plugin can be imported, and belong together."""
    for module in (PLUGIN, "torch") if BEFORE_TORCH else ("torch", PLUGIN):
        try:
            found[module] = importlib.import_module(module)
        except Exception as error:  # noqa: PERF203 - two rounds; a plugin's libraries raise many kinds
            if module == "torch" and "torch" not in found:
                return _no(_told(error), say("torch cannot be imported"), _how_to_install())
            missing = isinstance(error, ModuleNotFoundError) and error.name == module
            cause = (
                say("{module} is not installed", module=module)
                if missing
                else say(
                    "{module} is installed and cannot be loaded, mostly because its toolkit is not on the library path",
                    module=module,
                )
            )
            return _no(_told(error), cause, INSTALL)
    torch, plugin = _version(found["torch"]), _version(found[PLUGIN])
    said = say("torch {torch}, {module} {plugin}", torch=torch, module=PLUGIN, plugin=plugin)
    notes = (
        []
        if getattr(found["torch"].version, "cuda", None) is None
        else [say("this torch is a CUDA build; the plugin is made for the CPU build")]
    )
    fitting = [pair for pair in PAIRS if _release(pair[1]) == _release(plugin)]
    if not fitting:
        notes.append(say("which torch belongs to {module} {plugin} is not known here", module=PLUGIN, plugin=plugin))
        return SetupAnswer(OK, said, notes=tuple(notes))
    if all(_release(pair[0])[:2] != _release(torch)[:2] for pair in fitting):
        wanted, found["unfit"] = ", ".join(sorted({pair[0] for pair in fitting})), True
        cause = say("{module} {plugin} needs torch {wanted}", module=PLUGIN, plugin=plugin, wanted=wanted)
        return _no(said, cause, _how_to_install())
    return SetupAnswer(OK, said, notes=tuple(notes))


def device_available(found: "dict[str, Any]") -> SetupAnswer:
    """Whether there is a card, and whether it adds two numbers."""
    if PLUGIN not in found:
        return SetupAnswer(SKIPPED, say("torch or {module} is missing", module=PLUGIN))
    looking = say(
        "look at the cards with the vendor's tool; in a container, check that the card's device nodes are passed in"
    )
    available = _call("is_available")
    if available is None:
        return _no(
            say("{module} does not say whether there is a device", module=PLUGIN),
            say("it has no such function"),
            INSTALL,
        )
    if not available:
        return _no(
            say("no {title} device is available", title=TITLE),
            say("the driver, the toolkit or the card is not found"),
            looking,
        )
    torch = found["torch"]
    try:
        device = _device(torch)
        total = (torch.ones(2, device=device) + torch.ones(2, device=device)).cpu().tolist()
    except Exception as error:
        return _no(_told(error), say("the device is there, but cannot compute"), looking)
    if total != [2.0, 2.0]:
        return _no(
            say("1 + 1 is {total} on the device", total=total), say("the device computes wrong numbers"), looking
        )
    found["device"] = device
    return SetupAnswer(
        OK,
        say(
            "{device}, {count} in all: {name}",
            device=device,
            count=_call("device_count"),
            name=_call("get_device_name", 0),
        ),
    )


def device_manager(found: "dict[str, Any]") -> SetupAnswer:
    """Whether the project's device manager chooses this device."""
    if not MANAGER:
        return SetupAnswer(
            SKIPPED,
            say("the project has no device manager"),
            remedies=(say("write one with `torchferry device vendor .`"),),
        )
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *MANAGER.split("/"))
    if not os.path.isfile(path):
        return _no(
            say("{path} is not there", path=MANAGER),
            say("the file was not copied along"),
            say("copy it from where this test was made"),
        )
    if "device" not in found:  # that it chooses another one then is no failure of its own
        return SetupAnswer(SKIPPED, say("there is no device"))
    spec = importlib.util.spec_from_file_location("setup_test_device_manager", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        chosen = str(module.DeviceManager().device if hasattr(module, "DeviceManager") else module.device_string())
    except Exception as error:
        return _no(
            _told(error),
            say("{path} does not run here", path=MANAGER),
            say("solve the failures above first; the environment variable PREFERRED_DEVICE can name a device"),
        )
    said = say("{path} chooses {device}", path=MANAGER, device=chosen)
    if chosen.partition(":")[0] != DEVICE:
        return _no(
            said,
            say("it should choose {device}", device=DEVICE),
            say("solve the failures above first; the environment variable PREFERRED_DEVICE can name a device"),
        )
    return SetupAnswer(OK, said)


def dependencies(found: "dict[str, Any]") -> SetupAnswer:
    """Whether what the project requires is installed, in these versions, and can be imported."""
    wrong: list[object] = []
    notes: list[object] = []
    reader = _requirement_reader()
    if reader is None and REQUIREMENTS:
        notes.append(say("versions were not compared: neither packaging nor pip is installed"))
    listed: dict[str, bool] = {}
    absent = {_distribution(module) for module in ("torch", PLUGIN) if module not in found or "unfit" in found}
    for text, place in (row for row in REQUIREMENTS if _distribution(row[0]) not in absent):  # the others failed above
        problem = _requirement_problem(text, reader)
        listed[_distribution(text)] = not problem
        if problem:
            wrong.append(say("{problem} ({place})", problem=problem, place=place) if place else problem)
    remedies: list[object] = [_from_lists()] if wrong else []
    unlisted: list[str] = []
    unknown: list[str] = []
    optional: list[str] = []
    failures = _import_failures([module for module, _, _, _ in MODULES])
    for module, distribution, needed, place in MODULES:
        name = _distribution(distribution or module.replace(".", "-"))
        if module not in failures or _distribution(module) in absent or (not listed.get(name, True)):
            continue
        other = re.search(r"No module named '(\w+)", failures[module])
        lacking = _distribution(other[1]) if other and other[1] != module else ""
        if other and (lacking in absent or not listed.get(lacking, True)):
            notes.append(say("`import {module}` fails because {other} is missing", module=module, other=other[1]))
            continue
        if needed and name not in listed:
            (unlisted if distribution else unknown).append(distribution or module)
        failure = say(
            "`import {module}` ({distribution}, {place}): {why}",
            module=module,
            distribution=distribution or "?",
            place=place,
            why=failures[module],
        )
        if needed:
            wrong.append(failure)
        elif failures[module].startswith("ModuleNotFoundError"):
            optional.append(module)
        else:
            notes.append(failure)
    if optional:
        notes.append(say("imported in some places, but not installed: {names}", names=", ".join(optional)))
    if unlisted:
        names = " ".join(unlisted)
        remedies.append(say("`pip install {names}`: the code imports them, and no list has them", names=names))
    if unknown:
        remedies.append(
            say("find out which package provides {names}, and add it to the list", names=", ".join(unknown))
        )
    said = say(
        "{fitting} of {requirements} requirements, {imported} of {modules} imports",
        fitting=sum(listed.values()), requirements=len(listed), imported=len(MODULES) - len(failures),
        modules=len(MODULES),
    )  # fmt: skip
    if wrong:
        return SetupAnswer(FAIL, said, tuple(wrong), tuple(remedies), tuple(notes))
    return SetupAnswer(OK, said, notes=tuple(notes))


def dtypes(found: "dict[str, Any]") -> SetupAnswer:
    """Whether the device multiplies matrices in the dtypes, exactly: small whole numbers lose no bit in any of them."""
    if "device" not in found:
        return SetupAnswer(SKIPPED, say("there is no device"))
    torch, device = found["torch"], found["device"]
    whole = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64)
    left, right = whole % 3 - 1, (whole // 7) % 3 - 1
    expected = left @ right
    good, wrong, notes = [], [], []
    for name, needed, known, use in DTYPES:
        problem: object = ""
        try:
            dtype = getattr(torch, name)
            product = left.to(device=device, dtype=dtype) @ right.to(device=device, dtype=dtype)
            if product.dtype is not dtype:
                problem = say("the result is {dtype}", dtype=product.dtype)
            elif not torch.equal(product.cpu().float(), expected):
                problem = say("the product is wrong")
        except Exception as error:
            problem = _told(error)
        if known:
            notes.append(say("{dtype}: {text}", dtype=name, text=known))
        if not problem:
            good.append(name)
        elif needed:
            wrong.append(
                say("{dtype}, used in {place}: {problem}", dtype=name, place=use, problem=problem)
                if use
                else say("{dtype}: {text}", dtype=name, text=problem)
            )
        else:
            notes.append(say("{dtype}, which the project does not use: {problem}", dtype=name, problem=problem))
    said = ", ".join(good)
    remedy = say("use one of these dtypes there: {names}", names=said)
    if "float32" not in good:
        remedy = say("solve the device's problem first: it does not compute in float32 either")
    if wrong:
        return SetupAnswer(FAIL, said, tuple(wrong), (remedy,), tuple(notes))
    return SetupAnswer(OK, said, notes=tuple(notes))


def model_download(left_out: bool) -> SetupAnswer:
    """Whether the hub gives one small file of each model that the project names."""
    if not MODELS:
        return SetupAnswer(SKIPPED, say("the code names no model of a hub"))
    if left_out:
        return SetupAnswer(SKIPPED, say("--no-network is given"))
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "ON", "YES", "TRUE"):
        return SetupAnswer(SKIPPED, say("HF_HUB_OFFLINE is set: the models must be on this machine already"))
    got: list[str] = []
    wrong: list[object] = []
    remedies: list[str] = []
    for hub, model, file, place in MODELS:
        failure = _fetch_failure(hub, model, file)
        if failure is None:
            got.append(model)
            continue
        problem, remedy = failure
        wrong.append(say("{model} ({place}): {problem}", model=model, place=place, problem=problem))
        if str(remedy) not in remedies:
            remedies.append(str(remedy))
    said = say("{count} of {all}: {names}", count=len(got), all=len(MODELS), names=", ".join(got) or "-")
    if wrong:
        return SetupAnswer(FAIL, said, tuple(wrong), tuple(remedies))
    return SetupAnswer(OK, said)


# --- how it is asked ---


def _no(said: object, cause: object, remedy: object) -> SetupAnswer:
    return SetupAnswer(FAIL, said, (cause,), (remedy,))


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _distribution(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", match.group()).lower() if match is not None else requirement


def _from_lists() -> object:
    files = sorted({place.partition(":")[0] for _, place in REQUIREMENTS if ".txt:" in place})
    if not files:
        return say("install what is missing with pip")
    if LIST_COMMAND:
        return say(
            "`{file}` is not written for this card: write its list with `{command}`, and install that",
            file=files[0],
            command=LIST_COMMAND,
        )
    return say("`pip install -r {file}`", file=files[0])


def _how_to_install() -> object:
    return say("{install}; then {rest}", install=INSTALL, rest=_from_lists()) if REQUIREMENTS else INSTALL


def _version(module: Any) -> str:
    return str(getattr(module, "__version__", ""))


def _release(version: str) -> "tuple[int, ...]":
    """Return the numbers of a release: of 2.7.1.post2+cpu these are 2, 7 and 1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match.group().split("."))) if match is not None else ()


def _named(path: str) -> Any:
    """Return what is at a dotted path, or None."""
    parts = path.split(".")
    value: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        value = getattr(value, part, None)
        if value is None:
            return None
    return value


def _call(name: str, *arguments: object) -> Any:
    path = NAMES.get(name, f"{NAMESPACE}.{name}" if NAMESPACE else "")
    function = _named(path) if path else None
    try:
        return None if function is None else function(*arguments)
    except Exception as error:
        return False if name == "is_available" else _told(error)


def _device(torch: Any) -> Any:
    return _named(FACTORY)(f"{DEVICE}:0") if FACTORY else torch.device(f"{DEVICE}:0")


def _requirement_reader() -> Any:
    for home in ("packaging", "pip._vendor.packaging"):
        try:
            return importlib.import_module(f"{home}.requirements").Requirement
        except ImportError:  # noqa: PERF203 - two rounds
            continue
    return None


def _requirement_problem(text: str, reader: Any) -> object:
    """Return what is wrong with an installed distribution; empty where nothing is."""
    from importlib import metadata

    name = _distribution(text)
    wanted = None
    if reader is not None:
        try:
            wanted = reader(text)
        except Exception as error:  # the class of this error is packaging's own
            return say("`{text}` cannot be read: {error}", text=text, error=_told(error))
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            return ""
    elif ";" in text:
        return ""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return say("{name} is not installed", name=name)
    if wanted is not None and not wanted.specifier.contains(version, prereleases=True):
        return say("{name} is {version}, and {wanted} is required", name=name, version=version, wanted=wanted.specifier)
    return ""


_IMPORTER = """\
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib, os
told = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
os.dup2(2, 1)
for name in sys.argv[1:]:
    told.write("> " + name + "\\n")
    told.flush()
    try:
        importlib.import_module(name)
    except BaseException as error:
        line = (str(error).strip().splitlines() or [""])[0][:300]
        told.write("! " + type(error).__name__ + ": " + line + "\\n")
    told.flush()
told.write(".\\n")
told.flush()
"""


def _import_failures(modules: "list[str]") -> "dict[str, str]":
    """Import modules in processes of their own, since one may crash; return what is said of those that fail."""
    failures: dict[str, str] = {}
    rest = list(modules)
    first = [PLUGIN] if importlib.util.find_spec(PLUGIN) is not None else []
    while rest:
        command = [sys.executable, "-c", _IMPORTER, *first, *rest]
        try:
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=IMPORTING, check=False
            )
            output, code = ended.stdout, ended.returncode
        except subprocess.TimeoutExpired as error:
            output, code = error.stdout or b"", 0
        last = ""
        for line in output.decode("utf-8", "replace").splitlines():
            if line.startswith("> "):
                last = line[2:]
            elif line.startswith("! "):
                failures[last] = line[2:]
        if output.rstrip().endswith(b"\n.") or not last:
            break
        if last in first:
            first = []
            failures.pop(last, None)
            continue
        failures[last] = str(
            say("the process ended with {code}", code=code)
            if code
            else say("it did not end within {seconds} s", seconds=IMPORTING)
        )
        rest = rest[rest.index(last) + 1 :]
    return {module: why for module, why in failures.items() if module in modules}


def _fetch_failure(hub: str, model: str, file: str) -> "tuple[object, object] | None":
    """Return why no small file of a model can be had, and what to do; None where one can."""
    variable, usual, pattern = _ENDPOINTS[hub]
    endpoint = os.environ.get(variable, "").rstrip("/") or usual
    if not endpoint.startswith(("https://", "http://")):
        return (
            say("{variable} is {endpoint}, which is not a URL", variable=variable, endpoint=endpoint),
            say("write it as https://..."),
        )
    for name in (file,) if file else _SMALL[hub]:
        address = pattern.format(endpoint, quote(model), quote(name))
        request = urllib.request.Request(address, headers={"User-Agent": "setup-test"})  # noqa: S310 - seen to be http
        token = _token() if hub == "huggingface" and endpoint.startswith("https://") else ""
        if token:
            request.add_unredirected_header("Authorization", f"Bearer {token}")  # never to where the hub sends us on
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - as above
                if answer.read(LARGEST):
                    return None
                return say("{file} is empty", file=name), say("look at {address}", address=f"{endpoint}/{model}")
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                return (
                    say(
                        "the hub refuses {file} ({code}): the model is gated or private, or does not exist",
                        file=name,
                        code=error.code,
                    ),
                    say("accept the licence at {address} and set HF_TOKEN, or log in", address=f"{endpoint}/{model}"),
                )
            if error.code != 404:
                return say("the hub answers {code} for {file}", code=error.code, file=name), say("try again later")
        except (OSError, ValueError) as error:
            return (
                say("{endpoint} cannot be reached: {error}", endpoint=endpoint, error=_told(error)),
                say(
                    "check the network and the proxy, name a mirror in {variable}, or copy the model here",
                    variable=variable,
                ),
            )
    names = ", ".join((file,) if file else _SMALL[hub])
    return say("the hub does not have {files} for this model", files=names), say(
        "check the name; a folder on this machine must exist before the program starts"
    )


def _token() -> str:
    """Return the user's own token for the hub, as its library finds it; empty for none. It is never shown."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    path = os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")
    if not token and os.path.isfile(path):
        with open(path, encoding="utf-8") as opened:
            token = opened.read()
    token = token.strip()
    return token if token.isascii() and token.isprintable() else ""
