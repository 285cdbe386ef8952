"""`torchferry ops new`: what an operator begins with."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from torchferry.backends.cards import default_card
from torchferry.backends.target import Target
from torchferry.cli.completion import target_option
from torchferry.cli.writing import creatable
from torchferry.core.errors import UsageError
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_notice, print_text
from torchferry.ops.codegen.document import torchgen_needed


@click.command("new")
@target_option()
@click.option(
    "--kind",
    type=click.Choice(["legacy", "legacy-meta", "customized", "override", "unstructured", "shared", "fallback"]),
    default=None,
    help="How a torch operator gets its kernel. Default: the way that leaves least code to write.",
)
@click.option("--namespace", default="", help="C++ namespace of the kernels. Default: at:: and the target's name.")
@click.option("--stub", default="", help="For legacy: torch's stub that the kernel is registered for.")
@click.option("--library", default="", help="Kernel library whose calls the skeleton lists as comments, such as mudnn.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    callback=creatable,
    help="Folder for the files. Default: the current folder.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("operator")
def command(
    target: str, kind: str | None, namespace: str, stub: str, library: str, out: Path, lang: str | None, operator: str
) -> None:
    """Start a new operator: its registration, a skeleton that compiles, its test.

    OPERATOR is a torch operator, such as tril: its whole group is started, for `ops codegen`. Or it is the schema of
    your own operator, such as "acme::scaled_add(Tensor self, Tensor other, float scale) -> Tensor": it is started in
    the target's kernel language. Existing files are not replaced; entries are appended to functions.yaml.

    \b
    torchferry ops new tril --kind legacy-meta --namespace at::acme --out kernels
    torchferry ops new -t NAME "acme::scale(Tensor x, float by) -> Tensor" --out scale
    """
    lang = lang or language()
    wanted = Target.named(target) if target else None
    if "(" in operator:
        _own(operator, wanted, out, lang)
    else:
        _of_torch(operator, wanted, kind or "", namespace, stub, library, out, lang)


def _of_torch(
    operator: str, target: Target | None, kind: str, namespace: str, stub: str, library: str, out: Path, lang: str
) -> None:
    with torchgen_needed("torchferry ops new"):
        from torchferry.ops.codegen.new_operator import FUNCTIONS, begin, write_new
    if not namespace and target is None:
        raise UsageError(
            say("neither --namespace nor --target is given"), say("add --namespace at::NAME, or --target NAME")
        )
    namespace = namespace or f"at::{target.name if target else ''}"
    key = target.backend.DISPATCH_KEY if target else "PrivateUse1"
    plugin = target.backend.PLUGIN if target else ""
    rules = default_card(target.backend).dtypes if target else {}
    lacking = [dtype for dtype, rule in rules.items() if rule == "missing"]
    begun = begin(
        operator, out, namespace, kind=kind, key=key, stub=stub, plugin=plugin, library=library, lacking=lacking
    )
    write_new(out, begun.files, FUNCTIONS)
    for name in sorted(begun.files):
        print_notice(say("{path} is written", path=out / name).render(lang))
    also = "" if key == "PrivateUse1" else f" --key {key}"
    folder = shlex.quote(str(out))
    print_text(f"{begun.kind}: {', '.join(begun.operators)}")
    print_text(
        f"torchferry ops codegen {folder}/{FUNCTIONS} --namespace {namespace}{also} --kernels {folder} "
        f"--out {folder}/generated --build {folder}/{begun.library}"
    )
    print_text(f"python -m pytest {folder}/test_{begun.root}.py")


def _own(schema: str, target: Target | None, out: Path, lang: str) -> None:
    with torchgen_needed("torchferry ops new"):
        from torchferry.ops.codegen.new_operator import write_new
    from torchferry.ops.own_operator import begin_own

    if target is None:
        raise UsageError(
            say("an operator schema is given without a target"),
            say("add --target NAME; for a torch operator, give its name without a schema"),
        )
    begun = begin_own(schema, target.backend)
    write_new(out, begun.files)
    for name in sorted(begun.files):
        print_notice(say("{path} is written", path=out / name).render(lang))
    for line in begun.remarks:
        print_notice(line.render(lang))
    print_text(begun.compile_command)
    print_text(f"python -m pytest {shlex.quote(str(out))}/test_{begun.name}.py")
