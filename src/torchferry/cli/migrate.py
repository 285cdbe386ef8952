"""`torchferry migrate`: rewrite a project, as one transaction that can be taken back."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from torchferry.cli.choices import Choices
from torchferry.cli.converter_options import converter_options
from torchferry.cli.device_module import with_module_files
from torchferry.cli.named_python import named_python
from torchferry.cli.options import (
    output_options,
    refuse_seen,
    rehearse_seconds_option,
    selection_options,
    style_options,
)
from torchferry.cli.settings import RunSettings, settle
from torchferry.cli.writing import creatable, writable, write_data
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.terminal import print_data, print_notice
from torchferry.core.write_fence import WriteFence, require_in_roots
from torchferry.migration.journal import Journal
from torchferry.migration.plan import Plan, plan
from torchferry.migration.preconditions import check_not_migrated, refuse_uncommitted
from torchferry.migration.refused import refuse_changed
from torchferry.migration.transaction import apply, exclusive
from torchferry.rules.analysis import analyse

if TYPE_CHECKING:
    from torchferry.report.summary import MigrationOutput


@click.command("migrate")
@converter_options
@selection_options
@click.option("--unsafe-fixes", is_flag=True, help="Also make the fixes to read; read them first.")
@click.option("--diff", is_flag=True, help="Print a patch and write nothing; exit with 1 if something would change.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if something would change.")
@click.option(
    "--patch",
    "patch_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write a patch to this file and change nothing else.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Write a migrated copy of the tree to this folder.",
)
@click.option("--suffix", default="", metavar="SUFFIX", help="Write new files beside the originals: train_SUFFIX.py.")
@click.option(
    "--kit",
    is_flag=True,
    help="Also write what a team expects beside the code: requirements, setup test, read-me, guide, device manager.",
)
@click.option(
    "--overlay",
    type=click.Path(path_type=Path),
    callback=creatable,
    help="Write migrated copies of the installed modules that the programs reach to this folder, to be imported first.",
)
@click.option(
    "--python",
    callback=named_python,
    metavar="PATH",
    help="With --overlay: an interpreter, an environment or a site-packages folder; default: the active environment.",
)
@style_options
@click.option(
    "--dtype",
    type=click.Choice(["auto"]),
    default=None,
    help="With --style portable: in place of bfloat16, the best dtype that the device computes itself.",
)
@click.option(
    "--status-line",
    is_flag=True,
    help="With --unsafe-fixes: programs print device, dtype, memory and seconds when they end.",
)
@click.option("--allow-dirty", is_flag=True, help="Write even if there are uncommitted changes.")
@click.option("--rewrite-documents", is_flag=True, help="Rewrite commands in README files too.")
@click.option(
    "--rehearse",
    default="",
    metavar="COMMAND",
    help="After the migration, run this command on the simulated card, in a copy; the summary shows the outcome.",
)
@rehearse_seconds_option
@output_options
def command(
    choices: Choices,
    unsafe_fixes: bool,
    diff: bool,
    check: bool,
    patch_file: Path | None,
    out: Path | None,
    suffix: str,
    kit: bool,
    overlay: Path | None,
    python: Path | None,
    style: str,
    device_module: str,
    dtype: str | None,
    status_line: bool,
    allow_dirty: bool,
    rewrite_documents: bool,
    rehearse: str,
    rehearse_seconds: float,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Rewrite a CUDA project for another accelerator.

    PATHS are the project's folder, or files and folders of one project. Safe fixes are applied, in place, all or none;
    the old contents are kept in .torchferry, and `torchferry undo` restores them. Decisions that remain are listed.
    With `-`, standard input is one file, and the result goes to standard output.
    """
    lang = choices.lang
    ways = [bool(diff), bool(check), patch_file is not None, out is not None, bool(suffix)]
    if rehearse:
        unwritten = diff or check or patch_file is not None or overlay is not None or choices.home is not None
        if unwritten or output_format != "text" or output_file is not None:
            raise UsageError(
                say("--rehearse needs a migration that is written, and its report as text on standard output"),
                say("leave out --diff, --check, --patch, --overlay, `-`, --output-format and --output-file"),
            )
        from torchferry.cli.migrate_rehearsal import words_of  # imported late: most migrations run nothing

        words_of(rehearse)  # what is no command is said before anything is written
    if sum(ways) > 1:
        raise UsageError(say("--diff, --check, --patch, --out and --suffix exclude each other; name one"))
    if overlay is not None:
        if (
            patch_file is not None
            or out is not None
            or suffix
            or kit
            or choices.home is not None
            or output_format != "text"
        ):
            raise UsageError(say("--overlay can be combined only with --check and --diff"))
        from torchferry.cli.overlay import Overlay, write_overlay  # imported late: most migrations write none

        write_overlay(Overlay(overlay, python, check, diff), choices._replace(unsafe_fixes=unsafe_fixes), verbose)
    if python is not None:
        raise UsageError(say("--python names the environment of --overlay: add --overlay, or leave --python out"))
    refuse_seen(choices._replace(style=style))
    if dtype is not None and (style != "portable" or device_module == "torch"):
        raise UsageError(
            say("--dtype needs the device manager: use `--style portable`, without `--device-module torch`")
        )
    if status_line and (style == "shim" or device_module == "torch"):
        raise UsageError(
            say("--status-line needs the plugin or the device manager, and this code will use neither"),
            say("use it with `--style native`, or with `--style portable` and another --device-module"),
        )
    choices = choices._replace(
        unsafe_fixes=unsafe_fixes,
        rewrite_documents=rewrite_documents,
        style=style,
        device_module=device_module,
        dtype=dtype or "",
        status_line=status_line,
    )
    if choices.home is not None:
        if out is not None or suffix or patch_file is not None:
            raise UsageError(say("`-` writes to standard output: --patch, --out and --suffix do not apply"))
        if kit:
            raise UsageError(say("--kit needs the project's folder, and `-` is one file"))
        if not diff and not check:
            _rewrite_standard_input(choices)
    if not any(ways):
        with exclusive(choices.root, fence=_fence(choices)) as tree:
            for journal in tree.recovered:
                print_notice(say("undid an interrupted migration to {target}", target=journal.target).render(lang))
            setting = settle(choices, rewrite=True)
            setting, planned = plan_of(setting, "in place" if kit else "", lang)
            if planned.writes and not allow_dirty:
                refuse_uncommitted(setting.root)
            from torchferry.cli import migrated  # imported late, as below: while other processes examine files

            shown = migrated.Shown(output_format, output_file, quiet, verbose)
            judged = migrated.judge(setting, choices, planned, shown, writing=True)  # by the files as they are
            planned = migrated.judged_plan(setting, planned, judged)
            if planned.writes:
                fenced = tree._replace(fence=_fence(choices, planned))
                tell_unknown(apply(fenced, planned.writes, setting.target.journal_key), setting.root, lang)
            written = migrated.MigrationOutput("in place", setting.root)
            written, could_be_tested = _tested(setting, written, rehearse, rehearse_seconds, lang)
            migrated.finish(setting, planned, judged, written, shown, choices, could_be_tested=could_be_tested)
    setting = settle(choices, rewrite=True)
    way = "copy" if out is not None else "patch" if diff or patch_file is not None else "in place"
    setting, planned = plan_of(setting, way if kit and not suffix else "", lang)
    from torchferry.cli import migrated

    shown = migrated.Shown(output_format, output_file, quiet, verbose)
    judged = migrated.judge(setting, choices, planned, shown, writing=out is not None or bool(suffix))
    planned = migrated.judged_plan(setting, planned, judged)
    if diff or patch_file is not None:
        _write_patch(planned, patch_file)
        if patch_file is None:
            report = migrated.report_of(setting, planned, judged)
            migrated.warn(report, lang)
            sys.exit(migrated.status(planned, report, changes_count=True))
        written = migrated.MigrationOutput("patch", patch_file)
    elif check:
        written = migrated.MigrationOutput("nothing", setting.root)
    elif out is not None:
        from torchferry.migration.copy import write_copy

        require_in_roots(out)
        special = write_copy(setting.root, out, planned.writes)
        if special:
            names = ", ".join(special[:5])
            print_notice(say("not copied, since they are pipes, sockets or devices: {names}", names=names).render(lang))
        written = migrated.MigrationOutput("copy", out)
    else:
        planned = _write_beside(setting, planned, suffix, kit, choices)
        written = migrated.MigrationOutput("beside", setting.root)
    written, could_be_tested = _tested(setting, written, rehearse, rehearse_seconds, lang)
    migrated.finish(setting, planned, judged, written, shown, choices, check, could_be_tested)


