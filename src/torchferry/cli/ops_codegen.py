"""`torchferry ops codegen`: registrations, headers and skeletons from a list of operators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchferry.cli.writing import creatable, file_option, write
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_notice

if TYPE_CHECKING:
    from torchferry.ops.codegen.generate import CodegenOptions, Generated


@click.command("codegen")
@click.argument("functions", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--key", default="PrivateUse1", show_default=True, help="Dispatch key of the backend: PrivateUse1 or XLA."
)
@click.option("--namespace", required=True, help="C++ namespace of the kernels, such as at::acme.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    callback=creatable,
    help="Folder for the generated files.",
)
@click.option(
    "--kernels",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Folder with finished kernels, which get no skeleton. Can be repeated.",
)
@click.option("--shards", type=click.IntRange(1, 1000), default=None, help="Number of files of registrations.")
@click.option("--card", default="", help="Model of the card: an entry whose `when` names other cards is not generated.")
@click.option("--library", default="", help="Kernel library whose calls the skeletons list as comments, such as mudnn.")
@click.option("--header", "headers", multiple=True, help="Your own header, which the generated header includes.")
@click.option("--leave-out", is_flag=True, help="Leave out entries that cannot be generated, and generate the others.")
@click.option("--build", "library_file", type=click.Path(dir_okay=False, path_type=Path), callback=creatable,
              help="Also build this library from the generated files and the C++ files of --kernels.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write nothing; print the table.")
@click.option(
    "--force", is_flag=True, help="Also replace generated files that were edited, and your own files of the same names."
)
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the table.")
@file_option
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    functions: Path,
    key: str,
    namespace: str,
    out: Path | None,
    kernels: tuple[Path, ...],
    shards: int | None,
    card: str,
    library: str,
    headers: tuple[str, ...],
    leave_out: bool,
    library_file: Path | None,
    dry_run: bool,
    force: bool,
    output_format: str,
    output_file: Path | None,
    lang: str | None,
) -> None:
    """Generate the C++ that registers the operators of FUNCTIONS, for the installed torch.

    FUNCTIONS is a YAML file with entries as in torch_musa's musa_functions.yaml. Prints for each operator how it gets
    its kernel, and which file registers it. Ends with 1 when entries were left out.
    """
    from torchferry.ops.codegen.document import torchgen_needed
    from torchferry.ops.codegen.table import as_json, as_text

    with torchgen_needed("torchferry ops codegen"):
        from torchferry.ops.codegen.generate import CodegenOptions, generate
    lang = lang or language()
    if out is None and not dry_run:
        raise TorchferryError(say("--out is not given"), say("add --out FOLDER, or --dry-run to write no files"))
    options = CodegenOptions(
        functions, key, namespace, kernels, shards=shards, card=card, library=library, headers=headers,
        leave_out=leave_out, out=out,
    )  # fmt: skip
    with doing(say("generating C++")):
        generated = generate(options)
    if out is not None and not dry_run:
        _write(generated, out, force, lang)
        if library_file is not None:
            _build(options, generated, out, library_file, lang)
    text = as_json(generated, options) if output_format == "json" else as_text(generated, options, lang)
    write(text, output_file)
    sys.exit(exitcodes.FINDINGS if generated.problems else exitcodes.CLEAN)


def _write(generated: Generated, out: Path, force: bool, lang: str) -> None:
    from torchferry.ops.codegen.written import write_generated

    outcome = write_generated(out, generated.files, generated.names.is_generated, force=force)
    for name in outcome.written:
        print_notice(say("{path} is written", path=out / name).render(lang))
    for name in outcome.removed:
        print_notice(say("{path} is removed: nothing generates it any more", path=out / name).render(lang))
    if not outcome.written and not outcome.removed:
        print_notice(say("{path} is up to date", path=out).render(lang))


def _build(options: CodegenOptions, generated: Generated, out: Path, library_file: Path, lang: str) -> None:
    from torchferry.ops.codegen.building import Build, build_library, host_sources
    from torchferry.ops.codegen.upstream import torch_folder

    own = host_sources(options.kernels)
    generated_sources = [out / name for name in generated.files if name.endswith(".cpp")]
    own = [path for path in own if path.resolve() not in {file.resolve() for file in generated_sources}]
    folders = [path if path.is_dir() else path.parent for path in options.kernels]
    build_library(Build((*generated_sources, *own), (out, *folders), torch_folder()), library_file)
    print_notice(say("{path} is written", path=library_file).render(lang))
