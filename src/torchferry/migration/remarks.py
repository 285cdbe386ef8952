"""What there is to know about a target or a tree before a report is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchferry.backends.portable import INSTALLED
from torchferry.backends.target import InstalledPlugin, Target
from torchferry.core.messages import Message, say, say_plural
from torchferry.rules.analysis import Analysis, older_torch
from torchferry.source.tree import MOST_IGNORED

_EVERYWHERE = frozenset({"float32", "int64"})
"""Dtypes that every program uses, so that a finding in each file would say nothing."""

_NAMED = 5
"""Files left out that a remark names; JSON lists them all."""


def remarks(
    root: Path, target: Target, analysis: Analysis, redirected: bool = False, ignored: bool = True
) -> Iterator[Message]:
    """Yield remarks on the version asked for, on files left out, on the programs, and on what `--style shim` needs."""
    verified = target.backend.table("api").verified
    plugin = target.backend.PLUGIN
    if not verified:
        yield say("The functions of {plugin} are known from public use only, not from its source.", plugin=plugin)
    elif not target.version:
        yield say(
            "Assumes {plugin} {version} (`-t {name}@VERSION`).",
            plugin=plugin,
            version=verified[-1],
            name=target.name,
        )
    elif target.version not in verified:
        yield say(
            "The functions of {plugin} {version} were not read; those of {known} were.",
            plugin=plugin,
            version=target.version,
            known=", ".join(verified),
        )
    if target.installed is not None:
        yield _installed(target, target.installed)
    if analysis.ignored and ignored:
        yield _ignored(analysis.ignored)
    yield from analysis.run_remarks
    if target.module == INSTALLED:
        yield say(
            "The code runs on every device; what {target} lacks is listed. It needs torchferry "
            "where it runs; `--device-module file` writes a small file into the project instead.",
            target=target.title,
        )
    elif target.module:
        yield say(
            "The code runs on every device, through the project's own `{module}`; what {target} lacks is listed.",
            module=getattr(target, "import_module", target.module),
            target=target.title,
        )
    if redirected and analysis.entry_points:
        yield say(
            "The programs need torchferry where they run, and redirect to the accelerator that is installed there;"
            " TORCHFERRY_SHIM_TARGET names another."
        )
    elif redirected and any(item.uses_device for item in analysis.examined):
        yield say(
            "No program was found that uses the device; name the programs as `entry-points` in "
            "the settings, or start them with `torchferry run`."
        )
    using = any(item.uses_device for item in analysis.examined)
    for dtype, note in target.backend.DTYPE_NOTES.items() if using else ():
        if dtype in _EVERYWHERE:
            yield say("{dtype} on {target}: {note}", dtype=dtype, target=target.title, note=note)
    is_alone = using and not redirected and not target.module and not analysis.entry_points
    if is_alone and target.autoloads() is True and not older_torch(root):
        yield say(
            "`import torch` loads {plugin} by itself (torch 2.5 and later), so that no import of it is added.",
            plugin=plugin,
        )


def _installed(target: Target, plugin: InstalledPlugin) -> Message:
    """Say that the version is that of an environment, or that the user named another one."""
    name = target.backend.PLUGIN
    if target.version == plugin.release:
        return say("{place} has {plugin} {version}: this version is assumed.", place=plugin.place, plugin=name,
                   version=plugin.version)  # fmt: skip
    return say(
        "{place} has {plugin} {version}; the code was examined for {named}, as it was asked for.",
        place=plugin.place,
        plugin=name,
        version=plugin.version,
        named=target.version,
    )


def _ignored(paths: tuple[str, ...]) -> Message:
    """Say which files a `.gitignore` hides: in a tree without git nobody else tells that they were left out."""
    names = ", ".join(paths[:_NAMED]) + (", ..." if len(paths) > _NAMED else "")
    if len(paths) == 1:
        return say("A .gitignore file hides one file, which was left out: {names}", names=names)
    if len(paths) >= MOST_IGNORED:
        return say_plural(
            ".gitignore files hide {count} file and more, which were left out: {names}",
            ".gitignore files hide {count} files and more, which were left out: {names}",
            count=len(paths),
            names=names,
        )
    return say_plural(
        ".gitignore files hide {count} file, which were left out: {names}",
        ".gitignore files hide {count} files, which were left out: {names}",
        count=len(paths),
        names=names,
    )
