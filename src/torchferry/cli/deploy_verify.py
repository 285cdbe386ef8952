"""`torchferry deploy verify`: whether the cards compute, asked anew and judged apart from the run."""

from __future__ import annotations

import sys
from typing import Any

import click

from torchferry.cli.deploy_options import DeployChoices, plan_options, print_json, status_of_hosts
from torchferry.core.messages import say
from torchferry.core.terminal import print_notice, print_text
from torchferry.deploy import collective, collective_play
from torchferry.deploy.plan import DeployPlan
from torchferry.deploy.playing import HostOutcome, StepOutcome
from torchferry.deploy.records import outcome_row
from torchferry.deploy.report import failure_lines, summary_json, table_lines


@click.command("verify")
@plan_options(hosts=True)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.option(
    "--collective", "asks_cluster", is_flag=True, help="Afterwards test the cards, and each link between the hosts."
)
@click.option(
    "--at-least", type=click.FloatRange(0), default=0.0, metavar="GB/S", help="Bandwidth that each link must have."
)
@click.option(
    "--probe/--no-probe",
    "probes",
    default=True,
    show_default=True,
    help="Test each card with the doctor's probe, in the container.",
)
@click.option(
    "--sample/--no-sample",
    "runs_sample",
    default=True,
    show_default=True,
    help="Run the target's sample once more, if every other step is complete.",
)
@click.option(
    "--round-timeout",
    type=click.IntRange(5, 3600),
    default=120,
    show_default=True,
    help="Seconds for the probe of a host, and for each round of --collective.",
)
def command(
    choices: DeployChoices,
    output_format: str,
    asks_cluster: bool,
    at_least: float,
    probes: bool,
    runs_sample: bool,
    round_timeout: int,
) -> None:
    """Check on every host again that each step is complete: driver, container, framework, addition on the card, sample.

    The record of the run is not used. If every other step is complete, the target's sample runs once more, which can
    take as long as in the run; --no-sample only checks whether it passed then. The next `deploy verify` or `deploy run`
    runs a failed sample again.

    The doctor's probe then uses every card, in the container and with its Python, unless the stage `verify` is left
    out: memory, a matrix product, and a sum over the cards of the host. Missing dtypes and operators fail no host here:
    `torchferry doctor --probe` reports them. With --collective the hosts compute sums in pairs and all together, and
    the report names each slow or broken link, host or card. Fewer than three links, or cards, are not compared: the
    report says so, and --at-least judges a link's bandwidth.

    With `-f json` it prints `ok`, `failures` and `hosts`. Ends with 0 when every check passes, 1 when one does not, 2
    when a host could not be asked.

    \b
    torchferry deploy verify -t NAME -i hosts.ini -b bundle -f json
    torchferry deploy verify -t NAME -i hosts.ini -b bundle --collective
    """
    plan, lang = choices.plan, choices.lang
    hosts = choices.play("verify" if runs_sample else "survey", "verify")
    document = summary_json(plan, hosts, "verify", lang)
    findings: list[collective.ClusterFinding] = []
    if asks_cluster:
        answers = collective_play.ask(plan, choices.hosts, round_timeout, print_notice)
        findings = collective.judge(answers, at_least)
        unjudged = collective.not_judged(answers, at_least)
        document["collective"] = collective.document(answers, findings, unjudged, lang)
    elif probes and any(planned.step.stage == "verify" for planned in plan.planned):
        there = [name for name, host in hosts.items() if host.failed is None and _has_container(host)]
        answers = collective_play.ask_cards(plan, choices.hosts, round_timeout, there, lambda host: None)
        findings = collective.judge(answers)
        document["probe"] = collective.probe_document(answers, findings, lang)
        for finding in findings:
            name = finding.name.partition(" ")[0]
            document["failures"].append(_failure_row(plan, name, finding.message.render(lang), lang))
            document["hosts"][name]["ok"] = False
    document["ok"] = document["ok"] and not findings
    if output_format == "json":
        print_json(document)
    else:
        print_text(*table_lines(plan, hosts, lang))
        for host in hosts.values():
            bad = [item for item in host.steps.values() if item.status not in ("ok", "changed")]
            for outcome in bad[:1]:
                print_text(*failure_lines(plan, outcome, lang))
        for left in (row for row in plan.left_out if row.chosen):
            print_text(say("not verified: {step}: {reason}", step=left.step.id, reason=left.reason).render(lang))
        if asks_cluster:
            print_text(*collective.report_lines(answers, findings, unjudged, lang))
        elif "probe" in document:
            for line in collective.probe_lines(answers, findings, lang):
                print_text(line)
        verdict = say("every check passed on every host") if document["ok"] else say("not every check passed")
        print_text(verdict.render(lang))
    sys.exit(status_of_hosts(hosts.values(), not document["ok"]))


def _has_container(host: HostOutcome) -> bool:
    """Whether the container was seen to run, or was not asked for."""
    return "container" not in host.steps or host.steps["container"].status == "ok"


def _failure_row(plan: DeployPlan, host: str, message: str, lang: str) -> dict[str, Any]:
    """Return what the probe found as one of the failures."""
    outcome = StepOutcome(host, "probe", "failed", output=message)
    explanation = plan.facts.explained(outcome.step, message)
    remedy = {"cause": explanation.causes[0].render(lang), "do": explanation.advice.render(lang)} if explanation else {}
    return {"host": host, **outcome_row(outcome), "cause": "", "do": "", **remedy}
