"""`torchferry rule`: explain a rule, or list those of a family, or all."""

from __future__ import annotations

from collections.abc import Sequence

import click

from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_data, print_text
from torchferry.kernels.diagnostics import PREFIX, diagnostics, document, page_lines
from torchferry.kernels.review import ReviewKind
from torchferry.report.pages import Page, page
from torchferry.rules.registry import family_name, family_title, rules, unknown_rule


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    codes = [*(rule.CODE for rule in rules()), *(kind.number for kind in diagnostics())]
    return [code for code in sorted({*codes, *(code[:3] for code in codes)}) if code.startswith(incomplete.upper())]


@click.command("rule")
@click.argument("code", required=False, shell_complete=_complete)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(code: str | None, output_format: str, lang: str | None) -> None:
    """Explain the rule CODE, such as DEV101; list the rules of a family, such as DEV; without CODE, list all.

    The numbers that `port` prints, such as PRT116, are explained too.
    """
    lang = lang or language()
    wanted = (code or "").upper()
    if wanted.startswith(PREFIX) and (listed := diagnostics(wanted)):
        _print_diagnostics(listed, wanted, output_format, lang)
        return
    pages = [page(rule.CODE, lang) for rule in rules() if rule.CODE.startswith(wanted)]
    if not pages:
        raise unknown_rule(wanted)
    whole = any(rule_page.code == wanted for rule_page in pages)
    if output_format == "json":
        objects = [_object(rule_page, lang) for rule_page in pages]
        objects += [document(kind, lang) for kind in diagnostics()] if not wanted else []
        print_data(json_text(objects[0] if whole else objects))
    elif whole:
        rule_page = pages[0]
        print_text(f"{rule_page.code} {rule_page.name}", "", rule_page.title, "", *rule_page.body.split("\n"))
        print_text("", say("Why is this bad?").render(lang), "", *rule_page.why.split("\n"))
        print_text("", f"# torchferry: ignore[{rule_page.code}] reason")
    else:
        for rule_page in pages:
            print_text(f"{rule_page.code}  {rule_page.name:<28}  {rule_page.title}")
        if not wanted:
            _print_diagnostics(diagnostics(), wanted, output_format, lang)


def _print_diagnostics(listed: Sequence[ReviewKind], wanted: str, output_format: str, lang: str) -> None:
    """Print the page of a number of `port`, or a line for each."""
    whole = len(listed) == 1 and listed[0].number == wanted
    if output_format == "json":
        objects = [document(kind, lang) for kind in listed]
        print_data(json_text(objects[0] if whole else objects))
    elif whole:
        print_text(f"{listed[0].number} {listed[0].name}", "", *page_lines(listed[0], lang))
    else:
        for kind in listed:
            print_text(f"{kind.number}  {kind.name:<28}  {kind.why.render(lang)}")


def _object(rule_page: Page, lang: str) -> dict[str, object]:
    family = family_name(rule_page.code)
    return {
        "code": rule_page.code,
        "name": rule_page.name,
        "family": family,
        "family_title": family_title(family).render(lang),
        "title": rule_page.title,
        "explanation": rule_page.body,
        "why": rule_page.why,
        "references": list(rule_page.references),
        "kinds": sorted(kind.value for kind in rule_page.rule.KINDS),
    }