def _tested(
    setting: RunSettings, written: MigrationOutput, command: str, seconds: float, lang: str
) -> tuple[MigrationOutput, bool]:
    """Run the command that is to be rehearsed, if there is one; the output says what happened.

    The second is whether it could begin: not where torch is missing.
    """
    if not command:
        return written, True
    from torchferry.cli.migrate_rehearsal import device_test

    test, could_begin = device_test(setting, written, command, seconds, lang)
    return written._replace(device_test=test), could_begin


def _rewrite_standard_input(choices: Choices) -> NoReturn:
    """Print the file on standard input as it is to be, and say on standard error what is left to do."""
    setting = settle(choices, rewrite=True)
    setting, planned = plan_of(setting)
    paths = [entry.path for entry in setting.request.listing.entries]  # none where settings leave it out
    after = next((write.after for write in planned.writes if write.path in paths), None)
    print_data(choices.paths[0].read_bytes() if after is None else after)
    home = choices.home or setting.root
    for write in planned.writes:
        if write.before is None and not (home / write.path).exists():
            print_notice(
                say(
                    "the result needs `{path}`, which does not exist, and `-` does not write it; `torchferry device "
                    "vendor` writes one",
                    path=write.path,
                ).render(choices.lang)
            )
    from torchferry.cli import migrated
    from torchferry.cli.judging import Verdicts

    report = migrated.report_of(setting, planned, Verdicts())
    migrated.tell_work(report, choices.lang)
    sys.exit(migrated.status(planned, report))


