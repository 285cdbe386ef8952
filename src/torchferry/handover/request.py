"""What is to be handed over, and what is found out about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchferry.backends.handover_forms import HandoverForm
from torchferry.backends.target import Target
from torchferry.core.record import NamedTuple
from torchferry.handover.addresses import PublicAddress
from torchferry.handover.arguments import ProgramArguments
from torchferry.handover.evidence import AcceptEvidence
from torchferry.handover.project_files import ProjectFiles
from torchferry.handover.run_scripts import StartParameters


@dataclass(frozen=True)
class HandoverRequest:
    """What is to be handed over, and how.

    Attributes:
        form: The zoo's form.
        root: The project's folder.
        files: Its files.
        program: The program that trains the model, below the root.
        model: What the model is called.
        target: Where it runs; None where that is not known.
        lang: Language of the texts.
        year: For licence lines.
        today: For the texts, as YYYY-MM-DD.
        domain: The zoo's domain; empty for a form without domains.
        evidence: What `accept` found; None without it.
        changed: Files that differ from what others published; None where nothing tells.
        own: Patterns of files of one's own.
        unsafe: Whether lines for the logger are inserted.
        dockerfile: Whether a Dockerfile is written.
        said: Values of the templates that the user gives, by their names.
    """

    form: HandoverForm
    root: Path
    files: ProjectFiles
    program: str
    model: str
    target: Target | None
    lang: str
    year: int
    today: str
    domain: str = ""
    evidence: AcceptEvidence | None = None
    changed: frozenset[str] | None = None
    own: tuple[str, ...] = ()
    unsafe: bool = False
    dockerfile: bool = False
    said: Mapping[str, str] = field(default_factory=dict)


class HandoverFacts(NamedTuple):
    """What the texts of a hand-over are written from, beside the request.

    Attributes:
        model: What the model's folder is called.
        model_id: It as part of a file's name.
        folder: The model's folder.
        parameters: How the zoo's arguments become the program's.
        arguments: The program's arguments.
        changed: Files of others that were changed, also by the hand-over.
        addresses: Public addresses in the code.
        licence: The licence files.
        overview: What the project's README says of it at its beginning.
        is_distributed: Whether the program can be trained on several cards at once.
    """

    model: str
    model_id: str
    folder: str
    parameters: StartParameters
    arguments: ProgramArguments
    changed: tuple[str, ...]
    addresses: tuple[PublicAddress, ...]
    licence: tuple[str, ...]
    overview: str
    is_distributed: bool = True
