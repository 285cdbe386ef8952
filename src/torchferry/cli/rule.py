"""`torchferry rule`: explain a rule, or list those of a family, or all."""

from __future__ import annotations

import json

import click

from torchferry.core import env
from torchferry.core.messages import say
from torchferry.report.families import TITLES
from torchferry.report.pages import Page, page
from torchferry.rules.registry import rules, unknown_rule


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    known = [rule.CODE for rule in rules()]
    return [code for code in sorted({*known, *(code[:3] for code in known)}) if code.startswith(incomplete.upper())]


@click.command("rule")
@click.argument("code", required=False, shell_complete=_complete)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(code: str | None, output_format: str, lang: str | None) -> None:
    """Explain the rule CODE, such as DEV101; list the rules of a family, such as DEV; without CODE, list all."""
    lang = lang or env.language()
    wanted = (code or "").upper()
    pages = [page(rule.CODE, lang) for rule in rules() if rule.CODE.startswith(wanted)]
    if not pages:
        raise unknown_rule(wanted)
    whole = any(found.code == wanted for found in pages)
    if output_format == "json":
        objects = [_object(found, lang) for found in pages]
        click.echo(json.dumps(objects[0] if whole else objects, ensure_ascii=False, indent=1))
    elif whole:
        found = pages[0]
        click.echo(f"{found.code} {found.name}\n\n{found.title}\n\n{found.body}")
        click.echo(f"\n{say('Why is this bad?').render(lang)}\n\n{found.why}")
        click.echo(f"\n# torchferry: ignore[{found.code}] reason")
    else:
        for found in pages:
            click.echo(f"{found.code}  {found.name:<28}  {found.title}")


def _object(found: Page, lang: str) -> dict[str, object]:
    family = found.code[:3]
    return {
        "code": found.code,
        "name": found.name,
        "family": family,
        "family_title": TITLES[family].render(lang),
        "title": found.title,
        "explanation": found.body,
        "why": found.why,
        "references": list(found.references),
        "kinds": sorted(kind.value for kind in found.rule.KINDS),
    }
