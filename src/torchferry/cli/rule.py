"""`torchferry rule`: explain a rule, or list them all."""

from __future__ import annotations

import click

from torchferry.core import env
from torchferry.report.pages import page
from torchferry.rules.registry import rules


@click.command("rule")
@click.argument("code", required=False)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(code: str | None, lang: str | None) -> None:
    """Explain the rule CODE; without it, list all rules."""
    lang = lang or env.language()
    if code is None:
        for rule in rules():
            found = page(rule.CODE, lang)
            click.echo(f"{found.code}  {found.name:<28}  {found.title}")
        return
    found = page(code, lang)
    click.echo(f"{found.code} {found.name}\n\n{found.title}\n\n{found.body}")
    click.echo(f"\n# torchferry: ignore[{found.code}] reason")
