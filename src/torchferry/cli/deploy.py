"""`torchferry deploy`: from a bare server to a container in which the card computes, without a network there."""

from __future__ import annotations

import click

from torchferry.cli import LazyGroup

_COMMANDS = {
    "bundle": "Collect the files that hosts without a network need, with their hashes.",
    "check": "Look at the hosts: what is there, what is missing; changes nothing.",
    "plan": "Print every command that `run` would send, or write the playbook.",
    "run": "Install what is missing on all hosts; run it again to go on after a failure.",
    "verify": "Ask the hosts whether the cards compute; JSON for programs.",
    "report": "Show the last run: hosts, steps, times, causes.",
    "rollback": "Take back what runs changed since the last commit.",
    "commit": "Keep what runs changed, and drop what was kept for a rollback.",
    "dockerfile": "Write a Dockerfile and a compose file with what the cards need.",
    "kubernetes": "Write the manifests of a training job for the vendor's device plugin.",
}


class _DeployGroup(LazyGroup):
    """Subcommands: `run` is in `cli/deploy_run.py`."""

    described = _COMMANDS
    prefix = "deploy_"


@click.group("deploy", cls=_DeployGroup)
def command() -> None:
    """Install driver, container and framework on servers without a network, step by step, and verify the cards.

    \b
    torchferry deploy bundle -t NAME -o bundle --file installer=FILE   on a connected machine
    torchferry deploy plan -t NAME -b bundle                           every command, to read
    torchferry deploy run -t NAME -i hosts.ini -b bundle               install; again, to go on
    torchferry deploy verify -t NAME -i hosts.ini -b bundle            do the cards compute?
    """
