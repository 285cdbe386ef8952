"""Packages whose classes settings name: `_target_: apex.optimizers.FusedAdam` imports apex as a statement does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from torchferry.core.finding import Finding
from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.config.device_setting import settings_of_program
from torchferry.source.names import Names
from torchferry.source.python import PythonFile
from torchferry.source.text import SourceText

WORDS = ("_target_", "class_path", "!!python/")
"""Without one of these a file of settings names no class."""

_KEYS = frozenset({"_target_", "class_path"})
"""What hydra and Lightning call the class of which an object is made."""

_DOTTED = lazy_regex(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")

_TAG = lazy_regex(r"!!python/(?:object(?:/apply|/new)?|name|module):((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)")
"""What has PyYAML make an object, or look one up."""


def names_in_tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of PyYAML by which a text names what Python has; the first group is the name."""
    return _TAG.finditer(text) if "!!python/" in text else iter(())


def findings_in_settings(
    context: Context, check_python: Callable[[PythonContext], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield what a rule finds where a settings file names a class, as it finds it where a file imports the class.

    Args:
        context: The settings file.
        check_python: What the rule says of a Python file.
    """
    for span, name in _names(context):
        module, _, member = name.rpartition(".")
        project = context.project
        if not module or (project is not None and project.module_path(name.partition(".")[0], "") is not None):
            continue
        file = PythonFile(context.path, SourceText(f"from {module} import {member}\n{member}()\n"))
        importing = PythonContext(file, Names(file, project), context.target, context.options, project)
        messages = set()
        for finding in check_python(importing):
            if finding.message not in messages:
                messages.add(finding.message)
                yield finding._replace(location=context.location(*span), snippet=context.snippet(*span))


def _names(context: Context) -> Iterator[tuple[tuple[int, int], str]]:
    for setting in settings_of_program(context):
        if setting.key in _KEYS and _DOTTED.fullmatch(setting.value) is not None:
            yield (setting.start, setting.end), setting.value
    for tag in names_in_tags(context.text):
        yield tag.span(1), tag[1]
