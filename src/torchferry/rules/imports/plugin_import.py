"""A program that uses the device and does not import the plugin.

The device type, its module in torch and its methods exist only after the plugin is imported. Since torch 2.5 a plugin
can have `import torch` load it; then an import in the programs that people start is enough, and says what is meant.
For a plugin that is not loaded by itself, every module that imports torch and uses the device imports it. The line
goes behind the first import of torch, once.

Why: Without the plugin torch does not know the device, and the first use raises.

References:
- table versions
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.rules.base import Rule
from torchferry.rules.device.load_onto_device import ON_CPU
from torchferry.rules.registry import rule_facts
from torchferry.source.insertion import has_torch_import, import_edit, imports_module
from torchferry.source.text import SourceText


class PluginImport(Rule):
    """Adds the plugin's import where it is needed; which files these are is known when all were examined."""

    CODE = "IMP101"
    EFFECT = Effect.RAISES

    def edit(self, source: SourceText, target: Target, anyhow: bool) -> Edit | None:
        """Return the edit for a file that needs the plugin, or None when it has it or has no place for it.

        Args:
            source: The file's text.
            target: The target.
            anyhow: Whether a file that imports torch nowhere at its top gets the import too, as programs do.
        """
        plugin = target.backend.PLUGIN
        if imports_module(source.text, plugin) or not (anyhow or has_torch_import(source.text)):
            return None
        namespace = target.backend.IMPORT_NAMESPACE
        ahead_of = namespace if namespace.startswith("torch.") else ""
        return import_edit(source.text, [plugin], source.newline, ahead_of)

    def at(self, path: str, source: SourceText, edit: Edit, target: Target) -> Finding:
        """Build the finding for an edit that `edit` returned."""
        line, column = source.position(edit.start)
        plugin = target.backend.PLUGIN
        message = say("uses {target} and needs `import {plugin}`", target=target.title, plugin=plugin)
        place = Location(path, line, column, line, column)
        return Finding(self.CODE, place, message, Grade.SAFE, (edit,), effect=self.EFFECT)


def device_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that change how a file uses the device, rather than paths or commands in it."""
    return [finding for finding in findings if finding.edits and rule_facts(finding.code).uses_device]


def needs_plugin(findings: Iterable[Finding]) -> bool:
    """Whether a file with these findings uses a device once they are fixed; what loads to the CPU instead does not.

    A fix whose place is within such a one goes with it.
    """
    using: list[Finding] = []
    replaced: list[Edit] = []
    for finding in device_findings(findings):
        if any(edit.text != ON_CPU for edit in finding.edits):
            using.append(finding)
        elif finding.grade is Grade.SAFE:
            replaced += finding.edits
    return any(
        not any(part.start <= edit.start and edit.end <= part.end for edit in finding.edits for part in replaced)
        for finding in using
    )
