"""`torchferry migrate`: rewrite a project, as one transaction that can be taken back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli.device_module import DEVICE_MODULES, placement_remarks, with_module_files
from torchferry.cli.options import Choices, Setting, codes, output_options, project_name, selection_options, settle
from torchferry.cli.output import progress, tell, write_report
from torchferry.core import env, exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.migration.arrived import refuse_second_target
from torchferry.migration.git import changed_by_others, uncommitted
from torchferry.migration.journal import journals
from torchferry.migration.plan import Plan, plan
from torchferry.migration.remarks import remarks
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.report.model import Report, diffs_of
from torchferry.report.summary import Written, summary
from torchferry.rules.analysis import analyse

STYLES = ("native", "portable", "shim")
"""The target's own API in place of CUDA's; one that leads to whichever device is there; or one import that redirects
CUDA's, and nothing else."""


@click.command("migrate")
@selection_options
@click.option("--unsafe-fixes", is_flag=True, help="Apply the fixes that you should read as well.")
@click.option("--diff", is_flag=True, help="Print a patch and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a patch to this file, nothing else.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write a migrated copy of the tree to this folder.")
@click.option("--suffix", default="", metavar="SUFFIX", help="Write new files beside the originals: train_SUFFIX.py.")
@click.option(
    "--style",
    type=click.Choice(STYLES),
    default="native",
    help="The vendor's own API, code for all devices, or a redirect.",
)
@click.option(
    "--device-module",
    type=click.Choice(DEVICE_MODULES),
    default="file",
    help="With --style portable: a small file in the project, the torchferry package, or torch.accelerator.",
)
@click.option("--allow-dirty", is_flag=True, help="Write although changes are not committed.")
@click.option("--rewrite-documents", is_flag=True, help="Rewrite commands in README files too.")
@output_options
def command(
    path: Path,
    target: str,
    select: str,
    ignore: str,
    seen: Path | None,
    exclude: tuple[str, ...],
    lang: str | None,
    jobs: int | None,
    unsafe_fixes: bool,
    diff: bool,
    check: bool,
    patch_file: Path | None,
    out: Path | None,
    suffix: str,
    style: str,
    device_module: str,
    allow_dirty: bool,
    rewrite_documents: bool,
    output_format: str,
    output_file: Path | None,
) -> None:
    """Rewrite a CUDA project for another accelerator.

    PATH is the project's folder (or one file of it). Safe fixes are applied, in place, all or none; what was there is
    kept in PATH/.torchferry, and `torchferry undo` puts it back. What torchferry cannot decide is listed.
    """
    lang = lang or env.language()
    ways = [bool(diff), bool(check), patch_file is not None, out is not None, bool(suffix)]
    if sum(ways) > 1:
        raise UsageError(say("--diff, --check, --patch, --out and --suffix are different ways to write; name one"))
    if seen is not None and style == "shim":
        raise UsageError(
            say("with `--style shim` what a run saw is redirected in every run"),
            say("use --seen without it: it finds what has to be rewritten by hand"),
        )
    choices = Choices(
        path, target, codes(select), codes(ignore), exclude, unsafe_fixes, rewrite_documents, jobs or 0, seen, style,
        device_module,
    )  # fmt: skip
    if not any(ways):
        with exclusive(path if path.is_dir() else path.parent) as recovered:
            for journal in recovered:
                tell(say("took back an interrupted migration to {target}", target=journal.target).render(lang))
            setting = settle(choices, rewrite=True)
            planned = _plan(setting)
            _refuse_dirty(setting, planned, allow_dirty)
            if planned.writes:
                apply(setting.root, planned.writes, setting.target.reached)
            _finish(setting, planned, Written("in place", setting.root), output_format, output_file, lang)
    setting = settle(choices, rewrite=True)
    planned = _plan(setting)
    if diff or patch_file is not None:
        _write_patch(planned, patch_file)
        if patch_file is None:
            sys.exit(_status(planned))
        written = Written("patch", patch_file)
    elif check:
        written = Written("nothing", setting.root)
    elif out is not None:
        from torchferry.migration.copy import write_copy

        write_copy(setting.root, out, planned.writes)
        written = Written("copy", out)
    else:
        planned = planned._replace(writes=_write_beside(setting, planned, suffix))
        written = Written("beside", setting.root)
    _finish(setting, planned, written, output_format, output_file, lang, changes_count=check)


def _plan(setting: Setting) -> Plan:
    with progress(len(setting.request.listing.entries)) as advance:
        analysis = analyse(setting.request, advance)
    refuse_second_target(setting.root, setting.target, analysis)
    planned = plan(setting.root, analysis)
    return planned if setting.placement is None else with_module_files(setting.root, setting.placement, planned)


def _refuse_dirty(setting: Setting, planned: Plan, allow: bool) -> None:
    """Refuse to write over changes that are in no commit, except those that a migration made."""
    if allow or not planned.writes:
        return
    ours = {change.path: change.after for journal in journals(setting.root) for change in journal.changes}
    dirty = changed_by_others(setting.root, uncommitted(setting.root), ours)
    if dirty:
        raise TorchferryError(
            say("{count} files have changes that are not committed, such as {path}", count=len(dirty), path=dirty[0]),
            say("commit or stash them, or say --allow-dirty"),
        )


def _write_patch(planned: Plan, file: Path | None) -> None:
    from torchferry.migration.patch import patch

    data = patch(planned.writes)
    if file is None:
        sys.stdout.buffer.write(data)
        return
    try:
        file.write_bytes(data)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None


def _write_beside(setting: Setting, planned: Plan, suffix: str) -> list[Write]:
    from torchferry.migration.suffix import plan_suffix

    writes = plan_suffix(setting.root, planned.analysis, planned.writes, suffix, setting.target)
    with exclusive(setting.root):
        if writes:
            apply(setting.root, writes, setting.target.reached)
    return writes


def _status(planned: Plan, changes_count: bool = False) -> int:
    """Return the exit code: work that is left counts, and with --check what would change."""
    if planned.analysis.failures:
        return exitcodes.ERROR
    left = any(finding.grade.value != "note" for finding in planned.remaining)
    return exitcodes.FINDINGS if left or (changes_count and planned.writes) else exitcodes.CLEAN


def _finish(
    setting: Setting,
    planned: Plan,
    written: Written,
    form: str,
    file: Path | None,
    lang: str,
    changes_count: bool = False,
) -> None:
    """Say what was done and what remains, and end with the exit code for it."""
    written = written._replace(style=setting.style, device_module=setting.device_module)
    report = Report(
        target=str(setting.target),
        target_title=setting.target.title,
        root=project_name(setting.root),
        files=len(planned.analysis.examined),
        findings=tuple(sorted(planned.remaining, key=lambda finding: finding.location)),
        failures=tuple(planned.analysis.failures),
        entry_points=tuple(planned.analysis.entry_points),
        remarks=(
            *remarks(setting.root, setting.target, planned.analysis, setting.request.redirected),
            *(() if setting.placement is None else placement_remarks(setting.placement)),
        ),
        diffs=tuple(diffs_of(planned.analysis)),
    )
    if form == "text" and file is None:
        for line in summary(report, planned.fixed, planned.writes, setting.target, written, lang):
            click.echo(line)
    else:
        write_report(report, form, lang, file)
    sys.exit(_status(planned, changes_count))
