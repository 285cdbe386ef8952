"""`torchferry deploy verify`: whether the cards compute, asked anew and judged apart from the run."""

from __future__ import annotations

import sys

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options, print_json
from torchferry.core import exitcodes
from torchferry.core.messages import say
from torchferry.deploy.report import failure_lines, summary_json, table_lines


@click.command("verify")
@plan_options(hosts=True)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
def command(choices: DeployChoices, output_format: str) -> None:
    """Ask every host anew whether all steps hold: driver, container, framework, an addition on the card, the sample.

    This is not what the run said of itself. With `-f json` it prints `ok`, `failures` and `hosts`. Ends with 0 when all
    holds, 1 when something does not, 2 when a host could not be asked.

    \b
    torchferry deploy verify -t NAME -i hosts.ini -b bundle -f json
    """
    plan, lang = choices.plan, choices.lang
    hosts = choices.play("survey", "verify")
    document = summary_json(plan, hosts, "verify", lang)
    if output_format == "json":
        print_json(document)
    else:
        click.echo("\n".join(table_lines(plan, hosts, lang)))
        for host in hosts.values():
            bad = [item for item in host.steps.values() if item.status not in ("ok", "changed")]
            for outcome in bad[:1]:
                click.echo("\n".join(failure_lines(plan, outcome, lang)))
        for left in (row for row in plan.left_out if row.chosen):
            click.echo(say("not verified: {step}: {reason}", step=left.step.id, reason=left.reason).render(lang))
        verdict = say("all that was asked holds on every host") if document["ok"] else say("not everything holds")
        click.echo(verdict.render(lang))
    if any(step.status in ("failed", "unreachable") for host in hosts.values() for step in host.steps.values()):
        sys.exit(exitcodes.ERROR)
    sys.exit(exitcodes.CLEAN if document["ok"] else exitcodes.FINDINGS)
