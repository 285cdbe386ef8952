"""`torchferry scan`: say what must change, and whether the project can arrive at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchferry.cli.choices import Choices
from torchferry.cli.device_module import placement_remarks
from torchferry.cli.judging import verdicts, whole, within_project
from torchferry.cli.named_python import named_python
from torchferry.cli.native import with_survey
from torchferry.cli.options import (
    output_options,
    refuse_seen,
    rehearse_seconds_option,
    selection_options,
    style_options,
)
from torchferry.cli.output import tell_stale_decisions, write_report
from torchferry.cli.scan_cache import ScanCache
from torchferry.cli.settings import RunSettings, settings_lines, settle
from torchferry.cli.writing import writable, write
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say, shortened
from torchferry.core.progress import doing
from torchferry.core.terminal import print_notice, print_text
from torchferry.installed.model import Inspected
from torchferry.migration.remarks import remarks
from torchferry.migration.transaction import interrupted
from torchferry.programs.model import RunEnding
from torchferry.programs.verdicts.file_facts import FACTS_FOR_JUDGING
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import ProjectVerdict, Report, report_of
from torchferry.rules.analysis import analyse

if TYPE_CHECKING:
    from torchferry.cli.settling import Runs
    from torchferry.installed.environment import Environment


@click.command("scan")
@selection_options
@output_options
@style_options
@click.option(
    "--python",
    callback=named_python,
    metavar="PATH",
    help="Also examine the packages of this interpreter, environment or site-packages folder.",
)
@click.option(
    "--rehearse",
    multiple=True,
    metavar="COMMAND",
    help="Run a program on the simulated card, in a migrated copy, and judge it by that; can be repeated.",
)
@rehearse_seconds_option
@click.option(
    "--reproduction",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="With --rehearse: write the programs' files, the verdicts and what was seen to this ZIP archive.",
)
@click.option(
    "--since",
    default="",
    metavar="REV",
    help="Report only what has come since this branch, tag or commit of git, as a pull request is compared.",
)
@click.option(
    "--kept", "list_mentions", is_flag=True, help="List every CUDA word that stays without a finding, and why."
)
@click.option(
    "--plan",
    is_flag=True,
    help="Print a plan up to acceptance instead of the report: phases, counts, commands; text or json.",
)
@click.option("--statistics", is_flag=True, help="Print how many findings each rule has instead of the report.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@click.option(
    "--no-cache", "use_cache", flag_value=False, default=True, help="Examine everything again, and keep nothing."
)
def command(
    choices: Choices,
    output_format: str,
    output_file: Path | None,
    quiet: bool,
    verbose: bool,
    style: str,
    device_module: str,
    python: Path | None,
    rehearse: tuple[str, ...],
    rehearse_seconds: float,
    reproduction: Path | None,
    since: str,
    list_mentions: bool,
    plan: bool,
    statistics: bool,
    exit_zero: bool,
    use_cache: bool,
) -> None:
    """Report what a CUDA project needs to run on another accelerator.

    With `--rehearse "python train.py --steps 2"` that program runs on the simulated card, and the result replaces
    its verdict; this proves that code is right for the API, and says nothing about speed or accuracy on the card.

    PATHS are the project's folder, or files and folders of one project; nothing is written in it. `-` reads one file
    from standard input. The report shows the verdict, counts, what blocks, and every place with what to do there.
    With `--style`, it is the report of the code that `migrate --style` would write: what would be left to do.
    With `--since REV`, it is what a pull request brings: places that are new, also in files that it does not touch.
    """
    lang = choices.lang
    if plan and (output_format not in ("text", "json") or choices.only or choices.home is not None):
        raise UsageError(
            say("--plan is about a whole project, and is text or json"),
            say("name the project's folder, and no other form than text or json"),
        )
    if statistics and (plan or quiet or output_format not in ("text", "full")):
        raise UsageError(
            say("--statistics is text in place of a report"),
            say("leave out --plan and --quiet, and name no other form; JSON has `families` and `findings`"),
        )
    if style != "native" and (plan or rehearse or reproduction is not None):
        raise UsageError(
            say("--plan, --rehearse and --reproduction work only with `--style native`"),
            say(
                "leave them out; `torchferry migrate --style {style} --rehearse COMMAND` rehearses the result",
                style=style,
            ),
        )
    if since:
        others = rehearse or reproduction is not None or python is not None or choices.seen or choices.home is not None
        if plan or list_mentions or style != "native" or others or output_format in ("html", "json-2"):
            raise UsageError(
                say("--since works only with a folder or files of it, native style, and not as html or json-2"),
                say("leave out what runs, plans or lists more than the change, or leave out --since"),
            )
    choices = choices._replace(style=style, device_module=device_module)
    refuse_seen(choices)
    environment = None
    if python is not None:
        from torchferry.installed.environment import environment_of

        environment = environment_of(python)
    choices = within_project(choices)
    setting = settle(choices, rewrite=output_format == "html", environment=environment)
    for folder in dict.fromkeys((setting.root, choices.named_folder)):
        for text in _interrupted(folder):
            print_notice(text.render(lang))
    runs = None
    if rehearse or reproduction is not None:
        from torchferry.cli.settling import Runs  # imported late: few scans run anything

        runs = Runs(rehearse, rehearse_seconds)
    if since:
        from torchferry.cli.since import report_since  # imported late: most scans compare nothing

        report = report_since(setting, choices, since)
    else:
        report = scanned(
            setting,
            choices,
            environment,
            runs,
            reproduction,
            use_cache=use_cache,
            with_account=list_mentions or verbose,
        )
    if not since and not (choices.only or setting.request.selection.select or setting.request.selection.ignore):
        tell_stale_decisions(setting.request.selection.decided, report.findings, lang)
    if plan:
        from torchferry.report.plan import plan_json, plan_of, plan_text  # imported late: few scans ask for it

        phases = plan_of(report, str(choices.paths[0]), str(setting.target))
        write((plan_json if output_format == "json" else plan_text)(report, phases, lang), output_file)
    elif statistics:
        from torchferry.report.full_format import statistics_lines

        write("".join(f"{line}\n" for line in statistics_lines(report, lang)), output_file)
    elif output_format == "text" and output_file is None:
        if verbose:
            for line in settings_lines(setting.config, choices):
                print_text(line)
        if quiet:
            print_text(verdict_sentence(report).render(lang))
        else:
            write_report(report, output_format, lang, None, verbose, choices.paths)
    else:
        write_report(report, output_format, lang, output_file, verbose, choices.paths, setting.root)
    if (list_mentions or verbose) and not plan:
        for word in report.words.staying:
            reason = say(word.kind.value).render(lang)
            print_text(f"{word.location!s} {shortened(word.word)}  [{reason}]")
    runs_seen = [item.settled for item in report.programs if item.settled is not None]
    if report.failures or any(run.seen.could_not_begin for run in runs_seen):
        sys.exit(exitcodes.ERROR)
    is_wrong = any(run.fault is not None or run.seen.ending is RunEnding.NOTHING for run in runs_seen)
    is_open = report.verdict in (ProjectVerdict.MAY_NEED, ProjectVerdict.INCOMPLETE) or (
        choices.only and report.verdict not in (ProjectVerdict.READY, ProjectVerdict.NOTHING_NEW)
    )
    is_finding = report.work or is_wrong or is_open
    sys.exit(exitcodes.FINDINGS if is_finding and not exit_zero else exitcodes.CLEAN)


def scanned(
    setting: RunSettings,
    choices: Choices,
    environment: Environment | None = None,
    runs: Runs | None = None,
    reproduction: Path | None = None,
    *,
    use_cache: bool = True,
    with_account: bool = False,
) -> Report:
    """Return the report of a scan, an earlier one where nothing has changed since.

    Args:
        setting: The run.
        choices: What was asked for on the command line.
        environment: The packages to examine with it, or None.
        runs: The programs to run on the simulated card, or None.
        reproduction: The archive for what was seen there, or None.
        use_cache: Whether an earlier report may be taken, and this one kept.
        with_account: Whether words are counted also where rules are left out.
    """
    selection = setting.request.selection
    every = not (selection.select or selection.ignore)  # else the account would count what was not looked for
    request = setting.request._replace(account=every or with_account, afterwards=FACTS_FOR_JUDGING)
    setting = setting._replace(request=request)
    cache = None
    with doing(say("looking for an earlier result")):
        if use_cache and environment is None and runs is None:
            cache = ScanCache.of(setting, choices)
        report = None if cache is None else cache.load()
    if report is None:
        report = _examined(setting, choices, environment, runs, reproduction)
        if cache is not None:
            cache.store(report)
    return report


def _examined(
    setting: RunSettings,
    choices: Choices,
    environment: Environment | None,
    runs: Runs | None,
    reproduction: Path | None,
) -> Report:
    """Examine a project and judge its programs.

    Args:
        setting: The run.
        choices: What was asked for on the command line.
        environment: The packages to examine with it, or None.
        runs: The programs to run on the simulated card, or None.
        reproduction: The archive for what was seen there, or None.
    """
    analysis = analyse(setting.request)
    project = whole(setting, choices, analysis)
    is_whole = project is analysis
    decisions = setting.request.selection.decided
    project, native = with_survey(project, setting.root, setting.target, decisions)
    analysis = project if is_whole else with_survey(analysis, setting.root, setting.target, decisions)[0]
    packages: tuple[Inspected, ...] = ()
    if environment is not None:
        from torchferry.cli.packages import reached  # imported late: most runs name no environment

        packages = reached(environment, setting, project, choices.lang)
    if runs is not None:
        from torchferry.cli.settling import judged_by_runs  # imported late: few scans run anything

        asked = partial(verdicts, setting, choices, project, packages)
        judged, done = judged_by_runs(runs, asked, project is analysis, choices, setting)
        if reproduction is not None:
            from torchferry.cli.reproduction import write_reproduction  # imported late, as above

            write_reproduction(reproduction, setting, project, done)
        honesty = say(
            "A rehearsal proves that code is right for the API; it says nothing about speed or accuracy on the card."
        )
        judged = judged._replace(remarks=(*judged.remarks, honesty))
    else:
        judged = verdicts(setting, choices, project, packages)
    shown_remarks = (
        *remarks(setting.root, setting.target, analysis, setting.request.redirected, ignored=not judged.unexamined),
        *(() if setting.placement is None else placement_remarks(setting.placement)),
        *judged.remarks,
    )
    report = report_of(
        analysis, setting.target, setting.name, remarks=shown_remarks, programs=judged.programs, decisions=decisions
    )
    report = report._replace(style=setting.style)
    return report._replace(
        packages=packages,
        unexamined=judged.unexamined,
        partial=judged.partial,
        without_code=judged.without_code,
        native=native,
    )


def _interrupted(root: Path) -> Iterator[Message]:
    """Say which migrations of the tree were interrupted, and what is wrong with its journals; a scan goes on."""
    try:
        for journal in interrupted(root):
            if journal.problem is None:
                yield say("a migration of {root} was interrupted; `torchferry undo {root}` undoes it", root=root)
                continue
            yield say(
                "{folder} contains an interrupted migration that is not known as yours ({problem}); it is ignored; "
                "`torchferry undo {root}` shows it",
                folder=journal.folder,
                problem=journal.problem,
                root=root,
            )
    except TorchferryError as error:
        yield error.message
