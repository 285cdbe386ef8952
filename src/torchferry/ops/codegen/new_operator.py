"""Begins an operator of torch's: its entries in the list, a skeleton that compiles, and its test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.temporary import temporary_folder
from torchferry.migration.journal import discard
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.ops.codegen.document import read_document
from torchferry.ops.codegen.entries import entries_of
from torchferry.ops.codegen.generate import CodegenOptions, generate
from torchferry.ops.codegen.new_entries import KINDS, NewEntry, default_kind, new_entries, root_name
from torchferry.ops.codegen.opinfo_test import opinfo_test
from torchferry.ops.codegen.sources import SKELETONS
from torchferry.ops.codegen.upstream import Upstream, torch_folder
from torchferry.ops.codegen.written import is_untouched, make_folder, present

FUNCTIONS = "functions.yaml"


class NewOperator(NamedTuple):
    """What an operator begins with.

    Attributes:
        root: What the operator is called: `tril`.
        kind: One of `KINDS`.
        operators: The members of its group that get an entry.
        files: Contents by name: the list with the entries, the skeleton where there is something to write, the test.
        library: Name of the library that the test loads.
    """

    root: str
    kind: str
    operators: tuple[str, ...]
    files: dict[str, bytes]
    library: str


def begin(
    operator: str, folder: Path, namespace: str, *, kind: str = "", key: str = "PrivateUse1", stub: str = "",
    plugin: str = "", library: str = "", lacking: Collection[str] = (),
) -> NewOperator:  # fmt: skip
    """Return what an operator begins with; nothing is written.

    Args:
        operator: Any member of its group, such as `tril` or `aten::tril.out`.
        folder: Where its files will be; a list of operators that is there is continued.
        namespace: C++ namespace of the kernels: `at::acme`.
        kind: One of `KINDS`; empty for the one that leaves least to write.
        key: Dispatch key of the backend.
        stub: For `legacy`: the stub of torch's that the kernel is registered for.
        plugin: Python package that the test imports.
        library: Library of kernels whose steps the skeleton lists.
        lacking: Dtypes that the card lacks, which are not tested.

    Raises:
        UsageError: torch has no such operator, or it cannot be of this kind.
        TorchferryError: the list that is there is damaged, has the operator, or cannot be continued.
    """
    name = operator.removeprefix("aten::").removeprefix("aten.")
    upstream = Upstream()
    if name not in upstream.names:
        raise unknown_name("operator", name, upstream.names)
    chosen = upstream.choose([name])
    kind = kind or default_kind(chosen, name)
    if kind not in KINDS:
        raise unknown_name("kind of kernel", kind, KINDS)
    entries = new_entries(chosen, name, kind, key, stub, torch_folder() / "include")
    root = root_name(chosen, name)
    added = "".join(f"{line}\n" for entry in entries for line in entry.lines)
    skeleton, vendor = _skeleton(added, namespace, key, library)
    test = f"test_{root}.py"
    files = {
        FUNCTIONS: _continued(folder / FUNCTIONS, added, entries, kind, root),
        test: opinfo_test(
            root,
            [entry.operator for entry in entries],
            file=test,
            key=key,
            plugin=plugin,
            vendor=vendor,
            lacking=lacking,
        ).encode(),
    }
    if skeleton:
        files[f"{root}.cpp"] = skeleton
    return NewOperator(root, kind, tuple(entry.operator for entry in entries), files, f"lib{vendor.lower()}.so")


def _skeleton(added: str, namespace: str, key: str, library: str) -> tuple[bytes, str]:
    """Return the skeleton of the kernels, as a file of the user's, and what generated files are called after."""
    with temporary_folder("torchferry-ops-") as temporary:
        functions = temporary / FUNCTIONS
        functions.write_text(added, encoding="utf-8")
        generated = generate(CodegenOptions(functions, key, namespace, library=library))
    begun = generated.files.get(SKELETONS, b"")
    if begun:
        assert is_untouched(begun)
        begun = begun.split(b"\n", 3)[3]  # its first lines say that it is generated, and this one is to be edited
    return begun, generated.names.capital


def _continued(path: Path, added: str, entries: list[NewEntry], kind: str, root: str) -> bytes:
    """Return the list with the entries at its end."""
    try:
        before = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return f"# Operators and their kernels, for `torchferry ops codegen`.\n# {root}: {kind}\n{added}".encode()
    except (OSError, UnicodeDecodeError) as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error)) from None
    known = {entry.operator: entry.line for entry in entries_of(read_document(path), path).entries}
    there = next((entry.operator for entry in entries if entry.operator in known), None)
    if there is not None:
        raise TorchferryError(
            say("{path}:{line}: the list already has `{operator}`", path=path, line=known[there], operator=there),
            say("change its entry there"),
        )
    text = f"{before.rstrip()}\n# {root}: {kind}\n{added}"
    with temporary_folder("torchferry-ops-") as temporary:
        joined = temporary / FUNCTIONS
        joined.write_text(text, encoding="utf-8")
        try:
            both = {entry.operator for entry in entries_of(read_document(joined), joined).entries}
        except TorchferryError:
            both = set()
    if both != {*known, *(entry.operator for entry in entries)}:
        raise TorchferryError(
            say("{path} does not end with its list of operators, so no entries can be appended", path=path),
            say("add these entries to the list yourself: {entries}", entries=f"\n{added}"),
        )
    return text.encode()


def write_new(folder: Path, files: Mapping[str, bytes], continued: str = "") -> None:
    """Write the files of an operator that begins: all or none, and none over what is there.

    Args:
        folder: Where; it is made if its parent exists.
        files: Contents by name.
        continued: The file that may be there, because it was read and continued.

    Raises:
        UsageError: the folder cannot be made, or another file is there already.
        TorchferryError: a file cannot be written; nothing is changed.
    """
    make_folder(folder)
    with exclusive(folder) as tree:
        names = set(tree.top.names())
        there = next((name for name in files if name in names and name != continued), None)
        if there is not None:
            raise UsageError(
                say("{path} exists", path=folder / there), say("remove it, or name another folder with --out")
            )
        before = present(tree.top, folder, continued) if continued else None
        writes = [Write(name, before if name == continued else None, data) for name, data in sorted(files.items())]
        discard(tree.place, apply(tree, writes, "ops new"))
