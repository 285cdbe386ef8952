"""`torchferry skill`: what a coding agent is told about torchferry, printed or put where its tool reads it."""

from __future__ import annotations

from pathlib import Path

import click

from torchferry.core.messages import language, say
from torchferry.core.terminal import print_data, print_text


@click.group("skill")
def command() -> None:
    """Print or install the skill: what a coding agent is told about torchferry.

    \b
    torchferry skill install .claude/skills     for one project
    torchferry skill show                       for a tool that reads no skills
    """


@command.command("install")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that torchferry did not write, or that was edited.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the skill.")
def install(folder: Path, force: bool, lang: str | None) -> None:
    """Write FOLDER/torchferry/SKILL.md; FOLDER is where the agent's tool looks for skills."""
    from torchferry.assistant.skill import FILE, NAME, install_skill  # imported late: the group's help needs none of it

    lang = lang or language()
    written = install_skill(folder, lang, force=force)
    path = folder / NAME / FILE
    message = say("{path} is up to date", path=path) if written is None else say("{path} is written", path=path)
    print_text(message.render(lang))


@command.command("show")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the skill.")
def show(lang: str | None) -> None:
    """Print the skill."""
    from torchferry.assistant.skill import skill_text

    print_data(skill_text(lang or language()))
