"""The tests of a library that is ported: their lists of devices get the target beside CUDA, and lose nothing.

A test that runs on the devices of a list runs on the target too::

    @pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(...))])

gets a twin of the element with CUDA, which is skipped where the target's plugin or card is not there. A list that is
held in a variable gets it where it is used: `[*DEVICES, pytest.param(...)]`. The CPU stays what the others are compared
with. What names CUDA elsewhere is left to people.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.core.finding import Edit
from torchferry.core.folders import walk
from torchferry.core.messages import say
from torchferry.kernels.buildfiles.joining import PortedNeighbour, content_of
from torchferry.kernels.buildfiles.model import ReviewList
from torchferry.kernels.review import ReviewItem
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.parameters import parameter_lists
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.text import SourceText, UndecodableError, apply_edits, decode_python
from torchferry.source.tree import NEVER_ENTERED, is_control_name

KIND = "test-device"
_MOST_FILES = 20_000


def port_tests(
    tests: Iterable[Path],
    target: Target,
    place: Path | None,
    originals: Callable[[list[Path]], Mapping[Path, bytes]],
) -> list[PortedNeighbour]:
    """Return what becomes of tests; nothing is written.

    Args:
        tests: Python files, and folders of which all are taken that lie below.
        target: The target.
        place: The folder of the port, whose files are no tests; None where there is none.
        originals: Returns what files were before an earlier port, as far as that is known.

    Raises:
        TorchferryError: a file cannot be read.
        UsageError: there is no such file or folder.
    """
    paths = [Path(os.path.abspath(path)) for named in tests for path in _python_files(named, place)]
    before = originals(paths) if paths else {}
    ported = []
    for path in paths:
        content, mode = content_of(path)
        content = before.get(path, content)
        if b"cuda" not in content:
            continue
        after, items = port_test(os.path.relpath(path), content, target)
        ported.append(PortedNeighbour(path, content, after, mode, items))
    return ported


def _python_files(named: Path, place: Path | None) -> Iterator[Path]:
    if not named.exists():
        raise UsageError(say("--tests: `{path}` does not exist", path=named))
    if not named.is_dir():
        yield named
        return
    count = 0
    for folder, folders, files in walk(named):
        folders[:] = sorted(
            name
            for name in folders
            if name not in NEVER_ENTERED
            and not is_control_name(name)
            and (place is None or os.path.realpath(os.path.join(folder, name)) != os.path.realpath(place))
        )
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name.endswith(".py") and not os.path.islink(path) and count < _MOST_FILES:
                count += 1
                yield Path(path)


def port_test(path: str, data: bytes, target: Target) -> tuple[bytes, tuple[ReviewItem, ...]]:
    """Return the bytes of a test with the target in its lists of devices, and what is left to people.

    Args:
        path: The file, as a person names it.
        data: Its bytes.
        target: The target.
    """
    try:
        source = decode_python(data)
        file = PythonFile(path, source)
    except UndecodableError as error:
        return data, (ReviewItem(path, 1, 1, "build-unread", error.message, ""),)
    except (UnparsableError, RecursionError, MemoryError) as error:
        reason = error.message if isinstance(error, UnparsableError) else say("it is nested too deeply")
        message = say("this test does not parse: {reason}", reason=reason)
        return data, (ReviewItem(path, 1, 1, "build-unread", message, ""),)
    review = ReviewList(path, source)
    backend = target.backend
    available = f"{backend.DEVICE_TYPE.upper()}_IS_THERE"
    if available in source.text:
        return data, ()
    edits: list[Edit] = []
    reported: set[int] = set()
    for given in parameter_lists(file):
        skip = f'{given.pytest}.mark.skipif(not {available}, reason="{backend.DEVICE_TYPE} is not there")'
        further: list[str] = []
        for element in given.elements:
            found = _cuda_string(element)
            if found is None:
                continue
            if not given.shared:
                reported.update(id(node) for node in ast.walk(element))
            twin = f"{given.pytest}.param({_twin(file, element, found, backend.DEVICE_TYPE)}, marks={skip})"
            if file.parents.get(element) is given.values:
                start, at = file.span(element)
                line = source.text[source.text.rfind("\n", 0, start) + 1 : start]
                between = f",{source.newline}{line}" if line.isspace() else ", "
                edits.append(Edit(at, at, f"{between}{twin}"))
            elif twin not in further:
                further.append(twin)
        if further:
            edits += _lengthened(file, given.values, further)
    if target.module or not backend.NAMESPACE:  # what says whether the card is there is not known
        edits, reported = [], set()
    if edits:
        edits.append(_availability(file, source, backend.PLUGIN, backend.NAMESPACE, available))
    for node in file.strings:
        value = node.value if isinstance(node.value, str) else ""
        if value.partition(":")[0] == "cuda" and id(node) not in reported:
            message = say(
                "{text} names the device: take it from a parameter, so that the test runs on the target too",
                text=file.text(node),
            )
            review.add(file.span(node)[0], KIND, message)
    for name in ("cuda", "is_available"):
        for attribute in file.attributes.get(name, ()):
            use = file.parents.get(attribute)
            if name == "cuda" and isinstance(use, ast.Call) and use.func is attribute:
                message = say("`.cuda()` moves a tensor to CUDA: write `.to(...)` with the device of the test")
                review.add(file.span(attribute)[0], KIND, message)
    return source.encode(apply_edits(source.text, edits)) if edits else data, review.items()


def _lengthened(file: PythonFile, values: ast.expr, further: Iterable[str]) -> list[Edit]:
    """Return the edits that add to a list where it is used; a variable that holds it may have other uses, and stays."""
    start, end = file.span(values)
    if isinstance(values, ast.Name):
        return [Edit(start, start, "[*"), Edit(end, end, f", {', '.join(further)}]")]
    return [Edit(start, start, "[*("), Edit(end, end, f"), {', '.join(further)}]")]


def _cuda_string(element: ast.expr) -> ast.Constant | None:
    """Return the text `cuda` that an element of a list of parameters is, or holds."""
    if isinstance(element, ast.Constant):
        return element if string_value(element) in ("cuda", "cuda:0") else None
    if isinstance(element, ast.Tuple):
        parts = element.elts
    elif isinstance(element, ast.Call) and last_name(element.func) == "param":
        parts = element.args
    else:
        return None
    return next((found for part in parts if (found := _cuda_string(part)) is not None), None)


def _twin(file: PythonFile, element: ast.expr, found: ast.Constant, device: str) -> str:
    """Return the values of an element with the target in place of CUDA."""
    values = element.args if isinstance(element, ast.Call) else [element]
    if isinstance(element, ast.Tuple):
        values = element.elts
    return ", ".join(_value(file, value, found, device) for value in values)


def _value(file: PythonFile, value: ast.expr, found: ast.Constant, device: str) -> str:
    start, end = file.span(value)
    inner, behind = file.span(found)
    if not start <= inner < end:
        return file.text(value)
    text = file.source.text
    name = str(found.value).replace("cuda", device)
    return f"{text[start:inner]}{name!r}{text[behind:end]}" if inner > start or behind < end else repr(name)


def _availability(file: PythonFile, source: SourceText, plugin: str, namespace: str, name: str) -> Edit:
    """Return what says whether the target is there, after the last import of the file."""
    last = None
    for statement in file.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last = statement
    at = file.span(last)[1] if last is not None else 0
    line = source.text.find("\n", at) if last is not None else -1
    at = (len(source.text) if line < 0 else line + 1) if last is not None else _behind_docstring(file)
    newline = source.newline
    block = (
        "",
        "try:",
        "    import torch",
        f"    import {plugin}  # noqa: F401",
        "",
        f"    {name} = {namespace}.is_available()",
        "except (ImportError, OSError):",
        f"    {name} = False",
        "",
    )
    lead = newline if at and source.text[at - 1] != "\n" else ""
    return Edit(at, at, lead + newline.join(block))


def _behind_docstring(file: PythonFile) -> int:
    body = file.tree.body
    if body and isinstance(body[0], ast.Expr) and string_value(body[0].value) is not None:
        end = file.source.text.find("\n", file.span(body[0])[1])
        return len(file.source.text) if end < 0 else end + 1
    return 0
