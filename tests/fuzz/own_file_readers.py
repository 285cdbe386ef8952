"""Readers of what torchferry wrote, here or elsewhere: journals, evidence, bundles, hand-overs; and of an editor."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.table import SEEDS, as_json, examples, is_chosen, reader, run_command, text_of, written


class _Journal(NamedTuple):
    path: str
    manifest: bytes
    before: bytes


@cache
def _journal() -> _Journal:
    """Return the journal of a small migration."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "p")
        written(root, "train.py", (SEEDS / "python" / "1").read_bytes())
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run_command("migrate", root, "-t", "npu")
        made = next((root / ".torchferry" / "journal").rglob("manifest.json"))
        before = made.with_name("before.bin").read_bytes()
        return _Journal(made.relative_to(root).as_posix(), made.read_bytes(), before)


@reader("journal", "json", "migration/journal.py", more=lambda: [_journal().manifest])
def _read_journal(folder: Path, data: bytes) -> None:
    from torchferry.migration.journal import first_contents, journals

    manifest = written(folder, _journal().path, data)
    if data == _journal().manifest or not is_chosen(data):  # the seed itself is read whole
        manifest.with_name("before.bin").write_bytes(_journal().before)
    first_contents(folder, journals(folder))


@reader("upstream-record", "json", "migration/upstream.py", more=lambda: [as_json({"commit": "0" * 40})])
def _upstream_record(folder: Path, data: bytes) -> None:
    from torchferry.migration.upstream import recorded_commit

    recorded_commit(data)


@reader(
    "accept-file", "text", "acceptance/tables.py", "acceptance/initial.py", more=examples("torchferry.accept.toml")
)  # fmt: skip
def _accept_file(folder: Path, data: bytes) -> None:
    from torchferry.acceptance.acceptfile import read

    read(written(folder, "torchferry.accept.toml", data))
    if is_chosen(data):
        run_command("accept", "--file", folder / "torchferry.accept.toml", "--show", "--target", "npu")


def _evidence() -> list[bytes]:
    from tests.handover.made import EVIDENCE

    return [as_json(EVIDENCE)]


@reader("evidence", "json", "acceptance/evidence.py", "handover/evidence.py", more=_evidence)
def _read_evidence(folder: Path, data: bytes) -> None:
    from torchferry.acceptance import evidence
    from torchferry.handover.evidence import read_accept_evidence, verdict_word

    written(folder, "evidence.json", data)
    evidence.is_link_or_other(folder)
    verdict_word(read_accept_evidence(folder))
    found = evidence.read(folder)
    evidence.check_files(folder, found)
    evidence.as_text(found)


@reader("soak-state", "json", "acceptance/soak.py")
def _soak(folder: Path, data: bytes) -> None:
    from torchferry.acceptance import soak

    soak._total(soak._read(written(folder, "soak.json", data)))


@reader("documents", "text", "acceptance/documents.py", more=examples("README.md", most=4))
def _documents(folder: Path, data: bytes) -> None:
    from torchferry.acceptance import documents

    documents._has(text_of(data), "python train.py --device cuda")


@reader("bundle", "json", "deploy/bundle.py")
def _bundle(folder: Path, data: bytes) -> None:
    from torchferry.deploy.bundle import MANIFEST, damaged, read_bundle

    written(folder, MANIFEST, data)
    written(folder, "files/a.run", b"abc")
    damaged(read_bundle(folder))


@reader("inventory", "json", "deploy/inventory.py")
def _inventory(folder: Path, data: bytes) -> None:
    from torchferry.deploy.inventory import PlayOptions, hidden_texts, listed_hosts, masked

    options = PlayOptions(folder / "hosts.yml")
    found = listed_hosts(text_of(data), "", options)
    masked("said", hidden_texts(found, options))


@reader("inventory-ini", "text", "deploy/inventory.py")
def _inventory_ini(folder: Path, data: bytes) -> None:
    from torchferry.deploy import inventory

    for limit in ("", "a", "g:!b"):
        inventory._plain_hosts(inventory.PlayOptions(written(folder, "hosts.ini", data), limit))


