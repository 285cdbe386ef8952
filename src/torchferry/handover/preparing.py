"""Put a hand-over together: the project's files, the zoo's folders, licence lines, start scripts, texts.

Nothing is written here, and nothing of the project is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from torchferry.backends.handover_forms import HandoverForm, ZooFile, roles
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.core.secrets import FoundSecret, secrets_of_file, shown_path
from torchferry.handover.addresses import SOURCES, PublicAddress, public_addresses
from torchferry.handover.arguments import ProgramArguments, arguments_of, imported_paths
from torchferry.handover.evidence import verdict_word
from torchferry.handover.licences import decoded, has_header, has_notice, language_of_comments, with_header, with_line
from torchferry.handover.loss_lines import LogLine, import_edit, loss_lines
from torchferry.handover.programs import is_distributed, starts_processes
from torchferry.handover.project_files import LeftOut, ProjectFile, ProjectFiles
from torchferry.handover.record import FileOrigin, HandoverRecord, InsistedFile, RecordedFile
from torchferry.handover.request import HandoverFacts, HandoverRequest
from torchferry.handover.run_scripts import start_parameters
from torchferry.handover.templates import fill
from torchferry.handover.texts import template_values
from torchferry.migration.journal import digest
from torchferry.source.project import Project
from torchferry.source.text import SourceText, apply_edits

_MOST_PLACES = 20
_MODEL = re.compile(r"[A-Za-z0-9][\w.+-]*\Z")
_README = re.compile(r"readme(?:\.(?:md|rst|txt))?\Z", re.IGNORECASE)


class PreparedFile(NamedTuple):
    """A file of a hand-over: its path below the folder, its bytes, its permission bits, and whose it is."""

    path: str
    data: bytes
    mode: int
    origin: FileOrigin


class PreparedHandover(NamedTuple):
    """A hand-over, before it is written.

    Attributes:
        files: The files.
        record: What is recorded of them.
        remarks: What the user should know.
        left_out: Files that are not handed over.
        log_lines: Lines for the zoo's logger: those that were inserted, or that `--unsafe-fixes` inserts.
    """

    files: tuple[PreparedFile, ...]
    record: HandoverRecord
    remarks: tuple[Message, ...]
    left_out: tuple[LeftOut, ...]
    log_lines: tuple[LogLine, ...]


def prepare(request: HandoverRequest) -> PreparedHandover:
    """Return a hand-over.

    Raises:
        UsageError: the model's name or domain does not fit the form.
    """
    form = request.form
    model = _model_folder(form, request.model)
    folder = form.layout.format(domain=_domain(form, request.domain), model=model)
    contents = {file.path: file for file in request.files.files}
    project = Project(request.root, (path for path in contents if path.endswith(".py")))
    arguments = arguments_of(request.program, project)
    remarks = list(_argument_remarks(request, arguments))
    if starts_processes(project, request.program):
        remarks.append(
            say("{program} starts its processes itself: start it once per machine, without torchrun",
                program=request.program)
        )  # fmt: skip

    edited: dict[str, SourceText] = {}
    log_lines: tuple[LogLine, ...] = ()
    if form.logger is not None:
        log_lines = tuple(loss_lines(imported_paths(request.program, project), project, form.logger))
        if not log_lines:
            remarks.append(
                say(
                    "no print of a loss was found in {program}: the zoo's logger is not called; add its calls by hand",
                    program=request.program,
                )
            )
        elif request.unsafe:
            edited = _with_log_lines(request, project, log_lines)
    licensed = {path: _licensed(request, file, edited.get(path)) for path, file in contents.items()}
    renamed = _renamed(form, contents)
    prepared = [
        PreparedFile(f"{folder}/{renamed.get(path, path)}", data, contents[path].mode, origin)
        for path, (data, origin, _) in licensed.items()
    ]
    undecoded = [path for path, (_, _, is_text) in licensed.items() if not is_text]
    if undecoded:
        remarks.append(
            say(
                "these files cannot be decoded, so no licence line was added: {names}",
                names=", ".join(sorted(undecoded)[:5]),
            )
        )
    if request.changed is None and form.changed_line:
        remarks.append(
            say("it is unknown which files were changed: there is no migration journal and no git; name the "
                "original folder with --original")
        )  # fmt: skip
    if not request.files.licences:
        remarks.append(say("the project has no licence file: ask its authors before anything is handed over"))

    facts = HandoverFacts(
        model,
        _identifier(model),
        folder,
        start_parameters(form, arguments, roles()),
        arguments,
        tuple(sorted(path for path, (_, origin, _) in licensed.items() if origin is FileOrigin.CHANGED)),
        tuple(_addresses(contents, {path: data for path, (data, _, _) in licensed.items()})),
        request.files.licences,
        _overview(contents),
        is_distributed(project, request.program),
    )
    if not facts.is_distributed and (form.processes > 1 or any(file.when == "distributed" for file in form.files)):
        remarks.append(
            say(
                "{program} does not divide its training among several cards: nothing was written that starts it on "
                "several; the zoo asks for it, so add DistributedDataParallel, or say in the pull request why not",
                program=request.program,
            )
        )
    values = template_values(request, facts)
    present = {file.path for file in prepared}
    for wanted in form.files:
        made = _written(request, wanted, facts, values)
        if made is None:
            continue
        if made.path in present:
            remarks.append(
                say(
                    "{path} belongs to the project and is kept; the form's file of this name was not written",
                    path=made.path,
                )
            )
            continue
        prepared.append(made)
    _add_requirements(request, folder, prepared, remarks)
    record = HandoverRecord(
        form.name, model, request.domain, folder, request.program, verdict_word(request.evidence),
        tuple(RecordedFile(file.path, file.origin, digest(file.data)) for file in prepared),
        tuple(dict.fromkeys(shown_path(left.path) for left in request.files.left_out)),
        {left.place: left.reason.render("en") for left in request.files.left_out},
    )  # fmt: skip
    places = {path: f"{folder}/{renamed.get(path, path)}" for path in contents}
    insisted = _insisted_files(prepared, request.files, places)
    return PreparedHandover(
        tuple(prepared), record._replace(insisted=insisted), tuple(remarks), request.files.left_out, log_lines
    )


def _insisted_files(
    prepared: Iterable[PreparedFile], files: ProjectFiles, renamed: Mapping[str, str]
) -> tuple[InsistedFile, ...]:
    """Return what the record says of files that are handed over although they look like secrets.

    Args:
        prepared: The files of the hand-over.
        files: The files of the project.
        renamed: Where each file of the project is in the hand-over.

    Raises:
        TorchferryError: a text that the hand-over writes would hold a secret that no included file has.
    """
    insisted = [
        InsistedFile(renamed[each.path], each.line, each.reason.render("en"), each.is_secret) for each in files.included
    ]
    has_secrets = any(each.is_secret for each in insisted)
    found = list(_in_texts(prepared))
    if found and not has_secrets:
        places = ", ".join(
            f"{shown_path(path)}:{secret.line} ({secret.reason})" for path, secret in found[:_MOST_PLACES]
        )
        raise TorchferryError(
            say("texts of the hand-over would contain secrets, so nothing was written: {places}", places=places),
            say("the texts come from --set, from the evidence or from the project's README: remove the secrets there"),
        )
    insisted += [InsistedFile(path, secret.line, secret.reason.render("en"), True) for path, secret in found]
    return tuple(insisted)


def _in_texts(files: Iterable[PreparedFile]) -> Iterator[tuple[str, FoundSecret]]:
    for file in files:
        if file.origin is FileOrigin.GENERATED:
            for secret in secrets_of_file(file.path, file.data):
                yield file.path, secret


def _model_folder(form: HandoverForm, name: str) -> str:
    if not _MODEL.match(name):
        raise UsageError(
            say("`{name}` cannot be the name of a model's folder", name=name),
            say("name it with --model, in letters, digits, `_`, `.`, `+` and `-`"),
        )
    around = form.model.split("{name}")
    return name if name.startswith(around[0]) and name.endswith(around[-1]) else form.model.format(name=name)


def _domain(form: HandoverForm, domain: str) -> str:
    if "{domain}" not in form.layout:
        return ""
    if not domain or not all(_MODEL.match(part) for part in domain.split("/")):
        raise UsageError(
            say("the model's domain is missing") if not domain else say("`{name}` is not a valid domain", name=domain),
            say("name it with --domain; the zoo has {names}", names=", ".join(form.domains)),
        )
    if form.domains and domain not in form.domains:
        near = [name for name in form.domains if domain.lower() in name.lower()]
        raise UsageError(
            say("the zoo has no domain `{name}`", name=domain),
            say("name it with --domain; the zoo has {names}", names=", ".join(near or form.domains)),
        )
    return domain


def _identifier(model: str) -> str:
    return re.sub(r"\W+", "_", model).strip("_").lower() or "model"


def _renamed(form: HandoverForm, contents: Mapping[str, ProjectFile]) -> dict[str, str]:
    """Return the project's files that get another name, since the zoo's README takes theirs."""
    taken = {file.path.lower() for file in form.files if not file.outside and _README.match(file.path)}
    return {
        path: f"{path.rpartition('.')[0] or path}_original{os.path.splitext(path)[1]}"
        for path in contents
        if path.lower() in taken
    }


def _origin(request: HandoverRequest, path: str, is_edited: bool) -> FileOrigin:
    name = path.rpartition("/")[2]
    if any(fnmatchcase(path, pattern) or fnmatchcase(name, pattern) for pattern in request.own):
        return FileOrigin.OWN
    return FileOrigin.CHANGED if is_edited or path in (request.changed or ()) else FileOrigin.UNCHANGED


def _licensed(request: HandoverRequest, file: ProjectFile, edited: SourceText | None) -> tuple[bytes, FileOrigin, bool]:
    """Return a file with the licence lines that the form asks for, whose it is, and whether it is text."""
    form, path = request.form, file.path
    origin = _origin(request, path, edited is not None)
    data = file.data if edited is None else edited.encode(edited.text)
    language = language_of_comments(path)
    if origin is FileOrigin.UNCHANGED or not language or not (form.own_header or form.changed_line):
        return data, origin, True
    source = decoded(data, path)
    if source is None:
        return data, origin, False
    is_own = origin is FileOrigin.OWN and bool(form.own_header)
    if is_own and has_header(source.text, form.own_header, language):
        return data, origin, True
    try:
        if is_own and not has_notice(source.text):
            return source.encode(with_header(source, form.own_header, language, request.year)), origin, True
        if form.changed_line:
            text = with_line(source, form.changed_line, language, request.year)
            return source.encode(text), FileOrigin.CHANGED, True
    except UnicodeEncodeError:  # the file's encoding lacks a letter of the line
        return data, origin, False
    return data, origin, True


def _with_log_lines(request: HandoverRequest, project: Project, lines: Sequence[LogLine]) -> dict[str, SourceText]:
    """Return the texts with the lines for the logger."""
    logger = request.form.logger
    assert logger is not None
    texts: dict[str, SourceText] = {}
    for path in {line.path for line in lines}:
        loaded = project.file(path)
        assert loaded is not None
        file = loaded[0]
        edits = [edit for line in lines if line.path == path for edit in line.edits]
        text = apply_edits(file.source.text, [import_edit(file, logger), *edits])
        texts[path] = SourceText(text, file.source.encoding, file.source.bom)
    return texts


def _argument_remarks(request: HandoverRequest, arguments: ProgramArguments) -> list[Message]:
    remarks = []
    if not arguments.arguments:
        if arguments.otherwise:
            remarks.append(
                say("{program} takes its settings with {names}, which torchferry does not read: the start script "
                    "passes its arguments on unchanged", program=request.program, names=", ".join(arguments.otherwise))
            )  # fmt: skip
        else:
            remarks.append(
                say("no arguments were found in {program}: the start script passes its arguments on unchanged",
                    program=request.program)
            )  # fmt: skip
    if arguments.unread:
        remarks.append(
            say("arguments that are defined only at run time are passed on unchanged: {places}",
                places=", ".join(arguments.unread[:5]))
        )  # fmt: skip
    return remarks


def _addresses(contents: Mapping[str, ProjectFile], data: Mapping[str, bytes]) -> list[PublicAddress]:
    seen: dict[tuple[str, str], PublicAddress] = {}
    for path in contents:
        source = decoded(data[path], path) if path.endswith(SOURCES) else None
        for address in () if source is None else public_addresses(path, source.text):
            seen.setdefault((path, address.address), address)
    return list(seen.values())


def _overview(contents: Mapping[str, ProjectFile]) -> str:
    """Return the first paragraph of the project's README that is text."""
    file = next((file for path, file in contents.items() if _README.match(path)), None)
    source = None if file is None else decoded(file.data, file.path)
    if source is None:
        return ""
    for paragraph in re.split(r"\n[ \t]*\n", source.text.replace("\r\n", "\n")):
        line = " ".join(paragraph.split())
        is_title = re.match(r"[=~-]{3}", paragraph.partition("\n")[2]) is not None
        if re.match(r"[^\W_]", line) and len(line) > 30 and not is_title and not _CAPTION.search(line):
            return line[:1000].replace("{{", "{ {")
    return ""


_CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)?|table|tab\.|图|表|algorithm|listing)\s{0,3}\d"
    r"|\b(?:in|see) (?:the )?(?:figure|fig\.|table)\s?\d"
    r"|\b(?:the )?(?:figure|picture|image|diagram|table|plot|animation|video|gif) (?:above|below|on the (?:left|right))"
    r"|\b(?:above|below|following) (?:figure|picture|image|diagram|table|plot)|[上下]图|如图|!\[|<img",
    re.IGNORECASE,
)
"""A paragraph that speaks of a picture or a table beside it, which the overview does not have."""


def _written(
    request: HandoverRequest, wanted: ZooFile, facts: HandoverFacts, values: Mapping[str, str]
) -> PreparedFile | None:
    """Return a file from its template; None where it is not asked for."""
    asked = {
        "": True,
        "dockerfile": request.dockerfile,
        "logger": request.unsafe and request.form.logger is not None,
        "addresses": bool(facts.addresses),
        "distributed": facts.is_distributed,
    }
    if not asked[wanted.when]:
        return None
    program_folder = request.program.rpartition("/")[0]
    path = wanted.path.format(model_id=facts.model_id, program_folder=f"{program_folder}/" if program_folder else "")
    text = fill(request.form.template(wanted.template, request.lang), values)
    if wanted.header and request.form.own_header:
        text = with_header(SourceText(text), request.form.own_header, language_of_comments(path), request.year)
    mode = 0o755 if path.endswith(".sh") else 0o644
    full = path if wanted.outside else f"{facts.folder}/{path}"
    return PreparedFile(full, text.encode("utf-8"), mode, FileOrigin.GENERATED)


def _add_requirements(
    request: HandoverRequest, folder: str, prepared: list[PreparedFile], remarks: list[Message]
) -> None:
    """Add the zoo's logger to the requirements, which are made where the project has none."""
    wanted = "" if request.form.logger is None else request.form.logger.requirement
    path = f"{folder}/requirements.txt"
    number = next((number for number, file in enumerate(prepared) if file.path == path), None)
    if number is None:
        remarks.append(
            say("the project has no requirements.txt: add its packages to the requirements.txt that was written")
        )
        text = f"{wanted}\n" if wanted else ""
        heading = say("packages that the model needs, one per line").render(request.lang)
        prepared.append(PreparedFile(path, f"# {heading}\n{text}".encode(), 0o644, FileOrigin.GENERATED))
    elif wanted and wanted.encode() not in prepared[number].data:
        file = prepared[number]
        data = file.data + (b"" if file.data.endswith(b"\n") or not file.data else b"\n") + f"{wanted}\n".encode()
        prepared[number] = file._replace(data=data, origin=FileOrigin.CHANGED)
