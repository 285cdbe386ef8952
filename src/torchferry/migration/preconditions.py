"""What keeps a tree from being written: it was migrated to another target, or has changes that are in no commit."""

from __future__ import annotations

import re
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say, say_plural
from torchferry.migration.git import changed_by_others, uncommitted
from torchferry.migration.journal import known_journals
from torchferry.rules.analysis import Analysis
from torchferry.rules.imports.plugin_import import device_findings


def check_not_migrated(root: Path, target: Target, analysis: Analysis) -> None:
    """Refuse to migrate a tree that was migrated to another target.

    The journal tells; in a tree without one (a fresh clone) its programs do, when they import another target's plugin
    and nothing of CUDA is left to rewrite in Python.

    Raises:
        TorchferryError: the tree was migrated to another target.
    """
    for journal in reversed(known_journals(root)):
        if journal.is_decision:
            continue
        name = journal.target.partition("@")[0]
        if name != target.journal_key.partition("@")[0]:
            raise TorchferryError(
                say("this tree was migrated to {other} on {date}", other=name, date=journal.created),
                say(
                    "undo that migration first (`torchferry undo {root}`), then migrate to {target}",
                    root=root,
                    target=target,
                ),
            )
        return
    if device_findings(analysis.findings) or any(item.uses_device for item in analysis.examined):
        return
    other = _imported_plugin(root, target, analysis)
    if other is not None:
        raise TorchferryError(
            say("this tree uses {plugin} and no CUDA: there is no CUDA code to migrate", plugin=other),
            say("start from the CUDA version; `--out DIR` writes one copy for each target"),
        )


def _imported_plugin(root: Path, target: Target, analysis: Analysis) -> str | None:
    """Return the plugin of another target that some file imports; None too where one imports the target's own.

    ptex is a part of torch_gcu, which a program that was migrated to it may import beside.
    """
    plugins = {registry.load(name).PLUGIN for name in registry.built_in()} - {target.backend.PLUGIN}
    pattern = re.compile("|".join(rf"{plugin}(?:\.|\Z)" for plugin in sorted(plugins)))
    outlines = [item.outline for item in analysis.examined if item.outline is not None]
    if any(target.backend.PLUGIN in outline.packages for outline in outlines):
        return None
    for imported in (each for outline in outlines for each in outline.imports):
        match = pattern.match(imported.module)
        if match is not None:
            return match.group().rstrip(".")
    return None


def refuse_uncommitted(root: Path) -> None:
    """Refuse to write over changes that are in no commit, except those that torchferry made.

    Raises:
        TorchferryError: there are such changes, or git cannot say.
    """
    ours = {change.path: change.after for journal in known_journals(root) for change in journal.changes}
    dirty = changed_by_others(root, uncommitted(root), ours)
    if dirty:
        raise TorchferryError(
            say_plural(
                "{count} file has changes that are not committed, such as {path}",
                "{count} files have changes that are not committed, such as {path}",
                count=len(dirty),
                path=dirty[0],
            ),
            say("commit or stash them, or use --allow-dirty"),
        )
