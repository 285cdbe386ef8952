"""`torchferry handover`: prepare a ported model for a model zoo."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchferry.backends.handover_forms import form_names, form_of
from torchferry.cli.completion import complete_target, target_or
from torchferry.cli.handover_check import command as check_command
from torchferry.cli.help_text import help_text
from torchferry.cli.output import tell_idle
from torchferry.cli.writing import creatable
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, language, say, say_plural
from torchferry.core.progress import doing
from torchferry.core.terminal import print_text

if TYPE_CHECKING:
    from torchferry.handover.preparing import PreparedHandover

_MOST = 10
_MOST_SECRETS = 100


class _PathOrCommand(click.Group):
    """A group whose default command takes a path: `handover check DIR` is a command, `handover DIR` is not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give what is no command to the command without a name."""
        if not args or args[0] not in (*self.commands, "--help", "-h"):
            args = ["prepare", *args]
        return super().parse_args(ctx, args)


@click.command("prepare")
@click.argument("path", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--for",
    "form_name",
    required=True,
    metavar="FORM",
    help=help_text("The zoo: {names}.", names=", ".join(form_names())),
)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    callback=creatable,
    help="New folder for the hand-over.",
)
@click.option("--model", default="", metavar="NAME", help="Exact variant of the model, such as ResNet50.")
@click.option("--domain", default="", metavar="NAME", help="Folder of the zoo for this kind of model.")
@click.option("--team", default="", metavar="NAME", help="Name of the team that hands over.")
@click.option("--dataset", default="", metavar="NAME", help="Name of the data set.")
@click.option(
    "--program", default="", metavar="FILE", help="The program that trains the model, where there are several."
)
@click.option(
    "--evidence",
    type=click.Path(exists=True, path_type=Path),
    help="What `torchferry accept` wrote: its folder or file.",
)
@click.option("--source-url", default="", metavar="URL", help="Address of the source; default: git's origin.")
@click.option("--commit", default="", metavar="ID", help="The commit that was ported; default: the one in git.")
@click.option(
    "--original",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the files before the port, to tell which were changed.",
)
@click.option("--own", multiple=True, metavar="PATTERN", help="Files that are wholly your own; can be repeated.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Files or folders to leave out; can be repeated.")
@click.option(
    "--include",
    multiple=True,
    metavar="FILE",
    help="File to hand over although it would be left out, for example for a secret; the record names "
    "it; can be repeated.",
)
@click.option(
    "--set", "texts", multiple=True, metavar="NAME=VALUE", help="Text for a place that would be empty; can be repeated."
)
@click.option("--unsafe-fixes", is_flag=True, help="Insert the calls of the zoo's logger where a loss is printed.")
@click.option("--dockerfile", is_flag=True, help="Also write a Dockerfile.")
@click.option("-t", "--target", default="", metavar="NAME", shell_complete=complete_target, callback=target_or(),
              help="The accelerator; default: the zoo's own.")  # fmt: skip
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
def prepare_command(
    path: Path,
    form_name: str,
    out: Path,
    model: str,
    domain: str,
    team: str,
    dataset: str,
    program: str,
    evidence: Path | None,
    source_url: str,
    commit: str,
    original: Path | None,
    own: tuple[str, ...],
    exclude: tuple[str, ...],
    include: tuple[str, ...],
    texts: tuple[str, ...],
    unsafe_fixes: bool,
    dockerfile: bool,
    target: str,
    lang: str | None,
) -> None:
    """Prepare folders, start scripts, licence lines, README and pull request. Short form: `handover [PATH]`.

    PATH is the ported project, which is read and not changed. Figures come from the evidence of `torchferry accept`;
    where one is missing, the text says so.

    \b
    torchferry handover --for FORM --domain NAME -o handover .
    torchferry handover check handover
    """
    from torchferry.backends.target import Target
    from torchferry.handover.evidence import read_accept_evidence
    from torchferry.handover.preparing import prepare
    from torchferry.handover.programs import choose_program, require_whole_program
    from torchferry.handover.project_files import changed_files, git_source, project_files, without_secrets
    from torchferry.handover.request import HandoverRequest
    from torchferry.handover.writing import write_handover

    lang = lang or language()
    form = form_of(form_name)
    read = None if evidence is None else read_accept_evidence(evidence)
    files = project_files(path, exclude, (out,) if evidence is None else (out, evidence), include)
    tell_idle(files.idle, lang)
    known_url, known_commit = git_source(path)
    values = {"team": team, "dataset": dataset, "source_url": without_secrets(source_url), "source_commit": commit}
    if read is None or not read.source.get("url"):
        values["source_url"] = values["source_url"] or known_url
        values["source_commit"] = values["source_commit"] or known_commit
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(say("--set takes NAME=VALUE, not `{text}`", text=text))
        values[name] = value
    name = model or ("" if read is None else read.model.get("variant") or read.model.get("name", ""))
    chosen = target or ("" if form.backend is None else form.backend.NAME) or ("" if read is None else read.target)
    if read is not None and chosen and read.target and Target.named(chosen).name != read.target:
        raise UsageError(
            say("the evidence is for {found}, but the hand-over is for {target}", found=read.target, target=chosen),
            say("judge the project there: torchferry accept -t {target}", target=chosen),
        )
    today = datetime.now(timezone.utc)
    with doing(say("finding programs")):
        chosen_program = choose_program(path, files.with_flagged, program)
        require_whole_program(path, files, chosen_program, exclude)
    request = HandoverRequest(
        form=form,
        root=path,
        files=files,
        program=chosen_program,
        model=name or path.resolve().name,
        target=Target.named(chosen) if chosen else None,
        lang=lang if form.language == "user" else form.language,
        year=today.year,
        today=today.strftime("%Y-%m-%d"),
        domain=domain,
        evidence=read,
        changed=changed_files(path, original, commit),
        own=own,
        unsafe=unsafe_fixes,
        dockerfile=dockerfile,
        said=values,
    )
    with doing(say("preparing the hand-over")):
        prepared = prepare(request)
    remarks = list(prepared.remarks)
    if read is not None and read.project and read.project != path.resolve().name:
        remarks.insert(
            0, say("the evidence is for a project named {name}: check that it is this one", name=read.project)
        )
    if read is not None and read.rehearsal:
        remarks.append(say("the evidence is from a rehearsal: it has no figures of the card, so none were written"))
    write_handover(prepared, out)
    for message in _summary(prepared, remarks, out, unsafe_fixes):
        print_text(message.render(lang))
    sys.exit(exitcodes.CLEAN)


def _summary(prepared: PreparedHandover, remarks: Iterable[Message], out: Path, is_inserted: bool) -> Iterator[Message]:
    """Yield what was written, what was inserted, and what was left out."""
    record = prepared.record
    yield say_plural(
        "wrote {count} file to {folder}",
        "wrote {count} files to {folder}",
        count=len(prepared.files) + 1,
        folder=out,
    )
    yield say("model: {folder}, started by {program}", folder=record.folder, program=record.program)
    for line in prepared.log_lines:
        place = f"{line.path}:{line.line}"
        if is_inserted:
            yield say("{place}: `{code}` was inserted", place=place, code=line.code)
        else:
            yield say("{place}: --unsafe-fixes inserts `{code}`", place=place, code=line.code)
    yield from (say("note: {text}", text=remark) for remark in remarks)
    for each in record.insisted:
        place = f"{each.path}:{each.line}" if each.line else each.path
        yield say("included because of --include: {path} ({reason})", path=place, reason=each.reason)
    named = [left for left in prepared.left_out if left.is_secret][:_MOST_SECRETS]
    named += [left for left in prepared.left_out if not left.is_secret][:_MOST]
    for left in named:
        yield say("left out: {path} ({reason})", path=left.place, reason=left.reason)
    if len(prepared.left_out) > len(named):
        yield say("left out: {count} more; handover.json lists them", count=len(prepared.left_out) - len(named))
    yield say("next: torchferry handover check {folder}", folder=out)


@click.group("handover", cls=_PathOrCommand)
def command() -> None:
    """Prepare a ported model for a model zoo, and check it against the zoo's rules.

    \b
    torchferry handover . --for FORM --domain NAME -o DIR    write the hand-over into a new folder
    torchferry handover check DIR                            say what is missing in it

    `torchferry handover prepare --help` shows the options of the first.
    """


command.add_command(prepare_command)
command.add_command(check_command)
