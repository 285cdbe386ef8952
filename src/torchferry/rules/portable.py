"""What one vendor's rewriting is worth in code for every device (`--style portable`)."""

from __future__ import annotations

import ast
import re

from torchferry.backends.accelerator import DEVICE_TYPE, KEPT, NAMESPACE, RENAMED
from torchferry.core.finding import LINK, Edit, Effect, Finding, Grade, Stage
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext
from torchferry.rules.device.torchscript import is_scripted
from torchferry.rules.family import Portability
from torchferry.rules.registry import rule_facts
from torchferry.source.insertion import behind_path_changes, first_use_when_imported


def without_vendor(finding: Finding, python: bool, module: str) -> Finding:
    """Return a finding without edits that would write one vendor's words into code for every device.

    Args:
        finding: What a rule found.
        python: Whether the file is Python, or a notebook.
        module: The module with the portable names.
    """
    portability = rule_facts(finding.code).portability
    if not finding.edits or finding.message is LINK or portability is Portability.EVERYWHERE:
        return finding
    if python and portability is Portability.IN_PYTHON:
        return finding
    if python and module in finding.imports:  # a portable name stands in the place of a switch of CUDA's libraries
        return finding
    grade = Grade.MANUAL
    if portability is Portability.DECIDES:
        message = say(
            "{message}; it names one device, but portable code uses the machine's device: leave "
            "it out, or set it where the program is started",
            message=finding.message,
        )
    elif finding.effect is Effect.NOTHING:
        grade = Grade.NOTE
        message = say("{message}; it belongs to one machine and is left as it is", message=finding.message)
    else:
        message = say(
            "{message}; it belongs to one machine, and is left as it is: decide what each machine is to have",
            message=finding.message,
        )
    return finding.regraded(Stage.MACHINE, grade, message)._replace(group="", needs=())


def below_path_changes(findings: list[Finding], text: str) -> list[Finding]:
    """Leave imports of the project's own module above the lines that put the project on Python's path.

    Args:
        findings: What the rules found in a file.
        text: The file's text.
    """
    behind = behind_path_changes(text)
    if not behind:
        return findings
    settled = []
    for finding in findings:
        above = [edit.start for edit in finding.edits if edit.start < behind] if finding.imports else []
        if above and (first := first_use_when_imported(text, above)) is not None and first < behind:
            message = say(
                "{message}; it is above the lines that add the project to Python's path, so its "
                "module is not found there: move it below them",
                message=finding.message,
            )
            finding = finding.regraded(Stage.PATH, Grade.MANUAL, message)
        settled.append(finding)
    return settled


def outside_torchscript(context: PythonContext, findings: list[Finding]) -> list[Finding]:
    """Let a person look at calls of portable names in what TorchScript may compile: it knows their constants alone.

    Args:
        context: The file.
        findings: What the rules found in it.
    """
    settled = []
    for finding in findings:
        if finding.grade is Grade.SAFE and any(_is_called_in_torchscript(context, edit) for edit in finding.edits):
            message = say(
                "{message}; TorchScript cannot compile this call: pass the device as an argument, or move"
                " the call to code that `torch.jit` does not compile",
                message=finding.message,
            )
            finding = finding.regraded(Stage.TORCHSCRIPT, Grade.UNSAFE, message)
        settled.append(finding)
    return settled


def _is_called_in_torchscript(context: PythonContext, edit: Edit) -> bool:
    if re.search(rf"{re.escape(context.target.module)}\.\w+\(", edit.text) is None:
        return False
    node = context.file.node_at(edit.start, edit.end)
    while node is not None:  # defaults and decorators are evaluated around the function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and edit.start >= _body_start(context, node):
            return is_scripted(context, node)
        node = context.file.parents.get(node)
    return False


def _body_start(context: PythonContext, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first, _ = context.file.span(function.body[0])
    line = context.text.rfind("\n", 0, first) + 1
    return first if context.text[line:first].strip() else line


_CALL = lazy_regex(rf"{re.escape(NAMESPACE)}\.(\w+)\(((?:[^()]|\([^()]*\))*)\)")
_PLACES = ("device_string", "this_device", "load_location")
_DEFAULT_BACKEND = "torch.distributed.get_default_backend_for_device"
_OTHERS = {
    "collective_backend": f'{_DEFAULT_BACKEND}({NAMESPACE}.current_accelerator() or "cpu")',
}


def by_torch_alone(findings: list[Finding]) -> list[Finding]:
    """Write what torch itself has in place of the portable names (`--device-module torch`).

    What it has no word for is left, by hand. An index that may be a device already is an unsafe fix.
    """
    settled = []
    for finding in findings:
        if not rule_facts(finding.code).with_torch_alone:
            continue
        finding = finding._replace(message=_in_words_of_torch(finding.message))
        if not finding.edits or not any(NAMESPACE in edit.text for edit in finding.edits):
            settled.append(finding)
            continue
        edits = []
        grade = finding.grade
        for edit in finding.edits:
            text, unsure = _of_torch(edit.text)
            if text is None:
                break
            grade = Grade.UNSAFE if unsure and grade is Grade.SAFE else grade
            edits.append(edit._replace(text=text))
        else:
            imports = tuple("torch" if module == NAMESPACE else module for module in finding.imports)
            finding = finding.regraded(Stage.ACCELERATOR, grade, finding.message)
            settled.append(finding._replace(edits=tuple(edits), imports=imports))
            continue
        message = say("{message}; `torch.accelerator` has no counterpart", message=finding.message)
        settled.append(finding.regraded(Stage.ACCELERATOR, Grade.MANUAL, message))
    return settled


def _in_words_of_torch(message: Message) -> Message:
    values = (
        (name, (_of_torch(value)[0] or value) if isinstance(value, str) else value) for name, value in message.values
    )
    return message._replace(values=tuple(values))


def _of_torch(text: str) -> tuple[str | None, bool]:
    """Return an edit's text without portable names, None where torch has none; and whether that is unsure."""
    unsure = False

    def written(match: re.Match[str]) -> str:
        nonlocal unsure
        name, index = match[1], match[2].strip()
        if name in _OTHERS:
            return _OTHERS[name]
        if name not in _PLACES:
            return match[0]
        if not index:
            return DEVICE_TYPE
        if index.isdigit():
            return f'{DEVICE_TYPE} + ":{index}"'
        if name == "this_device":
            unsure = True
            return f"torch.device({DEVICE_TYPE}, {index})"
        return f'{DEVICE_TYPE} + ":" + str({index})'

    text = _CALL.sub(written, text).replace(f"{NAMESPACE}.ACCELERATOR_TYPE", DEVICE_TYPE)
    remaining = {match[1] for match in re.finditer(rf"{re.escape(NAMESPACE)}\.(\w+)", text)}
    own = {"current_accelerator", *KEPT, *RENAMED.values()}
    return (text if remaining <= own else None), unsure
