"""`torchferry deploy bundle`: what is carried to hosts without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.backends.deployment import Deployment
from torchferry.backends.tables import names_plugin
from torchferry.backends.target import Target
from torchferry.cli.completion import target_option
from torchferry.cli.deploy_options import assignments, target_and_version, with_version
from torchferry.cli.writing import creatable
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Message, language, say, say_plural, translatable
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice, print_text
from torchferry.deploy.bundle import CONTROLLER_FOLDER, clones_of, damaged, read_bundle, write_bundle
from torchferry.deploy.fetching import can_be_fetched, fetch, fetch_controller
from torchferry.deploy.plan import PLUGIN_VERSION, check_given, facts_of, settled

_FILE = translatable("file of a bundle")


@click.command("bundle")
@target_option(required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    callback=creatable,
    help="Folder of the bundle.",
)
@click.option(
    "--file", "files", multiple=True, metavar="NAME=PATH", help="A file or folder that you have; can be repeated."
)
@click.option("--fetch", "fetching", is_flag=True, help="Fetch what is public: image, packages, wheels.")
@click.option("--controller", is_flag=True, help="Also fetch torchferry and Ansible, for a machine without a network.")
@click.option(
    "--version",
    "plugin_version",
    default="",
    metavar="VERSION",
    help="The plugin's version, as -t NAME@VERSION: `verify` compares it with the one in the container.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting that the bundle carries; can be repeated."
)
@click.option("--check", "checking", is_flag=True, help="Compare an existing bundle with its manifest; write nothing.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def command(
    target: str,
    output: Path,
    files: tuple[str, ...],
    fetching: bool,
    controller: bool,
    plugin_version: str,
    settings: tuple[str, ...],
    checking: bool,
    lang: str | None,
) -> None:
    """Collect what hosts without a network need, in one folder with a manifest of hashes.

    You provide the vendor's installer: it is never fetched. With --fetch the rest comes from public places, the
    image with `docker pull`, packages of the system inside of that image, wheels for the container's Python. Each hash
    is compared again when a file has arrived on a host.

    \b
    torchferry deploy bundle -t NAME -o bundle --file installer=FILE --fetch
    torchferry deploy bundle -t NAME -o bundle --check
    """
    lang = lang or language()
    if checking:
        bad = damaged(read_bundle(output))
        for name in bad:
            print_text(say("{name} does not match the manifest", name=name).render(lang))
        if not bad:
            print_text(say("every file matches the manifest").render(lang))
        else:
            print_text(say("copy these files again, or make the bundle again").render(lang))
        sys.exit(exitcodes.FINDINGS if bad else exitcodes.CLEAN)
    name, version = target_and_version(target)
    facts = facts_of(name)
    given = with_version(assignments(settings, "--set"), version)
    if plugin_version:
        given = with_version(given, target_and_version(f"{name}@{plugin_version}")[1])
    check_given(facts, given)
    sources = {file: _existing(facts, file, path) for file, path in assignments(files, "--file").items()}
    with temporary_folder("torchferry-bundle-") as folder:
        if fetching:
            values = settled(facts, given)
            for file in facts.files:
                if file.name not in sources and can_be_fetched(file):
                    into = Path(folder, f"of-{file.name}")
                    into.mkdir()
                    sources[file.name] = fetch(file, facts, values, into, print_notice)
        missing = [file for file in facts.files if file.name not in sources]
        required = [file for file in missing if not file.optional]
        if required:
            raise UsageError(
                say(
                    "the bundle needs {files}",
                    files="; ".join(f"{file.name} ({file.about.render(lang)}, {file.example})" for file in required),
                ),
                say("name each: {example}", example=" ".join(f"--file {file.name}=PATH" for file in required)),
            )
        if controller:
            fetch_controller(output / CONTROLLER_FOLDER, print_notice)
        bundle = write_bundle(output, name, sources, given)
    if PLUGIN_VERSION in given:
        print_text(_belonging(name, given[PLUGIN_VERSION]).render(lang))
    for bundled in bundle.files.values():
        print_text(f"{bundled.sha256}  {bundled.size:>12}  {bundled.name} ({bundled.original})")
    for clone in clones_of(sources):
        print_text(say("left out of {name}: .git, which the hosts do not need", name=clone).render(lang))
    for file in missing:
        print_text(say("not in the bundle: {name}: {about}", name=file.name, about=file.about).render(lang))
    total = sum(bundled.size for bundled in bundle.files.values())
    summed = say_plural(
        "{count} file, {size} MB", "{count} files, {size} MB", count=len(bundle.files), size=total // 10**6
    )
    print_text(summed.render(lang))


def _belonging(target: str, version: str) -> Message:
    """Return which torch belongs to a version of the plugin, as the vendor's table says."""
    wanted = Target.named(target)
    plugin = f"{wanted.backend.PLUGIN} {version}"
    for row in sorted(wanted.plugin_rows(), key=lambda row: row.status == "unknown"):
        if names_plugin(row, version):
            if row.remark is None:
                return say("{plugin} belongs to {torch}", plugin=plugin, torch=row.name)
            return say("{plugin} belongs to {torch}: {note}", plugin=plugin, torch=row.name, note=row.remark)
    return say(
        "unknown which torch belongs to {plugin}: it is in no table; `deploy verify` compares only the "
        "plugin's version",
        plugin=plugin,
    )


def _existing(facts: Deployment, name: str, text: str) -> Path:
    """Return the path of a file that the user named.

    Raises:
        UsageError: the target has no such file, it does not exist, or it is a folder in place of a file.
    """
    file = facts.file(name)
    if file is None:
        raise unknown_name(_FILE, name, [other.name for other in facts.files])
    path = Path(text)
    if not (path.is_dir() if file.is_folder else path.is_file()):
        kind = say("a folder") if file.is_folder else say("a file")
        raise UsageError(say("--file {name}: {path} is not {kind}", name=name, path=path, kind=kind))
    return path