@reader("deploy-records", "lines", "deploy/records.py")
def _deploy_records(folder: Path, data: bytes) -> None:
    from torchferry.deploy.records import read_records, usual_seconds

    usual_seconds(read_records(written(folder, "runs.jsonl", data)))


def _handovers() -> list[bytes]:
    from torchferry.handover.record import KIND, SCHEMA, FileOrigin

    files = [{"path": "f/train.py", "origin": next(iter(FileOrigin)).value, "sha256": "0" * 64}]
    texts = {"form": "generic", "model": "m", "domain": "d", "folder": "f", "program": "train.py", "verdict": ""}
    return [as_json({"kind": KIND, "schema": SCHEMA, **texts, "files": files, "left_out": ["x"]})]


@reader("handover-record", "json", "handover/record.py", more=_handovers)
def _handover_record(folder: Path, data: bytes) -> None:
    from torchferry.handover.record import NAME, read_record

    written(folder, NAME, data)
    written(folder, "f/train.py", b"import torch\n")
    found = read_record(folder)
    if found is not None:
        found[0].document()
    run_command("handover", "check", folder, "--for", "generic")


_FORMS = ("generic", "ascend-modelzoo", "tecorigin-modelzoo")


@reader("handover-files", "text", "handover/handed_over.py", more=examples("README.md", most=3))
def _handover_files(folder: Path, data: bytes) -> None:
    from torchferry.handover.record import NAME

    written(folder, NAME, _handovers()[0])
    for name in ("f/README.md", "f/train.py", "README.md", "f/LICENSE", "f/run.sh"):
        written(folder, name, data)
    run_command("handover", "check", folder, "--for", _FORMS[len(data) % len(_FORMS)])


def _wheels() -> list[bytes]:
    import zipfile

    from tests.installed.made import library

    wheels = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", method) as archive:
            archive.writestr(zipfile.ZipInfo("torch_npu/__init__.py"), "x = 1\n")
            archive.writestr(zipfile.ZipInfo("torch_npu/lib/x.so"), library(["libc.so.6"]))
            archive.writestr(zipfile.ZipInfo("torch_npu-2.1.0.dist-info/METADATA"), "Name: torch_npu\n")
        wheels.append(made.getvalue())
    return wheels


@reader("plugin-wheel", "bytes", "rehearsal/driver/plugin.py", more=_wheels)
def _plugin_wheel(folder: Path, data: bytes) -> None:
    from torchferry.backends import registry
    from torchferry.rehearsal.driver import plugin

    plugin.unpacked(written(folder, "torch_npu-2.1.0-py3-none-any.whl", data), registry.load("npu"))


# --- an editor ---


@reader("editor-input", "bytes", "assistant/commands.py", needs=("pygls",))
def _editor_input(folder: Path, data: bytes) -> None:
    """Messages of an editor, as pygls takes them from standard input."""
    from torchferry.assistant.language_server import ClientInput

    descriptor = os.open(written(folder, "input", data), os.O_RDONLY)
    try:
        stream = ClientInput(descriptor)
        length = 0
        while line := stream.readline():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
            elif not line.strip() and length:
                stream.read(length)
                length = 0
    finally:
        os.close(descriptor)


@cache
def _open_project() -> Any:
    from torchferry.assistant.language_server import OpenProject
    from torchferry.backends.target import Target
    from torchferry.rules.analysis import Request
    from torchferry.rules.registry import rules
    from torchferry.source.tree import list_files

    root = Path(tempfile.mkdtemp())
    return OpenProject(root, Request(root, list_files(root), Target.named("npu"), rules(), jobs=1))


def _opened() -> list[bytes]:
    _open_project()  # made before the round, which counts what is written
    return [(SEEDS / name / "1").read_bytes() for name in ("python", "shell")]


@reader("editor-document", "text", "assistant/commands.py", more=_opened, needs=("pygls",))
def _editor_document(folder: Path, data: bytes) -> None:
    project = _open_project()
    words = data.decode("utf-8", "surrogatepass" if b"\xed\xa0" in data else "replace")
    for name in ("train.py", "run.sh"):
        examined = project.examine(project.root / name, words)
        if examined is not None:
            project.fixed(examined)