def plan_of(setting: RunSettings, kit: str = "", lang: str = "en") -> tuple[RunSettings, Plan]:
    """Return the plan; with `kit`, which says how the code is written, also that of the files beside it."""
    analysis = analyse(setting.request, meanwhile=_import_ahead)
    check_not_migrated(setting.root, setting.target, analysis)
    from torchferry.cli.native import with_survey  # imported late: while other processes examine files

    analysis, native = with_survey(analysis, setting.root, setting.target, setting.request.selection.decided)
    planned = plan(setting.root, analysis)
    if setting.placement is not None:
        planned = with_module_files(setting.root, setting.placement, planned)
    if kit:
        from torchferry.cli.kit import kit_for, with_kit  # imported late: few migrations write one

        to_be = {write.path: write.after for write in planned.writes}
        planned = with_kit(setting, planned, kit_for(setting, "", lang, to_be), kit)
    return setting._replace(native=native), planned


def _import_ahead() -> None:
    """Import what the rest of a migration needs, while other processes examine files."""
    importlib.import_module("torchferry.cli.migrated")
    importlib.import_module("hmac")


def _write_patch(planned: Plan, file: Path | None) -> None:
    from torchferry.migration.patch import patch

    data = patch(planned.writes)
    if file is None:
        print_data(data)
        return
    write_data(data, file)


def _fence(choices: Choices, planned: Plan | None = None) -> WriteFence:
    """Return what a migration may change: what the paths name, and what torchferry maintains in the project; it may
    also make files of the project.
    """
    maintained = [choices.root / path for path in planned.maintained] if planned is not None else []
    return WriteFence.around(*choices.paths, *maintained, new_below=(choices.root,))


def _write_beside(setting: RunSettings, planned: Plan, suffix: str, kit: bool, choices: Choices) -> Plan:
    """Write new files beside the originals, and return the plan of what was written."""
    from torchferry.migration.suffix import plan_suffix

    lang = choices.lang
    originals = [(write.path, write.before) for write in planned.writes if write.before is not None]
    if kit:
        from torchferry.cli.kit import kit_for, with_kit  # imported late: few migrations write one

        wanted = kit_for(setting, suffix, lang)
        lists = wanted.targeted.renamed
        writes = plan_suffix(setting.root, planned.analysis, planned.writes, suffix, setting.target, lists)
        planned = with_kit(setting, planned, wanted, "beside", suffix, writes)
        writes = planned.writes
    else:
        writes = plan_suffix(setting.root, planned.analysis, planned.writes, suffix, setting.target)
    writes = [write for write in writes if write.before != write.after]
    with exclusive(setting.root, fence=_fence(choices, planned)) as tree:
        refuse_changed(setting.root, originals)
        if writes:
            tell_unknown(apply(tree, writes, setting.target.journal_key, suffix), setting.root, lang)
    return planned._replace(writes=writes)


def tell_unknown(journal: Journal, root: Path, lang: str) -> None:
    """Say that the next command will not know this migration as the user's own."""
    if journal.problem is not None:
        text = say(
            "this migration could not be signed: {problem}; `torchferry undo {root} --trust-journal` undoes it",
            problem=journal.problem,
            root=root,
        )
        print_notice(text.render(lang))
