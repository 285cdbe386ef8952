"""`torchferry deploy run`: installs what is missing."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from torchferry.cli.deploy_check import obstacles
from torchferry.cli.deploy_options import DeployChoices, plan_options, print_json, status_of_hosts
from torchferry.cli.writing import writable, write
from torchferry.core.errors import UsageError
from torchferry.core.messages import say, say_plural
from torchferry.core.terminal import print_text
from torchferry.deploy import records
from torchferry.deploy.page import page as page_of
from torchferry.deploy.report import failure_lines, summary_json, table_lines


@click.command("run")
@plan_options(hosts=True)
@click.option("--dry-run", is_flag=True, help="Look at the hosts and say what would run; change nothing.")
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write the run as a page of HTML when it has ended.",
)
def command(choices: DeployChoices, dry_run: bool, output_format: str, page: Path | None) -> None:
    """Install what is missing on all hosts, step by step: each step checks first, runs, and is checked afterwards.

    Completed steps are not repeated, so the same command goes on after a failure, an interruption or a restart. A host
    that fails does not hold up the others. Ends with 1 when a host failed, with 2 when one could not be asked.

    \b
    torchferry deploy run -t NAME -i hosts.ini -b bundle --dry-run
    torchferry deploy run -t NAME -i hosts.ini -b bundle
    torchferry deploy run -t NAME -i hosts.ini -b bundle --limit node7 --from-stage framework
    """
    plan, lang = choices.plan, choices.lang
    carried = plan.bundle.files if plan.bundle else {}
    missing = [file for file in plan.facts.files if not file.optional and file.name not in carried]
    if missing:  # without it most steps would be left out, and the rest would look like a success
        raise UsageError(
            say(
                "the bundle needs {files}",
                files="; ".join(f"{file.name} ({file.about.render(lang)})" for file in missing),
            ),
            say(
                "make a bundle with them, and give it with --bundle: torchferry deploy bundle -t {target} -o FOLDER "
                "{files}",
                target=plan.target,
                files=" ".join(f"--file {file.name}=PATH" for file in missing),
            ),
        )
    begun = records.now()
    hosts = choices.play("survey" if dry_run else "run", "run")
    if page is not None:
        record = records.RunRecord("run", plan.target, begun, records.now(), hosts)
        write(page_of(record, plan, lang), page)
    failures = [host.failed for host in hosts.values() if host.failed is not None]
    if dry_run:
        failures = obstacles(choices, hosts.values())
    if output_format == "json":
        document = summary_json(plan, hosts, "run", lang)
        if dry_run:
            document |= {"ok": not failures, "obstacles": [f"{item.host}: {item.step}" for item in failures]}
        print_json(document)
        sys.exit(status_of_hosts(hosts.values(), bool(failures)))
    print_text(*table_lines(plan, hosts, lang))
    for outcome in failures:
        print_text(*failure_lines(plan, outcome, lang))
    for left in (row for row in plan.left_out if row.chosen):
        print_text(say("left out: {step}: {reason}", step=left.step.id, reason=left.reason).render(lang))
    if dry_run:
        for host in hosts.values():
            names = [name for name, outcome in host.steps.items() if outcome.status == "todo"]
            print_text(say("{host}: would run: {steps}", host=host.host, steps=", ".join(names) or "-").render(lang))
        print_text(say("nothing was changed (--dry-run)").render(lang))
    else:
        changed = sum(step.status == "changed" for host in hosts.values() for step in host.steps.values())
        print_text(say_plural("{count} step changed", "{count} steps changed", count=changed).render(lang))
        words = f"-t {plan.target} -i {shlex.quote(str(choices.hosts.inventory))} -f html -o report.html"
        shown = page or f"torchferry deploy report {words}"
        print_text(say("this run as a page: {command}", command=shown).render(lang))
    if failures and not dry_run:
        again = say("fix the causes above, then run the same command again: completed steps are not repeated").render(
            lang
        )
        print_text(again)
    sys.exit(status_of_hosts(hosts.values(), bool(failures)))
