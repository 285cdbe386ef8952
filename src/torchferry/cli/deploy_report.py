"""`torchferry deploy report`: the last run, as a page."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.cli.completion import target_option
from torchferry.cli.deploy_options import print_json, target_and_version
from torchferry.cli.writing import file_option, write
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.deploy import records
from torchferry.deploy.page import page
from torchferry.deploy.plan import DeployPlan, facts_of
from torchferry.deploy.report import record_lines
from torchferry.deploy.script import ScriptSettings


@click.command("report")
@target_option(required=True)
@click.option("-i", "--inventory", required=True, type=click.Path(path_type=Path), help="The inventory of the run.")
@click.option(
    "-f",
    "--output-format",
    type=click.Choice(["markdown", "json", "html"]),
    default="markdown",
    help="Form of the report.",
)
@file_option
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(target: str, inventory: Path, output_format: str, output_file: Path | None, lang: str | None) -> None:
    """Show the last run on an inventory: each step of each host with its time, and why a host failed.

    It is read from a record on this machine; no host is asked. The record has host names and no addresses.

    \b
    torchferry deploy report -t NAME -i hosts.ini -o report.md
    torchferry deploy report -t NAME -i hosts.ini -f html -o report.html
    """
    lang = lang or language()
    name = target_and_version(target)[0]
    record = records.record_file(name, inventory)
    runs = records.read_records(record)
    if not runs:
        raise UsageError(
            say("the record {path} has no readable run", path=record), say("`torchferry deploy run` writes it")
        )
    last = runs[-1]
    if output_format == "json":
        hosts = {
            host: [records.outcome_row(step) for step in state.steps.values()] for host, state in last.hosts.items()
        }
        print_json({"schema": 1, "action": last.action, "target": last.target, "ok": last.ok, "hosts": hosts})
    else:
        # the titles and hints are the target's; of its settings a record needs none but the container's usual name
        facts = facts_of(name)
        values = {value.name: value.default or "-" for value in facts.values}
        plan = DeployPlan(name, facts, values, ScriptSettings({}, {}), (), (), None)
        write(page(last, plan, lang) if output_format == "html" else record_lines(last, plan, lang), output_file)
    sys.exit(exitcodes.CLEAN if last.ok else exitcodes.FINDINGS)
