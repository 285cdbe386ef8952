"""`torchferry backend`: show the targets and what is known about them, with where it is known from."""

from __future__ import annotations

import ast
import inspect
import itertools
import sys

import click

from torchferry.backends import base, registry
from torchferry.backends.base import Backend
from torchferry.backends.target import Target
from torchferry.cli.completion import complete_target
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import Bilingual, language
from torchferry.core.terminal import print_error, print_text

_IDENTITY = frozenset({"NAME", "TITLE", "TITLE_ZH", "SOURCES", "DATA_DIRECTORY"})


@click.group("backend")
def command() -> None:
    """Show the targets and what is known about them."""


@command.command("list")
def list_backends() -> None:
    """List the targets."""
    lang = language()
    broken = False
    for name in registry.names():
        try:
            backend = registry.load(name)
        except UsageError as error:  # the others are listed all the same
            print_error(error.lines())
            broken = True
            continue
        title = Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)
        verified = ", ".join(backend.table("api").verified) or "-"
        print_text(f"{name:<6} {title}  ({backend.PLUGIN}; {verified})")
    if broken:
        sys.exit(exitcodes.ERROR)


@command.command("show")
@click.argument("name", metavar="NAME[@VERSION]", shell_complete=complete_target)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def show(name: str, lang: str | None) -> None:
    """Print every fact about the target NAME, and its source. What nobody has verified is UNKNOWN."""
    lang = lang or language()
    target = Target.requested(name)
    backend = target.backend
    print_text(f"{target}: {Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)}")
    for attribute, meaning in specification().items():
        if attribute in _IDENTITY:
            continue
        print_text("", f"{attribute} = {_value(getattr(backend, attribute, None), lang)}")
        print_text(f"    {meaning}")
        source = backend.source_of(attribute)
        if source:
            print_text(f"    source: {source}")
    for table in ("api", "env", "tools", "packages", "libraries", "frameworks", "images", "triton", "versions"):
        rows = list(backend.table(table))
        print_text("", f"{table}.toml: {len(rows)} rows, {sum(row.status == 'unknown' for row in rows)} UNKNOWN")


def specification() -> dict[str, str]:
    """Return the attributes of `Backend` in order, each with the sentence that stands below it in its source."""
    module = ast.parse(inspect.getsource(sys.modules[base.__name__]))
    body = next(node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == Backend.__name__)
    meanings = {}
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meanings[statement.target.id] = " ".join(str(following.value.value).split())
    return meanings


def _value(value: object, lang: str) -> str:
    if isinstance(value, dict):
        items = (f"{key}: {item.render(lang) if isinstance(item, Bilingual) else item}" for key, item in value.items())
        return "{" + "; ".join(items) + "}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
